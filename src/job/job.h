/* job.h -- the scheduler: each job has one lease and runs run_once(now) with bounded work; split beyond a minute (rules.md section 9). */
#ifndef FENPAY_JOB_H
#define FENPAY_JOB_H

#include "bus/bus.h"
#include "core/centre.h"

struct job_context {
    struct centre *centre;
    struct bus    *bus;
};

struct job {
    const char *name; /* "query_payments": in leases, metrics, logs */
    int64_t     every_ms;
    size_t      max; /* work a run */
    enum err (*run_once)(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
};
extern const struct job jobs[];
extern const size_t     job_count;

struct scheduler;
/* `workers` threads run due jobs; a job never runs twice at a time (lease "job/NAME" with a fence, also between processes). A run that did `max`
 * is followed by another at once. */
struct scheduler *scheduler_new(struct job_context *ctx, unsigned workers);
enum err          scheduler_start(struct scheduler *s, struct err_info *info);
void              scheduler_stop(struct scheduler *s);
void              scheduler_free(struct scheduler *s);
/* Tests and `fenpay demo`: runs every job that is due now once, on the caller; how many did something. */
enum err scheduler_turn(struct scheduler *s, size_t *ret_done, struct err_info *info);
/* Key refresh on request (unknown serial): at most one a minute and account, on a worker. Fits centre.want_keys. */
void scheduler_want_keys(void *scheduler, struct account *account);

#endif
