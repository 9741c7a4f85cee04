/* order_inner.h -- the one setter of an order's status. Inside order/ only. */
#ifndef FENPAY_ORDER_INNER_H
#define FENPAY_ORDER_INNER_H

#include "core/order/order.h"

/* What a move needs to know beyond the order. */
struct order_move {
    enum order_edge edge;
    enum journal_cause cause;      /* 0: the edge's own */
    const struct payment *payment; /* the winning one, for SETTLE and REVIVE */
    struct evidence evidence;
    struct str trace_id, note;
};

/* Compare-and-set, journal row, event. Takes up to 2 ids. */
enum err order_move(struct tx *tx, struct order *o, const struct order_move *m,
                    struct err_info *info);

/* May the account pay that back by itself within this hour? If so it is counted. */
enum err order_brake(struct tx *tx, const struct centre_settings *settings, struct str account,
                     struct money amount, bool *ret_free, struct err_info *info);

bool order_is_open(enum order_status s); /* WAIT_PAY, PAYING or PAY_FAILED */

#endif
