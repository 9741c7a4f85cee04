/* Payments over HTTP: status codes of starting, idempotency keys, and long polls that are woken,
 * time out, and are released at the stop. */
#include "api_world.h"

#include "api/call.h"
#include "api/waiters.h"

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

/* The payment that is, in this status. */
static const char *there_is(struct api_world *t, enum payment_status status)
{
    struct money amount;
    assert_ok(money_of(8800, STR("CNY"), &amount));
    pthread_mutex_lock(&flow_fake.lock);
    struct number no = flow_fake.payment.no;
    if (!number_is(no))
        no = number_make(NUMBER_PAYMENT, 5, mint_ids(t->w.mint, 1));
    flow_fake.payment = (struct payment) {
        .no = no,
        .order_no = number_make(NUMBER_ORDER, 5, no.id - 1),
        .caller = t->caller,
        .account = STR("wx-main"),
        .channel = CHANNEL_WECHAT,
        .method = METHOD_NATIVE,
        .user_id = STR("u1"),
        .amount = amount,
        .status = status,
        .paid_amount = status == PAYMENT_SUCCESS ? amount : money_zero(amount),
        .payer_amount = money_zero(amount),
        .channel_discount = money_zero(amount),
        .refunding = money_zero(amount),
        .refunded = money_zero(amount),
        .create_ms = WORLD_NOW_MS,
        .update_ms = WORLD_NOW_MS,
        .version = 1 + (int)status,
    };
    flow_fake.refusal = (struct refusal) { 0 };
    flow_fake.how = PAYMENT_STARTED;
    flow_fake.client = status == PAYMENT_PAYING;
    flow_fake.closing = false;
    flow_fake.starts = 0;
    pthread_mutex_unlock(&flow_fake.lock);
    struct str text = number_str(t->w.arena, no);
    return str_printf(t->w.arena, "/v1/payments/" STR_FMT, STR_ARG(text)).p;
}

#define PAY "{\"merchant_order_no\":\"A-1\",\"method\":\"native\",\"user_id\":\"u1\"}"

static void starting_answers_by_what_happened(void **state)
{
    struct api_world *t = *state;
    there_is(t, PAYMENT_PAYING);
    assert_int_equal(api_post(t, "/v1/payments", PAY), 201);
    assert_str(api_member(t, "status"), "PAYING");
    assert_str(api_member(t, "channel"), "wechat");
    assert_str(api_member(t, "method"), "native");
    assert_str(api_member(t, "amount"), "8800");
    assert_str(api_member(t, "code_url"), "weixin://wxpay/bizpayurl?pr=abc");
    flow_fake.how = PAYMENT_SAME;
    assert_int_equal(api_post(t, "/v1/payments", PAY), 200);
    there_is(t, PAYMENT_INIT);
    flow_fake.how = PAYMENT_WAITING;
    assert_int_equal(api_post(t, "/v1/payments", PAY), 202);
    assert_null(api_member(t, "code_url").p);
}

static const struct {
    enum code code;
    int status, retry_after;
} refusals[] = {
    { CODE_ORDER_NOT_FOUND, 404, 0 },  { CODE_ORDER_ALREADY_PAID, 409, 0 },
    { CODE_ORDER_EXPIRING, 409, 0 },   { CODE_ATTEMPT_CLOSING, 409, 5 },
    { CODE_CHANNEL_REFUSED, 422, 0 },  { CODE_NO_ACCOUNT, 503, 1 },
    { CODE_CHANNEL_BUSY, 503, 1 },     { CODE_BUSY, 503, 1 },
    { CODE_REQUEST_MISMATCH, 409, 0 },
};

static void refusals_keep_their_code_and_when_to_repeat(void **state)
{
    struct api_world *t = *state;
    there_is(t, PAYMENT_PAYING);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const char *name = code_info(refusals[i].code)->name;
        flow_fake.refusal = (struct refusal) {
            .code = refusals[i].code,
            .retry_after_s = refusals[i].code == CODE_ATTEMPT_CLOSING ? 5 : 0,
            .channel_class = STR("FINAL"),
            .channel_code = STR("NO_AUTH"),
            .channel_message = STR("商户无权限"),
        };
        check_row(api_post(t, "/v1/payments", PAY) == refusals[i].status, name);
        check_row(str_eq(api_member(t, "code"), str_of(name)), name);
        char line[40];
        snprintf(line, sizeof line, "Retry-After: %d\r\n", refusals[i].retry_after);
        check_row(api_has_header(t, refusals[i].retry_after ? line : "Retry-After") ==
                      (refusals[i].retry_after > 0),
                  name);
        check_row((api_member(t, "channel_code").n > 0) ==
                      (refusals[i].code == CODE_CHANNEL_REFUSED),
                  name);
    }
}

static const struct {
    const char *headers, *body;
    int status;
    const char *code, *field;
} starts[] = {
    { "", "{\"merchant_order_no\":\"A-1\"}", 400, "BAD_FIELD", "method" },
    { "", "{\"method\":\"native\"}", 400, "BAD_FIELD", "order_no" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"order_no\":\"B\"}", 400,
      "BAD_FIELD", "merchant_order_no" },
    { "", "{\"method\":\"native\",\"order_no\":\"B\",\"amount\":1}", 400, "BAD_FIELD", "amount" },
    { "", "{\"method\":\"native\",\"order_no\":\"nonsense\"}", 404, "ORDER_NOT_FOUND", "order_no" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"channel\":\"paypal\"}", 400,
      "BAD_FIELD", "channel" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"amuont\":1}", 400, "UNKNOWN_FIELD",
      "amuont" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"client_ip\":\"localhost\"}", 400,
      "BAD_FIELD", "client_ip" },
    { "", "{\"method\":\"native\",\"subject\":\"s\",\"amount\":1}", 400, "BAD_FIELD", "user_id" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"client_ip\":\"1.2.3\"}", 400,
      "BAD_FIELD", "client_ip" },
    { "", "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"client_ip\":\"..::.\"}", 400,
      "BAD_FIELD", "client_ip" },
    { "", "{\"method\":\"native\",\"user_id\":\"u\",\"amount\":1}", 400, "BAD_FIELD", "subject" },
    { "", "{\"method\":\"native\",\"user_id\":\"u\",\"subject\":\"s\",\"amount\":1.5}", 400,
      "AMOUNT_INVALID", "amount" },
    { "Idempotency-Key: a\r\n",
      "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"request_id\":\"b\"}", 400,
      "IDEMPOTENCY_DISAGREE", "request_id" },
};

static void a_bad_start_never_reaches_the_flow(void **state)
{
    struct api_world *t = *state;
    there_is(t, PAYMENT_PAYING);
    for (size_t i = 0; i < COUNT(starts); i++) {
        int status =
            api_ask(t, t->bearer, "POST", "/v1/payments", starts[i].headers, starts[i].body);
        check_row(status == starts[i].status, starts[i].body);
        check_row(str_eq(api_member(t, "code"), str_of(starts[i].code)), starts[i].body);
        check_row(str_eq(api_member(t, "field"), str_of(starts[i].field)), starts[i].body);
    }
    assert_int_equal(flow_fake.starts, 0);
}

static void a_request_id_comes_by_header_or_body(void **state)
{
    struct api_world *t = *state;
    there_is(t, PAYMENT_PAYING);
    const char *body = "{\"method\":\"native\",\"merchant_order_no\":\"A\",\"request_id\":\"b\"}";
    api_ask(t, t->bearer, "POST", "/v1/payments", "Idempotency-Key: h-1\r\n", PAY);
    assert_str(flow_fake.asked.request_id, "h-1");
    api_post(t, "/v1/payments", body);
    assert_str(flow_fake.asked.request_id, "b");
    assert_int_equal(api_ask(t, t->bearer, "POST", "/v1/payments", "Idempotency-Key: b\r\n", body),
                     201);
    assert_str(flow_fake.asked.request_id, "b");
    api_post(t, "/v1/payments", PAY);
    assert_null(flow_fake.asked.request_id.p);
    api_post(t, "/v1/payments",
             "{\"method\":\"native\",\"user_id\":\"u9\",\"subject\":\"s\",\"amount\":1}");
    assert_str(flow_fake.asked.user_id, "u9");
}

static void reading_and_closing(void **state)
{
    struct api_world *t = *state;
    const char *path = there_is(t, PAYMENT_SUCCESS);
    assert_int_equal(api_get(t, path), 200);
    assert_str(api_member(t, "status"), "SUCCESS");
    assert_str(api_member(t, "paid_amount"), "8800");
    assert_str(api_member(t, "refund_state"), "none");
    assert_null(api_member(t, "transaction_id").p);
    assert_int_equal(api_post(t, str_printf(t->w.arena, "%s/sync", path).p, NULL), 200);
    assert_int_equal(api_post(t, str_printf(t->w.arena, "%s/close", path).p, "{}"), 200);
    flow_fake.closing = true;
    assert_int_equal(api_post(t, str_printf(t->w.arena, "%s/close", path).p, "{}"), 202);

    assert_int_equal(api_get(t, "/v1/payments/P2026010100000000000000"), 404);
    assert_str(api_member(t, "code"), "PAYMENT_NOT_FOUND");
    assert_int_equal(api_get(t, str_printf(t->w.arena, "%s?wait_s=31", path).p), 400);
    assert_str(api_member(t, "field"), "wait_s");
    const char *other;
    api_world_caller(t, "other", PERMISSION_READ, &other);
    assert_int_equal(api_ask(t, other, "GET", path, "", NULL), 404);
}

/* ---- long polls ---- */

static int start_poll(struct api_world *t, const char *path, int wait_s)
{
    struct str target = str_printf(t->w.arena, "%s?wait_s=%d", path, wait_s);
    struct str r = api_request(t, t->bearer, "GET", target.p, "", NULL);
    int fd = test_connect(t->port);
    test_send(fd, r.p, r.n);
    return fd;
}

static bool has_answer(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) == 1;
}

/* Goes on with other requests, which turn the loop, until so many polls wait. */
static void until_waiting(struct api_world *t, size_t polls)
{
    for (int i = 0; i < 5000; i++) {
        if (waiters_count(t->api->waiters) == polls)
            return;
        assert_int_equal(api_get(t, "/v1/orders/none"), 404);
    }
    fail_msg("%zu polls wait, not %zu", waiters_count(t->api->waiters), polls);
}

static int end_poll(struct api_world *t, int fd)
{
    test_read(fd, false, &t->answer);
    close(fd);
    return t->answer.status;
}

static enum err wake_rule(struct tx *tx, void *arg, struct err_info *info)
{
    SQL(touch, "INSERT INTO order_due (due, id) VALUES (?, ?)");
    tx_after_commit(tx, WAKE_PAYMENT, *(int64_t *)arg);
    return tx_exec(tx, &touch, BINDS(bind_int(tx_new_id(tx)), bind_int(*(int64_t *)arg)), NULL,
                   info);
}

static void a_final_payment_is_answered_at_once(void **state)
{
    struct api_world *t = *state;
    const char *path = there_is(t, PAYMENT_CLOSED);
    assert_int_equal(api_get(t, str_printf(t->w.arena, "%s?wait_s=30", path).p), 200);
    assert_str(api_member(t, "status"), "CLOSED");
}

static void a_poll_is_woken_by_the_commit(void **state)
{
    struct api_world *t = *state;
    const char *path = there_is(t, PAYMENT_PAYING);
    int64_t id = flow_fake.payment.no.id, other = id + 1;
    int fd = start_poll(t, path, 30);
    int second = start_poll(t, path, 30);
    until_waiting(t, 2);
    world_run(&t->w, wake_rule, &other);
    assert_int_equal(waiters_count(t->api->waiters), 2);
    assert_false(has_answer(fd));

    there_is(t, PAYMENT_SUCCESS);
    world_run(&t->w, wake_rule, &id);
    assert_int_equal(end_poll(t, fd), 200);
    assert_str(api_member(t, "status"), "SUCCESS");
    assert_int_equal(end_poll(t, second), 200);
    assert_str(api_member(t, "status"), "SUCCESS");
}

static void a_poll_ends_at_its_time(void **state)
{
    struct api_world *t = *state;
    const char *path = there_is(t, PAYMENT_PAYING);
    int fd = start_poll(t, path, 5);
    until_waiting(t, 1);
    env_test_advance(&t->w.test, 4900);
    assert_int_equal(api_get(t, "/v1/orders/none"), 404);
    assert_false(has_answer(fd));
    env_test_advance(&t->w.test, 200);
    until_waiting(t, 0);
    assert_int_equal(end_poll(t, fd), 200);
    assert_str(api_member(t, "status"), "PAYING");
}

static void a_dropped_poll_is_forgotten(void **state)
{
    struct api_world *t = *state;
    const char *path = there_is(t, PAYMENT_PAYING);
    int64_t id = flow_fake.payment.no.id;
    int fd = start_poll(t, path, 30);
    until_waiting(t, 1);
    close(fd);
    env_test_advance(&t->w.test, 100);
    world_run(&t->w, wake_rule,
              &id); /* answers nobody, and nothing of the request is touched later */
    until_waiting(t, 0);
}

static void stopping_answers_the_polls(void **state)
{
    (void)state;
    struct api_world *t = calloc(1, sizeof *t);
    api_world_open(t, 0, api_routes);
    const char *path = there_is(t, PAYMENT_PAYING);
    int fd = start_poll(t, path, 30);
    until_waiting(t, 1);
    http_server_quiesce(t->server);
    api_release_waiters(t->api);
    assert_int_equal(end_poll(t, fd), 200);
    assert_str(api_member(t, "status"), "PAYING");
    api_world_close(t);
    free(t);
}

static void a_caller_has_its_rate(void **state)
{
    (void)state;
    struct api_world *t = calloc(1, sizeof *t);
    const char *second;
    struct err_info info = { 0 };
    api_world_open(t, 3, api_routes);
    const char *path = there_is(t, PAYMENT_SUCCESS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(api_get(t, path), 200);
    assert_int_equal(api_get(t, path), 429);
    assert_str(api_member(t, "code"), "RATE_LIMITED");
    assert_true(api_has_header(t, "Retry-After: 1\r\n"));
    api_world_caller(t, "second", PERMISSION_READ, &second);
    assert_int_equal(api_ask(t, second, "GET", path, "", NULL), 404); /* has its own */
    env_test_advance(&t->w.test, 1000);
    assert_int_equal(api_get(t, path), 200);

    assert_ok(caller_set_rate(&t->centre, STR("second"), CALLER_RATE_HIGH, &info));
    env_test_advance(&t->w.test, 10000); /* by then it is known everywhere */
    for (int i = 0; i < 30; i++)
        assert_int_equal(api_ask(t, second, "GET", path, "", NULL), 404);
    assert_int_equal(api_ask(t, second, "GET", path, "", NULL), 429);
    assert_ok(caller_set_rate(&t->centre, STR("second"), CALLER_RATE_UNLIMITED, &info));
    env_test_advance(&t->w.test, 10000);
    for (int i = 0; i < 60; i++)
        assert_int_equal(api_ask(t, second, "GET", path, "", NULL), 404);
    api_world_close(t);
    free(t);
}

int main(void)
{
#define T(test) cmocka_unit_test(test)
    const struct CMUnitTest tests[] = {
        T(starting_answers_by_what_happened),
        T(refusals_keep_their_code_and_when_to_repeat),
        T(a_bad_start_never_reaches_the_flow),
        T(a_request_id_comes_by_header_or_body),
        T(reading_and_closing),
        T(a_final_payment_is_answered_at_once),
        T(a_poll_is_woken_by_the_commit),
        T(a_poll_ends_at_its_time),
        T(a_dropped_poll_is_forgotten),
        T(stopping_answers_the_polls),
        T(a_caller_has_its_rate),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_world, close_world);
}
