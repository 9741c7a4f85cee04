/* bus.c -- the bus's threads (one for the outbox, some for what leaves the process), the feed,
 * replay and subscribers. */
#include "bus/bus_inner.h"

#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct bus *bus_new(const struct bus_options *options)
{
    assert(options->consumer_count <= CONSUMERS_MAX);
    struct arena *a = arena_new(1024);
    struct bus *bus = arena_one(a, struct bus);
    struct metrics *m = options->env->metrics;

    bus->arena = a;
    arena_mark_secret(a);
    bus->o = *options;
    bus->o.source = str_dup(a, options->source);
    bus->o.master_key = str_dup(a, options->master_key);
    bus->o.consumers = options->consumer_count
                           ? arena_copy(a, options->consumers,
                                        options->consumer_count * sizeof *options->consumers)
                           : NULL;
    if (bus->o.webhook_workers > BUS_WORKERS_MAX)
        bus->o.webhook_workers = BUS_WORKERS_MAX;
    if (!bus->o.webhook_workers)
        bus->o.webhook_workers = 4;

    bus->published = metrics_get(m, "fenpay_events_published_total", NULL);
    bus->parked = metrics_get(m, "fenpay_events_parked_total", NULL);
    bus->publish_delay = metrics_get(m, "fenpay_event_publish_delay_seconds", NULL);
    for (size_t i = 0; i < bus->o.consumer_count; i++)
        bus->consumer_failed[i] =
            metrics_get(m, "fenpay_consumer_failures_total", bus->o.consumers[i].name);

    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&bus->lock, NULL);
    pthread_cond_init(&bus->outbox_wake, &attr);
    pthread_cond_init(&bus->delivery_wake, &attr);
    pthread_condattr_destroy(&attr);
    return bus;
}

void bus_free(struct bus *bus)
{
    if (!bus)
        return;
    assert(!bus->started);
    pthread_cond_destroy(&bus->outbox_wake);
    pthread_cond_destroy(&bus->delivery_wake);
    pthread_mutex_destroy(&bus->lock);
    arena_free(bus->arena);
}

size_t bus_batch(const struct bus *bus)
{
    size_t ids_each = CONSUMER_IDS * (bus->o.consumer_count ? bus->o.consumer_count : 1);
    return 1024 / ids_each < BUS_BATCH ? 1024 / ids_each : BUS_BATCH;
}

/* ---- threads ---- */

void bus_wake(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    bus->outbox_due = true;
    pthread_cond_signal(&bus->outbox_wake);
    pthread_mutex_unlock(&bus->lock);
}

void bus_wake_deliveries(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    bus->deliveries_due = true;
    pthread_cond_broadcast(&bus->delivery_wake);
    pthread_mutex_unlock(&bus->lock);
}

/* Sleeps until woken, or for the sweep; false: the bus stops. */
static bool wait_for(struct bus *bus, pthread_cond_t *wake, bool *due)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BUS_SWEEP_MS / 1000;

    pthread_mutex_lock(&bus->lock);
    while (!*due && !bus->stopping)
        if (pthread_cond_timedwait(wake, &bus->lock, &until) == ETIMEDOUT)
            break;
    *due = false;
    bool go_on = !bus->stopping;
    pthread_mutex_unlock(&bus->lock);
    return go_on;
}

bool bus_stopping(struct bus *bus)
{
    pthread_mutex_lock(&bus->lock);
    bool yes = bus->stopping;
    pthread_mutex_unlock(&bus->lock);
    return yes;
}

typedef enum err turn(struct bus *bus, size_t *ret_done, struct err_info *info);

/* Turns until one did less than `full`. Trouble is told and left for the next sweep. */
static void turns(struct bus *bus, turn *fn, size_t full, const char *what)
{
    size_t done = full;
    while (done >= full && !bus_stopping(bus)) {
        struct err_info info = { .err = ERR_OK };
        done = 0;
        enum err e = fn(bus, &done, &info);
        if (e) {
            LOG(bus->o.env->log, e == ERR_BUSY ? LOG_INFO : LOG_ERROR, what,
                log_cstr("error", err_name(e)), log_cstr("text", info.text));
            return;
        }
    }
}

static void *outbox_thread(void *arg)
{
    struct bus *bus = arg;
    do
        turns(bus, bus_turn, bus_batch(bus), "bus.publish_failed");
    while (wait_for(bus, &bus->outbox_wake, &bus->outbox_due));
    return NULL;
}

static void *delivery_thread(void *arg)
{
    struct bus *bus = arg;
    do
        turns(bus, bus_deliver_turn, 1, "bus.deliver_failed");
    while (wait_for(bus, &bus->delivery_wake, &bus->deliveries_due));
    return NULL;
}

enum err bus_start(struct bus *bus, struct err_info *info)
{
    assert(!bus->started);
    bus->started = true;
    bus->stopping = false;
    for (unsigned i = 0; i < 1 + bus->o.webhook_workers; i++) {
        int failed =
            pthread_create(&bus->threads[i], NULL, i ? delivery_thread : outbox_thread, bus);
        if (failed) {
            bus_stop(bus);
            return err_set(info, ERR_LIMIT, "no thread for the bus: %s", strerror(failed));
        }
        bus->thread_count++;
    }
    return ERR_OK;
}

void bus_stop(struct bus *bus)
{
    if (!bus->started)
        return;
    pthread_mutex_lock(&bus->lock);
    bus->stopping = true;
    pthread_cond_broadcast(&bus->outbox_wake);
    pthread_cond_broadcast(&bus->delivery_wake);
    pthread_mutex_unlock(&bus->lock);
    while (bus->thread_count)
        pthread_join(bus->threads[--bus->thread_count], NULL);
    bus->started = false;
}

/* ---- reading ---- */

enum err feed_read(struct tx *tx, int64_t caller, int64_t after_seq, size_t limit,
                   struct event *ret, int64_t *ret_seqs, size_t *ret_n, struct err_info *info)
{
    return feed_sql_read(tx, caller, after_seq, limit, ret, ret_seqs, ret_n, info);
}

enum err event_read(struct tx *tx, int64_t event_id, struct event *ret, struct err_info *info)
{
    return outbox_sql_read(tx, event_id, ret, info);
}

/* A move's journal row and its event take their ids from the same rule, a few apart (8 in a
 * callback). */
#define EVENTS_NEAR 32

enum err events_of(struct tx *tx, int64_t subject_id, int64_t first_id, struct event *ret,
                   size_t max, size_t *ret_n, struct err_info *info)
{
    return outbox_sql_of(tx, subject_id, first_id, first_id + EVENTS_NEAR, ret, max, ret_n, info);
}

enum err deliveries_of(struct tx *tx, int64_t event_id, struct delivery *ret, size_t max,
                       size_t *ret_n, struct err_info *info)
{
    return delivery_sql_of(tx, event_id, ret, max, ret_n, info);
}

enum err bus_stats(struct tx *tx, struct bus_stats *ret, struct err_info *info)
{
    struct bus_stats s = { .pending = 0 };
    int64_t oldest = 0;
    enum err e = outbox_due_sql_stats(tx, &s.pending, &oldest, info);
    if (!e)
        e = delivery_due_sql_stats(tx, &s.deliveries_pending, &s.dead, info);
    if (e)
        return e;
    s.oldest_ms = s.pending && tx_now_ms(tx) > oldest ? tx_now_ms(tx) - oldest : 0;
    *ret = s;
    return ERR_OK;
}

enum err bus_dead_next(struct tx *tx, struct str after, struct str *ret_target, int64_t *ret_dead,
                       struct err_info *info)
{
    struct str target;
    enum err e = delivery_due_sql_target(tx, after, &target, info);
    if (!e)
        e = delivery_due_sql_dead(tx, target, ret_dead, info);
    if (!e)
        *ret_target = target;
    return e;
}

/* ---- replay ---- */

enum err delivery_again(struct tx *tx, int64_t event_id, struct str target, struct err_info *info)
{
    struct delivery d;
    enum err e = delivery_sql_load(tx, event_id, target, &d, info);
    bool changed;

    if (e == ERR_NOT_FOUND) {
        d = (struct delivery) { .event_id = event_id, .target = target };
        d.next_ms = tx_now_ms(tx);
        e = delivery_sql_insert(tx, &d, info);
    } else if (!e) {
        e = delivery_due_sql_delete(tx, target, d.next_ms, event_id, info);
        d.state = DELIVERY_PENDING;
        d.tries = 0;
        d.next_ms = tx_now_ms(tx);
        d.lease_until_ms = 0;
        d.last_error = STR_NONE;
        if (!e && !(e = delivery_sql_update(tx, &d, &changed, info)) && !changed)
            e = ERR_RETRY;
    }
    if (!e)
        e = delivery_due_sql_insert(tx, target, d.next_ms, event_id, info);
    if (!e)
        tx_after_commit(tx, WAKE_BUS, event_id);
    return e;
}

enum err deliveries_again(struct tx *tx, struct str target, size_t max, size_t *ret_n,
                          struct err_info *info)
{
    int64_t *ids = arena_array(tx_arena(tx), max, sizeof *ids);
    enum err e = delivery_due_sql_dead_of(tx, target, max, ids, ret_n, info);

    for (size_t i = 0; !e && i < *ret_n; i++)
        e = delivery_again(tx, ids[i], target, info);
    return e;
}

enum err event_replay(struct tx *tx, int64_t event_id, struct err_info *info)
{
    struct event event;
    size_t n;
    enum err e = outbox_sql_read(tx, event_id, &event, info);
    if (e)
        return e;

    struct webhook *hooks = arena_array(tx_arena(tx), WEBHOOKS_MAX, sizeof *hooks);
    if ((e = webhook_sql_on(tx, hooks, &n, info)))
        return e;
    for (size_t i = 0; i < n; i++) {
        if (!webhook_wants(&hooks[i], &event))
            continue;
        struct str target = str_printf(tx_arena(tx), WEBHOOK_TARGET "%lld", (long long)hooks[i].id);
        if ((e = delivery_again(tx, event_id, target, info)))
            return e;
    }
    return delivery_again(tx, event_id, STR(CONSUMERS_TARGET), info);
}

/* ---- subscribers ---- */

bool webhook_wants(const struct webhook *w, const struct event *event)
{
    return (!w->caller || w->caller == event->caller) &&
           (!w->types || w->types & EVENT_BIT(event->type));
}

enum err webhook_insert(struct tx *tx, const struct webhook *w, struct str secret_enc,
                        struct err_info *info)
{
    int64_t n;
    enum err e = webhook_sql_insert(tx, w, secret_enc, info);
    if (!e)
        e = webhook_sql_count(tx, &n, info);
    if (e)
        return e;
    return n > WEBHOOKS_MAX
               ? err_set(info, ERR_LIMIT, "there are %d webhooks already", WEBHOOKS_MAX)
               : ERR_OK;
}

enum err webhook_list(struct tx *tx, int64_t caller, struct webhook *ret, size_t max, size_t *ret_n,
                      struct err_info *info)
{
    return webhook_sql_list(tx, caller, max, ret, ret_n, info);
}

enum err webhook_set(struct tx *tx, int64_t caller, int64_t id, bool on, struct err_info *info)
{
    return webhook_sql_set(tx, caller, id, on, info);
}

enum err webhook_rotate(struct tx *tx, int64_t caller, int64_t id, struct str new_secret_enc,
                        struct err_info *info)
{
    return webhook_sql_rotate(tx, caller, id, new_secret_enc, info);
}
