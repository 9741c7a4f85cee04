/* call_sql.c -- the statements of channel_call. */
#include "core/call/call.h"

#define CODE_MAX    64
#define MESSAGE_MAX 512
#define ID_MAX      128
#define BODY_MAX    16384 /* of a request or an answer; the rest is not worth keeping */

SQL(call_insert_row, "INSERT INTO channel_call (id, slot, subject_id, account, kind, outcome, "
                     "class, code, message, http_status, request, answer,"
                     " channel_request_id, took_us, trace_id, create_time, update_time) VALUES (?, "
                     "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

SQL(calls_of_subject, "SELECT id, create_time, took_us, kind, outcome, class, account, code, "
                      "message, channel_request_id, request, answer, http_status"
                      " FROM channel_call WHERE subject_id = ? ORDER BY id LIMIT ?");

enum err call_insert(struct tx *tx, int64_t id, enum call_kind kind, struct number subject,
                     struct str account, const struct channel_answer *answer, struct str trace_id,
                     struct err_info *info)
{
    if (id == 0)
        return err_internal(info, "the transaction is out of ids for a call");
    struct query *q = tx_query(tx, &call_insert_row);

    query_int(q, id);
    query_int(q, subject.slot);
    query_int(q, subject.id);
    query_text(q, account);
    query_int(q, (int64_t)kind);
    query_int(q, (int64_t)answer->outcome);
    query_int(q, (int64_t)answer->class);
    query_text(q, str_sub(answer->code, 0, CODE_MAX));
    query_text(q, str_sub(answer->message, 0, MESSAGE_MAX));
    query_int(q, answer->http_status);
    query_blob(q, str_sub(answer->request, 0, BODY_MAX));
    query_blob(q, str_sub(answer->answer, 0, BODY_MAX));
    query_text(q, str_sub(answer->channel_request_id, 0, ID_MAX));
    query_int(q, answer->took_us);
    query_text(q, trace_id);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

enum err calls_of(struct tx *tx, int64_t subject_id, struct call_row *ret, size_t max,
                  size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &calls_of_subject);
    size_t n = 0;

    query_int(q, subject_id);
    query_int(q, (int64_t)max);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n < max)
            ret[n++] = (struct call_row) {
                .id = col_int(q, 0),
                .create_ms = col_int(q, 1),
                .took_us = col_int(q, 2),
                .kind = (enum call_kind)col_int(q, 3),
                .outcome = (enum channel_outcome)col_int(q, 4),
                .class = (enum channel_class)col_int(q, 5),
                .account = col_text(q, 6),
                .code = col_text(q, 7),
                .message = col_text(q, 8),
                .channel_request_id = col_text(q, 9),
                .request = col_blob(q, 10),
                .answer = col_blob(q, 11),
                .http_status = (int)col_int(q, 12),
            };
    }
    *ret_n = n;
    return ERR_OK;
}

/* ---- retention: by rising id, which carries its time, so that no index on times is needed ---- */

SQL(calls_bound, "SELECT id FROM channel_call ORDER BY id LIMIT 1 OFFSET ?");
SQL(calls_delete, "DELETE FROM channel_call WHERE id < ? AND id <= ?");

enum err calls_retire(struct tx *tx, int64_t before_ms, int64_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &calls_bound);
    int64_t bound = INT64_MAX; /* fewer than a rule's worth are left */
    bool row;

    query_int(q, CALLS_RETIRE_ROWS - 1);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (row) {
        bound = col_int(q, 0);
        query_end(q);
    }
    q = tx_query(tx, &calls_delete);
    query_int(q, number_first_id(before_ms));
    query_int(q, bound);
    return query_run(q, ret_n, info);
}
