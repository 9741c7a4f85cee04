/* incident.c -- opening an incident, counting that it happened once more, and the ways out.
 *
 * One row per (kind, subject, discriminator), however often the same thing is reported. A report is
 * known by its transaction's id, so one that runs twice counts once. Every way out is a
 * compare-and-set on the open row. */
#include "core/incident/incident.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "bus/event.h"
#include "core/incident/incident_sql.h"

#include <assert.h>

static_assert(INCIDENT_PAID_AFTER_CLOSE == 1 && INCIDENT_PAID_TWICE == 2 &&
                  INCIDENT_AMOUNT_MISMATCH == 3 && INCIDENT_ACCOUNT_MISMATCH == 4 &&
                  INCIDENT_TRANSACTION_CLASH == 5 && INCIDENT_STATUS_CONFLICT == 6 &&
                  INCIDENT_ORPHAN_PAYMENT == 7 && INCIDENT_QUERY_STUCK == 8 &&
                  INCIDENT_CALLBACK_STUCK == 9 && INCIDENT_DELIVERY_DEAD == 10 &&
                  INCIDENT_REFUND_HELD == 11 && INCIDENT_REFUND_ABNORMAL == 12 &&
                  INCIDENT_OVER_REFUNDED == 13 && INCIDENT_RISK_HELD == 14 &&
                  INCIDENT_KEY_EXPIRING == 15 && INCIDENT_LEDGER_IMBALANCE == 16,
              "incident_kind is persisted");
static_assert(POLICY_HOLD == 0 && POLICY_REFUND == 1 && POLICY_REVIVE == 2 && POLICY_BRAKED == 3,
              "incident_policy is persisted");
static_assert(ACTION_NONE == 0 && ACTION_ACCEPT == 1 && ACTION_ACCEPT_AND_REFUND == 2 &&
                  ACTION_REFUND == 3 && ACTION_REVIVE == 4 && ACTION_ADOPT == 5 &&
                  ACTION_RETRY == 6 && ACTION_SETTLED_OFFLINE == 7 && ACTION_IGNORE == 8 &&
                  ACTION_RECOVERED == 9,
              "incident_action is persisted");

#define DATA_MAX 4096
#define OF_ONE   32 /* incidents of one subject that are looked at */

/* ---- names ---- */

static const char *const kind_names[] = {
    [INCIDENT_PAID_AFTER_CLOSE] = "PAID_AFTER_CLOSE",
    [INCIDENT_PAID_TWICE] = "PAID_TWICE",
    [INCIDENT_AMOUNT_MISMATCH] = "AMOUNT_MISMATCH",
    [INCIDENT_ACCOUNT_MISMATCH] = "ACCOUNT_MISMATCH",
    [INCIDENT_TRANSACTION_CLASH] = "TRANSACTION_CLASH",
    [INCIDENT_STATUS_CONFLICT] = "STATUS_CONFLICT",
    [INCIDENT_ORPHAN_PAYMENT] = "ORPHAN_PAYMENT",
    [INCIDENT_QUERY_STUCK] = "QUERY_STUCK",
    [INCIDENT_CALLBACK_STUCK] = "CALLBACK_STUCK",
    [INCIDENT_DELIVERY_DEAD] = "DELIVERY_DEAD",
    [INCIDENT_REFUND_HELD] = "REFUND_HELD",
    [INCIDENT_REFUND_ABNORMAL] = "REFUND_ABNORMAL",
    [INCIDENT_OVER_REFUNDED] = "OVER_REFUNDED",
    [INCIDENT_RISK_HELD] = "RISK_HELD",
    [INCIDENT_KEY_EXPIRING] = "KEY_EXPIRING",
    [INCIDENT_LEDGER_IMBALANCE] = "LEDGER_IMBALANCE",
};
static_assert(sizeof kind_names / sizeof *kind_names == INCIDENT_KINDS_END,
              "every kind has a name");

static const char *const policy_names[] = {
    [POLICY_HOLD] = "hold",
    [POLICY_REFUND] = "refund",
    [POLICY_REVIVE] = "revive",
    [POLICY_BRAKED] = "braked",
};

static const char *const action_names[] = {
    [ACTION_NONE] = "none",
    [ACTION_ACCEPT] = "accept",
    [ACTION_ACCEPT_AND_REFUND] = "accept_and_refund",
    [ACTION_REFUND] = "refund",
    [ACTION_REVIVE] = "revive",
    [ACTION_ADOPT] = "adopt",
    [ACTION_RETRY] = "retry",
    [ACTION_SETTLED_OFFLINE] = "settled_offline",
    [ACTION_IGNORE] = "ignore",
    [ACTION_RECOVERED] = "recovered",
};
static_assert(sizeof action_names / sizeof *action_names == INCIDENT_ACTIONS_END,
              "every action has a name");

const char *incident_kind_name(enum incident_kind kind)
{
    return (unsigned)kind < INCIDENT_KINDS_END && kind_names[kind] ? kind_names[kind] : "UNKNOWN";
}

enum err incident_kind_parse(struct str name, enum incident_kind *ret)
{
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k < INCIDENT_KINDS_END; k++)
        if (str_eq(name, str_of(kind_names[k]))) {
            *ret = (enum incident_kind)k;
            return ERR_OK;
        }
    return ERR_INVALID;
}

struct str incident_payer_text(enum incident_kind kind)
{
    return kind == INCIDENT_PAID_AFTER_CLOSE ? STR("订单已关闭，款项退回")
           : kind == INCIDENT_PAID_TWICE     ? STR("重复支付，款项退回")
                                             : STR("款项退回");
}

const char *incident_policy_name(enum incident_policy policy)
{
    return (unsigned)policy < sizeof policy_names / sizeof *policy_names ? policy_names[policy]
                                                                         : "unknown";
}

const char *incident_action_name(enum incident_action action)
{
    return (unsigned)action < INCIDENT_ACTIONS_END ? action_names[action] : "unknown";
}

enum err incident_action_parse(struct str name, enum incident_action *ret)
{
    for (int i = ACTION_ACCEPT; i <= ACTION_IGNORE; i++)
        if (str_eq(name, str_of(action_names[i]))) {
            *ret = (enum incident_action)i;
            return ERR_OK;
        }
    return ERR_INVALID;
}

/* ---- opening ---- */

static enum err emit_opened(struct tx *tx, struct number no, int64_t version,
                            const struct incident *incident, struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct str currency = money_currency(&incident->amount);
    struct buf b;
    struct json_out o;

    buf_init_arena(&b, a, DATA_MAX);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "incident_no", number_str(a, no));
    json_kv_str(&o, "kind", str_of(incident_kind_name(incident->kind)));
    json_kv_str(&o, "subject", number_str(a, incident->subject));
    if (incident->discriminator.n)
        json_kv_str(&o, "discriminator", incident->discriminator);
    json_kv_str(&o, "policy", str_of(incident_policy_name(incident->policy)));
    if (currency.n) {
        json_kv_int(&o, "amount", money_fen(incident->amount));
        json_kv_str(&o, "currency", currency);
    }
    json_kv_str(&o, "detail", incident->detail);
    json_kv_str(&o, "time", clock_rfc3339_ms(a, tx_now_ms(tx)));
    json_end_object(&o);
    if (!buf_ok(&b))
        return err_internal(info, "the data of incident.opened are too long");

    struct event event = {
        .type = EVENT_INCIDENT_OPENED,
        .subject = no,
        .sequence = version,
        .caller = incident->caller,
        .data = buf_str(&b),
        .trace_id = incident->trace_id,
    };
    return outbox_emit(tx, &event, info);
}

/* Reported again. Resolved, it is open again: what was done about it did not last. But a person who
 * said "ignore" meant this, too, unless something new hangs on it. */
static enum err again(struct tx *tx, const struct incident *in, int64_t report,
                      struct incident_opened *ret, struct err_info *info)
{
    struct incident_row row;
    enum err e = incident_sql_find(tx, in, &row, info);

    if (e)
        return e;
    *ret = (struct incident_opened) { .no = row.no, .opened = row.no.id == report };
    if (ret->opened) /* this very rule, run once more */
        return ERR_OK;
    if (!row.resolved || (row.resolution == ACTION_IGNORE && !in->insists))
        return incident_sql_count(tx, row.no.id, report, info);
    if ((e = incident_sql_reopen(tx, &row, in, report, &ret->opened, info)) || !ret->opened)
        return e;
    return emit_opened(tx, row.no, row.version, in, info);
}

enum err incident_open(struct tx *tx, const struct incident *incident, struct incident_opened *ret,
                       struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    if (id == 0)
        return err_internal(info, "the transaction is out of ids for an incident");

    struct incident in = *incident;
    if (!in.discriminator.p)
        in.discriminator = STR("");
    struct incident_opened opened = { .no = number_make(NUMBER_INCIDENT, in.subject.slot, id),
                                      .opened = true };

    enum err e = incident_sql_insert(tx, opened.no, &in, info);
    if (!e)
        e = emit_opened(tx, opened.no, 1, &in, info);
    else if (e == ERR_EXISTS)
        e = again(tx, &in, id, &opened, info);
    if (!e && ret)
        *ret = opened;
    return e;
}

/* ---- reading ---- */

enum err incident_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    return incident_sql_has(tx, id, ret, info);
}

enum err incident_load(struct tx *tx, int64_t id, struct incident_row *ret, struct err_info *info)
{
    return incident_sql_load(tx, id, ret, info);
}

enum err incident_list(struct tx *tx, const struct incident_filter *f, struct incident_row *ret,
                       size_t *ret_n, struct err_info *info)
{
    return incident_sql_list(tx, f, ret, ret_n, info);
}

enum err incidents_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info)
{
    return incident_sql_of(tx, subject_id, ret, max, ret_n, info);
}

/* ---- the ways out ---- */

enum err incident_resolve(struct tx *tx, struct incident_row *row, const struct incident_end *end,
                          struct err_info *info)
{
    enum err e = incident_sql_resolve(tx, row, end, info);
    return e ? e : incident_sql_proposal_drop(tx, row->no.id, info);
}

enum err incident_set_policy(struct tx *tx, struct incident_row *row, enum incident_policy policy,
                             struct str who, int64_t evidence_ref, struct str detail,
                             struct err_info *info)
{
    row->policy = policy;
    row->who = who;
    row->evidence_ref = evidence_ref;
    if (detail.p)
        row->detail = detail;
    return incident_sql_policy(tx, row, info);
}

enum err incident_recovered(struct tx *tx, int64_t subject_id, unsigned kinds, struct str reason,
                            struct err_info *info)
{
    struct incident_row *rows = arena_array(tx_arena(tx), OF_ONE, sizeof *rows);
    struct incident_end end = { .action = ACTION_RECOVERED, .reason = reason };
    size_t n;
    enum err e = incident_sql_of(tx, subject_id, rows, OF_ONE, &n, info);

    for (size_t i = 0; !e && i < n; i++)
        if (!rows[i].resolved && (kinds & INCIDENT_BIT(rows[i].kind)))
            e = incident_resolve(tx, &rows[i], &end, info);
    return e;
}

/* ---- proposals ---- */

enum err incident_proposal_load(struct tx *tx, int64_t incident_id, struct incident_proposal *ret,
                                struct err_info *info)
{
    return incident_sql_proposal(tx, incident_id, ret, info);
}

enum err incident_propose(struct tx *tx, int64_t incident_id, const struct incident_proposal *p,
                          struct err_info *info)
{
    enum err e = incident_sql_proposal_drop(tx, incident_id, info);
    return e ? e : incident_sql_propose(tx, incident_id, p, info);
}

enum err incident_proposal_drop(struct tx *tx, int64_t incident_id, struct err_info *info)
{
    return incident_sql_proposal_drop(tx, incident_id, info);
}
