/* gauges.c -- what is counted when /metrics is scraped: the store's queues. The bus's backlog is
 * measured by api/ops.c; what must be zero is counted by the invariants job. */
#include "app/gauges.h"

#include "app/runtime.h"

void gauges_update(struct metrics *m, void *runtime)
{
    static const char *const classes[STORE_CLASSES] = { "callback", "api", "background" };
    struct runtime *r = runtime;
    struct store_stats store;
    store_stats(r->store, &store);
    for (int i = 0; i < STORE_CLASSES; i++)
        metric_set(metrics_get(m, "fenpay_store_queue_length", classes[i]), store.queue[i]);
}
