/* The sandbox behind its HTTP listener: the same answers as in process, cut connections, control,
 * the phone's page, and callbacks from its own threads. */
#include "sandbox_testing.h"

#include <pthread.h>
#include <time.h>

static struct env real;
static struct http_server *server;

static int begin_http(void **state)
{
    begin(state);
    env_init_real(&real, NULL, NULL);
    struct http_server_options o = { .name = "sandbox",
                                     .listen = STR("127.0.0.1:0"),
                                     .loops = 1,
                                     .routes = sandbox_routes,
                                     .service = sandbox };
    assert_ok(http_server_start(&real, &o, &server, NULL));
    carrier = client_new(NULL);
    assert_non_null(carrier);
    base_url = text("http://127.0.0.1:%d", http_server_port(server));
    return 0;
}

static int end_http(void **state)
{
    http_server_stop(server, 0);
    client_free(carrier);
    return end(state);
}

static void the_same_as_in_process(void **state)
{
    (void)state;
    struct http_reply r = prepay("HTTP000001", 100);
    assert_answer(r, 200, NULL);
    assert_true(str_starts(header(&r.headers, "Content-Type"), STR("application/json")));
    assert_answer(prepay("HTTP000001", 101), 403, "OUT_TRADE_NO_USED");
    assert_answer(prepay("ESC|*00001", 1), 200, NULL);
    assert_answer(query("ESC%7C%2a00001"), 200, NULL); /* the target as it stands on the wire */
    assert_answer(close_call("HTTP000001"), 204, NULL);
    struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
    c.authorization = STR("");
    r = exchange_call(&c);
    assert_answer(r, 401, "SIGN_ERROR");
    r = plain_call("GET", "/v3/pay/transactions/nothing", NULL, NULL);
    assert_int_equal(r.status, 404);
    assert_int_equal(r.body.n, 0);
}

/* On a connection that is kept: libcurl re-sends by itself what a kept one swallowed without a
 * byte, and the test would see the second answer. */
static void answers_that_never_come(void **state)
{
    (void)state;
    assert_answer(prepay("HTTP000000", 100), 200, NULL);
    fault((struct sandbox_fault_rule) { .fault = FAULT_ANSWER_LOST, .times = 1 });
    assert_int_equal(prepay("HTTP000001", 100).outcome, HTTP_UNKNOWN);
    assert_int_equal(trade("HTTP000001").prepays, 1);
    fault((struct sandbox_fault_rule) { .fault = FAULT_TIMEOUT, .times = 1, .delay_ms = 20 });
    assert_int_equal(prepay("HTTP000001", 100).outcome, HTTP_UNKNOWN); /* held, then cut */
    fault((struct sandbox_fault_rule) { .fault = FAULT_NOT_SENT, .times = 1 });
    assert_int_equal(prepay("HTTP000001", 100).outcome, HTTP_UNKNOWN);
    assert_int_equal(trade("HTTP000001").prepays, 1);
    assert_answer(prepay("HTTP000001", 100), 200, NULL); /* the listener lives */
}

static void control_calls(void **state)
{
    (void)state;
    prepay("HTTP000001", 8800);
    static const struct {
        const char *method, *path, *body;
        int status;
    } rows[] = {
        { "POST", "/sandbox/v1/faults",
          "{\"fault\":\"CALLBACK_WRONG_AMOUNT\",\"amount_delta\":5,\"times\":1}", 204 },
        { "POST", "/sandbox/v1/faults", "{\"fault\":\"NONSENSE\"}", 400 },
        { "POST", "/sandbox/v1/faults", "{\"fault\":\"ERROR\",\"status\":200}", 400 },
        { "POST", "/sandbox/v1/faults", "{\"fault\":\"ERROR\",\"percent\":0}", 400 },
        { "POST", "/sandbox/v1/faults", "{\"fault\":\"ERROR\",\"times\":\"1\"}", 400 },
        { "POST", "/sandbox/v1/faults", "{", 400 },
        { "POST", "/sandbox/v1/pay", "{}", 404 },
        { "POST", "/sandbox/v1/pay", "{\"out_trade_no\":\"NONE000001\"}", 404 },
        { "POST", "/sandbox/v1/pay", "{\"out_trade_no\":\"HTTP000001\"}", 204 },
        { "POST", "/sandbox/v1/pay", "{\"out_trade_no\":\"HTTP000001\"}", 409 },
        { "POST", "/sandbox/v1/rotate", "{\"mchid\":\"1\"}", 404 },
        { "POST", "/sandbox/v1/rotate", "{\"mchid\":\"" MCHID "\"}", 204 },
        { "POST", "/sandbox/v1/key-mode", "{\"mchid\":\"" MCHID "\",\"public_key\":true}", 204 },
        { "POST", "/sandbox/v1/key-mode", "{\"mchid\":\"" MCHID "\"}", 404 },
        { "GET", "/sandbox/v1/balance?mchid=1", NULL, 404 },
        { "GET", "/sandbox/v1/trades/NONE000001", NULL, 404 },
        { "GET", "/sandbox/v1/nothing", NULL, 404 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_reply r = plain_call(rows[i].method, rows[i].path, rows[i].body, NULL);
        if (r.status != rows[i].status)
            print_error("%s %s: %d " STR_FMT "\n", rows[i].path, rows[i].body ? rows[i].body : "",
                        r.status, STR_ARG(r.body));
        assert_int_equal(r.status, rows[i].status);
    }
    struct http_reply r = plain_call("GET", "/sandbox/v1/faults", NULL, NULL);
    assert_str(r.body, "{\"data\":[{\"fault\":\"CALLBACK_WRONG_AMOUNT\",\"call\":\"*\",\"mchid\":"
                       "\"*\",\"times_left\":1}]}");
    assert_str(plain_call("POST", "/sandbox/v1/turn", NULL, NULL).body, "{\"sent\":1}");
    assert_str(member(opened(0), "amount.total"), "8805");
    assert_str(header(&box.got[0].headers, "Wechatpay-Serial"), KEY_ID);
    assert_int_equal(plain_call("POST", "/sandbox/v1/clear", NULL, NULL).status, 204);
    assert_str(plain_call("GET", "/sandbox/v1/faults", NULL, NULL).body, "{\"data\":[]}");
    r = plain_call("GET", "/sandbox/v1/balance?mchid=" MCHID, NULL, NULL);
    assert_str(r.body, "{\"balance\":8800}");
    r = plain_call("GET", "/sandbox/v1/trades", NULL, NULL);
    assert_str(member(r.body, "count"), "1");
    r = plain_call("GET", "/sandbox/v1/trades/HTTP000001", NULL, NULL);
    assert_str(member(r.body, "state"), "SUCCESS");
    assert_str(member(r.body, "callbacks_acknowledged"), "1");
}

static bool has(struct http_reply r, const char *what)
{
    return memmem(r.body.p, r.body.n, what, strlen(what)) != NULL;
}

static void the_phone(void **state)
{
    (void)state;
    struct http_reply r = plain_call("GET", "/phone/", NULL, "en-GB,en;q=0.9,zh;q=0.1");
    assert_int_equal(r.status, 200);
    assert_true(has(r, "<html lang=\"en\">") && has(r, "Nothing waits to be paid"));

    prepay("PHONE00001", 8805);
    struct str body = prepay_body("PHONE00002", 7);
    const char *tea = strstr(body.p, "茶");
    body = text("%.*s<b>'&%s", (int)(tea - body.p), body.p, tea + strlen("茶"));
    assert_answer(call("POST", "/v3/pay/transactions/native", body.p), 200, NULL);

    r = plain_call("GET", "/phone/", NULL, "zh-CN");
    assert_str(header(&r.headers, "Content-Type"), "text/html; charset=utf-8");
    assert_true(has(r, "<html lang=\"zh-CN\">") && has(r, "&yen;88.05") && has(r, "&yen;0.07"));
    assert_true(has(r, "&lt;b&gt;&#39;&amp;") && !has(r, "<b>") && has(r, "<svg"));
    assert_true(strstr(r.body.p, "PHONE00002") < strstr(r.body.p, "PHONE00001"));

    r = plain_call("POST", "/phone/pay/PHONE00001", "", NULL);
    assert_int_equal(r.status, 303);
    assert_str(header(&r.headers, "Location"), "/phone/PHONE00001");
    assert_str(trade("PHONE00001").state, "SUCCESS");
    assert_int_equal(plain_call("POST", "/phone/pay/PHONE00001", "", NULL).status, 303);
    assert_int_equal(trade("PHONE00001").taken_fen, 8805);
    r = plain_call("GET", "/phone/PHONE00001", NULL, NULL);
    assert_true(has(r, "Paid") && !has(r, "<button>"));
    assert_false(has(plain_call("GET", "/phone", NULL, NULL), "PHONE00001"));
    assert_int_equal(plain_call("POST", "/phone/pay/NONE000001", "", NULL).status, 404);
    r = plain_call("GET", "/phone/NONE<00001", NULL, "en");
    assert_int_equal(r.status, 404);
    assert_true(has(r, "No order has this number") && has(r, "NONE&lt;00001"));
    assert_true(has(plain_call("GET", "/phone/NONE000001", NULL, "zh-CN"), "没有这个订单号"));
}

/* ---- its own threads ---- */

struct counting {
    struct transport transport;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count, at_once, at_once_most;
};

/* Answers only when two callbacks are on their way at the same time (or after the deadline). */
static void count_exchange(struct transport *t, struct env *env, const struct http_call *c,
                           struct arena *a, struct http_reply *ret)
{
    struct counting *n = (struct counting *)(void *)t;
    struct timespec until;
    (void)env;
    (void)c;
    (void)a;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 5;
    pthread_mutex_lock(&n->lock);
    n->at_once++;
    if (n->at_once > n->at_once_most)
        n->at_once_most = n->at_once;
    pthread_cond_broadcast(&n->changed);
    while (n->at_once_most < 2 &&
           !pthread_cond_clockwait(&n->changed, &n->lock, CLOCK_MONOTONIC, &until))
        ;
    n->at_once--;
    n->count++;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    *ret = (struct http_reply) { .outcome = HTTP_ANSWERED, .status = 200 };
}

static void its_threads_send_at_once(void **state)
{
    (void)state;
    enum { N = 20 };
    struct counting n = { .transport = { count_exchange },
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER };
    struct sandbox_options o = { .env = &world.env, .wechat_count = 1, .callbacks = &n.transport };
    o.wechat[0] = test_account();
    sandbox_free(sandbox);
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    for (int i = 0; i < N; i++) {
        assert_answer(prepay(text("THREAD%04d", i).p, 1), 200, NULL);
        pay(text("THREAD%04d", i).p);
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&n.lock);
    while (n.count < N && !pthread_cond_clockwait(&n.changed, &n.lock, CLOCK_MONOTONIC, &until))
        ;
    pthread_mutex_unlock(&n.lock);
    sandbox_free(sandbox); /* waits for its threads */
    sandbox = NULL;
    assert_int_equal(n.count, N);
    assert_true(n.at_once_most >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_as_in_process, begin_http, end_http),
        cmocka_unit_test_setup_teardown(answers_that_never_come, begin_http, end_http),
        cmocka_unit_test_setup_teardown(control_calls, begin_http, end_http),
        cmocka_unit_test_setup_teardown(the_phone, begin_http, end_http),
        cmocka_unit_test_setup_teardown(its_threads_send_at_once, begin, end),
    };
    return RUN_TESTS(tests);
}
