/* payment.h -- one attempt to collect the money of one order through one channel account.
 *
 * Only this module writes payment_order. A payment moves along the table in payment.c and nowhere
 * else; every move is a compare-and-set, a journal row and an outbox row in one transaction.
 * SUCCESS is never taken back: what happens to the money later is refunds. */
#ifndef FENPAY_PAYMENT_H
#define FENPAY_PAYMENT_H

#include "core/centre.h"
#include "core/evidence.h"
#include "core/journal/journal.h"

/* Persisted: pinned in payment.c and never reused. */
enum payment_status {
    PAYMENT_INIT = 0,
    PAYMENT_PAYING = 1,
    PAYMENT_SUCCESS = 2,
    PAYMENT_FAILED = 3,
    PAYMENT_CLOSED = 4
};
enum payment_close {
    CLOSE_NO = 0,
    CLOSE_CALLER = 1,
    CLOSE_CANCEL = 2,
    CLOSE_EXPIRY = 3,
    CLOSE_PAID_ELSEWHERE = 4,
    CLOSE_SWITCH = 5,
    CLOSE_TERMINAL = 6
};
enum payment_settled { SETTLED_NO = 0, SETTLED_WON = 1, SETTLED_SURPLUS = 2, SETTLED_ASIDE = 3 };

struct payment {
    struct number no, order_no;
    int64_t caller;
    struct str account;
    enum environment environment;
    enum channel_id channel;
    enum pay_method method;
    struct str user_id, payer, client_ip;
    struct money amount;
    enum payment_status status;
    bool late, quarantined, superseded;
    enum payment_settled settled;
    struct money paid_amount, payer_amount, channel_discount, refunding, refunded;
    struct str transaction_id;
    struct str credentials;
    int64_t credential_expire_ms;
    struct channel_request request;
    int64_t calls, unknown_calls;
    int64_t call_owner, call_until_ms;
    enum payment_close close_requested;
    int64_t close_ms;
    struct str request_id;
    struct sha256 digest;
    int64_t expire_ms, pay_ms, next_query_ms, query_count;
    enum evidence_kind evidence_kind;
    int64_t evidence_ref;
    struct str trace_id, route;
    int64_t version;
    struct journal_head journal;
    int64_t create_ms, update_ms;
};

/* What payment_apply did. Only MOVED and QUARANTINED changed the row; CONFLICT, CLASH and
 * QUARANTINED opened an incident in this same transaction; the two WANTED ask the caller to go on
 * (close protocol, query) after the commit (a payment_due row is written, so that it also happens
 * if nobody does). */
enum payment_move {
    PAYMENT_MOVED,
    PAYMENT_ALREADY,
    PAYMENT_CONFLICT,
    PAYMENT_CLASH,
    PAYMENT_QUARANTINED,
    PAYMENT_CLOSE_WANTED,
    PAYMENT_QUERY_WANTED,
};

/* Applies a fact (evidence->fact) to the payment; leaves what it did in `*ret_move` and the row as
 * it now is in `*ret` (its text lives in tx_arena). ERR_NOT_FOUND: no such payment. ERR_RETRY: lost
 * a race, the store runs the rule again. Terminal moves demand evidence; EVIDENCE_NONE there is
 * ERR_INTERNAL. Takes up to PAYMENT_APPLY_IDS ids. */
#define PAYMENT_APPLY_IDS 4
enum err payment_apply(struct tx *tx, int64_t pay_id, enum fact_kind fact,
                       const struct evidence *evidence, enum journal_cause cause,
                       struct str trace_id, enum payment_move *ret_move, struct payment *ret,
                       struct err_info *info);

/* The same on a row that was just loaded in this transaction; `p` becomes what it is afterwards (on
 * an error it is good for nothing). */
enum err payment_apply_to(struct tx *tx, struct payment *p, enum fact_kind fact,
                          const struct evidence *evidence, enum journal_cause cause,
                          struct str trace_id, enum payment_move *ret_move, struct err_info *info);

enum err payment_load(struct tx *tx, int64_t pay_id, struct payment *ret, struct err_info *info);
/* Only which order it is for; ERR_NOT_FOUND. */
enum err payment_order_id(struct tx *tx, int64_t pay_id, int64_t *ret, struct err_info *info);
enum err payments_of_order(struct tx *tx, int64_t order_id, struct payment **ret, size_t *ret_n,
                           struct err_info *info);
/* What decides about an order: its attempts that are open, succeeded or quarantined, oldest first.
 * In tx_arena. */
struct payment_brief {
    int64_t id;
    enum channel_id channel;
    enum payment_status status;
    enum payment_settled settled;
    enum payment_close close_requested;
    bool superseded, quarantined;
};
enum err payments_brief(struct tx *tx, int64_t order_id, struct payment_brief **ret, size_t *ret_n,
                        struct err_info *info);
/* Marks an open attempt for the close job (durable, with its due row). Nothing when already
 * requested or not open. */
enum err payment_request_close(struct tx *tx, struct payment *p, enum payment_close why,
                               struct err_info *info);
enum err payment_set_settled(struct tx *tx, struct payment *p, enum payment_settled settled,
                             struct err_info *info); /* order module only */
/* It gets a turn of the query ladder now. */
enum err payment_wake(struct tx *tx, struct payment *p, struct err_info *info);

/* The payment of that account with that transaction of the channel's; *ret_id 0: none. */
enum err payment_find_transaction(struct tx *tx, struct str account, struct str transaction_id,
                                  int64_t *ret_id, struct err_info *info);

/* ---- what an operator decides (evidence: OPERATOR) ----
 *
 * Money without a payment becomes one: SUCCESS, set aside. `p` brings number, order, caller,
 * account, channel and amount; `paid` is what the channel says. It has no method and no request.
 * Takes up to 3 ids. */
enum err payment_adopt(struct tx *tx, struct payment *p, const struct fact *paid,
                       const struct evidence *evidence, struct str trace_id, struct err_info *info);
bool payment_is_adopted(const struct payment *p);

/* And of a quarantined one: */

/* SUCCESS with what was stated of its money. Takes up to 2 ids. */
enum err payment_accept(struct tx *tx, struct payment *p, const struct evidence *evidence,
                        struct str trace_id, struct err_info *info);
/* Forgets what was stated and asks the channel again. */
enum err payment_release(struct tx *tx, struct payment *p, struct err_info *info);
/* None of our money came with it: CLOSED, if it was open. Takes up to 2 ids. */
enum err payment_dismiss(struct tx *tx, struct payment *p, const struct evidence *evidence,
                         struct str trace_id, struct err_info *info);

/* ---- for the refund module only; each a compare-and-set on the version: ERR_RETRY ---- */

/* What refunds may still take: paid - refunding - refunded, 0 where that is nothing, and for what
 * is no success, or quarantined. */
struct money payment_refund_left(const struct payment *p);
/* refunding + amount, where it still fits. */
enum err payment_refund_reserve(struct tx *tx, struct payment *p, struct money amount,
                                struct err_info *info);
/* The sums follow a refund's row that was moved or inserted in this transaction; above what was
 * paid, too, for that money is gone. */
enum err payment_refund_sums(struct tx *tx, struct payment *p, struct money refunding,
                             struct money refunded, struct err_info *info);
/* The call lease, for calls about the refunds of a success: one at a time. *ret_taken false:
 * somebody is calling. An owner that has it already takes it again. */
enum err payment_refund_lease(struct tx *tx, struct payment *p, int64_t owner, int64_t until_ms,
                              bool *ret_taken, struct err_info *info);
enum err payment_refund_release(struct tx *tx, struct payment *p, int64_t owner,
                                struct err_info *info); /* nothing when it is another's */
/* A refund of it is heard of before its own success: the channel is asked about it now. */
enum err payment_refund_heard(struct tx *tx, struct payment *p, struct err_info *info);

/* Its account must stay as it is: the channel has still to be asked or told something, or a person
 * has to decide about money. */
bool payment_needs_account(const struct payment *p);

/* A page of payment_due, behind `after` (its due_ms and id; zero: from the start): every row, and
 * which of them belongs to a SUCCESS not applied for longer than that. */
struct payment_due {
    int64_t due_ms, id, order_id;
    unsigned slot;
    struct str account; /* in tx_arena */
    bool unsettled, needs_account;
};
enum err payment_unsettled_page(struct tx *tx, const struct payment_due *after,
                                int64_t older_than_ms, size_t max, struct payment_due *ret,
                                size_t *ret_n, struct err_info *info);

const char *payment_status_name(enum payment_status s);
const char *fact_kind_name(enum fact_kind fact); /* "PAY_FAILED" */
const char *payment_close_name(enum payment_close c);

/* The transition table as text for docs/states.md and its test. */
struct buf;
void payment_matrix_print(struct buf *out);

/* A cell of the table, for its test. PAID and REFUSED stand in two rows each, as the amounts agree
 * and as a call on the number was ever unknown. */
enum payment_row {
    ROW_ACCEPTED,
    ROW_REFUSED,
    ROW_REFUSED_UNSURE,
    ROW_PAID_EQUAL,
    ROW_PAID_UNEQUAL,
    ROW_PAY_FAILED,
    ROW_SHUT
};
enum payment_act { ACT_NONE, ACT_MOVE, ACT_CLOSE, ACT_QUERY, ACT_QUARANTINE, ACT_INCIDENT };
struct payment_cell {
    enum payment_act act;
    enum payment_status to; /* for ACT_MOVE */
};
struct payment_cell payment_cell_of(enum payment_row row, enum payment_status status);

#endif
