/* test_kill.c -- the real binary killed with SIGKILL under callback load: at every named point of
 * the callback's way, and at arbitrary moments. Nothing acknowledged may be lost, and a restart
 * settles everything. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/rand.h"
#include "site.h"

static struct bench_site site;
static struct str *requests;
static struct bench_server server; /* the one that runs, for the teardown */
static char dir[] = "/tmp/fenpay-kill-XXXXXX";

static void wait_drained(const struct barrage *d)
{
    struct bench_counts counts;
    struct err_info info = { 0 };
    time_t end = time(NULL) + 20;
    do {
        poll(NULL, 0, 20); /* leaves the processor to the server between two looks */
        assert_int_equal(bench_site_count(&site, &counts, &info), ERR_OK);
    } while ((counts.pending || counts.paid_orders < (int64_t)d->acked) && time(NULL) < end);
    assert_int_equal(counts.pending, 0);
    assert_true(counts.paid_orders >= (int64_t)d->acked);
}

/* Kills the server as told by the environment (a kill point) or after `stop_after`
 * acknowledgements; then looks, restarts, delivers the rest and looks again. */
static void die_and_recover(const char *kill_at, size_t stop_after)
{
    struct err_info info = { 0 };
    struct barrage d = { .requests = requests,
                         .count = site.payment_count,
                         .stop_after = stop_after };
    d.acknowledged = calloc(d.count, sizeof *d.acknowledged);
    assert_non_null(d.acknowledged);
    assert_int_equal(bench_site_reset(&site, &info), ERR_OK);
    if (kill_at)
        setenv("FENPAY_KILL_AT", kill_at, 1);
    enum err e = bench_server_start(&site, &server, &info);
    unsetenv("FENPAY_KILL_AT");
    if (e)
        fail_msg("%s", info.text);
    d.port = server.notify_port;
    d.kill_pid = server.pid;
    deliver(&d);

    int status = 0;
    if (d.acked == d.count && kill_at)
        kill(server.pid, SIGTERM);
    assert_int_equal(waitpid(server.pid, &status, 0), server.pid);
    server.pid = 0;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("%s: the process was not killed there: that point is never passed",
                 kill_at ? kill_at : "arbitrary moment");
    struct str url = str_printf(site.arena, "sqlite:%s/run.db", site.dir);
    assert_int_equal(lost(&site, url, &d), 0);

    assert_int_equal(bench_server_start(&site, &server, &info), ERR_OK);
    d.port = server.notify_port;
    d.next = 0;
    d.stop_after = 0;
    deliver(&d);
    assert_int_equal(d.next >= d.count, 1);
    wait_drained(&d);
    bench_stop(server.pid);
    server.pid = 0;
    for (size_t i = 0; i < d.count; i++)
        assert_true(d.acknowledged[i]);
    assert_int_equal(lost(&site, url, &d), 0);
    free((void *)d.acknowledged);
}

static int stop_server(void **state)
{
    (void)state;
    if (server.pid && kill(server.pid, SIGKILL) == 0)
        waitpid(server.pid, NULL, 0);
    server.pid = 0;
    return 0;
}

static void at_point(void **state)
{
    die_and_recover(*state, 0);
}

static void at_arbitrary_moments(void **state)
{
    (void)state;
    struct rand r;
    rand_seed(&r, 42);
    for (int i = 0; i < 6; i++)
        die_and_recover(NULL, 1 + rand_below(&r, SITE_PAYMENTS - 20));
}

static int make_site(void **state)
{
    (void)state;
    struct err_info info = { 0 };
    if (!mkdtemp(dir) || bench_site_make(dir, SITE_PAYMENTS, arena_new(1 << 20), &site, &info) ||
        bench_callbacks(&site, SITE_PAYMENTS, &requests, &info)) {
        print_error("%s\n", info.text);
        return -1;
    }
    site.program = FENPAY_PROGRAM;
    return 0;
}

static int drop_site(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

#define POINT(name)                                                                                \
    {                                                                                              \
        name, at_point, NULL, stop_server, (void *)(uintptr_t)name                                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        POINT("callback.verified:50"),
        POINT("callback.submitted:50"),
        POINT("callback.committed:50"),
        POINT("callback.answered:50"),
        POINT("store.commit:20"),
        POINT("store.committed:20"),
        POINT("bus.publishing:5"),
        POINT("bus.published:5"),
        cmocka_unit_test_teardown(at_arbitrary_moments, stop_server),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("crash/kill", tests, make_site, drop_site);
}
