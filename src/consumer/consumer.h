/* consumer.h -- the downstream consumers shipped in the box. */
#ifndef FENPAY_CONSUMER_H
#define FENPAY_CONSUMER_H

#include "bus/bus.h"
#include "core/centre.h"

/* payment.success: settles the order; payment.failed, payment.closed: PAYING -> PAY_FAILED if no
 * attempt is left. */
struct consumer order_consumer(struct centre *c);

/* For bus_options.on_dead: opens DELIVERY_DEAD. */
enum err consumer_on_dead(struct tx *tx, const struct event *event, struct str target,
                          struct str error, void *ctx, struct err_info *info);

#endif
