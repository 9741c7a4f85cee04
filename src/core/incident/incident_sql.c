/* incident_sql.c -- the statements of the table incident. */
#include "core/incident/incident_sql.h"

SQL(incident_insert,
    "INSERT INTO incident (id, slot, kind, subject_kind, subject_id, discriminator, caller, state,"
    " policy, count, last_report, detail, resolution, who, evidence_ref, last_seen, version,"
    " create_time, update_time)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 1, ?, ?, 0, NULL, 0, ?, 1, ?, ?)");

SQL(incident_id, "SELECT id FROM incident WHERE subject_id = ? AND kind = ? AND discriminator = ?");

SQL(incident_count_up,
    "UPDATE incident SET count = count + 1, last_report = ?, last_seen = ?, version = version + 1,"
    " update_time = ? WHERE id = ? AND last_report <> ?");

#define ROW                                                                                        \
    "id, slot, kind, subject_kind, subject_id, discriminator, detail, who, state, policy, count, " \
    "create_time, last_seen, caller"

SQL(incident_list_any,
    "SELECT " ROW " FROM incident WHERE id < ? AND (? = 0 OR caller = ?) ORDER BY id DESC LIMIT ?");

SQL(incident_list_state,
    "SELECT " ROW
    " FROM incident WHERE state = ? AND id < ? AND (? = 0 OR caller = ?) ORDER BY id DESC LIMIT ?");

SQL(incident_of_subject, "SELECT " ROW " FROM incident WHERE subject_id = ? ORDER BY id LIMIT ?");

enum err incident_sql_insert(struct tx *tx, struct number no, const struct incident *incident,
                             struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(tx, &incident_insert,
                   BINDS(bind_int(no.id), bind_int(no.slot), bind_int(incident->kind),
                         bind_int(incident->subject.kind), bind_int(incident->subject.id),
                         bind_text(incident->discriminator), bind_int(incident->caller),
                         bind_int(incident->policy), bind_int(no.id), bind_text(incident->detail),
                         bind_int(now), bind_int(now), bind_int(now)),
                   NULL, info);
}

enum err incident_sql_id(struct tx *tx, const struct incident *incident, int64_t *ret_id,
                         struct err_info *info)
{
    struct query *q = tx_select(tx, &incident_id,
                                BINDS(bind_int(incident->subject.id), bind_int(incident->kind),
                                      bind_text(incident->discriminator)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such incident");
    *ret_id = col_int(q, 0);
    return query_end(q, info);
}

enum err incident_sql_count(struct tx *tx, int64_t id, int64_t report, struct err_info *info)
{
    return tx_exec(tx, &incident_count_up,
                   BINDS(bind_int(report), bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx)),
                         bind_int(id), bind_int(report)),
                   NULL, info);
}

static enum err rows(struct query *q, struct incident_row *ret, size_t max, size_t *ret_n,
                     struct err_info *info)
{
    size_t n = 0;
    while (n < max && query_row(q))
        ret[n++] = (struct incident_row) {
            .no = number_make(NUMBER_INCIDENT, (unsigned)col_int(q, 1), col_int(q, 0)),
            .kind = (enum incident_kind)col_int(q, 2),
            .subject = number_make((enum number_kind)col_int(q, 3), (unsigned)col_int(q, 1),
                                   col_int(q, 4)),
            .discriminator = col_text(q, 5),
            .detail = col_text(q, 6),
            .who = col_text(q, 7),
            .state = (int)col_int(q, 8),
            .policy = (enum incident_policy)col_int(q, 9),
            .count = col_int(q, 10),
            .create_ms = col_int(q, 11),
            .last_seen_ms = col_int(q, 12),
            .caller = col_int(q, 13),
        };
    return query_end_n(q, n, ret_n, info);
}

enum err incident_sql_list(struct tx *tx, int64_t caller, int state, int64_t before, size_t limit,
                           struct incident_row *ret, size_t *ret_n, struct err_info *info)
{
    struct binds binds = BINDS(bind_int(state), bind_int(before), bind_int(caller),
                               bind_int(caller), bind_int((int64_t)limit));
    struct query *q = state < 0 ? tx_select(tx, &incident_list_any, binds_skip(binds, 1))
                                : tx_select(tx, &incident_list_state, binds);

    return rows(q, ret, limit, ret_n, info);
}

enum err incident_sql_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    struct query *q =
        tx_select(tx, &incident_of_subject, BINDS(bind_int(subject_id), bind_int((int64_t)max)));

    return rows(q, ret, max, ret_n, info);
}

SQL(incident_row_known, "SELECT 1 FROM incident WHERE id = ?");

enum err incident_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    int64_t there;
    enum err e = tx_select_int(tx, &incident_row_known, BINDS(bind_int(id)), &there, info);
    if (!e)
        *ret = there;
    return e;
}
