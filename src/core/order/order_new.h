/* order_new.h -- from what a caller asked for to an order that could be stored: checks, sums,
 * shares, slot, key and digest. */
#ifndef FENPAY_ORDER_NEW_H
#define FENPAY_ORDER_NEW_H

#include "core/order/order.h"

struct order_draft {
    struct order order;   /* everything but number, times, journal; items have their shares */
    struct str order_key; /* empty: made of the number once there is one */
    int64_t expire_in_ms;
};

/* The refusal names the field. */
enum code order_draft(struct centre *c, const struct act *act, const struct order_new *n,
                      struct order_draft *ret, struct refusal *refusal);

/* The slot of an order by its caller's own number. */
unsigned order_slot(const struct act *act, struct str merchant_order_no);
/* Could be a caller's own number: its alphabet and length, and not one of ours. */
bool order_merchant_no_ok(struct str s);
/* 1..64 visible ASCII characters. */
bool order_request_id_ok(struct str s);
/* Text for people and keys: valid UTF-8, no control characters, at most `max` characters, no blank
 * at either end (some databases do not see a trailing one when they compare). */
bool order_text_ok(struct str s, size_t max);

/* The first field in which `asked` differs from the order that exists (with items), in the arena;
 * NULL: the same order. An inline order fixes amount, currency, items and user only. */
const char *order_difference(struct arena *a, const struct order *existing,
                             const struct order_draft *asked);

#endif
