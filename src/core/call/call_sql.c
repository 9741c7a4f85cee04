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

    return tx_exec(
        tx, &call_insert_row,
        BINDS(bind_int(id), bind_int(subject.slot), bind_int(subject.id), bind_text(account),
              bind_int(kind), bind_int(answer->outcome), bind_int(answer->class),
              bind_text(str_sub(answer->code, 0, CODE_MAX)),
              bind_text(str_sub(answer->message, 0, MESSAGE_MAX)), bind_int(answer->http_status),
              bind_blob(str_sub(answer->request, 0, BODY_MAX)),
              bind_blob(str_sub(answer->answer, 0, BODY_MAX)),
              bind_text(str_sub(answer->channel_request_id, 0, ID_MAX)), bind_int(answer->took_us),
              bind_text(trace_id), bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
        NULL, info);
}

enum err calls_of(struct tx *tx, int64_t subject_id, struct call_row *ret, size_t max,
                  size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    struct query *q =
        tx_select(tx, &calls_of_subject, BINDS(bind_int(subject_id), bind_int((int64_t)max)));
    while (n < max && query_row(q))
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
    return query_end_n(q, n, ret_n, info);
}

/* ---- retention: by rising id, which carries its time, so that no index on times is needed ---- */

SQL(calls_bound, "SELECT id FROM channel_call ORDER BY id LIMIT 1 OFFSET ?");
SQL(calls_delete, "DELETE FROM channel_call WHERE id < ? AND id <= ?");

enum err calls_retire(struct tx *tx, int64_t before_ms, int64_t *ret_n, struct err_info *info)
{
    int64_t bound;
    enum err e =
        tx_select_int(tx, &calls_bound, BINDS(bind_int(CALLS_RETIRE_ROWS - 1)), &bound, info);

    if (e)
        return e;
    if (bound == 0) /* fewer than a rule's worth are left */
        bound = INT64_MAX;
    return tx_exec(tx, &calls_delete, BINDS(bind_int(number_first_id(before_ms)), bind_int(bound)),
                   ret_n, info);
}
