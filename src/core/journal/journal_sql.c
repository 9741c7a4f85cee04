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
    return tx_exec(tx, &journal_insert_row,
                   BINDS(bind_int(row->id), bind_int(row->subject.slot),
                         bind_int(row->subject.kind), bind_int(row->subject.id), bind_int(row->seq),
                         bind_int(row->from), bind_int(row->to), bind_int(row->cause),
                         bind_int((int64_t)row->evidence_kind), bind_int(row->evidence_ref),
                         bind_text(row->actor), bind_text(row->trace_id), bind_text(row->note),
                         bind_int(row->prev_id), bind_blob(sha256_str(&row->prev_hash)),
                         bind_int(row->time_ms), bind_int(row->time_ms)),
                   NULL, info);
}

enum err journal_sql_load(struct tx *tx, int64_t id, struct journal_row *ret, struct err_info *info)
{
    struct query *q = tx_select(tx, &journal_by_id, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no journal row %" PRId64, id);
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
    return query_end(q, info);
}

SQL(journal_row_known, "SELECT 1 FROM state_journal WHERE id = ?");

enum err journal_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    int64_t there;
    enum err e = tx_select_int(tx, &journal_row_known, BINDS(bind_int(id)), &there, info);
    if (!e)
        *ret = there;
    return e;
}
