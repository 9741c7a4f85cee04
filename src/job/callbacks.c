/* callbacks.c -- failed callbacks, taken up again from their stored bytes. */
#include "core/callback/callback.h"
#include "job/jobs.h"

enum err job_callbacks(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    return callback_due_turn(ctx->centre, max, ret_done, info);
}
