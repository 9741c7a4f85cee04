/* deliver.c -- deliveries: events on their way to one target each, under a lease, by a schedule, up
 * to a death that hurts only that target.
 *
 * A claim takes deliveries of one target (target.c says whose turn it is) under a short lease,
 * because what is in flight at a crash waits for its end. It ends when its time is over, when the
 * target did not answer promptly, or when we stop; what it has not tried is given back as it was:
 * due when it was due, without a try on its account. */
#include "bus/bus_inner.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>

#define CLAIM_MAX         16
#define DELIVERY_LEASE_MS 30000
/* None begins later than so long after the claim: others wait for the worker, and an answer may
 * take 15 s (post.c) before the lease ends. */
#define DELIVERY_BEGIN_MS 2000
/* Of a target with so long a queue that its deliveries come round too seldom: those too old are
 * given up at their next failure. */
#define DELIVERY_AGE_MAX_MS (48LL * 60 * 60 * 1000)

#define SECONDS(n) ((n)*1000LL)
#define MINUTES(n) SECONDS((n)*60)
#define HOURS(n)   MINUTES((n)*60)
/* Pause after the n-th failed try; 16 tries in about 24 hours. */
static const int64_t pauses[DELIVERY_TRIES - 1] = {
    SECONDS(5), SECONDS(15), SECONDS(30), MINUTES(1),  MINUTES(2),
    MINUTES(5), MINUTES(10), MINUTES(15), MINUTES(30), HOURS(1),
    HOURS(2),   HOURS(3),    HOURS(4),    HOURS(6),    HOURS(7),
};

int64_t delivery_pause_ms(int64_t tries)
{
    assert(tries >= 1 && tries < DELIVERY_TRIES);
    return pauses[tries - 1];
}

/* ---- claiming ---- */

struct claim {
    struct str target;
    size_t max;
    struct delivery list[CLAIM_MAX]; /* their target is `target` */
    int64_t due_ms[CLAIM_MAX];       /* before the claim */
    size_t n;
};

static enum err claim_one(struct tx *tx, struct claim *c, const struct delivery_due *due,
                          struct err_info *info)
{
    struct delivery d;
    bool changed;
    enum err e = delivery_sql_load(tx, due->event_id, c->target, &d, info);

    if (e && e != ERR_NOT_FOUND)
        return e;
    bool stale = e || d.state != DELIVERY_PENDING || d.next_ms != due->due;
    if ((e = delivery_due_sql_delete(tx, c->target, due->due, due->event_id, info)) || stale)
        return e;

    d.target = c->target;
    d.lease_until_ms = d.next_ms = tx_now_ms(tx) + DELIVERY_LEASE_MS;
    if ((e = delivery_sql_update(tx, &d, &changed, info)))
        return e;
    if (!changed)
        return ERR_RETRY;
    d.last_error = STR_NONE;
    c->due_ms[c->n] = due->due;
    c->list[c->n++] = d;
    return delivery_due_sql_insert(tx, c->target, d.next_ms, d.event_id, info);
}

static enum err claim_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct claim *c = arg;
    struct delivery_due due[CLAIM_MAX];
    size_t n;
    enum err e = delivery_due_sql_of(tx, c->target, tx_now_ms(tx), c->max, due, &n, info);

    c->n = 0;
    for (size_t i = 0; i < n && !e; i++)
        e = claim_one(tx, c, &due[i], info);
    return e;
}

/* ---- giving back ---- */

struct give_back {
    const struct claim *claim;
    size_t from; /* the first that was not tried */
};

static enum err give_back_one(struct tx *tx, struct delivery d, int64_t due_ms,
                              struct err_info *info)
{
    int64_t claimed = d.next_ms;
    bool changed;
    struct delivery now;
    enum err e = delivery_sql_load(tx, d.event_id, d.target, &now, info);

    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    d.last_error = now.last_error;
    d.lease_until_ms = 0;
    d.next_ms = due_ms;
    if ((e = delivery_sql_update(tx, &d, &changed, info)) || !changed)
        return e;
    if ((e = delivery_due_sql_delete(tx, d.target, claimed, d.event_id, info)))
        return e;
    return delivery_due_sql_insert(tx, d.target, d.next_ms, d.event_id, info);
}

static enum err give_back_rule(struct tx *tx, void *arg, struct err_info *info)
{
    const struct give_back *g = arg;
    enum err e = ERR_OK;
    for (size_t i = g->from; i < g->claim->n && !e; i++)
        e = give_back_one(tx, g->claim->list[i], g->claim->due_ms[i], info);
    return e;
}

/* ---- the outcome ---- */

struct outcome {
    struct bus *bus;
    struct delivery d;
    struct str error; /* p NULL: delivered */
    bool dead;        /* result */
};

static enum err bury(struct tx *tx, const struct bus *bus, const struct delivery *d,
                     struct err_info *info)
{
    struct event event;
    enum err e = outbox_sql_read(tx, d->event_id, &event, info);
    if (e || !bus->o.on_dead)
        return e;
    return bus->o.on_dead(tx, &event, d->target, d->last_error, bus->o.on_dead_ctx, info);
}

/* Compare-and-set on the version that the claim left: somebody who took it over after the lease has
 * the last word. */
static enum err outcome_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct outcome *o = arg;
    struct delivery d = o->d;
    int64_t claimed = d.next_ms;
    bool changed;
    enum err e;

    d.tries++;
    d.lease_until_ms = 0;
    d.last_error = o->error;
    if (!o->error.p) {
        d.state = DELIVERY_DONE;
        d.next_ms = 0;
    } else if (d.tries >= DELIVERY_TRIES || tx_now_ms(tx) - d.create_ms > DELIVERY_AGE_MAX_MS) {
        d.state = DELIVERY_DEAD;
        d.next_ms = DUE_NEVER;
    } else {
        d.next_ms = tx_now_ms(tx) + delivery_pause_ms(d.tries);
    }
    o->dead = d.state == DELIVERY_DEAD;

    if ((e = delivery_sql_update(tx, &d, &changed, info)) || !changed)
        return e;
    if ((e = delivery_due_sql_delete(tx, d.target, claimed, d.event_id, info)))
        return e;
    if (d.state != DELIVERY_DONE &&
        (e = delivery_due_sql_insert(tx, d.target, d.next_ms, d.event_id, info)))
        return e;
    return o->dead ? bury(tx, o->bus, &d, info) : ERR_OK;
}

static enum store_outcome run(struct bus *bus, const char *name, store_rule *rule, void *arg,
                              unsigned ids, struct err_info *info)
{
    struct store_job job;
    store_job_init(&job, bus->o.env, bus->o.mint, ids);
    job.name = name;
    job.class = STORE_BACKGROUND;
    job.rule = rule;
    job.arg = arg;
    return store_run(bus->o.store, &job, info);
}

static enum err settle(struct bus *bus, const struct delivery *d, struct str error,
                       struct err_info *info)
{
    struct outcome o = { .bus = bus, .d = *d, .error = error };

    if (run(bus, "delivery.outcome", outcome_rule, &o, BUS_DEAD_IDS, info) != STORE_COMMITTED)
        return ERR_BUSY; /* the lease runs out, and it is tried again */
    kill_point("delivery.settled");
    const char *how = !error.p ? "ok" : o.dead ? "dead" : "failed";
    char labels[BUS_TARGET_MAX + 16];
    snprintf(labels, sizeof labels, STR_FMT ",%s", STR_ARG(d->target), how);
    metric_add(metrics_get(bus->o.env->metrics, "fenpay_deliveries_total", labels), 1);
    if (error.p)
        LOG(bus->o.env->log, o.dead ? LOG_ERROR : LOG_WARN, "bus.delivery_failed",
            log_str("target", d->target), log_int("event", d->event_id),
            log_int("tries", d->tries + 1), log_cstr("outcome", how), log_str("error", error));
    return ERR_OK;
}

/* ---- in-process consumers, from their first failure on ---- */

struct consume {
    struct bus *bus;
    struct delivery d;
};

static enum err consume_once(struct tx *tx, const struct consumer *c, const struct event *event,
                             struct err_info *info)
{
    if (!(c->types & EVENT_BIT(event->type)))
        return ERR_OK;
    enum err e = consumed_sql_insert(tx, c->name, event->no.id, info);
    return e == ERR_EXISTS ? ERR_OK : e ? e : c->consume(tx, event, c->ctx, info);
}

/* The mark, the consumed row and the effect together. "consumer:*" offers the event to all that
 * have not had it. */
static enum err consume_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct consume *k = arg;
    struct outcome o = { .bus = k->bus, .d = k->d };
    struct event event;
    bool all = str_eq(k->d.target, STR(CONSUMERS_TARGET)), known = all;
    enum err e = outcome_rule(tx, &o, info);

    if (!e)
        e = outbox_sql_read(tx, k->d.event_id, &event, info);
    struct str name = str_sub(k->d.target, sizeof CONSUMER_TARGET - 1, k->d.target.n);
    for (size_t i = 0; i < k->bus->o.consumer_count && !e; i++) {
        const struct consumer *c = &k->bus->o.consumers[i];
        if (!all && !str_eq(name, str_of(c->name)))
            continue;
        known = true;
        e = consume_once(tx, c, &event, info);
    }
    return e || known ? e : err_set(info, ERR_NOT_FOUND, "there is no such consumer");
}

static enum err deliver_consumer(struct bus *bus, const struct delivery *d, struct err_info *info)
{
    struct consume k = { .bus = bus, .d = *d };
    struct err_info why = { .err = ERR_OK };
    enum store_outcome outcome =
        run(bus, "delivery.consume", consume_rule, &k,
            (unsigned)(CONSUMER_IDS * (bus->o.consumer_count ? bus->o.consumer_count : 1)), &why);

    if (outcome == STORE_COMMITTED)
        return ERR_OK;
    if (outcome != STORE_REFUSED &&
        why.err != ERR_RETRY) /* always losing a race is a failure, too */
        return ERR_BUSY;
    return settle(bus, d, str_of(why.text[0] ? why.text : err_name(why.err)), info);
}

/* *ret_prompt: answered, and soon enough that the next may follow at once. */
static enum err deliver_webhook(struct bus *bus, const struct delivery *d, bool *ret_prompt,
                                struct err_info *info)
{
    ARENA_AUTO a = arena_new(4096);
    struct err_info why = { .err = ERR_OK };
    int64_t webhook = webhook_of_target(d->target); /* a strange target finds none */
    int64_t began_us = env_mono_us(bus->o.env);
    bool unreachable;

    if (mutation_on(MUTATION_MARKED_UNSENT) && settle(bus, d, STR_NONE, info))
        return ERR_BUSY;
    enum err e = webhook_send(bus, a, webhook, d->event_id, &unreachable, &why);
    *ret_prompt =
        target_heard(bus, webhook, !unreachable, (env_mono_us(bus->o.env) - began_us) / 1000);
    return settle(bus, d, e ? str_of(why.text[0] ? why.text : err_name(e)) : STR_NONE, info);
}

/* As many of the claim as there is time for. */
static enum err deliver_claim(struct bus *bus, const struct claim *c, size_t *ret_done,
                              struct err_info *info)
{
    int64_t began_us = env_mono_us(bus->o.env);
    bool prompt = true;
    enum err e = ERR_OK;
    size_t i = 0;

    for (; i < c->n && !e && prompt && !bus_stopping(bus); i++) {
        if (env_mono_us(bus->o.env) - began_us > DELIVERY_BEGIN_MS * 1000LL)
            break;
        if (str_starts(c->target, STR(WEBHOOK_TARGET)))
            e = deliver_webhook(bus, &c->list[i], &prompt, info);
        else
            e = deliver_consumer(bus, &c->list[i], info);
        *ret_done += !e;
    }
    struct give_back rest = { .claim = c, .from = i };
    struct err_info ignored = { .err = ERR_OK };
    if (!e && i < c->n) /* what cannot be given back waits for the end of its lease */
        run(bus, "delivery.give_back", give_back_rule, &rest, 0, &ignored);
    return e;
}

enum err bus_deliver_turn(struct bus *bus, size_t *ret_done, struct err_info *info)
{
    struct served served;
    struct claim c = { .n = 0 };
    enum err e = target_take(bus, &served, info);

    *ret_done = 0;
    if (e)
        return e == ERR_NOT_FOUND || e == ERR_BUSY ? ERR_OK : e;

    c.target = str_of(served.target);
    c.max = served.suspect ? 1 : CLAIM_MAX;
    if (run(bus, "delivery.claim", claim_rule, &c, 0, info) != STORE_COMMITTED)
        e = ERR_BUSY;
    kill_point("delivery.claimed");

    if (!e)
        e = deliver_claim(bus, &c, ret_done, info);
    target_leave(bus, &served);
    return e;
}
