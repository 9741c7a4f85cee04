/* env.c -- the real world, and the one for tests. */
#include "base/env.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/killpoint.h"
#include "base/list.h"

static int64_t clock_us(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t))
        abort(); /* cannot fail for the clocks we ask */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t real_now_ms(struct env *env)
{
    (void)env;
    return clock_us(CLOCK_REALTIME) / 1000 + clock_ahead_ms();
}

static int64_t real_mono_us(struct env *env)
{
    (void)env;
    return clock_us(CLOCK_MONOTONIC);
}

static void real_random(struct env *env, void *ret, size_t n)
{
    (void)env;
    char *p = ret;
    while (n) {
        ssize_t got = getrandom(p, n, 0);
        if (got < 0 && errno != EINTR)
            abort(); /* without randomness there are no nonces, and so no payments */
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}

static void real_sleep_ms(struct env *env, int64_t ms)
{
    (void)env;
    if (ms <= 0)
        return;
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

void env_init_real(struct env *env, struct log *log, struct metrics *metrics)
{
    static const struct env_ops ops = {
        .now_ms = real_now_ms,
        .mono_us = real_mono_us,
        .random = real_random,
        .sleep_ms = real_sleep_ms,
    };
    *env = (struct env) { .ops = &ops, .log = log, .metrics = metrics };
}

static struct env_test *test_of(struct env *env)
{
    return container_of(env, struct env_test, env);
}

static int64_t test_now_ms(struct env *env)
{
    return atomic_load(&test_of(env)->now_ms);
}

static int64_t test_mono_us(struct env *env)
{
    return atomic_load(&test_of(env)->mono_us);
}

static void test_random(struct env *env, void *ret, size_t n)
{
    struct env_test *t = test_of(env);
    char *p = ret;
    while (atomic_exchange(&t->rng_lock, 1))
        ;
    while (n) {
        uint64_t x = rand_next(&t->rng);
        size_t piece = n < sizeof(x) ? n : sizeof(x);
        memcpy(p, &x, piece);
        p += piece;
        n -= piece;
    }
    atomic_store(&t->rng_lock, 0);
}

static void test_sleep_ms(struct env *env, int64_t ms)
{
    if (ms > 0)
        env_test_advance(test_of(env), ms);
}

void env_init_test(struct env_test *t, int64_t now_ms, uint64_t seed)
{
    static const struct env_ops ops = {
        .now_ms = test_now_ms,
        .mono_us = test_mono_us,
        .random = test_random,
        .sleep_ms = test_sleep_ms,
    };
    memset(t, 0, sizeof(*t));
    t->env.ops = &ops;
    atomic_store(&t->now_ms, now_ms);
    rand_seed(&t->rng, seed);
}

void env_test_advance(struct env_test *t, int64_t ms)
{
    atomic_fetch_add(&t->now_ms, ms);
    if (ms > 0)
        atomic_fetch_add(&t->mono_us, ms * 1000);
}
