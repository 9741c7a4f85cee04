/* flow_start.h -- what the files of payment_start share; nobody else includes it.
 *
 * flow_start.c rounds, calls and what follows from them · flow_start_plan.c look and decide ·
 * flow_start_new.c a new attempt, built and stored */
#ifndef FENPAY_FLOW_START_H
#define FENPAY_FLOW_START_H

#include "base/buf.h"
#include "core/payment/flow_call.h"

enum plan { PLAN_REFUSE, PLAN_SETTLE, PLAN_GIVE, PLAN_CALL, PLAN_CLOSE, PLAN_NEW };

/* One payment_start on its way. */
struct start {
    struct centre *c;
    const struct act *act;
    const struct payment_new *n;
    struct refusal *refusal;
    enum pay_method method;
    struct number order_no;
    struct buf tried; /* comma-separated: accounts that turned out broken */

    /* the snapshot */
    bool found, unsettled, quarantined;
    struct order order;
    struct payment *open; /* INIT and PAYING, not superseded */
    size_t open_n;
    bool same_request;
    struct payment requested; /* the attempt of this request_id */

    /* the decision */
    enum plan plan;
    struct payment chosen;   /* GIVE, CALL, CLOSE */
    struct account *account; /* NEW: referenced */

    /* the result */
    struct payment payment;
    enum payment_started how;
};

/* ---- flow_start_plan.c ---- */

/* A store_rule on a struct start: the order and its attempts into the snapshot. */
enum err start_look(struct tx *tx, void *arg, struct err_info *info);
/* From the snapshot; PLAN_REFUSE: the refusal is set. */
enum plan start_decide(struct start *s, int64_t now_ms);
/* May a new attempt begin on this order? */
enum code order_takes_new(const struct centre *c, const struct order *o, int64_t now_ms);

/* ---- flow_start_new.c ---- */

/* Builds the attempt with its request and stores both, the call lease taken. *ret_stored false:
 * somebody else's attempt has the place or the request id; look again. */
enum code start_store(struct start *s, struct payment *ret, bool *ret_stored);

#endif
