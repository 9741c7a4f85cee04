/* Token buckets: exact over time, bounded in number, correct from many threads. */
#include "net/limiter.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

static struct env_test world;

static struct limiter *fresh(size_t keys_max)
{
    env_init_test(&world, 1767225600000, 11);
    return limiter_new(&world.env, keys_max);
}

static bool take(struct limiter *l, const char *key)
{
    return limiter_take(l, str_of(key), 2, 3, NULL);
}

static void a_burst_then_the_rate(void **state)
{
    (void)state;
    struct limiter *l = fresh(10);
    int64_t wait_ms = -1;
    for (int i = 0; i < 3; i++)
        assert_true(limiter_take(l, STR("a"), 2, 3, &wait_ms));
    assert_int_equal(wait_ms, -1);
    assert_false(limiter_take(l, STR("a"), 2, 3, &wait_ms));
    assert_int_equal(wait_ms, 500);

    env_test_advance(&world, 499);
    assert_false(limiter_take(l, STR("a"), 2, 3, &wait_ms)); /* asking does not cost anything */
    assert_int_equal(wait_ms, 1);
    env_test_advance(&world, 1);
    assert_true(take(l, "a"));
    assert_false(take(l, "a"));

    env_test_advance(&world, 3600000); /* full again, and no fuller */
    for (int i = 0; i < 3; i++)
        assert_true(take(l, "a"));
    assert_false(take(l, "a"));
    limiter_free(l);
    limiter_free(NULL);
}

/* 3 a second asked for every millisecond: whatever the rounding, 10 s give 30 and the burst. */
static void nothing_is_rounded_away(void **state)
{
    (void)state;
    struct limiter *l = fresh(1);
    int taken = 0;
    for (int ms = 0; ms <= 10000; ms++) {
        taken += limiter_take(l, STR("a"), 3, 2, NULL);
        env_test_advance(&world, 1);
    }
    assert_int_equal(taken, 32);
    limiter_free(l);
}

static void keys_are_apart(void **state)
{
    (void)state;
    struct limiter *l = fresh(10);
    for (int i = 0; i < 3; i++)
        assert_true(take(l, "a"));
    assert_false(take(l, "a"));
    assert_true(take(l, "b"));
    assert_true(take(l, ""));
    assert_true(limiter_take(l, STR("a\0b"), 2, 3, NULL));
    assert_false(take(l, "a"));
    limiter_free(l);
}

static void the_least_recently_used_key_is_forgotten(void **state)
{
    (void)state;
    struct limiter *l = fresh(3);
    for (int i = 0; i < 3; i++) {
        assert_true(take(l, "a"));
        assert_true(take(l, "b"));
        assert_true(take(l, "c"));
    }
    assert_false(take(l, "b"));
    assert_false(take(l, "a"));
    assert_true(take(l, "d")); /* in c's place */
    assert_false(take(l, "a"));
    assert_false(take(l, "b"));
    assert_true(take(l, "c")); /* in d's place, as new */
    assert_false(take(l, "a"));
    limiter_free(l);
}

/* Many more keys than places, so that every chain is cut and joined in every position. */
static void churn(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct limiter *l = fresh(50);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 200; i++)
            assert_true(limiter_take(l, str_printf(a, "k%d", i), 1, 1, NULL));
    for (int i = 150; i < 200; i++)
        assert_false(limiter_take(l, str_printf(a, "k%d", i), 1, 1, NULL));
    limiter_free(l);
}

static void asking_takes_nothing(void **state)
{
    (void)state;
    struct limiter *l = fresh(1);
    assert_true(take(l, "a"));
    for (int i = 0; i < 5; i++)
        assert_true(limiter_has(l, STR("a"), 2, 3));
    assert_true(take(l, "a"));
    assert_true(take(l, "a"));
    assert_false(limiter_has(l, STR("a"), 2, 3));
    assert_true(limiter_has(l, STR("b"), 2, 3)); /* not remembered: a keeps the only place */
    assert_false(take(l, "a"));
    env_test_advance(&world, 500);
    assert_true(limiter_has(l, STR("a"), 2, 3));
    limiter_free(l);
}

static void new_limits_count_at_once(void **state)
{
    (void)state;
    struct limiter *l = fresh(10);
    int64_t wait_ms;
    assert_true(limiter_take(l, STR("a"), 1, 100, NULL));
    assert_true(limiter_take(l, STR("a"), 1, 2, NULL)); /* cut to 2 */
    assert_true(limiter_take(l, STR("a"), 1, 2, NULL));
    assert_false(limiter_take(l, STR("a"), 1000, 2, &wait_ms));
    assert_int_equal(wait_ms, 1);
    limiter_free(l);
}

static void extremes_do_not_overflow(void **state)
{
    (void)state;
    struct limiter *l = fresh(10);
    int64_t wait_ms;
    assert_true(limiter_take(l, STR("a"), 1000000000000, 1000000000000, NULL));
    env_test_advance(&world, 100LL * 365 * 86400 * 1000);
    assert_true(limiter_take(l, STR("a"), 1000000000000, 1000000000000, NULL));
    assert_true(limiter_take(l, STR("b"), 1, 1, NULL));
    env_test_advance(&world, 100LL * 365 * 86400 * 1000);
    assert_true(limiter_take(l, STR("b"), 1, 1, NULL));
    assert_false(limiter_take(l, STR("b"), 1, 1, &wait_ms));
    assert_int_equal(wait_ms, 1000);
    limiter_free(l);
}

#define THREADS 4

static struct limiter *shared;
static atomic_int taken;

static void *take_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        if (limiter_take(shared, STR("shared"), 1, 700, NULL))
            atomic_fetch_add(&taken, 1);
    return NULL;
}

static void threads_share_one_bucket(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    shared = fresh(10);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&taken), 700);
    limiter_free(shared);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_then_the_rate),
        cmocka_unit_test(nothing_is_rounded_away),
        cmocka_unit_test(keys_are_apart),
        cmocka_unit_test(the_least_recently_used_key_is_forgotten),
        cmocka_unit_test(churn),
        cmocka_unit_test(asking_takes_nothing),
        cmocka_unit_test(new_limits_count_at_once),
        cmocka_unit_test(extremes_do_not_overflow),
        cmocka_unit_test(threads_share_one_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
