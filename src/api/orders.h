/* orders.h -- the body of an order as it comes in: alone, or in a payment request that brings its
 * own order. */
#ifndef FENPAY_API_ORDERS_H
#define FENPAY_API_ORDERS_H

#include "api/call.h"
#include "core/order/order.h"

struct item_body {
    struct str sku, name;
    struct opt_int unit_price, quantity, discount;
};
extern const struct shape item_shape;

struct order_body {
    struct str merchant_order_no, user_id, subject, remark, currency, request_id;
    struct opt_list items; /* of struct item_body */
    struct opt_int amount, discount, shipping, tax, expire_in_s;
};

/* The inputs both have alike. Lengths are the columns' (schema/0001-order.sql), in characters. */
#define ORDER struct order_body
/* clang-format off */
#define ORDER_FIELDS                                                        \
    INPUT_TEXT(ORDER, merchant_order_no, OPTIONAL, 1, 64, SET_ID),          \
    INPUT_TEXT(ORDER, remark, OPTIONAL, 0, 256, SET_ANY),                   \
    INPUT_OBJECTS(ORDER, items, OPTIONAL, 1, ORDER_ITEMS_MAX, &item_shape), \
    INPUT_FEN(ORDER, amount, OPTIONAL),                                     \
    INPUT_FEN(ORDER, discount, OPTIONAL),                                   \
    INPUT_FEN(ORDER, shipping, OPTIONAL),                                   \
    INPUT_FEN(ORDER, tax, OPTIONAL),                                        \
    INPUT_TEXT(ORDER, currency, OPTIONAL, 1, 8, SET_ANY),                   \
    INPUT_INT(ORDER, expire_in_s, OPTIONAL, 1, ORDER_EXPIRE_S_MAX),         \
    INPUT_TEXT(ORDER, request_id, OPTIONAL, 1, 64, SET_VISIBLE)
/* clang-format on */
#define ORDER_EXPIRE_S_MAX (366 * 86400)

/* What the order module wants; everything it can judge is judged there. Without the request id. */
void order_new_of(struct arena *a, const struct order_body *in, struct order_new *ret);
/* The first input given that only an order's content has; NULL: none. */
const char *order_content_given(const struct order_body *in);

#endif
