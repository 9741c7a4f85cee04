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
    "SELECT " COLUMNS " FROM order_info WHERE caller = ? AND user_id = ?" LIST_FILTER);
SQL(order_list_all, "SELECT " COLUMNS " FROM order_info WHERE caller = ?" LIST_FILTER);

#define HEAD                                                                                       \
    "version = version + 1, journal_id = ?, journal_seq = ?, journal_hash = ?, update_time = ?"
#define GUARD " WHERE id = ? AND order_status = ? AND version = ?"

SQL(order_attempt, "UPDATE order_info SET order_status = 1, " HEAD GUARD
                   " AND cancel_requested = 0 AND (expire_time = 0 OR expire_time > ?)");
SQL(order_paid, "UPDATE order_info SET order_status = 2, pay_id = ?, channel = ?, transaction_id = "
                "?, pay_time = ?, " HEAD GUARD " AND pay_id IS NULL");
SQL(order_status_only, "UPDATE order_info SET order_status = ?, " HEAD GUARD);

SQL(order_cancel_requested,
    "UPDATE order_info SET cancel_requested = ?, cancel_reason = ?, cancel_time = ?, version = "
    "version + 1, update_time = ?" GUARD " AND cancel_requested = 0");

SQL(order_due_insert, "INSERT INTO order_due (due, id) VALUES (?, ?)");
SQL(order_due_delete, "DELETE FROM order_due WHERE due = ? AND id = ?");
SQL(order_due_page, "SELECT d.due, d.id, o.slot FROM order_due d JOIN order_info o ON o.id = d.id "
                    "WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");

static void bind_head(struct query *q, const struct journal_head *head, int64_t now_ms)
{
    query_int(q, head->id);
    query_int(q, head->seq);
    query_blob(q, sha256_str(&head->hash));
    query_int(q, now_ms);
}

static void bind_guard(struct query *q, const struct order *o)
{
    query_int(q, o->no.id);
    query_int(q, (int64_t)o->status);
    query_int(q, o->version);
}

static enum err one_row(struct query *q, struct err_info *info)
{
    int64_t changed;
    enum err e = query_run(q, &changed, info);
    if (!e && changed != 1)
        return err_set(info, ERR_RETRY, "the order was moved by somebody else");
    return e;
}

enum err order_sql_insert(struct tx *tx, const struct order *o, struct str order_key,
                          struct err_info *info)
{
    struct query *q = tx_query(tx, &order_insert);

    query_int(q, o->no.id);
    query_int(q, o->no.slot);
    query_int(q, o->caller);
    query_text(q, order_key);
    query_text(q, o->merchant_order_no);
    query_text(q, o->user_id);
    query_text(q, o->subject);
    query_int(q, money_fen(o->order_amount));
    query_int(q, money_fen(o->discount));
    query_int(q, money_fen(o->shipping));
    query_int(q, money_fen(o->tax));
    query_int(q, money_fen(o->pay_amount));
    query_text(q, money_currency(&o->pay_amount));
    query_int(q, (int64_t)o->status);
    query_int(q, o->inline_order);
    query_int(q, o->expire_ms);
    query_text(q, o->request_id);
    query_blob(q, sha256_str(&o->digest));
    query_text(q, o->remark);
    query_text(q, o->trace_id);
    query_int(q, o->version);
    query_int(q, o->journal.id);
    query_int(q, o->journal.seq);
    query_blob(q, sha256_str(&o->journal.hash));
    query_int(q, o->create_ms);
    query_int(q, o->update_ms);
    return query_run(q, NULL, info);
}

enum err order_sql_insert_item(struct tx *tx, int64_t order_id, const struct order_item *item,
                               struct err_info *info)
{
    struct query *q = tx_query(tx, &order_item_insert);
    int64_t now = tx_now_ms(tx);

    query_int(q, order_id);
    query_int(q, item->line_no);
    query_text(q, item->sku);
    query_text(q, item->name);
    query_int(q, money_fen(item->unit_price));
    query_int(q, item->quantity);
    query_int(q, money_fen(item->line_amount));
    query_int(q, money_fen(item->discount));
    query_int(q, money_fen(item->paid_share));
    query_int(q, now);
    query_int(q, now);
    return query_run(q, NULL, info);
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
    bool row;
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no such order");
    e = read_order(q, ret, info);
    query_end(q);
    return e;
}

enum err order_sql_load(struct tx *tx, int64_t id, struct order *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_by_id);

    query_int(q, id);
    return read_one(q, ret, info);
}

enum err order_sql_find(struct tx *tx, int64_t caller, struct str order_key, struct order *ret,
                        struct err_info *info)
{
    struct query *q = tx_query(tx, &order_by_key);

    query_int(q, caller);
    query_text(q, order_key);
    return read_one(q, ret, info);
}

enum err order_sql_merchant_no(struct tx *tx, int64_t id, struct str *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &merchant_no_by_id);
    bool row;

    query_int(q, id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_internal(info, "a payment without its order %" PRId64, id);
    *ret = col_text(q, 0);
    query_end(q);
    return ERR_OK;
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
    struct query *q = tx_query(tx, &order_items);
    struct order_item *items = arena_array(tx_arena(tx), ORDER_ITEMS_MAX, sizeof *items);
    size_t n = 0;

    query_int(q, o->no.id);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        e = n < ORDER_ITEMS_MAX
                ? read_item(q, o, &items[n++], info)
                : err_internal(info, "order %" PRId64 " has too many lines", o->no.id);
        if (e) {
            query_end(q);
            return e;
        }
    }
    o->items = items;
    o->item_count = n;
    return ERR_OK;
}

enum err order_sql_list(struct tx *tx, int64_t caller, const struct order_filter *f,
                        struct order *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, f->user_id.n ? &order_list_user : &order_list_all);
    struct str merchant_order_no = f->merchant_order_no.n ? f->merchant_order_no : STR_NONE;
    int64_t before = f->before_id ? f->before_id : INT64_MAX;
    int64_t to = f->created_to_ms ? number_first_id(f->created_to_ms) : INT64_MAX;
    size_t n = 0;

    query_int(q, caller);
    if (f->user_id.n)
        query_text(q, f->user_id);
    query_int(q, before < to ? before : to);
    query_int(q, f->created_from_ms ? number_first_id(f->created_from_ms) : 0);
    query_int(q, f->status);
    query_int(q, f->status);
    query_text(q, merchant_order_no);
    query_text(q, merchant_order_no);
    query_int(q, (int64_t)f->limit);
    while (n < f->limit) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row) {
            *ret_n = n;
            return ERR_OK;
        }
        if ((e = read_order(q, &ret[n], info))) {
            query_end(q);
            return e;
        }
        n++;
    }
    query_end(q);
    *ret_n = n;
    return ERR_OK;
}

static void moved(struct tx *tx, struct order *o, const struct journal_head *head,
                  enum order_status to)
{
    o->status = to;
    o->version++;
    o->journal = *head;
    o->update_ms = tx_now_ms(tx);
}

enum err order_sql_attempt(struct tx *tx, struct order *o, const struct journal_head *head,
                           struct err_info *info)
{
    struct query *q = tx_query(tx, &order_attempt);

    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, o);
    query_int(q, tx_now_ms(tx));
    enum err e = one_row(q, info);
    if (!e)
        moved(tx, o, head, ORDER_PAYING);
    return e;
}

enum err order_sql_paid(struct tx *tx, struct order *o, const struct journal_head *head,
                        const struct order_paid *paid, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_paid);

    query_int(q, paid->pay_no.id);
    query_int(q, paid->channel);
    query_text(q, paid->transaction_id);
    query_int(q, paid->pay_ms);
    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, o);
    enum err e = one_row(q, info);
    if (e)
        return e;
    o->pay_no = paid->pay_no;
    o->channel = paid->channel;
    o->transaction_id = paid->transaction_id;
    o->pay_ms = paid->pay_ms;
    moved(tx, o, head, ORDER_PAID);
    return ERR_OK;
}

enum err order_sql_status(struct tx *tx, struct order *o, const struct journal_head *head,
                          enum order_status to, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_status_only);

    query_int(q, (int64_t)to);
    bind_head(q, head, tx_now_ms(tx));
    bind_guard(q, o);
    enum err e = one_row(q, info);
    if (!e)
        moved(tx, o, head, to);
    return e;
}

enum err order_sql_request_cancel(struct tx *tx, struct order *o, enum order_cancel why,
                                  struct str reason, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_cancel_requested);
    int64_t now = tx_now_ms(tx);

    query_int(q, (int64_t)why);
    query_text(q, reason);
    query_int(q, now);
    query_int(q, now);
    bind_guard(q, o);
    enum err e = one_row(q, info);
    if (e)
        return e;
    o->cancel_requested = why;
    o->cancel_reason = reason;
    o->cancel_ms = now;
    o->version++;
    o->update_ms = now;
    return ERR_OK;
}

enum err order_sql_due_insert(struct tx *tx, int64_t due_ms, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_due_insert);

    query_int(q, due_ms);
    query_int(q, id);
    enum err e = query_run(q, NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

enum err order_sql_due_delete(struct tx *tx, int64_t due_ms, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_due_delete);

    query_int(q, due_ms);
    query_int(q, id);
    return query_run(q, NULL, info);
}

enum err order_sql_due_page(struct tx *tx, int64_t until_ms, size_t max, struct order_due *ret,
                            size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &order_due_page);
    size_t n = 0;

    query_int(q, until_ms);
    query_int(q, (int64_t)max);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (n < max)
            ret[n++] = (struct order_due) { col_int(q, 0), col_int(q, 1), (unsigned)col_int(q, 2) };
    }
    *ret_n = n;
    return ERR_OK;
}
