/* order_consumer.c -- what a payment's end means for its order. Both effects are decided by the
 * order module from the rows as they are, so an event that comes twice, late or out of order does
 * no harm. */
#include "consumer/consumer.h"

#include "core/order/order.h"
#include "core/payment/payment.h"

#include <assert.h>

static_assert(ORDER_SETTLE_IDS <= CONSUMER_IDS, "a settle fits into a consumer's ids");

static enum err consume(struct tx *tx, const struct event *event, void *ctx, struct err_info *info)
{
    int64_t order_id;
    struct order order;
    enum err e = payment_order_id(tx, event->subject.id, &order_id, info);

    (void)ctx;
    if (e)
        return e;
    return event->type == EVENT_PAYMENT_SUCCESS ? order_settle(tx, order_id, &order, info)
                                                : order_attempt_ended(tx, order_id, info);
}

const struct consumer order_consumer = {
    .name = "order",
    .types = EVENT_BIT(EVENT_PAYMENT_SUCCESS) | EVENT_BIT(EVENT_PAYMENT_FAILED) |
             EVENT_BIT(EVENT_PAYMENT_CLOSED),
    .consume = consume,
};
