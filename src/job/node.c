/* node.c -- keeps this process's node id: without it, another one might mint the same numbers. */
#include "job/jobs.h"

enum err job_node(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    (void)max;
    *ret_done = 0;
    return ctx->node ? node_lease_extend(ctx->centre->store, ctx->centre->env, ctx->node, info)
                     : ERR_OK;
}
