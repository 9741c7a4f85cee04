/* test_server.c -- the server's ordinary life: routes, parameters, queries, bodies, suspending,
 * workers, admission, stopping. */
#include "net_testing.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/metrics.h"
#include "net/server.h"

static struct env env;
static struct http_server *server;
static int port;

static atomic_int done_sent, done_lost, admitted;
static struct http_request *_Atomic parked;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_open = true;
static int gate_waiting;

static void on_done(struct http_request *req, bool answered, void *arg)
{
    (void)req;
    (void)arg;
    atomic_fetch_add(answered ? &done_sent : &done_lost, 1);
}

static void echo(struct http_request *req, void *service)
{
    assert(service == &server);
    http_on_done(req, on_done, NULL);
    struct str text = str_printf(
        http_arena(req),
        "path=" STR_FMT " no=" STR_FMT " q=" STR_FMT " k0=" STR_FMT " body=" STR_FMT
        " peer=" STR_FMT " id=" STR_FMT " trace=" STR_FMT " target=" STR_FMT,
        STR_ARG(http_path(req)), STR_ARG(http_param(req, "no")), STR_ARG(http_query(req, "q")),
        STR_ARG(http_query_key(req, 0)), STR_ARG(http_body(req)), STR_ARG(http_peer(req)),
        STR_ARG(http_request_id(req)), STR_ARG(http_traceparent(req)), STR_ARG(http_target(req)));
    http_answer_header(req, STR("X-Test"), STR("yes"));
    http_answer(req, 200, "text/plain", text);
}

static void finish(struct http_request *req, void *arg)
{
    http_answer(req, 200, "text/plain", str_of(arg));
}

static void *finish_elsewhere(void *req)
{
    http_finish_later(req, finish, (char *)"finished");
    return NULL;
}

static void suspend(struct http_request *req, void *service)
{
    (void)service;
    http_suspend(req);
    pthread_t t;
    pthread_create(&t, NULL, finish_elsewhere, req);
    pthread_detach(t);
}

static void twice_second(struct http_request *req, void *arg)
{
    (void)arg;
    http_finish_later(req, finish, (char *)"second round");
}

static void suspend_twice(struct http_request *req, void *service)
{
    (void)service;
    http_suspend(req);
    http_finish_later(req, twice_second, NULL);
}

static void timed_out(struct http_request *req, void *arg)
{
    http_answer(req, 304, NULL, STR_NONE);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static atomic_int deadlines;

static void wait_for_deadline(struct http_request *req, void *service)
{
    (void)service;
    http_suspend(req);
    http_deadline(req, 30, timed_out, &deadlines);
}

static void park(struct http_request *req, void *service)
{
    (void)service;
    http_on_done(req, on_done, NULL);
    http_suspend(req);
    atomic_store(&parked, req);
}

static void blocking(struct http_request *req, void *service)
{
    (void)service;
    pthread_mutex_lock(&gate);
    gate_waiting++;
    pthread_cond_broadcast(&gate_moved);
    while (!gate_open)
        pthread_cond_wait(&gate_moved, &gate);
    gate_waiting--;
    pthread_mutex_unlock(&gate);
    http_answer(req, 201, "text/plain", http_body(req));
}

static void silent(struct http_request *req, void *service)
{
    (void)req;
    (void)service;
}

static bool admit(struct http_request *req, const struct http_route *route, void *service)
{
    (void)service;
    atomic_fetch_add(&admitted, 1);
    if (str_eq(http_header_get(http_headers(req), "X-Who", NULL), STR("nobody"))) {
        http_answer(req, 401, "text/plain", STR("who are you"));
        return false;
    }
    http_set_user(req, (void *)(uintptr_t)route);
    return true;
}

static int turns, turns_ended;
static void turn_begin(void *service)
{
    (void)service;
    turns++;
}
static void turn_end(void *service)
{
    (void)service;
    turns_ended++;
}

static const struct http_route routes[] = {
    { "GET", "/v1/things/{no}", 0, 1, 1, 0, echo },
    { "POST", "/v1/things/{no}", 0, 1, 1, 64, echo },
    { "GET", "/v1/things/special", HTTP_OPEN, 0, 0, 0, echo },
    { "POST", "/notify/{no}", HTTP_RAW_PATH | HTTP_OPEN, 0, 0, 64, echo },
    { "GET", "/suspend", HTTP_OPEN, 0, 0, 0, suspend },
    { "GET", "/twice", HTTP_OPEN, 0, 0, 0, suspend_twice },
    { "GET", "/deadline", HTTP_OPEN, 0, 0, 0, wait_for_deadline },
    { "GET", "/park", HTTP_OPEN, 0, 0, 0, park },
    { "POST", "/block", HTTP_BLOCKING | HTTP_OPEN, 0, 0, 64, blocking },
    { "GET", "/silent", HTTP_OPEN, 0, 0, 0, silent },
    { "GET", "/", HTTP_OPEN, 0, 0, 0, echo },
    { 0 },
};

static int start(void **state)
{
    (void)state;
    env_init_real(&env, NULL, NULL);
    struct http_server_options o = {
        .name = "test",
        .listen = STR("127.0.0.1:0"),
        .workers = 1,
        .worker_queue = 1,
        .routes = routes,
        .service = &server,
        .admit = admit,
        .turn_begin = turn_begin,
        .turn_end = turn_end,
    };
    struct err_info info = { 0 };
    turns = turns_ended = 0;
    atomic_store(&done_sent, 0);
    atomic_store(&done_lost, 0);
    atomic_store(&parked, NULL);
    if (http_server_start(&env, &o, &server, &info)) {
        print_error("%s\n", info.text);
        return -1;
    }
    port = http_server_port(server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (server)
        http_server_stop(server, 1000);
    server = NULL;
    return 0;
}

static struct test_answer got;

static void ask(const char *request)
{
    test_exchange_n(port, request, strlen(request), false, &got);
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"
#define has(text)   assert_non_null(strstr(got.raw, text))
#define hasnt(text) assert_null(strstr(got.raw, text))

static void test_routes_and_views(void **state)
{
    (void)state;
    ask("POST /v1/things/a%2Fb%20c?q=%41+b&q2=&x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
        "X-Request-Id: abc-1\r\n"
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\nhello");
    assert_int_equal(got.status, 200);
    has("path=/v1/things/a/b c no=a/b c q=A b k0=q body=hello peer=127.0.0.1 id=abc-1 "
        "trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 "
        "target=/v1/things/a%2Fb%20c?q=%41+b&q2=&x");
    has("X-Request-Id: abc-1\r\n");
    has("X-Test: yes\r\n");
    has("Content-Type: text/plain\r\n");

    ask(GET("/v1/things/special"));
    has("no= ");
    ask(GET("/"));
    assert_int_equal(got.status, 200);
    ask("POST /notify/7 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
    assert_int_equal(got.status, 200);
    has("body=abcde ");
    has("Connection: close\r\n"); /* what the library tolerates in chunks shall not become a request
                                   */
}

static void test_request_id_is_minted_when_not_sane(void **state)
{
    (void)state;
    ask("GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\r\ntraceparent: 00-zz\r\n\r\n");
    assert_int_equal(got.status, 200);
    hasnt("id=a b");
    has("trace= ");
    const char *id = strstr(got.raw, "X-Request-Id: ");
    assert_non_null(id);
    assert_int_equal(strspn(id + 14, "0123456789abcdef"), 16);
}

static void test_no_route(void **state)
{
    (void)state;
    ask(GET("/v1/nothing"));
    assert_int_equal(got.status, 404);
    has("\"code\":\"NOT_FOUND\"");
    has("Content-Type: application/json");
    hasnt("Connection: close");
    ask("DELETE /v1/things/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(got.status, 405);
    has("Allow: GET, POST\r\n");
    ask("OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(got.status, 405);
    has("Allow: GET\r\n");

    int fd = test_connect(port); /* a HEAD answer has no body */
    test_puts(fd, "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    test_read(fd, true, &got);
    close(fd);
    assert_int_equal(got.status, 405);
    assert_null(strstr(got.raw, "NOT_ALLOWED\""));
}

static void test_connection_is_kept_and_pipelines(void **state)
{
    (void)state;
    int fd = test_connect(port);
    for (int i = 0; i < 3; i++) {
        test_puts(fd, GET("/v1/things/1"));
        test_read(fd, false, &got);
        assert_int_equal(got.status, 200);
    }
    test_puts(fd, GET("/v1/none"));
    test_read(fd, false, &got);
    assert_int_equal(got.status, 404);
    test_puts(fd, GET("/suspend") "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    test_read(fd, true, &got);
    assert_true(got.closed);
    has("finished");
    has("path=/ ");
    close(fd);
}

static void test_admission(void **state)
{
    (void)state;
    int before = atomic_load(&admitted);
    ask("GET /v1/things/1 HTTP/1.1\r\nHost: x\r\nX-Who: nobody\r\n\r\n");
    assert_int_equal(got.status, 401);
    has("who are you");
    ask(GET("/v1/things/1"));
    assert_int_equal(got.status, 200);
    ask(GET("/v1/things/special"));
    assert_int_equal(atomic_load(&admitted), before + 2); /* the open one was not asked about */
}

static void test_suspend_and_finish(void **state)
{
    (void)state;
    ask(GET("/suspend"));
    assert_int_equal(got.status, 200);
    has("finished");
    ask(GET("/twice"));
    has("second round");
    int before = atomic_load(&deadlines);
    ask(GET("/deadline"));
    assert_int_equal(got.status, 304);
    assert_int_equal(atomic_load(&deadlines), before + 1);
    ask(GET("/silent"));
    assert_int_equal(got.status, 500);
}

static void test_blocking_and_full_pool(void **state)
{
    (void)state;
    static const char request[] = "POST /block HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
    gate_open = false;
    int running = test_connect(port), waiting = test_connect(port);
    test_puts(running, request);
    pthread_mutex_lock(&gate);
    while (gate_waiting < 1)
        pthread_cond_wait(&gate_moved, &gate);
    pthread_mutex_unlock(&gate);
    test_puts(waiting, request);

    /* Which of the two now waits in the queue and which is turned away is the kernel's choice. */
    int third = test_connect(port);
    test_puts(third, request);
    struct pollfd either[] = { { .fd = waiting, .events = POLLIN },
                               { .fd = third, .events = POLLIN } };
    assert_int_equal(poll(either, 2, WAIT_MS), 1);
    int refused = either[0].revents ? waiting : third, kept = either[0].revents ? third : waiting;
    test_read(refused, false, &got);
    assert_int_equal(got.status, 503);
    has("Retry-After: 1\r\n");
    has("\"code\":\"BUSY\"");

    pthread_mutex_lock(&gate);
    gate_open = true;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate);
    test_read(running, false, &got);
    assert_int_equal(got.status, 201);
    assert_memory_equal(got.body, "hi", 2);
    test_read(kept, false, &got);
    assert_int_equal(got.status, 201);
    close(running);
    close(waiting);
    close(third);
}

static void wait_until_parked(void)
{
    int64_t deadline = test_now_ms() + WAIT_MS;
    while (!atomic_load(&parked) && test_now_ms() < deadline)
        sched_yield();
    assert_non_null(atomic_load(&parked));
}

static void test_quiesce_then_finish(void **state)
{
    (void)state;
    int idle = test_connect(port);
    test_puts(idle, GET("/"));
    test_read(idle, false, &got);
    assert_int_equal(got.status, 200);
    int held = test_connect(port);
    test_puts(held, GET("/park"));
    wait_until_parked();

    http_server_quiesce(server);
    test_read(idle, true, &got); /* what has no request is ended */
    assert_true(got.closed);
    assert_int_equal(test_connect_from(NULL, port), -1);

    http_finish_later(atomic_load(&parked), finish, (char *)"at last");
    test_read(held, true, &got);
    assert_int_equal(got.status, 200);
    has("Connection: close\r\n");
    has("at last");
    assert_true(got.closed);
    close(idle);
    close(held);
    stop(NULL);
    assert_int_equal(atomic_load(&done_sent), 2);
    assert_int_equal(turns, turns_ended);
}

static void test_stop_drops_what_stays_suspended(void **state)
{
    (void)state;
    int held = test_connect(port);
    test_puts(held, GET("/park"));
    wait_until_parked();
    http_server_stop(server, 20);
    server = NULL;
    test_read(held, true, &got);
    assert_int_equal(got.status, 503);
    has("SHUTTING_DOWN");
    close(held);
    assert_int_equal(atomic_load(&done_lost), 1);
    assert_int_equal(atomic_load(&done_sent), 0);
}

static void test_stop_waits_for_workers(void **state)
{
    (void)state;
    gate_open = false;
    int fd = test_connect(port);
    test_puts(fd, "POST /block HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    pthread_mutex_lock(&gate);
    while (gate_waiting < 1)
        pthread_cond_wait(&gate_moved, &gate);
    http_server_quiesce(server);
    gate_open = true;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate);
    http_server_stop(server, 0);
    server = NULL;
    test_read(fd, true, &got);
    assert_int_equal(got.status, 201);
    close(fd);
}

/* The other tests run without; here each request leaves a line and moves its series, also those
 * nobody handled. */
static void test_log_and_metrics(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    struct log *log = log_new(fileno(file), LOG_INFO, true);
    struct metrics *metrics = metrics_new(metrics_table, metrics_table_count);
    env_init_real(&env, log, metrics);
    struct http_server_options o = { .name = "test",
                                     .listen = STR("127.0.0.1:0"),
                                     .routes = routes,
                                     .service = &server,
                                     .workers = 1 };
    assert_int_equal(http_server_start(&env, &o, &server, NULL), ERR_OK);
    port = http_server_port(server);
    ask("GET /v1/things/secret-no HTTP/1.1\r\nHost: x\r\nX-Request-Id: r-1\r\n\r\n");
    ask(GET("/nowhere"));
    ask("GET /v1/things/1 HTTP/1.1\r\nHost: x\r\nHost: y\r\nX-Request-Id: r-2\r\n\r\n");
    ask("rubbish\r\n\r\n");
    http_server_stop(server, 1000);
    server = NULL;

    assert_int_equal(metric_value(metrics_get(metrics, "fenpay_http_requests_total",
                                              "test,GET /v1/things/{no},200")),
                     1);
    assert_int_equal(
        metric_value(metrics_get(metrics, "fenpay_http_requests_total", "test,none,404")), 1);
    assert_int_equal(
        metric_value(metrics_get(metrics, "fenpay_http_requests_total", "test,none,400")), 1);
    assert_int_equal(metric_value(metrics_get(metrics, "fenpay_http_connections", "test")), 0);
    log_free(log);
    metrics_free(metrics);
    static char text[16384];
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\"route\":\"/v1/things/{no}\",\"status\":200"));
    assert_non_null(strstr(text, "\"request_id\":\"r-1\",\"peer\":\"127.0.0.1\""));
    assert_non_null(strstr(text, "\"status\":404"));
    assert_non_null(strstr(text, "\"status\":400"));
    assert_null(strstr(text, "secret-no")); /* the template, not the path */
}

static void test_bad_options(void **state)
{
    (void)state;
    static const struct http_route same[] = { { "GET", "/a/{x}", 0, 0, 0, 0, echo },
                                              { "GET", "/a/{y}", 0, 0, 0, 0, echo },
                                              { 0 } };
    static const struct http_route block[] = { { "GET", "/a", HTTP_BLOCKING, 0, 0, 0, blocking },
                                               { 0 } };
    struct http_server *s = NULL;
    struct err_info info = { 0 };
    env_init_real(&env, NULL, NULL);
    struct http_server_options o = { .name = "t", .listen = STR("127.0.0.1:0"), .routes = same };
    assert_int_equal(http_server_start(&env, &o, &s, &info), ERR_INVALID);
    o.routes = block;
    assert_int_equal(http_server_start(&env, &o, &s, &info), ERR_INVALID);
    o.routes = routes;
    o.workers = 1;
    static const char *const bad[] = { "",    "127.0.0.1",   "localhost:80",
                                       ":80", "127.0.0.1:x", "[::1]" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        o.listen = str_of(bad[i]);
        assert_int_equal(http_server_start(&env, &o, &s, &info), ERR_INVALID);
        assert_string_equal(info.field, "listen");
    }
    /* A port that somebody has is an error, also for several loops. */
    o.listen = STR("127.0.0.1:0");
    o.loops = 2;
    assert_int_equal(http_server_start(&env, &o, &s, &info), ERR_OK);
    char taken[32];
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", http_server_port(s));
    o.listen = str_of(taken);
    struct http_server *second = NULL;
    assert_int_equal(http_server_start(&env, &o, &second, &info), ERR_IO);
    http_server_stop(s, 0);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_routes_and_views, start, stop),
        cmocka_unit_test_setup_teardown(test_request_id_is_minted_when_not_sane, start, stop),
        cmocka_unit_test_setup_teardown(test_no_route, start, stop),
        cmocka_unit_test_setup_teardown(test_connection_is_kept_and_pipelines, start, stop),
        cmocka_unit_test_setup_teardown(test_admission, start, stop),
        cmocka_unit_test_setup_teardown(test_suspend_and_finish, start, stop),
        cmocka_unit_test_setup_teardown(test_blocking_and_full_pool, start, stop),
        cmocka_unit_test_setup_teardown(test_quiesce_then_finish, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_drops_what_stays_suspended, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_waits_for_workers, start, stop),
        cmocka_unit_test(test_log_and_metrics),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
