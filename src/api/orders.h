/* orders.h -- the body of an order as it comes in: alone, or inline in a payment request. */
#ifndef FENPAY_API_ORDERS_H
#define FENPAY_API_ORDERS_H

#include "api/call.h"
#include "core/order/order.h"

struct item_body {
    struct str sku, name;
    struct opt_int unit_price, quantity, discount;
};

struct order_body {
    struct str merchant_order_no, user_id, subject, remark, currency, request_id;
    struct opt_list items; /* of struct item_body */
    struct opt_int amount, discount, shipping, tax, expire_in_s;
};
extern const struct shape inline_order_body;

/* What the order module wants; everything it can judge is judged there. Without the request id. */
void order_new_of(struct arena *a, const struct order_body *in, struct order_new *ret);

#endif
