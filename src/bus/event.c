/* event.c -- the kinds of events by name, an event as CloudEvents 1.0, and emitting one inside a
 * rule. */
#include "bus/event.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "bus/bus_sql.h"

#include <assert.h>

/* Persisted in outbox.type: never change a value, never use one again. */
static_assert(EVENT_PAYMENT_SUCCESS == 1 && EVENT_PAYMENT_FAILED == 2 && EVENT_PAYMENT_CLOSED == 3,
              "persisted");
static_assert(EVENT_ORDER_PAID == 4 && EVENT_ORDER_REVIVED == 5 && EVENT_ORDER_CANCELLED == 6,
              "persisted");
static_assert(EVENT_ORDER_EXPIRED == 7 && EVENT_ORDER_COMPLETED == 8, "persisted");
static_assert(EVENT_REFUND_SUCCESS == 9 && EVENT_REFUND_REVERSED == 10, "persisted");
static_assert(EVENT_REFUND_FAILED == 11 && EVENT_REFUND_ABNORMAL == 12, "persisted");
static_assert(EVENT_INCIDENT_OPENED == 13 && EVENT_RECON_FINISHED == 14, "persisted");

static const char *const names[] = {
    [EVENT_PAYMENT_SUCCESS] = "payment.success", [EVENT_PAYMENT_FAILED] = "payment.failed",
    [EVENT_PAYMENT_CLOSED] = "payment.closed",   [EVENT_ORDER_PAID] = "order.paid",
    [EVENT_ORDER_REVIVED] = "order.revived",     [EVENT_ORDER_CANCELLED] = "order.cancelled",
    [EVENT_ORDER_EXPIRED] = "order.expired",     [EVENT_ORDER_COMPLETED] = "order.completed",
    [EVENT_REFUND_SUCCESS] = "refund.success",   [EVENT_REFUND_REVERSED] = "refund.reversed",
    [EVENT_REFUND_FAILED] = "refund.failed",     [EVENT_REFUND_ABNORMAL] = "refund.abnormal",
    [EVENT_INCIDENT_OPENED] = "incident.opened", [EVENT_RECON_FINISHED] = "recon.finished",
};
#define TYPES (sizeof names / sizeof *names)

bool event_type_known(int64_t type)
{
    return type > 0 && type < (int64_t)TYPES;
}

const char *event_type_name(enum event_type type)
{
    assert(event_type_known(type));
    return names[type];
}

enum err event_type_parse(struct str name, enum event_type *ret)
{
    for (unsigned i = 1; i < TYPES; i++)
        if (str_eq(name, str_of(names[i]))) {
            *ret = (enum event_type)i;
            return ERR_OK;
        }
    return ERR_INVALID;
}

enum err outbox_emit(struct tx *tx, struct event *event, struct err_info *info)
{
    assert(event_type_known(event->type));
    int64_t id = tx_new_id(tx);
    if (!id)
        return err_internal(info, "no id left for event %s", names[event->type]);
    if (event->data.n > EVENT_DATA_MAX)
        return err_internal(info, "event %s has %zu bytes of data", names[event->type],
                            event->data.n);

    event->no = number_make(NUMBER_EVENT, event->subject.slot, id);
    event->time_ms = tx_now_ms(tx);
    enum err e = outbox_sql_insert(tx, event, info);
    if (!e)
        e = due_insert(tx, &outbox_due, event->time_ms, id, info);
    if (!e)
        tx_after_commit(tx, WAKE_BUS, id);
    return e;
}

static void print_time(struct json_out *o, int64_t ms)
{
    struct clock_date d = clock_split(ms, CLOCK_BEIJING_MIN);
    BUF_AUTO text;
    buf_init(&text, 64);
    buf_printf(&text, "%04d-%02d-%02dT%02d:%02d:%02d.%03d+08:00", d.year, d.month, d.day, d.hour,
               d.minute, d.second, d.ms);
    json_kv_str(o, "time", buf_str(&text));
}

void event_print(const struct event *event, struct str source, struct buf *out)
{
    struct number_text no = number_text(event->no), subject = number_text(event->subject);
    struct json_out o;

    json_out_init(&o, out);
    json_begin_object(&o);
    json_kv_str(&o, "specversion", STR("1.0"));
    json_kv_str(&o, "id", str_of(no.s));
    json_kv_str(&o, "source", source);
    json_kv_str(&o, "type", str_of(event_type_name(event->type)));
    json_kv_str(&o, "subject", str_of(subject.s));
    print_time(&o, event->time_ms);
    json_kv_int(&o, "sequence", event->sequence);
    json_kv_str(&o, "datacontenttype", STR("application/json"));
    json_key(&o, "data");
    json_put_raw(&o, event->data.n ? event->data : STR("{}"));
    json_end_object(&o);
}
