/* batch.c -- one batch of rules: BEGIN, each rule, COMMIT, and what everybody is told.
 *
 * Nobody is told anything before the COMMIT has answered, refusals included: a refusal may rest on
 * what an earlier rule of the same batch wrote. The normal case has no savepoints; what goes wrong
 * (systems.md F1, F2, F27):
 *   - a rule fails before it wrote: it is refused, the others go on;
 *   - a rule fails after it wrote: roll back, that one alone later, the others again, now with
 * savepoints, so that a batch is run again at most once for this reason;
 *   - the engine rolled everything back by itself (disk full, I/O error): the same, the failing one
 * alone; the second time each of the rest alone;
 *   - COMMIT fails: unknown for all; the process must end, unless the disk was full or the engine
 * can settle it. */
#include "store/internal.h"

#include "base/killpoint.h"
#include "base/log.h"

static void tell(struct store *s, struct slot *slot, enum store_outcome outcome)
{
    struct store_job *job = slot->job;
    slot->fate = FATE_DONE;
    slot->job = NULL;
    if (outcome == STORE_BUSY && job->info.err == ERR_LIMIT)
        store_set_full(s, true);
    job->outcome = outcome;
    if (job->waiter)
        waiter_wake(s, job->waiter);
    else if (job->done)
        job->done(job, outcome, &job->info);
}

static void again_or_busy(struct store *s, struct slot *slot)
{
    struct store_job *job = slot->job;
    metric_add(s->metrics[M_CONFLICTS], 1);
    s->retries++;
    if (++job->tries < TRIES_MAX)
        slot->fate = FATE_AGAIN;
    else
        tell(s, slot, STORE_BUSY);
}

/* What a failed rule will be told, once its transaction is settled. */
static enum fate fate_of(const struct tx *tx, enum err e)
{
    if (e == ERR_RETRY)
        return FATE_RETRY;
    /* The database's own trouble is not the rule's refusal. */
    return tx->trouble == ERR_IO || tx->trouble == ERR_LIMIT ? FATE_BUSY : FATE_REFUSED;
}

static enum err call_rule(struct batch *b, struct store_job *job)
{
    if (job->rule)
        return job->rule(&b->tx, job->arg, &job->info);
    enum err e = ERR_INTERNAL;
    job->batch(&b->tx, &job->arg, &e, 1);
    return e;
}

static enum err run_rule(struct store *s, struct batch *b, struct slot *slot)
{
    struct store_job *job = slot->job;
    int64_t start = env_mono_us(s->env);
    job->info = (struct err_info) { 0 };
    tx_start(&b->tx, job, job->now_ms);
    enum err e = tx_finish(&b->tx, call_rule(b, job), &job->info);
    job->info.err = e;
    kill_point(job->name);

    int64_t us = env_mono_us(s->env) - start;
    b->cost_us[slot->class] +=
        us > 0 ? us : 1; /* a standing clock must not stop the classes' turns */
    b->rules[slot->class]++;
    if (us > SLOW_RULE_US) {
        metric_add(metrics_get(s->env->metrics, "fenpay_store_slow_rules_total", job->name), 1);
        LOG(s->env->log, LOG_WARN, "store.slow_rule", log_cstr("rule", job->name),
            log_int("us", us));
    }
    return e;
}

/* Runs one rule of a transaction shared by `n`. False: the transaction is gone, nothing of it was
 * written. */
static bool run_slot(struct store *s, struct batch *b, struct slot *slot, size_t n)
{
    const struct store_driver *d = s->driver;
    struct conn *c = s->writer;
    bool marked = b->savepoints && n > 1;
    size_t wakes = b->tx.wakes_n;
    int64_t before = d->total_changes(c);
    struct err_info info = { 0 };

    if (marked && d->savepoint(c, &info)) {
        slot->job->info = info;
        slot->fate = FATE_BUSY;
        return false;
    }
    enum err e = run_rule(s, b, slot);
    bool alive = d->in_transaction(c);
    if (!e && alive && (!marked || d->savepoint_keep(c, &info) == ERR_OK)) {
        slot->fate = FATE_OK;
        return true;
    }
    if (!e) /* cannot be without trouble, but then it must not be told "committed" */
        slot->job->info = (struct err_info) { .err = ERR_IO, .text = "the transaction was lost" };
    b->tx.wakes_n = wakes;
    slot->fate = e ? fate_of(&b->tx, e) : FATE_BUSY;
    if (!alive)
        return false;
    if (marked)
        return d->savepoint_undo(c, &info) == ERR_OK;
    return d->total_changes(c) == before;
}

/* The transaction of `set` came to nothing at `bad`. */
static void give_up(struct store *s, struct batch *b, struct slot **set, size_t n, struct slot *bad)
{
    bool died = !s->driver->in_transaction(s->writer);
    s->driver->rollback(s->writer);
    if (n == 1) {
        switch (bad->fate) {
        case FATE_RETRY:
            again_or_busy(s, bad);
            break;
        case FATE_REFUSED:
            tell(s, bad, STORE_REFUSED);
            break;
        case FATE_WAITING:
        case FATE_ALONE:
        case FATE_OK:
        case FATE_BUSY:
        case FATE_DONE:
        case FATE_AGAIN:
            tell(s, bad, STORE_BUSY);
            break;
        }
        return;
    }
    metric_add(s->metrics[M_BROKEN_BATCHES], (int64_t)n);
    s->retries += (int64_t)n;
    if (died)
        b->deaths++;
    else
        b->savepoints = true;
    for (size_t i = 0; i < n; i++)
        set[i]->fate = b->deaths >= 2 ? FATE_ALONE : FATE_WAITING;
    bad->fate = FATE_ALONE;
    bad->job->alone = true;
}

static void tell_committed(struct store *s, struct batch *b, struct slot **set, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (set[i]->fate) {
        case FATE_OK:
            set[i]->job->info = (struct err_info) { 0 };
            tell(s, set[i], STORE_COMMITTED);
            break;
        case FATE_REFUSED:
            tell(s, set[i], STORE_REFUSED);
            break;
        case FATE_RETRY:
            again_or_busy(s, set[i]);
            break;
        case FATE_BUSY:
        case FATE_WAITING:
        case FATE_ALONE:
        case FATE_DONE:
        case FATE_AGAIN:
            tell(s, set[i], STORE_BUSY);
            break;
        }
    }
    if (b->tx.wakes_n && s->wake)
        s->wake(s->wake_ctx, b->tx.wakes, b->tx.wakes_n);
}

static void tell_all(struct store *s, struct slot **set, size_t n, enum store_outcome outcome,
                     const struct err_info *info)
{
    for (size_t i = 0; i < n; i++) {
        set[i]->job->info = *info;
        tell(s, set[i], outcome);
    }
}

/* In a simulation its answer may get lost. */
static enum err driver_commit(struct store *s, struct err_info *info)
{
    const struct store_staging *staging = s->o.staging;
    enum commit_fate fate =
        staging && staging->commit ? staging->commit(staging->ctx) : COMMIT_ANSWERED;
    if (fate == COMMIT_LOST)
        s->driver->rollback(s->writer);
    enum err e = fate == COMMIT_LOST ? ERR_OK : s->driver->commit(s->writer, info);
    return e || fate == COMMIT_ANSWERED ? e : err_set(info, ERR_IO, "the answer got lost");
}

static void commit(struct store *s, struct batch *b, struct slot **set, size_t n)
{
    struct err_info info = { 0 };
    int64_t start = env_mono_us(s->env);
    if (mutation_on(MUTATION_ANSWER_BEFORE_COMMIT)) { /* the planted bug: told, then made durable */
        tell_committed(s, b, set, n);
        n = 0;
    }
    kill_point("store.commit");
    enum err e = driver_commit(s, &info);
    if (!e) {
        kill_point("store.committed");
        metric_observe_us(s->metrics[M_COMMIT], env_mono_us(s->env) - start);
        s->batches++;
        s->rules += (int64_t)n;
        metric_add(s->metrics[M_BATCHES], 1);
        metric_add(s->metrics[M_RULES], (int64_t)n);
        tell_committed(s, b, set, n);
        return;
    }
    s->driver->rollback(s->writer);
    if (e == ERR_RETRY) {
        for (size_t i = 0; i < n; i++) {
            set[i]->job->info = info;
            again_or_busy(s, set[i]);
        }
        return;
    }
    if (e == ERR_LIMIT)
        store_set_full(s, true);
    else if (!store_settles_unknown(s))
        store_fail(s, &info);
    info.err = ERR_UNKNOWN;
    tell_all(s, set, n, STORE_UNKNOWN, &info);
}

/* One transaction for the slots of `set`. Afterwards each is told, or its fate says how it is to be
 * run again. */
static void pass(struct store *s, struct batch *b, struct slot **set, size_t n)
{
    struct err_info info = { 0 };
    if (store_refuses(s, &info)) {
        tell_all(s, set, n, STORE_BUSY, &info);
        return;
    }
    enum err e = s->driver->begin(s->writer, true, &info);
    if (e) {
        s->driver->rollback(s->writer);
        for (size_t i = 0; i < n; i++) {
            set[i]->job->info = info;
            if (e == ERR_RETRY && !s->o.second_writer)
                again_or_busy(s, set[i]);
            else
                tell(s, set[i], STORE_BUSY);
        }
        return;
    }
    b->tx.wakes_n = 0;
    for (size_t i = 0; i < n; i++)
        if (!run_slot(s, b, set[i], n)) {
            give_up(s, b, set, n, set[i]);
            return;
        }
    commit(s, b, set, n);
}

void batch_run(struct store *s, struct batch *b)
{
    struct slot *set[BATCH_RULES];
    b->savepoints = s->o.savepoints;
    b->deaths = 0;
    for (int c = 0; c < STORE_CLASSES; c++)
        b->cost_us[c] = b->rules[c] = 0;
    for (size_t n = 1; n > 0;) {
        n = 0;
        for (size_t i = 0; i < b->n; i++)
            if (b->slots[i].fate == FATE_WAITING)
                set[n++] = &b->slots[i];
        if (n > 0)
            pass(s, b, set, n);
    }
    /* Those that broke a batch come last: one that fills the disk makes the store refuse all after
     * it. */
    for (int bad = 0; bad < 2; bad++)
        for (size_t i = 0; i < b->n; i++)
            if (b->slots[i].fate == FATE_ALONE && b->slots[i].job->alone == bad) {
                set[0] = &b->slots[i];
                pass(s, b, set, 1);
            }
}
