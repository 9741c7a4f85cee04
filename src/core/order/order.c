/* order.c -- the rules of orders: what moves one. What settles it stands in order_settle.c.
 *
 * Every move goes through order_move: the edge table says from where to where, why and with which
 * event; the UPDATE is a compare-and-set on (status, version); the journal row and the event stand
 * in the same transaction. order_settle comes before every decision about an order, so that none is
 * taken while a success waits to be applied. */
#include "core/order/order.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/killpoint.h"
#include "bus/event.h"
#include "channel/registry.h"
#include "core/order/order_inner.h"
#include "core/order/order_sql.h"
#include "core/payment/payment.h"

#include <assert.h>
#include <inttypes.h>

static_assert(ORDER_WAIT_PAY == 0 && ORDER_PAYING == 1 && ORDER_PAID == 2 &&
                  ORDER_PAY_FAILED == 3 && ORDER_CANCELLED == 4 && ORDER_COMPLETED == 5,
              "order_status is persisted");
static_assert(REFUNDED_NONE == 0 && REFUNDED_PART == 1 && REFUNDED_FULL == 2,
              "order_refunds is persisted");
static_assert(CANCEL_NO == 0 && CANCEL_CALLER == 1 && CANCEL_EXPIRY == 2,
              "order_cancel is persisted");

#define EVENT_DATA_BYTES_MAX 8192

/* ---- the edges (rules.md section 2) ---- */

#define FROM(status) (1u << ORDER_##status)
#define FROM_OPEN    (FROM(WAIT_PAY) | FROM(PAYING) | FROM(PAY_FAILED))

static const struct {
    unsigned from; /* bit per order_status */
    enum order_status to;
    enum journal_cause cause;
    int event; /* enum event_type; 0: none */
} edges[] = {
    [ORDER_EDGE_ATTEMPT] = { FROM_OPEN, ORDER_PAYING, CAUSE_ATTEMPT, 0 },
    [ORDER_EDGE_SETTLE] = { FROM_OPEN, ORDER_PAID, CAUSE_SETTLE, EVENT_ORDER_PAID },
    [ORDER_EDGE_FAILED] = { FROM(PAYING), ORDER_PAY_FAILED, CAUSE_ATTEMPT, 0 },
    [ORDER_EDGE_CANCEL] = { FROM_OPEN, ORDER_CANCELLED, CAUSE_CANCEL, EVENT_ORDER_CANCELLED },
    [ORDER_EDGE_EXPIRE] = { FROM_OPEN, ORDER_CANCELLED, CAUSE_EXPIRY, EVENT_ORDER_EXPIRED },
    [ORDER_EDGE_REVIVE] = { FROM(CANCELLED), ORDER_PAID, CAUSE_OPERATOR, EVENT_ORDER_REVIVED },
    [ORDER_EDGE_COMPLETE] = { FROM(PAID), ORDER_COMPLETED, CAUSE_COMPLETE, EVENT_ORDER_COMPLETED },
};

bool order_edge_leaves(enum order_edge edge, enum order_status from, enum order_status *ret_to)
{
    if (!(edges[edge].from & (1u << from)))
        return false;
    *ret_to = edges[edge].to;
    return true;
}

const char *order_edge_name(enum order_edge edge)
{
    switch (edge) {
    case ORDER_EDGE_ATTEMPT:
        return "attempt started";
    case ORDER_EDGE_SETTLE:
        return "settled";
    case ORDER_EDGE_FAILED:
        return "last attempt ended";
    case ORDER_EDGE_CANCEL:
        return "cancelled";
    case ORDER_EDGE_EXPIRE:
        return "expired";
    case ORDER_EDGE_REVIVE:
        return "revived";
    case ORDER_EDGE_COMPLETE:
        return "completed";
    }
    return "unknown";
}

bool order_is_open(enum order_status s)
{
    return (FROM_OPEN >> s) & 1;
}

static enum err emit(struct tx *tx, const struct order *o, const struct order_move *m,
                     struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct buf b;
    struct json_out j;

    buf_init_arena(&b, a, EVENT_DATA_BYTES_MAX);
    json_out_init(&j, &b);
    json_begin_object(&j);
    json_kv_str(&j, "order_no", number_str(a, o->no));
    json_kv_str(&j, "merchant_order_no", o->merchant_order_no);
    json_kv_str(&j, "user_id", o->user_id);
    json_kv_str(&j, "status", str_of(order_status_name(o->status)));
    json_kv_int(&j, "amount", money_fen(o->pay_amount));
    json_kv_str(&j, "currency", money_currency(&o->pay_amount));
    json_kv_str(&j, "pay_no", number_str(a, o->pay_no));
    if (o->channel) {
        const struct channel_info *channel = channel_by_id((enum channel_id)o->channel);
        json_kv_str(&j, "channel", channel ? str_of(channel->name) : STR_NONE);
    }
    if (m->payment) {
        json_kv_str(&j, "account", m->payment->account);
        json_kv_int(&j, "paid_amount", money_fen(m->payment->paid_amount));
    }
    json_kv_str(&j, "transaction_id", o->transaction_id);
    if (o->pay_ms)
        json_kv_str(&j, "pay_time", clock_rfc3339_ms(a, o->pay_ms));
    if (o->expire_ms)
        json_kv_str(&j, "expire_time", clock_rfc3339_ms(a, o->expire_ms));
    if (o->status == ORDER_CANCELLED)
        json_kv_str(&j, "cancel_reason", o->cancel_reason);
    json_kv_str(&j, "create_time", clock_rfc3339_ms(a, o->create_ms));
    json_kv_str(&j, "time", clock_rfc3339_ms(a, tx_now_ms(tx)));
    json_end_object(&j);
    if (!buf_ok(&b))
        return err_internal(info, "the data of an order event are too long");

    struct event event = {
        .type = (enum event_type)edges[m->edge].event,
        .subject = o->no,
        .sequence = o->version,
        .caller = o->caller,
        .data = buf_str(&b),
        .trace_id = m->trace_id,
    };
    return outbox_emit(tx, &event, info);
}

static enum err update(struct tx *tx, struct order *o, const struct order_move *m,
                       const struct journal_head *head, struct err_info *info)
{
    switch (m->edge) {
    case ORDER_EDGE_ATTEMPT:
        return order_sql_attempt(tx, o, head, info);
    case ORDER_EDGE_SETTLE:
    case ORDER_EDGE_REVIVE:
        return order_sql_paid(tx, o, head,
                              &(struct order_paid) { m->payment->no, (int)m->payment->channel,
                                                     m->payment->transaction_id,
                                                     m->payment->pay_ms },
                              info);
    case ORDER_EDGE_FAILED:
    case ORDER_EDGE_CANCEL:
    case ORDER_EDGE_EXPIRE:
    case ORDER_EDGE_COMPLETE:
        return order_sql_status(tx, o, head, edges[m->edge].to, info);
    }
    return err_internal(info, "no such edge");
}

/* The only place that writes order_info.order_status. */
enum err order_move(struct tx *tx, struct order *o, const struct order_move *m,
                    struct err_info *info)
{
    struct journal_row row;
    struct journal_head head;
    enum order_status to;
    enum err e;

    if (!order_edge_leaves(m->edge, o->status, &to))
        return err_internal(info, "an order does not go from %s by '%s'",
                            order_status_name(o->status), order_edge_name(m->edge));
    if ((e = journal_next(tx, o->no, &o->journal, (int)o->status, (int)to,
                          m->cause ? m->cause : edges[m->edge].cause, &m->evidence, m->trace_id,
                          m->note, &row, &head, info)))
        return e;
    if ((e = update(tx, o, m, &head, info)))
        return e;
    if ((e = journal_insert(tx, &row, info)))
        return e;
    if (edges[m->edge].event && (e = emit(tx, o, m, info)))
        return e;
    tx_after_commit(tx, WAKE_ORDER, o->no.id);
    return ERR_OK;
}

/* ---- reading ---- */

enum err order_load(struct tx *tx, int64_t order_id, struct order *ret, struct err_info *info)
{
    return order_sql_load(tx, order_id, ret, info);
}

enum err order_load_items(struct tx *tx, struct order *o, struct err_info *info)
{
    return order_sql_items(tx, o, info);
}

enum err order_merchant_no(struct tx *tx, int64_t order_id, struct str *ret, struct err_info *info)
{
    return order_sql_merchant_no(tx, order_id, ret, info);
}

/* ---- the other edges ---- */

enum err order_attempt_started(struct tx *tx, struct order *order, const struct act *act,
                               struct err_info *info)
{
    struct order_move m = { .edge = ORDER_EDGE_ATTEMPT,
                            .evidence.actor = act->actor,
                            .trace_id = act->trace_id };
    enum order_status to;

    if (!order_edge_leaves(m.edge, order->status, &to))
        return err_set(info, ERR_RETRY, "the order is %s", order_status_name(order->status));
    return order_move(tx, order, &m, info);
}

/* Any attempt that may still bring money, or has brought some that belongs to this order. */
static bool any_alive(const struct payment_brief *briefs, size_t n, bool superseded_count)
{
    for (size_t i = 0; i < n; i++) {
        const struct payment_brief *b = &briefs[i];
        switch (b->status) {
        case PAYMENT_INIT:
        case PAYMENT_PAYING:
            if (superseded_count || !b->superseded)
                return true;
            break;
        case PAYMENT_SUCCESS:
            if (b->settled == SETTLED_WON ||
                (b->settled == SETTLED_NO && !mutation_on(MUTATION_CANCEL_UNSETTLED)))
                return true;
            break;
        case PAYMENT_FAILED:
        case PAYMENT_CLOSED:
            if (b->quarantined)
                return true;
            break;
        }
    }
    return false;
}

enum err order_attempt_ended(struct tx *tx, int64_t order_id, struct err_info *info)
{
    struct order o;
    struct payment_brief *briefs;
    size_t n;
    enum err e = order_load(tx, order_id, &o, info);
    if (!e && o.cancel_requested != CANCEL_NO && order_is_open(o.status))
        e = due_insert(tx, &order_due, tx_now_ms(tx), order_id, info); /* it may go on now */
    if (e || o.status != ORDER_PAYING)
        return e;
    if ((e = payments_brief(tx, order_id, &briefs, &n, info)))
        return e;
    if (any_alive(briefs, n, false))
        return ERR_OK;
    struct order_move m = { .edge = ORDER_EDGE_FAILED,
                            .evidence.actor = STR("order consumer"),
                            .trace_id = o.trace_id };
    return order_move(tx, &o, &m, info);
}

enum err order_request_cancel(struct tx *tx, struct order *order, enum order_cancel why,
                              struct str reason, struct err_info *info)
{
    struct payment_brief *briefs;
    size_t n;
    enum err e;

    if (!order_is_open(order->status))
        return err_internal(info, "a cancel of an order that is %s",
                            order_status_name(order->status));
    /* The order row first: whoever starts an attempt at the same moment then waits for it, or we
     * see that attempt below. */
    if (order->cancel_requested == CANCEL_NO &&
        (e = order_sql_request_cancel(tx, order, why, reason, info)))
        return e;
    if ((e = payments_brief(tx, order->no.id, &briefs, &n, info)))
        return e;
    for (size_t i = 0; i < n; i++) {
        struct payment p;
        if (briefs[i].status > PAYMENT_PAYING || briefs[i].close_requested != CLOSE_NO)
            continue;
        if ((e = payment_load(tx, briefs[i].id, &p, info)) ||
            (e = payment_request_close(tx, &p, why == CANCEL_EXPIRY ? CLOSE_EXPIRY : CLOSE_CANCEL,
                                       info)))
            return e;
    }
    return ERR_OK;
}

enum err order_try_cancel(struct tx *tx, struct order *order, const struct act *act, bool *ret_done,
                          struct err_info *info)
{
    struct payment_brief *briefs;
    size_t n;

    if (order->status == ORDER_CANCELLED || order->cancel_requested == CANCEL_NO ||
        !order_is_open(order->status)) {
        *ret_done = order->status == ORDER_CANCELLED;
        return ERR_OK;
    }
    enum err e = payments_brief(tx, order->no.id, &briefs, &n, info);
    if (e)
        return e;
    if (any_alive(briefs, n, true)) {
        *ret_done = false;
        return ERR_OK;
    }
    struct order_move m = {
        .edge = order->cancel_requested == CANCEL_EXPIRY ? ORDER_EDGE_EXPIRE : ORDER_EDGE_CANCEL,
        .evidence.actor = act->actor,
        .trace_id = act->trace_id,
        .note = order->cancel_reason,
    };
    if ((e = order_move(tx, order, &m, info)))
        return e;
    *ret_done = true;
    return ERR_OK;
}

enum err order_mark_complete(struct tx *tx, struct order *order, const struct act *act,
                             struct err_info *info)
{
    struct order_move m = { .edge = ORDER_EDGE_COMPLETE,
                            .evidence.actor = act->actor,
                            .trace_id = act->trace_id };

    return order_move(tx, order, &m, info);
}

enum err order_revive(struct tx *tx, struct order *order, struct payment *p,
                      enum journal_cause cause, const struct evidence *evidence,
                      struct str trace_id, struct err_info *info)
{
    if (order->status != ORDER_CANCELLED || number_is(order->pay_no) ||
        p->order_no.id != order->no.id || p->status != PAYMENT_SUCCESS ||
        p->settled != SETTLED_SURPLUS || money_sign(p->refunding) != 0 ||
        money_sign(p->refunded) != 0 || !money_eq(p->paid_amount, order->pay_amount))
        return err_set(info, ERR_CONFLICT, "this order cannot be revived by this payment");

    struct order_move m = {
        .edge = ORDER_EDGE_REVIVE,
        .cause = cause,
        .payment = p,
        .evidence = *evidence,
        .trace_id = trace_id,
        .note = number_str(tx_arena(tx), p->no),
    };
    enum err e = order_move(tx, order, &m, info);
    return e ? e : payment_set_settled(tx, p, SETTLED_WON, info);
}

enum err order_adopt(struct tx *tx, struct order *o, const struct evidence *evidence,
                     struct str trace_id, struct err_info *info)
{
    int64_t id = tx_new_id(tx);
    struct journal_row row;
    enum err e;

    o->no = number_make(NUMBER_ORDER, o->no.slot, id);
    o->status = ORDER_CANCELLED;
    o->trace_id = trace_id;
    o->version = 1;
    o->create_ms = o->update_ms = tx_now_ms(tx);
    if ((e = journal_next(tx, o->no, &o->journal, -1, ORDER_CANCELLED, CAUSE_OPERATOR, evidence,
                          trace_id, o->remark, &row, &o->journal, info)))
        return e;
    e = order_sql_insert(tx, o, str_printf(tx_arena(tx), "o%s", number_text(o->no).s), info);
    return e ? e : journal_insert(tx, &row, info);
}

/* ---- names ---- */

static const char *const status_names[] = {
    [ORDER_WAIT_PAY] = "WAIT_PAY",   [ORDER_PAYING] = "PAYING",
    [ORDER_PAID] = "PAID",           [ORDER_PAY_FAILED] = "PAY_FAILED",
    [ORDER_CANCELLED] = "CANCELLED", [ORDER_COMPLETED] = "COMPLETED",
};

const char *order_status_name(enum order_status s)
{
    return (size_t)s < sizeof status_names / sizeof status_names[0] ? status_names[s] : "UNKNOWN";
}

enum err order_status_parse(struct str name, enum order_status *ret)
{
    for (size_t i = 0; i < sizeof status_names / sizeof status_names[0]; i++)
        if (str_eq(name, str_of(status_names[i]))) {
            *ret = (enum order_status)i;
            return ERR_OK;
        }
    return ERR_INVALID;
}

void order_matrix_print(struct buf *out)
{
    buf_add_str(out, STR("| edge |"));
    for (size_t s = 0; s < sizeof status_names / sizeof status_names[0]; s++)
        buf_printf(out, " %s |", status_names[s]);
    buf_add_str(out, STR("\n|---|---|---|---|---|---|---|\n"));
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        buf_printf(out, "| %s |", order_edge_name((enum order_edge)i));
        for (size_t s = 0; s < sizeof status_names / sizeof status_names[0]; s++) {
            enum order_status to;
            bool leaves = order_edge_leaves((enum order_edge)i, (enum order_status)s, &to);
            buf_printf(out, " %s%s |", leaves ? "→ " : "–", leaves ? status_names[to] : "");
        }
        buf_add_char(out, '\n');
    }
}
