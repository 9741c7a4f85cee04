/* flow_call.c -- calls to the channel, and what their answers do (rules.md section 6).
 *
 * The rule that takes an answer in begins with the row of the call, whose id is the transaction's
 * own: found there, the work is done already. Then the facts, then what the class of a refusal asks
 * for, all in one transaction. "Does not exist" closes only when it was asked after time_expire
 * plus the channel's margin and nobody holds the call lease. */
#include "core/payment/flow_call.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "core/incident/incident.h"
#include "core/payment/payment_sql.h"

#include <stdio.h>

#define CALL_IDS                                                                                   \
    (1 + CHANNEL_FACTS_MAX * PAYMENT_APPLY_IDS + 4) /* the call, its facts, two incidents */
#define LABEL_MAX 160

/* ---- small things ---- */

bool payment_lease_live(const struct payment *p, int64_t now_ms)
{
    return p->call_owner != 0 && p->call_until_ms > now_ms && !mutation_on(MUTATION_LEASE_IGNORED);
}

bool payment_is_open(const struct payment *p)
{
    return p->status == PAYMENT_INIT || p->status == PAYMENT_PAYING;
}

bool payment_close_waits(const struct payment *p)
{
    if (p->quarantined || p->status == PAYMENT_SUCCESS)
        return false;
    return payment_is_open(p) ? p->close_requested != CLOSE_NO
                              : p->close_requested == CLOSE_TERMINAL;
}

bool payment_needs_account(const struct payment *p)
{
    return payment_is_open(p) || payment_close_waits(p) ||
           (p->quarantined && p->status != PAYMENT_SUCCESS);
}

struct payment payment_copy(struct arena *a, const struct payment *p)
{
    struct payment c = *p;

    c.account = str_keep(a, p->account);
    c.user_id = str_keep(a, p->user_id);
    c.payer = str_keep(a, p->payer);
    c.client_ip = str_keep(a, p->client_ip);
    c.transaction_id = str_keep(a, p->transaction_id);
    c.credentials = str_keep(a, p->credentials);
    c.request.endpoint = str_keep(a, p->request.endpoint);
    c.request.body = str_keep(a, p->request.body);
    c.request_id = str_keep(a, p->request_id);
    c.trace_id = str_keep(a, p->trace_id);
    c.route = str_keep(a, p->route);
    return c;
}

int64_t payment_next_query(int64_t now_ms, int64_t count, int64_t expire_ms)
{
    static const int64_t rungs_s[] = { 30, 60, 120, 240, 480, 960 };
    const int64_t n = sizeof rungs_s / sizeof rungs_s[0];
    int64_t next = now_ms + (count < n ? rungs_s[count] : 3600) * 1000;
    int64_t before = expire_ms - 15 * 1000;

    if (now_ms < before && before < next)
        return before;
    if (now_ms < expire_ms && expire_ms < next)
        return expire_ms;
    return next;
}

int64_t payment_next_close(int64_t now_ms, int64_t expire_ms, int64_t stuck_ms)
{
    return now_ms + (now_ms < expire_ms + stuck_ms ? 60 : 3600) * 1000;
}

/* ---- what is told to people ---- */

static void count_final(struct centre *c, const struct payment *p)
{
    const struct channel_info *channel = channel_by_id(p->channel);
    const struct method_info *method = channel ? channel_method(channel, p->method) : NULL;
    char labels[LABEL_MAX];

    snprintf(labels, sizeof labels, "%s,%s,%s", channel ? channel->name : "",
             method ? method->name : "", payment_status_name(p->status));
    metric_add(metrics_get(c->env->metrics, "fenpay_payments_total", labels), 1);
}

void payment_log(struct centre *c, const struct payment *p, enum payment_status from,
                 enum journal_cause cause, struct str trace_id)
{
    struct number_text no = number_text(p->no), order_no = number_text(p->order_no);

    if (p->status == from)
        return;
    LOG(c->env->log, LOG_INFO, "payment.moved", log_cstr("pay_no", no.s),
        log_cstr("order_no", order_no.s), log_cstr("from", payment_status_name(from)),
        log_cstr("to", payment_status_name(p->status)),
        log_cstr("cause", journal_cause_name(cause)), log_str("account", p->account),
        log_int("amount", money_fen(p->amount)), log_str("trace_id", trace_id));
    if (!payment_is_open(p))
        count_final(c, p);
}

static void tell(struct call *k, enum call_kind kind)
{
    call_tell(k->c->env, kind, k->payment.no, k->payment.account, &k->answer, k->trace_id);
    if (k->answer.unknown_key && k->c->want_keys)
        k->c->want_keys(k->c->want_keys_ctx, k->account);
}

/* ---- the parts of the rules ---- */

static enum err apply(struct tx *tx, struct call *k, enum fact_kind fact,
                      const struct evidence *evidence, enum journal_cause cause,
                      struct err_info *info)
{
    return payment_apply(tx, k->no.id, fact, evidence, cause, k->trace_id, &k->move, &k->payment,
                         info);
}

/* Facts about this payment's money. What the channel says of refunds is the refund module's; of
 * another number, nobody's. */
static enum err apply_facts(struct tx *tx, struct call *k, int64_t call_id,
                            enum journal_cause cause, struct err_info *info)
{
    struct number_text no = number_text(k->payment.no);

    for (size_t i = 0; i < k->answer.fact_count; i++) {
        const struct fact *f = &k->answer.facts[i];
        if (f->kind >= FACT_REFUND_ACCEPTED || (f->pay_no.n && !str_eq(f->pay_no, str_of(no.s))))
            continue;
        struct evidence evidence = {
            .kind = EVIDENCE_QUERY,
            .ref = call_id,
            .fact = f,
            .equal = f->kind == FACT_PAID && f->ours &&
                     k->account->info->driver->paid_equal(k->account, f, k->payment.amount),
            .actor = k->actor,
        };
        enum err e = apply(tx, k, f->kind, &evidence, cause, info);
        if (e)
            return e;
    }
    return ERR_OK;
}

/* May "does not exist" be believed? Not while a prepay may still be on its way, nor before the
 * channel stops taking it. */
static bool not_exist_is_final(const struct call *k, int64_t now_ms)
{
    const struct payment *p = &k->payment;
    bool lease_of_another = payment_lease_live(p, now_ms) && p->call_owner != k->lease;

    return k->answer.not_exist && !lease_of_another &&
           (k->asked_ms > p->expire_ms + k->account->info->expire_margin_ms ||
            mutation_on(MUTATION_NOT_EXIST_AT_ONCE));
}

static enum err person_needed(struct tx *tx, struct call *k, enum call_kind kind,
                              struct err_info *info)
{
    struct incident incident = {
        .kind = INCIDENT_RISK_HELD,
        .subject = k->payment.no,
        .discriminator = str_of(call_kind_name(kind)),
        .caller = k->payment.caller,
        .policy = POLICY_HOLD,
        .amount = k->payment.amount,
        .detail =
            str_printf(tx_arena(tx), "%s refused, a person has to look: " STR_FMT " " STR_FMT,
                       call_kind_name(kind), STR_ARG(k->answer.code), STR_ARG(k->answer.message)),
        .trace_id = k->trace_id,
    };
    return incident_open(tx, &incident, NULL, info);
}

/* Long past expiry and still nobody could say what became of it. */
static enum err stuck(struct tx *tx, struct call *k, struct err_info *info)
{
    struct payment *p = &k->payment;

    if (!payment_is_open(p) || p->quarantined ||
        tx_now_ms(tx) <= p->expire_ms + k->c->settings.query_stuck_ms)
        return ERR_OK;
    struct incident incident = {
        .kind = INCIDENT_QUERY_STUCK,
        .subject = p->no,
        .caller = p->caller,
        .policy = POLICY_HOLD,
        .amount = p->amount,
        .detail = str_printf(
            tx_arena(tx), "still %s long after it expired; the last query: %s " STR_FMT " " STR_FMT,
            payment_status_name(p->status), channel_outcome_name(k->answer.outcome),
            STR_ARG(k->answer.code), STR_ARG(k->answer.message)),
        .trace_id = k->trace_id,
    };
    return incident_open(tx, &incident, NULL, info);
}

/* A close asked for on an ended attempt is done with once the channel says that nobody can pay it.
 */
static enum err terminal_close_done(struct tx *tx, struct call *k, struct err_info *info)
{
    struct payment *p = &k->payment;

    if ((p->status != PAYMENT_FAILED && p->status != PAYMENT_CLOSED) ||
        p->close_requested != CLOSE_TERMINAL)
        return ERR_OK;
    return payment_sql_close_requested(tx, p, CLOSE_NO, info);
}

/* The row of the call and the payment as it is. *ret_mine: a second run, all is done. */
static enum err take_call(struct tx *tx, struct call *k, enum call_kind kind, int64_t *ret_call_id,
                          bool *ret_mine, struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    enum err e = call_insert(tx, id, kind, k->no, k->account_name, &k->answer, k->trace_id, info);

    *ret_mine = e == ERR_EXISTS;
    if (e && e != ERR_EXISTS)
        return e;
    *ret_call_id = id;
    struct payment before = k->payment;
    if ((e = payment_load(tx, k->no.id, &k->payment, info)))
        return e;
    if (mutation_on(MUTATION_STALE_ROW)) { /* the planted bug: nothing is compared, only set */
        before.version = k->payment.version;
        before.journal = k->payment.journal;
        k->payment = before;
    }
    if (!*ret_mine) {
        k->from = k->payment.status;
        k->move = PAYMENT_ALREADY;
    }
    return ERR_OK;
}

/* ---- prepay ---- */

static enum err take_prepay_refusal(struct tx *tx, struct call *k, int64_t call_id,
                                    struct err_info *info)
{
    struct payment *p = &k->payment;
    struct evidence evidence = { .kind = EVIDENCE_REFUSAL, .ref = call_id, .actor = k->actor };

    switch (k->answer.class) {
    case CLASS_FINAL:
    case CLASS_PERSON:
        return apply(tx, k, FACT_REFUSED, &evidence, CAUSE_PREPAY, info);
    case CLASS_ACCOUNT:
        if (p->status != PAYMENT_INIT || p->credentials.n || p->superseded)
            return ERR_OK; /* its credentials are out: it keeps its place */
        return payment_sql_supersede(tx, p, info);
    case CLASS_RETRY:
    case CLASS_QUERY:
    case CLASS_NONE:
        break;
    }
    return ERR_OK;
}

static enum err take_prepay_done(struct tx *tx, struct call *k, int64_t call_id,
                                 struct err_info *info)
{
    struct evidence evidence = { .kind = EVIDENCE_ANSWER, .ref = call_id, .actor = k->actor };
    enum err e = ERR_OK;

    if (payment_is_open(&k->payment) && k->answer.credentials.n)
        e = payment_sql_credentials(tx, &k->payment, k->answer.credentials,
                                    k->answer.credential_expire_ms, info);
    return e ? e : apply(tx, k, FACT_ACCEPTED, &evidence, CAUSE_PREPAY, info);
}

/* Nothing happened and there are tries left: the lease goes on, if it is still ours. */
static enum err keep_or_release(struct tx *tx, struct call *k, struct err_info *info)
{
    bool again =
        k->answer.outcome == CHANNEL_REFUSED && k->answer.class == CLASS_RETRY && !k->last_try;

    if (again && k->payment.call_owner == k->lease)
        return payment_sql_lease_take(tx, &k->payment, k->lease,
                                      tx_now_ms(tx) + k->c->settings.call_lease_ms, 0, info);
    return payment_sql_lease_release(tx, &k->payment, k->lease, info);
}

static enum err take_prepay(struct tx *tx, void *arg, struct err_info *info)
{
    struct call *k = arg;
    int64_t call_id;
    bool mine;
    enum err e = take_call(tx, k, CALL_PREPAY, &call_id, &mine, info);

    bool unknown = k->answer.outcome == CHANNEL_UNKNOWN && !mutation_on(MUTATION_UNKNOWN_FORGOTTEN);
    if (!e && !mine)
        e = payment_sql_called(tx, &k->payment, unknown, info);
    if (!e && !mine)
        e = keep_or_release(tx, k, info);
    if (!e && !mine)
        e = k->answer.outcome == CHANNEL_DONE      ? take_prepay_done(tx, k, call_id, info)
            : k->answer.outcome == CHANNEL_REFUSED ? take_prepay_refusal(tx, k, call_id, info)
                                                   : ERR_OK;
    if (!e)
        k->payment = payment_copy(k->arena, &k->payment);
    return e;
}

/* ---- query ---- */

static enum err take_query(struct tx *tx, void *arg, struct err_info *info)
{
    struct call *k = arg;
    int64_t call_id;
    bool mine;
    enum err e = take_call(tx, k, CALL_QUERY, &call_id, &mine, info);

    if (e || mine)
        goto out;
    if (k->answer.outcome == CHANNEL_DONE) {
        bool shut = false;
        for (size_t i = 0; i < k->answer.fact_count; i++)
            shut = shut || k->answer.facts[i].kind == FACT_SHUT;
        e = apply_facts(tx, k, call_id, CAUSE_QUERY, info);
        if (!e && shut)
            e = terminal_close_done(tx, k, info);
    } else if (k->answer.outcome == CHANNEL_REFUSED && k->account &&
               not_exist_is_final(k, tx_now_ms(tx))) {
        struct evidence evidence = { .kind = EVIDENCE_NOT_EXIST,
                                     .ref = call_id,
                                     .actor = k->actor };
        e = apply(tx, k, FACT_SHUT, &evidence, CAUSE_QUERY, info);
        if (!e)
            e = terminal_close_done(tx, k, info);
    } else if (k->answer.outcome == CHANNEL_REFUSED && k->answer.class == CLASS_PERSON) {
        e = person_needed(tx, k, CALL_QUERY, info);
    }
    if (!e)
        e = stuck(tx, k, info);
out:
    if (!e)
        k->payment = payment_copy(k->arena, &k->payment);
    return e;
}

/* ---- close ---- */

static enum err take_close(struct tx *tx, void *arg, struct err_info *info)
{
    struct call *k = arg;
    int64_t call_id;
    bool mine;
    enum err e = take_call(tx, k, CALL_CLOSE, &call_id, &mine, info);

    bool shut = k->answer.outcome == CHANNEL_DONE ||
                (k->answer.outcome == CHANNEL_UNKNOWN && mutation_on(MUTATION_CLOSE_UNHEARD)) ||
                (k->answer.outcome == CHANNEL_REFUSED && mutation_on(MUTATION_CLOSE_UNASKED));
    if (!e && !mine && shut) {
        struct evidence evidence = { .kind = EVIDENCE_ANSWER, .ref = call_id, .actor = k->actor };
        e = apply(tx, k, FACT_SHUT, &evidence, CAUSE_CLOSE, info);
        if (!e)
            e = terminal_close_done(tx, k, info);
    } else if (!e && !mine && k->answer.outcome == CHANNEL_REFUSED &&
               k->answer.class == CLASS_PERSON) {
        e = person_needed(tx, k, CALL_CLOSE, info);
    }
    if (!e)
        k->payment = payment_copy(k->arena, &k->payment);
    return e;
}

static enum err expire_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct call *k = arg;
    struct evidence evidence = { .kind = EVIDENCE_EXPIRY, .actor = k->actor };
    enum err e = payment_load(tx, k->no.id, &k->payment, info);

    if (e)
        return e;
    k->from = k->payment.status;
    if (payment_close_waits(&k->payment) && k->payment.expire_ms <= tx_now_ms(tx)) {
        e = apply(tx, k, FACT_SHUT, &evidence, CAUSE_EXPIRY, info);
        if (!e)
            e = terminal_close_done(tx, k, info);
    }
    if (!e)
        k->payment = payment_copy(k->arena, &k->payment);
    return e;
}

enum code call_expire(struct call *k, struct refusal *refusal)
{
    enum code code = centre_run(k->c, "payment.expire", k->class, k->no.slot, expire_rule, k,
                                PAYMENT_APPLY_IDS, refusal);

    if (!code)
        payment_log(k->c, &k->payment, k->from, CAUSE_EXPIRY, k->trace_id);
    return code;
}

/* ---- the lease ---- */

struct lease_rule {
    struct call *k;
    enum lease_for what;
    int64_t for_ms;
    bool taken;
};

static bool lease_wanted(const struct payment *p, enum lease_for what)
{
    switch (what) {
    case LEASE_PREPAY:
        return payment_is_open(p) && p->close_requested == CLOSE_NO && !p->quarantined &&
               !p->superseded;
    case LEASE_CLOSE:
        return payment_close_waits(p);
    }
    return false;
}

/* The lease's number is the transaction's own id: a second run recognises it. A lease that ran out
 * was never given back, so nobody heard what became of its call: that counts as one unknown. */
static enum err lease_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct lease_rule *r = arg;
    struct call *k = r->k;
    struct payment p;
    int64_t lease = tx_new_id(tx), now = tx_now_ms(tx);
    enum err e = payment_load(tx, k->no.id, &p, info);

    if (e)
        return e;
    r->taken = p.call_owner == lease;
    if (!r->taken && lease_wanted(&p, r->what) && !payment_lease_live(&p, now)) {
        bool lost = p.call_owner != 0 && !mutation_on(MUTATION_LEASE_IGNORED);
        if ((e = payment_sql_lease_take(tx, &p, lease, now + r->for_ms, lost, info)))
            return e;
        r->taken = true;
    }
    if (r->taken) {
        k->lease = lease;
        if (r->what == LEASE_PREPAY && (e = payment_sql_load_request(tx, &p, info)))
            return e;
    }
    k->payment = payment_copy(k->arena, &p);
    return ERR_OK;
}

enum code call_lease(struct call *k, enum lease_for what, int64_t for_ms, bool *ret_taken,
                     struct refusal *refusal)
{
    struct lease_rule r = { .k = k, .what = what, .for_ms = for_ms };
    enum code code =
        centre_run(k->c, "payment.lease", k->class, k->no.slot, lease_rule, &r, 1, refusal);

    if (!code)
        *ret_taken = r.taken;
    return code;
}

static enum err release_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct call *k = arg;
    enum err e = payment_load(tx, k->no.id, &k->payment, info);

    if (!e)
        e = payment_sql_lease_release(tx, &k->payment, k->lease, info);
    if (!e)
        k->payment = payment_copy(k->arena, &k->payment);
    return e;
}

enum code call_release(struct call *k, struct refusal *refusal)
{
    enum code code =
        centre_run(k->c, "payment.release", k->class, k->no.slot, release_rule, k, 0, refusal);

    if (!code)
        k->lease = 0;
    return code;
}

/* ---- calling ---- */

void call_begin(struct call *k, struct centre *c, const struct payment *p, struct arena *a,
                struct str actor, struct str trace_id, enum store_class class)
{
    *k = (struct call) {
        .c = c,
        .arena = a,
        .actor = actor,
        .trace_id = trace_id,
        .class = class,
        .account = registry_ref(c->registry, p->account),
        .ctx = { .env = c->env, .transport = c->transport, .arena = a, .trace_id = trace_id },
        .no = p->no,
        .account_name = str_keep(a, p->account),
        .payment = payment_copy(a, p),
        .from = p->status,
    };
}

void call_end(struct call *k)
{
    account_unref(k->account);
    k->account = NULL;
}

/* False: the account is gone, and the answer says so, as a broken account. */
static bool ready(struct call *k)
{
    k->asked_ms = env_now_ms(k->c->env);
    k->answer = (struct channel_answer) { 0 };
    if (k->account)
        return true;
    k->answer.outcome = CHANNEL_REFUSED;
    k->answer.class = CLASS_ACCOUNT;
    k->answer.code = STR("NO_ACCOUNT");
    k->answer.message = STR("the account is not configured any more");
    return false;
}

static enum code take(struct call *k, enum call_kind kind, const char *name, store_rule *rule,
                      enum journal_cause cause, struct refusal *refusal)
{
    call_normalise(k->c->env, kind, k->payment.account, &k->answer);
    enum code code = centre_run(k->c, name, k->class, k->no.slot, rule, k, CALL_IDS, refusal);
    if (code)
        return code;
    tell(k, kind);
    payment_log(k->c, &k->payment, k->from, cause, k->trace_id);
    return CODE_OK;
}

enum code call_prepay(struct call *k, struct refusal *refusal)
{
    struct channel_request request = k->payment.request;

    if (ready(k))
        k->account->info->driver->prepay(k->account, &k->ctx, k->payment.method, &request,
                                         &k->answer);
    kill_point("prepay.answered");
    enum code code = take(k, CALL_PREPAY, "payment.prepay", take_prepay, CAUSE_PREPAY, refusal);
    kill_point("prepay.taken");
    k->payment.request = request;
    return code;
}

enum code call_query(struct call *k, struct refusal *refusal)
{
    if (ready(k))
        k->account->info->driver->query(k->account, &k->ctx, number_str(k->arena, k->payment.no),
                                        &k->answer);
    kill_point("query.answered");
    enum code code = take(k, CALL_QUERY, "payment.query", take_query, CAUSE_QUERY, refusal);
    kill_point("query.taken");
    return code;
}

enum code call_close(struct call *k, struct refusal *refusal)
{
    if (ready(k))
        k->account->info->driver->close(k->account, &k->ctx, number_str(k->arena, k->payment.no),
                                        &k->answer);
    kill_point("close.answered");
    enum code code = take(k, CALL_CLOSE, "payment.close", take_close, CAUSE_CLOSE, refusal);
    kill_point("close.taken");
    return code;
}
