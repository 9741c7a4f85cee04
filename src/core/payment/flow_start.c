/* flow_start.c -- starting to pay (rules.md section 3): look, decide, and do one of six things.
 *
 * A round reads a snapshot of the order and its attempts and decides what to do; whoever changed
 * something in between is noticed by the rule that writes (compare-and-set, unique keys), and the
 * next round looks again. The request to the channel is built before the rule that stores it, and
 * what is stored is what is sent, on this try and on every other one. */
#include "core/payment/flow.h"

#include "base/buf.h"
#include "base/killpoint.h"
#include "base/log.h"
#include "core/order/order_new.h"
#include "core/payment/flow_call.h"
#include "core/payment/payment_sql.h"

#define ROUNDS_MAX                                                                                 \
    8 /* settle, switch, close, failover …: more means that somebody works against us */
#define TRIES_MAX       3
#define TRY_PAUSE_MS    200
#define PAYER_MAX       128
#define ACCOUNTS_MAX    1024 /* bytes of the list of accounts that refused */
#define CLOSING_RETRY_S 5
#define START_IDS       (ORDER_SETTLE_IDS + 2) /* two journal rows */

enum plan { PLAN_REFUSE, PLAN_SETTLE, PLAN_GIVE, PLAN_CALL, PLAN_CLOSE, PLAN_NEW };

/* One payment_start on its way. */
struct start {
    struct centre *c;
    const struct act *act;
    const struct payment_new *n;
    struct refusal *refusal;
    enum pay_method method;
    struct number order_no;
    struct buf tried; /* comma-separated: accounts that turned out broken */

    /* the snapshot */
    bool found, unsettled, quarantined;
    struct order order;
    struct payment *open; /* INIT and PAYING, not superseded */
    size_t open_n;
    bool same_request;
    struct payment requested; /* the attempt of this request_id */

    /* the decision */
    enum plan plan;
    struct payment chosen;   /* GIVE, CALL, CLOSE */
    struct account *account; /* NEW: referenced */

    /* the result */
    struct payment payment;
    enum payment_started how;
};

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

static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
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

static enum plan refuse_plan(struct start *s, enum code code)
{
    refuse(s->refusal, code);
    return PLAN_REFUSE;
}

static enum plan refuse_later(struct start *s, enum code code, int retry_after_s)
{
    refuse(s->refusal, code);
    s->refusal->retry_after_s = retry_after_s;
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

static enum code order_takes_new(const struct centre *c, const struct order *o, int64_t now_ms)
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
        return refuse_later(s, CODE_REQUEST_IN_FLIGHT, 1);
    return PLAN_CALL;
}

static enum plan plan_request(struct start *s, int64_t now_ms)
{
    const char *field = request_difference(s, &s->requested);

    if (field) {
        refuse_field(s->refusal, CODE_REQUEST_MISMATCH, field, STR_NONE);
        return PLAN_REFUSE;
    }
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
        return refuse_plan(s, code);
    s->account = route(s, now_ms);
    if (!s->account)
        return refuse_later(s, CODE_NO_ACCOUNT, 30);
    if (!str_eq(str_of(s->account->info->currency), money_currency(&s->order.pay_amount))) {
        refuse_field(s->refusal, CODE_CURRENCY_UNSUPPORTED, "currency", STR_NONE);
        return PLAN_REFUSE;
    }
    for (size_t i = 0; i < s->open_n; i++)
        if (s->open[i].channel == s->account->info->id) {
            s->chosen = s->open[i];
            return PLAN_CLOSE;
        }
    return PLAN_NEW;
}

static enum plan decide(struct start *s, int64_t now_ms)
{
    if (!s->found)
        return refuse_plan(s, CODE_ORDER_NOT_FOUND);
    if (s->unsettled)
        return PLAN_SETTLE;
    if (s->same_request)
        return plan_request(s, now_ms);
    enum code code = order_takes_attempts(&s->order, now_ms);
    if (code)
        return refuse_plan(s, code);
    if (s->quarantined) {
        refuse_field(s->refusal, CODE_ORDER_NOT_PAYABLE, NULL,
                     STR("money of this order is being examined"));
        return PLAN_REFUSE;
    }
    for (size_t i = 0; i < s->open_n; i++)
        if (!request_difference(s, &s->open[i]) && usable(&s->open[i], now_ms))
            return plan_same(s, &s->open[i], now_ms);
    return plan_new(s, now_ms);
}

/* ---- a new attempt ---- */

struct store_attempt {
    struct start *s;
    struct payment p;
    enum code refused; /* the order does not take it any more */
    bool twin;         /* somebody else's attempt has the place or the request id */
    struct order order;
};

/* Attempts on other channels may stay open together, but nobody should pay two of them. */
static enum err close_other_channels(struct tx *tx, const struct payment_brief *briefs, size_t n,
                                     const struct payment *mine, struct err_info *info)
{
    for (size_t i = 0; i < n; i++) {
        struct payment p;
        enum err e;
        if (briefs[i].status > PAYMENT_PAYING || briefs[i].channel == mine->channel ||
            briefs[i].close_requested != CLOSE_NO)
            continue;
        if ((e = payment_load(tx, briefs[i].id, &p, info)) ||
            (e = payment_request_close(tx, &p, CLOSE_SWITCH, info)))
            return e;
    }
    return ERR_OK;
}

static enum err insert_attempt(struct tx *tx, struct store_attempt *r, struct order *o,
                               struct err_info *info)
{
    struct payment *p = &r->p;
    struct evidence evidence = { .actor = r->s->act->actor };
    struct journal_row row;
    struct journal_head none = { 0 };
    enum err e;

    p->create_ms = p->update_ms = tx_now_ms(tx);
    p->call_owner = p->no.id;
    p->call_until_ms = tx_now_ms(tx) + r->s->c->settings.call_lease_ms;
    p->next_query_ms = payment_next_query(tx_now_ms(tx), 0, p->expire_ms);
    if ((e = journal_next(tx, p->no, &none, -1, PAYMENT_INIT, CAUSE_CREATED, &evidence,
                          r->s->act->trace_id, p->route, &row, &p->journal, info)))
        return e;
    e = payment_sql_insert(tx, p, info);
    r->twin = e == ERR_EXISTS;
    if (e)
        return r->twin ? ERR_OK : e;
    if ((e = due_insert(tx, &payment_due, p->next_query_ms, p->no.id, info)) ||
        (e = journal_insert(tx, &row, info)))
        return e;
    return order_attempt_started(tx, o, r->s->act, info);
}

/* Transaction 1. Its own number found means that it ran before (a lost COMMIT answer): nothing is
 * left to do. */
static enum err store_rule_attempt(struct tx *tx, void *arg, struct err_info *info)
{
    struct store_attempt *r = arg;
    struct payment_brief *briefs;
    struct order o;
    struct payment own;
    size_t n;

    r->refused = CODE_OK;
    r->twin = false;
    enum err e = payment_load(tx, r->p.no.id, &own, info);
    if (!e) {
        r->p.call_owner = own.call_owner;
        return ERR_OK;
    }
    if (e != ERR_NOT_FOUND || (e = order_settle(tx, r->s->order_no.id, &o, info)))
        return e;
    if ((r->refused = order_takes_new(r->s->c, &o, tx_now_ms(tx))))
        return ERR_OK;
    if ((e = payments_brief(tx, r->s->order_no.id, &briefs, &n, info)))
        return e;
    for (size_t i = 0; i < n; i++)
        if (briefs[i].quarantined && briefs[i].status != PAYMENT_SUCCESS)
            r->refused = CODE_ORDER_NOT_PAYABLE;
    if (r->refused || (e = insert_attempt(tx, r, &o, info)) || r->twin)
        return e;
    return close_other_channels(tx, briefs, n, &r->p, info);
}

/* What the caller asked for, so that the same request id with other contents is noticed; the fields
 * themselves tell which. */
static struct sha256 digest(const struct start *s)
{
    struct str channel = str_printf(s->act->arena, "%d\x1f", (int)s->n->channel),
               method = str_printf(s->act->arena, "%d\x1f", (int)s->method);
    struct str parts[] = { channel, method, s->n->account, STR("\x1f"), s->n->payer };

    return sha256_of(parts, sizeof parts / sizeof parts[0]);
}

static int64_t whole_second(int64_t ms)
{
    return ms - ms % 1000; /* the channel is told seconds; what we store is what it was told */
}

/* The attempt with the request exactly as it will be sent. */
static enum code build(struct start *s, struct payment *p)
{
    struct arena *a = s->act->arena;
    int64_t now = env_now_ms(s->c->env), expire = now + s->c->settings.payment_expire_ms;
    struct err_info info = { 0 };

    if (s->order.expire_ms && s->order.expire_ms < expire)
        expire = s->order.expire_ms;
    *p = (struct payment) {
        .no = number_make(NUMBER_PAYMENT, s->order_no.slot, mint_ids(s->c->mint, 1)),
        .order_no = s->order_no,
        .caller = s->act->caller.id,
        .account = str_keep(a, s->account->config.name),
        .environment = (enum environment)s->account->config.environment,
        .channel = s->account->info->id,
        .method = s->method,
        .user_id = s->order.user_id,
        .payer = s->n->payer.n ? s->n->payer : STR_NONE,
        .client_ip = s->n->client_ip.n ? s->n->client_ip : STR_NONE,
        .amount = s->order.pay_amount,
        .status = PAYMENT_INIT,
        .digest = digest(s),
        .expire_ms = whole_second(expire),
        .trace_id = s->act->trace_id,
        .route = s->n->account.n ? STR("asked for")
                 : buf_str(&s->tried).n
                     ? str_printf(a, "after " STR_FMT, STR_ARG(buf_str(&s->tried)))
                     : STR("first that fits"),
        .version = 1,
    };
    p->request_id = s->n->request_id.n ? s->n->request_id : number_str(a, p->no);

    struct prepay prepay = {
        .method = s->method,
        .pay_no = number_str(a, p->no),
        .amount = p->amount,
        .description = s->order.subject,
        .payer = s->n->payer,
        .client_ip = s->n->client_ip,
        .return_url = s->n->return_url,
        .expire_ms = p->expire_ms,
    };
    enum err e = s->account->info->driver->prepay_build(s->account, &prepay, a, &p->request, &info);
    if (!e)
        return CODE_OK;
    if (e == ERR_INVALID)
        return refuse_field(s->refusal, CODE_BAD_FIELD, str_cstr(a, str_of(info.field)),
                            str_dup(a, str_of(info.text)));
    LOG(s->c->env->log, LOG_ERROR, "prepay.not_built", log_str("account", p->account),
        log_cstr("text", info.text));
    return refuse(s->refusal, CODE_INTERNAL);
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
    refuse_later(s, CODE_NO_ACCOUNT, 30);
    return NEXT_REFUSED;
}

static enum next after_refusal(struct start *s, struct call *k)
{
    switch (k->answer.class) {
    case CLASS_RETRY:
        refuse_later(s, CODE_CHANNEL_BUSY, 2);
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
    struct store_attempt r = { .s = s };
    struct call k;

    if (build(s, &r.p))
        return NEXT_REFUSED;
    kill_point("prepay.planned");
    if (centre_run(s->c, "payment.start", STORE_API, s->order_no.slot, store_rule_attempt, &r,
                   START_IDS, s->refusal))
        return NEXT_REFUSED;
    kill_point("prepay.stored");
    if (r.twin)
        return NEXT_AGAIN;
    if (r.refused) {
        refuse(s->refusal, r.refused);
        return NEXT_REFUSED;
    }
    call_begin(&k, s->c, &r.p, s->act->arena, s->act->actor, s->act->trace_id, STORE_API);
    k.lease = r.p.no.id;
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
        refuse_later(s, CODE_NO_ACCOUNT, 30);
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
        refuse_later(s, CODE_ATTEMPT_CLOSING, CLOSING_RETRY_S);
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
    if (centre_read(s->c, "payment.look", s->order_no.slot, look_rule, s, s->refusal))
        return NEXT_REFUSED;
    s->account = NULL;
    s->plan = decide(s, env_now_ms(s->c->env));
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
    refuse_later(&s, CODE_REQUEST_IN_FLIGHT, 1);
    return refusal->code;
}
