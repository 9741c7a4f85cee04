/* Callbacks over HTTP: a real listener on a real store; what is answered, what is stored, and in
 * which order. */
#include "../flow_world.h"

#include "../net/net_testing.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/killpoint.h"
#include "notify/notify.h"

struct fixture {
    struct flow_world f;
    struct notify_service *svc;
    struct http_server *server;
    int port;
};

static void begin(struct fixture *x)
{
    flow_world_open(&x->f, true);
    x->svc = notify_new(&x->f.c, false);
    struct http_server_options o = { .name = "notify",
                                     .listen = STR("127.0.0.1:0"),
                                     .loops = 1,
                                     .routes = notify_routes,
                                     .service = x->svc };
    struct err_info info = { .err = ERR_OK };
    assert_ok(http_server_start(x->f.w.env, &o, &x->server, &info));
    x->port = http_server_port(x->server);
}

static void end(struct fixture *x)
{
    http_server_quiesce(x->server);
    http_server_stop(x->server, 1000);
    notify_free(x->svc);
    flow_world_close(&x->f);
}

static struct test_answer answer;

static const char *request(struct fixture *x, const char *path, struct str body)
{
    return str_printf(x->f.w.arena,
                      "POST %s HTTP/1.1\r\nHost: x\r\nX-Notification: n-1\r\nCookie: "
                      "no\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
                      path, body.n, STR_ARG(body))
        .p;
}

static int post(struct fixture *x, const char *path, struct str body)
{
    const char *text = request(x, path, body);
    test_exchange_n(x->port, text, strlen(text), false, &answer);
    return answer.status;
}

static int callback(struct fixture *x, const char *verdict, struct number pay_no)
{
    return post(x, "/notify/fake", notice_text(x->f.w.arena, verdict, "PAID", pay_no, "T1", 8800));
}

static void stored_then_ok(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    assert_int_equal(callback(&x, "ok", at.pay_no), 200);
    assert_string_equal(answer.body, "success");
    assert_int_equal(flow_payment(&x.f, at.pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(callback(&x, "ok", at.pay_no), 200);
    assert_int_equal(ASK(&x.f.w, "SELECT callback_count FROM callback_log"), 2);
    /* The headers that matter, as they came. */
    assert_int_equal(
        ASK(&x.f.w,
            "SELECT CAST(headers AS TEXT) = 'X-Notification: n-1' || char(10) FROM callback_log"),
        1);
    end(&x);
}

/* Most payments succeed by a callback: they count like those that a query finds, and once. */
static void a_success_is_counted(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct metrics *metrics = metrics_new(metrics_table, metrics_table_count);
    x.f.w.env->metrics = metrics;
    struct attempt at = flow_attempt(&x.f, "A1");
    for (int i = 0; i < 2; i++)
        assert_int_equal(callback(&x, "ok", at.pay_no), 200);
    BUF_AUTO out;
    buf_init(&out, 1 << 20);
    metrics_print(metrics, &out);
    buf_add_char(&out, '\0');
    const char *line = strstr(out.p, "\nfenpay_payments_total{");
    assert_non_null(line);
    const char *value = strstr(line, "outcome=\"SUCCESS\"} ");
    assert_non_null(value);
    assert_int_equal(value[strlen("outcome=\"SUCCESS\"} ")], '1');
    end(&x);
    metrics_free(metrics);
}

static void what_does_not_verify(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    assert_int_equal(callback(&x, "bad", at.pay_no), 401);
    assert_int_equal(callback(&x, "later", at.pay_no), 503);
    assert_non_null(strstr(answer.raw, "Retry-After:"));
    assert_int_equal(x.f.keys_wanted, 1);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM callback_log"), 0);
    assert_int_equal(flow_payment(&x.f, at.pay_no).status, PAYMENT_PAYING);

    struct err_info info = { .err = ERR_OK };
    assert_ok(notify_flush_rejects(x.svc, &info));
    assert_ok(notify_flush_rejects(x.svc, &info));
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM callback_reject"), 1);
    assert_int_equal(ASK(&x.f.w, "SELECT peer = '127.0.0.1' AND account = 'fake' AND length(body) "
                                 "> 10 FROM callback_reject"),
                     1);
    end(&x);
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* One line a second for each account and reason, with the number of those that were not. */
static void a_refused_one_is_said(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    FILE *file = tmpfile();
    assert_non_null(file);
    struct log *log = log_new(fileno(file), LOG_WARN, true);
    x.f.w.env->log = log;
    struct attempt at = flow_attempt(&x.f, "A1");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(callback(&x, "bad", at.pay_no), 401);
        assert_int_equal(callback(&x, "later", at.pay_no), 503);
    }
    assert_int_equal(post(&x, "/notify/nobody", STR("x")), 404);
    assert_int_equal(post(&x, "/notify/else", STR("x")), 404);
    env_test_advance(&x.f.w.test, 1000);
    assert_int_equal(callback(&x, "bad", at.pay_no), 401);
    log_flush(log);

    char text[8192] = "";
    size_t n = (size_t)pread(fileno(file), text, sizeof text - 1, 0);
    text[n] = '\0';
    assert_int_equal(count_of(text, "\"callback.refused\""), 4);
    assert_int_equal(count_of(text, "\"level\":\"warn\""), 4);
    assert_int_equal(count_of(text, "\"account\":\"fake\""), 3);
    assert_int_equal(count_of(text, "\"reason\":\"unknown_account\""), 1);
    assert_int_equal(count_of(text, "\"peer\":\"127.0.0.1\""), 4);
    assert_int_equal(count_of(text, "\"request_id\":\""), 4);
    assert_int_equal(count_of(text, "\"suppressed\":0"), 3);
    assert_int_equal(count_of(text, "\"suppressed\":4"), 1);
    end(&x);
    log_free(log);
    fclose(file);
}

static void undecryptable_is_stored_and_asked_for_again(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    assert_int_equal(callback(&x, "raw", at.pay_no), 503);
    assert_int_equal(ASK(&x.f.w, "SELECT handle_result FROM callback_log"), HANDLE_FAILED);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM callback_due"), 1);
    end(&x);
}

static void not_our_way_in(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct str body = STR("ok\nHELLO|x|y|1|");
    assert_int_equal(post(&x, "/notify/nobody", body), 404);
    assert_int_equal(post(&x, "/notify/fake?x=1", body), 400);
    assert_int_equal(post(&x, "/notify/f%61ke", body), 400);
    assert_int_equal(test_status(x.port, "GET /notify/fake HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
    assert_int_equal(fake_channel.notices, 0);
    end(&x);
}

static enum err nothing(struct tx *tx, void *arg, struct err_info *info)
{
    (void)tx;
    (void)arg;
    (void)info;
    return ERR_OK;
}

static void let_go(struct store_job *job, enum store_outcome outcome, const struct err_info *info)
{
    (void)job;
    (void)outcome;
    (void)info;
}

static void a_full_queue_is_5xx(void **state)
{
    (void)state;
    static struct store_job places[4096];
    struct fixture x;
    size_t n = 0;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    /* A job gives its place back only after its `done`: once another one ran, none is on its way
     * back into the class that is filled here. */
    store_job_init(&places[0], x.f.w.env, x.f.w.mint, 0);
    places[0].name = "place";
    places[0].class = STORE_BACKGROUND;
    places[0].rule = nothing;
    assert_int_equal(store_run(x.f.w.store, &places[0], NULL), STORE_COMMITTED);
    for (;; n++) {
        assert_true(n < COUNT(places));
        store_job_init(&places[n], x.f.w.env, x.f.w.mint, 0);
        places[n].name = "place";
        places[n].class = STORE_CALLBACK;
        places[n].rule = nothing;
        places[n].done = let_go;
        if (!store_reserve(x.f.w.store, &places[n]))
            break;
    }
    assert_int_equal(callback(&x, "ok", at.pay_no), 503);
    assert_int_equal(flow_payment(&x.f, at.pay_no).status, PAYMENT_PAYING);
    while (n)
        store_submit(x.f.w.store, &places[--n]);
    end(&x);
}

static void a_stopping_store_is_5xx(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    store_drain(x.f.w.store);
    assert_int_equal(callback(&x, "ok", at.pay_no), 503);
    end(&x);
}

static void our_own_bug_is_kept_and_answered_ok(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    EXEC(&x.f.w, "UPDATE payment_order SET currency = 'cn'");
    assert_int_equal(callback(&x, "ok", at.pay_no), 200);
    assert_int_equal(ASK(&x.f.w, "SELECT handle_result FROM callback_log"), HANDLE_FAILED);
    assert_int_equal(ASK(&x.f.w, "SELECT length(reason) > 0 FROM callback_log"), 1);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM callback_due"), 1);
    end(&x);
}

#define CROWD 40

static void a_crowd_with_one_message(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    const char *text =
        request(&x, "/notify/fake", notice_text(x.f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    int fd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fd[i] = test_connect(x.port);
        test_puts(fd[i], text);
    }
    for (int i = 0; i < CROWD; i++) {
        test_read(fd[i], false, &answer);
        assert_int_equal(answer.status, 200);
        close(fd[i]);
    }
    assert_int_equal(ASK(&x.f.w, "SELECT callback_count FROM callback_log"), CROWD);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM outbox"), 1);
    end(&x);
}

/* The planted bug answers first; what it stores must nevertheless be whole, or the test that pulls
 * the plug would find something else. */
static void answering_before_the_commit(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x);
    struct attempt at = flow_attempt(&x.f, "A1");
    mutation_set(MUTATION_ANSWER_BEFORE_COMMIT);
    assert_int_equal(callback(&x, "ok", at.pay_no), 200);
    mutation_set(MUTATION_NONE);
    store_drain(x.f.w.store);
    assert_int_equal(flow_payment(&x.f, at.pay_no).status, PAYMENT_SUCCESS);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_then_ok),
        cmocka_unit_test(a_success_is_counted),
        cmocka_unit_test(what_does_not_verify),
        cmocka_unit_test(a_refused_one_is_said),
        cmocka_unit_test(undecryptable_is_stored_and_asked_for_again),
        cmocka_unit_test(not_our_way_in),
        cmocka_unit_test(a_full_queue_is_5xx),
        cmocka_unit_test(a_stopping_store_is_5xx),
        cmocka_unit_test(our_own_bug_is_kept_and_answered_ok),
        cmocka_unit_test(a_crowd_with_one_message),
        cmocka_unit_test(answering_before_the_commit),
    };
    return RUN_TESTS(tests);
}
