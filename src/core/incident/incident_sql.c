/* incident_sql.c -- the statements of the tables incident and incident_proposal. */
#include "core/incident/incident_sql.h"

#include <inttypes.h>

SQL(incident_insert,
    "INSERT INTO incident (id, slot, kind, subject_kind, subject_id, discriminator, caller, state,"
    " policy, count, last_report, detail, resolution, who, evidence_ref, last_seen, version,"
    " create_time, update_time, amount, currency, reason, resolve_time)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 1, ?, ?, 0, NULL, 0, ?, 1, ?, ?, ?, ?, NULL, 0)");

#define ROW                                                                                        \
    "id, slot, kind, subject_kind, subject_id, discriminator, detail, who, state, policy, count, " \
    "create_time, last_seen, caller, amount, currency, resolution, reason, evidence_ref, "         \
    "resolve_time, version"

SQL(incident_row_known, "SELECT 1 FROM incident WHERE id = ?");
SQL(incident_by_id, "SELECT " ROW " FROM incident WHERE id = ?");
SQL(incident_by_key,
    "SELECT " ROW " FROM incident WHERE subject_id = ? AND kind = ? AND discriminator = ?");

SQL(incident_count_up,
    "UPDATE incident SET count = count + 1, last_report = ?, last_seen = ?, version = version + 1,"
    " update_time = ? WHERE id = ? AND last_report <> ?");
SQL(incident_reopen,
    "UPDATE incident SET state = 0, policy = ?, count = count + 1, last_report = ?, detail = ?,"
    " amount = ?, currency = ?, resolution = 0, who = NULL, reason = NULL, evidence_ref = 0,"
    " resolve_time = 0, last_seen = ?, version = version + 1, update_time = ?"
    " WHERE id = ? AND state = 1 AND version = ? AND last_report <> ?");

#define LIST_FILTER " AND id < ? AND (? = 0 OR caller = ?) ORDER BY id DESC LIMIT ?"
SQL(incident_list_any, "SELECT " ROW " FROM incident WHERE (? = 0 OR kind = ?)" LIST_FILTER);
SQL(incident_list_state,
    "SELECT " ROW " FROM incident WHERE state = ? AND (? = 0 OR kind = ?)" LIST_FILTER);
SQL(incident_list_kind, "SELECT " ROW " FROM incident WHERE kind = ? AND state = ?" LIST_FILTER);

SQL(incident_of_subject, "SELECT " ROW " FROM incident WHERE subject_id = ? ORDER BY id LIMIT ?");

#define GUARD " WHERE id = ? AND state = 0 AND version = ?"
SQL(incident_end,
    "UPDATE incident SET state = 1, resolution = ?, who = ?, reason = ?, detail = ?,"
    " evidence_ref = ?, resolve_time = ?, version = version + 1, update_time = ?" GUARD);
SQL(incident_policy, "UPDATE incident SET policy = ?, who = ?, evidence_ref = ?, detail = ?,"
                     " version = version + 1, update_time = ?" GUARD);

SQL(incident_proposal_select, "SELECT audit_id, action, args, who, reason, until_time, create_time"
                              " FROM incident_proposal WHERE incident_id = ? AND until_time > ?");
SQL(incident_proposal_insert,
    "INSERT INTO incident_proposal (incident_id, audit_id, action, args, who, reason, until_time,"
    " create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
SQL(incident_proposal_delete, "DELETE FROM incident_proposal WHERE incident_id = ?");

static const char *const moved = "the incident was moved by somebody else";

static struct str currency_of(const struct money *m)
{
    struct str currency = money_currency(m);
    return currency.n ? currency : STR_NONE;
}

enum err incident_sql_insert(struct tx *tx, struct number no, const struct incident *in,
                             struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(tx, &incident_insert,
                   BINDS(bind_int(no.id), bind_int(no.slot), bind_int((int64_t)in->kind),
                         bind_int((int64_t)in->subject.kind), bind_int(in->subject.id),
                         bind_text(in->discriminator), bind_int(in->caller),
                         bind_int((int64_t)in->policy), bind_int(no.id), bind_text(in->detail),
                         bind_int(now), bind_int(now), bind_int(now),
                         bind_int(money_fen(in->amount)), bind_text(currency_of(&in->amount))),
                   NULL, info);
}

enum err incident_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    int64_t there;
    enum err e = tx_select_int(tx, &incident_row_known, BINDS(bind_int(id)), &there, info);
    if (!e)
        *ret = there != 0;
    return e;
}

static enum err read_row(struct query *q, struct incident_row *ret, struct err_info *info)
{
    unsigned slot = (unsigned)col_int(q, 1);

    *ret = (struct incident_row) {
        .no = number_make(NUMBER_INCIDENT, slot, col_int(q, 0)),
        .kind = (enum incident_kind)col_int(q, 2),
        .subject = number_make((enum number_kind)col_int(q, 3), slot, col_int(q, 4)),
        .discriminator = col_text(q, 5),
        .detail = col_text(q, 6),
        .who = col_text(q, 7),
        .resolved = col_int(q, 8) != 0,
        .policy = (enum incident_policy)col_int(q, 9),
        .count = col_int(q, 10),
        .create_ms = col_int(q, 11),
        .last_seen_ms = col_int(q, 12),
        .caller = col_int(q, 13),
        .resolution = (enum incident_action)col_int(q, 16),
        .reason = col_text(q, 17),
        .evidence_ref = col_int(q, 18),
        .resolve_ms = col_int(q, 19),
        .version = col_int(q, 20),
    };
    if (!col_is_null(q, 15) && money_of(col_int(q, 14), col_text(q, 15), &ret->amount))
        return err_internal(info, "incident row %" PRId64 " is damaged", ret->no.id);
    return ERR_OK;
}

static enum err read_one(struct query *q, struct incident_row *ret, struct err_info *info)
{
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such incident");
    enum err e = read_row(q, ret, info), ended = query_end(q, e ? NULL : info);
    return e ? e : ended;
}

static enum err read_rows(struct query *q, struct incident_row *ret, size_t max, size_t *ret_n,
                          struct err_info *info)
{
    size_t n = 0;
    enum err e = ERR_OK;

    while (!e && n < max && query_row(q))
        e = read_row(q, &ret[n++], info);
    enum err ended = query_end_n(q, n, ret_n, e ? NULL : info);
    return e ? e : ended;
}

enum err incident_sql_load(struct tx *tx, int64_t id, struct incident_row *ret,
                           struct err_info *info)
{
    return read_one(tx_select(tx, &incident_by_id, BINDS(bind_int(id))), ret, info);
}

enum err incident_sql_find(struct tx *tx, const struct incident *in, struct incident_row *ret,
                           struct err_info *info)
{
    return read_one(tx_select(tx, &incident_by_key,
                              BINDS(bind_int(in->subject.id), bind_int((int64_t)in->kind),
                                    bind_text(in->discriminator))),
                    ret, info);
}

enum err incident_sql_count(struct tx *tx, int64_t id, int64_t report, struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(
        tx, &incident_count_up,
        BINDS(bind_int(report), bind_int(now), bind_int(now), bind_int(id), bind_int(report)), NULL,
        info);
}

enum err incident_sql_reopen(struct tx *tx, struct incident_row *row, const struct incident *in,
                             int64_t report, bool *ret_done, struct err_info *info)
{
    int64_t now = tx_now_ms(tx), changed;
    enum err e = tx_exec(tx, &incident_reopen,
                         BINDS(bind_int((int64_t)in->policy), bind_int(report),
                               bind_text(in->detail), bind_int(money_fen(in->amount)),
                               bind_text(currency_of(&in->amount)), bind_int(now), bind_int(now),
                               bind_int(row->no.id), bind_int(row->version), bind_int(report)),
                         &changed, info);
    if (e)
        return e;
    *ret_done = changed == 1;
    row->version += changed;
    return ERR_OK;
}

enum err incident_sql_list(struct tx *tx, const struct incident_filter *f, struct incident_row *ret,
                           size_t *ret_n, struct err_info *info)
{
    struct bind kind = bind_int(f->kind), state = bind_int(f->state), caller = bind_int(f->caller),
                before = bind_int(f->before ? f->before : INT64_MAX),
                limit = bind_int((int64_t)f->limit);
    struct query *q;

    if (f->state < 0)
        q = tx_select(tx, &incident_list_any, BINDS(kind, kind, before, caller, caller, limit));
    else if (f->kind)
        q = tx_select(tx, &incident_list_kind, BINDS(kind, state, before, caller, caller, limit));
    else
        q = tx_select(tx, &incident_list_state,
                      BINDS(state, kind, kind, before, caller, caller, limit));
    return read_rows(q, ret, f->limit, ret_n, info);
}

enum err incident_sql_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    return read_rows(
        tx_select(tx, &incident_of_subject, BINDS(bind_int(subject_id), bind_int((int64_t)max))),
        ret, max, ret_n, info);
}

/* ---- the ways out ---- */

enum err incident_sql_resolve(struct tx *tx, struct incident_row *row,
                              const struct incident_end *end, struct err_info *info)
{
    int64_t now = tx_now_ms(tx);
    struct str detail = end->detail.p ? end->detail : row->detail;
    enum err e = tx_exec_one(tx, &incident_end,
                             BINDS(bind_int((int64_t)end->action), bind_text(end->who),
                                   bind_text(end->reason), bind_text(detail),
                                   bind_int(end->evidence_ref), bind_int(now), bind_int(now),
                                   bind_int(row->no.id), bind_int(row->version)),
                             moved, info);
    if (e)
        return e;
    row->detail = detail;
    row->resolved = true;
    row->resolution = end->action;
    row->who = end->who;
    row->reason = end->reason;
    row->evidence_ref = end->evidence_ref;
    row->resolve_ms = now;
    row->version++;
    return ERR_OK;
}

enum err incident_sql_policy(struct tx *tx, struct incident_row *row, struct err_info *info)
{
    enum err e =
        tx_exec_one(tx, &incident_policy,
                    BINDS(bind_int((int64_t)row->policy), bind_text(row->who),
                          bind_int(row->evidence_ref), bind_text(row->detail),
                          bind_int(tx_now_ms(tx)), bind_int(row->no.id), bind_int(row->version)),
                    moved, info);
    row->version += !e;
    return e;
}

/* ---- proposals ---- */

enum err incident_sql_proposal(struct tx *tx, int64_t incident_id, struct incident_proposal *ret,
                               struct err_info *info)
{
    struct query *q = tx_select(tx, &incident_proposal_select,
                                BINDS(bind_int(incident_id), bind_int(tx_now_ms(tx))));

    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "nothing is proposed");
    *ret = (struct incident_proposal) {
        .audit_id = col_int(q, 0),
        .action = (enum incident_action)col_int(q, 1),
        .args = col_text(q, 2),
        .who = col_text(q, 3),
        .reason = col_text(q, 4),
        .until_ms = col_int(q, 5),
        .create_ms = col_int(q, 6),
    };
    return query_end(q, info);
}

enum err incident_sql_propose(struct tx *tx, int64_t incident_id, const struct incident_proposal *p,
                              struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(tx, &incident_proposal_insert,
                   BINDS(bind_int(incident_id), bind_int(p->audit_id), bind_int((int64_t)p->action),
                         bind_text(p->args), bind_text(p->who), bind_text(p->reason),
                         bind_int(p->until_ms), bind_int(now), bind_int(now)),
                   NULL, info);
}

enum err incident_sql_proposal_drop(struct tx *tx, int64_t incident_id, struct err_info *info)
{
    return tx_exec(tx, &incident_proposal_delete, BINDS(bind_int(incident_id)), NULL, info);
}
