/* timeline.c -- /v1/timeline/{no}: everything that ever happened to an order, payment or refund,
 * in time order. */
#include "api/call.h"
#include "api/output.h"
#include "base/clock.h"
#include "core/payment/flow.h"

static const char *kind_name(enum timeline_kind kind)
{
    switch (kind) {
    case TIMELINE_JOURNAL:
        return "journal";
    case TIMELINE_CALL:
        return "call";
    case TIMELINE_CALLBACK:
        return "callback";
    case TIMELINE_EVENT:
        return "event";
    case TIMELINE_DELIVERY:
        return "delivery";
    case TIMELINE_INCIDENT:
        return "incident";
    }
    return NULL;
}

static void put_entry(struct json_out *o, const struct timeline_entry *entry, struct api_call *call)
{
    json_begin_object(o);
    json_kv_str(o, "time", clock_rfc3339_ms(call->arena, entry->time_ms));
    json_kv_str(o, "kind", str_of(kind_name(entry->kind)));
    output_number(o, "subject", entry->subject);
    json_kv_str(o, "text", error_said(call->req, entry->text));
    if (entry->detail.n) {
        json_key(o, "detail");
        json_put_raw(o, entry->detail);
    }
    json_end_object(o);
}

void timeline_get(struct api_call *call)
{
    struct number no;
    struct timeline_entry *entries;
    size_t n;
    struct refusal refusal = { 0 };

    if (number_parse(http_param(call->req, "no"), 0, &no) && !call_order_no(call, "no", &no))
        return;
    if (timeline_read(call->centre, &call->act, no, &entries, &n, &refusal)) {
        call_refuse(call, &refusal);
        return;
    }

    struct reply r;
    reply_begin(call, &r);
    output_number(&r.out, "no", no);
    json_key(&r.out, "entries");
    json_begin_array(&r.out);
    for (size_t i = 0; i < n; i++)
        put_entry(&r.out, &entries[i], call);
    json_end_array(&r.out);
    reply_send(call, &r, 200);
}
