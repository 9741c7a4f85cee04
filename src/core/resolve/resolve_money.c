/* resolve_money.c -- acts that decide what becomes of money: accept what was held, give a cancelled
 * order back its payment, let it be. */
#include "core/incident/incident.h"
#include "core/order/order.h"
#include "core/payment/flow_call.h"
#include "core/resolve/resolve_inner.h"

/* Those that hold a payment's money, as long as it is no success. */
#define HELD_KINDS                                                                                 \
    (INCIDENT_BIT(INCIDENT_AMOUNT_MISMATCH) | INCIDENT_BIT(INCIDENT_ACCOUNT_MISMATCH) |            \
     INCIDENT_BIT(INCIDENT_TRANSACTION_CLASH))

enum err resolve_payment(struct tx *tx, struct resolving *w, struct payment *ret,
                         struct err_info *info)
{
    if (w->row.subject.kind != NUMBER_PAYMENT)
        return resolve_refuse(w, CODE_ACTION_UNFIT, STR("it is not about a payment"));
    return payment_load(tx, w->row.subject.id, ret, info);
}

void resolve_moved(struct resolving *w, const struct payment *p, enum payment_status from)
{
    w->moved = payment_copy(w->act->arena, p);
    w->from = from;
}

/* An order may have lost its last attempt by it. */
static enum err settle(struct tx *tx, struct resolving *w, int64_t order_id, struct err_info *info)
{
    struct order o;
    enum err e = order_settle(tx, &w->c->settings, order_id, &o, info);

    return e ? e : order_attempt_ended(tx, order_id, info);
}

enum err resolve_no_more_held(struct tx *tx, struct resolving *w, struct err_info *info)
{
    return incident_recovered(tx, w->row.subject.id, HELD_KINDS & ~INCIDENT_BIT(w->row.kind),
                              STR("its money is not held any more"), info);
}

enum err resolve_accept(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct payment p;
    enum err e = resolve_payment(tx, w, &p, info);

    if (e || w->refused)
        return e;
    if (!p.quarantined)
        return resolve_refuse(w, CODE_INCIDENT_STATE, STR("none of its money is held"));
    enum payment_status from = p.status;
    if ((e = payment_accept(tx, &p, &evidence, w->act->trace_id, info)))
        return e;
    resolve_moved(w, &p, from);
    e = settle(tx, w, p.order_no.id, info);
    return e ? e : resolve_no_more_held(tx, w, info);
}

enum err resolve_revive(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct payment p;
    struct order o;
    enum err e = resolve_payment(tx, w, &p, info);

    if (e || w->refused)
        return e;
    if ((e = order_load(tx, p.order_no.id, &o, info)))
        return e;
    e = order_revive(tx, &o, &p, CAUSE_OPERATOR, &evidence, w->act->trace_id, info);
    return e == ERR_CONFLICT
               ? resolve_refuse(w, CODE_INCIDENT_STATE,
                                STR("the order is not cancelled any more, or some of the money is "
                                    "on its way back"))
               : e;
}

/* Money that is held would be held for ever: it has to be accepted, or asked for again. Only where
 * the channel claims for one payment what another one has, none of ours came with it. */
static enum err let_held_be(struct tx *tx, struct resolving *w, struct payment *p,
                            struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    enum payment_status from = p->status;

    if (w->row.kind != INCIDENT_TRANSACTION_CLASH)
        return resolve_refuse(w, CODE_INCIDENT_STATE,
                              STR("its money is held: accept it, or ask again with retry"));
    enum err e = payment_dismiss(tx, p, &evidence, w->act->trace_id, info);
    if (e)
        return e;
    resolve_moved(w, p, from);
    return resolve_no_more_held(tx, w, info);
}

enum err resolve_let_be(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct payment p;
    bool of_held = INCIDENT_BIT(w->row.kind) & HELD_KINDS &&
                   w->row.subject.kind == NUMBER_PAYMENT && !w->row.discriminator.n;
    enum err e = of_held ? payment_load(tx, w->row.subject.id, &p, info) : ERR_OK;

    return e || !of_held || !p.quarantined ? e : let_held_be(tx, w, &p, info);
}
