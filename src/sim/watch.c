/* watch.c -- what must hold at every moment: after each batch the rows that it wrote are looked at,
 * and every now and then all of them. Through a store of its own, which no death of a process
 * reaches. */
#include "sim/inner.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/order/order.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"

#define MARGIN_MS  60000 /* the channel's: before it, "does not exist" proves nothing */
#define ALL_EVERY  200   /* batches */
#define INDEX_BITS 9

struct touched {
    int64_t *ids;
    size_t n, room;
};

struct sim_watch {
    struct store *store;
    struct sim_seen *seen;
    size_t n, room;
    uint32_t *index; /* place in `seen` + 1, by id; 0: free */
    unsigned bits;
    int64_t payments;
    struct touched orders, written_payments, refunds;
    int batches;
};

/* ---- what was seen ---- */

static size_t slot_of(const struct sim_watch *w, int64_t id)
{
    size_t mask = ((size_t)1 << w->bits) - 1;
    size_t i = (size_t)(((uint64_t)id * 0x9e3779b97f4a7c15ULL) >> (64 - w->bits));
    while (w->index[i] && w->seen[w->index[i] - 1].id != id)
        i = (i + 1) & mask;
    return i;
}

static void grow(struct sim *s)
{
    struct sim_watch *w = s->watch;
    struct sim_seen *old = w->seen;
    w->bits = w->bits ? w->bits + 1 : INDEX_BITS;
    w->room = ((size_t)1 << w->bits) / 2;
    w->seen = arena_array(s->arena, w->room, sizeof *w->seen);
    w->index = arena_array(s->arena, (size_t)1 << w->bits, sizeof *w->index);
    for (size_t i = 0; i < w->n; i++) {
        w->seen[i] = old[i];
        w->index[slot_of(w, old[i].id)] = (uint32_t)i + 1;
    }
}

/* The entry of a row; a new one has status -1. Ids are unique over all kinds. */
static struct sim_seen *seen_of(struct sim *s, enum number_kind kind, int64_t id)
{
    struct sim_watch *w = s->watch;
    if (w->n == w->room)
        grow(s);
    size_t i = slot_of(w, id);
    if (!w->index[i]) {
        w->seen[w->n] = (struct sim_seen) { .id = id, .kind = kind, .status = -1 };
        w->index[i] = (uint32_t)++w->n;
        w->payments += kind == NUMBER_PAYMENT;
    }
    return &w->seen[w->index[i] - 1];
}

const struct sim_seen *sim_seen_at(const struct sim *s, size_t i)
{
    return i < s->watch->n ? &s->watch->seen[i] : NULL;
}

int64_t sim_payments_seen(const struct sim *s)
{
    return s->watch->payments;
}

struct number sim_number(const struct sim *s, enum number_kind kind, int64_t id)
{
    const struct sim_watch *w = s->watch;
    size_t i = w->n ? slot_of(w, id) : 0;
    bool known = w->n && w->index[i];
    return number_make(kind, known ? w->seen[w->index[i] - 1].slot : 0, id);
}

struct number sim_any(struct sim *s, enum number_kind kind)
{
    const struct sim_watch *w = s->watch;
    size_t from = w->n ? (size_t)sim_below(s, (int64_t)w->n) : 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct sim_seen *seen = &w->seen[(from + i) % w->n];
        if (seen->kind == kind)
            return number_make(kind, seen->slot, seen->id);
    }
    return (struct number) { 0 };
}

static void touch(struct sim *s, struct touched *t, int64_t id)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->ids[i] == id)
            return;
    if (t->n == t->room) {
        int64_t *old = t->ids;
        t->room = t->room ? t->room * 2 : 64;
        t->ids = arena_array(s->arena, t->room, sizeof *t->ids);
        if (old)
            memcpy(t->ids, old, t->n * sizeof *t->ids);
    }
    t->ids[t->n++] = id;
}

void sim_watch_row(void *sim, const char *table, int64_t id)
{
    struct sim *s = sim;
    if (strcmp(table, "payment_order") == 0)
        touch(s, &s->watch->written_payments, id);
    else if (strcmp(table, "order_info") == 0)
        touch(s, &s->watch->orders, id);
    else if (strcmp(table, "refund_order") == 0)
        touch(s, &s->watch->refunds, id);
}

/* ---- the database ---- */

void sim_watch_open(struct sim *s)
{
    struct err_info info = { 0 };
    static const struct store_staging nobody = { 0 };
    struct store_staging *staging = arena_one(s->arena, struct store_staging);
    *staging = nobody;
    staging->disk = s->disk;
    struct store_options o = {
        .url = STR("sqlite:db"), .env = &s->outside.env, .inline_mode = true, .staging = staging
    };
    if (!s->watch)
        s->watch = arena_one(s->arena, struct sim_watch);
    sim_must(store_open(&o, &s->watch->store, &info), "the watch's store", &info);
}

void sim_watch_close(struct sim *s)
{
    store_drop(s->watch->store);
    s->watch->store = NULL;
}

struct store *sim_watch_store(struct sim *s)
{
    return s->watch->store;
}

enum err sim_read(struct sim *s, store_rule *rule, void *arg)
{
    struct err_info info = { 0 };
    struct sim_task *running = s->running;
    s->running = NULL; /* nobody runs meanwhile */
    enum err e = store_read(s->watch->store, 0, "sim", rule, arg, &info);
    s->running = running;
    if (e)
        sim_fail(s, (struct number) { 0 }, "cannot read: %s", info.text);
    return e;
}

struct count {
    const struct sql *sql;
    int64_t value;
};

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct count *c = arg;
    return tx_select_int(tx, c->sql, NO_BINDS, &c->value, info);
}

int64_t sim_count(struct sim *s, const struct sql *sql)
{
    struct count c = { .sql = sql };
    sim_read(s, count_rule, &c);
    return c.value;
}

/* ---- orders ---- */

SQL(watch_order,
    "SELECT slot, order_status, order_status IN (0, 1, 3) AND (expire_time > 0 OR "
    "cancel_requested > 0) AND NOT EXISTS (SELECT 1 FROM order_due d WHERE d.id = o.id)"
    " FROM order_info o WHERE id = ?");
SQL(watch_successes, "SELECT id, slot FROM payment_order WHERE order_id = ? AND status = 2");

/* An order was cancelled just now. A success that stood there before has been looked over. */
static enum err cancelled(struct tx *tx, struct sim *s, int64_t order_id, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_successes, BINDS(bind_int(order_id)));
    while (query_row(q)) {
        const struct sim_seen *p = seen_of(s, NUMBER_PAYMENT, col_int(q, 0));
        if (p->status == PAYMENT_SUCCESS && p->settled == SETTLED_NO)
            sim_fail(s, number_make(NUMBER_PAYMENT, (unsigned)col_int(q, 1), p->id),
                     "an order was cancelled over a payment that had succeeded before");
    }
    return query_end(q, info);
}

/* In one batch or more. Out of CANCELLED only by being revived, by policy or by an operator. */
static bool order_may_go(const struct sim_temper *t, int from, int to)
{
    if (from < 0)
        return true;
    if (from == ORDER_CANCELLED)
        return (to == ORDER_PAID || to == ORDER_COMPLETED) &&
               (t->operators || t->after_close == POLICY_REVIVE);
    if (from == ORDER_COMPLETED)
        return false;
    return from != ORDER_PAID || to == ORDER_COMPLETED;
}

static enum err watch_one_order(struct tx *tx, struct sim *s, int64_t id, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_order, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_end(q, info); /* its batch was undone */
    unsigned slot = (unsigned)col_int(q, 0);
    int status = (int)col_int(q, 1);
    bool forgotten = col_int(q, 2);
    enum err e = query_end(q, info);
    if (e)
        return e;

    struct sim_seen *o = seen_of(s, NUMBER_ORDER, id);
    struct number no = number_make(NUMBER_ORDER, slot, id);
    int before = o->status;
    o->slot = (uint16_t)slot;
    o->status = status;
    if (forgotten)
        sim_fail(s, no, "nobody will ever look at this order again");
    if (status == before)
        return ERR_OK;
    sim_note(s, order_status_name((enum order_status)status), id);
    if (!order_may_go(&s->temper, before, status))
        sim_fail(s, no, "an order went from %s to %s", order_status_name((enum order_status)before),
                 order_status_name((enum order_status)status));
    return status == ORDER_CANCELLED ? cancelled(tx, s, id, info) : ERR_OK;
}

/* ---- payments ---- */

/* Whatever is not at its end has a row that brings a job back to it. */
#define PAYMENT_FORGOTTEN                                                                          \
    "((status < 2 AND quarantined = 0) OR (status = 2 AND settled = 0)"                            \
    " OR (status > 2 AND close_requested = 6 AND quarantined = 0))"                                \
    " AND NOT EXISTS (SELECT 1 FROM payment_due d WHERE d.id = p.id)"
static_assert(REFUND_BY_POLICY == 2 && REFUND_ABNORMAL == 4, "in the SQL");
static_assert(INCIDENT_OVER_REFUNDED == 13 && CLOSE_TERMINAL == 6, "in the SQL");

SQL(watch_payment,
    "SELECT slot, status, settled, expire_time, evidence_kind, refunding + refunded > paid_amount"
    " AND NOT EXISTS (SELECT 1 FROM incident i JOIN refund_order r ON r.id = i.subject_id"
    " WHERE r.pay_id = p.id AND i.kind = 13), " PAYMENT_FORGOTTEN
    " FROM payment_order p WHERE id = ?");

/* What ended with us cannot be paid at the channel. */
static void check_ended(struct sim *s, struct number no, int64_t expire_ms,
                        enum evidence_kind evidence)
{
    struct sandbox_trade t;
    if (evidence == EVIDENCE_NOT_EXIST &&
        s->now_ms <= expire_ms + MARGIN_MS - s->temper.skew_max_ms)
        sim_fail(s, no, "ended because it does not exist, before that proves anything");
    if (sandbox_trade_get(s->sandbox, number_str(s->arena, no), s->arena, &t))
        return;
    if (s->now_ms < expire_ms && str_eq(t.state, STR("NOTPAY")))
        sim_fail(s, no, "ended, and it can be paid at the channel");
    if (!s->temper.typing && t.taken_fen)
        sim_fail(s, no, "ended, and it had been paid at the channel");
}

static enum err watch_one_payment(struct tx *tx, struct sim *s, int64_t id, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_payment, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_end(q, info);
    unsigned slot = (unsigned)col_int(q, 0);
    int status = (int)col_int(q, 1), settled = (int)col_int(q, 2);
    int64_t expire_ms = col_int(q, 3);
    enum evidence_kind evidence = (enum evidence_kind)col_int(q, 4);
    bool overdrawn = col_int(q, 5), forgotten = col_int(q, 6);
    enum err e = query_end(q, info);
    if (e)
        return e;

    struct sim_seen *p = seen_of(s, NUMBER_PAYMENT, id);
    struct number no = number_make(NUMBER_PAYMENT, slot, id);
    int before = p->status;
    if (settled != p->settled)
        sim_note(s, "settled", settled);
    p->slot = (uint16_t)slot;
    p->status = status;
    p->settled = settled;
    if (forgotten)
        sim_fail(s, no, "nobody will ever look at this payment again");
    if (overdrawn)
        sim_fail(s, no, "more goes back than was paid, and nobody was told");
    if (status == before)
        return ERR_OK;
    sim_note(s, payment_status_name((enum payment_status)status), id);
    if (before == PAYMENT_SUCCESS)
        sim_fail(s, no, "a success was taken back");
    if (status == PAYMENT_FAILED || status == PAYMENT_CLOSED) {
        if (!p->ended_ms)
            p->ended_ms = s->now_ms;
        check_ended(s, no, expire_ms, evidence);
    }
    return ERR_OK;
}

/* ---- refunds ---- */

SQL(watch_refund, "SELECT slot, status, origin, status IN (0, 1, 4) AND NOT EXISTS"
                  " (SELECT 1 FROM refund_due d WHERE d.id = r.id)"
                  " FROM refund_order r WHERE id = ?");

/* A late success of what had failed is a move, but none that this channel gives cause for: what it
 * closed stays closed, and nothing is on its way for so long that its absence proves nothing. */
static bool refund_may_go(int from, int to)
{
    if (from < 0 || from == to)
        return true;
    if (from == REFUND_SUCCESS)
        return to == REFUND_REVERSED;
    return from != REFUND_REVERSED && from != REFUND_FAILED;
}

/* What failed with us does not go on at the channel. */
static void check_failed(struct sim *s, struct number no)
{
    struct sandbox_refund r;
    if (sandbox_refund_get(s->sandbox, number_str(s->arena, no), s->arena, &r))
        return;
    if (str_eq(r.state, STR("PROCESSING")) || str_eq(r.state, STR("SUCCESS")))
        sim_fail(s, no, "failed, and at the channel it is " STR_FMT, STR_ARG(r.state));
}

static enum err watch_one_refund(struct tx *tx, struct sim *s, int64_t id, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_refund, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_end(q, info);
    unsigned slot = (unsigned)col_int(q, 0);
    int status = (int)col_int(q, 1);
    bool ours = col_int(q, 2) != REFUND_BY_CHANNEL, forgotten = col_int(q, 3);
    enum err e = query_end(q, info);
    if (e)
        return e;

    struct sim_seen *r = seen_of(s, NUMBER_REFUND, id);
    struct number no = number_make(NUMBER_REFUND, slot, id);
    int before = r->status;
    r->slot = (uint16_t)slot;
    r->status = status;
    if (forgotten && ours)
        sim_fail(s, no, "nobody will ever look at this refund again");
    if (status == before)
        return ERR_OK;
    sim_note(s, refund_status_name((enum refund_status)status), id);
    if (!refund_may_go(before, status))
        sim_fail(s, no, "a refund went from %s to %s",
                 refund_status_name((enum refund_status)before),
                 refund_status_name((enum refund_status)status));
    if (status == REFUND_FAILED)
        check_failed(s, no);
    return ERR_OK;
}

/* ---- after a batch ---- */

/* Orders first: what the payments were before this batch is known still. */
static enum err watch_touched_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sim *s = arg;
    struct sim_watch *w = s->watch;
    enum err e = ERR_OK;
    for (size_t i = 0; i < w->orders.n && !e; i++)
        e = watch_one_order(tx, s, w->orders.ids[i], info);
    for (size_t i = 0; i < w->written_payments.n && !e; i++)
        e = watch_one_payment(tx, s, w->written_payments.ids[i], info);
    for (size_t i = 0; i < w->refunds.n && !e; i++)
        e = watch_one_refund(tx, s, w->refunds.ids[i], info);
    w->orders.n = w->written_payments.n = w->refunds.n = 0;
    return e;
}

void sim_watch_batch(struct sim *s)
{
    struct sim_watch *w = s->watch;
    if (w->orders.n || w->written_payments.n || w->refunds.n)
        sim_read(s, watch_touched_rule, s);
    if (++w->batches % ALL_EVERY == 0)
        sim_watch_all(s);
}

/* ---- everything ---- */

/* Likewise. */
SQL(forgotten_payment, "SELECT id, slot FROM payment_order p WHERE " PAYMENT_FORGOTTEN);
SQL(forgotten_order, "SELECT id, slot FROM order_info o WHERE order_status IN (0, 1, 3)"
                     " AND (expire_time > 0 OR cancel_requested > 0)"
                     " AND NOT EXISTS (SELECT 1 FROM order_due d WHERE d.id = o.id)");
SQL(forgotten_callback, "SELECT id, slot FROM callback_log c WHERE handle_result = 2"
                        " AND next_retry_time > 0 AND NOT EXISTS"
                        " (SELECT 1 FROM callback_due d WHERE d.id = c.id)");
SQL(forgotten_event, "SELECT id, slot FROM outbox o WHERE NOT EXISTS"
                     " (SELECT 1 FROM outbox_due d WHERE d.id = o.id)"
                     " AND NOT EXISTS (SELECT 1 FROM event_feed f WHERE f.event_id = o.id)");
SQL(forgotten_delivery, "SELECT event_id, 0 FROM event_delivery e WHERE state = 0 AND NOT EXISTS"
                        " (SELECT 1 FROM delivery_due d WHERE d.event_id = e.event_id"
                        " AND d.target = e.target)");

/* An automatic refund is made once: it has its incident's key, and the next one comes after it. */
SQL(auto_without_key, "SELECT id, slot FROM refund_order WHERE origin = 2"
                      " AND request_id NOT LIKE 'auto:I%:%'");
SQL(auto_twice, "SELECT id, slot FROM refund_order r WHERE origin = 2 AND status IN (0, 1, 4)"
                " AND EXISTS (SELECT 1 FROM refund_order o WHERE o.pay_id = r.pay_id"
                " AND o.id <> r.id AND o.origin = 2 AND o.status IN (0, 1, 4))");

static enum err none_rule(struct tx *tx, void *arg, struct err_info *info)
{
    static const struct {
        enum number_kind kind;
        const struct sql *sql;
        const char *why;
    } lists[] = {
        { NUMBER_PAYMENT, &forgotten_payment, "nobody will ever look at it again" },
        { NUMBER_ORDER, &forgotten_order, "nobody will ever look at it again" },
        { NUMBER_CALLBACK, &forgotten_callback, "nobody will ever look at it again" },
        { NUMBER_EVENT, &forgotten_event, "nobody will ever look at it again" },
        { NUMBER_EVENT, &forgotten_delivery, "nobody will ever deliver it" },
        { NUMBER_REFUND, &auto_without_key, "an automatic refund without its key" },
        { NUMBER_REFUND, &auto_twice, "two automatic refunds at once" },
    };
    struct sim *s = arg;
    enum err e = ERR_OK;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !e; i++) {
        struct query *q = tx_select(tx, lists[i].sql, NO_BINDS);
        while (query_row(q))
            sim_fail(s, number_make(lists[i].kind, (unsigned)col_int(q, 1), col_int(q, 0)),
                     "%s (%s)", lists[i].why, lists[i].sql->name);
        e = query_end(q, info);
    }
    return e;
}

SQL(watch_order_ids, "SELECT id FROM order_info");
SQL(watch_payment_ids, "SELECT id FROM payment_order");
SQL(watch_refund_ids, "SELECT id FROM refund_order");

static enum err touch_all(struct tx *tx, struct sim *s, const struct sql *sql, struct touched *t,
                          struct err_info *info)
{
    struct query *q = tx_select(tx, sql, NO_BINDS);
    while (query_row(q))
        touch(s, t, col_int(q, 0));
    return query_end(q, info);
}

static enum err touch_all_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sim *s = arg;
    enum err e = touch_all(tx, s, &watch_order_ids, &s->watch->orders, info);
    if (!e)
        e = touch_all(tx, s, &watch_payment_ids, &s->watch->written_payments, info);
    if (!e)
        e = touch_all(tx, s, &watch_refund_ids, &s->watch->refunds, info);
    return e ? e : watch_touched_rule(tx, arg, info);
}

void sim_watch_all(struct sim *s)
{
    sim_read(s, touch_all_rule, s);
    sim_read(s, none_rule, s);
}
