/* end.c -- at rest: when all faults are healed and nothing is due any more, what must have come
 * true, with the channel's own books as the truth about money. */
#include "sim/inner.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "bus/bus.h"
#include "consumer/consumer.h"
#include "core/callback/callback.h"
#include "core/incident/incident.h"
#include "core/invariant/invariant.h"
#include "core/order/order.h"
#include "core/refund/refund.h"

/* ---- is it at rest? ----
 *
 * Each: one of those that are still due. */

SQL(rest_payments, "SELECT id FROM payment_due LIMIT 1");
/* A cancel waits as long as money of the order is held for an operator. */
SQL(rest_orders, "SELECT d.id FROM order_due d WHERE NOT EXISTS"
                 " (SELECT 1 FROM payment_order p WHERE p.order_id = d.id AND p.quarantined = 1)"
                 " LIMIT 1");
/* A refund that the channel cannot bring to the payer waits for somebody; so does one for which
 * nothing is left, because more was given back behind our back. */
SQL(rest_refunds, "SELECT d.id FROM refund_due d JOIN refund_order r ON r.id = d.id"
                  " JOIN payment_order p ON p.id = r.pay_id"
                  " WHERE r.status <> 4 AND refunding + refunded <= paid_amount LIMIT 1");
SQL(rest_callbacks, "SELECT id FROM callback_due LIMIT 1");
SQL(rest_events, "SELECT id FROM outbox_due LIMIT 1");
SQL(rest_deliveries, "SELECT event_id FROM delivery_due WHERE due < 9223372036854775807 LIMIT 1");

const char *sim_unrest(struct sim *s, struct number *ret_about)
{
    static const struct {
        const char *what;
        enum number_kind kind;
        const struct sql *sql;
    } rest[] = {
        { "refunds", NUMBER_REFUND, &rest_refunds },
        { "payments", NUMBER_PAYMENT, &rest_payments },
        { "orders", NUMBER_ORDER, &rest_orders },
        { "callbacks", NUMBER_CALLBACK, &rest_callbacks },
        { "events", NUMBER_EVENT, &rest_events },
        { "deliveries", NUMBER_EVENT, &rest_deliveries },
    };
    if (s->actors || s->operators)
        return "people";
    for (int i = 0; i < s->temper.nodes; i++) {
        const struct sim_process *p = s->nodes[i].process;
        if (!p)
            return "a process";
        if (store_waiting(p->centre.store) || !list_empty(&p->calls))
            return "calls";
    }
    if (sandbox_next_ms(s->sandbox))
        return "the channel's callbacks";
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        int64_t id = sim_count(s, rest[i].sql);
        if (!id)
            continue;
        *ret_about = sim_number(s, rest[i].kind, id);
        return rest[i].what;
    }
    return NULL;
}

/* ---- orders and payments ---- */

struct check {
    struct sim *s;
    struct sim_result *ret;
    const struct sim_seen *seen;
    int64_t money; /* fen of successes and of what is held, less what went back */
};

static enum err check_journal(struct tx *tx, struct sim *s, struct number no,
                              const struct journal_head *head, int status, struct err_info *info)
{
    struct journal_row *rows;
    size_t n;
    enum err e = journal_read(tx, head, &rows, &n, info);
    if (e == ERR_CONFLICT) {
        sim_fail(s, no, "the journal is broken: %s", info->text);
        return ERR_OK;
    }
    if (!e && (!n || rows[n - 1].to != status))
        sim_fail(s, no, "the journal ends in %d, the row says %d", n ? rows[n - 1].to : -1, status);
    for (size_t i = 1; !e && i < n; i++)
        if (rows[i].from != rows[i - 1].to)
            sim_fail(s, no, "the journal jumps from %d to %d", rows[i - 1].to, rows[i].from);
    return e;
}

/* The payment against the channel's books. `abnormal`: on its way back, and not arriving. */
static void check_money(struct check *k, const struct payment *p, int64_t abnormal)
{
    struct sim *s = k->s;
    struct sandbox_trade t = { 0 };
    int64_t paid = money_fen(p->paid_amount), back = money_fen(p->refunded) + abnormal;

    (void)sandbox_trade_get(s->sandbox, number_str(s->arena, p->no), s->arena, &t);
    if (p->status == PAYMENT_SUCCESS) {
        k->money += paid - back;
        if (t.refunded_fen != back)
            sim_fail(s, p->no, "we say %" PRId64 " fen went back, the channel says %" PRId64, back,
                     t.refunded_fen);
        if (t.taken_fen != paid)
            sim_fail(s, p->no, "we say %" PRId64 " fen, the channel took %" PRId64, paid,
                     t.taken_fen);
        if (!str_eq(t.transaction_id, p->transaction_id))
            sim_fail(s, p->no, "another transaction");
    } else if (p->quarantined) {
        k->money += t.taken_fen - t.refunded_fen;
    } else if (t.taken_fen) {
        sim_fail(s, p->no, "the channel took %" PRId64 " fen, and we say %s", t.taken_fen,
                 payment_status_name(p->status));
    }
    if (!s->temper.typing && k->seen->ended_ms && t.success_ms > k->seen->ended_ms)
        sim_fail(s, p->no, "paid at the channel after it had ended with us");
}

/* An incident about the payment; *ret_owed: one by which money must have gone back by now. */
static enum err look_at_incidents(struct tx *tx, int64_t id, bool *ret_any, bool *ret_owed,
                                  struct err_info *info)
{
    struct incident_row rows[32];
    size_t n;
    enum err e = incidents_of(tx, id, rows, 32, &n, info);

    *ret_any = n > 0;
    *ret_owed = false;
    for (size_t i = 0; !e && i < n; i++)
        *ret_owed = *ret_owed || (!rows[i].resolved && rows[i].policy == POLICY_REFUND);
    return e;
}

SQL(end_abnormal,
    "SELECT COALESCE(SUM(amount), 0) FROM refund_order WHERE pay_id = ? AND status = 4");

static enum err check_payment_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct check *k = arg;
    struct sim *s = k->s;
    struct payment p;
    struct order o;
    bool incident, owed;
    int64_t abnormal;
    enum err e = payment_load(tx, k->seen->id, &p, info);

    if (!e)
        e = order_load(tx, p.order_no.id, &o, info);
    if (!e)
        e = check_journal(tx, s, p.no, &p.journal, (int)p.status, info);
    if (!e)
        e = look_at_incidents(tx, p.no.id, &incident, &owed, info);
    if (!e)
        e = tx_select_int(tx, &end_abnormal, BINDS(bind_int(p.no.id)), &abnormal, info);
    if (e)
        return e;
    bool final = p.status != PAYMENT_INIT && p.status != PAYMENT_PAYING;
    k->ret->succeeded += p.status == PAYMENT_SUCCESS;
    k->ret->late += p.late;
    k->ret->surplus += p.settled == SETTLED_SURPLUS;
    k->ret->quarantined += p.quarantined;
    check_money(k, &p, abnormal);
    if (final && p.evidence_kind == EVIDENCE_NONE)
        sim_fail(s, p.no, "%s without evidence", payment_status_name(p.status));
    if (!final && !p.quarantined && p.expire_ms < s->now_ms)
        sim_fail(s, p.no, "%s, and it expired", payment_status_name(p.status));
    if (owed && !abnormal &&
        money_fen(p.refunding) + money_fen(p.refunded) <= money_fen(p.paid_amount))
        sim_fail(s, p.no, "its money should have gone back");
    if (p.quarantined && !incident)
        sim_fail(s, p.no, "held, and nobody was told");
    if (p.status == PAYMENT_SUCCESS && p.settled == SETTLED_NO)
        sim_fail(s, p.no, "a success that its order never heard of");
    if (p.settled == SETTLED_WON && o.pay_no.id != p.no.id)
        sim_fail(s, p.no, "won, and its order names another payment");
    if (p.status == PAYMENT_SUCCESS && p.settled != SETTLED_WON && !incident)
        sim_fail(s, p.no, "more money than the order wanted, and nobody was told");
    return ERR_OK;
}

static enum err check_order_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct check *k = arg;
    struct sim *s = k->s;
    struct order o;
    struct payment *p;
    size_t n;
    enum err e = order_load(tx, k->seen->id, &o, info);

    if (!e)
        e = check_journal(tx, s, o.no, &o.journal, (int)o.status, info);
    if (!e)
        e = payments_of_order(tx, o.no.id, &p, &n, info);
    if (e)
        return e;
    size_t won = 0, alive = 0, held = 0;
    int refunds = 0; /* 0 none, 1 part, 2 all of the winning payment */
    for (size_t i = 0; i < n; i++) {
        int64_t back = money_fen(p[i].refunded);
        if (p[i].settled == SETTLED_WON && back)
            refunds = back < money_fen(p[i].paid_amount) ? 1 : 2;
        won += p[i].settled == SETTLED_WON;
        alive += p[i].status == PAYMENT_INIT || p[i].status == PAYMENT_PAYING;
        held += p[i].quarantined && p[i].status != PAYMENT_SUCCESS;
    }
    bool paid = o.status == ORDER_PAID || o.status == ORDER_COMPLETED;
    bool open = !paid && o.status != ORDER_CANCELLED;
    if (won != (size_t)paid)
        sim_fail(s, o.no, "%s, settled by %zu payments", order_status_name(o.status), won);
    if (o.refund_status != refunds)
        sim_fail(s, o.no, "refund status %d, and it should be %d", o.refund_status, refunds);
    if (o.status == ORDER_PAYING && !alive && !held)
        sim_fail(s, o.no, "PAYING, and nobody pays");
    if (open && !held && (o.cancel_requested || (o.expire_ms && o.expire_ms < s->now_ms)))
        sim_fail(s, o.no, "%s, and it should be cancelled", order_status_name(o.status));
    return ERR_OK;
}

/* The state at the channel that goes with ours; NULL: none does. */
static const char *state_of(const struct refund *r)
{
    switch (r->status) {
    case REFUND_SUCCESS:
        return r->evidence_kind == EVIDENCE_OPERATOR ? "ABNORMAL" : "SUCCESS";
    case REFUND_FAILED:
        return "CLOSED";
    case REFUND_ABNORMAL:
        return "ABNORMAL";
    case REFUND_INIT:
    case REFUND_PROCESSING:
    case REFUND_REVERSED:
        break;
    }
    return NULL;
}

static enum err check_refund_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct check *k = arg;
    struct sim *s = k->s;
    struct refund r;
    struct payment p;
    struct sandbox_refund theirs;
    enum err e = refund_load(tx, k->seen->id, &r, info);

    if (!e)
        e = payment_load(tx, r.pay_no.id, &p, info);
    if (!e)
        e = check_journal(tx, s, r.no, &r.journal, (int)r.status, info);
    if (e)
        return e;
    k->ret->refunds++;
    k->ret->refunded += r.status == REFUND_SUCCESS;
    if (r.status > REFUND_PROCESSING && r.evidence_kind == EVIDENCE_NONE)
        sim_fail(s, r.no, "%s without evidence", refund_status_name(r.status));
    if (r.origin == REFUND_BY_CHANNEL)
        return ERR_OK; /* the sum over the payment has it */
    bool there = !sandbox_refund_get(s->sandbox, number_str(s->arena, r.no), s->arena, &theirs);
    int64_t all = money_fen(p.refunding) + money_fen(p.refunded);
    if (!there && r.status != REFUND_FAILED && all <= money_fen(p.paid_amount))
        sim_fail(s, r.no, "%s, and the channel does not know it", refund_status_name(r.status));
    if (there && (!state_of(&r) || !str_eq(theirs.state, str_of(state_of(&r)))))
        sim_fail(s, r.no, "%s, and at the channel it is " STR_FMT, refund_status_name(r.status),
                 STR_ARG(theirs.state));
    if (there && theirs.amount_fen != money_fen(r.amount))
        sim_fail(s, r.no, "another amount at the channel");
    return ERR_OK;
}

static int64_t check_rows(struct sim *s, struct sim_result *ret)
{
    struct check k = { .s = s, .ret = ret };
    for (size_t i = 0; (k.seen = sim_seen_at(s, i)) && !s->failed; i++)
        sim_read(s,
                 k.seen->kind == NUMBER_PAYMENT  ? check_payment_rule
                 : k.seen->kind == NUMBER_REFUND ? check_refund_rule
                                                 : check_order_rule,
                 &k);
    int64_t balance = 0;
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        balance += sandbox_balance_fen(s->sandbox, s->cast->wechat[i].mchid);
    if (balance != k.money)
        sim_fail(s, (struct number) { 0 }, "the channel holds %" PRId64 " fen, we say %" PRId64,
                 balance, k.money);
    return k.money;
}

/* ---- callbacks ---- */

SQL(end_callbacks, "SELECT subject_id FROM callback_log ORDER BY subject_id");

struct ids {
    struct arena *arena;
    const struct sql *sql;
    int64_t *ids;
    size_t n, room;
};

static void add_id(struct ids *k, int64_t id)
{
    if (k->n == k->room) {
        int64_t *old = k->ids;
        k->room = k->room ? k->room * 2 : 256;
        k->ids = arena_array(k->arena, k->room, sizeof *k->ids);
        if (old)
            memcpy(k->ids, old, k->n * sizeof *k->ids);
    }
    k->ids[k->n++] = id;
}

static enum err ids_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct ids *k = arg;
    struct query *q = tx_select(tx, k->sql, NO_BINDS);
    while (query_row(q))
        add_id(k, col_int(q, 0));
    return query_end(q, info);
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool has_id(const struct ids *k, int64_t id)
{
    return k->n && bsearch(&id, k->ids, k->n, sizeof id, compare_ids);
}

/* A callback that is done has moved its payment, or an incident says why not. */
SQL(end_done_for_nothing,
    "SELECT COUNT(*) FROM callback_log c JOIN payment_order p ON p.id = c.subject_id"
    " WHERE c.handle_result = 1 AND c.kind = 'TRANSACTION.SUCCESS' AND p.evidence_ref <> c.id"
    " AND NOT EXISTS (SELECT 1 FROM incident i WHERE i.subject_id = p.id)");

static void check_acknowledged(struct sim *s)
{
    struct ids k = { .arena = s->arena, .sql = &end_callbacks };
    sim_read(s, ids_rule, &k);
    list_each (node, &s->acknowledged) {
        struct number about = container_of(node, struct sim_ack, link)->subject;
        if (!has_id(&k, about.id))
            sim_fail(s, about, "a callback was acknowledged, and it is lost");
    }
    if (sim_count(s, &end_done_for_nothing))
        sim_fail(s, (struct number) { 0 }, "a callback counts as done, and it did nothing");
}

/* ---- events ---- */

SQL(end_events, "SELECT id, slot FROM outbox ORDER BY id");

struct received {
    struct sim *s;
    struct ids ids;
};

/* The subscriber has heard of every event, once at least. */
static enum err check_webhook_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct received *k = arg;
    struct query *q = tx_select(tx, &end_events, NO_BINDS);
    while (query_row(q))
        if (!has_id(&k->ids, col_int(q, 0)))
            sim_fail(k->s, number_make(NUMBER_EVENT, (unsigned)col_int(q, 1), col_int(q, 0)),
                     "an event that the webhook never got");
    return query_end(q, info);
}

static void check_webhook(struct sim *s)
{
    struct received k = { .s = s, .ids = { .arena = s->arena } };
    list_each (node, &s->received)
        add_id(&k.ids, container_of(node, struct sim_ack, link)->subject.id);
    if (k.ids.n)
        qsort(k.ids.ids, k.ids.n, sizeof *k.ids.ids, compare_ids);
    sim_read(s, check_webhook_rule, &k);
}

SQL(end_events_twice, "SELECT COUNT(*) FROM (SELECT subject_id, type, sequence FROM outbox"
                      " GROUP BY subject_id, type, sequence HAVING COUNT(*) > 1) t");
SQL(end_not_fed, "SELECT (SELECT COUNT(*) FROM outbox) - (SELECT COUNT(*) FROM event_feed)");
SQL(end_fed_twice, "SELECT COUNT(*) - COUNT(DISTINCT event_id) FROM event_feed");
SQL(end_gaps, "SELECT COALESCE(MAX(seq) - MIN(seq) + 1 - COUNT(*), 0) FROM event_feed");
SQL(end_success_untold, "SELECT COUNT(*) FROM payment_order WHERE status = 2 AND id NOT IN"
                        " (SELECT subject_id FROM outbox WHERE type = 1)");
SQL(end_paid_untold, "SELECT COUNT(*) FROM order_info WHERE order_status IN (2, 5) AND id NOT IN"
                     " (SELECT subject_id FROM outbox WHERE type IN (4, 5))");
SQL(end_cancelled_untold, "SELECT COUNT(*) FROM order_info WHERE order_status = 4 AND id NOT IN"
                          " (SELECT subject_id FROM outbox WHERE type IN (6, 7))");
SQL(end_dead_untold, "SELECT COUNT(*) FROM event_delivery e WHERE state = 2 AND NOT EXISTS"
                     " (SELECT 1 FROM incident i WHERE i.discriminator = e.target)");

SQL(end_not_consumed, "SELECT (SELECT COUNT(*) FROM outbox WHERE (? >> type) % 2 = 1)"
                      " - (SELECT COUNT(*) FROM consumed_event WHERE consumer = 'order')");

static enum err consumed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sim *s = arg;
    int64_t n, types = order_consumer(NULL).types;
    enum err e = tx_select_int(tx, &end_not_consumed, BINDS(bind_int(types)), &n, info);
    if (!e && n)
        sim_fail(s, (struct number) { 0 }, "%" PRId64 " events not consumed once", n);
    return e;
}

SQL(end_fed, "SELECT COUNT(*) FROM event_feed WHERE caller = ? AND seq <= ?");

static enum err fed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sim *s = arg;
    int64_t n;
    enum err e =
        tx_select_int(tx, &end_fed, BINDS(bind_int(SIM_CALLER), bind_int(s->fed_seq)), &n, info);
    if (!e && n != s->fed)
        sim_fail(s, (struct number) { 0 },
                 "the reader of the feed saw %" PRId64 " events of %" PRId64, s->fed, n);
    return e;
}

static void check_events(struct sim *s)
{
    static const struct {
        const struct sql *sql;
        const char *why;
    } zero[] = {
        { &end_events_twice, "one move, two events" },
        { &end_not_fed, "the feed does not have every event" },
        { &end_fed_twice, "the feed has an event twice" },
        { &end_gaps, "the feed has gaps" },
        { &end_success_untold, "a success without its event" },
        { &end_paid_untold, "an order paid without its event" },
        { &end_cancelled_untold, "an order cancelled without its event" },
        { &end_dead_untold, "a delivery was given up, and nobody was told" },
    };
    static_assert(EVENT_PAYMENT_SUCCESS == 1 && EVENT_PAYMENT_CLOSED == 3 && EVENT_ORDER_PAID == 4,
                  "in the SQL");
    sim_read(s, fed_rule, s);
    sim_read(s, consumed_rule, s);
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        int64_t n = sim_count(s, zero[i].sql);
        if (n)
            sim_fail(s, (struct number) { 0 }, "%s (%" PRId64 ")", zero[i].why, n);
    }
    if (s->temper.webhook)
        check_webhook(s);
}

/* ---- what production counts ---- */

static enum err invariants_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return invariant_step(tx, arg, info);
}

static void check_invariants(struct sim *s)
{
    struct invariant_pass p = { .since_ms = SIM_START_MS - 86400000 };
    while (!p.over && !s->failed)
        sim_read(s, invariants_rule, &p);
    for (int i = 0; i < INVARIANTS; i++)
        if (p.broken[i])
            sim_fail(s, p.example[i], "%s (%" PRId64 ")", invariant_text((enum invariant)i),
                     p.broken[i]);
}

/* ---- the log ---- */

static bool has(struct str line, const char *what)
{
    return memmem(line.p, line.n, what, strlen(what)) != NULL;
}

struct str sim_log_text(struct sim *s)
{
    struct stat st;
    log_flush(s->log);
    if (fstat(s->log_fd, &st))
        return STR("");
    char *text = arena_alloc(s->arena, (size_t)st.st_size + 1);
    ssize_t n = pread(s->log_fd, text, (size_t)st.st_size, 0);
    return (struct str) { text, n > 0 ? (size_t)n : 0 };
}

/* Rules that failed, jobs' too, stand in the log only. A success that its order has not heard of
 * for a minute is no failure while the bus is slow on purpose. */
static void check_log(struct sim *s)
{
    static const char *const bad[] = { "rule.failed", "answer_impossible", "consumer_failed",
                                       "invariant_broken", "not_built" };
    struct str lines = sim_log_text(s);
    while (lines.n) {
        struct str line = str_cut(&lines, '\n');
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            if (has(line, bad[i]) && !has(line, "got lost") && !has(line, "planted") &&
                !has(line, "fenpay_paid_unsettled"))
                sim_fail(s, (struct number) { 0 }, "logged: " STR_FMT, STR_ARG(line));
    }
}

void sim_end(struct sim *s, struct sim_result *ret)
{
    sim_watch_all(s);
    int64_t money = check_rows(s, ret);
    check_acknowledged(s);
    check_events(s);
    check_invariants(s);
    check_log(s);
    sim_note(s, "money", money);
}
