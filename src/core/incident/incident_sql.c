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
    struct query *q = tx_query(tx, &incident_insert);
    int64_t now = tx_now_ms(tx);

    query_int(q, no.id);
    query_int(q, no.slot);
    query_int(q, (int64_t)incident->kind);
    query_int(q, (int64_t)incident->subject.kind);
    query_int(q, incident->subject.id);
    query_text(q, incident->discriminator);
    query_int(q, incident->caller);
    query_int(q, (int64_t)incident->policy);
    query_int(q, no.id);
    query_text(q, incident->detail);
    query_int(q, now);
    query_int(q, now);
    query_int(q, now);
    return query_run(q, NULL, info);
}

enum err incident_sql_id(struct tx *tx, const struct incident *incident, int64_t *ret_id,
                         struct err_info *info)
{
    struct query *q = tx_query(tx, &incident_id);
    bool row;

    query_int(q, incident->subject.id);
    query_int(q, (int64_t)incident->kind);
    query_text(q, incident->discriminator);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no such incident");
    *ret_id = col_int(q, 0);
    query_end(q);
    return ERR_OK;
}

enum err incident_sql_count(struct tx *tx, int64_t id, int64_t report, struct err_info *info)
{
    struct query *q = tx_query(tx, &incident_count_up);

    query_int(q, report);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    query_int(q, report);
    return query_run(q, NULL, info);
}

static enum err rows(struct query *q, struct incident_row *ret, size_t max, size_t *ret_n,
                     struct err_info *info)
{
    size_t n = 0;
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n == max) {
            query_end(q);
            break;
        }
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
    }
    *ret_n = n;
    return ERR_OK;
}

enum err incident_sql_list(struct tx *tx, int64_t caller, int state, int64_t before, size_t limit,
                           struct incident_row *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, state < 0 ? &incident_list_any : &incident_list_state);

    if (state >= 0)
        query_int(q, state);
    query_int(q, before);
    query_int(q, caller);
    query_int(q, caller);
    query_int(q, (int64_t)limit);
    return rows(q, ret, limit, ret_n, info);
}

enum err incident_sql_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &incident_of_subject);

    query_int(q, subject_id);
    query_int(q, (int64_t)max);
    return rows(q, ret, max, ret_n, info);
}

SQL(incident_row_known, "SELECT 1 FROM incident WHERE id = ?");

enum err incident_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &incident_row_known);

    query_int(q, id);
    enum err e = query_next(q, ret, info);
    if (!e && *ret)
        query_end(q);
    return e;
}
