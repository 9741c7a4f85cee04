/* batch.c -- one batch of rules: BEGIN, each rule, COMMIT, and what everybody is told.
 *
 * Nobody is told anything before the COMMIT has answered, refusals included: a refusal may rest on
 * what an earlier rule of the same batch wrote. The normal case has no savepoints; what goes wrong
 * (systems.md F1, F2, F27):
 *   - a rule fails before it wrote: it is refused, the others go on;
 *   - a rule fails after it wrote: roll back, that one alone later, the others again, now with
 * savepoints, so that a batch is run again at most once for this reason;
 *   - a call of a batch rule for several fails: it is made again for each half of it, where it
 * stands if it wrote nothing or has a savepoint, otherwise after a roll back, with savepoints;
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

/* How many at the head of `set` are one call: neighbours with the same batch rule. */
static size_t call_size(const struct batch *b, struct slot *const *set, size_t n)
{
    const struct slot *first = set[0];
    size_t k = 1;
    if (!first->job->rule && !b->single)
        while (k < n && k < CALL_RULES && set[k]->job->batch == first->job->batch &&
               !set[k]->job->rule && set[k]->class == first->class)
            k++;
    return k;
}

static enum err call_rule(struct batch *b, struct slot *const *call, size_t n,
                          struct err_info *info)
{
    struct store_job *job = call[0]->job;
    void *args[CALL_RULES];
    enum err results[CALL_RULES];

    if (job->rule)
        return job->rule(&b->tx, job->arg, info);
    b->tx.items = call;
    b->tx.items_n = n;
    for (size_t i = 0; i < n; i++) {
        args[i] = call[i]->job->arg;
        call[i]->job->ids_used = 0;
        results[i] = ERR_INTERNAL;
    }
    job->batch(&b->tx, args, results, n);
    for (size_t i = 0; i < n; i++)
        if (results[i])
            return results[i];
    return ERR_OK;
}

static enum err run_rule(struct store *s, struct batch *b, struct slot *const *call, size_t n)
{
    struct store_job *job = call[0]->job;
    enum store_class class = call[0]->class;
    int64_t start = env_mono_us(s->env);
    struct err_info info = { 0 };
    tx_start(&b->tx, job, job->now_ms);
    enum err e = tx_finish(&b->tx, call_rule(b, call, n, &info), &info);
    info.err = e;
    for (size_t i = 0; i < n; i++)
        call[i]->job->info = info;
    kill_point(job->name);

    int64_t us = env_mono_us(s->env) - start;
    b->cost_us[class] += us > 0 ? us : 1; /* a standing clock must not stop the classes' turns */
    b->rules[class] += (int64_t)n;
    if (us > SLOW_RULE_US * (int64_t)n) {
        metric_add(metrics_get(s->env->metrics, "fenpay_store_slow_rules_total", job->name), 1);
        LOG(s->env->log, LOG_WARN, "store.slow_rule", log_cstr("rule", job->name),
            log_int("us", us));
    }
    return e;
}

static void set_fate(struct slot *const *call, size_t n, enum fate fate)
{
    for (size_t i = 0; i < n; i++)
        call[i]->fate = fate;
}

/* The transaction is of no use any more because of this call. */
static bool came_to_nothing(struct batch *b, struct slot *const *call, size_t n)
{
    b->bad = call;
    b->bad_n = n;
    return false;
}

/* One call of `k` rules in a transaction shared by `n`; a call for several that failed is made
 * again for each half of it. False: the transaction is gone, nothing of it was written. */
static bool run_call(struct store *s, struct batch *b, struct slot *const *call, size_t k, size_t n)
{
    const struct store_driver *d = s->driver;
    struct conn *c = s->writer;
    bool marked = b->savepoints && n > 1;
    size_t wakes = b->tx.wakes_n;
    int64_t before = d->total_changes(c);
    struct err_info info = { 0 };

    if (marked && d->savepoint(c, &info)) {
        call[0]->job->info = info;
        set_fate(call, k, FATE_BUSY);
        return came_to_nothing(b, call, k);
    }
    enum err e = run_rule(s, b, call, k);
    bool alive = d->in_transaction(c);
    if (!e && alive && (!marked || d->savepoint_keep(c, &info) == ERR_OK)) {
        set_fate(call, k, FATE_OK);
        return true;
    }
    if (!e) /* cannot be without trouble, but then it must not be told "committed" */
        call[0]->job->info =
            (struct err_info) { .err = ERR_IO, .text = "the transaction was lost" };
    b->tx.wakes_n = wakes;
    set_fate(call, k, e ? fate_of(&b->tx, e) : FATE_BUSY);
    if (!alive || (marked ? d->savepoint_undo(c, &info) != ERR_OK : d->total_changes(c) != before))
        return came_to_nothing(b, call, k);
    return k == 1 || (run_call(s, b, call, k / 2, n) && run_call(s, b, call + k / 2, k - k / 2, n));
}

/* The transaction of `set` came to nothing at a call. A single rule runs alone from now on; of a
 * call for several nobody knows which it was, so the others and they are run again: in halves, each
 * undone by its savepoint, or one by one if the engine lost the transaction. */
static void give_up(struct store *s, struct batch *b, struct slot **set, size_t n)
{
    struct slot *bad = b->bad[0];
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
    if (b->bad_n > 1)
        b->single = died || b->savepoints;
    else
        b->deaths += died;
    if (!died)
        b->savepoints = true;
    set_fate(set, n, b->deaths >= 2 ? FATE_ALONE : FATE_WAITING);
    if (b->bad_n == 1) {
        bad->fate = FATE_ALONE;
        bad->job->alone = true;
    }
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
    for (size_t i = 0, k; i < n; i += k) {
        k = call_size(b, set + i, n - i);
        if (!run_call(s, b, set + i, k, n)) {
            give_up(s, b, set, n);
            return;
        }
    }
    commit(s, b, set, n);
}

void batch_run(struct store *s, struct batch *b)
{
    struct slot *set[BATCH_RULES];
    b->savepoints = s->o.savepoints;
    b->single = false;
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
