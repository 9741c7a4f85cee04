/* resolve_adopt.c -- money at the channel without a payment of ours becomes one.
 *
 * The channel is asked first, outside any transaction: what it says now is what is stored. A number
 * of ours that the database does not know (it was restored from an older copy) comes back under
 * that very number; for another one a new number is made, and the channel knows the money by its
 * transaction only. The order that goes with it can never be paid. */
#include "core/call/call.h"
#include "core/callback/callback.h"
#include "core/order/order.h"
#include "core/payment/flow_call.h"
#include "core/resolve/resolve_inner.h"

/* ---- before the rule ---- */

struct orphan {
    struct resolving *w;
    struct str account, number;
    bool found;
};

static enum err orphan_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct orphan *o = arg;
    const struct resolve *r = o->w->r;
    struct arena *a = o->w->act->arena;
    struct incident_row row;
    struct callback_bytes callback;
    enum err e = incident_load(tx, r->incident_no.id, &row, info);

    o->found = !e && (r->any_caller || row.caller == o->w->act->caller.id) &&
               row.kind == INCIDENT_ORPHAN_PAYMENT && !row.resolved;
    if (!o->found)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = callback_bytes_of(tx, row.subject.id, &callback, info)))
        return e;
    o->account = str_keep(a, callback.row.account);
    o->number = str_keep(a, callback.row.subject_no);
    o->w->transaction_id = str_keep(a, row.discriminator);
    return ERR_OK;
}

static bool takes(struct resolving *w)
{
    for (size_t i = 0; i < w->answer.fact_count && w->answer.outcome == CHANNEL_DONE; i++) {
        const struct fact *f = &w->answer.facts[i];
        if (f->kind != FACT_PAID || !f->ours || !str_eq(f->transaction_id, w->transaction_id))
            continue;
        w->paid = *f;
        return true;
    }
    return false;
}

enum code resolve_adopt_ask(struct resolving *w, struct refusal *refusal)
{
    struct orphan o = { .w = w };
    struct channel_ctx ctx = { .env = w->c->env,
                               .transport = w->c->transport,
                               .arena = w->act->arena,
                               .trace_id = w->act->trace_id };
    enum code code =
        centre_read(w->c, "incident.orphan", w->r->incident_no.slot, orphan_rule, &o, refusal);

    w->args = str_printf(w->act->arena, "%lld", (long long)w->r->adopt_for.id);
    if (code || !o.found)
        return code; /* the rule says what is wrong */
    struct account *account = registry_ref(w->c->registry, o.account);
    if (!account)
        return refuse(refusal, CODE_NO_ACCOUNT);
    w->account = o.account;
    w->number = o.number;
    w->channel = account->info->id;
    account->info->driver->query(account, &ctx, o.number, &w->answer);
    account_unref(account);
    if (takes(w))
        return CODE_OK;
    return w->answer.outcome == CHANNEL_DONE || w->answer.not_exist
               ? refuse_field(refusal, CODE_INCIDENT_STATE, NULL,
                              STR("the channel does not say any more that this was paid"))
               : refuse(refusal, CODE_CHANNEL_BUSY);
}

/* ---- in the rule ---- */

static enum err take_order(struct tx *tx, struct resolving *w, unsigned slot, struct order *o,
                           struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct money zero = money_zero(w->paid.amount);

    *o = (struct order) {
        .no = { .slot = (uint16_t)slot },
        .caller = w->r->adopt_for.id,
        .user_id = STR("adopted"),
        .subject = STR("Money that came without a payment"),
        .order_amount = w->paid.amount,
        .discount = zero,
        .shipping = zero,
        .tax = zero,
        .pay_amount = w->paid.amount,
        .remark = str_printf(tx_arena(tx), "adopted from incident %s", number_text(w->row.no).s),
    };
    return order_adopt(tx, o, &evidence, w->act->trace_id, info);
}

static enum err take_payment(struct tx *tx, struct resolving *w, struct number no,
                             struct number order_no, struct err_info *info)
{
    struct evidence evidence = resolve_evidence(w);
    struct payment p = {
        .no = no,
        .order_no = order_no,
        .caller = w->r->adopt_for.id,
        .account = w->account,
        .environment = w->c->settings.environment,
        .channel = w->channel,
        .user_id = STR("adopted"),
        .payer = w->paid.payer.n ? w->paid.payer : STR_NONE,
        .amount = w->paid.amount,
        .route = str_printf(tx_arena(tx), "adopted; out_trade_no " STR_FMT, STR_ARG(w->number)),
    };
    enum payment_status from = p.status;
    enum err e = payment_adopt(tx, &p, &w->paid, &evidence, w->act->trace_id, info);

    if (e)
        return e;
    w->moved = payment_copy(w->act->arena, &p);
    w->from = from;
    return ERR_OK;
}

/* Under the number it has at the channel, if that is one of ours. */
static enum err number_for(struct tx *tx, struct resolving *w, struct number *ret,
                           struct err_info *info)
{
    struct payment there;

    if (number_parse(w->number, NUMBER_PAYMENT, ret)) {
        *ret = number_make(NUMBER_PAYMENT, w->row.no.slot, tx_new_id(tx));
        return ERR_OK;
    }
    enum err e = payment_load(tx, ret->id, &there, info);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    return e ? e
             : resolve_refuse(w, CODE_INCIDENT_STATE, STR("there is a payment of that number now"));
}

enum err resolve_adopt(struct tx *tx, struct resolving *w, struct err_info *info)
{
    int64_t other;
    struct number no;
    struct order o;
    enum err e = payment_find_transaction(tx, w->account, w->paid.transaction_id, &other, info);

    if (e)
        return e;
    if (other)
        return resolve_refuse(w, CODE_INCIDENT_STATE,
                              STR("a payment of ours has this transaction now"));
    if ((e = number_for(tx, w, &no, info)) || w->refused)
        return e;
    if ((e = call_insert(tx, tx_new_id(tx), CALL_QUERY, w->row.subject, w->account, &w->answer,
                         w->act->trace_id, info)) ||
        (e = take_order(tx, w, no.slot, &o, info)) || (e = take_payment(tx, w, no, o.no, info)))
        return e;
    struct str how = str_printf(tx_arena(tx), "adopted as payment %s", number_text(no).s);
    w->detail =
        str_printf(tx_arena(tx), STR_FMT "; " STR_FMT, STR_ARG(w->row.detail), STR_ARG(how));
    return callback_settled(tx, w->row.subject.id, how, info);
}
