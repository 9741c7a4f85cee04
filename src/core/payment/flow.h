/* flow.h -- starting to pay, asking the channel, closing: the straight-line flows around
 * payment.c's rules (rules.md sections 3, 4 and 6).
 *
 * All are blocking: two short transactions with the channel call between them, outside any. */
#ifndef FENPAY_FLOW_H
#define FENPAY_FLOW_H

#include "core/order/order.h"
#include "core/payment/payment.h"

struct payment_new {
    struct number order_no;               /* or an inline order: */
    struct str merchant_order_no;         /* names an existing order, too */
    const struct order_new *inline_order; /* NULL: none */
    struct str user_id;                   /* empty: not compared */
    enum channel_id channel;              /* 0: auto */
    struct str account;                   /* empty: routed */
    struct str method;                    /* "native" */
    struct str payer, client_ip, return_url, request_id;
};

enum payment_started {
    PAYMENT_STARTED, /* a new attempt, credentials in hand: 201 */
    PAYMENT_SAME,    /* the open attempt or the same request again: 200 */
    PAYMENT_WAITING, /* the channel's answer is unknown: 202 */
};

/* On success *ret is the payment as it is now; `payment_client` prints what the client needs.
 * Refusals as rules.md section 3 and 6 say: ORDER_NOT_FOUND, ORDER_ALREADY_PAID, ORDER_NOT_PAYABLE,
 * ORDER_EXPIRING, REQUEST_MISMATCH, ORDER_MISMATCH, ATTEMPT_CLOSING (retry after), CHANNEL_REFUSED
 * (class, code, message), NO_ACCOUNT, CHANNEL_BUSY, BUSY, BAD_FIELD … */
enum code payment_start(struct centre *c, const struct act *act, const struct payment_new *n,
                        struct payment *ret, enum payment_started *ret_how,
                        struct refusal *refusal);

/* Prints the client's members into `out`, unless nothing may be handed out (not INIT or PAYING,
 * close requested, no credentials): *ret_given. */
enum err payment_client(struct centre *c, const struct payment *p, struct arena *a,
                        struct json_out *out, bool *ret_given, struct err_info *info);

enum code payment_get(struct centre *c, const struct act *act, struct number pay_no,
                      struct payment *ret, struct refusal *refusal);
/* Asks the channel now and applies what it says. */
enum code payment_sync(struct centre *c, const struct act *act, struct number pay_no,
                       struct payment *ret, struct refusal *refusal);
/* Requests close and runs the close protocol once. *ret_closing: not settled yet. */
enum code payment_close(struct centre *c, const struct act *act, struct number pay_no,
                        struct payment *ret, bool *ret_closing, struct refusal *refusal);

/* The close protocol on one attempt whose close is requested: lease, query, close, query. *ret_open
 * true: unknown, later again. Also the job's step: with `silences` of its round (else NULL), which
 * learn from it, and keep it from asking a channel that does not answer. */
struct silences;
enum err payment_close_step(struct centre *c, int64_t pay_id, struct str actor,
                            struct silences *silences, bool *ret_open, struct err_info *info);

/* The job: due rows (query ladder, requested closes), up to `max`, newest first with every fourth
 * place for the oldest. Where a channel stays silent, its account's other rows wait a minute. */
enum err payment_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info);

/* For each of the accounts in the list: a payment that still needs it (payment_needs_account), or
 * an open refund, if there is one. A pass over those of all accounts, unless every account has one
 * early: for a start or reload that lacks them. */
struct account_need {
    struct list link;
    struct str account;
    struct number no; /* id 0: nobody needs it */
};
enum err payments_needing(struct store *store, struct list *needs, struct err_info *info);

/* Everything that ever happened to an order, payment or refund, in time order; an order's with that
 * of its payments, a payment's with that of its refunds. */
enum timeline_kind {
    TIMELINE_JOURNAL,
    TIMELINE_CALL,
    TIMELINE_CALLBACK,
    TIMELINE_EVENT,
    TIMELINE_DELIVERY,
    TIMELINE_INCIDENT
};
struct timeline_entry {
    int64_t time_ms;
    enum timeline_kind kind;
    struct number subject;
    struct str text;   /* one line for people, English */
    struct str detail; /* JSON object for programs */
};
enum code timeline_read(struct centre *c, const struct act *act, struct number no,
                        struct timeline_entry **ret, size_t *ret_n, struct refusal *refusal);

#endif
