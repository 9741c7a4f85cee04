/* queue.c -- who runs when: places in the queue, the three classes, the writer thread, and the ways
 * to hand a rule in.
 *
 * Classes share the writer's time 8 : 4 : 2. Each has a clock that advances by the time its rules
 * took, times 1, 2 or 4; the waiting class with the earliest clock is served next, so that none
 * starves and none saves up time while idle. */
#include "store/internal.h"

#include <assert.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "base/fibre.h"

#define GATHER_US      2000
#define GATHER_RULES   64 /* enough for a batch */
#define PROBE_MS       500
#define PROBE_BYTES    (2 * BATCH_BYTES)
#define UNKNOWN_TRIES  3
#define CLASS_SHARE(x) ((x) / 4 * 3) /* one class's flood leaves places to the others */

static const int64_t class_factor[STORE_CLASSES] = {
    [STORE_CALLBACK] = 1, [STORE_API] = 2, [STORE_BACKGROUND] = 4
};

void store_job_init(struct store_job *job, struct env *env, struct mint *mint, unsigned ids)
{
    assert(ids == 0 || mint);
    *job = (struct store_job) { .now_ms = env_now_ms(env), .ids_count = ids };
    if (ids)
        job->first_id = mint_ids(mint, ids);
    list_init(&job->link);
}

/* ---- places ---- */

static int64_t job_bytes(const struct store_job *job)
{
    return job->bytes ? (int64_t)job->bytes : JOB_BYTES;
}

static int64_t sum(const int64_t v[STORE_CLASSES])
{
    return v[0] + v[1] + v[2];
}

static bool reserve(struct store *s, const struct store_job *job, struct err_info *info)
{
    enum store_class c = job->class;
    int64_t bytes = job_bytes(job);
    if (store_refuses(s, info))
        return false;
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    bool room = sum(s->places) < QUEUE_RULES && s->places[c] < CLASS_SHARE(QUEUE_RULES) &&
                sum(s->place_bytes) + bytes <= QUEUE_BYTES &&
                s->place_bytes[c] + bytes <= CLASS_SHARE(QUEUE_BYTES);
    if (!stopping && room) {
        s->places[c]++;
        s->place_bytes[c] += bytes;
    }
    pthread_mutex_unlock(&s->lock);
    if (stopping)
        err_set(info, ERR_BUSY, "the store is stopping");
    else if (!room)
        err_set(info, ERR_BUSY, "the store's queue is full");
    return !stopping && room;
}

bool store_reserve(struct store *s, const struct store_job *job)
{
    return reserve(s, job, NULL);
}

/* Under the lock. */
static void give_back(struct store *s, enum store_class class, int64_t bytes)
{
    s->places[class]--;
    s->place_bytes[class] -= bytes;
    assert(s->places[class] >= 0);
    if (sum(s->places) == 0)
        pthread_cond_broadcast(&s->idle);
}

/* ---- the queue ---- */

/* In inline mode all wait in one line: the scheduler composes batches and wants them in order. */
static int line_of(const struct store *s, const struct store_job *job)
{
    return s->o.inline_mode ? 0 : (int)job->class;
}

/* Under the lock. `first`: it was taken before and has to run again. */
static void enqueue(struct store *s, struct store_job *job, bool first)
{
    int line = line_of(s, job);
    if (list_empty(&s->queue[line]) && s->used[line] < s->clock)
        s->used[line] = s->clock;
    list_append(first ? s->queue[line].next : &s->queue[line], &job->link);
    s->queued[line]++;
}

static int next_line(const struct store *s)
{
    int best = -1;
    for (int i = 0; i < STORE_CLASSES; i++)
        if (!list_empty(&s->queue[i]) && (best < 0 || s->used[i] < s->used[best]))
            best = i;
    return best;
}

/* Under the lock. */
static void take_batch(struct store *s, struct batch *b, size_t max)
{
    int64_t bytes = 0, us = 0;
    b->n = 0;
    for (int line; b->n < max && (line = next_line(s)) >= 0;) {
        struct store_job *job = container_of(s->queue[line].next, struct store_job, link);
        int64_t expect = s->rule_us[job->class];
        if (b->n > 0 &&
            (job->alone || bytes + job_bytes(job) > BATCH_BYTES || us + expect > BATCH_US))
            break;
        list_remove(&job->link);
        s->queued[line]--;
        s->clock = s->used[line];
        s->used[line] += expect * class_factor[line];
        bytes += job_bytes(job);
        us += expect;
        b->slots[b->n++] = (struct slot) { .job = job,
                                           .fate = FATE_WAITING,
                                           .class = job->class,
                                           .expect_us = expect,
                                           .bytes = job_bytes(job) };
        if (job->alone)
            break;
    }
}

/* Under the lock: corrects the clocks by what the rules really took, gives places back, queues what
 * runs again. */
static void settle_batch(struct store *s, struct batch *b)
{
    for (size_t i = b->n; i-- > 0;) {
        struct slot *slot = &b->slots[i];
        if (!s->o.inline_mode)
            s->used[slot->class] -= slot->expect_us * class_factor[slot->class];
        if (slot->fate == FATE_AGAIN)
            enqueue(s, slot->job, true);
        else
            give_back(s, slot->class, slot->bytes);
    }
    for (int c = 0; c < STORE_CLASSES; c++) {
        metric_set(s->metrics[M_QUEUE_CALLBACK + c], s->queued[c]);
        if (b->rules[c] == 0)
            continue;
        s->used[s->o.inline_mode ? 0 : c] += b->cost_us[c] * class_factor[c];
        s->rule_us[c] += (b->cost_us[c] / b->rules[c] - s->rule_us[c]) / 4;
    }
}

/* Takes and runs a batch; called and left with the lock held. */
static size_t turn(struct store *s, size_t max)
{
    struct batch *b = s->batch;
    take_batch(s, b, max);
    if (b->n == 0)
        return 0;
    pthread_mutex_unlock(&s->lock);
    batch_run(s, b);
    store_log_after_commit(s);
    pthread_mutex_lock(&s->lock);
    settle_batch(s, b);
    return b->n;
}

size_t store_turn(struct store *s, size_t max)
{
    assert(s->o.inline_mode);
    if (s->full)
        store_probe(s);
    pthread_mutex_lock(&s->lock);
    size_t n = turn(s, max < BATCH_RULES ? max : BATCH_RULES);
    pthread_mutex_unlock(&s->lock);
    return n;
}

size_t store_waiting(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t n = sum(s->queued);
    pthread_mutex_unlock(&s->lock);
    return (size_t)n;
}

/* Callbacks come one by one, and a commit for each costs several times what they cost together: the
 * first pages of every tree, the sync. So while they are coming, batches begin at least so far
 * apart. Whoever comes to an idle store waits for nobody. Called and left with the lock held. */
static void let_callbacks_gather(struct store *s, int64_t begun_us)
{
    int64_t wait_us = begun_us + GATHER_US - env_mono_us(s->env);
    if (s->batch->rules[STORE_CALLBACK] == 0 || wait_us <= 0 || wait_us > GATHER_US ||
        sum(s->queued) >= GATHER_RULES || s->stopping)
        return;
    pthread_mutex_unlock(&s->lock);
    nanosleep(&(struct timespec) { .tv_nsec = wait_us * 1000 }, NULL);
    pthread_mutex_lock(&s->lock);
}

void *store_writer_main(void *arg)
{
    struct store *s = arg;
    pthread_setname_np(pthread_self(), "store");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        int64_t begun_us = env_mono_us(s->env);
        bool worked = turn(s, BATCH_RULES) > 0;
        if (!worked && s->stop_threads)
            break;
        if (worked)
            let_callbacks_gather(s, begun_us);
        if (next_line(s) >= 0)
            continue;
        if (!s->full) {
            if (!s->stop_threads)
                pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_nsec += PROBE_MS / 4 * 1000000;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->work, &s->lock, &t);
        pthread_mutex_unlock(&s->lock);
        store_probe(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void store_probe_later(struct store *s)
{
    s->probe_us = env_mono_us(s->env) + PROBE_MS * 1000;
}

/* A small write that must reach the disk, after a look at the room there is: a page may still fit
 * where a batch does not. Not an UPDATE to the same value: SQLite notices and writes nothing. */
void store_probe(struct store *s)
{
    const struct store_driver *d = s->driver;
    struct str write =
        STR("INSERT INTO schema_migration (name, checksum, applied_time) VALUES ('probe', '', 0);"
            "DELETE FROM schema_migration WHERE name = 'probe'");
    struct err_info info = { 0 };
    if (!s->full || s->failed || env_mono_us(s->env) < s->probe_us)
        return;
    store_probe_later(s);
    if (d->free_bytes && d->free_bytes(str_of(s->path)) < PROBE_BYTES)
        return;
    enum err e = d->begin(s->writer, true, &info);
    if (!e)
        e = d->script(s->writer, write, &info);
    if (e) {
        d->rollback(s->writer);
        return;
    }
    e = d->commit(s->writer, &info);
    if (e)
        d->rollback(s->writer);
    if (!e)
        store_set_full(s, false);
    else if (e != ERR_LIMIT && e != ERR_RETRY)
        store_fail(s, &info);
}

/* ---- handing in ---- */

void store_direct(struct store *s, struct store_job *job)
{
    struct batch *b = s->batch;
    pthread_mutex_lock(&s->direct);
    if (s->full)
        store_probe(s);
    enum store_class class = job->class;
    int64_t bytes = job_bytes(job);
    b->n = 1;
    b->slots[0] = (struct slot) { .job = job, .class = class, .bytes = bytes };
    do {
        b->slots[0].fate = FATE_WAITING;
        batch_run(s, b);
    } while (b->slots[0].fate == FATE_AGAIN);
    store_log_after_commit(s);
    pthread_mutex_unlock(&s->direct);
    pthread_mutex_lock(&s->lock);
    give_back(s, class, bytes);
    pthread_mutex_unlock(&s->lock);
}

static void prepare_job(struct store_job *job)
{
    assert(job->rule || job->batch);
    assert(job->name);
    job->tries = 0;
    job->waiter = NULL;
    job->info = (struct err_info) { 0 };
}

static void hand_in(struct store *s, struct store_job *job)
{
    pthread_mutex_lock(&s->lock);
    enqueue(s, job, false);
    if (s->threads)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

void store_submit(struct store *s, struct store_job *job)
{
    prepare_job(job);
    if (s->o.second_writer)
        store_direct(s, job);
    else
        hand_in(s, job);
}

struct waiter {
    sem_t sem;
    bool told;
};

void waiter_wake(struct store *s, void *waiter)
{
    struct waiter *w = waiter;
    w->told = true;
    if (s->threads)
        sem_post(&w->sem); /* the last touch: it lies on the stack of who waits */
}

static enum store_outcome run_once(struct store *s, struct store_job *job, struct err_info *info)
{
    if (!reserve(s, job, info))
        return STORE_BUSY;
    prepare_job(job);
    struct waiter w = { .told = false };
    job->waiter = &w;
    if (s->threads) {
        assert(!pthread_equal(pthread_self(), s->writer_thread));
        sem_init(&w.sem, 0, 0);
        hand_in(s, job);
        while (sem_wait(&w.sem) != 0)
            ;
        sem_destroy(&w.sem);
    } else if (s->o.inline_mode && fibre_current() && s->env->ops->effect) {
        hand_in(s, job);
        while (!w.told)
            env_effect(s->env, EFFECT_STORE);
    } else {
        store_direct(s, job);
    }
    if (info)
        *info = job->info;
    return job->outcome;
}

enum store_outcome store_run(struct store *s, struct store_job *job, struct err_info *info)
{
    env_effect(s->env, EFFECT_STORE);
    enum store_outcome outcome = run_once(s, job, info);
    for (int i = 0; i < UNKNOWN_TRIES && outcome == STORE_UNKNOWN && store_settles_unknown(s);
         i++) {
        outcome = run_once(s, job, info);
        if (outcome == STORE_BUSY) /* the lost one may still have happened */
            outcome = STORE_UNKNOWN;
    }
    env_effect(s->env, EFFECT_STORED);
    return outcome;
}

void store_drain(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    if (s->o.inline_mode)
        while (turn(s, BATCH_RULES) > 0)
            ;
    else
        while (sum(s->places) > 0)
            pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
