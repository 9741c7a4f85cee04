/* flow_start_plan.c -- where a payment_start stands: the snapshot of its order, and what to do
 * about it. */
#include "core/payment/flow_start.h"

#include <assert.h>

#include "core/payment/payment_sql.h"

/* ---- the snapshot ---- */

static enum err look_at(struct tx *tx, struct start *s, const struct payment_brief *b,
                        struct err_info *info)
{
    struct payment p;

    s->unsettled = s->unsettled || (b->status == PAYMENT_SUCCESS && b->settled == SETTLED_NO);
    s->quarantined = s->quarantined || (b->quarantined && b->status != PAYMENT_SUCCESS);
    if (b->status > PAYMENT_PAYING || b->superseded)
        return ERR_OK;
    enum err e = payment_load(tx, b->id, &p, info);
    if (!e)
        s->open[s->open_n++] = payment_copy(s->act->arena, &p);
    return e;
}

enum err start_look(struct tx *tx, void *arg, struct err_info *info)
{
    struct start *s = arg;
    struct payment_brief *briefs;
    size_t n;
    int64_t id = 0;
    enum err e = order_load(tx, s->order_no.id, &s->order, info);

    s->found = s->unsettled = s->quarantined = s->same_request = false;
    s->open_n = 0;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    s->found = s->order.caller == s->act->caller.id && s->order.no.slot == s->order_no.slot &&
               (!s->n->user_id.n || str_eq(s->n->user_id, s->order.user_id));
    s->order.subject = str_keep(s->act->arena, s->order.subject);
    s->order.user_id = str_keep(s->act->arena, s->order.user_id);
    if (!s->found)
        return ERR_OK;
    if ((e = payments_brief(tx, s->order_no.id, &briefs, &n, info)))
        return e;
    s->open = arena_array(s->act->arena, n ? n : 1, sizeof *s->open);
    for (size_t i = 0; i < n; i++)
        if ((e = look_at(tx, s, &briefs[i], info)))
            return e;
    if (s->n->request_id.n &&
        (e = payment_sql_by_request(tx, s->order_no.id, s->n->request_id, &id, info)))
        return e;
    s->same_request = id != 0;
    if (s->same_request && !(e = payment_load(tx, id, &s->requested, info)))
        s->requested = payment_copy(s->act->arena, &s->requested);
    return e;
}

/* ---- the decision ---- */

/* With what a refuse…() gave. */
static enum plan refused(enum code code)
{
    assert(code != CODE_OK);
    return PLAN_REFUSE;
}

/* May an attempt be open on this order at all? */
static enum code order_takes_attempts(const struct order *o, int64_t now_ms)
{
    switch (o->status) {
    case ORDER_PAID:
    case ORDER_COMPLETED:
        return CODE_ORDER_ALREADY_PAID;
    case ORDER_CANCELLED:
        return CODE_ORDER_NOT_PAYABLE;
    case ORDER_WAIT_PAY:
    case ORDER_PAYING:
    case ORDER_PAY_FAILED:
        break;
    }
    if (o->cancel_requested == CANCEL_CALLER)
        return CODE_ORDER_NOT_PAYABLE;
    if (o->cancel_requested == CANCEL_EXPIRY || (o->expire_ms && o->expire_ms <= now_ms))
        return CODE_ORDER_EXPIRING;
    return CODE_OK;
}

enum code order_takes_new(const struct centre *c, const struct order *o, int64_t now_ms)
{
    enum code code = order_takes_attempts(o, now_ms);

    if (!code && o->expire_ms && o->expire_ms - now_ms < c->settings.expiring_ms)
        return CODE_ORDER_EXPIRING;
    return code;
}

/* The field in which this request differs from the attempt that its request_id made; NULL: none. */
static const char *request_difference(const struct start *s, const struct payment *p)
{
    if (s->n->channel && s->n->channel != p->channel)
        return "channel";
    if (s->n->account.n && !str_eq(s->n->account, p->account))
        return "account";
    if (s->method != p->method)
        return "method";
    if (!str_eq(s->n->payer, p->payer))
        return "payer";
    return NULL;
}

/* Can a payer still be sent to this attempt? */
static bool usable(const struct payment *p, int64_t now_ms)
{
    return payment_is_open(p) && p->close_requested == CLOSE_NO && !p->quarantined &&
           !p->superseded && p->expire_ms > now_ms;
}

/* An open attempt that is just what was asked for. */
static enum plan plan_same(struct start *s, const struct payment *p, int64_t now_ms)
{
    s->chosen = *p;
    if (p->status == PAYMENT_PAYING && p->credentials.n &&
        (p->credential_expire_ms == 0 || p->credential_expire_ms > now_ms))
        return PLAN_GIVE;
    if (payment_lease_live(p, now_ms))
        return refused(refuse_later(s->refusal, CODE_REQUEST_IN_FLIGHT, 1));
    return PLAN_CALL;
}

static enum plan plan_request(struct start *s, int64_t now_ms)
{
    const char *field = request_difference(s, &s->requested);

    if (field)
        return refused(refuse_field(s->refusal, CODE_REQUEST_MISMATCH, field, STR_NONE));
    if (usable(&s->requested, now_ms) && order_takes_attempts(&s->order, now_ms) == CODE_OK)
        return plan_same(s, &s->requested, now_ms);
    s->chosen = s->requested;
    return PLAN_GIVE;
}

static struct account *route(struct start *s, int64_t now_ms)
{
    struct registry *r = s->c->registry;

    if (!s->n->account.n)
        return registry_route(r, s->n->channel, s->method, s->c->settings.environment,
                              s->order.pay_amount, buf_str(&s->tried), now_ms);

    struct account *account = registry_ref(r, s->n->account);
    if (!account)
        return NULL;
    if (!account->config.retired && !registry_suspended(r, s->n->account, now_ms) &&
        (account->methods >> s->method & 1) &&
        (enum environment)account->config.environment == s->c->settings.environment &&
        money_fen(s->order.pay_amount) <= account->config.amount_max_fen && !buf_str(&s->tried).n)
        return account;
    account_unref(account);
    return NULL;
}

static enum plan plan_new(struct start *s, int64_t now_ms)
{
    enum code code = order_takes_new(s->c, &s->order, now_ms);

    if (code)
        return refused(refuse(s->refusal, code));
    s->account = route(s, now_ms);
    if (!s->account)
        return refused(refuse_later(s->refusal, CODE_NO_ACCOUNT, 30));
    if (!str_eq(str_of(s->account->info->currency), money_currency(&s->order.pay_amount)))
        return refused(refuse_field(s->refusal, CODE_CURRENCY_UNSUPPORTED, "currency", STR_NONE));
    for (size_t i = 0; i < s->open_n; i++)
        if (s->open[i].channel == s->account->info->id) {
            s->chosen = s->open[i];
            return PLAN_CLOSE;
        }
    return PLAN_NEW;
}

enum plan start_decide(struct start *s, int64_t now_ms)
{
    if (!s->found)
        return refused(refuse(s->refusal, CODE_ORDER_NOT_FOUND));
    if (s->unsettled)
        return PLAN_SETTLE;
    if (s->same_request)
        return plan_request(s, now_ms);
    enum code code = order_takes_attempts(&s->order, now_ms);
    if (code)
        return refused(refuse(s->refusal, code));
    if (s->quarantined)
        return refused(refuse_field(s->refusal, CODE_ORDER_NOT_PAYABLE, NULL,
                                    STR("money of this order is being examined")));
    for (size_t i = 0; i < s->open_n; i++)
        if (!request_difference(s, &s->open[i]) && usable(&s->open[i], now_ms))
            return plan_same(s, &s->open[i], now_ms);
    return plan_new(s, now_ms);
}
