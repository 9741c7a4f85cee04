/* resolve_inner.h -- one act under way, and what the cells of the table do. Inside resolve/ only.
 */
#ifndef FENPAY_RESOLVE_INNER_H
#define FENPAY_RESOLVE_INNER_H

#include "core/payment/payment.h"
#include "core/resolve/resolve.h"

struct resolving {
    struct centre *c;
    const struct act *act;
    const struct resolve *r;
    struct str args; /* what besides the action must be the same when two persons say it */

    /* ADOPT, found out before the rule: what the channel says was paid, and under which number. */
    struct str account, number, transaction_id;
    enum channel_id channel;
    struct channel_answer answer;
    struct fact paid;

    /* in the rule */
    int64_t audit_id; /* the operator's evidence */
    struct incident_row row;
    struct str detail;    /* set by an effect: the incident's from now on */
    bool stays_open;      /* set by an effect: under the policy `refund` */
    bool closed;          /* the incident has been moved */
    enum code refused;    /* set by an effect that wrote nothing */
    struct str refusal;   /* for people */
    struct payment moved; /* for the log: moved from `from`, or status equal to it */
    enum payment_status from;
    struct resolved *ret;
};

/* In the rule: what the action does. Refuses before its first write, as data beside ERR_OK. */
typedef enum err resolve_effect(struct tx *tx, struct resolving *w, struct err_info *info);

/* resolve_money.c */
resolve_effect resolve_accept, resolve_revive, resolve_let_be;
/* The incident's payment; refuses when it is about something else. */
enum err resolve_payment(struct tx *tx, struct resolving *w, struct payment *ret,
                         struct err_info *info);
void resolve_moved(struct resolving *w, const struct payment *p,
                   enum payment_status from); /* kept for the log */
/* What else was said of the money while it was held is answered with it. */
enum err resolve_no_more_held(struct tx *tx, struct resolving *w, struct err_info *info);
/* resolve_refund.c */
resolve_effect resolve_refund, resolve_accept_and_refund, resolve_settled_offline;
/* resolve_adopt.c */
resolve_effect resolve_adopt;
/* resolve_retry.c */
resolve_effect resolve_retry_held, resolve_retry_payment, resolve_retry_refund;
resolve_effect resolve_retry_callback, resolve_retry_delivery;

/* Moves the incident; done after the effect, unless that wants it before what it moves does so. */
enum err resolve_close(struct tx *tx, struct resolving *w, struct err_info *info);

/* Before the rule, outside any transaction: asks the channel what was paid; takes up deliveries in
 * portions. */
enum code resolve_adopt_ask(struct resolving *w, struct refusal *refusal);
enum code resolve_retry_ask(struct resolving *w, struct refusal *refusal);

static inline enum err resolve_refuse(struct resolving *w, enum code code, struct str why)
{
    w->refused = code;
    w->refusal = why;
    return ERR_OK;
}

/* The operator is the evidence; the audit row says who and why. */
static inline struct evidence resolve_evidence(const struct resolving *w)
{
    return (struct evidence) { .kind = EVIDENCE_OPERATOR, .ref = w->audit_id, .actor = w->r->who };
}

#endif
