/* bus.c -- the sweeps behind the bus's own threads: what is pending is published, what is due is
 * delivered. */
#include "job/jobs.h"

static enum err turns(struct bus *bus, enum err (*turn)(struct bus *, size_t *, struct err_info *),
                      size_t max, size_t *ret_done, struct err_info *info)
{
    size_t n = 0, one = 1;
    enum err e = ERR_OK;

    while (bus && n < max && one && !e) {
        one = 0;
        e = turn(bus, &one, info);
        n += one;
    }
    *ret_done = n;
    return e;
}

enum err job_outbox(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    return turns(ctx->bus, bus_turn, max, ret_done, info);
}

enum err job_deliveries(struct job_context *ctx, size_t max, size_t *ret_done,
                        struct err_info *info)
{
    return turns(ctx->bus, bus_deliver_turn, max, ret_done, info);
}
