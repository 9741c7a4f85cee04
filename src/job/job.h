/* job.h -- the scheduler: each job has one lease and runs run_once(now) with bounded work; split
 * beyond a minute (rules.md section 9). */
#ifndef FENPAY_JOB_H
#define FENPAY_JOB_H

#include "bus/bus.h"
#include "core/centre.h"
#include "store/lease.h"

struct job_memory;

struct job_context {
    struct centre *centre;
    struct bus *bus;
    struct node_lease *node; /* kept alive while the process runs; NULL: none */
    /* notify_flush_rejects of the process's notify service, which stands above the jobs; NULL:
     * there is none here. */
    enum err (*flush_rejects)(void *ctx, struct err_info *info);
    void *flush_rejects_ctx;
    int64_t call_retention_ms; /* channel_call; 0: 30 days */
    const char *without;       /* a job that is not run here; NULL: none. The simulator's */
    struct job_memory *memory; /* what jobs remember between runs; the scheduler's */
};

#define JOB_RUN_MS 45000 /* a run begins nothing more after that; what it began may take 15 s */

struct job {
    const char *name; /* "query_payments": in leases, metrics, logs */
    int64_t every_ms;
    size_t max; /* work a run */
    bool local; /* the process's own affair: every process runs it, without a lease */
    enum err (*run_once)(struct job_context *ctx, size_t max, size_t *ret_done,
                         struct err_info *info);
};
extern const struct job jobs[];
extern const size_t job_count;

struct scheduler;
/* `workers` threads run due jobs; a job never runs twice at a time (lease "job/NAME" with a fence,
 * also between processes). A run that did `max`, or whose time was over, is followed by another at
 * once. */
struct scheduler *scheduler_new(struct job_context *ctx, unsigned workers);
enum err scheduler_start(struct scheduler *s, struct err_info *info);
void scheduler_stop(struct scheduler *s);
void scheduler_free(struct scheduler *s);
/* Tests and `fenpay demo`: runs every job that is due now once, on the caller; how many did
 * something. */
enum err scheduler_turn(struct scheduler *s, size_t *ret_done, struct err_info *info);
/* Key refresh on request (unknown serial): at most one a minute and account, on a worker. Fits
 * centre.want_keys. */
void scheduler_want_keys(void *scheduler, struct account *account);

#endif
