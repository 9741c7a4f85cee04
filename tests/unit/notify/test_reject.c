/* Rejected deliveries: who is refused without a verification, and samples that never grow. */
#include "../world.h"

#include "notify/reject.h"

static struct reject_sample sample(struct str peer, enum notice_reason reason)
{
    return (struct reject_sample) {
        .account = STR("fake"), .peer = peer, .reason = reason, .body = STR("body"), .time_ms = 1
    };
}

static void forged_signatures_close_the_door(void **state)
{
    (void)state;
    struct env_test test;
    env_init_test(&test, WORLD_NOW_MS, 1);
    struct rejects *r = rejects_new(&test.env, true);
    struct str peer = STR("203.0.113.9");
    struct reject_sample s = sample(peer, NOTICE_REASON_SIGNATURE);

    for (int i = 0; i < REJECT_FORGED_MAX; i++) {
        assert_false(rejects_refuses(r, peer));
        rejects_note(r, &s);
    }
    assert_true(rejects_refuses(r, peer));
    assert_false(rejects_refuses(r, STR("203.0.113.10")));
    env_test_advance(&test, REJECT_WINDOW_MS);
    assert_false(rejects_refuses(r, peer));
    rejects_free(r);
}

/* The channel's own probes and late resends come from its addresses; behind a proxy everybody is
 * loopback. */
static void only_forgeries_count_and_never_the_proxy(void **state)
{
    (void)state;
    struct env_test test;
    env_init_test(&test, WORLD_NOW_MS, 1);
    struct rejects *r = rejects_new(&test.env, true);
    for (int i = 0; i < 3 * REJECT_FORGED_MAX; i++) {
        struct reject_sample probe = sample(STR("203.0.113.9"), NOTICE_REASON_PROBE),
                             stale = sample(STR("203.0.113.9"), NOTICE_REASON_STALE);
        struct reject_sample v4 = sample(STR("127.0.0.1"), NOTICE_REASON_SIGNATURE),
                             v6 = sample(STR("::1"), NOTICE_REASON_SIGNATURE);
        rejects_note(r, &probe);
        rejects_note(r, &stale);
        rejects_note(r, &v4);
        rejects_note(r, &v6);
    }
    assert_false(rejects_refuses(r, STR("203.0.113.9")));
    assert_false(rejects_refuses(r, STR("127.0.0.1")));
    assert_false(rejects_refuses(r, STR("::1")));
    rejects_free(r);
}

/* A proxy on another host is one address for everybody: one forger must not get all refused. */
static void nobody_is_refused_behind_a_proxy(void **state)
{
    (void)state;
    struct env_test test;
    env_init_test(&test, WORLD_NOW_MS, 1);
    struct rejects *r = rejects_new(&test.env, false);
    struct reject_sample s = sample(STR("10.0.0.2"), NOTICE_REASON_SIGNATURE);

    for (int i = 0; i < 3 * REJECT_FORGED_MAX; i++)
        rejects_note(r, &s);
    assert_false(rejects_refuses(r, STR("10.0.0.2")));
    rejects_free(r);
}

/* Whatever addresses a flood uses, it gets no other address refused. */
static void nobody_is_refused_for_another(void **state)
{
    (void)state;
    struct env_test test;
    env_init_test(&test, WORLD_NOW_MS, 1);
    struct rejects *r = rejects_new(&test.env, true);
    ARENA_AUTO a = arena_new(4096);
    for (int i = 0; i < 20000; i++) {
        struct reject_sample s = sample(
            str_printf(a, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255), NOTICE_REASON_SIGNATURE);
        for (int k = 0; k < 3; k++)
            rejects_note(r, &s);
    }
    assert_false(rejects_refuses(r, STR("101.226.103.12")));
    rejects_free(r);
}

static void samples_are_bounded_and_cut(void **state)
{
    (void)state;
    struct env_test test;
    env_init_test(&test, WORLD_NOW_MS, 1);
    struct rejects *r = rejects_new(&test.env, true);
    ARENA_AUTO a = arena_new(4096);
    char *big = arena_alloc(a, 100000);
    memset(big, 'x', 100000);
    for (int i = 0; i < 1000; i++) {
        struct reject_sample s = sample(STR("203.0.113.9"), NOTICE_REASON_BODY);
        s.body = (struct str) { big, 100000 };
        s.time_ms = i;
        rejects_note(r, &s);
    }
    struct reject_sample out[REJECT_SAMPLES];
    assert_int_equal(rejects_take(r, a, out, 3), 3);
    assert_int_equal(out[2].time_ms, 2);
    assert_int_equal(out[0].body.n, 4096);
    assert_str(out[0].account, "fake");
    assert_int_equal(rejects_take(r, a, out, REJECT_SAMPLES), REJECT_SAMPLES - 3);
    assert_int_equal(rejects_take(r, a, out, REJECT_SAMPLES), 0);
    rejects_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_signatures_close_the_door),
        cmocka_unit_test(only_forgeries_count_and_never_the_proxy),
        cmocka_unit_test(nobody_is_refused_behind_a_proxy),
        cmocka_unit_test(nobody_is_refused_for_another),
        cmocka_unit_test(samples_are_bounded_and_cut),
    };
    return RUN_TESTS(tests);
}
