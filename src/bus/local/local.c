/* local.c -- the bus inside the process: up to 128 pending events in one rule.
 *
 * For each: its feed number, a delivery row per webhook, the effect of each consumer beside its
 * consumed row, and the removal of the pending row, all in one commit; no lease and no mark
 * (systems.md F6). A consumer that fails undoes the whole rule, because nothing smaller can be
 * undone; so the turn notes who stumbled on what and runs the rule again, now with a delivery row
 * in place of that effect. Failing on several events of one turn it is taken out of the turn
 * altogether, so that a broken consumer costs a few repetitions and not one an event. */
#include "bus/bus_inner.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "base/metrics.h"

#define STUMBLES_MAX          16 /* of one turn, all consumers together */
#define STUMBLES_CONSUMER_MAX 3
#define TURN_US                                                                                    \
    3000 /* of the writer; callbacks wait behind it, and 128 events took 8 ms and more (F14) */

struct stumble {
    int64_t event_id;
    unsigned consumer;
    char text[200];
};

struct publish {
    struct bus *bus;
    size_t max;
    struct stumble stumbles[STUMBLES_MAX];
    size_t stumble_count;
    unsigned
        broken; /* a bit a consumer: everything of this turn goes to its delivery rows untried */

    int64_t first; /* the event with which an earlier run of this transaction began; 0: none */
    bool stumbled; /* written by the rule when a consumer failed; the turn decides what it means */
    struct stumble now;
    size_t done, parked;
    bool deliveries, more;
    int64_t times[BUS_BATCH];
};

/* Twice is fine: an event that is published again has its rows already. */
static enum err schedule(struct tx *tx, const struct delivery *d, struct err_info *info)
{
    enum err e = delivery_sql_insert(tx, d, info);
    if (e == ERR_EXISTS)
        return ERR_OK;
    return e ? e : delivery_due_sql_insert(tx, d->target, d->next_ms, d->event_id, info);
}

/* The planted bug. */
static bool keeps_from_all(const struct publish *p, int64_t event_id)
{
    for (size_t i = 0; i < p->stumble_count; i++)
        if (p->stumbles[i].event_id == event_id)
            return mutation_on(MUTATION_DEAD_TARGET);
    return false;
}

static const struct stumble *stumble_of(const struct publish *p, int64_t event_id,
                                        unsigned consumer)
{
    for (size_t i = 0; i < p->stumble_count; i++)
        if (p->stumbles[i].event_id == event_id && p->stumbles[i].consumer == consumer)
            return &p->stumbles[i];
    return NULL;
}

/* The consumer's own row for an event that it failed on, or that is kept from it for now. */
static enum err set_aside(struct tx *tx, struct publish *p, const struct event *event, unsigned i,
                          const struct stumble *stumble, struct err_info *info)
{
    struct delivery d = { .event_id = event->no.id,
                          .target = str_printf(tx_arena(tx), CONSUMER_TARGET "%s",
                                               p->bus->o.consumers[i].name),
                          .next_ms = tx_now_ms(tx) };
    if (stumble) {
        d.tries = 1;
        d.next_ms += delivery_pause_ms(1);
        d.last_error = str_of(stumble->text);
    }
    p->deliveries = true;
    return schedule(tx, &d, info);
}

static enum err offer(struct tx *tx, struct publish *p, const struct event *event, unsigned i,
                      struct err_info *info)
{
    const struct consumer *c = &p->bus->o.consumers[i];
    const struct stumble *stumble = stumble_of(p, event->no.id, i);

    if (stumble || p->broken & 1u << i)
        return set_aside(tx, p, event, i, stumble, info);

    enum err e = consumed_sql_insert(tx, c->name, event->no.id, info);
    if (e == ERR_EXISTS)
        return ERR_OK;
    if (e)
        return e;
    struct err_info why = { .err = ERR_OK };
    e = c->consume(tx, event, c->ctx, &why);
    if (e) {
        p->stumbled = true;
        p->now = (struct stumble) { .event_id = event->no.id, .consumer = i };
        struct str text =
            str_sub(str_of(why.text[0] ? why.text : err_name(e)), 0, sizeof p->now.text - 1);
        memcpy(p->now.text, text.p, text.n);
        err_set(info, e, "consumer %s: %s", c->name, p->now.text);
    }
    return e;
}

static enum err publish_one(struct tx *tx, struct publish *p, const struct event *event,
                            int64_t seq, const struct webhook *hooks, size_t hook_count,
                            struct err_info *info)
{
    enum err e = feed_sql_insert(tx, seq, event, info);
    if (e)
        return e == ERR_EXISTS ? ERR_RETRY : e; /* another publisher took the number */

    for (size_t i = 0; i < hook_count; i++) {
        if (!webhook_wants(&hooks[i], event))
            continue;
        struct delivery d = { .event_id = event->no.id,
                              .target = str_printf(tx_arena(tx), WEBHOOK_TARGET "%lld",
                                                   (long long)hooks[i].id),
                              .next_ms = tx_now_ms(tx) };
        if ((e = schedule(tx, &d, info)))
            return e;
        p->deliveries = true;
    }
    for (unsigned i = 0; i < p->bus->o.consumer_count; i++)
        if (p->bus->o.consumers[i].types & EVENT_BIT(event->type) &&
            (e = offer(tx, p, event, i, info)))
            return e;
    return ERR_OK;
}

static enum err publish_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct publish *p = arg;
    struct pending *list = arena_array(tx_arena(tx), p->max, sizeof *list);
    struct webhook *hooks = NULL;
    size_t n, hook_count = 0;
    int64_t seq, webhooks;
    enum err e;

    int64_t until_us = env_mono_us(tx_env(tx)) + TURN_US;
    p->stumbled = p->deliveries = p->more = false;
    p->done = p->parked = 0;
    if ((e = outbox_sql_pending(tx, p->max, list, &n, info)) || !n)
        return e;
    /* Gone from its place: the earlier run was committed and its answer got lost. Its ids are in
     * use, so what is pending now waits for another transaction. */
    p->more = p->first && p->first != list[0].event.no.id;
    if (p->more)
        return ERR_OK;
    p->first = list[0].event.no.id;
    kill_point("bus.publishing");
    if ((e = feed_sql_last(tx, &seq, info)) || (e = webhook_sql_count(tx, &webhooks, info)))
        return e;
    if (webhooks) {
        hooks = arena_array(tx_arena(tx), WEBHOOKS_MAX, sizeof *hooks);
        if ((e = webhook_sql_on(tx, hooks, &hook_count, info)))
            return e;
    }

    for (size_t i = 0; i < n; i++) {
        const struct event *event = &list[i].event;
        if (list[i].readable && !keeps_from_all(p, event->no.id)) {
            seq = mutation_on(MUTATION_FEED_BY_MINT) ? event->no.id : seq + 1;
            e = publish_one(tx, p, event, seq, hooks, hook_count, info);
            p->times[p->done++] = event->time_ms;
        } else {
            struct str why =
                str_printf(tx_arena(tx), "event type %lld is not known to this program",
                           (long long)list[i].type);
            e = outbox_sql_park(tx, event->no.id, why, info);
            p->parked++;
        }
        if (!e)
            e = due_delete(tx, &outbox_due, list[i].due, event->no.id, info);
        if (e)
            return e;
        p->more = i + 1 < n || n == p->max;
        if (env_mono_us(tx_env(tx)) >= until_us)
            break;
    }
    return ERR_OK;
}

/* The rule failed in a consumer: from now on this turn goes on without that effect. */
static void take_out(struct publish *p)
{
    struct bus *bus = p->bus;
    unsigned same = 0;

    for (size_t i = 0; i < p->stumble_count; i++)
        same += p->stumbles[i].consumer == p->now.consumer;
    if (p->stumble_count < STUMBLES_MAX)
        p->stumbles[p->stumble_count++] = p->now;
    if (same + 1 >= STUMBLES_CONSUMER_MAX || p->stumble_count == STUMBLES_MAX)
        p->broken |= 1u << p->now.consumer;

    metric_add(bus->consumer_failed[p->now.consumer], 1);
    LOG(bus->o.env->log, LOG_WARN, "bus.consumer_failed",
        log_cstr("consumer", bus->o.consumers[p->now.consumer].name),
        log_int("event", p->now.event_id), log_cstr("error", p->now.text));
}

static void note_published(struct publish *p)
{
    struct bus *bus = p->bus;
    int64_t now = env_now_ms(bus->o.env);

    metric_add(bus->published, (int64_t)p->done);
    metric_add(bus->parked, (int64_t)p->parked);
    for (size_t i = 0; i < p->done; i++)
        metric_observe_us(bus->publish_delay, (now - p->times[i]) * 1000);
    if (p->deliveries)
        bus_wake_deliveries(bus);
    if (p->more) {
        atomic_store(&bus->turn_events, p->done + p->parked);
        bus_wake(bus);
    }
}

/* What is read and not got through was read for nothing, so a turn asks for a little more than the
 * last one did. */
static size_t turn_max(const struct bus *bus)
{
    size_t last = atomic_load(&bus->turn_events), batch = bus_batch(bus);
    size_t some_more = last + last / 4 + 4;
    return last && some_more < batch ? some_more : batch;
}

enum err bus_turn(struct bus *bus, size_t *ret_done, struct err_info *info)
{
    size_t ids_each = CONSUMER_IDS * (bus->o.consumer_count ? bus->o.consumer_count : 1);
    struct publish p = { .bus = bus, .max = turn_max(bus) };

    for (;;) {
        struct store_job job;
        store_job_init(&job, bus->o.env, bus->o.mint, (unsigned)(p.max * ids_each));
        job.name = "bus.publish";
        job.class = STORE_BACKGROUND;
        job.rule = publish_rule;
        job.arg = &p;
        job.bytes = p.max * 512;

        p.stumbled = false;
        p.first = 0;
        enum store_outcome outcome = store_run(bus->o.store, &job, info);
        if (outcome == STORE_COMMITTED)
            break;
        /* A full disk shows itself in whatever statement comes next, a consumer's too: that is not
         * the consumer's failure. */
        ARENA_AUTO a = arena_new(256);
        if (outcome == STORE_UNKNOWN || !p.stumbled || store_trouble(bus->o.store, a).n)
            return outcome == STORE_REFUSED ? ERR_INTERNAL : ERR_BUSY;
        take_out(&p);
    }
    if (p.done)
        kill_point("bus.published");
    note_published(&p);
    *ret_done = p.done + p.parked;
    return ERR_OK;
}
