/* settle_sweep.c -- repairs orders that a success of theirs has not reached. It should find
 * nothing: each repair is worth a line. */
#include "base/log.h"
#include "core/order/order.h"
#include "job/jobs.h"

enum err job_settle_sweep(struct job_context *ctx, size_t max, size_t *ret_done,
                          struct err_info *info)
{
    size_t repaired = 0;
    enum err e = order_settle_sweep(ctx->centre, max, &repaired, info);

    if (repaired)
        LOG(ctx->centre->env->log, LOG_WARN, "job.settle_sweep_repaired",
            log_int("orders", (int64_t)repaired));
    *ret_done = repaired;
    return e;
}
