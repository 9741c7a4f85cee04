/* event.h -- the kinds of events and one event (domain.md section 5). */
#ifndef FENPAY_EVENT_H
#define FENPAY_EVENT_H

#include "store/store.h"

/* Persisted: pinned in event.c, names there too. */
enum event_type {
    EVENT_PAYMENT_SUCCESS = 1,
    EVENT_PAYMENT_FAILED = 2,
    EVENT_PAYMENT_CLOSED = 3,
    EVENT_ORDER_PAID = 4,
    EVENT_ORDER_REVIVED = 5,
    EVENT_ORDER_CANCELLED = 6,
    EVENT_ORDER_EXPIRED = 7,
    EVENT_ORDER_COMPLETED = 8,
    EVENT_REFUND_SUCCESS = 9,
    EVENT_REFUND_REVERSED = 10,
    EVENT_REFUND_FAILED = 11,
    EVENT_REFUND_ABNORMAL = 12,
    EVENT_INCIDENT_OPENED = 13,
    EVENT_RECON_FINISHED = 14,
};
#define EVENT_BIT(type) (1u << (type))

const char *event_type_name(enum event_type type); /* "payment.success" */
enum err event_type_parse(struct str name, enum event_type *ret);

struct event {
    struct number no; /* set by outbox_emit */
    enum event_type type;
    struct number subject;
    int64_t sequence; /* the subject's version after the move */
    int64_t caller;
    struct str data; /* a JSON object */
    struct str trace_id;
    int64_t time_ms;
};

/* In a rule: writes the outbox row and its pending row, asks for WAKE_BUS after the commit. Takes
 * one id of the tx. */
enum err outbox_emit(struct tx *tx, struct event *event, struct err_info *info);

/* The event as CloudEvents 1.0 JSON; `source` is the installation's name. */
struct buf;
void event_print(const struct event *event, struct str source, struct buf *out);

#endif
