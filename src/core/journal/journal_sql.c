/* journal_sql.c -- the statements of state_journal: insert a row, read a row by id. There is no
 * third, and no index. */
#include "core/journal/journal_sql.h"

#include <inttypes.h>

SQL(journal_insert_row, "INSERT INTO state_journal (id, slot, kind, subject_id, seq, from_status, "
                        "to_status, cause, evidence_kind, evidence_ref,"
                        " actor, trace_id, note, prev_id, prev_hash, create_time, update_time)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

SQL(journal_by_id,
    "SELECT slot, kind, subject_id, seq, from_status, to_status, cause, evidence_kind, "
    "evidence_ref,"
    " actor, trace_id, note, prev_id, prev_hash, create_time FROM state_journal WHERE id = ?");

enum err journal_sql_insert(struct tx *tx, const struct journal_row *row, struct err_info *info)
{
    struct query *q = tx_query(tx, &journal_insert_row);

    query_int(q, row->id);
    query_int(q, row->subject.slot);
    query_int(q, (int64_t)row->subject.kind);
    query_int(q, row->subject.id);
    query_int(q, row->seq);
    query_int(q, row->from);
    query_int(q, row->to);
    query_int(q, (int64_t)row->cause);
    query_int(q, (int64_t)row->evidence_kind);
    query_int(q, row->evidence_ref);
    query_text(q, row->actor);
    query_text(q, row->trace_id);
    query_text(q, row->note);
    query_int(q, row->prev_id);
    query_blob(q, sha256_str(&row->prev_hash));
    query_int(q, row->time_ms);
    query_int(q, row->time_ms);
    return query_run(q, NULL, info);
}

enum err journal_sql_load(struct tx *tx, int64_t id, struct journal_row *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &journal_by_id);
    bool row;

    query_int(q, id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no journal row %" PRId64, id);
    struct str prev = col_blob(q, 13);
    *ret = (struct journal_row) {
        .id = id,
        .subject =
            number_make((enum number_kind)col_int(q, 1), (unsigned)col_int(q, 0), col_int(q, 2)),
        .seq = col_int(q, 3),
        .from = (int)col_int(q, 4),
        .to = (int)col_int(q, 5),
        .cause = (enum journal_cause)col_int(q, 6),
        .evidence_kind = (enum evidence_kind)col_int(q, 7),
        .evidence_ref = col_int(q, 8),
        .actor = col_text(q, 9),
        .trace_id = col_text(q, 10),
        .note = col_text(q, 11),
        .prev_id = col_int(q, 12),
        .time_ms = col_int(q, 14),
    };
    if (prev.n == sizeof ret->prev_hash.b)
        memcpy(ret->prev_hash.b, prev.p, prev.n);
    query_end(q);
    return ERR_OK;
}

SQL(journal_row_known, "SELECT 1 FROM state_journal WHERE id = ?");

enum err journal_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &journal_row_known);

    query_int(q, id);
    enum err e = query_next(q, ret, info);
    if (!e && *ret)
        query_end(q);
    return e;
}
