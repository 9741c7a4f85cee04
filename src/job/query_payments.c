/* query_payments.c -- asks the channel about payments whose rung has come, and closes those whose
 * close is requested. */
#include "core/payment/flow.h"
#include "job/jobs.h"

enum err job_query_payments(struct job_context *ctx, size_t max, size_t *ret_done,
                            struct err_info *info)
{
    return payment_due_turn(ctx->centre, max, ret_done, info);
}
