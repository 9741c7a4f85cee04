/* gauges.c -- what is counted when /metrics is scraped: the store's queues and the bus's backlog.
 * What must be zero is counted by the invariants job. */
#include "app/gauges.h"

#include "app/runtime.h"

static enum err count_backlog(struct tx *tx, void *arg, struct err_info *info)
{
    return bus_stats(tx, arg, info);
}

void gauges_update(struct metrics *m, void *runtime)
{
    static const char *const classes[STORE_CLASSES] = { "callback", "api", "background" };
    struct runtime *r = runtime;
    struct store_stats store;
    store_stats(r->store, &store);
    for (int i = 0; i < STORE_CLASSES; i++)
        metric_set(metrics_get(m, "fenpay_store_queue_length", classes[i]), store.queue[i]);

    struct bus_stats bus = { 0 };
    if (store_read(r->store, 0, "bus_stats", count_backlog, &bus, NULL))
        return; /* /readyz tells what is wrong with the store */
    metric_set(metrics_get(m, "fenpay_outbox_backlog", NULL), bus.pending);
    int64_t age_ms = bus.pending ? env_now_ms(r->env) - bus.oldest_ms : 0;
    metric_set(metrics_get(m, "fenpay_outbox_oldest_seconds", NULL),
               age_ms > 0 ? age_ms / 1000 : 0);
}
