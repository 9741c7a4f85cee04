/* Who may call: everything about the Authorization header that can be wrong, and what the refusals
 * look like. */
#include "sandbox_testing.h"

#define QUERY_TARGET "/v3/pay/transactions/out-trade-no/AUTH000001?mchid=" MCHID

static struct merchant_call good(void)
{
    return merchant_call("GET", QUERY_TARGET, "");
}

static void refused(struct merchant_call c, int status, const char *code)
{
    struct http_reply r = exchange_call(&c);
    assert_answer(r, status, code);
    assert_null(header(&r.headers, "Request-ID").p);
}

static void the_right_one_is_heard(void **state)
{
    (void)state;
    prepay("AUTH000001", 100);
    struct merchant_call c = good();
    assert_answer(exchange_call(&c), 200, NULL);
    c.serial = STR("4d5e6f"); /* hex, any case */
    assert_answer(exchange_call(&c), 200, NULL);
    c.accept = STR("text/html, */*");
    assert_answer(exchange_call(&c), 200, NULL);
}

static void the_clock_may_be_five_minutes_off(void **state)
{
    (void)state;
    prepay("AUTH000001", 100);
    static const struct {
        int off_s, status;
    } rows[] = { { -300, 200 }, { 300, 200 }, { -301, 401 }, { 301, 401 }, { -1000000000, 401 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct merchant_call c = good();
        c.timestamp = text("%lld", (long long)(NOW_MS / 1000 + rows[i].off_s));
        assert_int_equal(exchange_call(&c).status, rows[i].status);
    }
}

static void anything_signed_that_changes_is_noticed(void **state)
{
    (void)state;
    struct merchant_call c =
        merchant_call("POST", "/v3/pay/transactions/native", prepay_body("AUTH000002", 100).p);
    struct str authorization = merchant_authorization(&c);
    struct merchant_call other = c;
    other.authorization = authorization;
    other.body = prepay_body("AUTH000002", 101);
    refused(other, 401, "SIGN_ERROR");
    other = c;
    other.authorization = authorization;
    other.target = STR("/v3/pay/transactions/native?");
    refused(other, 401, "SIGN_ERROR");
    other = c;
    other.authorization = authorization;
    other.target = STR("/v3/pay/transactions/app");
    refused(other, 401, "SIGN_ERROR");

    other = c;
    other.signature = STR("AAAA");
    refused(other, 401, "SIGN_ERROR");
    other.signature = STR("not base64!");
    refused(other, 401, "SIGN_ERROR");
    other = c;
    other.serial = STR("4D5E60");
    refused(other, 401, "SIGN_ERROR");
    other = c;
    other.mchid = STR("1900000009");
    refused(other, 400, "MCH_NOT_EXISTS");
    c.authorization = authorization;
    assert_answer(exchange_call(&c), 200, NULL);
}

static void the_header_has_one_form(void **state)
{
    (void)state;
    prepay("AUTH000001", 100);
    struct merchant_call c = good();
    struct str right = merchant_authorization(&c);
    struct str items = str_sub(right, strlen("WECHATPAY2-SHA256-RSA2048 "), right.n);
    struct str rest = items, first = str_cut(&rest, ',');
    const struct {
        const char *what;
        struct str header;
        int status;
    } rows[] = {
        { "another order",
          text("WECHATPAY2-SHA256-RSA2048 " STR_FMT "," STR_FMT, STR_ARG(rest), STR_ARG(first)),
          200 },
        { "none", STR(""), 401 },
        { "another scheme", text("WECHATPAY2-SM2-WITH-SM3 " STR_FMT, STR_ARG(items)), 401 },
        { "no scheme", items, 401 },
        { "an item missing", text("WECHATPAY2-SHA256-RSA2048 " STR_FMT, STR_ARG(rest)), 401 },
        { "an item twice", text(STR_FMT "," STR_FMT, STR_ARG(right), STR_ARG(first)), 401 },
        { "an unknown item", text(STR_FMT ",x=\"1\"", STR_ARG(right)), 401 },
        { "a trailing comma", text(STR_FMT ",", STR_ARG(right)), 401 },
        { "blanks",
          text("WECHATPAY2-SHA256-RSA2048 " STR_FMT ", " STR_FMT, STR_ARG(first), STR_ARG(rest)),
          401 },
        { "no quotes",
          STR("WECHATPAY2-SHA256-RSA2048 mchid=1,nonce_str=1,timestamp=1,serial_no=1,"
              "signature=1"),
          401 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        c.authorization = rows[i].header;
        struct http_reply r = exchange_call(&c);
        check_row(r.status == rows[i].status, rows[i].what);
        if (r.status == 401)
            assert_str(member(r.body, "code"), "SIGN_ERROR");
    }
}

static void plain_headers_come_first(void **state)
{
    (void)state;
    struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
    c.agent = STR_NONE;
    c.signature = STR("AAAA");
    struct http_reply r = exchange_call(&c);
    assert_answer(r, 400, "INVALID_REQUEST");
    assert_true(header(&r.headers, "Request-ID").n > 0); /* not a transaction */
    c = good();
    c.accept = STR("text/html");
    refused(c, 400, "INVALID_REQUEST");
}

static void unknown_paths_and_methods_have_no_body(void **state)
{
    (void)state;
    static const struct {
        const char *method, *target;
        int status;
    } rows[] = {
        { "GET", "/v3/pay/transactions/nothing/x/y", 404 },
        { "GET", "/v3", 404 },
        { "GET", "/v2/pay", 404 },
        { "GET", "/v3/pay/transactions/out-trade-no/?mchid=" MCHID, 404 },
        { "GET", "/v3/pay/transactions/native", 405 },
        { "POST", "/v3/certificates", 405 },
        { "DELETE", QUERY_TARGET, 405 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_reply r = call(rows[i].method, rows[i].target, "");
        check_row(r.status == rows[i].status && r.body.n == 0, rows[i].target);
    }
}

/* Number and query are signed as they stand on the wire, and understood decoded. */
static void escaped_numbers_are_understood(void **state)
{
    (void)state;
    assert_answer(prepay("ESC|*00001", 100), 200, NULL);
    struct http_reply r = query("ESC%7C%2a00001");
    assert_answer(r, 200, NULL);
    assert_str(member(r.body, "out_trade_no"), "ESC|*00001");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_right_one_is_heard, begin, end),
        cmocka_unit_test_setup_teardown(the_clock_may_be_five_minutes_off, begin, end),
        cmocka_unit_test_setup_teardown(anything_signed_that_changes_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(the_header_has_one_form, begin, end),
        cmocka_unit_test_setup_teardown(plain_headers_come_first, begin, end),
        cmocka_unit_test_setup_teardown(unknown_paths_and_methods_have_no_body, begin, end),
        cmocka_unit_test_setup_teardown(escaped_numbers_are_understood, begin, end),
    };
    return RUN_TESTS(tests);
}
