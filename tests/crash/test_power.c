/* test_power.c -- the whole centre on a disk whose un-synced writes are lost when the power is cut
 * under callback load: nothing acknowledged may be missing afterwards. And the same test must see
 * it when the database does not sync, or callbacks are acknowledged before they are durable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "app/runtime.h"
#include "base/killpoint.h"
#include "fault_vfs.h"
#include "site.h"

static struct bench_site site;
static struct str *requests;
static char dir[] = "/tmp/fenpay-power-XXXXXX";

/* Cuts the power at the n-th operation of `ops`; returns how many acknowledged callbacks were lost.
 */
static size_t cut_at(unsigned ops, int nth, enum power_loss loss, size_t *ret_acked)
{
    struct err_info info = { 0 };
    struct settings s = site.site.settings;
    struct runtime *r = NULL;
    assert_int_equal(bench_site_reset(&site, &info), ERR_OK);
    fault_reset();
    s.store.url = str_printf(site.arena, "sqlite:%s/run.db", site.dir);
    s.api.listen = s.ops.listen = STR_NONE;
    s.notify.listen = STR("127.0.0.1:0");
    s.notify.per_address_max = 0;
    s.log.level = LOG_ERROR;
    struct runtime_options ro = { .settings = &s,
                                  .roles = ROLE_NOTIFY | ROLE_CONSUMER | ROLE_RELAY,
                                  .store_vfs = FAULT_VFS };
    if (runtime_open(&ro, &r, &info) || runtime_start(r, &info))
        fail_msg("%s", info.text);

    struct barrage d = { .port = http_server_port(r->notify_server),
                         .requests = requests,
                         .count = site.payment_count };
    d.acknowledged = calloc(d.count, sizeof *d.acknowledged);
    assert_non_null(d.acknowledged);
    fault_arm(ops, nth, FAULT_POWER, true);
    deliver(&d);
    runtime_close(r);
    fault_power_restore(loss, (uint64_t)nth);
    size_t n = lost(&site, s.store.url, &d);
    *ret_acked = d.acked;
    free((void *)d.acknowledged);
    return n;
}

static void nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    size_t acked, some = 0;
    for (int nth = 1; nth <= 40; nth += 3)
        for (enum power_loss loss = POWER_DROP; loss <= POWER_TORN; loss++) {
            size_t n = cut_at(FAULT_SYNC, nth, loss, &acked);
            some += acked;
            if (n)
                fail_msg(
                    "power cut at sync %d (loss %d): %zu of %zu acknowledged callbacks are lost",
                    nth, (int)loss, n, acked);
        }
    assert_true(some > 0); /* else the test saw nothing */
}

/* True when a power cut somewhere loses something acknowledged. */
static bool sees_a_loss(void)
{
    for (int nth = 40; nth <= 400; nth += 60) {
        size_t acked;
        if (cut_at(FAULT_WRITE, nth, POWER_DROP, &acked))
            return true;
    }
    return false;
}

static void without_planted_bug_nothing_is_seen(void **state)
{
    (void)state;
    assert_false(sees_a_loss());
}

static void a_database_that_does_not_sync_is_seen(void **state)
{
    (void)state;
    mutation_set(MUTATION_SYNC_OFF);
    bool seen = sees_a_loss();
    mutation_set(MUTATION_NONE);
    assert_true(seen);
}

static void answering_before_the_commit_is_seen(void **state)
{
    (void)state;
    mutation_set(MUTATION_ANSWER_BEFORE_COMMIT);
    bool seen = sees_a_loss();
    mutation_set(MUTATION_NONE);
    assert_true(seen);
}

static int make_site(void **state)
{
    (void)state;
    struct err_info info = { 0 };
    fault_vfs_register();
    if (!mkdtemp(dir) || bench_site_make(dir, SITE_PAYMENTS, arena_new(1 << 20), &site, &info) ||
        bench_callbacks(&site, SITE_PAYMENTS, &requests, &info)) {
        print_error("%s\n", info.text);
        return -1;
    }
    return 0;
}

static int drop_site(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost),
        cmocka_unit_test(without_planted_bug_nothing_is_seen),
        cmocka_unit_test(a_database_that_does_not_sync_is_seen),
        cmocka_unit_test(answering_before_the_commit_is_seen),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("crash/power", tests, make_site, drop_site);
}
