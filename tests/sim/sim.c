/* sim.c -- tasks, the clock and the scheduler. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fibre.h"
#include "base/log.h"

#define STACK_BYTES (256 << 10)
#define NEVER       INT64_MAX
#define STEPS_MAX   200000
#define ACTORS_MS   (20 * 60000LL) /* then nothing goes wrong any more */
#define REST_MS     (30 * 3600000LL)
#define LOOK_EVERY  64
#define SLOW_TRIES  12

struct sim_task {
    struct list link;
    struct sim *sim;
    struct fibre *fibre;
    const char *name;
    uint64_t seq;
    enum sim_place place;
    sim_fn *fn;
    void *arg;
    int64_t wake_ms; /* not before; `now` or less: runnable */
    int store_asks;  /* effects on the store in a row: from the second on it waits for a batch */
    bool parked;     /* until the next batch */
    bool slow;       /* seldom runs while others can: on its own, time passes it by */
};

/* ---- telling ---- */

void sim_note(struct sim *s, const char *what, int64_t value)
{
    for (const char *p = what; *p; p++)
        s->trace = (s->trace ^ (uint8_t)*p) * 0x100000001b3ULL;
    s->trace = (s->trace ^ (uint64_t)value) * 0x9e3779b97f4a7c15ULL;
    s->trace ^= s->trace >> 29;
    if (s->loud)
        printf("# %6llu +%lld.%03lld %s %s %lld\n", (unsigned long long)s->steps,
               (long long)((s->now_ms - SIM_START_MS) / 1000),
               (long long)((s->now_ms - SIM_START_MS) % 1000), s->running ? s->running->name : "-",
               what, (long long)value);
}

void sim_fail(struct sim *s, struct number about, const char *format, ...)
{
    va_list args;
    if (s->failed)
        return;
    s->failed = true;
    s->about = about;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
}

/* ---- tasks ---- */

static void task_main(void *arg)
{
    struct sim_task *t = arg;
    t->fn(t->sim, t->arg);
}

struct sim_task *sim_spawn(struct sim *s, const char *name, enum sim_place place, sim_fn *fn,
                           void *arg)
{
    struct sim_task *t = arena_one(s->arena, struct sim_task);
    t->sim = s;
    t->name = name;
    t->seq = ++s->tasks_made;
    t->place = place;
    t->fn = fn;
    t->arg = arg;
    t->slow = sim_chance(s, 12);
    t->fibre = fibre_new(task_main, t, STACK_BYTES);
    list_append(&s->tasks, &t->link);
    return t;
}

static void task_end(struct sim_task *t)
{
    list_remove(&t->link);
    fibre_free(t->fibre);
    t->fibre = NULL;
}

void sim_kill_inside(struct sim *s)
{
    list_each_safe (node, &s->tasks) {
        struct sim_task *t = container_of(node, struct sim_task, link);
        if (t->place == SIM_INSIDE)
            task_end(t);
    }
}

void sim_wait(struct sim *s, int64_t until_ms)
{
    s->running->wake_ms = until_ms;
    fibre_yield();
}

void sim_wake(struct sim_task *t)
{
    t->wake_ms = 0;
}

/* ---- the two environments ---- */

static struct sim *sim_of(struct env *env)
{
    return container_of(env, struct sim_env, env)->sim;
}

static int64_t sim_now(struct env *env)
{
    struct sim *s = sim_of(env);
    return s->now_ms + (env == &s->inside.env ? s->skew_ms : 0);
}

static int64_t sim_mono(struct env *env)
{
    return (sim_of(env)->now_ms - SIM_START_MS) * 1000;
}

static void sim_random(struct env *env, void *ret, size_t n)
{
    struct rand *r = &container_of(env, struct sim_env, env)->rand;
    for (char *p = ret; n;) {
        uint64_t x = rand_next(r);
        size_t piece = n < sizeof x ? n : sizeof x;
        memcpy(p, &x, piece);
        p += piece;
        n -= piece;
    }
}

static void sim_sleep_op(struct env *env, int64_t ms)
{
    struct sim *s = sim_of(env);
    if (s->running)
        sim_wait(s, s->now_ms + ms);
    else
        s->now_ms += ms;
}

/* store_run asks once before it hands in, and again for as long as it waits for its batch. */
static void sim_effect(struct env *env, enum env_effect effect)
{
    struct sim *s = sim_of(env);
    struct sim_task *t = s->running;
    if (!t)
        return;
    t->store_asks = effect == EFFECT_STORE ? t->store_asks + 1 : 0;
    t->parked = t->store_asks > 1;
    fibre_yield();
}

static void env_open(struct sim *s, struct sim_env *e, uint64_t seed)
{
    static const struct env_ops ops = { sim_now, sim_mono, sim_random, sim_sleep_op, sim_effect };
    *e = (struct sim_env) { .env = { .ops = &ops }, .sim = s };
    rand_seed(&e->rand, seed);
}

/* ---- the scheduler ---- */

static bool runnable(const struct sim *s, const struct sim_task *t)
{
    return !t->parked && t->wake_ms <= s->now_ms;
}

static struct sim_task *pick(struct sim *s, size_t n)
{
    int64_t i = sim_below(s, (int64_t)n);
    list_each (node, &s->tasks) {
        struct sim_task *t = container_of(node, struct sim_task, link);
        if (runnable(s, t) && i-- == 0)
            return t;
    }
    return NULL;
}

static void run_task(struct sim *s, struct sim_task *t)
{
    sim_note(s, "run", (int64_t)t->seq);
    s->running = t;
    bool alive = fibre_resume(t->fibre);
    s->running = NULL;
    if (!alive)
        task_end(t);
}

static void run_batch(struct sim *s)
{
    size_t max = 1 + (size_t)sim_below(s, (int64_t)s->temper.batch_max);
    s->in_batch = true;
    size_t n = store_turn(s->process->centre.store, max);
    s->in_batch = false;
    sim_note(s, "batch", (int64_t)n);
    list_each (node, &s->tasks)
        container_of(node, struct sim_task, link)->parked = false;
    sim_watch_batch(s);
}

static void move_clock(struct sim *s, int64_t ms)
{
    s->now_ms += ms;
    sim_note(s, "clock", ms);
}

static void clock_some(struct sim *s)
{
    int64_t max = s->temper.clock_max_ms, skew = s->temper.skew_max_ms;
    if (skew && sim_chance(s, 10)) {
        s->skew_ms = sim_below(s, 2 * skew) - skew;
        sim_note(s, "skew", s->skew_ms);
    }
    if (sim_chance(s, 5))
        max = 30000; /* somebody stands still for longer than any lease or timeout */
    move_clock(s, 1 + sim_below(s, max));
}

/* To the next moment for which somebody waits. */
static void clock_next(struct sim *s)
{
    int64_t next = s->process ? NEVER : s->up_ms;
    list_each (node, &s->tasks) {
        const struct sim_task *t = container_of(node, struct sim_task, link);
        if (!t->parked && t->wake_ms < next)
            next = t->wake_ms;
    }
    if (next == NEVER)
        sim_fail(s, (struct number) { 0 }, "everybody waits for ever");
    else if (next > s->now_ms)
        move_clock(s, next - s->now_ms);
}

void sim_step(struct sim *s)
{
    size_t n = 0, waiting = s->process ? store_waiting(s->process->centre.store) : 0;
    s->steps++;
    list_each (node, &s->tasks)
        n += runnable(s, container_of(node, struct sim_task, link));
    if ((n || waiting) && sim_chance(s, s->healed ? 1 : s->temper.clock_percent)) {
        clock_some(s);
    } else if (waiting && (!n || sim_chance(s, 35))) {
        run_batch(s);
    } else if (n) {
        struct sim_task *t = pick(s, n);
        for (int i = 0; i < SLOW_TRIES && t->slow; i++)
            t = pick(s, n);
        run_task(s, t);
    } else {
        clock_next(s);
    }
}

/* ---- one run ---- */

static void choose_temper(struct sim *s)
{
    static const int64_t jumps[] = { 5, 50, 500, 3000 };
    static const size_t batches[] = { 1, 2, 8, 64 };
    static const int paces[] = { 1, 5, 30, 100 };
    static const int64_t bus_paces[] = { 50, 500, 10000, 150000 };
    struct sim_temper *t = &s->temper;
    bool good_day = sim_chance(s, 15);

    t->clock_percent = (int)sim_below(s, 12);
    t->clock_max_ms = jumps[sim_below(s, 4)];
    t->batch_max = batches[sim_below(s, 4)];
    t->jobs = 1 + (unsigned)sim_chance(s, 30);
    t->pace_percent = paces[sim_below(s, 4)];
    t->accounts = 1 + (int)sim_below(s, SIM_ACCOUNTS);
    t->bus_slow_ms = bus_paces[sim_below(s, 4)];
    t->webhook = sim_chance(s, 40);
    t->stuck_ms = sim_chance(s, 50) ? 60000 : 30 * 60000;
    if (good_day)
        return;
    t->typing = sim_chance(s, 40);
    t->hook_percent = (int)sim_below(s, 60);
    t->skew_max_ms = sim_chance(s, 30) ? 4000 : 0;
    t->faults_percent = (int)sim_below(s, 40);
    t->wire_percent = sim_chance(s, 60) ? (int)sim_below(s, 60) : 0;
    t->wire_max_ms = sim_chance(s, 50) ? 2000 : 40000;
    t->commits = (enum sim_commits)sim_below(s, 3);
    t->commit_permille = 1 + (int)sim_below(s, t->commits == COMMITS_FAIL_STOP ? 20 : 60);
    t->deaths = (int)sim_below(s, 4);
}

/* The story goes on until everybody has done what he came for; then all faults are healed, and the
 * clock moves until nothing is due. */
static void play(struct sim *s)
{
    while (!s->failed && s->actors && s->now_ms < SIM_START_MS + ACTORS_MS &&
           s->steps < STEPS_MAX) {
        sim_process_step(s);
        sim_step(s);
    }
    s->healed = true;
    sandbox_clear_faults(s->sandbox);
    s->up_ms = s->now_ms;
    while (!s->failed) {
        sim_process_step(s);
        sim_step(s);
        if (s->steps % LOOK_EVERY)
            continue;
        const char *unrest = sim_unrest(s);
        if (!unrest)
            return;
        if (s->now_ms > SIM_START_MS + REST_MS || s->steps > 2 * STEPS_MAX)
            sim_fail(s, (struct number) { 0 }, "it never comes to rest: %s", unrest);
    }
}

static void begin(struct sim *s, const struct sim_base *base, uint64_t seed)
{
    *s = (struct sim) { .base = base, .seed = seed, .trace = seed, .now_ms = SIM_START_MS };
    s->loud = getenv("FENPAY_SIM_TRACE") != NULL;
    s->arena = arena_new(1 << 20);
    rand_seed(&s->rand, seed);
    env_open(s, &s->outside, seed * 3 + 1);
    env_open(s, &s->inside, seed * 3 + 2);
    list_init(&s->tasks);
    list_init(&s->acknowledged);
    list_init(&s->received);
    choose_temper(s);
    sim_wire_open(s);
    sim_watch_open(s);
    sim_process_open(s);
    sim_actors_start(s);
}

static void end(struct sim *s)
{
    list_each_safe (node, &s->tasks)
        task_end(container_of(node, struct sim_task, link));
    if (s->process)
        sim_process_kill(s);
    sandbox_free(s->sandbox);
    log_free(s->log);
    close(s->log_fd);
    sim_remove_db(s->db_path);
    arena_free(s->arena);
}

void sim_run(const struct sim_base *base, uint64_t seed, bool report, struct sim_result *ret)
{
    struct sim s;

    *ret = (struct sim_result) { 0 };
    begin(&s, base, seed);
    play(&s);
    if (!s.failed)
        sim_watch_end(&s, ret);
    if (s.failed && report)
        sim_report(&s);
    ret->failed = s.failed;
    ret->trace = s.trace;
    ret->steps = s.steps;
    ret->virtual_ms = s.now_ms - SIM_START_MS;
    ret->deaths = s.temper.deaths - s.deaths_left;
    memcpy(ret->why, s.why, sizeof ret->why);
    end(&s);
}
