/* order.h -- what a user buys. It knows nothing of money movements; only this module writes
 * order_info and order_item.
 *
 * States and edges: rules.md section 2, as a table in order.c. Every move is a compare-and-set on
 * (status, version), a journal row and, where domain.md section 5 names one, an event, in one
 * transaction. order_settle is called before every decision about an order. */
#ifndef FENPAY_ORDER_H
#define FENPAY_ORDER_H

#include "core/centre.h"
#include "core/journal/journal.h"

/* Persisted: pinned in order.c. */
enum order_status {
    ORDER_WAIT_PAY = 0,
    ORDER_PAYING = 1,
    ORDER_PAID = 2,
    ORDER_PAY_FAILED = 3,
    ORDER_CANCELLED = 4,
    ORDER_COMPLETED = 5
};
enum order_refunds { REFUNDED_NONE = 0, REFUNDED_PART = 1, REFUNDED_FULL = 2 };
enum order_cancel { CANCEL_NO = 0, CANCEL_CALLER = 1, CANCEL_EXPIRY = 2 };

#define ORDER_ITEMS_MAX 200

struct order_item {
    int line_no; /* from 1, in the order given */
    struct str sku, name;
    struct money unit_price, line_amount, discount, paid_share;
    int64_t quantity, refunded_quantity;
};

struct order {
    struct number no;
    int64_t caller;
    struct str merchant_order_no; /* STR_NONE: none */
    struct str user_id, subject;
    struct money order_amount, discount, shipping, tax, pay_amount;
    enum order_status status;
    int refund_status;
    bool inline_order;
    struct number pay_no; /* winning payment; none before */
    int channel;
    struct str transaction_id;
    int64_t pay_ms, expire_ms; /* expire 0: never */
    enum order_cancel cancel_requested;
    struct str cancel_reason;
    int64_t cancel_ms;
    struct str request_id, remark, trace_id;
    struct sha256 digest;
    int64_t version;
    struct journal_head journal;
    int64_t create_ms, update_ms;
    struct order_item *items; /* loaded on demand */
    size_t item_count;
};

/* ---- what the API calls: blocking, outside any rule ---- */

struct order_new {
    struct str merchant_order_no, user_id, subject, remark, request_id; /* STR_NONE: not given */
    const struct order_item *items; /* sku, name, unit_price, quantity, discount */
    size_t item_count;
    bool has_amount; /* `amount` instead of items */
    int64_t amount_fen, discount_fen, shipping_fen, tax_fen;
    struct str currency;
    int64_t expire_in_ms; /* 0: never */
    bool inline_order;
};
/* Checks the input (every refusal names its field), computes pay_amount, shares, slot and digest,
 * inserts. The same order again (same key, same digest) gives the existing one with *ret_created
 * false; another content is ORDER_MISMATCH naming the first field that differs. */
enum code order_create(struct centre *c, const struct act *act, const struct order_new *o,
                       struct order *ret, bool *ret_created, struct refusal *refusal);

enum code order_get(struct centre *c, const struct act *act, struct number order_no,
                    struct order *ret,
                    struct refusal *refusal); /* with items; another caller's: ORDER_NOT_FOUND */
enum code order_find(struct centre *c, const struct act *act, struct str merchant_order_no,
                     struct order *ret, struct refusal *refusal);

struct order_filter {
    struct str user_id, merchant_order_no;
    int status;                             /* -1: any */
    int64_t created_from_ms, created_to_ms; /* 0: open */
    int64_t before_id;                      /* keyset: ids below; 0: newest */
    size_t limit;
};
enum code order_list(struct centre *c, const struct act *act, const struct order_filter *f,
                     struct order **ret, size_t *ret_n, struct refusal *refusal);

/* The close protocol over all attempts. *ret_closing true: not yet cancelled, an attempt is being
 * closed (the job goes on). Already paid: ORDER_ALREADY_PAID. */
enum code order_cancel(struct centre *c, const struct act *act, struct number order_no,
                       struct str reason, struct order *ret, bool *ret_closing,
                       struct refusal *refusal);
enum code order_complete(struct centre *c, const struct act *act, struct number order_no,
                         struct order *ret, struct refusal *refusal);

/* ---- inside a rule ---- */

enum err order_load(struct tx *tx, int64_t order_id, struct order *ret,
                    struct err_info *info); /* without items; texts in tx_arena */
enum err order_load_items(struct tx *tx, struct order *o, struct err_info *info);

/* Applies every SUCCESS payment of the order whose `settled` is 0: the first wins (order PAID,
 * pay_no, other open attempts close_requested), a later one is PAID_TWICE, one on a CANCELLED order
 * PAID_AFTER_CLOSE (incident, settled 2, and what the policy in the settings says). Idempotent.
 * `order` is the row as it is afterwards. One success a call, so that it takes at most
 * ORDER_SETTLE_IDS ids; another one waits for the next call (its own event, the due job, the
 * sweep). */
#define ORDER_SETTLE_IDS 5
enum err order_settle(struct tx *tx, const struct centre_settings *settings, int64_t order_id,
                      struct order *ret, struct err_info *info);

/* The conditional UPDATE of an order when an attempt starts: not cancel_requested, not expired,
 * version + 1, status PAYING. ERR_RETRY on zero rows. */
enum err order_attempt_started(struct tx *tx, struct order *order, const struct act *act,
                               struct err_info *info);
/* Makes cancel_requested durable (version + 1) on an open order and marks every open attempt for
 * closing. Again: marks what is not yet marked. */
enum err order_request_cancel(struct tx *tx, struct order *order, enum order_cancel why,
                              struct str reason, struct err_info *info);
/* PAYING -> PAY_FAILED when no attempt is left open (superseded ones do not count). A cancel that
 * waits comes due. */
enum err order_attempt_ended(struct tx *tx, int64_t order_id, struct err_info *info);
/* After settling: CANCELLED if a cancel or expiry is requested and no attempt is open and none
 * succeeded. *ret_done says so. Also the expiry job's rule. */
enum err order_try_cancel(struct tx *tx, struct order *order, const struct act *act, bool *ret_done,
                          struct err_info *info);

/* PAID -> COMPLETED. */
enum err order_mark_complete(struct tx *tx, struct order *order, const struct act *act,
                             struct err_info *info);
/* CANCELLED -> PAID by a surplus success of which nothing was or is being refunded (settled 2 ->
 * 1): the resolution `revive` of PAID_AFTER_CLOSE, by the policy (CAUSE_SETTLE) or an operator.
 * ERR_CONFLICT when its conditions do not hold. Takes up to 2 ids. */
struct payment;
enum err order_revive(struct tx *tx, struct order *order, struct payment *p,
                      enum journal_cause cause, const struct evidence *evidence,
                      struct str trace_id, struct err_info *info);
/* What went back of the winning payment has changed: refund_status and the lines' refunded
 * quantities are computed anew from its refunds (sums, never increments). Nothing before there is a
 * winner. */
enum err order_refunds_changed(struct tx *tx, int64_t order_id, struct err_info *info);
/* Stores an order that nobody can pay, for money that came without one: `o` brings slot, caller,
 * user, subject, amounts and remark; it is CANCELLED from the start. Takes 2 ids. */
enum err order_adopt(struct tx *tx, struct order *o, const struct evidence *evidence,
                     struct str trace_id, struct err_info *info);
/* The caller's own number, STR_NONE without one: for events about the order's payments. */
enum err order_merchant_no(struct tx *tx, int64_t order_id, struct str *ret, struct err_info *info);

/* The edge table, for its test and for docs/states.md. */
enum order_edge {
    ORDER_EDGE_ATTEMPT,
    ORDER_EDGE_SETTLE,
    ORDER_EDGE_FAILED,
    ORDER_EDGE_CANCEL,
    ORDER_EDGE_EXPIRE,
    ORDER_EDGE_REVIVE,
    ORDER_EDGE_COMPLETE,
};
bool order_edge_leaves(enum order_edge edge, enum order_status from,
                       enum order_status *ret_to); /* false: it does not, *ret_to untouched */
const char *order_edge_name(enum order_edge edge);
struct buf;
void order_matrix_print(struct buf *out);

const char *order_status_name(enum order_status s); /* "PAYING" */
enum err order_status_parse(struct str name, enum order_status *ret);

/* The job: orders whose expiry has come or whose cancel waits; up to `max`; *ret_next_ms when the
 * next is due. */
enum err order_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info);
/* Settles one order now, in a rule of its own. */
enum code order_settle_now(struct centre *c, struct arena *a, int64_t order_id, unsigned slot,
                           struct refusal *refusal);
/* The settle sweep: repairs orders with an unapplied success older than a minute; counts them. */
enum err order_settle_sweep(struct centre *c, size_t max, size_t *ret_repaired,
                            struct err_info *info);

#endif
