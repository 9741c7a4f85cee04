/* refunds.c -- sends refunds, and asks about those that are not final. */
#include "core/refund/refund.h"
#include "job/jobs.h"

enum err job_refunds(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    return refund_due_turn(ctx->centre, max, ret_done, info);
}
