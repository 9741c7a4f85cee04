/* watch.c -- what must hold: at every moment (after each batch that was committed), and in the end,
 * when all faults are healed and nothing is due any more. The channel's books are the truth about
 * money. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/callback/callback.h"
#include "core/incident/incident.h"
#include "core/order/order.h"
#include "core/payment/flow.h"

#define SEEN_MAX  512
#define MARGIN_MS 60000 /* the channel's: before it, "does not exist" proves nothing */

struct seen {
    int64_t id;
    enum number_kind kind;
    int status, settled;
    int64_t ended_ms; /* first seen FAILED or CLOSED; 0: never */
};

struct sim_watch {
    struct seen seen[SEEN_MAX];
    size_t n;
};

void sim_watch_open(struct sim *s)
{
    s->watch = arena_one(s->arena, struct sim_watch);
}

/* The entry of a row; a new one has status -1. */
static struct seen *seen_of(struct sim_watch *w, enum number_kind kind, int64_t id)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->seen[i].id == id && w->seen[i].kind == kind)
            return &w->seen[i];
    if (w->n == SEEN_MAX)
        abort();
    w->seen[w->n] = (struct seen) { .id = id, .kind = kind, .status = -1 };
    return &w->seen[w->n++];
}

/* ---- at every moment ---- */

SQL(watch_orders, "SELECT id, slot, order_status FROM order_info ORDER BY id");
SQL(watch_payments, "SELECT id, slot, status, settled, order_id, expire_time, evidence_kind, "
                    "quarantined FROM payment_order ORDER BY id");
SQL(watch_unsettled, "SELECT id, slot FROM payment_order WHERE order_id = ? AND status = 2");

/* An order was cancelled just now. A success that stood there before has been looked over. */
static enum err cancelled(struct tx *tx, struct sim *s, struct number order, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_unsettled, BINDS(bind_int(order.id)));
    while (query_row(q)) {
        const struct seen *p = seen_of(s->watch, NUMBER_PAYMENT, col_int(q, 0));
        if (p->status == PAYMENT_SUCCESS && p->settled == SETTLED_NO)
            sim_fail(s, number_make(NUMBER_PAYMENT, (unsigned)col_int(q, 1), p->id),
                     "an order was cancelled over a payment that had succeeded before");
    }
    return query_end(q, info);
}

static enum err watch_orders_rule(struct tx *tx, struct sim *s, struct err_info *info)
{
    struct number now_cancelled[16];
    size_t n = 0;
    struct query *q = tx_select(tx, &watch_orders, NO_BINDS);
    while (query_row(q)) {
        struct seen *o = seen_of(s->watch, NUMBER_ORDER, col_int(q, 0));
        int status = (int)col_int(q, 2), before = o->status;
        struct number no = number_make(NUMBER_ORDER, (unsigned)col_int(q, 1), o->id);
        if (status == before)
            continue;
        sim_note(s, order_status_name((enum order_status)status), o->id);
        o->status = status;
        if (before == ORDER_CANCELLED || before == ORDER_COMPLETED ||
            (before == ORDER_PAID && status != ORDER_COMPLETED))
            sim_fail(s, no, "an order went from %s to %s",
                     order_status_name((enum order_status)before),
                     order_status_name((enum order_status)status));
        if (status == ORDER_CANCELLED && n < sizeof now_cancelled / sizeof *now_cancelled)
            now_cancelled[n++] = no;
    }
    enum err e = query_end(q, info);
    for (size_t i = 0; i < n && !e; i++)
        e = cancelled(tx, s, now_cancelled[i], info);
    return e;
}

/* What ended with us cannot be paid at the channel. */
static void check_ended(struct sim *s, struct number no, int64_t expire_ms,
                        enum evidence_kind evidence)
{
    struct sandbox_trade t;
    if (evidence == EVIDENCE_NOT_EXIST &&
        s->now_ms <= expire_ms + MARGIN_MS - s->temper.skew_max_ms)
        sim_fail(s, no, "ended because it does not exist, before that proves anything");
    if (s->now_ms < expire_ms &&
        !sandbox_trade_get(s->sandbox, number_str(s->arena, no), s->arena, &t) &&
        str_eq(t.state, STR("NOTPAY")))
        sim_fail(s, no, "ended, and it can be paid at the channel");
}

static enum err watch_payments_rule(struct tx *tx, struct sim *s, struct err_info *info)
{
    struct query *q = tx_select(tx, &watch_payments, NO_BINDS);
    while (query_row(q)) {
        struct seen *p = seen_of(s->watch, NUMBER_PAYMENT, col_int(q, 0));
        int status = (int)col_int(q, 2), settled = (int)col_int(q, 3), before = p->status;
        struct number no = number_make(NUMBER_PAYMENT, (unsigned)col_int(q, 1), p->id);
        if (settled != p->settled)
            sim_note(s, "settled", settled);
        p->settled = settled;
        if (status == before)
            continue;
        sim_note(s, payment_status_name((enum payment_status)status), p->id);
        p->status = status;
        if (before == PAYMENT_SUCCESS)
            sim_fail(s, no, "a success was taken back");
        if ((status == PAYMENT_FAILED || status == PAYMENT_CLOSED) && !p->ended_ms)
            p->ended_ms = s->now_ms;
        if (status == PAYMENT_FAILED || status == PAYMENT_CLOSED)
            check_ended(s, no, col_int(q, 5), (enum evidence_kind)col_int(q, 6));
    }
    return query_end(q, info);
}

/* Whatever is not at its end has a row that brings a job back to it. */
SQL(forgotten_payment,
    "SELECT id, slot FROM payment_order p WHERE ((status < 2 AND quarantined = 0)"
    " OR (status = 2 AND settled = 0) OR (status > 2 AND close_requested = 6 AND quarantined = 0))"
    " AND NOT EXISTS (SELECT 1 FROM payment_due d WHERE d.id = p.id)");
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

static enum err watch_forgotten_rule(struct tx *tx, struct sim *s, struct err_info *info)
{
    static const struct {
        enum number_kind kind;
        const struct sql *sql;
    } lists[] = {
        { NUMBER_PAYMENT, &forgotten_payment },   { NUMBER_ORDER, &forgotten_order },
        { NUMBER_CALLBACK, &forgotten_callback }, { NUMBER_EVENT, &forgotten_event },
        { NUMBER_EVENT, &forgotten_delivery },
    };
    enum err e = ERR_OK;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !e; i++) {
        struct query *q = tx_select(tx, lists[i].sql, NO_BINDS);
        while (query_row(q))
            sim_fail(s, number_make(lists[i].kind, (unsigned)col_int(q, 1), col_int(q, 0)),
                     "nobody will ever look at it again (%s)", lists[i].sql->name);
        e = query_end(q, info);
    }
    return e;
}

/* Orders first: what the payments were before this batch is known still. */
static enum err watch_rule(struct tx *tx, void *arg, struct err_info *info)
{
    enum err e = watch_orders_rule(tx, arg, info);
    if (!e)
        e = watch_payments_rule(tx, arg, info);
    return e ? e : watch_forgotten_rule(tx, arg, info);
}

void sim_watch_batch(struct sim *s)
{
    sim_read(s, watch_rule, s);
}

/* ---- at rest ---- */

struct count {
    const struct sql *sql;
    int64_t value;
};

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct count *c = arg;
    return tx_select_int(tx, c->sql, NO_BINDS, &c->value, info);
}

static int64_t count(struct sim *s, const struct sql *sql)
{
    struct count c = { .sql = sql };
    sim_read(s, count_rule, &c);
    return c.value;
}

SQL(rest_payments, "SELECT COUNT(*) FROM payment_due");
/* A cancel waits as long as money of the order is held for an operator. */
SQL(rest_orders, "SELECT COUNT(*) FROM order_due d WHERE NOT EXISTS"
                 " (SELECT 1 FROM payment_order p WHERE p.order_id = d.id AND p.quarantined = 1)");
SQL(rest_callbacks, "SELECT COUNT(*) FROM callback_due");
SQL(rest_events, "SELECT (SELECT COUNT(*) FROM outbox_due) + (SELECT COUNT(*) FROM delivery_due)");
static const struct {
    const char *what;
    const struct sql *sql;
} rest[] = {
    { "payments", &rest_payments },
    { "orders", &rest_orders },
    { "callbacks", &rest_callbacks },
    { "events", &rest_events },
};

const char *sim_unrest(struct sim *s)
{
    if (s->actors)
        return "people";
    if (!s->process)
        return "a process";
    if (sandbox_next_ms(s->sandbox))
        return "the channel's callbacks";
    if (store_waiting(s->process->centre.store) || !list_empty(&s->process->calls))
        return "calls";
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (count(s, rest[i].sql))
            return rest[i].what;
    return NULL;
}

/* ---- in the end ---- */

struct check {
    struct sim *s;
    struct sim_result *ret;
    const struct seen *seen;
    int64_t money; /* fen of successes and of what is held */
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

static enum err has_incident(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    struct incident_row rows[32];
    size_t n;
    enum err e = incidents_of(tx, id, rows, 32, &n, info);
    *ret = n > 0;
    return e;
}

/* The payment against the channel's books. */
static void check_money(struct check *k, const struct payment *p)
{
    struct sim *s = k->s;
    struct sandbox_trade t = { 0 };
    int64_t paid = money_fen(p->paid_amount);

    (void)sandbox_trade_get(s->sandbox, number_str(s->arena, p->no), s->arena, &t);
    if (p->status == PAYMENT_SUCCESS) {
        k->money += paid;
        if (t.taken_fen != paid)
            sim_fail(s, p->no, "we say %" PRId64 " fen, the channel took %" PRId64, paid,
                     t.taken_fen);
        if (!str_eq(t.transaction_id, p->transaction_id))
            sim_fail(s, p->no, "another transaction");
    } else if (p->quarantined) {
        k->money += t.taken_fen;
    } else if (t.taken_fen) {
        sim_fail(s, p->no, "the channel took %" PRId64 " fen, and we say %s", t.taken_fen,
                 payment_status_name(p->status));
    }
    if (!s->temper.typing && k->seen->ended_ms && t.success_ms > k->seen->ended_ms)
        sim_fail(s, p->no, "paid at the channel after it had ended with us");
}

static enum err check_payment_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct check *k = arg;
    struct sim *s = k->s;
    struct payment p;
    struct order o;
    bool incident;
    enum err e = payment_load(tx, k->seen->id, &p, info);

    if (!e)
        e = order_load(tx, p.order_no.id, &o, info);
    if (!e)
        e = check_journal(tx, s, p.no, &p.journal, (int)p.status, info);
    if (!e)
        e = has_incident(tx, p.no.id, &incident, info);
    if (e)
        return e;
    bool final = p.status != PAYMENT_INIT && p.status != PAYMENT_PAYING;
    k->ret->payments++;
    k->ret->succeeded += p.status == PAYMENT_SUCCESS;
    k->ret->late += p.late;
    k->ret->surplus += p.settled == SETTLED_SURPLUS;
    k->ret->quarantined += p.quarantined;
    check_money(k, &p);
    if (final && p.evidence_kind == EVIDENCE_NONE)
        sim_fail(s, p.no, "%s without evidence", payment_status_name(p.status));
    if (!final && !p.quarantined && p.expire_ms < s->now_ms)
        sim_fail(s, p.no, "%s, and it expired", payment_status_name(p.status));
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
    for (size_t i = 0; i < n; i++) {
        won += p[i].settled == SETTLED_WON;
        alive += p[i].status == PAYMENT_INIT || p[i].status == PAYMENT_PAYING;
        held += p[i].quarantined && p[i].status != PAYMENT_SUCCESS;
    }
    bool paid = o.status == ORDER_PAID || o.status == ORDER_COMPLETED;
    bool open = !paid && o.status != ORDER_CANCELLED;
    if (won != (size_t)paid)
        sim_fail(s, o.no, "%s, settled by %zu payments", order_status_name(o.status), won);
    if (o.status == ORDER_PAYING && !alive && !held)
        sim_fail(s, o.no, "PAYING, and nobody pays");
    if (open && !held && (o.cancel_requested || (o.expire_ms && o.expire_ms < s->now_ms)))
        sim_fail(s, o.no, "%s, and it should be cancelled", order_status_name(o.status));
    return ERR_OK;
}

struct ack_check {
    const struct sim_ack *ack;
    size_t n;
};

static enum err check_ack_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct ack_check *k = arg;
    struct callback_row rows[32];
    return callbacks_of(tx, k->ack->subject.id, rows, 32, &k->n, info);
}

SQL(end_events, "SELECT id, slot FROM outbox ORDER BY id");

/* The subscriber has heard of every event, once at least. */
static enum err check_webhook_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sim *s = arg;
    struct query *q = tx_select(tx, &end_events, NO_BINDS);
    while (query_row(q)) {
        struct number no = number_make(NUMBER_EVENT, (unsigned)col_int(q, 1), col_int(q, 0));
        bool found = false;
        list_each (node, &s->received)
            found = found || container_of(node, struct sim_ack, link)->subject.id == no.id;
        if (!found)
            sim_fail(s, no, "an event that the webhook never got");
    }
    return query_end(q, info);
}

SQL(end_events_twice, "SELECT COUNT(*) FROM (SELECT subject_id, type, sequence FROM outbox"
                      " GROUP BY subject_id, type, sequence HAVING COUNT(*) > 1) t");
SQL(end_not_fed, "SELECT (SELECT COUNT(*) FROM outbox) - (SELECT COUNT(*) FROM event_feed)");
SQL(end_fed_twice, "SELECT COUNT(*) - COUNT(DISTINCT event_id) FROM event_feed");
SQL(end_not_consumed, "SELECT (SELECT COUNT(*) FROM outbox WHERE type IN (1, 2, 3))"
                      " - (SELECT COUNT(*) FROM consumed_event WHERE consumer = 'order')");
SQL(end_moves_untold, "SELECT (SELECT COUNT(*) FROM payment_order WHERE status = 2)"
                      " - (SELECT COUNT(DISTINCT subject_id) FROM outbox WHERE type = 1)"
                      " + (SELECT COUNT(*) FROM order_info WHERE order_status IN (2, 5))"
                      " - (SELECT COUNT(DISTINCT subject_id) FROM outbox WHERE type = 4)"
                      " + (SELECT COUNT(*) FROM order_info WHERE order_status = 4)"
                      " - (SELECT COUNT(DISTINCT subject_id) FROM outbox WHERE type IN (6, 7))");

static void check_events(struct sim *s)
{
    const struct number none = { 0 };
    if (count(s, &end_events_twice))
        sim_fail(s, none, "one move, two events");
    if (count(s, &end_not_fed) || count(s, &end_fed_twice))
        sim_fail(s, none, "the feed does not have each event once");
    if (count(s, &end_not_consumed))
        sim_fail(s, none, "the order consumer did not take each event once");
    if (count(s, &end_moves_untold))
        sim_fail(s, none, "a move without its event");
    if (s->temper.webhook)
        sim_read(s, check_webhook_rule, s);
}

/* Rules that failed, jobs' too, stand in the log only. */
static void check_log(struct sim *s)
{
    struct stat st;
    log_flush(s->log);
    if (fstat(s->log_fd, &st))
        return;
    char *text = arena_alloc(s->arena, (size_t)st.st_size + 1);
    ssize_t n = pread(s->log_fd, text, (size_t)st.st_size, 0);
    struct str lines = { text, n > 0 ? (size_t)n : 0 };
    while (lines.n) {
        struct str line = str_cut(&lines, '\n');
        bool bad = memmem(line.p, line.n, "rule.failed", 11) ||
                   memmem(line.p, line.n, "answer_impossible", 17) ||
                   memmem(line.p, line.n, "consumer_failed", 15);
        bool unknown = memmem(line.p, line.n, "got lost", 8) != NULL;
        if (bad && !unknown)
            sim_fail(s, (struct number) { 0 }, "logged: " STR_FMT, STR_ARG(line));
    }
}

void sim_watch_end(struct sim *s, struct sim_result *ret)
{
    struct check k = { .s = s, .ret = ret };
    sim_watch_batch(s);
    for (size_t i = 0; i < s->watch->n && !s->failed; i++) {
        k.seen = &s->watch->seen[i];
        sim_read(s, k.seen->kind == NUMBER_PAYMENT ? check_payment_rule : check_order_rule, &k);
    }
    int64_t balance = 0;
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        balance += sandbox_balance_fen(s->sandbox, s->base->wechat[i].mchid);
    if (balance != k.money)
        sim_fail(s, (struct number) { 0 }, "the channel holds %" PRId64 " fen, we say %" PRId64,
                 balance, k.money);
    list_each (node, &s->acknowledged) {
        struct ack_check a = { .ack = container_of(node, struct sim_ack, link) };
        sim_read(s, check_ack_rule, &a);
        if (!a.n)
            sim_fail(s, a.ack->subject, "a callback was acknowledged, and it is lost");
    }
    check_events(s);
    check_log(s);
    sim_note(s, "money", k.money);
}

/* ---- the report of a failure ---- */

static void print_story(struct sim *s, struct number no)
{
    struct act act = { .caller = { SIM_CALLER, STR("shop") }, .arena = s->arena };
    struct refusal refusal = { 0 };
    struct timeline_entry *entries;
    size_t n;

    if (timeline_read(&s->process->centre, &act, no, &entries, &n, &refusal)) {
        printf("#   (no story of " STR_FMT ")\n", STR_ARG(number_str(s->arena, no)));
        return;
    }
    for (size_t i = 0; i < n; i++)
        printf("#   +%lld.%03lld " STR_FMT "  " STR_FMT "\n",
               (long long)((entries[i].time_ms - SIM_START_MS) / 1000),
               (long long)((entries[i].time_ms - SIM_START_MS) % 1000),
               STR_ARG(number_str(s->arena, entries[i].subject)), STR_ARG(entries[i].text));
}

void sim_report(struct sim *s)
{
    const struct sim_temper *t = &s->temper;
    printf("# seed %llu: %s\n", (unsigned long long)s->seed, s->why);
    printf("#   step %llu, +%lld s; faults %d%%, wire %d%% up to %lld ms, commits %d, deaths %d, "
           "jobs %u, batches up to %zu\n",
           (unsigned long long)s->steps, (long long)((s->now_ms - SIM_START_MS) / 1000),
           t->faults_percent, t->wire_percent, (long long)t->wire_max_ms, (int)t->commits,
           t->deaths - s->deaths_left, t->jobs, t->batch_max);
    if (!s->process)
        sim_process_open(s);
    if (number_is(s->about))
        print_story(s, s->about);
    fflush(stdout);
}
