/* order_sql.c -- the statements of order_info, order_item and order_due. */
#include "core/order/order_sql.h"

#include <inttypes.h>

#define COLUMNS                                                                                    \
    "id, slot, caller, merchant_order_no, user_id, subject, order_amount, discount, shipping, "    \
    "tax, pay_amount, currency,"                                                                   \
    " order_status, refund_status, inline_order, pay_id, channel, transaction_id, pay_time, "      \
    "expire_time, cancel_requested,"                                                               \
    " cancel_reason, cancel_time, request_id, digest, remark, trace_id, version, journal_id, "     \
    "journal_seq, journal_hash,"                                                                   \
    " create_time, update_time"

SQL(order_insert, "INSERT INTO order_info (id, slot, caller, order_key, merchant_order_no, "
                  "user_id, subject, order_amount, discount, shipping,"
                  " tax, pay_amount, currency, order_status, refund_status, inline_order, pay_id, "
                  "channel, transaction_id, pay_time,"
                  " expire_time, cancel_requested, cancel_reason, cancel_time, request_id, digest, "
                  "remark, trace_id, version, journal_id,"
                  " journal_seq, journal_hash, create_time, update_time)"
                  " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, NULL, 0, NULL, 0, ?, "
                  "0, NULL, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

SQL(order_item_insert,
    "INSERT INTO order_item (order_id, line_no, sku, name, unit_price, quantity, line_amount, "
    "discount, paid_share,"
    " refunded_quantity, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)");

SQL(order_by_id, "SELECT " COLUMNS " FROM order_info WHERE id = ?");
SQL(order_by_key, "SELECT " COLUMNS " FROM order_info WHERE caller = ? AND order_key = ?");
SQL(merchant_no_by_id, "SELECT merchant_order_no FROM order_info WHERE id = ?");

SQL(order_items, "SELECT line_no, sku, name, unit_price, quantity, line_amount, discount, "
                 "paid_share, refunded_quantity"
                 " FROM order_item WHERE order_id = ? ORDER BY line_no");

#define LIST_FILTER                                                                                \
    " AND id < ? AND id >= ? AND (? < 0 OR order_status = ?) AND (? IS NULL OR merchant_order_no " \
    "= ?) ORDER BY id DESC LIMIT ?"
SQL(order_list_user,
    "SELECT " COLUMNS " FROM order_info WHERE user_id = ? AND caller = ?" LIST_FILTER);
SQL(order_list_all, "SELECT " COLUMNS " FROM order_info WHERE caller = ?" LIST_FILTER);

/* What every move ends with. The values are those of the order as it shall be, the guard's those of
 * the order as it is. */
#define CHANGED "version = version + 1, update_time = ?"
#define GUARD   " WHERE id = ? AND order_status = ? AND version = ?"
#define EDGE    JOURNAL_HEAD_SET ", " CHANGED GUARD

#define CHANGED_BINDS(next, o)                                                                     \
    bind_int((next)->update_ms), bind_int((o)->no.id), bind_int((o)->status), bind_int((o)->version)
#define EDGE_BINDS(next, o) JOURNAL_HEAD_BINDS(&(next)->journal), CHANGED_BINDS(next, o)

SQL(order_attempt, "UPDATE order_info SET order_status = 1, " EDGE
                   " AND cancel_requested = 0 AND (expire_time = 0 OR expire_time > ?)");
SQL(order_paid, "UPDATE order_info SET order_status = 2, pay_id = ?, channel = ?, transaction_id = "
                "?, pay_time = ?, " EDGE " AND pay_id IS NULL");
SQL(order_status_only, "UPDATE order_info SET order_status = ?, " EDGE);

SQL(order_refunds, "UPDATE order_info SET refund_status = ?, " CHANGED GUARD);
SQL(order_item_refunded, "UPDATE order_item SET refunded_quantity = ?, update_time = ? WHERE "
                         "order_id = ? AND line_no = ? AND refunded_quantity = ?");
SQL(order_cancel_requested,
    "UPDATE order_info SET cancel_requested = ?, cancel_reason = ?, cancel_time = ?, " CHANGED GUARD
    " AND cancel_requested = 0");

DUE_TABLE(order_due);
SQL(order_due_page, "SELECT d.due, d.id, o.slot FROM order_due d JOIN order_info o ON o.id = d.id "
                    "WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");

enum err order_sql_insert(struct tx *tx, const struct order *o, struct str order_key,
                          struct err_info *info)
{
    return tx_exec(
        tx, &order_insert,
        BINDS(bind_int(o->no.id), bind_int(o->no.slot), bind_int(o->caller), bind_text(order_key),
              bind_text(o->merchant_order_no), bind_text(o->user_id), bind_text(o->subject),
              bind_int(money_fen(o->order_amount)), bind_int(money_fen(o->discount)),
              bind_int(money_fen(o->shipping)), bind_int(money_fen(o->tax)),
              bind_int(money_fen(o->pay_amount)), bind_text(money_currency(&o->pay_amount)),
              bind_int(o->status), bind_int(o->inline_order), bind_int(o->expire_ms),
              bind_text(o->request_id), bind_blob(sha256_str(&o->digest)), bind_text(o->remark),
              bind_text(o->trace_id), bind_int(o->version), JOURNAL_HEAD_BINDS(&o->journal),
              bind_int(o->create_ms), bind_int(o->update_ms)),
        NULL, info);
}

enum err order_sql_insert_item(struct tx *tx, int64_t order_id, const struct order_item *item,
                               struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(tx, &order_item_insert,
                   BINDS(bind_int(order_id), bind_int(item->line_no), bind_text(item->sku),
                         bind_text(item->name), bind_int(money_fen(item->unit_price)),
                         bind_int(item->quantity), bind_int(money_fen(item->line_amount)),
                         bind_int(money_fen(item->discount)), bind_int(money_fen(item->paid_share)),
                         bind_int(now), bind_int(now)),
                   NULL, info);
}

static enum err read_order(struct query *q, struct order *ret, struct err_info *info)
{
    unsigned slot = (unsigned)col_int(q, 1);
    struct str currency = col_text(q, 11), digest = col_blob(q, 24), hash = col_blob(q, 30);
    struct order o = {
        .no = number_make(NUMBER_ORDER, slot, col_int(q, 0)),
        .caller = col_int(q, 2),
        .merchant_order_no = col_text(q, 3),
        .user_id = col_text(q, 4),
        .subject = col_text(q, 5),
        .status = (enum order_status)col_int(q, 12),
        .refund_status = (int)col_int(q, 13),
        .inline_order = col_int(q, 14) != 0,
        .channel = (int)col_int(q, 16),
        .transaction_id = col_text(q, 17),
        .pay_ms = col_int(q, 18),
        .expire_ms = col_int(q, 19),
        .cancel_requested = (enum order_cancel)col_int(q, 20),
        .cancel_reason = col_text(q, 21),
        .cancel_ms = col_int(q, 22),
        .request_id = col_text(q, 23),
        .remark = col_text(q, 25),
        .trace_id = col_text(q, 26),
        .version = col_int(q, 27),
        .journal = { .id = col_int(q, 28), .seq = col_int(q, 29) },
        .create_ms = col_int(q, 31),
        .update_ms = col_int(q, 32),
    };
    if (!col_is_null(q, 15))
        o.pay_no = number_make(NUMBER_PAYMENT, slot, col_int(q, 15));
    if (o.status > ORDER_COMPLETED || digest.n != sizeof o.digest.b ||
        hash.n != sizeof o.journal.hash.b || money_of(col_int(q, 6), currency, &o.order_amount) ||
        money_of(col_int(q, 7), currency, &o.discount) ||
        money_of(col_int(q, 8), currency, &o.shipping) ||
        money_of(col_int(q, 9), currency, &o.tax) ||
        money_of(col_int(q, 10), currency, &o.pay_amount))
        return err_internal(info, "order row %" PRId64 " is damaged", o.no.id);
    memcpy(o.digest.b, digest.p, digest.n);
    memcpy(o.journal.hash.b, hash.p, hash.n);
    *ret = o;
    return ERR_OK;
}

static enum err read_one(struct query *q, struct order *ret, struct err_info *info)
{
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such order");
    enum err e = read_order(q, ret, info);
    query_end(q, NULL);
    return e;
}

enum err order_sql_load(struct tx *tx, int64_t id, struct order *ret, struct err_info *info)
{
    return read_one(tx_select(tx, &order_by_id, BINDS(bind_int(id))), ret, info);
}

enum err order_sql_find(struct tx *tx, int64_t caller, struct str order_key, struct order *ret,
                        struct err_info *info)
{
    return read_one(tx_select(tx, &order_by_key, BINDS(bind_int(caller), bind_text(order_key))),
                    ret, info);
}

enum err order_sql_merchant_no(struct tx *tx, int64_t id, struct str *ret, struct err_info *info)
{
    struct query *q = tx_select(tx, &merchant_no_by_id, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_none(q, info, ERR_INTERNAL, "a payment without its order %" PRId64, id);
    *ret = col_text(q, 0);
    return query_end(q, info);
}

static enum err read_item(struct query *q, const struct order *o, struct order_item *ret,
                          struct err_info *info)
{
    struct str currency = money_currency(&o->pay_amount);

    *ret = (struct order_item) {
        .line_no = (int)col_int(q, 0),
        .sku = col_text(q, 1),
        .name = col_text(q, 2),
        .quantity = col_int(q, 4),
        .refunded_quantity = col_int(q, 8),
    };
    if (money_of(col_int(q, 3), currency, &ret->unit_price) ||
        money_of(col_int(q, 5), currency, &ret->line_amount) ||
        money_of(col_int(q, 6), currency, &ret->discount) ||
        money_of(col_int(q, 7), currency, &ret->paid_share))
        return err_internal(info, "line %d of order %" PRId64 " is damaged", ret->line_no,
                            o->no.id);
    return ERR_OK;
}

enum err order_sql_items(struct tx *tx, struct order *o, struct err_info *info)
{
    struct query *q = tx_select(tx, &order_items, BINDS(bind_int(o->no.id)));
    struct order_item *items = arena_array(tx_arena(tx), ORDER_ITEMS_MAX, sizeof *items);
    size_t n = 0;
    enum err e = ERR_OK;

    while (!e && query_row(q))
        e = n < ORDER_ITEMS_MAX
                ? read_item(q, o, &items[n++], info)
                : err_internal(info, "order %" PRId64 " has too many lines", o->no.id);
    enum err end = query_end(q, info);
    if (e || end)
        return e ? e : end;
    o->items = items;
    o->item_count = n;
    return ERR_OK;
}

enum err order_sql_list(struct tx *tx, int64_t caller, const struct order_filter *f,
                        struct order *ret, size_t *ret_n, struct err_info *info)
{
    struct str merchant_order_no = f->merchant_order_no.n ? f->merchant_order_no : STR_NONE;
    int64_t before = f->before_id ? f->before_id : INT64_MAX;
    int64_t to = f->created_to_ms ? number_first_id(f->created_to_ms) : INT64_MAX;
    struct binds binds =
        BINDS(bind_text(f->user_id), bind_int(caller), bind_int(before < to ? before : to),
              bind_int(f->created_from_ms ? number_first_id(f->created_from_ms) : 0),
              bind_int(f->status), bind_int(f->status), bind_text(merchant_order_no),
              bind_text(merchant_order_no), bind_int((int64_t)f->limit));
    struct query *q = f->user_id.n ? tx_select(tx, &order_list_user, binds)
                                   : tx_select(tx, &order_list_all, binds_skip(binds, 1));
    size_t n = 0;
    enum err e = ERR_OK;

    while (!e && n < f->limit && query_row(q))
        e = read_order(q, &ret[n++], info);
    enum err end = query_end(q, info);
    if (e || end)
        return e ? e : end;
    *ret_n = n;
    return ERR_OK;
}

/* The statement that makes `next` of *o. */
static enum err update(struct tx *tx, struct order *o, const struct order *next,
                       const struct sql *sql, struct binds binds, struct err_info *info)
{
    enum err e = tx_exec_one(tx, sql, binds, "the order was moved by somebody else", info);
    if (!e)
        *o = *next;
    return e;
}

static struct order changed(struct tx *tx, const struct order *o)
{
    struct order next = *o;

    next.version++;
    next.update_ms = tx_now_ms(tx);
    return next;
}

static struct order moved(struct tx *tx, const struct order *o, const struct journal_head *head,
                          enum order_status to)
{
    struct order next = changed(tx, o);

    next.status = to;
    next.journal = *head;
    return next;
}

enum err order_sql_attempt(struct tx *tx, struct order *o, const struct journal_head *head,
                           struct err_info *info)
{
    struct order next = moved(tx, o, head, ORDER_PAYING);

    return update(tx, o, &next, &order_attempt,
                  BINDS(EDGE_BINDS(&next, o), bind_int(tx_now_ms(tx))), info);
}

enum err order_sql_paid(struct tx *tx, struct order *o, const struct journal_head *head,
                        const struct order_paid *paid, struct err_info *info)
{
    struct order next = moved(tx, o, head, ORDER_PAID);

    next.pay_no = paid->pay_no;
    next.channel = paid->channel;
    next.transaction_id = paid->transaction_id;
    next.pay_ms = paid->pay_ms;
    return update(tx, o, &next, &order_paid,
                  BINDS(bind_int(paid->pay_no.id), bind_int(paid->channel),
                        bind_text(paid->transaction_id), bind_int(paid->pay_ms),
                        EDGE_BINDS(&next, o)),
                  info);
}

enum err order_sql_status(struct tx *tx, struct order *o, const struct journal_head *head,
                          enum order_status to, struct err_info *info)
{
    struct order next = moved(tx, o, head, to);

    return update(tx, o, &next, &order_status_only, BINDS(bind_int(to), EDGE_BINDS(&next, o)),
                  info);
}

enum err order_sql_refunds(struct tx *tx, struct order *o, enum order_refunds now,
                           struct err_info *info)
{
    struct order next = changed(tx, o);

    next.refund_status = (int)now;
    return update(tx, o, &next, &order_refunds, BINDS(bind_int(now), CHANGED_BINDS(&next, o)),
                  info);
}

enum err order_sql_item_refunded(struct tx *tx, int64_t order_id, const struct order_item *item,
                                 int64_t quantity, struct err_info *info)
{
    return tx_exec_one(tx, &order_item_refunded,
                       BINDS(bind_int(quantity), bind_int(tx_now_ms(tx)), bind_int(order_id),
                             bind_int(item->line_no), bind_int(item->refunded_quantity)),
                       "the line was changed by somebody else", info);
}

enum err order_sql_request_cancel(struct tx *tx, struct order *o, enum order_cancel why,
                                  struct str reason, struct err_info *info)
{
    struct order next = changed(tx, o);

    next.cancel_requested = why;
    next.cancel_reason = reason;
    next.cancel_ms = tx_now_ms(tx);
    return update(
        tx, o, &next, &order_cancel_requested,
        BINDS(bind_int(why), bind_text(reason), bind_int(next.cancel_ms), CHANGED_BINDS(&next, o)),
        info);
}

enum err order_sql_due_page(struct tx *tx, int64_t until_ms, size_t max, struct order_due *ret,
                            size_t *ret_n, struct err_info *info)
{
    struct query *q =
        tx_select(tx, &order_due_page, BINDS(bind_int(until_ms), bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = (struct order_due) { col_int(q, 0), col_int(q, 1), (unsigned)col_int(q, 2) };
    return query_end_n(q, n, ret_n, info);
}
