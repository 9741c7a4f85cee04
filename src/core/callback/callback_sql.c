/* callback_sql.c -- every statement on callback_log, callback_due and callback_reject. */
#include "core/callback/callback_sql.h"

#include <assert.h>

static_assert(HANDLE_PENDING == 0 && HANDLE_DONE == 1 && HANDLE_FAILED == 2 && HANDLE_NOTHING == 3,
              "persisted");
static_assert(ANSWER_OK == 0 && ANSWER_LATER == 1 && ANSWER_BAD == 2, "persisted");

SQL(callback_insert, "INSERT INTO callback_log (id, slot, account, kind, subject_id, subject_no, "
                     "event_key, transport_id, body, headers, plain,"
                     " sign_verify_result, handle_result, reason, response, callback_count, "
                     "retry_count, next_retry_time, trace_id,"
                     " create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, "
                     "?, 1, 0, ?, ?, ?, ?)");

static enum notice_answer answer_of(const struct callback_input *in)
{
    return in->raw_only ? ANSWER_LATER : ANSWER_OK;
}

/* For columns that are never NULL. */
static struct str filled(struct str s)
{
    return s.p ? s : STR("");
}

enum err callback_sql_insert(struct tx *tx, const struct callback_input *in, int64_t id,
                             enum handle_result result, struct str reason, int64_t next_retry_ms,
                             struct err_info *info)
{
    const struct notice *n = &in->notice;

    return tx_exec(
        tx, &callback_insert,
        BINDS(bind_int(id), bind_int(in->subject.slot), bind_text(in->account->config.name),
              bind_text(filled(n->kind)), bind_int(in->subject.id),
              bind_text(n->subject_no.p ? n->subject_no : STR("")), bind_text(n->event_key),
              bind_text(n->transport_id), bind_blob(filled(in->body)),
              bind_blob(in->headers_text.p ? in->headers_text : STR("")), bind_blob(n->plain),
              bind_int(result), bind_text(reason), bind_int(answer_of(in)), bind_int(next_retry_ms),
              bind_text(in->trace_id), bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
        NULL, info);
}

SQL(callback_find, "SELECT id, slot, handle_result, retry_count, next_retry_time FROM callback_log "
                   "WHERE subject_id = ? AND event_key = ?");

enum err callback_sql_find(struct tx *tx, const struct callback_input *in,
                           struct callback_stored *ret, struct err_info *info)
{
    struct query *q = tx_select(tx, &callback_find,
                                BINDS(bind_int(in->subject.id), bind_text(in->notice.event_key)));
    if (!query_row(q))
        return query_none(q, info, ERR_RETRY, "the callback that was there is gone");
    *ret = (struct callback_stored) { .subject_id = in->subject.id };
    ret->row.no = number_make(NUMBER_CALLBACK, (unsigned)col_int(q, 1), col_int(q, 0));
    ret->row.result = (enum handle_result)col_int(q, 2);
    ret->row.retry_count = col_int(q, 3);
    ret->next_retry_ms = col_int(q, 4);
    return query_end(q, info);
}

#define ROW_COLUMNS                                                                                \
    "id, slot, account, kind, subject_no, transport_id, reason, handle_result, callback_count, "   \
    "retry_count, create_time, update_time"

static struct callback_row row_from(struct query *q)
{
    return (struct callback_row) {
        .no = number_make(NUMBER_CALLBACK, (unsigned)col_int(q, 1), col_int(q, 0)),
        .account = col_text(q, 2),
        .kind = col_text(q, 3),
        .subject_no = col_text(q, 4),
        .transport_id = col_text(q, 5),
        .reason = col_text(q, 6),
        .result = (enum handle_result)col_int(q, 7),
        .count = col_int(q, 8),
        .retry_count = col_int(q, 9),
        .create_ms = col_int(q, 10),
        .update_ms = col_int(q, 11),
    };
}

SQL(callback_load, "SELECT " ROW_COLUMNS ", subject_id, next_retry_time, event_key, body, headers, "
                   "trace_id FROM callback_log WHERE id = ?");

enum err callback_sql_load(struct tx *tx, int64_t id, struct callback_stored *ret,
                           struct err_info *info)
{
    struct query *q = tx_select(tx, &callback_load, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such callback");
    *ret = (struct callback_stored) {
        .row = row_from(q),
        .subject_id = col_int(q, 12),
        .next_retry_ms = col_int(q, 13),
        .event_key = col_text(q, 14),
        .body = col_blob(q, 15),
        .headers = col_blob(q, 16),
        .trace_id = col_text(q, 17),
    };
    return query_end(q, info);
}

SQL(callback_of,
    "SELECT " ROW_COLUMNS " FROM callback_log WHERE subject_id = ? ORDER BY id LIMIT ?");

enum err callback_sql_of(struct tx *tx, int64_t subject_id, struct callback_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    struct query *q =
        tx_select(tx, &callback_of, BINDS(bind_int(subject_id), bind_int((int64_t)max)));
    while (n < max && query_row(q))
        ret[n++] = row_from(q);
    return query_end_n(q, n, ret_n, info);
}

SQL(callback_count,
    "UPDATE callback_log SET callback_count = callback_count + 1, update_time = ? WHERE id = ?");

enum err callback_sql_count(struct tx *tx, int64_t id, struct err_info *info)
{
    return tx_exec(tx, &callback_count, BINDS(bind_int(tx_now_ms(tx)), bind_int(id)), NULL, info);
}

SQL(callback_bytes, "UPDATE callback_log SET body = ?, headers = ?, plain = ?, transport_id = ?, "
                    "response = ?, trace_id = ?,"
                    " callback_count = callback_count + 1, update_time = ? WHERE id = ?");

enum err callback_sql_bytes(struct tx *tx, int64_t id, const struct callback_input *in,
                            struct err_info *info)
{
    return tx_exec(tx, &callback_bytes,
                   BINDS(bind_blob(filled(in->body)),
                         bind_blob(in->headers_text.p ? in->headers_text : STR("")),
                         bind_blob(in->notice.plain), bind_text(in->notice.transport_id),
                         bind_int(answer_of(in)), bind_text(in->trace_id), bind_int(tx_now_ms(tx)),
                         bind_int(id)),
                   NULL, info);
}

SQL(callback_result, "UPDATE callback_log SET handle_result = ?, reason = ?, retry_count = ?, "
                     "next_retry_time = ?, update_time = ? WHERE id = ?");

enum err callback_sql_result(struct tx *tx, int64_t id, enum handle_result result,
                             struct str reason, int64_t retry_count, int64_t next_retry_ms,
                             struct err_info *info)
{
    return tx_exec(tx, &callback_result,
                   BINDS(bind_int(result), bind_text(reason), bind_int(retry_count),
                         bind_int(next_retry_ms), bind_int(tx_now_ms(tx)), bind_int(id)),
                   NULL, info);
}

SQL(callback_read,
    "UPDATE callback_log SET subject_id = ?, subject_no = ?, kind = ?, plain = ? WHERE id = ?");

enum err callback_sql_read(struct tx *tx, int64_t id, const struct callback_input *in,
                           struct err_info *info)
{
    return tx_exec(tx, &callback_read,
                   BINDS(bind_int(in->subject.id),
                         bind_text(in->notice.subject_no.p ? in->notice.subject_no : STR("")),
                         bind_text(filled(in->notice.kind)), bind_blob(in->notice.plain),
                         bind_int(id)),
                   NULL, info);
}

DUE_TABLE(callback_due);
SQL(callback_due_page, "SELECT due, id FROM callback_due WHERE due <= ? ORDER BY due, id LIMIT ?");

enum err callback_due_sql_page(struct tx *tx, size_t max, struct callback_due *ret, size_t *ret_n,
                               struct err_info *info)
{
    size_t n = 0;

    struct query *q =
        tx_select(tx, &callback_due_page, BINDS(bind_int(tx_now_ms(tx)), bind_int((int64_t)max)));
    while (n < max && query_row(q))
        ret[n++] = (struct callback_due) { .due = col_int(q, 0), .id = col_int(q, 1) };
    return query_end_n(q, n, ret_n, info);
}

SQL(callback_reject_add, "INSERT INTO callback_reject (id, account, reason, detail, peer, body, "
                         "headers, create_time, update_time)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");

enum err callback_reject_sql_insert(struct tx *tx, int64_t id, const struct reject_sample *s,
                                    struct err_info *info)
{
    return tx_exec(tx, &callback_reject_add,
                   BINDS(bind_int(id), bind_text(filled(s->account)),
                         bind_text(str_of(notice_reason_name(s->reason))), bind_text(s->detail),
                         bind_text(s->peer), bind_blob(s->body), bind_blob(s->headers),
                         bind_int(s->time_ms), bind_int(tx_now_ms(tx))),
                   NULL, info);
}

SQL(callback_reject_beyond, "SELECT id FROM callback_reject ORDER BY id DESC LIMIT 1 OFFSET ?");

enum err callback_reject_sql_beyond(struct tx *tx, size_t keep, int64_t *ret_id,
                                    struct err_info *info)
{
    return tx_select_int(tx, &callback_reject_beyond, BINDS(bind_int((int64_t)keep)), ret_id, info);
}

SQL(callback_reject_delete, "DELETE FROM callback_reject WHERE id <= ?");

enum err callback_reject_sql_delete(struct tx *tx, int64_t up_to_id, struct err_info *info)
{
    return tx_exec(tx, &callback_reject_delete, BINDS(bind_int(up_to_id)), NULL, info);
}
