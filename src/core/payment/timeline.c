/* timeline.c -- everything that ever happened to an order, a payment or a refund, in the order in
 * which it did.
 *
 * Journal rows are walked from the aggregates' heads (and their hashes checked on the way), calls,
 * callbacks and incidents come by subject, events stand beside the journal row of their move,
 * deliveries beside their event. */
#include "core/payment/flow.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "bus/bus.h"
#include "core/call/call.h"
#include "core/callback/callback.h"
#include "core/incident/incident.h"
#include "core/payment/flow_call.h"
#include "core/refund/refund.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROWS_MAX    100  /* of one kind about one subject */
#define ENTRIES_MAX 2000 /* of one timeline */
#define DETAIL_MAX  65536
#define TARGETS_MAX 16

struct timeline {
    const struct act *act;
    struct number no;
    bool found;
    struct timeline_entry *entries;
    size_t n;
    int64_t last_event; /* an event near two journal rows is one event */
};

/* ---- one entry ---- */

struct detail {
    struct buf buf;
    struct json_out json;
};

static void detail_begin(struct detail *d, struct arena *a)
{
    buf_init_arena(&d->buf, a, DETAIL_MAX);
    json_out_init(&d->json, &d->buf);
    json_begin_object(&d->json);
}

static void add(struct timeline *t, int64_t time_ms, enum timeline_kind kind, struct number subject,
                struct str text, struct detail *d)
{
    json_end_object(&d->json);
    if (t->n < ENTRIES_MAX)
        t->entries[t->n++] =
            (struct timeline_entry) { .time_ms = time_ms,
                                      .kind = kind,
                                      .subject = subject,
                                      .text = text,
                                      .detail = buf_ok(&d->buf) ? buf_str(&d->buf) : STR_NONE };
}

static const char *status_name(struct number subject, int status)
{
    if (status < 0)
        return "nothing";
    if (subject.kind == NUMBER_ORDER)
        return order_status_name((enum order_status)status);
    return subject.kind == NUMBER_REFUND ? refund_status_name((enum refund_status)status)
                                         : payment_status_name((enum payment_status)status);
}

static const char *subject_word(struct number subject)
{
    return subject.kind == NUMBER_ORDER    ? "order"
           : subject.kind == NUMBER_REFUND ? "refund"
                                           : "payment";
}

static void add_move(struct timeline *t, const struct journal_row *row)
{
    struct arena *a = t->act->arena;
    struct detail d;
    struct str text = str_printf(
        a, "%s %s -> %s (%s)", subject_word(row->subject), status_name(row->subject, row->from),
        status_name(row->subject, row->to), journal_cause_name(row->cause));

    detail_begin(&d, a);
    json_kv_int(&d.json, "seq", row->seq);
    json_kv_str(&d.json, "from",
                row->from < 0 ? STR_NONE : str_of(status_name(row->subject, row->from)));
    json_kv_str(&d.json, "to", str_of(status_name(row->subject, row->to)));
    json_kv_str(&d.json, "cause", str_of(journal_cause_name(row->cause)));
    json_kv_str(&d.json, "evidence", str_of(evidence_kind_name(row->evidence_kind)));
    if (row->evidence_ref)
        json_kv_str(&d.json, "evidence_ref", str_printf(a, "%" PRId64, row->evidence_ref));
    json_kv_str(&d.json, "actor", row->actor);
    json_kv_str(&d.json, "trace_id", row->trace_id);
    json_kv_str(&d.json, "note", row->note);
    json_kv_str(&d.json, "hash_before", str_hex(a, row->prev_hash.b, sizeof row->prev_hash.b));
    add(t, row->time_ms, TIMELINE_JOURNAL, row->subject, text, &d);
}

static void add_call(struct timeline *t, struct number subject, const struct call_row *row)
{
    struct arena *a = t->act->arena;
    struct detail d;
    const char *class = channel_class_name(row->class);
    struct str text = str_printf(a, "%s at account " STR_FMT ": %s", call_kind_name(row->kind),
                                 STR_ARG(row->account), channel_outcome_name(row->outcome));
    if (*class || row->code.n)
        text = str_printf(a, STR_FMT "; %s%s" STR_FMT, STR_ARG(text), class,
                          *class && row->code.n ? " " : "", STR_ARG(row->code));

    detail_begin(&d, a);
    json_kv_str(&d.json, "call", str_of(call_kind_name(row->kind)));
    json_kv_str(&d.json, "account", row->account);
    json_kv_str(&d.json, "outcome", str_of(channel_outcome_name(row->outcome)));
    json_kv_str(&d.json, "class", str_of(channel_class_name(row->class)));
    json_kv_str(&d.json, "code", row->code);
    json_kv_str(&d.json, "message", row->message);
    json_kv_int(&d.json, "http_status", row->http_status);
    json_kv_str(&d.json, "channel_request_id", row->channel_request_id);
    json_kv_int(&d.json, "took_us", row->took_us);
    json_kv_str(&d.json, "request", row->request);
    json_kv_str(&d.json, "answer", row->answer);
    add(t, row->create_ms, TIMELINE_CALL, subject, text, &d);
}

static void add_callback(struct timeline *t, struct number subject, const struct callback_row *row)
{
    static const char *const results[] = { "pending", "done", "failed", "nothing to do" };
    struct arena *a = t->act->arena;
    struct detail d;
    const char *result = (size_t)row->result < 4 ? results[row->result] : "unknown";
    struct str text = str_printf(a, "callback " STR_FMT " at account " STR_FMT ": %s",
                                 STR_ARG(row->kind), STR_ARG(row->account), result);

    detail_begin(&d, a);
    json_kv_str(&d.json, "callback_no", number_str(a, row->no));
    json_kv_str(&d.json, "kind", row->kind);
    json_kv_str(&d.json, "account", row->account);
    json_kv_str(&d.json, "result", str_of(result));
    json_kv_str(&d.json, "reason", row->reason);
    json_kv_str(&d.json, "transport_id", row->transport_id);
    json_kv_int(&d.json, "count", row->count);
    json_kv_int(&d.json, "retries", row->retry_count);
    json_kv_str(&d.json, "last_time", clock_rfc3339_ms(a, row->update_ms));
    add(t, row->create_ms, TIMELINE_CALLBACK, subject, text, &d);
}

static void add_resolution(struct timeline *t, struct number subject,
                           const struct incident_row *row)
{
    struct arena *a = t->act->arena;
    struct detail d;
    struct str text = str_printf(a, "incident %s resolved: %s", incident_kind_name(row->kind),
                                 incident_action_name(row->resolution));
    if (row->who.n)
        text = str_printf(a, STR_FMT "; by " STR_FMT, STR_ARG(text), STR_ARG(row->who));
    if (row->reason.n)
        text = str_printf(a, STR_FMT "; because: " STR_FMT, STR_ARG(text), STR_ARG(row->reason));

    detail_begin(&d, a);
    json_kv_str(&d.json, "incident_no", number_str(a, row->no));
    json_kv_str(&d.json, "resolution", str_of(incident_action_name(row->resolution)));
    json_kv_str(&d.json, "who", row->who);
    json_kv_str(&d.json, "reason", row->reason);
    add(t, row->resolve_ms, TIMELINE_INCIDENT, subject, text, &d);
}

static void add_incident(struct timeline *t, struct number subject, const struct incident_row *row)
{
    struct arena *a = t->act->arena;
    struct detail d;
    struct str text = str_printf(a, "incident %s, %s: " STR_FMT, incident_kind_name(row->kind),
                                 row->resolved ? "resolved" : "open", STR_ARG(row->detail));

    detail_begin(&d, a);
    json_kv_str(&d.json, "incident_no", number_str(a, row->no));
    json_kv_str(&d.json, "kind", str_of(incident_kind_name(row->kind)));
    json_kv_str(&d.json, "discriminator", row->discriminator);
    json_kv_bool(&d.json, "open", !row->resolved);
    json_kv_int(&d.json, "count", row->count);
    json_kv_str(&d.json, "policy", str_of(incident_policy_name(row->policy)));
    json_kv_str(&d.json, "last_seen", clock_rfc3339_ms(a, row->last_seen_ms));
    add(t, row->create_ms, TIMELINE_INCIDENT, subject, text, &d);
    if (row->resolved)
        add_resolution(t, subject, row);
}

static void add_delivery(struct timeline *t, struct number subject, const struct event *event,
                         const struct delivery *row)
{
    static const char *const states[] = { "pending", "delivered", "dead" };
    struct arena *a = t->act->arena;
    struct detail d;
    const char *state = (size_t)row->state < 3 ? states[row->state] : "unknown";
    struct str text =
        str_printf(a, "%s to " STR_FMT ": %s; tries: %" PRId64, event_type_name(event->type),
                   STR_ARG(row->target), state, row->tries);
    struct str next = row->state == DELIVERY_PENDING ? clock_rfc3339_ms(a, row->next_ms) : STR_NONE;
    if (next.n)
        text = str_printf(a, STR_FMT "%s; next try " STR_FMT, STR_ARG(text),
                          row->lease_until_ms ? "; on its way" : "", STR_ARG(next));

    detail_begin(&d, a);
    json_kv_str(&d.json, "event_id", number_str(a, event->no));
    json_kv_str(&d.json, "target", row->target);
    json_kv_str(&d.json, "state", str_of(state));
    json_kv_int(&d.json, "tries", row->tries);
    json_kv_str(&d.json, "next_try", next);
    json_kv_str(&d.json, "last_error", row->last_error);
    add(t, row->update_ms, TIMELINE_DELIVERY, subject, text, &d);
}

/* ---- one subject ---- */

static enum err read_event(struct tx *tx, struct timeline *t, const struct event *event,
                           struct err_info *info)
{
    struct delivery rows[TARGETS_MAX];
    struct arena *a = t->act->arena;
    struct detail d;
    size_t n;

    if (event->no.id <= t->last_event)
        return ERR_OK;
    t->last_event = event->no.id;
    detail_begin(&d, a);
    json_kv_str(&d.json, "event_id", number_str(a, event->no));
    json_kv_str(&d.json, "type", str_of(event_type_name(event->type)));
    json_kv_int(&d.json, "sequence", event->sequence);
    json_key(&d.json, "data");
    json_put_raw(&d.json, event->data);
    add(t, event->time_ms, TIMELINE_EVENT, event->subject,
        str_printf(a, "event %s", event_type_name(event->type)), &d);

    enum err e = deliveries_of(tx, event->no.id, rows, TARGETS_MAX, &n, info);
    for (size_t i = 0; !e && i < n; i++)
        add_delivery(t, event->subject, event, &rows[i]);
    return e;
}

static enum err read_moves(struct tx *tx, struct timeline *t, struct number subject,
                           const struct journal_head *head, struct err_info *info)
{
    struct journal_row *rows;
    struct event events[TARGETS_MAX];
    size_t n, events_n;
    enum err e = journal_read(tx, head, &rows, &n, info);

    t->last_event = 0;
    if (e == ERR_CONFLICT) { /* somebody edited rows: that belongs into the story, and must not hide
                                the rest of it */
        struct detail d;
        detail_begin(&d, t->act->arena);
        add(t, tx_now_ms(tx), TIMELINE_JOURNAL, subject,
            info ? str_dup(t->act->arena, str_of(info->text)) : STR("broken chain"), &d);
        return ERR_OK;
    }
    for (size_t i = 0; !e && i < n; i++) {
        add_move(t, &rows[i]);
        e = events_of(tx, subject.id, rows[i].id, events, TARGETS_MAX, &events_n, info);
        for (size_t j = 0; !e && j < events_n; j++)
            e = read_event(tx, t, &events[j], info);
    }
    return e;
}

static enum err read_incidents(struct tx *tx, struct timeline *t, struct number subject,
                               struct err_info *info)
{
    struct incident_row *rows = arena_array(tx_arena(tx), ROWS_MAX, sizeof *rows);
    size_t n;
    enum err e = incidents_of(tx, subject.id, rows, ROWS_MAX, &n, info);

    for (size_t i = 0; !e && i < n; i++)
        add_incident(t, subject, &rows[i]);
    return e;
}

/* What payments and refunds have alike. */
static enum err read_subject(struct tx *tx, struct timeline *t, struct number no,
                             const struct journal_head *head, struct err_info *info)
{
    struct call_row *calls = arena_array(tx_arena(tx), ROWS_MAX, sizeof *calls);
    size_t n;
    enum err e = read_moves(tx, t, no, head, info);

    if (e || (e = calls_of(tx, no.id, calls, ROWS_MAX, &n, info)))
        return e;
    for (size_t i = 0; i < n; i++)
        add_call(t, no, &calls[i]);
    return read_incidents(tx, t, no, info);
}

/* With its refunds, whose callbacks are filed under it. */
static enum err read_payment(struct tx *tx, struct timeline *t, const struct payment *p,
                             struct err_info *info)
{
    struct callback_row *callbacks = arena_array(tx_arena(tx), ROWS_MAX, sizeof *callbacks);
    struct refund *refunds;
    size_t callbacks_n, n;
    enum err e = read_subject(tx, t, p->no, &p->journal, info);

    if (e || (e = callbacks_of(tx, p->no.id, callbacks, ROWS_MAX, &callbacks_n, info)) ||
        (e = refunds_of(tx, p->no.id, &refunds, &n, info)))
        return e;
    for (size_t i = 0; i < callbacks_n; i++)
        add_callback(t, p->no, &callbacks[i]);
    for (size_t i = 0; !e && i < n; i++)
        e = read_subject(tx, t, refunds[i].no, &refunds[i].journal, info);
    return e;
}

/* Caller 0 is the installation's own operator, who sees everybody's. */
static bool may_see(const struct timeline *t, int64_t caller, struct number no)
{
    return no.slot == t->no.slot && (t->act->caller.id == 0 || t->act->caller.id == caller);
}

static enum err read_order_rule(struct tx *tx, struct timeline *t, struct err_info *info)
{
    struct order o;
    struct payment *payments;
    size_t n;
    enum err e = order_load(tx, t->no.id, &o, info);

    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (!may_see(t, o.caller, o.no))
        return ERR_OK;
    t->found = true;
    if ((e = read_moves(tx, t, o.no, &o.journal, info)) ||
        (e = read_incidents(tx, t, o.no, info)) ||
        (e = payments_of_order(tx, o.no.id, &payments, &n, info)))
        return e;
    for (size_t i = 0; !e && i < n; i++)
        e = read_payment(tx, t, &payments[i], info);
    return e;
}

static enum err read_refund_rule(struct tx *tx, struct timeline *t, struct err_info *info)
{
    struct refund r;
    enum err e = refund_load(tx, t->no.id, &r, info);

    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (!may_see(t, r.caller, r.no))
        return ERR_OK;
    t->found = true;
    return read_subject(tx, t, r.no, &r.journal, info);
}

static enum err read_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct timeline *t = arg;
    struct payment p;

    t->n = 0;
    t->found = false;
    if (t->no.kind == NUMBER_ORDER)
        return read_order_rule(tx, t, info);
    if (t->no.kind == NUMBER_REFUND)
        return read_refund_rule(tx, t, info);
    if (t->no.kind != NUMBER_PAYMENT)
        return ERR_OK;
    enum err e = payment_load(tx, t->no.id, &p, info);
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (!may_see(t, p.caller, p.no))
        return ERR_OK;
    t->found = true;
    return read_payment(tx, t, &p, info);
}

/* By time; what happened in the same millisecond keeps the order in which it was read. */
struct ordered {
    struct timeline_entry entry;
    size_t place;
};

static int by_time(const void *x, const void *y)
{
    const struct ordered *a = x, *b = y;

    if (a->entry.time_ms != b->entry.time_ms)
        return a->entry.time_ms < b->entry.time_ms ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

static void sort(struct timeline *t)
{
    struct ordered *rows = arena_array(t->act->arena, t->n ? t->n : 1, sizeof *rows);

    for (size_t i = 0; i < t->n; i++)
        rows[i] = (struct ordered) { t->entries[i], i };
    qsort(rows, t->n, sizeof *rows, by_time);
    for (size_t i = 0; i < t->n; i++)
        t->entries[i] = rows[i].entry;
}

enum code timeline_read(struct centre *c, const struct act *act, struct number no,
                        struct timeline_entry **ret, size_t *ret_n, struct refusal *refusal)
{
    struct timeline t = { .act = act,
                          .no = no,
                          .entries = arena_array(act->arena, ENTRIES_MAX, sizeof *t.entries) };
    enum code code = centre_read(c, "timeline", no.slot, read_rule, &t, refusal);

    if (code)
        return code;
    if (!t.found)
        return refuse(refusal, CODE_NOT_FOUND);
    sort(&t);
    *ret = t.entries;
    *ret_n = t.n;
    return CODE_OK;
}
