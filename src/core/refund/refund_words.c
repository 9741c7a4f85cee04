/* refund_words.c -- what is said of refunds: their events, one line a move, names, and the table as
 * text. */
#include "core/refund/refund_inner.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/metrics.h"
#include "bus/event.h"
#include "core/order/order.h"

#include <stdio.h>

#define EVENT_DATA_BYTES_MAX 8192
#define LABEL_MAX            160

/* ---- events ---- */

/* 0: no event. */
static int event_of(enum refund_status to)
{
    switch (to) {
    case REFUND_SUCCESS:
        return EVENT_REFUND_SUCCESS;
    case REFUND_FAILED:
        return EVENT_REFUND_FAILED;
    case REFUND_ABNORMAL:
        return EVENT_REFUND_ABNORMAL;
    case REFUND_REVERSED:
        return EVENT_REFUND_REVERSED;
    case REFUND_INIT:
    case REFUND_PROCESSING:
        break;
    }
    return 0;
}

static void print_lines(struct json_out *j, const struct refund *r)
{
    if (!r->line_count)
        return;
    json_key(j, "items");
    json_begin_array(j);
    for (size_t i = 0; i < r->line_count; i++) {
        json_begin_object(j);
        json_kv_int(j, "line_no", r->lines[i].line_no);
        json_kv_int(j, "quantity", r->lines[i].quantity);
        json_kv_int(j, "amount", money_fen(r->lines[i].amount));
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_event_data(struct arena *a, struct json_out *j, const struct refund *r,
                             const struct payment *p, struct str merchant_order_no, int64_t now_ms)
{
    const struct channel_info *channel = channel_by_id(r->channel);

    json_begin_object(j);
    json_kv_str(j, "order_no", number_str(a, r->order_no));
    json_kv_str(j, "merchant_order_no", merchant_order_no);
    json_kv_str(j, "pay_no", number_str(a, r->pay_no));
    json_kv_str(j, "refund_no", number_str(a, r->no));
    json_kv_str(j, "request_id", r->request_id);
    json_kv_str(j, "origin", str_of(refund_origin_name(r->origin)));
    json_kv_str(j, "status", str_of(refund_status_name(r->status)));
    json_kv_int(j, "amount", money_fen(r->amount));
    json_kv_str(j, "currency", money_currency(&r->amount));
    print_lines(j, r);
    json_kv_int(j, "paid_amount", money_fen(p->paid_amount));
    json_kv_int(j, "refunded", money_fen(p->refunded));
    json_kv_int(j, "refunding", money_fen(p->refunding));
    json_kv_bool(j, "winning_payment", p->settled == SETTLED_WON);
    json_kv_str(j, "channel", channel ? str_of(channel->name) : STR_NONE);
    json_kv_str(j, "account", r->account);
    json_kv_str(j, "transaction_id", p->transaction_id);
    json_kv_str(j, "channel_refund_id", r->channel_refund_id);
    json_kv_bool(j, "late", r->late);
    if (r->status == REFUND_FAILED) {
        json_kv_str(j, "error_code", r->error_code);
        json_kv_str(j, "error_message", r->error_message);
    }
    if (r->done_ms)
        json_kv_str(j, "done_time", clock_rfc3339_ms(a, r->done_ms));
    json_kv_str(j, "evidence", str_of(evidence_kind_name(r->evidence_kind)));
    json_kv_str(j, "create_time", clock_rfc3339_ms(a, r->create_ms));
    json_kv_str(j, "time", clock_rfc3339_ms(a, now_ms));
    json_end_object(j);
}

enum err refund_emit(struct tx *tx, struct refund *r, const struct payment *p, struct str trace_id,
                     struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct buf b;
    struct json_out j;
    struct str merchant_order_no;
    enum err e;

    if (!event_of(r->status))
        return ERR_OK;
    if ((e = order_merchant_no(tx, r->order_no.id, &merchant_order_no, info)) ||
        (e = refund_load_lines(tx, r, info)))
        return e;
    buf_init_arena(&b, a, EVENT_DATA_BYTES_MAX + r->line_count * 64);
    json_out_init(&j, &b);
    print_event_data(a, &j, r, p, merchant_order_no, tx_now_ms(tx));
    if (!buf_ok(&b))
        return err_internal(info, "the data of a refund event are too long");

    struct event event = {
        .type = (enum event_type)event_of(r->status),
        .subject = r->no,
        .sequence = r->version,
        .caller = r->caller,
        .data = buf_str(&b),
        .trace_id = trace_id,
    };
    return outbox_emit(tx, &event, info);
}

/* ---- what is told to people ---- */

void refund_log(struct centre *c, const struct refund *r, enum refund_status from,
                enum journal_cause cause, struct str trace_id)
{
    const struct channel_info *channel = channel_by_id(r->channel);
    struct number_text no = number_text(r->no), pay_no = number_text(r->pay_no);
    char labels[LABEL_MAX];

    if (r->status == from)
        return;
    LOG(c->env->log, LOG_INFO, "refund.moved", log_cstr("refund_no", no.s),
        log_cstr("pay_no", pay_no.s), log_cstr("from", refund_status_name(from)),
        log_cstr("to", refund_status_name(r->status)), log_cstr("cause", journal_cause_name(cause)),
        log_str("account", r->account), log_int("amount", money_fen(r->amount)),
        log_str("trace_id", trace_id));
    if (!event_of(r->status))
        return;
    snprintf(labels, sizeof labels, "%s,%s", channel ? channel->name : "",
             refund_status_name(r->status));
    metric_add(metrics_get(c->env->metrics, "fenpay_refunds_total", labels), 1);
}

/* ---- names ---- */

static const char *const status_names[] = {
    [REFUND_INIT] = "INIT",     [REFUND_PROCESSING] = "PROCESSING", [REFUND_SUCCESS] = "SUCCESS",
    [REFUND_FAILED] = "FAILED", [REFUND_ABNORMAL] = "ABNORMAL",     [REFUND_REVERSED] = "REVERSED",
};

const char *refund_status_name(enum refund_status s)
{
    return (size_t)s < sizeof status_names / sizeof status_names[0] ? status_names[s] : "UNKNOWN";
}

const char *refund_origin_name(enum refund_origin o)
{
    switch (o) {
    case REFUND_BY_CALLER:
        return "caller";
    case REFUND_BY_POLICY:
        return "policy";
    case REFUND_BY_CHANNEL:
        return "channel";
    case REFUND_BY_OPERATOR:
        return "operator";
    }
    return "unknown";
}

static void print_cell(struct buf *out, struct refund_cell cell, enum refund_status status)
{
    switch (cell.act) {
    case REFUND_ACT_NONE:
        buf_add_str(out, STR(" – |"));
        return;
    case REFUND_ACT_MOVE:
        buf_printf(out, " → %s%s |", status_names[cell.to],
                   status == REFUND_FAILED ? ", late" : "");
        return;
    case REFUND_ACT_QUERY:
        buf_add_str(out, STR(" query |"));
        return;
    case REFUND_ACT_INCIDENT:
        buf_add_str(out, STR(" incident |"));
        return;
    }
}

void refund_matrix_print(struct buf *out)
{
    static const char *const rows[] = {
        [REFUND_ROW_ACCEPTED] = "R_ACCEPTED",
        [REFUND_ROW_REFUSED] = "REFUSED, no call ever unknown",
        [REFUND_ROW_REFUSED_UNSURE] = "REFUSED, a call was unknown",
        [REFUND_ROW_REFUSED_GONE] = "REFUSED, and two queries do not know it",
        [REFUND_ROW_DONE] = "R_DONE",
        [REFUND_ROW_CLOSED] = "R_CLOSED",
        [REFUND_ROW_ABNORMAL] = "R_ABNORMAL",
        [REFUND_ROW_REVERSED] = "R_REVERSED",
    };

    buf_add_str(out, STR("| fact \\ refund | INIT | PROCESSING | SUCCESS | FAILED | ABNORMAL | "
                         "REVERSED |\n|---|---|---|---|---|---|---|\n"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_printf(out, "| %s |", rows[i]);
        for (size_t s = 0; s < sizeof status_names / sizeof status_names[0]; s++)
            print_cell(out, refund_cell_of((enum refund_row)i, (enum refund_status)s),
                       (enum refund_status)s);
        buf_add_char(out, '\n');
    }
}
