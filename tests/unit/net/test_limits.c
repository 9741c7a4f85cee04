/* test_limits.c -- many requests at once on one loop, slow clients, full listeners. Time limits are
 * made small through the options; the tests wait for the server's answer or hang-up, never for time
 * to pass. */
#include "net_testing.h"

#include <pthread.h>
#include <stdatomic.h>

#include "net/server.h"

static struct env env;
static struct http_server *server;
static int port;

static void plain(struct http_request *req, void *service)
{
    (void)service;
    http_answer(req, 200, "text/plain", STR("ok"));
}

/* Suspended requests are finished in batches by another thread, as a store's commit does it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct http_request *waiting[1024];
static size_t waiting_count;
static bool ending;

static void suspended(struct http_request *req, void *service)
{
    (void)service;
    http_suspend(req);
    pthread_mutex_lock(&lock);
    waiting[waiting_count++] = req;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

static void finish(struct http_request *req, void *arg)
{
    (void)arg;
    http_answer(req, 200, "text/plain", STR("ok"));
}

static void *finisher(void *arg)
{
    (void)arg;
    struct http_request *batch[1024];
    for (;;) {
        pthread_mutex_lock(&lock);
        while (waiting_count == 0 && !ending)
            pthread_cond_wait(&more, &lock);
        size_t n = waiting_count;
        memcpy(batch, waiting, n * sizeof(batch[0]));
        waiting_count = 0;
        pthread_mutex_unlock(&lock);
        if (n == 0)
            return NULL;
        for (size_t i = 0; i < n; i++)
            http_finish_later(batch[i], finish, NULL);
    }
}

static void large(struct http_request *req, void *service)
{
    (void)service;
    static char body[8 * 1024 * 1024];
    http_answer(req, 200, "text/plain", (struct str) { body, sizeof(body) });
}

static const struct http_route routes[] = {
    { "GET", "/ok", 0, 0, 0, 0, plain },         { "POST", "/ok", 0, 0, 0, 1000, plain },
    { "POST", "/long", 0, 0, 0, 100000, plain }, { "GET", "/suspended", 0, 0, 0, 0, suspended },
    { "GET", "/large", 0, 0, 0, 0, large },      { 0 },
};

static void start_in(struct env *where, struct http_server_options o)
{
    o.name = "test";
    o.listen = STR("127.0.0.1:0");
    o.routes = routes;
    struct err_info info = { 0 };
    if (http_server_start(where, &o, &server, &info))
        fail_msg("%s", info.text);
    port = http_server_port(server);
}

static void start(struct http_server_options o)
{
    env_init_real(&env, NULL, NULL);
    start_in(&env, o);
}

static int stop(void **state)
{
    (void)state;
    if (server)
        http_server_stop(server, 1000);
    server = NULL;
    return 0;
}

/* `n` kept connections, each with one request under way at any time, until every one had `rounds`
 * answers. */
static void storm(const char *request, int n, int rounds)
{
    struct pollfd fds[512];
    struct {
        int answers;
        char tail[4]; /* the last bytes seen: the body "ok" ends every answer */
    } c[512] = { 0 };
    int64_t deadline = test_now_ms() + 10 * 1000;
    int open = n;
    for (int i = 0; i < n; i++)
        fds[i] = (struct pollfd) { .fd = test_connect(port), .events = POLLIN };
    for (int i = 0; i < n; i++)
        test_puts(fds[i].fd, request);
    while (open > 0) {
        int64_t left = deadline - test_now_ms();
        if (left <= 0 || poll(fds, (nfds_t)n, (int)left) <= 0)
            fail_msg("%d of %d connections are stuck", open, n);
        for (int i = 0; i < n; i++) {
            if (!fds[i].revents)
                continue;
            char buf[4096];
            ssize_t k = recv(fds[i].fd, buf, sizeof(buf), 0);
            assert_true(k > 0);
            if (k < 2 || memcmp(buf + k - 2, "ok", 2) != 0)
                continue;
            if (++c[i].answers < rounds) {
                test_puts(fds[i].fd, request);
            } else {
                close(fds[i].fd);
                fds[i].fd = -1;
                open--;
            }
        }
    }
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"

/* The library's own epoll thread stops for good when one poll returns exactly 128 events. */
static void test_many_at_once(void **state)
{
    (void)state;
    start((struct http_server_options) { .loops = 1 });
    static const int counts[] = { 127, 128, 129, 256 };
    for (size_t i = 0; i < 4; i++)
        storm(GET("/ok"), counts[i], 20);
}

static void test_many_suspended_at_once(void **state)
{
    (void)state;
    pthread_t t;
    ending = false;
    pthread_create(&t, NULL, finisher, NULL);
    start((struct http_server_options) { .loops = 1 });
    storm(GET("/suspended"), 128, 20);
    storm(GET("/suspended"), 256, 20);
    stop(NULL);
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
    pthread_join(t, NULL);
}

static void test_two_loops(void **state)
{
    (void)state;
    start((struct http_server_options) { .loops = 2 });
    storm(GET("/ok"), 256, 10);
}

static struct test_answer got;

static void expect_hang_up(int fd, int status)
{
    test_read(fd, true, &got);
    assert_true(got.closed);
    assert_int_equal(got.status, status);
    close(fd);
}

static void test_slow_headers(void **state)
{
    (void)state;
    start((struct http_server_options) { .header_ms = 50 });
    int silent = test_connect(port), half = test_connect(port), line = test_connect(port);
    test_puts(half, "GET /ok HT");
    test_puts(line, "GET /ok HTTP/1.1\r\nHost: x\r\nX: a");
    expect_hang_up(silent, 0);
    expect_hang_up(half, 0);
    expect_hang_up(line, 0);

    /* The same on a kept connection: now the request line has been seen. */
    line = test_connect(port);
    test_puts(line, GET("/ok"));
    test_read(line, false, &got);
    test_puts(line, "GET /ok HTTP/1.1\r\nHost: x\r\nX: a");
    expect_hang_up(line, 408);
    assert_non_null(strstr(got.body, "{\"code\":\"TIMEOUT\""));

    /* Dripping does not help: a byte whenever the peer has taken the last one. */
    int drip = test_connect(port);
    test_puts(drip, "GET /ok HTTP/1.1\r\nX: ");
    int64_t deadline = test_now_ms() + WAIT_MS;
    struct pollfd p = { .fd = drip, .events = POLLIN };
    while (poll(&p, 1, 5) == 0 && test_now_ms() < deadline)
        (void)!send(drip, "a", 1, MSG_NOSIGNAL);
    assert_true(test_now_ms() < deadline);
    close(drip);
}

static void test_slow_body(void **state)
{
    (void)state;
    start((struct http_server_options) { .body_ms = 50 });
    int fd = test_connect(port);
    test_puts(fd, "POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    expect_hang_up(fd, 408);
    assert_non_null(strstr(got.raw, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(got.body, "{\"code\":\"TIMEOUT\""));
    assert_int_equal(test_status(port, GET("/ok")), 200);
}

static void drip(int fd, struct env_test *test, size_t n, int64_t then_ms)
{
    static char bytes[8192];
    test_send(fd, bytes, n);
    assert_int_equal(test_status(port, GET("/ok")), 200); /* the piece has been taken in */
    env_test_advance(test, then_ms);
    assert_int_equal(test_status(port, GET("/ok")), 200); /* the clock has been looked at */
    assert_int_equal(test_status(port, GET("/ok")), 200);
}

static bool open_still(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) == 0;
}

/* After a quarter of its time a body must come at 1 KB/s; however fast, it must end in its time. */
static void test_dripping_body(void **state)
{
    (void)state;
    static struct env_test test;
    env_init_test(&test, 1800000000000, 1);
    start_in(&test.env, (struct http_server_options) { .loops = 1 });
    static const char head[] = "POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n";
    int slow = test_connect(port), slower = test_connect(port), fast = test_connect(port);
    test_puts(slow, head);
    test_puts(slower, head);
    test_puts(fast, head);
    test_send(slow, head, 3);
    drip(fast, &test, 2600, 2400);
    drip(slow, &test, 2000, 200); /* 2.6 s */
    expect_hang_up(slower, 408);
    expect_hang_up(slow, 408);
    assert_true(open_still(fast));

    drip(fast, &test, 2600, 2500); /* 5.1 s */
    assert_true(open_still(fast));
    drip(fast, &test, 8000, 2500); /* 7.6 s */
    assert_true(open_still(fast));
    drip(fast, &test, 8000, 2500); /* 10.1 s */
    expect_hang_up(fast, 408);
}

/* Bodies of strangers share one bounded room; what does not fit is refused, not stored. */
static void test_bodies_have_one_room(void **state)
{
    (void)state;
    start((struct http_server_options) { .loops = 1, .body_bytes_max = 1500 });
    static char thousand[1001];
    memset(thousand, 'x', 1000);
    static const char head[] = "POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";

    int first = test_connect(port), second;
    test_puts(first, head);
    test_send(first, thousand, 900);
    assert_int_equal(test_status(port, GET("/ok")), 200); /* the piece has been taken in */

    second = test_connect(port);
    test_puts(second, head);
    test_send(second, thousand, 1000);
    test_read(second, false, &got);
    assert_int_equal(got.status, 503);
    close(second);

    test_send(first, thousand, 100);
    test_read(first, false, &got);
    assert_int_equal(got.status, 200);

    second = test_connect(port);
    test_puts(second, head);
    test_send(second, thousand, 1000);
    test_read(second, false, &got);
    assert_int_equal(got.status, 200);
    close(first);
    close(second);
}

static void test_idle(void **state)
{
    (void)state;
    start((struct http_server_options) { .idle_ms = 50 });
    int fd = test_connect(port);
    test_puts(fd, GET("/ok"));
    test_read(fd, false, &got);
    assert_int_equal(got.status, 200);
    expect_hang_up(fd, 0);
}

/* A loop that slept for long must count a new connection's time from now, not from before it slept.
 */
static void test_new_after_quiet(void **state)
{
    (void)state;
    static struct env_test test;
    env_init_test(&test, 1800000000000, 1);
    start_in(&test.env, (struct http_server_options) { .loops = 1 });
    assert_int_equal(test_status(port, GET("/ok")), 200);
    env_test_advance(&test, 60 * 1000);

    int fd = test_connect(port);
    assert_int_equal(test_status(port, GET("/ok")),
                     200); /* accepted behind it: it has had a turn */
    test_puts(fd, GET("/ok"));
    test_read(fd, false, &got);
    assert_int_equal(got.status, 200);
    close(fd);
}

static void test_answer_not_taken(void **state)
{
    (void)state;
    start((struct http_server_options) { .idle_ms = 50 });
    int fd = test_connect(port);
    test_puts(fd, GET("/large"));
    /* Nothing is read until the server has given up, which ends in a reset or an end of the stream.
     */
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    close(fd);

    /* Who reads gets it whole. */
    fd = test_connect(port);
    test_puts(fd, GET("/large"));
    static char buf[1 << 20];
    size_t total = 0;
    while (total < 8 * 1024 * 1024) {
        ssize_t k = recv(fd, buf, sizeof(buf), 0);
        assert_true(k > 0);
        total += (size_t)k;
    }
    close(fd);
}

static void test_oldest_idle_makes_room(void **state)
{
    (void)state;
    start((struct http_server_options) { .connections_max = 3 });
    int fd[4];
    for (int i = 0; i < 3; i++) {
        fd[i] = test_connect(port);
        test_puts(fd[i], GET("/ok"));
        test_read(fd[i], false, &got);
        assert_int_equal(got.status, 200);
    }
    test_puts(fd[0], GET("/ok")); /* now the second one is the oldest */
    test_read(fd[0], false, &got);
    fd[3] = test_connect(port);
    test_puts(fd[3], GET("/ok"));
    test_read(fd[3], false, &got);
    assert_int_equal(got.status, 200);
    expect_hang_up(fd[1], 0);
    test_puts(fd[2], GET("/ok"));
    test_read(fd[2], false, &got);
    assert_int_equal(got.status, 200);
    close(fd[0]);
    close(fd[2]);
    close(fd[3]);
}

static void test_full_of_busy_ones(void **state)
{
    (void)state;
    start((struct http_server_options) { .connections_max = 2 });
    int busy[2];
    for (int i = 0; i < 2; i++) {
        busy[i] = test_connect(port);
        test_puts(busy[i], GET("/suspended"));
    }
    int64_t deadline = test_now_ms() + WAIT_MS;
    size_t n = 0;
    while (n < 2 && test_now_ms() < deadline) {
        pthread_mutex_lock(&lock);
        n = waiting_count;
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    assert_int_equal(n, 2);
    int fd = test_connect(port);
    expect_hang_up(fd, 503); /* at once, not left waiting in the backlog */
    for (int i = 0; i < 2; i++)
        http_finish_later(waiting[i], finish, NULL);
    waiting_count = 0;
    for (int i = 0; i < 2; i++) {
        test_read(busy[i], false, &got);
        assert_int_equal(got.status, 200);
        close(busy[i]);
    }
}

static void test_per_address(void **state)
{
    (void)state;
    start((struct http_server_options) { .per_address_max = 2 });
    int a = test_connect(port), b = test_connect(port);
    test_puts(a, GET("/ok"));
    test_read(a, false, &got);
    assert_int_equal(got.status, 200);
    expect_hang_up(test_connect(port), 503);
    int other = test_connect_from("127.0.0.2", port);
    test_puts(other, GET("/ok"));
    test_read(other, false, &got);
    assert_int_equal(got.status, 200);
    /* A place is free again once one has gone. */
    test_puts(a, "GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    test_read(a, true, &got);
    int64_t deadline = test_now_ms() + WAIT_MS;
    int status = 0;
    while (status != 200 && test_now_ms() < deadline)
        status = test_status(port, GET("/ok"));
    assert_int_equal(status, 200);
    close(a);
    close(b);
    close(other);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_many_at_once, stop),
        cmocka_unit_test_teardown(test_many_suspended_at_once, stop),
        cmocka_unit_test_teardown(test_two_loops, stop),
        cmocka_unit_test_teardown(test_slow_headers, stop),
        cmocka_unit_test_teardown(test_slow_body, stop),
        cmocka_unit_test_teardown(test_dripping_body, stop),
        cmocka_unit_test_teardown(test_bodies_have_one_room, stop),
        cmocka_unit_test_teardown(test_idle, stop),
        cmocka_unit_test_teardown(test_new_after_quiet, stop),
        cmocka_unit_test_teardown(test_answer_not_taken, stop),
        cmocka_unit_test_teardown(test_oldest_idle_makes_room, stop),
        cmocka_unit_test_teardown(test_full_of_busy_ones, stop),
        cmocka_unit_test_teardown(test_per_address, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
