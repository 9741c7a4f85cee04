/* gauges.h -- what is counted when /metrics is scraped: the store's queues. */
#ifndef FENPAY_GAUGES_H
#define FENPAY_GAUGES_H

#include "base/metrics.h"

/* `runtime` is a struct runtime *. For metrics_on_scrape. */
void gauges_update(struct metrics *m, void *runtime);

#endif
