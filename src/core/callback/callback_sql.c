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

enum err callback_sql_insert(struct tx *tx, const struct callback_input *in, int64_t id,
                             enum handle_result result, struct str reason, int64_t next_retry_ms,
                             struct err_info *info)
{
    const struct notice *n = &in->notice;
    struct query *q = tx_query(tx, &callback_insert);

    query_int(q, id);
    query_int(q, in->subject.slot);
    query_text(q, in->account->config.name);
    query_text(q, n->kind.p ? n->kind : STR(""));
    query_int(q, in->subject.id);
    query_text(q, n->subject_no.p ? n->subject_no : STR(""));
    query_text(q, n->event_key);
    query_text(q, n->transport_id);
    query_blob(q, in->body.p ? in->body : STR(""));
    query_blob(q, in->headers_text.p ? in->headers_text : STR(""));
    query_blob(q, n->plain);
    query_int(q, result);
    query_text(q, reason);
    query_int(q, answer_of(in));
    query_int(q, next_retry_ms);
    query_text(q, in->trace_id);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

SQL(callback_find, "SELECT id, slot, handle_result, retry_count, next_retry_time FROM callback_log "
                   "WHERE subject_id = ? AND event_key = ?");

enum err callback_sql_find(struct tx *tx, const struct callback_input *in,
                           struct callback_stored *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_find);
    bool row;

    query_int(q, in->subject.id);
    query_text(q, in->notice.event_key);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return ERR_RETRY;
    *ret = (struct callback_stored) { .subject_id = in->subject.id };
    ret->row.no = number_make(NUMBER_CALLBACK, (unsigned)col_int(q, 1), col_int(q, 0));
    ret->row.result = (enum handle_result)col_int(q, 2);
    ret->row.retry_count = col_int(q, 3);
    ret->next_retry_ms = col_int(q, 4);
    query_end(q);
    return ERR_OK;
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
    struct query *q = tx_query(tx, &callback_load);
    bool row;

    query_int(q, id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no such callback");
    *ret = (struct callback_stored) {
        .row = row_from(q),
        .subject_id = col_int(q, 12),
        .next_retry_ms = col_int(q, 13),
        .event_key = col_text(q, 14),
        .body = col_blob(q, 15),
        .headers = col_blob(q, 16),
        .trace_id = col_text(q, 17),
    };
    query_end(q);
    return ERR_OK;
}

SQL(callback_of,
    "SELECT " ROW_COLUMNS " FROM callback_log WHERE subject_id = ? ORDER BY id LIMIT ?");

enum err callback_sql_of(struct tx *tx, int64_t subject_id, struct callback_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_of);
    size_t n = 0;
    bool row;

    query_int(q, subject_id);
    query_int(q, (int64_t)max);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        ret[n++] = row_from(q);
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(callback_count,
    "UPDATE callback_log SET callback_count = callback_count + 1, update_time = ? WHERE id = ?");

enum err callback_sql_count(struct tx *tx, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_count);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_bytes, "UPDATE callback_log SET body = ?, headers = ?, plain = ?, transport_id = ?, "
                    "response = ?, trace_id = ?,"
                    " callback_count = callback_count + 1, update_time = ? WHERE id = ?");

enum err callback_sql_bytes(struct tx *tx, int64_t id, const struct callback_input *in,
                            struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_bytes);
    query_blob(q, in->body.p ? in->body : STR(""));
    query_blob(q, in->headers_text.p ? in->headers_text : STR(""));
    query_blob(q, in->notice.plain);
    query_text(q, in->notice.transport_id);
    query_int(q, answer_of(in));
    query_text(q, in->trace_id);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_result, "UPDATE callback_log SET handle_result = ?, reason = ?, retry_count = ?, "
                     "next_retry_time = ?, update_time = ? WHERE id = ?");

enum err callback_sql_result(struct tx *tx, int64_t id, enum handle_result result,
                             struct str reason, int64_t retry_count, int64_t next_retry_ms,
                             struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_result);
    query_int(q, result);
    query_text(q, reason);
    query_int(q, retry_count);
    query_int(q, next_retry_ms);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_read,
    "UPDATE callback_log SET subject_id = ?, subject_no = ?, kind = ?, plain = ? WHERE id = ?");

enum err callback_sql_read(struct tx *tx, int64_t id, const struct callback_input *in,
                           struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_read);
    query_int(q, in->subject.id);
    query_text(q, in->notice.subject_no.p ? in->notice.subject_no : STR(""));
    query_text(q, in->notice.kind.p ? in->notice.kind : STR(""));
    query_blob(q, in->notice.plain);
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_due_insert, "INSERT INTO callback_due (due, id) VALUES (?, ?)");

enum err callback_due_sql_insert(struct tx *tx, int64_t due, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_due_insert);
    query_int(q, due);
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_due_delete, "DELETE FROM callback_due WHERE due = ? AND id = ?");

enum err callback_due_sql_delete(struct tx *tx, int64_t due, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_due_delete);
    query_int(q, due);
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(callback_due_page, "SELECT due, id FROM callback_due WHERE due <= ? ORDER BY due, id LIMIT ?");

enum err callback_due_sql_page(struct tx *tx, size_t max, struct callback_due *ret, size_t *ret_n,
                               struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_due_page);
    size_t n = 0;
    bool row;

    query_int(q, tx_now_ms(tx));
    query_int(q, (int64_t)max);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        ret[n++] = (struct callback_due) { .due = col_int(q, 0), .id = col_int(q, 1) };
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(callback_reject_add, "INSERT INTO callback_reject (id, account, reason, detail, peer, body, "
                         "headers, create_time, update_time)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");

enum err callback_reject_sql_insert(struct tx *tx, int64_t id, const struct reject_sample *s,
                                    struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_reject_add);
    query_int(q, id);
    query_text(q, s->account.p ? s->account : STR(""));
    query_text(q, str_of(notice_reason_name(s->reason)));
    query_text(q, s->detail);
    query_text(q, s->peer);
    query_blob(q, s->body);
    query_blob(q, s->headers);
    query_int(q, s->time_ms);
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

SQL(callback_reject_beyond, "SELECT id FROM callback_reject ORDER BY id DESC LIMIT 1 OFFSET ?");

enum err callback_reject_sql_beyond(struct tx *tx, size_t keep, int64_t *ret_id,
                                    struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_reject_beyond);
    bool row;

    query_int(q, (int64_t)keep);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    *ret_id = row ? col_int(q, 0) : 0;
    if (row)
        query_end(q);
    return ERR_OK;
}

SQL(callback_reject_delete, "DELETE FROM callback_reject WHERE id <= ?");

enum err callback_reject_sql_delete(struct tx *tx, int64_t up_to_id, struct err_info *info)
{
    struct query *q = tx_query(tx, &callback_reject_delete);
    query_int(q, up_to_id);
    return query_run(q, NULL, info);
}
