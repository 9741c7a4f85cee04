/* scheduler.c -- who runs which job when.
 *
 * Each job has a time when it is next due, kept in memory, and a lease in the database, so that of
 * several processes one runs it. The lease is kept between runs and extended when half of it is
 * gone: an idle centre writes a few rows a minute, not a few a second. Within the process a job
 * never runs twice at a time. While a long run is under way any idle worker extends its lease.
 *
 * What a run begins, it begins under the fence of its lease (struct shift): a process that was away
 * for longer than its lease, or whose clock is wrong, is refused by the database. */
#include "base/log.h"
#include "base/metrics.h"
#include "job/jobs.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LEASE_MS         60000
#define WORKERS_MAX      16
#define WANTED_MAX       64
#define WANTED_PAUSE_MS  60000
#define LOOK_ROUND_MS    500
#define AFTER_FAILURE_MS 5000

struct entry {
    const struct job *job;
    char lease_name[80];
    int64_t next_ms, lease_until_ms, fence;
    bool running;
};

/* Accounts whose keys somebody asked for. */
struct wanted {
    char account[33];
    int64_t asked_ms;
    bool open;
};

struct scheduler {
    struct job_context ctx;
    struct job_memory memory;
    struct env *env;
    char owner[40];
    struct entry *entries;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
    unsigned workers, thread_count;
    pthread_t threads[WORKERS_MAX];
    struct wanted wanted[WANTED_MAX];
    size_t wanted_count;
};

struct scheduler *scheduler_new(struct job_context *ctx, unsigned workers)
{
    struct scheduler *s = calloc(1, sizeof *s);
    if (!s || !(s->entries = calloc(job_count, sizeof *s->entries)))
        abort();
    s->ctx = *ctx;
    s->ctx.memory = &s->memory;
    s->env = ctx->centre->env;
    s->workers = workers < 1 ? 1 : workers > WORKERS_MAX ? WORKERS_MAX : workers;
    snprintf(s->owner, sizeof s->owner, "process/%llx",
             (unsigned long long)ctx->centre->process_id);
    for (size_t i = 0; i < job_count; i++) {
        s->entries[i].job = &jobs[i];
        if (ctx->without && strcmp(ctx->without, jobs[i].name) == 0)
            s->entries[i].next_ms = INT64_MAX;
        snprintf(s->entries[i].lease_name, sizeof s->entries[i].lease_name, "job/%s", jobs[i].name);
    }

    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

void scheduler_free(struct scheduler *s)
{
    if (!s)
        return;
    assert(s->thread_count == 0);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->entries);
    free(s);
}

/* ---- leases ---- */

struct lease_wanted {
    struct str name, owner;
    struct lease lease;
    bool taken;
};

static enum err lease_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct lease_wanted *w = arg;
    return lease_take(tx, w->name, w->owner, LEASE_MS, &w->lease, &w->taken, info);
}

static enum err release_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct lease_wanted *w = arg;
    enum err e = lease_take(tx, w->name, w->owner, LEASE_MS, &w->lease, &w->taken, info);
    if (!e && w->taken)
        e = lease_release(tx, &w->lease, info);
    return e;
}

static bool run_lease_rule(struct scheduler *s, const struct entry *e, store_rule *rule,
                           struct lease_wanted *w)
{
    struct store_job store_job;

    *w = (struct lease_wanted) { .name = str_of(e->lease_name), .owner = str_of(s->owner) };
    store_job_init(&store_job, s->env, s->ctx.centre->mint, 0);
    store_job.name = "job.lease";
    store_job.class = STORE_BACKGROUND;
    store_job.rule = rule;
    store_job.arg = w;
    return store_run(s->ctx.centre->store, &store_job, NULL) == STORE_COMMITTED && w->taken;
}

/* Has, takes or extends the lease. `until_ms` is what the entry says. */
static bool hold(struct scheduler *s, struct entry *e, int64_t until_ms)
{
    struct lease_wanted w;

    if (e->job->local || until_ms - env_now_ms(s->env) > LEASE_MS / 2)
        return true;
    bool held = run_lease_rule(s, e, lease_rule, &w);
    pthread_mutex_lock(&s->lock);
    e->lease_until_ms = held ? w.lease.until_ms : 0;
    e->fence = held ? w.lease.fence : 0;
    pthread_mutex_unlock(&s->lock);
    return held;
}

static void release_all(struct scheduler *s)
{
    struct lease_wanted w;
    for (size_t i = 0; i < job_count; i++)
        if (s->entries[i].lease_until_ms > env_now_ms(s->env)) {
            run_lease_rule(s, &s->entries[i], release_rule, &w);
            s->entries[i].lease_until_ms = 0;
        }
}

static void extend_running(struct scheduler *s)
{
    for (size_t i = 0; i < job_count; i++) {
        pthread_mutex_lock(&s->lock);
        bool due = s->entries[i].running && s->entries[i].lease_until_ms;
        int64_t until = s->entries[i].lease_until_ms;
        pthread_mutex_unlock(&s->lock);
        if (due)
            hold(s, &s->entries[i], until);
    }
}

/* ---- running ---- */

static void note_run(struct scheduler *s, const struct job *job, enum err e,
                     const struct err_info *info, int64_t us)
{
    char labels[80];

    snprintf(labels, sizeof labels, "%s,%s", job->name, e ? "failed" : "ok");
    metric_add(metrics_get(s->env->metrics, "fenpay_job_runs_total", labels), 1);
    metric_observe_us(metrics_get(s->env->metrics, "fenpay_job_seconds", job->name), us);
    if (e)
        LOG(s->env->log, e == ERR_BUSY ? LOG_INFO : LOG_WARN, "job.failed",
            log_cstr("job", job->name), log_cstr("error", err_name(e)),
            log_cstr("text", info->text));
}

static enum err run_shift(struct scheduler *s, struct entry *e, size_t *ret_done, bool *ret_over,
                          struct err_info *info)
{
    struct shift shift = { .until_us = env_mono_us(s->env) + JOB_RUN_MS * 1000LL };
    struct centre centre = *s->ctx.centre;
    struct job_context ctx = s->ctx;

    if (!e->job->local) {
        pthread_mutex_lock(&s->lock);
        shift.lease =
            (struct lease) { str_of(e->lease_name), str_of(s->owner), e->fence, e->lease_until_ms };
        pthread_mutex_unlock(&s->lock);
    }
    centre.shift = &shift;
    ctx.centre = &centre;
    enum err err = e->job->run_once(&ctx, e->job->max, ret_done, info);
    *ret_over = shift_over(&centre);
    return err;
}

/* Runs a job whose turn it is; the entry is marked running. True: it did something. */
static bool run(struct scheduler *s, struct entry *e, int64_t lease_until_ms, int64_t due_ms)
{
    const struct job *job = e->job;
    struct err_info info = { .err = ERR_OK };
    size_t done = 0;
    enum err err = ERR_OK;
    bool held = hold(s, e, lease_until_ms), over = false;
    int64_t start_us = env_mono_us(s->env);

    if (held) {
        metric_set(metrics_get(s->env->metrics, "fenpay_job_lag_seconds", job->name),
                   due_ms ? (env_now_ms(s->env) - due_ms) / 1000 : 0);
        err = run_shift(s, e, &done, &over, &info);
        note_run(s, job, err, &info, env_mono_us(s->env) - start_us);
    }

    int64_t now = env_now_ms(s->env), pause = job->every_ms;
    if (!err && held && (done >= job->max || over))
        pause = 0;
    if (err && pause > AFTER_FAILURE_MS)
        pause = AFTER_FAILURE_MS;
    if (!held && pause > LEASE_MS) /* whoever has it may die */
        pause = LEASE_MS;
    pthread_mutex_lock(&s->lock);
    e->next_ms = now + pause;
    if (err && e->lease_until_ms > now + LEASE_MS / 2) /* perhaps it was lost: asked for again */
        e->lease_until_ms = now + LEASE_MS / 2;
    e->running = false;
    pthread_mutex_unlock(&s->lock);
    return done > 0;
}

static bool take_wanted(struct scheduler *s, char ret[33])
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->wanted_count && !found; i++)
        if (s->wanted[i].open) {
            s->wanted[i].open = false;
            memcpy(ret, s->wanted[i].account, sizeof s->wanted[i].account);
            found = true;
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static bool refresh_wanted(struct scheduler *s)
{
    char name[33];
    struct err_info info = { .err = ERR_OK };

    if (!take_wanted(s, name))
        return false;
    struct account *account = registry_ref(s->ctx.centre->registry, str_of(name));
    if (account) {
        enum err e = keys_refresh(&s->ctx, account, &info);
        if (e)
            LOG(s->env->log, LOG_WARN, "job.key_refresh_failed", log_cstr("account", name),
                log_cstr("text", info.text));
        account_unref(account);
    }
    return true;
}

/* The due job that has waited longest, marked running. */
static struct entry *take_due(struct scheduler *s, int64_t now, int64_t *ret_until_ms,
                              int64_t *ret_due_ms)
{
    struct entry *best = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < job_count; i++) {
        struct entry *e = &s->entries[i];
        if (!e->running && e->next_ms <= now && (!best || e->next_ms < best->next_ms))
            best = e;
    }
    if (best) {
        best->running = true;
        *ret_until_ms = best->lease_until_ms;
        *ret_due_ms = best->next_ms;
    }
    pthread_mutex_unlock(&s->lock);
    return best;
}

enum err scheduler_turn(struct scheduler *s, size_t *ret_done, struct err_info *info)
{
    int64_t now = env_now_ms(s->env);
    size_t done = 0;
    bool ran[64] = { false };

    (void)info;
    assert(job_count <= 64);
    while (refresh_wanted(s))
        done++;
    for (size_t i = 0; i < job_count; i++) {
        int64_t until, due;
        struct entry *e = take_due(s, now, &until, &due);
        if (!e)
            break;
        bool again = ran[e - s->entries];
        ran[e - s->entries] = true;
        if (run(s, e, until, due))
            done++;
        if (again)
            break;
    }
    *ret_done = done;
    return ERR_OK;
}

/* ---- threads ---- */

static bool is_stopping(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    bool yes = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static void look_round_later(struct scheduler *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_ROUND_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&s->lock);
    if (!s->stopping)
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *arg)
{
    struct scheduler *s = arg;
    while (!is_stopping(s)) {
        int64_t until, due;
        struct entry *e;
        if (refresh_wanted(s))
            continue;
        if ((e = take_due(s, env_now_ms(s->env), &until, &due))) {
            run(s, e, until, due);
            continue;
        }
        extend_running(s);
        look_round_later(s);
    }
    return NULL;
}

enum err scheduler_start(struct scheduler *s, struct err_info *info)
{
    s->stopping = false;
    for (unsigned i = 0; i < s->workers; i++) {
        int failed = pthread_create(&s->threads[i], NULL, work, s);
        if (failed) {
            scheduler_stop(s);
            return err_set(info, ERR_LIMIT, "no thread for jobs: %s", strerror(failed));
        }
        s->thread_count++;
    }
    return ERR_OK;
}

void scheduler_stop(struct scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    while (s->thread_count)
        pthread_join(s->threads[--s->thread_count], NULL);
    release_all(s);
}

void scheduler_want_keys(void *scheduler, struct account *account)
{
    struct scheduler *s = scheduler;
    struct str name = account->config.name;
    int64_t now = env_now_ms(s->env);
    struct wanted *w = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->wanted_count && !w; i++)
        if (str_eq(str_of(s->wanted[i].account), name))
            w = &s->wanted[i];
    if (!w && s->wanted_count < WANTED_MAX && name.n < sizeof w->account) {
        w = &s->wanted[s->wanted_count++];
        memcpy(w->account, name.p, name.n);
        w->account[name.n] = 0;
        w->asked_ms = now - WANTED_PAUSE_MS;
    }
    if (w && now - w->asked_ms >= WANTED_PAUSE_MS) {
        w->asked_ms = now;
        w->open = true;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
}
