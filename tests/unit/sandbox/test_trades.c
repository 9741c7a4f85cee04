/* Prepay, query, close: what a merchant may do with a trade and what it is told, by the protocol's
 * rules. */
#include "sandbox_testing.h"

static void prepay_pay_query(void **state)
{
    (void)state;
    struct http_reply r = prepay("ORDER00001", 8800);
    assert_answer(r, 200, NULL);
    assert_true(str_starts(member(r.body, "code_url"), STR("weixin://wxpay/bizpayurl?pr=")));
    assert_true(header(&r.headers, "Request-ID").n > 0);

    r = query("ORDER00001");
    assert_answer(r, 200, NULL);
    assert_str(member(r.body, "trade_state"), "NOTPAY");
    assert_str(member(r.body, "transaction_id"), "");
    assert_str(member(r.body, "amount.total"), "8800");

    env_test_advance(&world, 5000);
    pay("ORDER00001");
    r = query("ORDER00001");
    assert_str(member(r.body, "trade_state"), "SUCCESS");
    assert_str(member(r.body, "trade_type"), "NATIVE");
    assert_str(member(r.body, "success_time"), "2026-01-01T08:00:05+08:00");
    assert_str(member(r.body, "attach"), "a/b");
    assert_str(member(r.body, "amount.payer_total"), "8800");
    struct str id = member(r.body, "transaction_id");
    assert_int_equal(id.n, 28);

    r = call("GET", text("/v3/pay/transactions/id/" STR_FMT "?mchid=" MCHID, STR_ARG(id)).p, "");
    assert_answer(r, 200, NULL);
    assert_str(member(r.body, "out_trade_no"), "ORDER00001");

    struct sandbox_trade t = trade("ORDER00001");
    assert_str(t.state, "SUCCESS");
    assert_int_equal(t.taken_fen, 8800);
    assert_int_equal(t.prepays, 1);
    assert_int_equal(t.queries, 3);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 8800);
    assert_int_equal(sandbox_balance_fen(sandbox, STR("1900000002")), 0);
}

static void every_product_has_its_answer(void **state)
{
    (void)state;
    static const struct {
        const char *path, *extra, *member, *type;
    } rows[] = {
        { "jsapi", ",\"payer\":{\"openid\":\"oABC\"}", "prepay_id", "JSAPI" },
        { "native", "", "code_url", "NATIVE" },
        { "app", "", "prepay_id", "APP" },
        { "h5", ",\"scene_info\":{\"payer_client_ip\":\"1.2.3.4\",\"h5_info\":{\"type\":\"Wap\"}}",
          "h5_url", "MWEB" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str body = prepay_body(text("PRODUCT%zu", i).p, 100);
        body = text(STR_FMT "%s}", (int)body.n - 1, body.p, rows[i].extra);
        struct http_reply r = call("POST", text("/v3/pay/transactions/%s", rows[i].path).p, body.p);
        assert_answer(r, 200, NULL);
        check_row(member(r.body, rows[i].member).n > 0, rows[i].path);
        pay(text("PRODUCT%zu", i).p);
        r = query(text("PRODUCT%zu", i).p);
        assert_str(member(r.body, "trade_type"), rows[i].type);
    }
    assert_str(member(call("POST", "/v3/pay/transactions/jsapi", prepay_body("NOPAYER1", 1).p).body,
                      "detail.field"),
               "/payer/openid");
    assert_str(member(call("POST", "/v3/pay/transactions/h5", prepay_body("NOSCENE1", 1).p).body,
                      "detail.field"),
               "/scene_info/payer_client_ip");
}

static void what_is_wrong_with_a_prepay_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *code, *field;
    } rows[] = {
        { "\"total\":100", "\"total\":0", "PARAM_ERROR", "/amount/total" },
        { "\"total\":100", "\"total\":-1", "PARAM_ERROR", "/amount/total" },
        { "\"total\":100", "\"total\":\"100\"", "PARAM_ERROR", "/amount/total" },
        { "\"total\":100", "\"total\":1.5", "PARAM_ERROR", "/amount/total" },
        { "\"total\":100", "\"total\":3000000000", "PARAM_ERROR", "/amount/total" },
        { "\"CNY\"", "\"USD\"", "PARAM_ERROR", "/amount/currency" },
        { "\"WRONG00001\"", "\"W\"", "PARAM_ERROR", "/out_trade_no" },
        { "\"WRONG00001\"", "\"WRONG 0001\"", "PARAM_ERROR", "/out_trade_no" },
        { "\"WRONG00001\"", "12345678", "PARAM_ERROR", "/out_trade_no" },
        { "\"WRONG00001\"", "\"W123456789012345678901234567890123\"", "PARAM_ERROR",
          "/out_trade_no" },
        { "/notify/wx", "/notify/wx?a=1", "PARAM_ERROR", "/notify_url" },
        { "http://", "ftp://", "PARAM_ERROR", "/notify_url" },
        { "\"description\":\"茶\",", "", "PARAM_ERROR", "/description" },
        { "\"attach\"", "\"time_expire\":\"2026-01-01 09:00:00\",\"attach\"", "PARAM_ERROR",
          "/time_expire" },
        { "\"attach\"", "\"time_expire\":\"2026-01-09T09:00:00+08:00\",\"attach\"", "PARAM_ERROR",
          "/time_expire" },
        { APPID, "wxother", "APPID_MCHID_NOT_MATCH", "" },
        { MCHID, "1900000002", "PARAM_ERROR", "" },
        { "{\"appid\"", "{{\"appid\"", "PARAM_ERROR", "" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str body = prepay_body("WRONG00001", 100);
        const char *at = strstr(body.p, rows[i].from);
        assert_non_null(at);
        struct str spoilt =
            text("%.*s%s%s", (int)(at - body.p), body.p, rows[i].to, at + strlen(rows[i].from));
        struct http_reply r = call("POST", "/v3/pay/transactions/native", spoilt.p);
        check_row(r.status == 400, spoilt.p);
        assert_str(member(r.body, "code"), rows[i].code);
        assert_str(member(r.body, "detail.field"), rows[i].field);
        assert_null(header(&r.headers, "Request-ID").p);
    }
    struct sandbox_trade t;
    assert_int_equal(sandbox_trade_get(sandbox, STR("WRONG00001"), arena, &t), ERR_NOT_FOUND);
}

static void the_same_number_again(void **state)
{
    (void)state;
    assert_answer(prepay("AGAIN00001", 100), 200, NULL);
    assert_answer(prepay("AGAIN00001", 100), 200, NULL);
    assert_answer(prepay("AGAIN00001", 101), 403, "OUT_TRADE_NO_USED");
    assert_answer(call("POST", "/v3/pay/transactions/app", prepay_body("AGAIN00001", 100).p), 403,
                  "OUT_TRADE_NO_USED");
    assert_int_equal(trade("AGAIN00001").prepays, 2);
    assert_int_equal(trade("AGAIN00001").total_fen, 100);

    pay("AGAIN00001");
    assert_answer(prepay("AGAIN00001", 100), 400, "ORDERPAID");
    assert_answer(close_call("AGAIN00001"), 400, "ORDERPAID");

    assert_answer(prepay("AGAIN00002", 100), 200, NULL);
    struct http_reply r = close_call("AGAIN00002");
    assert_answer(r, 204, NULL);
    assert_int_equal(r.body.n, 0);
    assert_answer(close_call("AGAIN00002"), 204, NULL);
    assert_int_equal(trade("AGAIN00002").closes, 2);
    assert_answer(prepay("AGAIN00002", 100), 400, "ORDER_CLOSED");
    assert_str(member(query("AGAIN00002").body, "trade_state"), "CLOSED");
    assert_int_equal(sandbox_pay(sandbox, STR("AGAIN00002"), NULL), ERR_CONFLICT);
    assert_answer(close_call("NEVER00001"), 404, "ORDER_NOT_EXIST");
    assert_answer(query("NEVER00001"), 404, "ORDER_NOT_EXIST");
}

/* A number belongs to its merchant: another one has it free, and sees nothing of this one's. */
static void merchants_do_not_meet(void **state)
{
    (void)state;
    assert_answer(prepay("SHARED0001", 100), 200, NULL);
    struct merchant_call c =
        merchant_call("GET", "/v3/pay/transactions/out-trade-no/SHARED0001?mchid=1900000002", "");
    c.mchid = STR("1900000002");
    assert_answer(exchange_call(&c), 404, "ORDER_NOT_EXIST");
    c = merchant_call("GET", "/v3/pay/transactions/out-trade-no/SHARED0001?mchid=1900000002", "");
    assert_answer(exchange_call(&c), 400, "PARAM_ERROR");
    assert_answer(call("GET", "/v3/pay/transactions/out-trade-no/SHARED0001", ""), 400,
                  "PARAM_ERROR");
}

static void time_runs_out(void **state)
{
    (void)state;
    struct str body = prepay_body("EXPIRE0001", 100);
    body = text(STR_FMT ",\"time_expire\":\"2026-01-01T08:00:10+08:00\"}", (int)body.n - 1, body.p);
    assert_answer(call("POST", "/v3/pay/transactions/native", body.p), 200, NULL);
    env_test_advance(&world, 59999); /* ten seconds were raised to a minute */
    struct err_info info = { 0 };
    env_test_advance(&world, 1);
    assert_int_equal(sandbox_pay(sandbox, STR("EXPIRE0001"), &info), ERR_CONFLICT);
    assert_string_equal(info.text, "the time to pay is over");
    assert_str(member(query("EXPIRE0001").body, "trade_state"), "NOTPAY"); /* not closed by it */

    assert_answer(prepay("EXPIRE0002", 100), 200, NULL);
    env_test_advance(&world, 7 * 86400000LL - 1);
    assert_str(member(query("EXPIRE0002").body, "trade_state"), "NOTPAY");
    env_test_advance(&world, 1);
    assert_str(member(query("EXPIRE0002").body, "trade_state"), "CLOSED");
    assert_answer(prepay("EXPIRE0002", 100), 400, "ORDER_CLOSED");
}

static void many_trades_are_found(void **state)
{
    (void)state;
    enum { N = 3000 };
    for (int i = 0; i < N; i++)
        assert_int_equal(prepay(text("MANY%06d", i).p, i + 1).status, 200);
    for (int i = 0; i < N; i += 7)
        pay(text("MANY%06d", i).p);
    struct sandbox_trade *all;
    assert_int_equal(sandbox_trades(sandbox, arena, &all), N);
    int64_t balance_fen = 0;
    for (int i = 0; i < N; i++) {
        assert_str(all[i].out_trade_no, text("MANY%06d", i).p);
        assert_int_equal(all[i].total_fen, i + 1);
        assert_int_equal(all[i].taken_fen, i % 7 ? 0 : i + 1);
        balance_fen += all[i].taken_fen;
    }
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), balance_fen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prepay_pay_query, begin, end),
        cmocka_unit_test_setup_teardown(every_product_has_its_answer, begin, end),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_a_prepay_is_named, begin, end),
        cmocka_unit_test_setup_teardown(the_same_number_again, begin, end),
        cmocka_unit_test_setup_teardown(merchants_do_not_meet, begin, end),
        cmocka_unit_test_setup_teardown(time_runs_out, begin, end),
        cmocka_unit_test_setup_teardown(many_trades_are_found, begin, end),
    };
    return RUN_TESTS(tests);
}
