/* shop.h -- the merchants' side: an order, what those who care for it ask of the centre, and how.
 * Shared by actors.c (paying, cancelling, completing) and refunds.c. */
#ifndef FENPAY_SIM_SHOP_H
#define FENPAY_SIM_SHOP_H

#include "core/order/order.h"
#include "core/payment/flow.h"
#include "core/refund/refund.h"
#include "sim/inner.h"

#define SHOWN_MAX      24
#define SHOP_LINES     3
#define SHOP_REFUNDS   8
#define SHOP_TRIES     5
#define SHOP_MINUTE_MS 60000LL

struct shop_order {
    struct sim *s;
    int64_t fen, expire_in_ms;
    struct order_item items[SHOP_LINES];
    size_t item_n; /* 0: an amount only */
    struct str merchant_no;
    struct number no;               /* none: not made yet */
    struct number shown[SHOWN_MAX]; /* attempts whose credentials somebody has seen */
    size_t shown_n;
    int64_t shown_until_ms; /* when the newest of them expires */
    bool over;              /* cancelled or completed, as the merchant was told */
    bool inline_new;        /* no merchant makes it before */
    unsigned shoppers;
    struct number refunds[SHOP_REFUNDS]; /* as the merchant was told */
    size_t refund_n;
};

/* What is common to all calls: the order, and what came back. */
struct ask {
    struct shop_order *o;
    enum code code;
    struct refusal refusal;
    struct number pay_no;
    /* paying */
    struct payment_new pay;
    struct payment payment;
    bool shown, was_over;
    /* refunding */
    struct refund_new wish;
    struct refund_line lines[SHOP_LINES];
    struct refund refund;
    /* others */
    struct order order;
    bool flag;
};

struct act shop_act(struct sim *s);
/* Until there is an answer that will not change by asking again. False: there was none. */
bool shop_insist(struct sim *s, const char *name, sim_serve *serve, struct ask *ask);
struct number shop_any_shown(struct shop_order *o);
bool shop_wait_for_order(struct shop_order *o);
/* What people do between two acts: up to that long on a slow day. */
void shop_think(struct sim *s, int64_t max_ms);
void shop_leave(struct sim *s);

/* ---- refunds.c: tasks with the order as their argument ---- */

/* A merchant that gives money back, in parts, twice, too early, too much. */
void shop_refunder(struct sim *s, void *order);
/* Somebody who does it in the channel's own portal. */
void shop_portal(struct sim *s, void *order);

#endif
