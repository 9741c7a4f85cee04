/* resolve_refund.c -- acts by which money goes back: begun here, one refund at a time
 * (refund_auto.h), ended when all of it has gone back (follow.h). Until then the incident stays
 * open, under the policy `refund`. */
#include "core/order/order.h"
#include "core/payment/flow_call.h"
#include "core/refund/refund_auto.h"
#include "core/resolve/resolve_inner.h"

/* Refuses, having written nothing, when there is none to be had. */
static enum err begin(struct tx *tx, struct resolving *w, struct payment *p, struct err_info *info)
{
    struct refund_auto_order order = { .incident_no = w->row.no,
                                       .reason = incident_payer_text(w->row.kind),
                                       .actor = w->r->who,
                                       .trace_id = w->act->trace_id,
                                       .insist = true };
    struct refund_auto done;
    enum err e = refund_auto(tx, p, &order, &done, info);

    if (e)
        return e;
    w->stays_open = true;
    switch (done.how) {
    case REFUND_AUTO_OPENED:
        return ERR_OK;
    case REFUND_AUTO_UNDER_WAY:
        return resolve_refuse(w, CODE_INCIDENT_STATE, STR("all of it is on its way back already"));
    case REFUND_AUTO_NOTHING:
    case REFUND_AUTO_FAILED: /* not where a person insists */
        return resolve_refuse(w, CODE_INCIDENT_STATE, STR("nothing of it is left"));
    case REFUND_AUTO_REFUSED:
        return resolve_refuse(w, CODE_INCIDENT_STATE, str_of(done.why));
    }
    return err_internal(info, "no such state of a refund");
}

enum err resolve_refund(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct payment p;
    enum err e = resolve_payment(tx, w, &p, info);

    if (e || w->refused)
        return e;
    if (p.settled != SETTLED_SURPLUS && p.settled != SETTLED_ASIDE)
        return resolve_refuse(w, CODE_INCIDENT_STATE, STR("its money is held, or an order has it"));
    return begin(tx, w, &p, info);
}

/* Set aside before anybody settles: this money is no order's. */
enum err resolve_accept_and_refund(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct payment p;
    enum err e = resolve_payment(tx, w, &p, info);

    if (e || w->refused)
        return e;
    if (!p.quarantined)
        return resolve_refuse(w, CODE_INCIDENT_STATE, STR("none of its money is held"));
    if (!refund_possible(&p) || money_sign(p.paid_amount) <= 0)
        return resolve_refuse(w, CODE_INCIDENT_STATE,
                              STR("it cannot go back the way it came: accept it instead"));
    enum payment_status from = p.status;
    if ((e = payment_accept(tx, &p, &evidence, w->act->trace_id, info)) ||
        (e = payment_set_settled(tx, &p, SETTLED_ASIDE, info)) ||
        (e = order_attempt_ended(tx, p.order_no.id, info)) || (e = begin(tx, w, &p, info)))
        return e;
    if (w->refused)
        return err_internal(info, "money that was accepted just now cannot go back");
    resolve_moved(w, &p, from);
    return resolve_no_more_held(tx, w, info);
}

/* The payer has the money by another way (a transfer, another card). */
enum err resolve_settled_offline(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct refund r;
    enum refund_move move;
    enum err e = refund_load(tx, w->row.subject.id, &r, info);

    if (e)
        return e;
    if (r.status != REFUND_ABNORMAL)
        return resolve_refuse(
            w, CODE_INCIDENT_STATE,
            str_printf(w->act->arena, "the refund is %s", refund_status_name(r.status)));
    if ((e = resolve_close(tx, w, info))) /* else the refund's end would do it, as nobody's act */
        return e;
    return refund_apply_to(tx, &r, FACT_REFUND_DONE, &evidence, CAUSE_OPERATOR, w->act->trace_id,
                           &move, info);
}
