/* order_consumer.c -- what the end of a payment or a refund means for its order, and for a person
 * who was asked to look at it. The effects are decided from the rows as they are, so an event that
 * comes twice, late or out of order does no harm. */
#include "consumer/consumer.h"

#include "core/incident/incident.h"
#include "core/order/order.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"
#include "core/resolve/follow.h"

#include <assert.h>

static_assert(ORDER_SETTLE_IDS + 1 <= CONSUMER_IDS && FOLLOW_IDS <= CONSUMER_IDS,
              "each effect fits into a consumer's ids");

static enum err refund_ended(struct tx *tx, const struct event *event, struct err_info *info)
{
    struct refund r;
    enum err e = refund_load(tx, event->subject.id, &r, info);
    if (!e && event->type != EVENT_REFUND_FAILED)
        e = order_refunds_changed(tx, r.order_no.id, info);
    return e ? e
             : follow_refund(tx, &r, event->type == EVENT_REFUND_REVERSED, event->trace_id, info);
}

static enum err consume(struct tx *tx, const struct event *event, void *ctx, struct err_info *info)
{
    const struct centre *c = ctx;
    const unsigned in_the_dark =
        INCIDENT_BIT(INCIDENT_QUERY_STUCK) | INCIDENT_BIT(INCIDENT_RISK_HELD);
    int64_t order_id;
    struct order order;

    if (event->subject.kind == NUMBER_REFUND)
        return refund_ended(tx, event, info);
    enum err e = payment_order_id(tx, event->subject.id, &order_id, info);

    if (!e)
        e = incident_recovered(tx, event->subject.id, in_the_dark, STR("the payment has ended"),
                               info);
    if (e)
        return e;
    if (event->type == EVENT_PAYMENT_SUCCESS) {
        e = order_settle(tx, &c->settings, order_id, &order, info);
        /* Set aside, its money settles nothing: it may have been the last attempt. */
        if (e || order.status != ORDER_PAYING)
            return e;
    }
    return order_attempt_ended(tx, order_id, info);
}

struct consumer order_consumer(struct centre *c)
{
    return (struct consumer) {
        .name = "order",
        .types = EVENT_BIT(EVENT_PAYMENT_SUCCESS) | EVENT_BIT(EVENT_PAYMENT_FAILED) |
                 EVENT_BIT(EVENT_PAYMENT_CLOSED) | EVENT_BIT(EVENT_REFUND_SUCCESS) |
                 EVENT_BIT(EVENT_REFUND_FAILED) | EVENT_BIT(EVENT_REFUND_REVERSED),
        .consume = consume,
        .ctx = c,
    };
}
