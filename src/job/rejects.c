/* rejects.c -- samples of callbacks that did not verify, from memory to the database. */
#include "job/jobs.h"

enum err job_rejects(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    (void)max;
    *ret_done = 0;
    return ctx->flush_rejects ? ctx->flush_rejects(ctx->flush_rejects_ctx, info) : ERR_OK;
}
