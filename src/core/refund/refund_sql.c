/* refund_sql.c -- the statements of refund_order, refund_item and refund_due. */
#include "core/refund/refund_sql.h"

#include <assert.h>
#include <inttypes.h>

static_assert(REFUND_SUCCESS == 2 && REFUND_FAILED == 3 && REFUND_REVERSED == 5, "in the SQL");

/* Without the request bytes, which only the sender needs. */
#define COLUMNS                                                                                    \
    "id, slot, pay_id, order_id, caller, account, channel, origin, request_id, digest, amount, "   \
    "currency, status, late, reason, channel_refund_id, error_code, error_message, error_class, "  \
    "step, turn_id, calls, unknown_calls, missing_count, missing_time, held, sent_time, "          \
    "next_time, query_count, evidence_kind, evidence_ref, done_time, trace_id, version, "          \
    "journal_id, journal_seq, journal_hash, create_time, update_time"

SQL(refund_insert,
    "INSERT INTO refund_order (" COLUMNS ", request_endpoint, request_body) VALUES (?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, "
    "?, ?, NULL, NULL)");
SQL(refund_item_insert,
    "INSERT INTO refund_item (refund_id, line_no, quantity, amount, create_time, "
    "update_time) VALUES (?, ?, ?, ?, ?, ?)");

SQL(refund_by_id, "SELECT " COLUMNS " FROM refund_order WHERE id = ?");
SQL(refund_by_request,
    "SELECT " COLUMNS " FROM refund_order WHERE pay_id = ? AND origin = ? AND request_id = ?");
SQL(refund_of_payment, "SELECT " COLUMNS " FROM refund_order WHERE pay_id = ? ORDER BY id LIMIT ?");
SQL(refund_items,
    "SELECT line_no, quantity, amount FROM refund_item WHERE refund_id = ? ORDER BY line_no");
SQL(refund_request, "SELECT request_endpoint, request_body FROM refund_order WHERE id = ?");

#define LINE_SUMS                                                                                  \
    "SELECT i.line_no, sum(i.quantity), sum(i.amount) FROM refund_order r JOIN refund_item i ON "  \
    "i.refund_id = r.id WHERE r.pay_id = ? AND r.status "
SQL(refund_line_sums_done, LINE_SUMS "= 2 GROUP BY i.line_no ORDER BY i.line_no");
SQL(refund_line_sums_live, LINE_SUMS "NOT IN (3, 5) GROUP BY i.line_no ORDER BY i.line_no");
SQL(refund_sum_done,
    "SELECT coalesce(sum(amount), 0) FROM refund_order WHERE pay_id = ? AND status = 2");
SQL(refund_count, "SELECT count(*) FROM refund_order WHERE pay_id = ? AND (status <> 3 OR "
                  "channel_refund_id IS NOT NULL)");
SQL(refund_last_sent,
    "SELECT coalesce(max(sent_time), 0) FROM refund_order WHERE pay_id = ? AND id <> ?");

SQL(refund_move,
    "UPDATE refund_order SET status = ?, late = ?, channel_refund_id = ?, done_time = ?, held = 0, "
    "next_time = ?, evidence_kind = ?, evidence_ref = ?, version = version + 1, " JOURNAL_HEAD_SET
    ", update_time = ? WHERE id = ? AND version = ? AND status = ?");
SQL(refund_keep,
    "UPDATE refund_order SET step = ?, turn_id = ?, calls = ?, unknown_calls = ?, missing_count = "
    "?, "
    "missing_time = ?, held = ?, sent_time = ?, next_time = ?, query_count = ?, error_code = ?, "
    "error_message = ?, error_class = ?, update_time = ? WHERE id = ? AND version = ? AND turn_id "
    "= "
    "? AND calls = ? AND unknown_calls = ? AND next_time = ?");
SQL(refund_set_request,
    "UPDATE refund_order SET request_endpoint = ?, request_body = ? WHERE id = ? "
    "AND request_body IS NULL");

DUE_TABLE(refund_due);
SQL(refund_due_page, "SELECT d.due, d.id, r.slot FROM refund_due d JOIN refund_order r ON r.id = "
                     "d.id WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");

#define OPEN_TURN                                                                                  \
    "FROM refund_due d JOIN refund_order r ON r.id = d.id AND r.next_time = d.due AND r.status "   \
    "IN "                                                                                          \
    "(0, 1, 4) "
SQL(refund_open_after, "SELECT d.due, d.id, r.slot, r.account " OPEN_TURN
                       "WHERE d.due >= ? AND (d.due > ? OR d.id > ?) ORDER BY d.due, d.id LIMIT ?");
SQL(refund_open_figures, "SELECT count(*), coalesce(sum(held), 0), coalesce(min(create_time), "
                         "0) FROM (SELECT r.held AS held, r.create_time AS create_time " OPEN_TURN
                         "ORDER BY d.due, d.id "
                         "LIMIT 10000) page");

/* More than any channel takes of one payment, with what was refused. */
#define REFUNDS_MAX 1000
#define CHANGED     "the refund was changed by somebody else"

enum err refund_sql_insert(struct tx *tx, const struct refund *r, struct err_info *info)
{
    return tx_exec(tx, &refund_insert,
                   BINDS(bind_int(r->no.id), bind_int(r->no.slot), bind_int(r->pay_no.id),
                         bind_int(r->order_no.id), bind_int(r->caller), bind_text(r->account),
                         bind_int(r->channel), bind_int(r->origin), bind_text(r->request_id),
                         bind_blob(sha256_str(&r->digest)), bind_int(money_fen(r->amount)),
                         bind_text(money_currency(&r->amount)), bind_int(r->status),
                         bind_int(r->late), bind_text(r->reason), bind_text(r->channel_refund_id),
                         bind_text(r->error_code), bind_text(r->error_message),
                         bind_int(r->error_class), bind_int(r->step), bind_int(r->turn_id),
                         bind_int(r->calls), bind_int(r->unknown_calls), bind_int(r->missing_count),
                         bind_int(r->missing_ms), bind_int(r->held), bind_int(r->sent_ms),
                         bind_int(r->next_ms), bind_int(r->query_count), bind_int(r->evidence_kind),
                         bind_int(r->evidence_ref), bind_int(r->done_ms), bind_text(r->trace_id),
                         bind_int(r->version), JOURNAL_HEAD_BINDS(&r->journal),
                         bind_int(r->create_ms), bind_int(r->update_ms)),
                   NULL, info);
}

enum err refund_sql_insert_line(struct tx *tx, int64_t refund_id, const struct refund_line *line,
                                struct err_info *info)
{
    return tx_exec(tx, &refund_item_insert,
                   BINDS(bind_int(refund_id), bind_int(line->line_no), bind_int(line->quantity),
                         bind_int(money_fen(line->amount)), bind_int(tx_now_ms(tx)),
                         bind_int(tx_now_ms(tx))),
                   NULL, info);
}

static enum err read_refund(struct query *q, struct refund *ret, struct err_info *info)
{
    unsigned slot = (unsigned)col_int(q, 1);
    struct str digest = col_blob(q, 9), hash = col_blob(q, 36);
    struct refund r = {
        .no = number_make(NUMBER_REFUND, slot, col_int(q, 0)),
        .pay_no = number_make(NUMBER_PAYMENT, slot, col_int(q, 2)),
        .order_no = number_make(NUMBER_ORDER, slot, col_int(q, 3)),
        .caller = col_int(q, 4),
        .account = col_text(q, 5),
        .channel = (enum channel_id)col_int(q, 6),
        .origin = (enum refund_origin)col_int(q, 7),
        .request_id = col_text(q, 8),
        .status = (enum refund_status)col_int(q, 12),
        .late = col_int(q, 13) != 0,
        .reason = col_text(q, 14),
        .channel_refund_id = col_text(q, 15),
        .error_code = col_text(q, 16),
        .error_message = col_text(q, 17),
        .error_class = (enum channel_class)col_int(q, 18),
        .step = (enum refund_step)col_int(q, 19),
        .turn_id = col_int(q, 20),
        .calls = col_int(q, 21),
        .unknown_calls = col_int(q, 22),
        .missing_count = col_int(q, 23),
        .missing_ms = col_int(q, 24),
        .held = col_int(q, 25) != 0,
        .sent_ms = col_int(q, 26),
        .next_ms = col_int(q, 27),
        .query_count = col_int(q, 28),
        .evidence_kind = (enum evidence_kind)col_int(q, 29),
        .evidence_ref = col_int(q, 30),
        .done_ms = col_int(q, 31),
        .trace_id = col_text(q, 32),
        .version = col_int(q, 33),
        .journal = { .id = col_int(q, 34), .seq = col_int(q, 35) },
        .create_ms = col_int(q, 37),
        .update_ms = col_int(q, 38),
    };
    if (r.status > REFUND_REVERSED || digest.n != sizeof r.digest.b ||
        hash.n != sizeof r.journal.hash.b || money_of(col_int(q, 10), col_text(q, 11), &r.amount))
        return err_internal(info, "refund row %" PRId64 " is damaged", r.no.id);
    memcpy(r.digest.b, digest.p, digest.n);
    memcpy(r.journal.hash.b, hash.p, hash.n);
    *ret = r;
    return ERR_OK;
}

static enum err read_one(struct query *q, struct refund *ret, struct err_info *info)
{
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such refund");
    enum err e = read_refund(q, ret, info), ended = query_end(q, info);
    return e ? e : ended;
}

enum err refund_sql_load(struct tx *tx, int64_t id, struct refund *ret, struct err_info *info)
{
    return read_one(tx_select(tx, &refund_by_id, BINDS(bind_int(id))), ret, info);
}

enum err refund_sql_find(struct tx *tx, int64_t pay_id, enum refund_origin origin,
                         struct str request_id, struct refund *ret, struct err_info *info)
{
    return read_one(tx_select(tx, &refund_by_request,
                              BINDS(bind_int(pay_id), bind_int(origin), bind_text(request_id))),
                    ret, info);
}

enum err refund_sql_of(struct tx *tx, int64_t pay_id, struct refund **ret, size_t *ret_n,
                       struct err_info *info)
{
    struct query *q =
        tx_select(tx, &refund_of_payment, BINDS(bind_int(pay_id), bind_int(REFUNDS_MAX)));
    struct refund *rows = NULL;
    size_t n = 0, room = 0;

    while (query_row(q)) {
        if (n == room) {
            struct refund *more = arena_array(tx_arena(tx), room ? 2 * room : 4, sizeof *more);
            if (n)
                memcpy(more, rows, n * sizeof *more);
            rows = more;
            room = room ? 2 * room : 4;
        }
        enum err e = read_refund(q, &rows[n], info);
        if (e) {
            (void)query_end(q, NULL);
            return e;
        }
        n++;
    }
    *ret = rows;
    return query_end_n(q, n, ret_n, info);
}

static enum err read_lines(struct query *q, struct money like, struct refund_line *ret, size_t max,
                           size_t *ret_n, struct err_info *info)
{
    size_t n = 0;
    enum err e = ERR_OK;

    while (!e && query_row(q)) {
        if (n == max || money_of(col_int(q, 2), money_currency(&like), &ret[n].amount)) {
            e = err_internal(info, "the lines of a refund are damaged");
            break;
        }
        ret[n].line_no = (int)col_int(q, 0);
        ret[n++].quantity = col_int(q, 1);
    }
    enum err ended = query_end_n(q, n, ret_n, e ? NULL : info);
    return e ? e : ended;
}

enum err refund_sql_lines(struct tx *tx, struct refund *r, struct err_info *info)
{
    struct refund_line *lines = arena_array(tx_arena(tx), REFUND_LINES_MAX, sizeof *lines);
    size_t n;
    enum err e = read_lines(tx_select(tx, &refund_items, BINDS(bind_int(r->no.id))), r->amount,
                            lines, REFUND_LINES_MAX, &n, info);
    if (e)
        return e;
    r->lines = lines;
    r->line_count = n;
    return ERR_OK;
}

enum err refund_sql_request(struct tx *tx, int64_t id, struct channel_request *ret,
                            struct err_info *info)
{
    struct query *q = tx_select(tx, &refund_request, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such refund");
    *ret = (struct channel_request) { col_text(q, 0), col_blob(q, 1) };
    return query_end(q, info);
}

enum err refund_sql_line_sums(struct tx *tx, int64_t pay_id, bool done, struct money like,
                              struct refund_line *ret, size_t max, size_t *ret_n,
                              struct err_info *info)
{
    return read_lines(tx_select(tx, done ? &refund_line_sums_done : &refund_line_sums_live,
                                BINDS(bind_int(pay_id))),
                      like, ret, max, ret_n, info);
}

enum err refund_sql_sum_done(struct tx *tx, int64_t pay_id, int64_t *ret_fen, struct err_info *info)
{
    return tx_select_int(tx, &refund_sum_done, BINDS(bind_int(pay_id)), ret_fen, info);
}

enum err refund_sql_count(struct tx *tx, int64_t pay_id, int64_t *ret, struct err_info *info)
{
    return tx_select_int(tx, &refund_count, BINDS(bind_int(pay_id)), ret, info);
}

enum err refund_sql_last_sent(struct tx *tx, int64_t pay_id, int64_t except_id, int64_t *ret_ms,
                              struct err_info *info)
{
    return tx_select_int(tx, &refund_last_sent, BINDS(bind_int(pay_id), bind_int(except_id)),
                         ret_ms, info);
}

enum err refund_sql_move(struct tx *tx, struct refund *r, const struct refund *to,
                         struct err_info *info)
{
    enum err e = tx_exec_one(
        tx, &refund_move,
        BINDS(bind_int(to->status), bind_int(to->late), bind_text(to->channel_refund_id),
              bind_int(to->done_ms), bind_int(to->next_ms), bind_int(to->evidence_kind),
              bind_int(to->evidence_ref), JOURNAL_HEAD_BINDS(&to->journal), bind_int(tx_now_ms(tx)),
              bind_int(r->no.id), bind_int(r->version), bind_int(r->status)),
        CHANGED, info);
    if (e)
        return e;
    *r = *to;
    r->held = false;
    r->version++;
    r->update_ms = tx_now_ms(tx);
    return ERR_OK;
}

enum err refund_sql_keep(struct tx *tx, struct refund *r, const struct refund *to,
                         struct err_info *info)
{
    enum err e = tx_exec_one(
        tx, &refund_keep,
        BINDS(bind_int(to->step), bind_int(to->turn_id), bind_int(to->calls),
              bind_int(to->unknown_calls), bind_int(to->missing_count), bind_int(to->missing_ms),
              bind_int(to->held), bind_int(to->sent_ms), bind_int(to->next_ms),
              bind_int(to->query_count), bind_text(to->error_code), bind_text(to->error_message),
              bind_int(to->error_class), bind_int(tx_now_ms(tx)), bind_int(r->no.id),
              bind_int(r->version), bind_int(r->turn_id), bind_int(r->calls),
              bind_int(r->unknown_calls), bind_int(r->next_ms)),
        CHANGED, info);
    if (e)
        return e;
    *r = *to;
    r->update_ms = tx_now_ms(tx);
    return r->next_ms ? due_insert(tx, &refund_due, r->next_ms, r->no.id, info) : ERR_OK;
}

enum err refund_sql_set_request(struct tx *tx, int64_t id, const struct channel_request *request,
                                struct err_info *info)
{
    return tx_exec_one(tx, &refund_set_request,
                       BINDS(bind_text(request->endpoint), bind_blob(request->body), bind_int(id)),
                       "the refund's request was stored by somebody else", info);
}

/* ---- the due table ---- */

enum err refund_sql_due_page(struct tx *tx, int64_t until_ms, size_t max, struct refund_turn *ret,
                             size_t *ret_n, struct err_info *info)
{
    struct query *q =
        tx_select(tx, &refund_due_page, BINDS(bind_int(until_ms), bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = (struct refund_turn) { col_int(q, 0), col_int(q, 1), (unsigned)col_int(q, 2) };
    return query_end_n(q, n, ret_n, info);
}

enum err refund_sql_open_page(struct tx *tx, const struct refund_turn_at *after, size_t max,
                              struct refund_turn_at *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(tx, &refund_open_after,
                                BINDS(bind_int(after->due_ms), bind_int(after->due_ms),
                                      bind_int(after->id), bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = (struct refund_turn_at) {
            .due_ms = col_int(q, 0),
            .id = col_int(q, 1),
            .slot = (unsigned)col_int(q, 2),
            .account = col_text(q, 3),
        };
    return query_end_n(q, n, ret_n, info);
}

enum err refund_sql_figures(struct tx *tx, struct refund_figures *ret, struct err_info *info)
{
    struct query *q = tx_select(tx, &refund_open_figures, NO_BINDS);

    if (!query_row(q))
        return query_none(q, info, ERR_INTERNAL, "a count without a row");
    *ret = (struct refund_figures) { col_int(q, 0), col_int(q, 1), col_int(q, 2) };
    return query_end(q, info);
}
