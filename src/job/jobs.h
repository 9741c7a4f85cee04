/* jobs.h -- the jobs' own functions, one file each, and what they remember between runs. Inside
 * job/ only. */
#ifndef FENPAY_JOBS_H
#define FENPAY_JOBS_H

#include "core/invariant/invariant.h"
#include "job/job.h"

/* One pass of the invariants job takes many runs when there are many payments. */
struct job_memory {
    struct invariant_pass invariants;
    bool invariants_run; /* a pass is under way */
};

enum err job_query_payments(struct job_context *ctx, size_t max, size_t *ret_done,
                            struct err_info *info);
enum err job_refunds(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_orders(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_callbacks(struct job_context *ctx, size_t max, size_t *ret_done,
                       struct err_info *info);
enum err job_outbox(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_deliveries(struct job_context *ctx, size_t max, size_t *ret_done,
                        struct err_info *info);
enum err job_settle_sweep(struct job_context *ctx, size_t max, size_t *ret_done,
                          struct err_info *info);
enum err job_invariants(struct job_context *ctx, size_t max, size_t *ret_done,
                        struct err_info *info);
enum err job_keys(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_node(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_rejects(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info);
enum err job_retention(struct job_context *ctx, size_t max, size_t *ret_done,
                       struct err_info *info);

/* Fetches an account's keys and swaps them in. ERR_OK also when there is nothing to fetch. */
enum err keys_refresh(struct job_context *ctx, struct account *account, struct err_info *info);

#endif
