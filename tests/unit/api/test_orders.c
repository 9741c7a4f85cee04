/* Orders over HTTP, and what every request goes through: authentication, permissions, rate, hostile
 * input. */
#include "api_world.h"

#define ORDER_BODY(number)                                                                           \
    "{\"merchant_order_no\":\"" number "\",\"user_id\":\"u1\",\"subject\":\"两张票\",\"items\":[" \
    "{\"sku\":\"t\",\"name\":\"票\",\"unit_price\":4400,\"quantity\":2}]}"

static int open_world(void **state)
{
    struct api_world *t = calloc(1, sizeof *t);
    api_world_open(t, 0, api_routes);
    *state = t;
    return 0;
}

static int close_world(void **state)
{
    api_world_close(*state);
    free(*state);
    return 0;
}

static void an_order_is_created_read_and_listed(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("A-1")), 201);
    struct str no = api_member(t, "order_no");
    assert_int_equal(no.n, NUMBER_TEXT);
    assert_str(api_member(t, "status"), "WAIT_PAY");
    assert_str(api_member(t, "pay_amount"), "8800");
    assert_str(api_member(t, "create_time"), "2026-05-29T04:26:40+08:00");

    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("A-1")), 200);
    assert_true(str_eq(api_member(t, "order_no"), no));

    assert_int_equal(api_get(t, str_printf(t->w.arena, "/v1/orders/%s", no.p).p), 200);
    assert_true(str_eq(api_member(t, "order_no"), no));
    assert_int_equal(api_get(t, "/v1/orders/A-1"), 200);
    assert_true(str_eq(api_member(t, "order_no"), no));
    assert_int_equal(api_get(t, "/v1/timeline/A-1"), 200);
    assert_true(str_eq(api_member(t, "no"), no));

    assert_int_equal(api_get(t, "/v1/orders?merchant_order_no=A-1"), 200);
    assert_non_null(strstr(t->answer.body, no.p));
    assert_null(strstr(t->answer.body, "\"items\""));
}

static void another_content_under_the_same_number_is_refused(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("A-2")), 201);
    assert_int_equal(
        api_post(t, "/v1/orders",
                 "{\"merchant_order_no\":\"A-2\",\"user_id\":\"u2\",\"subject\":\"两张票\","
                 "\"items\":[{\"sku\":\"t\",\"name\":\"票\",\"unit_price\":4400,\"quantity\":2}]}"),
        409);
    assert_str(api_member(t, "code"), "ORDER_MISMATCH");
    assert_str(api_member(t, "field"), "user_id");
}

static void lists_go_page_by_page(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("P-1")), 201);
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("P-2")), 201);
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("P-3")), 201);

    assert_int_equal(api_get(t, "/v1/orders?limit=2&user_id=u1"), 200);
    assert_non_null(strstr(t->answer.body, "P-3"));
    assert_non_null(strstr(t->answer.body, "P-2"));
    assert_null(strstr(t->answer.body, "P-1"));
    struct str cursor = api_member(t, "next_cursor");
    struct str next = str_printf(t->w.arena, "/v1/orders?limit=2&user_id=u1&cursor=%s", cursor.p);
    assert_int_equal(api_get(t, next.p), 200);
    assert_non_null(strstr(t->answer.body, "P-1"));
    assert_null(strstr(t->answer.body, "P-2"));

    char *tampered = arena_copy(t->w.arena, next.p, next.n + 1);
    tampered[next.n - 3] = tampered[next.n - 3] == 'A' ? 'B' : 'A';
    assert_int_equal(api_get(t, tampered), 400);
    assert_str(api_member(t, "code"), "BAD_CURSOR");
    /* A cursor of one list is none of another. */
    assert_int_equal(api_get(t, str_printf(t->w.arena, "/v1/events?cursor=%s", cursor.p).p), 400);
    assert_str(api_member(t, "code"), "BAD_CURSOR");
}

static void another_callers_order_does_not_exist(void **state)
{
    struct api_world *t = *state;
    const char *other;
    api_world_caller(t, "other", PERMISSION_READ | PERMISSION_ORDER, &other);
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("B-1")), 201);
    struct str no = api_member(t, "order_no");
    static const char *const what[][3] = {
        { "GET", "/v1/orders/%s", NULL },
        { "POST", "/v1/orders/%s/cancel", "{}" },
        { "POST", "/v1/orders/%s/complete", NULL },
    };
    for (size_t i = 0; i < COUNT(what); i++) {
        char target[128];
        snprintf(target, sizeof target,
                 i == 0   ? "/v1/orders/%s"
                 : i == 1 ? "/v1/orders/%s/cancel"
                          : "/v1/orders/%s/complete",
                 no.p);
        check_row(api_ask(t, other, what[i][0], target, "", what[i][2]) == 404, target);
        assert_str(api_member(t, "code"), "ORDER_NOT_FOUND");
    }
    assert_int_equal(api_ask(t, other, "GET", "/v1/orders/B-1", "", NULL), 404);
    assert_int_equal(api_ask(t, other, "GET", "/v1/orders", "", NULL), 200);
    assert_null(strstr(t->answer.body, no.p));
}

static void cancelling_is_said_once_and_again(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(api_post(t, "/v1/orders", ORDER_BODY("C-1")), 201);
    assert_int_equal(api_post(t, "/v1/orders/C-1/cancel", "{\"reason\":\"不要了\"}"), 200);
    assert_str(api_member(t, "status"), "CANCELLED");
    assert_int_equal(api_post(t, "/v1/orders/C-1/cancel", "{}"), 200);
    assert_int_equal(api_post(t, "/v1/orders/C-1/complete", NULL), 409);
    assert_str(api_member(t, "code"), "ORDER_STATE");
}

/* ---- who asks ---- */

static void nobody_gets_in_without_a_key(void **state)
{
    struct api_world *t = *state;
    char *wrong = str_dup(t->w.arena, str_of(t->bearer)).p ? strdup(t->bearer) : NULL;
    size_t last = strlen(wrong) - 1;
    wrong[last] = wrong[last] == 'A' ? 'B' : 'A';
    const char *const bearers[] = { NULL, wrong, "x", "", "fp_0000000000000000_" };
    for (size_t i = 0; i < COUNT(bearers); i++) {
        assert_int_equal(api_ask(t, bearers[i], "GET", "/v1/orders", "", NULL), 401);
        assert_str(api_member(t, "code"), "UNAUTHENTICATED");
        assert_true(api_has_header(t, "WWW-Authenticate: Bearer"));
    }
    free(wrong);
    assert_int_equal(
        api_ask(t, t->bearer, "GET", "/v1/orders", "X-Fenpay-Key: 0123456789abcdef\r\n", NULL),
        401);
    assert_int_equal(api_ask(t, NULL, "GET", "/v1/orders", "Authorization: Basic YTpi\r\n", NULL),
                     401);
}

static void permissions_are_asked_before_anything_happens(void **state)
{
    struct api_world *t = *state;
    const char *reader;
    api_world_caller(t, "reader", PERMISSION_READ, &reader);
    assert_int_equal(api_ask(t, reader, "GET", "/v1/orders", "", NULL), 200);
    assert_int_equal(api_ask(t, reader, "POST", "/v1/orders", "", ORDER_BODY("D-1")), 403);
    assert_str(api_member(t, "code"), "FORBIDDEN");
    assert_int_equal(api_get(t, "/v1/callers"), 403);
    assert_int_equal(api_ask(t, reader, "GET", "/v1/incidents?scope=all", "", NULL), 403);
    assert_int_equal(api_get(t, "/v1/orders/D-1"), 404);
}

/* ---- bad input: a clear 4xx, a code, the field; nothing stored ---- */

static const struct {
    const char *target, *headers, *body;
    int status;
    const char *code, *field;
} hostile[] = {
#define O(body_, status_, code_, field_)                                                           \
    {                                                                                              \
        "/v1/orders", "", body_, status_, code_, field_                                            \
    }
    O("{\"user_id\":\"u1\"", 400, "BAD_JSON", ""),
    O("", 400, "BAD_FIELD", "user_id"),
    O("[]", 400, "BAD_JSON", ""),
    O("{\"user_id\":\"u\",\"user_id\":\"v\",\"subject\":\"s\",\"amount\":1}", 400, "BAD_JSON", ""),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1.5}", 400, "AMOUNT_INVALID", "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1e2}", 400, "AMOUNT_INVALID", "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":-1}", 400, "AMOUNT_INVALID", "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":99999999999999999999}", 400,
      "AMOUNT_INVALID", "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":100000000}", 400, "AMOUNT_INVALID",
      "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":\"88.00\"}", 400, "AMOUNT_INVALID",
      "amount"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":0}", 400, "AMOUNT_ZERO", NULL),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1,\"curency\":\"CNY\"}", 400,
      "UNKNOWN_FIELD", "curency"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1,\"currency\":\"USD\"}", 400,
      "CURRENCY_UNSUPPORTED", "currency"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1,\"currency\":\"人民币\"}", 400,
      "CURRENCY_UNSUPPORTED", "currency"),
    O("{\"user_id\":\"u\",\"subject\":\"\xff\xfe\",\"amount\":1}", 400, "BAD_JSON", ""),
    O("{\"user_id\":\"u\",\"subject\":\"a\\u0000b\",\"amount\":1}", 400, "BAD_JSON", ""),
    O("{\"user_id\":\"u\",\"subject\":\"a\\nb\",\"amount\":1}", 400, "BAD_FIELD", "subject"),
    O("{\"user_id\":\"0123456789012345678901234567890123456789012345678901234567890123456789\","
      "\"subject\":\"s\",\"amount\":1}",
      400, "BAD_FIELD", "user_id"),
    O("{\"merchant_order_no\":\"a b\",\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1}", 400,
      "BAD_FIELD", "merchant_order_no"),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"items\":[{\"sku\":\"s\",\"name\":\"n\",\"unit_"
      "price\":1,"
      "\"quantity\":1},{\"sku\":\"s\",\"name\":\"n\",\"unit_price\":1.1,\"quantity\":1}]}",
      400, "AMOUNT_INVALID", "items[1].unit_price"),
    O("{\"user_id\":\"u\",\"subject\":\"s\"}", 400, NULL, NULL),
    O("{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1,\"expire_in_s\":0}", 400, "BAD_FIELD",
      "expire_in_s"),
#undef O
    { "/v1/orders", "Idempotency-Key: k2\r\n",
      "{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1,\"request_id\":\"k1\"}", 400,
      "IDEMPOTENCY_DISAGREE", "request_id" },
    { "/v1/orders", "Idempotency-Key: a b\r\n",
      "{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1}", 400, "BAD_FIELD", "Idempotency-Key" },
    { "/v1/orders?dry_run=1", "", "{\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1}", 400,
      "UNKNOWN_FIELD", "dry_run" },
    { "/v1/orders/none/cancel", "", "{\"why\":\"\"}", 400, "UNKNOWN_FIELD", "why" },
    { "/v1/orders/none/complete", "", "{\"a\":1}", 400, "UNKNOWN_FIELD", "a" },
    { "/v1/orders/none/cancel", "", "{}", 404, "ORDER_NOT_FOUND", "" },
};

static void bad_input_gets_a_clear_answer(void **state)
{
    struct api_world *t = *state;
    int64_t before = ASK(&t->w, "SELECT COUNT(*) FROM order_info");
    for (size_t i = 0; i < COUNT(hostile); i++) {
        int status =
            api_ask(t, t->bearer, "POST", hostile[i].target, hostile[i].headers, hostile[i].body);
        check_row(status == hostile[i].status, hostile[i].body);
        if (hostile[i].code)
            check_row(str_eq(api_member(t, "code"), str_of(hostile[i].code)), hostile[i].body);
        if (hostile[i].field)
            check_row(str_eq(api_member(t, "field"), str_of(hostile[i].field)), hostile[i].body);
        check_row(api_member(t, "request_id").n > 0, hostile[i].body);
    }
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM order_info"), before);
}

static void what_the_server_refuses_looks_the_same(void **state)
{
    struct api_world *t = *state;
    assert_int_equal(api_get(t, "/v1/nothing"), 404);
    assert_str(api_member(t, "code"), "NOT_FOUND");
    assert_int_equal(api_ask(t, t->bearer, "DELETE", "/v1/orders", "", NULL), 405);
    assert_str(api_member(t, "code"), "METHOD_NOT_ALLOWED");
    assert_int_equal(api_ask(t, t->bearer, "GET", "/v1/orders?limit=1&limit=2", "", NULL), 400);
    assert_str(api_member(t, "code"), "BAD_REQUEST");

    char *big = calloc(1, 300 * 1024);
    memset(big, ' ', 300 * 1024 - 1);
    assert_int_equal(api_post(t, "/v1/orders", big), 413);
    assert_str(api_member(t, "code"), "TOO_LARGE");
    free(big);

    struct str r = str_printf(t->w.arena,
                              "POST /v1/orders HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\n"
                              "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
                              t->bearer);
    test_exchange_n(t->port, r.p, r.n, false, &t->answer);
    assert_int_equal(t->answer.status, 415);
    assert_str(api_member(t, "code"), "UNSUPPORTED_MEDIA");
}

static void messages_come_in_chinese_when_asked_for(void **state)
{
    struct api_world *t = *state;
    static const struct {
        const char *header, *message;
    } rows[] = {
        { "", "No such order" },
        { "Accept-Language: zh-CN,zh;q=0.9,en;q=0.8\r\n", "订单不存在" },
        { "Accept-Language: en-US,en;q=0.9,zh;q=0.8\r\n", "No such order" },
        { "Accept-Language: fr, zh;q=0.5\r\n", "订单不存在" },
        { "Accept-Language: zh;q=0, en;q=0.1\r\n", "No such order" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        api_ask(t, t->bearer, "GET", "/v1/orders/none", rows[i].header, NULL);
        check_row(str_eq(api_member(t, "message"), str_of(rows[i].message)), rows[i].header);
    }
    static const struct {
        const char *body, *message;
    } details[] = {
        { "{\"merchant_order_no\":\"\"}", "字段缺失、类型不符或超出范围：不能为空" },
        { "{\"merchant_orderno\":\"A\"}", "未知字段：是否想写 merchant_order_no？" },
        { "{\"amount\":1", "请求体不是合法的 JSON：第 11 字节：意外结束" },
    };
    for (size_t i = 0; i < COUNT(details); i++) {
        api_ask(t, t->bearer, "POST", "/v1/orders", "Accept-Language: zh\r\n", details[i].body);
        check_row(str_eq(api_member(t, "message"), str_of(details[i].message)), details[i].body);
    }
    api_ask(t, "nobody", "GET", "/v1/orders/none", "Accept-Language: zh\r\n", NULL);
    assert_str(api_member(t, "message"), "身份验证失败：密钥无效");
}

static void the_request_id_is_the_callers(void **state)
{
    struct api_world *t = *state;
    api_ask(t, t->bearer, "GET", "/v1/orders/none", "X-Request-Id: req-77\r\n", NULL);
    assert_str(api_member(t, "request_id"), "req-77");
    assert_int_equal(
        api_ask(t, t->bearer, "POST", "/v1/orders", "X-Request-Id: req-78\r\n", ORDER_BODY("T-1")),
        201);
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM order_info WHERE trace_id = 'req-78'"), 1);
    const char *parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    assert_int_equal(api_ask(t, t->bearer, "POST", "/v1/orders", parent, ORDER_BODY("T-2")), 201);
    assert_int_equal(ASK(&t->w, "SELECT COUNT(*) FROM order_info WHERE trace_id LIKE '00-4bf9%'"),
                     1);
}

int main(void)
{
#define T(test) cmocka_unit_test(test)
    const struct CMUnitTest tests[] = {
        T(an_order_is_created_read_and_listed),
        T(another_content_under_the_same_number_is_refused),
        T(lists_go_page_by_page),
        T(another_callers_order_does_not_exist),
        T(cancelling_is_said_once_and_again),
        T(nobody_gets_in_without_a_key),
        T(permissions_are_asked_before_anything_happens),
        T(bad_input_gets_a_clear_answer),
        T(what_the_server_refuses_looks_the_same),
        T(messages_come_in_chinese_when_asked_for),
        T(the_request_id_is_the_callers),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_world, close_world);
}
