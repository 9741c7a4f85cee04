/* table.c -- every job: how often, how much at a time (rules.md section 9). */
#include "job/jobs.h"

#define SECONDS(n) ((n)*1000LL)
#define MINUTES(n) SECONDS((n)*60)

const struct job jobs[] = {
    { "query_payments", SECONDS(1), 100, false, job_query_payments },
    { "refunds", SECONDS(1), 100, false, job_refunds },
    { "orders", SECONDS(5), 500, false, job_orders },
    { "callbacks", SECONDS(10), 64, false, job_callbacks },
    /* The bus has its own threads and sweeps; these are the net below them, and all there is where
       no thread runs. */
    { "outbox", SECONDS(10), 1000, false, job_outbox },
    { "deliveries", SECONDS(10), 64, false, job_deliveries },
    { "settle_sweep", MINUTES(1), 500, false, job_settle_sweep },
    { "invariants", MINUTES(1), 200, false, job_invariants },
    { "keys", MINUTES(60), 1, false, job_keys },
    { "retention", MINUTES(60), 1000, false, job_retention },
    { "node", MINUTES(1), 1, true, job_node },
    { "rejects", SECONDS(10), 1, true, job_rejects },
};
const size_t job_count = sizeof jobs / sizeof *jobs;
