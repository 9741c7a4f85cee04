/* bus.c -- the sweeps behind the bus's own threads: what is pending is published, what is due is
 * delivered. */
#include "job/jobs.h"

static enum err turns(const struct job_context *ctx,
                      enum err (*turn)(struct bus *, size_t *, struct err_info *), size_t max,
                      size_t *ret_done, struct err_info *info)
{
    size_t n = 0, one = 1;
    enum err e = ERR_OK;

    while (ctx->bus && n < max && one && !e && !shift_over(ctx->centre)) {
        one = 0;
        e = turn(ctx->bus, &one, info);
        n += one;
    }
    *ret_done = n;
    return e;
}

enum err job_outbox(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    return turns(ctx, bus_turn, max, ret_done, info);
}

enum err job_deliveries(struct job_context *ctx, size_t max, size_t *ret_done,
                        struct err_info *info)
{
    return turns(ctx, bus_deliver_turn, max, ret_done, info);
}
