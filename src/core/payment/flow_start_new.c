/* flow_start_new.c -- a new attempt: built with its request to the channel, stored before anybody
 * is called. What is stored is what is sent, on this try and on every other one. */
#include "core/payment/flow_start.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "core/payment/payment_sql.h"

#define START_IDS (ORDER_SETTLE_IDS + 2) /* two journal rows */

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
    return mutation_on(MUTATION_ATTEMPT_UNGUARDED) ? ERR_OK
                                                   : order_attempt_started(tx, o, r->s->act, info);
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
    if (e != ERR_NOT_FOUND ||
        (e = order_settle(tx, &r->s->c->settings, r->s->order_no.id, &o, info)))
        return e;
    if (!mutation_on(MUTATION_ATTEMPT_UNGUARDED) &&
        (r->refused = order_takes_new(r->s->c, &o, tx_now_ms(tx))))
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

enum code start_store(struct start *s, struct payment *ret, bool *ret_stored)
{
    struct store_attempt r = { .s = s };
    enum code code = build(s, &r.p);

    if (code)
        return code;
    kill_point("prepay.planned");
    code = centre_run(s->c, "payment.start", STORE_API, s->order_no.slot, store_rule_attempt, &r,
                      START_IDS, s->refusal);
    if (code)
        return code;
    kill_point("prepay.stored");
    if (r.refused)
        return refuse(s->refusal, r.refused);
    *ret = r.p;
    *ret_stored = !r.twin;
    return CODE_OK;
}
