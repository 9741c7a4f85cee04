/* seed_sql.c -- cloning one order and one payment that were really made. The clones have ids, keys
 * and request ids of their own, so that every page and index is what sixty thousand real ones would
 * make; they share the text and the head of the journal with their model. */
#include "bench/seed.h"

SQL(clone_order, "INSERT INTO order_info (id, slot, caller, order_key, merchant_order_no, user_id, "
                 "subject, order_amount, discount, shipping, tax, pay_amount, currency, "
                 "order_status, refund_status, inline_order, pay_id, channel, transaction_id, "
                 "pay_time, expire_time, cancel_requested, cancel_reason, cancel_time, "
                 "request_id, digest, remark, trace_id, version, journal_id, journal_seq, "
                 "journal_hash, create_time, update_time) "
                 "SELECT ?, slot, caller, ?, ?, user_id, subject, order_amount, discount, "
                 "shipping, tax, pay_amount, currency, "
                 "order_status, refund_status, inline_order, pay_id, channel, transaction_id, "
                 "pay_time, expire_time, cancel_requested, cancel_reason, cancel_time, "
                 "request_id, digest, remark, trace_id, version, journal_id, journal_seq, "
                 "journal_hash, create_time, update_time FROM order_info WHERE id = ?");

SQL(clone_payment,
    "INSERT INTO payment_order (id, slot, order_id, caller, account, environment, channel, method, "
    "user_id, payer, client_ip, amount, currency, status, live, late, "
    "quarantined, superseded, settled, paid_amount, payer_amount, channel_discount, refunding, "
    "refunded, transaction_id, grant_key, credentials, credential_expire, "
    "request_endpoint, request_body, calls, unknown_calls, call_owner, call_until, "
    "close_requested, close_time, request_id, digest, expire_time, pay_time, "
    "next_query_time, query_count, evidence_kind, evidence_ref, trace_id, route, version, "
    "journal_id, journal_seq, journal_hash, create_time, update_time) "
    "SELECT ?, slot, ?, caller, account, environment, channel, method, user_id, payer, client_ip, "
    "amount, currency, status, live, late, "
    "quarantined, superseded, settled, paid_amount, payer_amount, channel_discount, refunding, "
    "refunded, transaction_id, grant_key, credentials, credential_expire, "
    "request_endpoint, request_body, calls, unknown_calls, call_owner, call_until, "
    "close_requested, close_time, ?, digest, expire_time, pay_time, "
    "?, query_count, evidence_kind, evidence_ref, trace_id, route, version, journal_id, "
    "journal_seq, journal_hash, create_time, update_time FROM payment_order WHERE id = ?");

SQL(add_due, "INSERT INTO payment_due (due, id) VALUES (?, ?)");

/* The rungs a minute apart, so that no two rows fall on one another. */
SQL(due_rows, "UPDATE payment_due SET due = ? - id % 60000");
SQL(due_rungs, "UPDATE payment_order SET next_query_time = ? - id % 60000");
SQL(any_due, "SELECT 1 FROM payment_due WHERE due <= ? LIMIT 1");
SQL(count_paid, "SELECT COUNT(*) FROM payment_order WHERE status = 2");

SQL(count_callbacks, "SELECT COUNT(*) FROM callback_log WHERE handle_result = 1");
SQL(count_orders, "SELECT COUNT(*) FROM order_info WHERE order_status = 2");
SQL(any_pending, "SELECT COUNT(*) FROM (SELECT due FROM outbox_due LIMIT 1) d");
SQL(count_pending, "SELECT COUNT(*) FROM outbox_due");

enum err seed_clone(struct tx *tx, const struct seed *s, struct err_info *info)
{
    struct str pay_text = number_str(tx_arena(tx), s->payment),
               order_text = number_str(tx_arena(tx), s->order);
    enum err e =
        tx_exec(tx, &clone_order,
                BINDS(bind_int(s->order.id),
                      bind_text(str_printf(tx_arena(tx), "m" STR_FMT, STR_ARG(order_text))),
                      bind_text(order_text), bind_int(s->model_order.id)),
                NULL, info);
    if (e)
        return e;
    e = tx_exec(tx, &clone_payment,
                BINDS(bind_int(s->payment.id), bind_int(s->order.id), bind_text(pay_text),
                      bind_int(s->due_ms), bind_int(s->model_payment.id)),
                NULL, info);
    if (e)
        return e;
    return tx_exec(tx, &add_due, BINDS(bind_int(s->due_ms), bind_int(s->payment.id)), NULL, info);
}

enum err seed_make_due(struct tx *tx, int64_t now_ms, struct err_info *info)
{
    enum err e = tx_exec(tx, &due_rows, BINDS(bind_int(now_ms)), NULL, info);
    return e ? e : tx_exec(tx, &due_rungs, BINDS(bind_int(now_ms)), NULL, info);
}

enum err seed_count_due(struct tx *tx, int64_t now_ms, int64_t *ret_left, int64_t *ret_paid,
                        struct err_info *info)
{
    enum err e = tx_select_int(tx, &any_due, BINDS(bind_int(now_ms)), ret_left, info);
    return e || *ret_left ? e : tx_select_int(tx, &count_paid, NO_BINDS, ret_paid, info);
}

enum err seed_count(struct tx *tx, void *arg, struct err_info *info)
{
    struct bench_counts *c = arg;
    enum err e = tx_select_int(tx, &count_callbacks, NO_BINDS, &c->callbacks_done, info);
    if (!e)
        e = tx_select_int(tx, &count_orders, NO_BINDS, &c->paid_orders, info);
    return e ? e : tx_select_int(tx, &count_pending, NO_BINDS, &c->pending, info);
}

enum err seed_pending(struct tx *tx, void *arg, struct err_info *info)
{
    return tx_select_int(tx, &any_pending, NO_BINDS, arg, info);
}
