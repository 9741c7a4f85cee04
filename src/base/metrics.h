/* metrics.h -- the registry behind /metrics (Prometheus text). Families are declared in one table
 * (metrics_table.c): name, type, label names, help. A series is looked up once and kept; adding to
 * it is one atomic. Thread-safe. */
#ifndef FENPAY_METRICS_H
#define FENPAY_METRICS_H

#include "base/buf.h"

enum metric_type {
    METRIC_COUNTER,
    METRIC_COUNTER_US, /* counts microseconds, printed in seconds */
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
};

struct metric_def {
    const char *name;
    enum metric_type type;
    const char *labels; /* "route,code"; NULL: none */
    const char *help;
};

struct metrics;
struct metric; /* one series */

struct metrics *metrics_new(const struct metric_def defs[], size_t n);
void metrics_free(struct metrics *m);

/* The series of family `name` (must be in the table) with these label values, in the table's order,
 * joined by ',' ("GET /v1/payments,200"); only the last may hold a comma. At most 1,000 series a
 * family; further ones share the series labelled "other". `m` NULL gives NULL. */
struct metric *metrics_get(struct metrics *m, const char *name, const char *label_values);

/* All accept NULL. Histograms take microseconds; buckets are 0.1 ms … 30 s, printed in seconds. */
void metric_add(struct metric *m, int64_t n);
void metric_set(struct metric *m, int64_t v);
void metric_observe_us(struct metric *m, int64_t us);
int64_t metric_value(const struct metric *m);

/* Gauges computed when scraped, on the scraping thread, one scrape at a time. Not to be called from
 * `fn`. */
void metrics_on_scrape(struct metrics *m, void (*fn)(struct metrics *m, void *arg), void *arg);
void metrics_print(struct metrics *m, struct buf *out);

/* Fills the process_ families and the free space at `disk_path` (NULL: none; must outlive `m`) when
 * scraped. */
void metrics_watch_process(struct metrics *m, const char *disk_path);

extern const struct metric_def metrics_table[];
extern const size_t metrics_table_count;

#endif
