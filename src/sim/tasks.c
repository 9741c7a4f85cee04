/* tasks.c -- tasks, the clock and the scheduler.
 *
 * Who can run stands in a row from which chance picks; who waits for a moment lies in a heap by
 * that moment; who waits for his node's next batch stands aside with it. */
#include "sim/inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fibre.h"

#define STACK_BYTES  (256 << 10)
#define SLOW_PERCENT 12
#define SLOW_TRIES   12
#define BATCH_FIRST  35 /* percent, when somebody could run as well */
#define STILL_MS     30000

struct sim_task {
    struct list link, parked;
    struct sim *sim;
    struct sim_node *node; /* NULL: outside */
    struct fibre *fibre;
    const char *name;
    uint64_t seq;
    sim_fn *fn;
    void *arg;
    int64_t wake_ms; /* not before */
    size_t place;    /* in the row or in the heap */
    enum { TASK_READY, TASK_WAITING, TASK_PARKED, TASK_RUNNING } state;
    int store_asks; /* effects on the store in a row: from the second on it waits for a batch */
    bool slow;      /* seldom runs while others can: on its own, time passes it by */
};

struct sim_tasks {
    struct sim_task **ready, **waiting;
    size_t ready_n, waiting_n, room;
};

/* ---- telling ---- */

void sim_note(struct sim *s, const char *what, int64_t value)
{
    for (const char *p = what; *p; p++)
        s->trace = (s->trace ^ (uint8_t)*p) * 0x100000001b3ULL;
    s->trace = (s->trace ^ (uint64_t)value) * 0x9e3779b97f4a7c15ULL;
    s->trace ^= s->trace >> 29;
    if (s->loud)
        printf("%6llu +%lld.%03lld %s %s %lld\n", (unsigned long long)s->steps,
               (long long)((s->now_ms - SIM_START_MS) / 1000),
               (long long)((s->now_ms - SIM_START_MS) % 1000), s->running ? s->running->name : "-",
               what, (long long)value);
}

void sim_note_text(struct sim *s, const char *what, struct str text)
{
    uint64_t hash = text.n;
    size_t i = 0;
    for (uint64_t word; i + sizeof word <= text.n; i += sizeof word) {
        memcpy(&word, text.p + i, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    for (; i < text.n; i++)
        hash = (hash ^ (uint8_t)text.p[i]) * 0x100000001b3ULL;
    sim_note(s, what, (int64_t)(hash >> 1));
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

/* ---- the row and the heap ---- */

static bool earlier(const struct sim_task *a, const struct sim_task *b)
{
    return a->wake_ms != b->wake_ms ? a->wake_ms < b->wake_ms : a->seq < b->seq;
}

static void heap_put(struct sim_tasks *o, size_t i, struct sim_task *t)
{
    o->waiting[i] = t;
    t->place = i;
}

static void heap_up(struct sim_tasks *o, struct sim_task *t)
{
    size_t i = t->place;
    for (; i > 0 && earlier(t, o->waiting[(i - 1) / 2]); i = (i - 1) / 2)
        heap_put(o, i, o->waiting[(i - 1) / 2]);
    heap_put(o, i, t);
}

static void heap_down(struct sim_tasks *o, struct sim_task *t)
{
    size_t i = t->place, child;
    while ((child = 2 * i + 1) < o->waiting_n) {
        if (child + 1 < o->waiting_n && earlier(o->waiting[child + 1], o->waiting[child]))
            child++;
        if (!earlier(o->waiting[child], t))
            break;
        heap_put(o, i, o->waiting[child]);
        i = child;
    }
    heap_put(o, i, t);
}

static void heap_remove(struct sim_tasks *o, struct sim_task *t)
{
    size_t hole = t->place;
    struct sim_task *last = o->waiting[--o->waiting_n];
    if (last == t)
        return;
    heap_put(o, hole, last);
    heap_up(o, last);
    heap_down(o, last);
}

static void make_room(struct sim *s)
{
    struct sim_tasks *o = s->order;
    if (o->ready_n < o->room && o->waiting_n < o->room)
        return;
    o->room = o->room ? o->room * 2 : 64;
    o->ready = realloc(o->ready, o->room * sizeof(struct sim_task *));
    o->waiting = realloc(o->waiting, o->room * sizeof(struct sim_task *));
    if (!o->ready || !o->waiting)
        abort();
}

static void put_ready(struct sim *s, struct sim_task *t)
{
    make_room(s);
    t->state = TASK_READY;
    t->place = s->order->ready_n;
    s->order->ready[s->order->ready_n++] = t;
}

static void put_waiting(struct sim *s, struct sim_task *t)
{
    make_room(s);
    t->state = TASK_WAITING;
    t->place = s->order->waiting_n++;
    heap_up(s->order, t);
}

static void take_away(struct sim *s, struct sim_task *t)
{
    struct sim_tasks *o = s->order;
    switch (t->state) {
    case TASK_READY:
        o->ready[t->place] = o->ready[--o->ready_n];
        o->ready[t->place]->place = t->place;
        break;
    case TASK_WAITING:
        heap_remove(o, t);
        break;
    case TASK_PARKED:
        list_remove(&t->parked);
        break;
    case TASK_RUNNING:
        break;
    }
    t->state = TASK_RUNNING;
}

/* ---- tasks ---- */

static void task_main(void *arg)
{
    struct sim_task *t = arg;
    t->fn(t->sim, t->arg);
}

struct sim_task *sim_spawn(struct sim *s, const char *name, struct sim_node *node, sim_fn *fn,
                           void *arg)
{
    struct sim_task *t = arena_one(s->arena, struct sim_task);
    *t = (struct sim_task) { .sim = s, .node = node, .name = name, .fn = fn, .arg = arg };
    t->seq = ++s->tasks_made;
    t->slow = sim_chance(s, SLOW_PERCENT);
    t->fibre = fibre_new(task_main, t, STACK_BYTES);
    list_append(&s->tasks, &t->link);
    put_ready(s, t);
    return t;
}

static void task_end(struct sim *s, struct sim_task *t)
{
    take_away(s, t);
    list_remove(&t->link);
    fibre_free(t->fibre);
    t->fibre = NULL;
}

void sim_kill_tasks(struct sim *s, const struct sim_node *node)
{
    list_each_safe (link, &s->tasks) {
        struct sim_task *t = container_of(link, struct sim_task, link);
        if (!node || t->node == node)
            task_end(s, t);
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
    if (t->state == TASK_WAITING) {
        take_away(t->sim, t);
        put_ready(t->sim, t);
    }
}

void sim_tasks_open(struct sim *s)
{
    list_init(&s->tasks);
    s->order = arena_one(s->arena, struct sim_tasks);
}

void sim_tasks_close(struct sim *s)
{
    sim_kill_tasks(s, NULL);
    free(s->order->ready);
    free(s->order->waiting);
}

/* ---- environments ---- */

static struct sim_env *env_of(struct env *env)
{
    return container_of(env, struct sim_env, env);
}

static int64_t sim_now(struct env *env)
{
    return env_of(env)->sim->now_ms + env_of(env)->skew_ms;
}

static int64_t sim_mono(struct env *env)
{
    return (env_of(env)->sim->now_ms - SIM_START_MS) * 1000;
}

static void sim_random(struct env *env, void *ret, size_t n)
{
    struct rand *r = &env_of(env)->rand;
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
    struct sim *s = env_of(env)->sim;
    if (s->running)
        sim_sleep(s, ms);
    else
        s->now_ms += ms;
}

/* store_run asks once before it hands in, and again for as long as it waits for its batch. */
static void sim_effect(struct env *env, enum env_effect effect)
{
    struct sim_task *t = env_of(env)->sim->running;
    if (!t)
        return;
    t->store_asks = effect == EFFECT_STORE ? t->store_asks + 1 : 0;
    fibre_yield();
}

void sim_env_open(struct sim *s, struct sim_env *e, uint64_t seed)
{
    static const struct env_ops ops = { sim_now, sim_mono, sim_random, sim_sleep_op, sim_effect };
    *e = (struct sim_env) { .env = { .ops = &ops }, .sim = s };
    rand_seed(&e->rand, seed);
}

/* ---- the scheduler ---- */

static void run_task(struct sim *s)
{
    struct sim_tasks *o = s->order;
    struct sim_task *t = o->ready[sim_below(s, (int64_t)o->ready_n)];
    for (int i = 0; i < SLOW_TRIES && t->slow; i++)
        t = o->ready[sim_below(s, (int64_t)o->ready_n)];
    sim_note(s, "run", (int64_t)t->seq);
    take_away(s, t);
    s->running = t;
    bool alive = fibre_resume(t->fibre);
    s->running = NULL;
    if (!alive) {
        task_end(s, t);
    } else if (t->node && t->store_asks > 1) {
        t->state = TASK_PARKED;
        list_append(&t->node->parked, &t->parked);
    } else if (t->wake_ms > s->now_ms) {
        put_waiting(s, t);
    } else {
        put_ready(s, t);
    }
}

static void run_batch(struct sim *s, struct sim_node *node)
{
    size_t max = 1 + (size_t)sim_below(s, (int64_t)s->temper.batch_max);
    struct list *link;
    s->in_batch = true;
    size_t n = store_turn(node->process->centre.store, max);
    s->in_batch = false;
    sim_note(s, "batch", (int64_t)n);
    while ((link = list_take_first(&node->parked)))
        put_ready(s, container_of(link, struct sim_task, parked));
    sim_watch_batch(s);
}

static void move_clock(struct sim *s, int64_t ms)
{
    struct sim_tasks *o = s->order;
    s->now_ms += ms;
    sim_note(s, "clock", ms);
    while (o->waiting_n && o->waiting[0]->wake_ms <= s->now_ms) {
        struct sim_task *t = o->waiting[0];
        take_away(s, t);
        put_ready(s, t);
    }
}

static void step_skew(struct sim *s)
{
    struct sim_node *node = &s->nodes[sim_below(s, s->temper.nodes)];
    node->env.skew_ms = sim_below(s, 2 * s->temper.skew_max_ms) - s->temper.skew_max_ms;
    s->faults++;
    sim_note(s, "skew", node->env.skew_ms);
}

static void clock_some(struct sim *s)
{
    int64_t max = s->temper.clock_max_ms;
    if (s->temper.skew_max_ms && !s->healed && sim_chance(s, 5))
        step_skew(s);
    if (sim_chance(s, 5))
        max = STILL_MS; /* somebody stands still for longer than any lease or timeout */
    move_clock(s, 1 + sim_below(s, max));
}

/* To the next moment for which somebody waits. */
static void clock_next(struct sim *s)
{
    struct sim_tasks *o = s->order;
    int64_t next = o->waiting_n ? o->waiting[0]->wake_ms : INT64_MAX;
    for (int i = 0; i < s->temper.nodes; i++)
        if (!s->nodes[i].process && s->nodes[i].up_ms < next)
            next = s->nodes[i].up_ms;
    if (next == INT64_MAX)
        sim_fail(s, (struct number) { 0 }, "everybody waits for ever");
    else
        move_clock(s, next > s->now_ms ? next - s->now_ms : 0);
}

/* A node whose store has something to do, one or the other. */
static struct sim_node *waiting_store(struct sim *s)
{
    struct sim_node *found = NULL;
    for (int i = 0; i < s->temper.nodes; i++) {
        struct sim_node *node = &s->nodes[i];
        if (node->process && store_waiting(node->process->centre.store) &&
            (!found || sim_chance(s, 50)))
            found = node;
    }
    return found;
}

void sim_step(struct sim *s)
{
    bool ready = s->order->ready_n > 0;
    struct sim_node *node = waiting_store(s);
    s->steps++;
    if ((ready || node) && sim_chance(s, s->healed ? 1 : s->temper.clock_percent))
        clock_some(s);
    else if (node && (!ready || sim_chance(s, BATCH_FIRST)))
        run_batch(s, node);
    else if (ready)
        run_task(s);
    else
        clock_next(s);
}
