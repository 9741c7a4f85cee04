/* flow_start.c -- starting to pay (rules.md section 3): look, decide, and do one of six things.
 *
 * A round reads a snapshot of the order and its attempts and decides what to do; whoever changed
 * something in between is noticed by the rule that writes (compare-and-set, unique keys), and the
 * next round looks again. The request to the channel is built before the rule that stores it, and
 * what is stored is what is sent, on this try and on every other one. */
#include "core/payment/flow_start.h"

#include "base/killpoint.h"
#include "core/order/order_new.h"

#define ROUNDS_MAX                                                                                 \
    8 /* settle, switch, close, failover …: more means that somebody works against us */
#define TRIES_MAX       3
#define TRY_PAUSE_MS    200
#define PAYER_MAX       128
#define ACCOUNTS_MAX    1024 /* bytes of the list of accounts that refused */
#define CLOSING_RETRY_S 5

/* ---- what was asked for ---- */

/* The method by name: of the channel or account asked for, else of any that is configured. */
static enum code find_method(struct start *s)
{
    bool any = false;

    for (size_t i = 0;; i++) {
        struct account *account = registry_at(s->c->registry, i);
        if (!account)
            break;
        const struct method_info *method = channel_method_by_name(account->info, s->n->method);
        bool mine = (!s->n->channel || account->info->id == s->n->channel) &&
                    (!s->n->account.n || str_eq(account->config.name, s->n->account));
        bool needs_payer = method && method->needs_payer,
             needs_ip = method && method->needs_client_ip;
        account_unref(account);
        any = any || mine;
        if (!mine || !method)
            continue;
        s->method = method->method;
        if (needs_payer && s->n->payer.n == 0)
            return refuse_field(s->refusal, CODE_BAD_FIELD, "payer", STR("this method needs it"));
        if (needs_ip && s->n->client_ip.n == 0)
            return refuse_field(s->refusal, CODE_BAD_FIELD, "client_ip",
                                STR("this method needs it"));
        return CODE_OK;
    }
    if (s->n->account.n && !any)
        return refuse_field(s->refusal, CODE_BAD_FIELD, "account",
                            STR("no such account of this channel"));
    if (!any)
        return refuse(s->refusal, CODE_NO_ACCOUNT);
    return refuse_field(s->refusal, CODE_BAD_FIELD, "method",
                        STR("no such method of this channel"));
}

static enum code check(struct start *s)
{
    if (s->n->request_id.n && !order_request_id_ok(s->n->request_id))
        return refuse_field(s->refusal, CODE_BAD_FIELD, "request_id",
                            STR("1 to 64 visible ASCII characters"));
    if (s->n->payer.n > PAYER_MAX)
        return refuse_field(s->refusal, CODE_BAD_FIELD, "payer", STR("at most 128 bytes"));
    return find_method(s);
}

static enum code find_order(struct start *s)
{
    struct order order;
    bool created;
    enum code code;

    if (number_is(s->n->order_no)) {
        s->order_no = s->n->order_no;
        return CODE_OK;
    }
    if (s->n->inline_order) {
        struct order_new n = *s->n->inline_order;
        n.inline_order = true;
        if (!n.request_id.n)
            n.request_id = s->n->request_id.n ? s->n->request_id : STR_NONE;
        code = order_create(s->c, s->act, &n, &order, &created, s->refusal);
    } else {
        code = order_find(s->c, s->act, s->n->merchant_order_no, &order, s->refusal);
    }
    if (!code)
        s->order_no = order.no;
    return code;
}

/* ---- the call and what follows from its answer ---- */

enum next { NEXT_DONE, NEXT_AGAIN, NEXT_REFUSED };

static enum next done(struct start *s, const struct payment *p, enum payment_started how)
{
    s->payment = *p;
    s->how = how;
    return NEXT_DONE;
}

/* What is known is not enough: ask, and give the row as the answer left it. */
static enum next ask(struct start *s, struct call *k)
{
    if (call_query(k, s->refusal))
        return NEXT_REFUSED;
    return done(s, &k->payment, payment_is_open(&k->payment) ? PAYMENT_WAITING : PAYMENT_SAME);
}

static enum next refused_for_good(struct start *s, const struct call *k)
{
    struct arena *a = s->act->arena;

    refuse(s->refusal, CODE_CHANNEL_REFUSED);
    s->refusal->channel_code = str_keep(a, k->answer.code);
    s->refusal->channel_message = str_keep(a, k->answer.message);
    s->refusal->channel_class = str_of(channel_class_name(k->answer.class));
    return NEXT_REFUSED;
}

/* Our account is broken: nobody is routed to it for a while, and another one gets the chance. */
static enum next account_broken(struct start *s, const struct call *k)
{
    registry_suspend(s->c->registry, k->account_name,
                     env_now_ms(s->c->env) + s->c->settings.account_suspend_ms);
    if (k->payment.superseded && !s->n->account.n) {
        if (buf_str(&s->tried).n)
            buf_add_char(&s->tried, ',');
        buf_add_str(&s->tried, k->account_name);
        if (buf_ok(&s->tried))
            return NEXT_AGAIN;
    }
    refuse_later(s->refusal, CODE_NO_ACCOUNT, 30);
    return NEXT_REFUSED;
}

static enum next after_refusal(struct start *s, struct call *k)
{
    switch (k->answer.class) {
    case CLASS_RETRY:
        refuse_later(s->refusal, CODE_CHANNEL_BUSY, 2);
        return NEXT_REFUSED;
    case CLASS_QUERY:
        return ask(s, k);
    case CLASS_FINAL:
    case CLASS_PERSON:
        return k->payment.status == PAYMENT_FAILED ? refused_for_good(s, k) : ask(s, k);
    case CLASS_ACCOUNT:
        return account_broken(s, k);
    case CLASS_NONE:
        break;
    }
    return done(s, &k->payment, PAYMENT_WAITING);
}

/* The lease is ours. Same bytes up to three times where nothing happened. */
static enum next call(struct start *s, struct call *k, enum payment_started how)
{
    for (int try = 1;; try++) {
        k->last_try = try == TRIES_MAX;
        if (call_prepay(k, s->refusal))
            return NEXT_REFUSED;
        if (k->answer.outcome != CHANNEL_REFUSED || k->answer.class != CLASS_RETRY ||
            k->payment.call_owner != k->lease || k->last_try)
            break;
        env_sleep_ms(s->c->env, (int64_t)TRY_PAUSE_MS * try);
    }
    switch (k->answer.outcome) {
    case CHANNEL_DONE:
        return done(s, &k->payment, how);
    case CHANNEL_UNKNOWN:
        return done(s, &k->payment, payment_is_open(&k->payment) ? PAYMENT_WAITING : PAYMENT_SAME);
    case CHANNEL_REFUSED:
        break;
    }
    return after_refusal(s, k);
}

static enum next start_new(struct start *s)
{
    struct payment p;
    struct call k;
    bool stored;

    if (start_store(s, &p, &stored))
        return NEXT_REFUSED;
    if (!stored)
        return NEXT_AGAIN;
    call_begin(&k, s->c, &p, s->act->arena, s->act->actor, s->act->trace_id, STORE_API);
    k.lease = p.no.id;
    enum next next = call(s, &k, PAYMENT_STARTED);
    call_end(&k);
    return next;
}

/* An attempt without (valid) credentials: the stored request once more. */
static enum next call_again(struct start *s)
{
    struct call k;
    bool taken = false;
    enum next next = NEXT_AGAIN;

    call_begin(&k, s->c, &s->chosen, s->act->arena, s->act->actor, s->act->trace_id, STORE_API);
    if (!k.account) {
        refuse_later(s->refusal, CODE_NO_ACCOUNT, 30);
        next = NEXT_REFUSED;
    } else if (call_lease(&k, LEASE_PREPAY, s->c->settings.call_lease_ms, &taken, s->refusal)) {
        next = NEXT_REFUSED;
    } else if (taken) {
        kill_point("prepay.leased");
        next = call(s, &k, PAYMENT_SAME);
    }
    call_end(&k);
    return next;
}

/* ---- switching ---- */

struct switch_rule {
    int64_t pay_id;
};

static enum err switch_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct switch_rule *r = arg;
    struct payment p;
    enum err e = payment_load(tx, r->pay_id, &p, info);

    return e ? e : payment_request_close(tx, &p, CLOSE_SWITCH, info);
}

static enum next close_old(struct start *s)
{
    struct switch_rule r = { .pay_id = s->chosen.no.id };
    struct err_info info = { 0 };
    bool open = true;

    if (centre_run(s->c, "payment.switch", STORE_API, s->order_no.slot, switch_rule, &r, 0,
                   s->refusal))
        return NEXT_REFUSED;
    kill_point("switch.requested");
    if (payment_close_step(s->c, s->chosen.no.id, s->act->actor, NULL, &open, &info) || open) {
        refuse_later(s->refusal, CODE_ATTEMPT_CLOSING, CLOSING_RETRY_S);
        return NEXT_REFUSED;
    }
    return NEXT_AGAIN;
}

/* ---- all together ---- */

static enum next act_on(struct start *s)
{
    switch (s->plan) {
    case PLAN_REFUSE:
        return NEXT_REFUSED;
    case PLAN_SETTLE:
        return order_settle_now(s->c, s->act->arena, s->order_no.id, s->order_no.slot, s->refusal)
                   ? NEXT_REFUSED
                   : NEXT_AGAIN;
    case PLAN_GIVE:
        return done(s, &s->chosen,
                    s->chosen.status == PAYMENT_INIT ? PAYMENT_WAITING : PAYMENT_SAME);
    case PLAN_CALL:
        return call_again(s);
    case PLAN_CLOSE:
        return close_old(s);
    case PLAN_NEW:
        return start_new(s);
    }
    return NEXT_REFUSED;
}

static enum next one_round(struct start *s)
{
    if (centre_read(s->c, "payment.look", s->order_no.slot, start_look, s, s->refusal))
        return NEXT_REFUSED;
    s->account = NULL;
    s->plan = start_decide(s, env_now_ms(s->c->env));
    enum next next = act_on(s);
    account_unref(s->account);
    return next;
}

enum code payment_start(struct centre *c, const struct act *act, const struct payment_new *n,
                        struct payment *ret, enum payment_started *ret_how, struct refusal *refusal)
{
    struct start s = { .c = c, .act = act, .n = n, .refusal = refusal };
    enum code code;

    buf_init_arena(&s.tried, act->arena, ACCOUNTS_MAX);
    if ((code = check(&s)) || (code = find_order(&s)))
        return code;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        switch (one_round(&s)) {
        case NEXT_DONE:
            *ret = s.payment;
            *ret_how = s.how;
            return CODE_OK;
        case NEXT_REFUSED:
            return refusal->code;
        case NEXT_AGAIN:
            break;
        }
    }
    return refuse_later(refusal, CODE_REQUEST_IN_FLIGHT, 1);
}
