/* resolve.c -- the table of what an operator may do about an incident, and the one rule that does
 * it.
 *
 * The rule looks first (is it open, does the action fit, is a second person needed and there), then
 * does the cell's effect, then writes the audit row and moves the incident by compare-and-set: all
 * or nothing. A rule that runs twice finds its own audit id on the row and stops. */
#include "core/resolve/resolve.h"

#include "base/buf.h"
#include "base/log.h"
#include "core/audit/audit.h"
#include "core/callback/callback.h"
#include "core/order/order.h"
#include "core/payment/flow_call.h"
#include "core/resolve/resolve_inner.h"

#define RESOLVE_IDS 16

/* ---- the table ----
 *
 * MONEY moves money, or gives some up: above the amount of the settings two persons. */
struct cell {
    resolve_effect *effect;
    bool money;
};

/* clang-format off */
#define MONEY(effect) { effect, true }
#define PLAIN(effect) { effect, false }
static const struct cell table[INCIDENT_KINDS_END][INCIDENT_ACTIONS_END] = {
    [INCIDENT_PAID_AFTER_CLOSE]  = { [ACTION_REFUND]            = MONEY(resolve_refund),
                                     [ACTION_REVIVE]            = MONEY(resolve_revive),
                                     [ACTION_IGNORE]            = MONEY(resolve_let_be) },
    [INCIDENT_PAID_TWICE]        = { [ACTION_REFUND]            = MONEY(resolve_refund),
                                     [ACTION_IGNORE]            = MONEY(resolve_let_be) },
    [INCIDENT_AMOUNT_MISMATCH]   = { [ACTION_ACCEPT]            = MONEY(resolve_accept),
                                     [ACTION_ACCEPT_AND_REFUND] = MONEY(resolve_accept_and_refund),
                                     [ACTION_REFUND]            = MONEY(resolve_refund),
                                     [ACTION_RETRY]             = PLAIN(resolve_retry_held),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_ACCOUNT_MISMATCH]  = { [ACTION_ACCEPT]            = MONEY(resolve_accept),
                                     [ACTION_ACCEPT_AND_REFUND] = MONEY(resolve_accept_and_refund),
                                     [ACTION_REFUND]            = MONEY(resolve_refund),
                                     [ACTION_RETRY]             = PLAIN(resolve_retry_held),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_TRANSACTION_CLASH] = { [ACTION_RETRY]             = PLAIN(resolve_retry_held),
                                     [ACTION_IGNORE]            = MONEY(resolve_let_be) },
    [INCIDENT_STATUS_CONFLICT]   = { [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_ORPHAN_PAYMENT]    = { [ACTION_ADOPT]             = MONEY(resolve_adopt),
                                     [ACTION_RETRY]             = PLAIN(resolve_retry_callback),
                                     [ACTION_IGNORE]            = MONEY(resolve_let_be) },
    [INCIDENT_QUERY_STUCK]       = { [ACTION_RETRY]             = PLAIN(resolve_retry_payment),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_CALLBACK_STUCK]    = { [ACTION_RETRY]             = PLAIN(resolve_retry_callback),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_DELIVERY_DEAD]     = { [ACTION_RETRY]             = PLAIN(resolve_retry_delivery),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_REFUND_HELD]       = { [ACTION_RETRY]             = PLAIN(resolve_retry_refund),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_REFUND_ABNORMAL]   = { [ACTION_SETTLED_OFFLINE]   = MONEY(resolve_settled_offline),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_OVER_REFUNDED]     = { [ACTION_IGNORE]            = MONEY(resolve_let_be) },
    [INCIDENT_RISK_HELD]         = { [ACTION_RETRY]             = PLAIN(resolve_retry_payment),
                                     [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_KEY_EXPIRING]      = { [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
    [INCIDENT_LEDGER_IMBALANCE]  = { [ACTION_IGNORE]            = PLAIN(resolve_let_be) },
};
#undef MONEY
#undef PLAIN
/* clang-format on */

bool resolve_fits(enum incident_kind kind, enum incident_action action)
{
    return (unsigned)kind < INCIDENT_KINDS_END && (unsigned)action < INCIDENT_ACTIONS_END &&
           table[kind][action].effect;
}

void resolve_table_print(struct buf *out)
{
    buf_add_str(out, STR("| kind |"));
    for (int a = ACTION_ACCEPT; a <= ACTION_IGNORE; a++)
        buf_printf(out, " %s |", incident_action_name((enum incident_action)a));
    buf_add_str(out, STR("\n|---|---|---|---|---|---|---|---|---|\n"));
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k < INCIDENT_KINDS_END; k++) {
        buf_printf(out, "| %s |", incident_kind_name((enum incident_kind)k));
        for (int a = ACTION_ACCEPT; a <= ACTION_IGNORE; a++)
            buf_printf(out, " %s |",
                       !table[k][a].effect ? ""
                       : table[k][a].money ? "yes, two persons"
                                           : "yes");
        buf_add_char(out, '\n');
    }
}

/* ---- looking ---- */

static struct incident_row copy_row(struct arena *a, const struct incident_row *row)
{
    struct incident_row c = *row;

    c.discriminator = str_keep(a, row->discriminator);
    c.detail = str_keep(a, row->detail);
    c.who = str_keep(a, row->who);
    c.reason = str_keep(a, row->reason);
    return c;
}

/* Which payment the money became. */
static enum err adopted_as(struct tx *tx, const struct incident_row *row, struct number *ret,
                           struct err_info *info)
{
    struct callback_bytes callback;
    struct payment p;
    int64_t id = 0;
    enum err e = callback_bytes_of(tx, row->subject.id, &callback, info);

    if (!e)
        e = payment_find_transaction(tx, callback.row.account, row->discriminator, &id, info);
    if (!e && id && !(e = payment_load(tx, id, &p, info)))
        *ret = p.no;
    return e;
}

/* What is there now, for the answer. */
static enum err give(struct tx *tx, struct arena *a, const struct incident_row *row,
                     struct resolved *ret, struct err_info *info)
{
    struct incident_proposal p;
    struct number pay_no = { 0 };
    enum err e = row->resolution == ACTION_ADOPT ? adopted_as(tx, row, &pay_no, info) : ERR_OK;

    if (e)
        return e;
    e = row->resolved ? ERR_NOT_FOUND : incident_proposal_load(tx, row->no.id, &p, info);

    if (e && e != ERR_NOT_FOUND)
        return e;
    *ret = (struct resolved) { .incident = copy_row(a, row), .proposed = !e, .pay_no = pay_no };
    if (!e) {
        p.args = str_keep(a, p.args);
        p.who = str_keep(a, p.who);
        p.reason = str_keep(a, p.reason);
        ret->proposal = p;
    }
    return ERR_OK;
}

/* *ret_found false: there is none, or it is not the caller's to see. */
static enum err find(struct tx *tx, const struct act *act, struct number no, bool any_caller,
                     struct incident_row *ret, bool *ret_found, struct err_info *info)
{
    enum err e = incident_load(tx, no.id, ret, info);

    *ret_found = !e && ret->no.slot == no.slot && (any_caller || ret->caller == act->caller.id);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static struct str fitting(struct arena *a, enum incident_kind kind)
{
    struct buf b;

    buf_init_arena(&b, a, 256);
    for (int i = ACTION_ACCEPT; i <= ACTION_IGNORE; i++)
        if (table[kind][i].effect)
            buf_printf(&b, "%s%s", b.n ? ", " : "", incident_action_name((enum incident_action)i));
    return str_printf(a, "for %s: " STR_FMT, incident_kind_name(kind), STR_ARG(buf_str(&b)));
}

/* ---- the second person ---- */

static bool needs_two(const struct resolving *w)
{
    int64_t most = w->c->settings.second_person_fen;

    return most && table[w->row.kind][w->r->action].money && money_fen(w->row.amount) > most;
}

static enum err propose(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct incident_proposal p = {
        .audit_id = w->audit_id,
        .action = w->r->action,
        .args = w->args,
        .who = w->r->who,
        .reason = w->r->reason,
        .until_ms = tx_now_ms(tx) + PROPOSAL_LASTS_MS,
    };
    struct audit audit = { .id = w->audit_id,
                           .who = w->r->who,
                           .act = STR("incident.propose"),
                           .subject = number_str(tx_arena(tx), w->row.no),
                           .detail = str_printf(tx_arena(tx), "%s " STR_FMT ": " STR_FMT,
                                                incident_action_name(w->r->action),
                                                STR_ARG(w->args), STR_ARG(w->r->reason)) };
    enum err e = audit_insert(tx, &audit, info);

    return e ? e : incident_propose(tx, w->row.no.id, &p, info);
}

/* *ret_go: two persons have said it, or one is enough. */
static enum err ask_second(struct tx *tx, struct resolving *w, bool *ret_go, struct err_info *info)
{
    struct incident_proposal p;

    *ret_go = !needs_two(w);
    if (*ret_go)
        return ERR_OK;
    enum err e = incident_proposal_load(tx, w->row.no.id, &p, info);
    if (e)
        return e == ERR_NOT_FOUND ? propose(tx, w, info) : e;
    if (p.action != w->r->action || !str_eq(p.args, w->args))
        return resolve_refuse(w, CODE_INCIDENT_STATE,
                              str_printf(w->act->arena, "%s has been proposed by " STR_FMT,
                                         incident_action_name(p.action), STR_ARG(p.who)));
    *ret_go = !str_eq(p.who, w->r->who);
    return ERR_OK;
}

/* ---- the rule ---- */

enum err resolve_close(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct incident_end end = { .action = w->r->action,
                                .who = w->r->who,
                                .reason = w->r->reason,
                                .detail = w->detail,
                                .evidence_ref = w->audit_id };
    if (w->closed)
        return ERR_OK;
    w->closed = true;
    if (!w->stays_open)
        return incident_resolve(tx, &w->row, &end, info);
    enum err e =
        incident_set_policy(tx, &w->row, POLICY_REFUND, w->r->who, w->audit_id, w->detail, info);
    return e ? e : incident_proposal_drop(tx, w->row.no.id, info);
}

static enum err do_it(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct audit audit = { .id = w->audit_id,
                           .who = w->r->who,
                           .act = str_printf(tx_arena(tx), "incident.%s",
                                             incident_action_name(w->r->action)),
                           .subject = number_str(tx_arena(tx), w->row.no),
                           .detail = w->r->reason };
    enum err e = table[w->row.kind][w->r->action].effect(tx, w, info);

    if (e || w->refused)
        return e;
    e = audit_insert(tx, &audit, info);
    return e ? e : resolve_close(tx, w, info);
}

/* Is there nothing (more) to do? It was done: by this very rule before its answer got lost, or by
 * the same person asking twice. */
static bool is_done(const struct resolving *w)
{
    if (w->row.evidence_ref == w->audit_id)
        return true;
    bool same = str_eq(w->row.who, w->r->who);
    bool begun = w->row.policy == POLICY_REFUND &&
                 (w->r->action == ACTION_REFUND || w->r->action == ACTION_ACCEPT_AND_REFUND);
    return same && (w->row.resolved ? w->row.resolution == w->r->action : begun);
}

static enum err resolve_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct resolving *w = arg;
    bool found, go;

    w->refused = CODE_OK;
    w->stays_open = w->closed = false;
    w->detail = STR_NONE;
    w->moved.status = w->from;
    if (!(w->audit_id = tx_new_id(tx)))
        return err_internal(info, "no id for an act");
    enum err e = find(tx, w->act, w->r->incident_no, w->r->any_caller, &w->row, &found, info);
    if (e)
        return e;
    if (!found)
        return resolve_refuse(w, CODE_INCIDENT_NOT_FOUND, STR_NONE);
    if (is_done(w))
        return give(tx, w->act->arena, &w->row, w->ret, info);
    if (w->row.resolved)
        return resolve_refuse(w, CODE_INCIDENT_STATE,
                              str_printf(w->act->arena, "it was resolved: %s",
                                         incident_action_name(w->row.resolution)));
    if (!resolve_fits(w->row.kind, w->r->action))
        return resolve_refuse(w, CODE_ACTION_UNFIT, fitting(w->act->arena, w->row.kind));
    if ((e = ask_second(tx, w, &go, info)) || w->refused)
        return e;
    if (go && ((e = do_it(tx, w, info)) || w->refused))
        return e;
    return give(tx, w->act->arena, &w->row, w->ret, info);
}

static enum code check(const struct resolve *r, struct refusal *refusal)
{
    if (r->action < ACTION_ACCEPT || r->action > ACTION_IGNORE)
        return refuse_field(refusal, CODE_BAD_FIELD, "action", STR("no such action"));
    if (!str_trim(r->reason).n)
        return refuse_field(refusal, CODE_BAD_FIELD, "reason", STR("say why"));
    if (r->action == ACTION_ADOPT && !r->adopt_for.id)
        return refuse_field(refusal, CODE_BAD_FIELD, "caller", STR("adopt needs to know for whom"));
    return CODE_OK;
}

static void tell(const struct resolving *w)
{
    struct number_text no = number_text(w->row.no);

    LOG(w->c->env->log, LOG_INFO, "incident.act", log_cstr("incident_no", no.s),
        log_cstr("kind", incident_kind_name(w->row.kind)),
        log_cstr("action", incident_action_name(w->r->action)), log_str("who", w->r->who),
        log_cstr("what", w->ret->proposed            ? "proposed"
                         : w->ret->incident.resolved ? "resolved"
                                                     : "begun"));
    payment_log(w->c, &w->moved, w->from, CAUSE_OPERATOR, w->act->trace_id);
}

enum code resolve_incident(struct centre *c, const struct act *act, const struct resolve *r,
                           struct resolved *ret, struct refusal *refusal)
{
    struct resolving w = { .c = c, .act = act, .r = r, .args = STR(""), .ret = ret };
    enum code code = check(r, refusal);

    if (!code && r->action == ACTION_ADOPT)
        code = resolve_adopt_ask(&w, refusal);
    if (!code && r->action == ACTION_RETRY)
        code = resolve_retry_ask(&w, refusal);
    if (!code)
        code = centre_run(c, "incident.resolve", STORE_API, r->incident_no.slot, resolve_rule, &w,
                          RESOLVE_IDS, refusal);
    if (code)
        return code;
    if (w.refused)
        return refuse_field(refusal, w.refused, NULL, w.refusal);
    tell(&w);
    return CODE_OK;
}

/* ---- withdrawing, reading ---- */

struct withdrawing {
    const struct act *act;
    struct number no;
    bool any_caller, found, there;
    struct str who;
    struct resolved *ret;
};

/* A second run finds its own audit row, and the proposal gone. */
static enum err withdraw_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct withdrawing *w = arg;
    struct incident_row row;
    struct audit audit = { .id = tx_new_id(tx), .who = w->who, .act = STR("incident.withdraw") };
    enum err e = find(tx, w->act, w->no, w->any_caller, &row, &w->found, info);

    if (e || !w->found || (e = give(tx, w->act->arena, &row, w->ret, info)))
        return e;
    audit.subject = number_str(tx_arena(tx), row.no);
    w->there = w->ret->proposed;
    if (w->there) {
        audit.detail = str_of(incident_action_name(w->ret->proposal.action));
        e = audit_insert(tx, &audit, info);
        w->ret->proposed = false;
        return e ? e : incident_proposal_drop(tx, row.no.id, info);
    }
    return audit_has(tx, audit.id, &w->there, info);
}

enum code resolve_withdraw(struct centre *c, const struct act *act, struct number incident_no,
                           bool any_caller, struct str who, struct resolved *ret,
                           struct refusal *refusal)
{
    struct withdrawing w = {
        .act = act, .no = incident_no, .any_caller = any_caller, .who = who, .ret = ret
    };
    enum code code = centre_run(c, "incident.withdraw", STORE_API, incident_no.slot, withdraw_rule,
                                &w, 1, refusal);
    if (code)
        return code;
    if (!w.found)
        return refuse(refusal, CODE_INCIDENT_NOT_FOUND);
    return w.there ? CODE_OK
                   : refuse_field(refusal, CODE_INCIDENT_STATE, NULL, STR("nothing is proposed"));
}

static enum err get_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct withdrawing *w = arg;
    struct incident_row row;
    enum err e = find(tx, w->act, w->no, w->any_caller, &row, &w->found, info);

    return e || !w->found ? e : give(tx, w->act->arena, &row, w->ret, info);
}

enum code resolve_get(struct centre *c, const struct act *act, struct number incident_no,
                      bool any_caller, struct resolved *ret, struct refusal *refusal)
{
    struct withdrawing w = { .act = act, .no = incident_no, .any_caller = any_caller, .ret = ret };
    enum code code = centre_read(c, "incident.get", incident_no.slot, get_rule, &w, refusal);

    if (code)
        return code;
    return w.found ? CODE_OK : refuse(refusal, CODE_INCIDENT_NOT_FOUND);
}
