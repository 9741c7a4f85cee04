/* order_settle.c -- what a success does to its order, and what becomes of one that no order wants.
 *
 * The first success whose settle commits wins. Every later one is PAID_TWICE, one on a cancelled
 * order PAID_AFTER_CLOSE: the money is a fact and stays recorded, an incident says why no order has
 * it, and the policy in the settings says what follows, all in the same transaction. */
#include "core/order/order_inner.h"

#include "base/killpoint.h"
#include "core/incident/incident.h"
#include "core/order/order_sql.h"
#include "core/payment/payment.h"
#include "core/refund/refund_auto.h"

/* ---- a success that no order wants ---- */

static struct str why_surplus(struct arena *a, const struct order *o, const struct payment *p)
{
    struct number_text order_no = number_text(o->no), winner_no = number_text(o->pay_no);
    struct str paid = money_text(a, p->paid_amount);

    return number_is(o->pay_no)
               ? str_printf(a, STR_FMT " paid for order %s, which payment %s had settled",
                            STR_ARG(paid), order_no.s, winner_no.s)
               : str_printf(a, STR_FMT " paid for order %s, which is %s", STR_ARG(paid), order_no.s,
                            order_status_name(o->status));
}

/* The merchant takes the money after all: the order is PAID by it, and nothing is left to do. */
static enum err revive(struct tx *tx, struct order *o, struct payment *p, struct incident_row *row,
                       struct err_info *info)
{
    struct evidence evidence = { .kind = p->evidence_kind,
                                 .ref = p->evidence_ref,
                                 .actor = STR("settle") };
    struct incident_end end = { .action = ACTION_REVIVE, .who = STR("policy") };
    enum err e = order_revive(tx, o, p, CAUSE_SETTLE, &evidence, p->trace_id, info);

    return e ? e : incident_resolve(tx, row, &end, info);
}

/* What the settings say, where that can be done. */
static enum incident_policy policy_for(const struct centre_settings *settings,
                                       enum incident_kind kind, const struct payment *p)
{
    bool after_close = kind == INCIDENT_PAID_AFTER_CLOSE;
    bool whole = !money_sign(p->refunding) && !money_sign(p->refunded);
    enum incident_policy policy = after_close ? settings->paid_after_close : settings->paid_twice;

    if (policy == POLICY_REFUND && !refund_possible(p))
        policy = after_close ? POLICY_REVIVE : POLICY_HOLD;
    /* What the channel gave back before anybody looked is missing. */
    return policy == POLICY_REVIVE && !whole ? POLICY_HOLD : policy;
}

/* So much goes back by itself; more than that within an hour is a fault of somebody's, and waits
 * for a person. */
static enum err brake(struct tx *tx, const struct centre_settings *settings,
                      const struct payment *p, struct incident *incident, struct err_info *info)
{
    bool is_free;
    enum err e = order_brake(tx, settings, p->account, p->paid_amount, &is_free, info);

    if (e || is_free)
        return e;
    incident->policy = POLICY_BRAKED;
    struct str why =
        str_printf(tx_arena(tx), "not refunded: account " STR_FMT " has refunded much this hour",
                   STR_ARG(p->account));
    incident->detail =
        str_printf(tx_arena(tx), STR_FMT "; " STR_FMT, STR_ARG(incident->detail), STR_ARG(why));
    return ERR_OK;
}

static enum err carry_out(struct tx *tx, struct order *o, struct payment *p,
                          struct number incident_no, struct err_info *info)
{
    struct incident_row row;
    enum err e = incident_load(tx, incident_no.id, &row, info);

    if (e || row.resolved)
        return e;
    switch (row.policy) {
    case POLICY_REFUND:
        return refund_auto_step(tx, p, &row, p->trace_id, info);
    case POLICY_REVIVE:
        return revive(tx, o, p, &row, info);
    case POLICY_HOLD:
    case POLICY_BRAKED:
        break;
    }
    return ERR_OK;
}

static enum err surplus(struct tx *tx, const struct centre_settings *settings, struct order *o,
                        struct payment *p, struct err_info *info)
{
    bool after_close = o->status == ORDER_CANCELLED;
    struct incident incident = {
        .kind = after_close ? INCIDENT_PAID_AFTER_CLOSE : INCIDENT_PAID_TWICE,
        .subject = p->no,
        .caller = p->caller,
        .amount = p->paid_amount,
        .detail = why_surplus(tx_arena(tx), o, p),
        .trace_id = p->trace_id,
    };
    struct incident_opened opened = { .opened = false };
    enum err e = ERR_OK;

    incident.policy = policy_for(settings, incident.kind, p);
    if (incident.policy == POLICY_REFUND)
        e = brake(tx, settings, p, &incident, info);
    if (!e && !mutation_on(MUTATION_SURPLUS_UNTOLD))
        e = incident_open(tx, &incident, &opened, info);
    if (!e && mutation_on(MUTATION_LOSER_WINS))
        e = order_sql_paid(
            tx, o, &o->journal,
            &(struct order_paid) { p->no, (int)p->channel, p->transaction_id, p->pay_ms }, info);
    if (!e)
        e = payment_set_settled(tx, p, SETTLED_SURPLUS, info);
    if (e || mutation_on(MUTATION_SURPLUS_UNTOLD))
        return e;
    return carry_out(tx, o, p, opened.no, info);
}

/* ---- settling ---- */

/* The order has its money: nobody must be able to pay it a second time. */
static enum err close_others(struct tx *tx, const struct payment_brief *briefs, size_t n,
                             int64_t winner, struct err_info *info)
{
    for (size_t i = 0; i < n; i++) {
        if (briefs[i].id == winner || briefs[i].status > PAYMENT_PAYING)
            continue;
        struct payment p;
        enum err e = payment_load(tx, briefs[i].id, &p, info);
        if (!e)
            e = payment_request_close(tx, &p, CLOSE_PAID_ELSEWHERE, info);
        if (e)
            return e;
    }
    return ERR_OK;
}

static enum err win(struct tx *tx, struct order *o, struct payment *p,
                    const struct payment_brief *briefs, size_t n, struct err_info *info)
{
    struct order_move m = {
        .edge = ORDER_EDGE_SETTLE,
        .payment = p,
        .evidence = { .kind = p->evidence_kind, .ref = p->evidence_ref, .actor = STR("settle") },
        .trace_id = p->trace_id,
        .note = number_str(tx_arena(tx), p->no),
    };
    enum err e = order_move(tx, o, &m, info);
    if (!e)
        e = payment_set_settled(tx, p, SETTLED_WON, info);
    if (!e)
        e = close_others(tx, briefs, n, p->no.id, info);
    /* What went back before the order knew of its payment was nobody's. */
    if (e || !money_sign(p->refunded))
        return e;
    e = order_refunds_changed(tx, o->no.id, info);
    return e ? e : order_load(tx, o->no.id, o, info);
}

/* Did this very transaction settle before (its COMMIT answer got lost)? Then its ids are in use, by
 * the move of an order or by an incident, and a success that has appeared since must wait for
 * another transaction. The ids count up by one; this takes the one before those that would be used.
 */
static enum err settled_before(struct tx *tx, bool *ret_before, struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    if (id == 0)
        return err_internal(info, "the transaction is out of ids for settling");
    enum err e = journal_has(tx, id + 1, ret_before, info);
    if (!e && !*ret_before)
        e = incident_has(tx, id + 1, ret_before, info);
    return e;
}

/* *ret_applied: this one used the ids, so the others wait for the next call: the first that applies
 * decides the order. */
static enum err apply_success(struct tx *tx, const struct centre_settings *settings,
                              struct order *o, const struct payment_brief *briefs, size_t n,
                              int64_t pay_id, bool *ret_applied, struct err_info *info)
{
    struct payment p;
    bool before;
    enum err e = payment_load(tx, pay_id, &p, info);

    if (e)
        return e;
    if (!money_eq(p.paid_amount, o->pay_amount))
        return payment_set_settled(tx, &p, SETTLED_ASIDE, info);
    *ret_applied = true;
    if ((e = settled_before(tx, &before, info)) || before)
        return e;
    return order_is_open(o->status) ? win(tx, o, &p, briefs, n, info)
                                    : surplus(tx, settings, o, &p, info);
}

enum err order_settle(struct tx *tx, const struct centre_settings *settings, int64_t order_id,
                      struct order *ret, struct err_info *info)
{
    struct order o;
    struct payment_brief *briefs;
    size_t n;
    enum err e = order_load(tx, order_id, &o, info);
    if (!e)
        e = payments_brief(tx, order_id, &briefs, &n, info);
    if (e)
        return e;

    bool applied = false;
    for (size_t i = 0; i < n && !applied; i++)
        if (briefs[i].status == PAYMENT_SUCCESS && briefs[i].settled == SETTLED_NO &&
            (e = apply_success(tx, settings, &o, briefs, n, briefs[i].id, &applied, info)))
            return e;
    *ret = o;
    return ERR_OK;
}
