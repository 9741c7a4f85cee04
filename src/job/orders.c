/* orders.c -- orders whose time is over, and cancels that wait for an attempt to close. */
#include "core/order/order.h"
#include "job/jobs.h"

enum err job_orders(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    return order_due_turn(ctx->centre, max, ret_done, info);
}
