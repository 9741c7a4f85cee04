/* refund.h -- one return of money from one payment.
 *
 * Only this module writes refund_order. A refund is accepted at once (its amount is reserved on the
 * payment by one conditional UPDATE) and sent later, one at a time per payment, under its own
 * number and with the same bytes every time. It moves along the table in refund.c and nowhere else;
 * every move is a compare-and-set, a journal row, an event and the change of the payment's two sums
 * in one transaction. FAILED needs the channel's word: never a timer's, never one that a lost call
 * may contradict. */
#ifndef FENPAY_REFUND_H
#define FENPAY_REFUND_H

#include "core/payment/payment.h"

/* Persisted: pinned in refund.c and never reused. */
enum refund_status {
    REFUND_INIT = 0,
    REFUND_PROCESSING = 1,
    REFUND_SUCCESS = 2,
    REFUND_FAILED = 3,
    REFUND_ABNORMAL = 4, /* the channel cannot bring the money to the payer; may become SUCCESS */
    REFUND_REVERSED = 5
};
enum refund_origin {
    REFUND_BY_CALLER = 1,
    REFUND_BY_POLICY = 2,  /* automatic, of an incident: request id "auto:<incident>:<n>" */
    REFUND_BY_CHANNEL = 3, /* made at the channel: request id "channel:<channel_refund_id>" */
    REFUND_BY_OPERATOR = 4
};
/* What the next turn of one that is not final does. */
enum refund_step { REFUND_SEND = 0, REFUND_ASK = 1 };

#define REFUND_LINES_MAX      200
#define REFUND_REQUEST_ID_MAX 96

/* So many of an order line, and what they are worth. */
struct refund_line {
    int line_no;
    int64_t quantity;
    struct money amount;
};

struct refund {
    struct number no, pay_no, order_no;
    int64_t caller;
    struct str account;
    enum channel_id channel;
    enum refund_origin origin;
    struct str request_id;
    struct sha256 digest;
    struct money amount;
    enum refund_status status;
    bool late; /* succeeded after it had failed */
    struct str reason;
    struct str channel_refund_id;         /* STR_NONE until known */
    struct str error_code, error_message; /* of the channel's last refusal */
    enum channel_class error_class;
    enum refund_step step;
    int64_t turn_id;
    int64_t calls, unknown_calls;
    int64_t missing_count, missing_ms;
    bool held; /* somebody has to do something (top up the balance); shown as processing */
    int64_t sent_ms, next_ms, query_count;
    enum evidence_kind evidence_kind;
    int64_t evidence_ref;
    int64_t done_ms; /* the channel's */
    struct str trace_id;
    int64_t version;
    struct journal_head journal;
    int64_t create_ms, update_ms;
    struct refund_line *lines; /* loaded on demand; none: a refund by amount */
    size_t line_count;
};

static inline bool refund_is_open(const struct refund *r) /* its amount is reserved */
{
    return r->status == REFUND_INIT || r->status == REFUND_PROCESSING ||
           r->status == REFUND_ABNORMAL;
}

/* ---- what the API calls: blocking, outside any rule ---- */

struct refund_new {
    struct number pay_no;
    struct str request_id; /* mandatory, 1 to 64 visible ASCII characters */
    bool has_amount;       /* else lines */
    int64_t amount_fen;
    struct str currency;             /* STR_NONE: the payment's */
    const struct refund_line *lines; /* line_no and quantity, in any order */
    size_t line_count;
    struct str reason; /* at most 256 characters; the channel shows the payer what it takes of it */
};
/* Settles the order, then reserves and stores the refund; the refunds job sends it. The same
 * request again gives the existing one with *ret_created false; other contents are REQUEST_MISMATCH
 * naming the field. Else BAD_FIELD, PAYMENT_NOT_FOUND (also another caller's), PAYMENT_STATE (not
 * paid, or its money is being examined), REFUND_UNSUPPORTED (its channel), REFUND_EXCEEDS,
 * REFUND_LIMIT (the channel takes no more for this payment), BUSY. *ret with its lines. */
enum code refund_create(struct centre *c, const struct act *act, const struct refund_new *n,
                        struct refund *ret, bool *ret_created, struct refusal *refusal);

/* With its lines; another caller's: REFUND_NOT_FOUND. */
enum code refund_get(struct centre *c, const struct act *act, struct number refund_no,
                     struct refund *ret, struct refusal *refusal);
/* All of a payment, oldest first, with their lines; PAYMENT_NOT_FOUND. */
enum code refund_list(struct centre *c, const struct act *act, struct number pay_no,
                      struct refund **ret, size_t *ret_n, struct refusal *refusal);
/* Its turn now: asks the channel about it, or sends it if that is what comes next and the channel's
 * gap allows it. What the channel made by itself is not asked about. */
enum code refund_sync(struct centre *c, const struct act *act, struct number refund_no,
                      struct refund *ret, struct refusal *refusal);

/* The job: refunds whose turn has come, up to `max`, oldest first: send, ask, send again. Where a
 * channel stays silent, its account's other refunds wait a minute. */
enum err refund_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info);

/* ---- inside a rule: opening ---- */

struct refund_draft {
    int64_t id; /* the refund's: one of the transaction's, taken before anything whose own use of
                   ids may differ between two runs of the rule */
    struct money amount;             /* or, with line_count: */
    const struct refund_line *lines; /* line_no rising, quantity > 0; their amounts are computed */
    size_t line_count;
    enum refund_origin origin;
    struct str request_id;
    struct str reason, actor, trace_id;
};
enum refund_opened {
    REFUND_OPENED,      /* also when this very rule opened it before */
    REFUND_SAME,        /* exists: the same origin, request id and contents */
    REFUND_DIFFERS,     /* exists with other contents: `field` says in what */
    REFUND_UNPAID,      /* the payment is no success, or quarantined */
    REFUND_UNSUPPORTED, /* its channel cannot refund, or this program cannot ask it to */
    REFUND_EXCEEDS,     /* more than is left (`field`), or worth nothing */
    REFUND_TOO_MANY,    /* the channel takes no more for this payment */
    REFUND_NO_LINE /* the order has no such line (`line_no`), or another payment settled it (0) */
};
struct refund_opening {
    enum refund_opened how;
    const char *field; /* "amount", "items", "quantity", "line_no", "reason" */
    int line_no;       /* 0: not about one line */
};
/* Reserves and stores a refund of `p`, which was loaded in this transaction and is afterwards what
 * it has become; the order was settled before. *ret with lines, good for OPENED, SAME and DIFFERS.
 * Whatever is not OPENED wrote nothing and is data beside ERR_OK. ERR_RETRY: lost a race. Takes one
 * id besides draft->id. */
#define REFUND_OPEN_IDS 2
enum err refund_open(struct tx *tx, struct payment *p, const struct refund_draft *draft,
                     struct refund *ret, struct refund_opening *ret_opening, struct err_info *info);

/* ---- inside a rule: moving ---- */

/* What refund_apply did. Only MOVED changed status and sums; CONFLICT and MISMATCH opened an
 * incident in this same transaction; QUERY_WANTED gave it a turn now. */
enum refund_move {
    REFUND_MOVED,
    REFUND_ALREADY,
    REFUND_CONFLICT,
    REFUND_MISMATCH, /* the fact is about another amount or payment */
    REFUND_QUERY_WANTED,
};
/* Applies a fact to the refund; `fact` FACT_REFUSED is the channel's refusal for good. With
 * evidence->fact, its amount, payment and account (fact->ours) must be the refund's; without (an
 * operator, a refusal) they are. evidence->equal is not looked at. *ret is the row as it now is,
 * without lines, its texts in tx_arena. ERR_NOT_FOUND, ERR_RETRY. Takes up to REFUND_APPLY_IDS ids.
 */
#define REFUND_APPLY_IDS 4
enum err refund_apply(struct tx *tx, int64_t refund_id, enum fact_kind fact,
                      const struct evidence *evidence, enum journal_cause cause,
                      struct str trace_id, enum refund_move *ret_move, struct refund *ret,
                      struct err_info *info);
/* The same on a row that was just loaded in this transaction. */
enum err refund_apply_to(struct tx *tx, struct refund *r, enum fact_kind fact,
                         const struct evidence *evidence, enum journal_cause cause,
                         struct str trace_id, enum refund_move *ret_move, struct err_info *info);

/* A refund as a notice of `account` states it (evidence->fact), ours or made at the channel. One of
 * ours moves by the table. One that the channel made by itself is known by its channel_refund_id;
 * its success is stored once and added to refunded unconditionally: above what was paid, incident
 * OVER_REFUNDED. Takes up to REFUND_HEAR_IDS ids. */
enum refund_hearing {
    REFUND_HEARD,         /* something came of it: a move, an incident, a new row */
    REFUND_HEARD_NOTHING, /* nothing to do */
    REFUND_HEARD_EARLY,   /* the payment's own success is not known: it is asked for now */
    REFUND_HEARD_FOREIGN, /* another account's, or another merchant's; incident ACCOUNT_MISMATCH */
    REFUND_HEARD_UNKNOWN, /* no payment of ours */
};
struct refund_heard {
    enum refund_hearing how;
    struct refund refund; /* which moved, else empty; texts in tx_arena */
    enum refund_status from;
};
#define REFUND_HEAR_IDS 5
enum err refund_hear(struct tx *tx, struct str account, const struct evidence *evidence,
                     enum journal_cause cause, struct str trace_id, struct refund_heard *ret,
                     struct err_info *info);

/* Gives an open refund its turn now, as an operator's retry does. */
enum err refund_wake(struct tx *tx, struct refund *r, struct err_info *info);

/* ---- inside a rule: reading; texts in tx_arena ---- */

enum err refund_load(struct tx *tx, int64_t id, struct refund *ret, struct err_info *info);
enum err refund_load_lines(struct tx *tx, struct refund *r, struct err_info *info);
/* All of a payment, oldest first, without lines. */
enum err refunds_of(struct tx *tx, int64_t pay_id, struct refund **ret, size_t *ret_n,
                    struct err_info *info);
/* What went back of a payment for good: the sum of its SUCCESS refunds (in the currency of `like`)
 * and, by line, the quantities of those by lines. */
enum err refund_done(struct tx *tx, int64_t pay_id, struct money like, struct money *ret_sum,
                     struct refund_line *ret_lines, size_t max, size_t *ret_n,
                     struct err_info *info);

/* A page of the turns of refunds that are not final, behind `after` (its due_ms and id; zero: from
 * the start). */
struct refund_turn_at {
    int64_t due_ms, id;
    unsigned slot;
    struct str account; /* in tx_arena */
};
enum err refund_open_page(struct tx *tx, const struct refund_turn_at *after, size_t max,
                          struct refund_turn_at *ret, size_t *ret_n, struct err_info *info);

/* Those that are not final, up to 10,000 of them; for metrics. */
struct refund_figures {
    int64_t open, held, oldest_ms; /* oldest: when it was made; 0: none */
};
enum err refund_figures(struct tx *tx, struct refund_figures *ret, struct err_info *info);

struct refund refund_copy(struct arena *a, const struct refund *r); /* with the lines it has */

/* One line and a count a move, after its commit. */
void refund_log(struct centre *c, const struct refund *r, enum refund_status from,
                enum journal_cause cause, struct str trace_id);

const char *refund_status_name(enum refund_status s); /* "PROCESSING" */
const char *refund_origin_name(
    enum refund_origin o); /* "caller", "policy", "channel", "operator" */

/* The transition table as text for docs/states.md and its test, and its cells for theirs. */
struct buf;
void refund_matrix_print(struct buf *out);
enum refund_row {
    REFUND_ROW_ACCEPTED,
    REFUND_ROW_REFUSED,        /* for good, and no call on this number was ever unknown */
    REFUND_ROW_REFUSED_UNSURE, /* for good, but a call is unknown */
    REFUND_ROW_REFUSED_GONE,   /* and since then two queries, a minute apart, did not know it */
    REFUND_ROW_DONE,
    REFUND_ROW_CLOSED,
    REFUND_ROW_ABNORMAL,
    REFUND_ROW_REVERSED
};
enum refund_act { REFUND_ACT_NONE, REFUND_ACT_MOVE, REFUND_ACT_QUERY, REFUND_ACT_INCIDENT };
struct refund_cell {
    enum refund_act act;
    enum refund_status to; /* for REFUND_ACT_MOVE */
};
struct refund_cell refund_cell_of(enum refund_row row, enum refund_status status);

#endif
