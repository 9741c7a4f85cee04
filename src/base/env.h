/* env.h -- the outside world, passed in: clock, randomness, sleep, log, metrics, and the moment of
 * every outside effect.
 *
 * In production an effect simply happens on the calling worker thread. In the simulation env_effect
 * yields the calling fibre to a seeded scheduler first, so that a callback can arrive, a user
 * cancel and the process die while a prepay is on the wire, and the code stays straight-line.
 * Whoever calls a channel, the store, a lock or a publisher calls env_effect once before and once
 * after it; net/ and store/ do this themselves, so rules and flows never see it. */
#ifndef FENPAY_ENV_H
#define FENPAY_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "base/rand.h"

struct log;
struct metrics;
struct env;

enum env_effect {
    EFFECT_CHANNEL_SEND,
    EFFECT_CHANNEL_ANSWER,
    EFFECT_STORE,
    EFFECT_STORED,
    EFFECT_SLEEP,
    EFFECT_LOCK,
    EFFECT_PUBLISH
};

struct env_ops {
    int64_t (*now_ms)(struct env *env);  /* wall clock, ms UTC since 1970 */
    int64_t (*mono_us)(struct env *env); /* never steps back */
    void (*random)(struct env *env, void *ret, size_t n);
    void (*sleep_ms)(struct env *env, int64_t ms);
    void (*effect)(struct env *env, enum env_effect effect); /* NULL: nothing to do */
};

struct env {
    const struct env_ops *ops;
    struct log *log;
    struct metrics *metrics; /* may be NULL in small tests */
};

static inline int64_t env_now_ms(struct env *env)
{
    return env->ops->now_ms(env);
}
static inline int64_t env_mono_us(struct env *env)
{
    return env->ops->mono_us(env);
}
static inline void env_random(struct env *env, void *ret, size_t n)
{
    env->ops->random(env, ret, n);
}
static inline void env_sleep_ms(struct env *env, int64_t ms)
{
    env->ops->sleep_ms(env, ms);
}
static inline void env_effect(struct env *env, enum env_effect effect)
{
    if (env->ops->effect)
        env->ops->effect(env, effect);
}

/* The real world: CLOCK_REALTIME, CLOCK_MONOTONIC, getrandom, clock_nanosleep. Thread-safe. */
void env_init_real(struct env *env, struct log *log, struct metrics *metrics);

/* A world for tests: the clock stands where it is put and moves only by env_test_advance (and by
 * sleeping), randomness is a seeded xoshiro stream. Thread-safe. */
struct env_test {
    struct env env; /* first, so that &test->env is the env */
    _Atomic int64_t now_ms;
    _Atomic int64_t mono_us;
    struct rand rng;
    _Atomic int rng_lock;
};
void env_init_test(struct env_test *t, int64_t now_ms, uint64_t seed);
/* Negative: the wall clock steps back, the monotonic one stands. */
void env_test_advance(struct env_test *t, int64_t ms);

#endif
