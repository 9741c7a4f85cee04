/* output.c -- see output.h. docs/openapi.yaml describes the same shapes. */
#include "api/output.h"

#include "base/clock.h"
#include "channel/registry.h"

void output_number(struct json_out *o, const char *key, struct number no)
{
    if (!number_is(no))
        return;
    struct number_text text = number_text(no);
    json_kv_str(o, key, (struct str) { text.s, NUMBER_TEXT });
}

void output_time(struct json_out *o, const char *key, int64_t ms, struct arena *a)
{
    if (ms)
        json_kv_str(o, key, clock_rfc3339(a, ms));
}

void output_money(struct json_out *o, const char *key, struct money m)
{
    json_kv_int(o, key, money_fen(m));
}

static void put_names(struct json_out *o, enum channel_id channel, enum pay_method method)
{
    const struct channel_info *info = channel_by_id(channel);
    const struct method_info *how = info && method ? channel_method(info, method) : NULL;

    if (info)
        json_kv_str(o, "channel", str_of(info->name));
    if (how)
        json_kv_str(o, "method", str_of(how->name));
}

/* ---- orders ---- */

static const char *order_refund_state(int refund_status)
{
    static const char *const names[] = { "none", "part", "full" };
    return refund_status >= 0 && refund_status < 3 ? names[refund_status] : "none";
}

static const char *cancel_name(enum order_cancel cancel)
{
    switch (cancel) {
    case CANCEL_NO:
        return NULL;
    case CANCEL_CALLER:
        return "caller";
    case CANCEL_EXPIRY:
        return "expiry";
    }
    return NULL;
}

static void put_item(struct json_out *o, const struct order_item *item)
{
    json_begin_object(o);
    json_kv_int(o, "line_no", item->line_no);
    json_kv_str(o, "sku", item->sku);
    json_kv_str(o, "name", item->name);
    output_money(o, "unit_price", item->unit_price);
    json_kv_int(o, "quantity", item->quantity);
    output_money(o, "line_amount", item->line_amount);
    output_money(o, "discount", item->discount);
    output_money(o, "paid_share", item->paid_share);
    json_kv_int(o, "refunded_quantity", item->refunded_quantity);
    json_end_object(o);
}

void output_order(struct json_out *o, const struct order *order, bool items, struct arena *a)
{
    output_number(o, "order_no", order->no);
    json_kv_str(o, "merchant_order_no", order->merchant_order_no);
    json_kv_str(o, "user_id", order->user_id);
    json_kv_str(o, "subject", order->subject);
    json_kv_str(o, "status", str_of(order_status_name(order->status)));
    json_kv_str(o, "refund_state", str_of(order_refund_state(order->refund_status)));
    json_kv_str(o, "currency", money_currency(&order->pay_amount));
    output_money(o, "order_amount", order->order_amount);
    output_money(o, "discount", order->discount);
    output_money(o, "shipping", order->shipping);
    output_money(o, "tax", order->tax);
    output_money(o, "pay_amount", order->pay_amount);
    output_number(o, "pay_no", order->pay_no);
    if (order->channel)
        put_names(o, (enum channel_id)order->channel, 0);
    json_kv_str(o, "transaction_id", order->transaction_id);
    output_time(o, "pay_time", order->pay_ms, a);
    output_time(o, "expire_time", order->expire_ms, a);
    json_kv_str(o, "cancel_requested", str_of(cancel_name(order->cancel_requested)));
    json_kv_str(o, "cancel_reason", order->cancel_reason);
    output_time(o, "cancel_time", order->cancel_ms, a);
    json_kv_str(o, "request_id", order->request_id);
    json_kv_str(o, "remark", order->remark);
    output_time(o, "create_time", order->create_ms, a);
    output_time(o, "update_time", order->update_ms, a);
    if (items) {
        json_key(o, "items");
        json_begin_array(o);
        for (size_t i = 0; i < order->item_count; i++)
            put_item(o, &order->items[i]);
        json_end_array(o);
    }
}

/* ---- payments ---- */

const char *output_refund_state(const struct payment *p)
{
    int whole;

    if (money_sign(p->refunding) > 0)
        return "refunding";
    if (money_sign(p->refunded) <= 0)
        return "none";
    return !money_cmp(p->refunded, p->paid_amount, &whole) && whole >= 0 ? "refunded" : "part";
}

static const char *settled_name(enum payment_settled settled)
{
    switch (settled) {
    case SETTLED_NO:
        return "no";
    case SETTLED_WON:
        return "won";
    case SETTLED_SURPLUS:
        return "surplus";
    case SETTLED_ASIDE:
        return "aside";
    }
    return NULL;
}

static const char *environment_name(enum environment environment)
{
    switch (environment) {
    case ENVIRONMENT_DEV:
        return "dev";
    case ENVIRONMENT_TEST:
        return "test";
    case ENVIRONMENT_PRODUCTION:
        return "production";
    }
    return NULL;
}

void output_payment(struct json_out *o, const struct payment *p, struct arena *a)
{
    bool open = p->status == PAYMENT_INIT || p->status == PAYMENT_PAYING;

    output_number(o, "pay_no", p->no);
    output_number(o, "order_no", p->order_no);
    json_kv_str(o, "status", str_of(payment_status_name(p->status)));
    if (open)
        json_kv_bool(o, "closing", p->close_requested != CLOSE_NO);
    json_kv_str(o, "user_id", p->user_id);
    put_names(o, p->channel, p->method);
    json_kv_str(o, "account", p->account);
    json_kv_str(o, "environment", str_of(environment_name(p->environment)));
    json_kv_str(o, "currency", money_currency(&p->amount));
    output_money(o, "amount", p->amount);
    if (p->status == PAYMENT_SUCCESS) {
        output_money(o, "paid_amount", p->paid_amount);
        output_money(o, "payer_amount", p->payer_amount);
        output_money(o, "channel_discount", p->channel_discount);
        json_kv_str(o, "settled", str_of(settled_name(p->settled)));
        json_kv_bool(o, "late", p->late);
        output_money(o, "refunding", p->refunding);
        output_money(o, "refunded", p->refunded);
    }
    json_kv_str(o, "refund_state", str_of(output_refund_state(p)));
    if (p->quarantined)
        json_kv_bool(o, "quarantined", true);
    json_kv_str(o, "transaction_id", p->transaction_id);
    output_time(o, "pay_time", p->pay_ms, a);
    output_time(o, "expire_time", p->expire_ms, a);
    output_time(o, "create_time", p->create_ms, a);
    output_time(o, "update_time", p->update_ms, a);
}

/* ---- refunds ---- */

static void put_line(struct json_out *o, const struct refund_line *line)
{
    json_begin_object(o);
    json_kv_int(o, "line_no", line->line_no);
    json_kv_int(o, "quantity", line->quantity);
    output_money(o, "amount", line->amount);
    json_end_object(o);
}

void output_refund(struct json_out *o, const struct refund *r, struct arena *a)
{
    enum refund_status shown = r->status == REFUND_INIT ? REFUND_PROCESSING : r->status;

    output_number(o, "refund_no", r->no);
    output_number(o, "pay_no", r->pay_no);
    output_number(o, "order_no", r->order_no);
    json_kv_str(o, "status", str_of(refund_status_name(shown)));
    json_kv_str(o, "origin", str_of(refund_origin_name(r->origin)));
    json_kv_str(o, "currency", money_currency(&r->amount));
    output_money(o, "amount", r->amount);
    if (r->line_count) {
        json_key(o, "items");
        json_begin_array(o);
        for (size_t i = 0; i < r->line_count; i++)
            put_line(o, &r->lines[i]);
        json_end_array(o);
    }
    json_kv_str(o, "request_id", r->request_id);
    json_kv_str(o, "reason", r->reason);
    if (r->held)
        json_kv_bool(o, "held", true);
    if (r->late)
        json_kv_bool(o, "late", true);
    json_kv_str(o, "account", r->account);
    json_kv_str(o, "channel_refund_id", r->channel_refund_id);
    json_kv_str(o, "channel_code", r->error_code);
    json_kv_str(o, "channel_message", r->error_message);
    output_time(o, "done_time", r->done_ms, a);
    output_time(o, "create_time", r->create_ms, a);
    output_time(o, "update_time", r->update_ms, a);
}

/* ---- incidents ---- */

void output_incident_members(struct json_out *o, const struct incident_row *row, struct arena *a)
{
    struct str currency = money_currency(&row->amount);

    output_number(o, "incident_no", row->no);
    json_kv_str(o, "kind", str_of(incident_kind_name(row->kind)));
    output_number(o, "subject", row->subject);
    if (row->discriminator.n)
        json_kv_str(o, "discriminator", row->discriminator);
    json_kv_str(o, "state", row->resolved ? STR("resolved") : STR("open"));
    json_kv_str(o, "policy", str_of(incident_policy_name(row->policy)));
    json_kv_int(o, "count", row->count);
    if (currency.n) {
        json_kv_str(o, "currency", currency);
        output_money(o, "amount", row->amount);
    }
    json_kv_str(o, "detail", row->detail);
    if (row->resolved)
        json_kv_str(o, "resolution", str_of(incident_action_name(row->resolution)));
    json_kv_str(o, "who", row->who);
    json_kv_str(o, "reason", row->reason);
    output_time(o, "create_time", row->create_ms, a);
    output_time(o, "last_seen_time", row->last_seen_ms, a);
    output_time(o, "resolve_time", row->resolve_ms, a);
}

void output_incident(struct json_out *o, const struct incident_row *row, struct arena *a)
{
    json_begin_object(o);
    output_incident_members(o, row, a);
    json_end_object(o);
}

void output_proposal(struct json_out *o, const struct incident_proposal *p, struct arena *a)
{
    json_key(o, "proposal");
    json_begin_object(o);
    json_kv_str(o, "action", str_of(incident_action_name(p->action)));
    json_kv_str(o, "who", p->who);
    json_kv_str(o, "reason", p->reason);
    output_time(o, "create_time", p->create_ms, a);
    output_time(o, "until_time", p->until_ms, a);
    json_end_object(o);
}
