/* audit.c -- what the database says against what everybody else was told. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "bus/event.h"
#include "core/order/order.h"
#include "core/payment/payment.h"
#include "life.h"

#define REST_LOOKS 2000

typedef void looker(struct place *p, struct tx *tx, void *arg);
struct look {
    struct place *p;
    looker *fn;
    void *arg;
};
static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    (void)info;
    l->fn(l->p, tx, l->arg);
    return ERR_OK;
}

static struct store *open_books(struct place *p)
{
    struct err_info info = { 0 };
    struct store *store = NULL;
    struct store_options so = { .url = str_printf(p->arena, "sqlite:%s/run.db", p->dir),
                                .env = &p->env,
                                .second_writer = true };
    if (store_open(&so, &store, &info))
        fail_msg("the database does not open again: %s", info.text);
    return store;
}

static void look(struct place *p, struct store *store, looker *fn, void *arg)
{
    struct look l = { p, fn, arg };
    struct err_info info = { 0 };
    enum err e;
    while ((e = store_read(store, 0, "audit", look_rule, &l, &info)) == ERR_BUSY || e == ERR_RETRY)
        ;
    if (e)
        fail_msg("the database cannot be read: %s", info.text);
}

/* ---- what was acknowledged ---- */

static void look_acknowledged(struct place *p, struct tx *tx, const struct life *l)
{
    struct number no, order_no;
    struct payment pay;
    struct order order;
    if (!l->started)
        return;
    if (number_parse(str_of(l->pay_no), NUMBER_PAYMENT, &no) ||
        number_parse(str_of(l->order_no), NUMBER_ORDER, &order_no) ||
        payment_load(tx, no.id, &pay, NULL) || order_load(tx, order_no.id, &order, NULL)) {
        complaint(p, "%s was given out and is not there", l->pay_no);
        return;
    }
    if (l->credentials && !pay.credentials.n)
        complaint(p, "the credentials of %s were given out and are not there", l->pay_no);
    if (l->paid && pay.status != PAYMENT_SUCCESS)
        complaint(p, "%s was shown as paid and is not", l->pay_no);
    if (l->refunded && money_fen(pay.refunded) != money_fen(pay.paid_amount))
        complaint(p, "%s was shown as refunded and is not", l->pay_no);
    if (l->closed && pay.status != PAYMENT_CLOSED)
        complaint(p, "the close of %s was acknowledged and is not there", l->pay_no);
    if (l->cancelled && order.status != ORDER_CANCELLED)
        complaint(p, "the cancel of %s was acknowledged and is not there", l->order_no);
}

SQL(callback_done, "SELECT count(*) FROM callback_log WHERE subject_id = ? AND "
                   "handle_result IN (1, 3)");

/* What the channel need not tell again. */
static void look_callbacks(struct place *p, struct tx *tx)
{
    ARENA_AUTO a = arena_new(16384);
    struct sandbox_trade *trades;
    size_t n = sandbox_trades(p->sandbox, a, &trades);
    for (size_t i = 0; i < n; i++) {
        struct number no;
        int64_t rows = 0;
        struct payment pay;
        if (!trades[i].callbacks_acknowledged ||
            number_parse(trades[i].out_trade_no, NUMBER_PAYMENT, &no))
            continue;
        if (payment_load(tx, no.id, &pay, NULL) || pay.status != PAYMENT_SUCCESS ||
            tx_select_int(tx, &callback_done, BINDS(bind_int(no.id)), &rows, NULL) || rows < 1)
            complaint(p, "an acknowledged callback of " STR_FMT " is not there",
                      STR_ARG(trades[i].out_trade_no));
    }
}

static void look_hooks(struct place *p, struct tx *tx)
{
    for (size_t i = 0; i < p->hook_count; i++) {
        struct number no;
        struct event event;
        if (number_parse(str_of(p->hooks[i].event_no), NUMBER_EVENT, &no) ||
            event_read(tx, no.id, &event, NULL))
            complaint(p, "the event %s was told and is not there", p->hooks[i].event_no);
    }
}

struct lives {
    const struct life *at;
    size_t n;
    int accidents;
};

static void acknowledged(struct place *p, struct tx *tx, void *arg)
{
    const struct lives *l = arg;
    for (size_t i = 0; i < l->n; i++)
        look_acknowledged(p, tx, &l->at[i]);
    look_callbacks(p, tx);
    pthread_mutex_lock(&p->lock);
    size_t complained = strlen(p->complaint);
    pthread_mutex_unlock(&p->lock);
    if (!complained)
        look_hooks(p, tx);
}

void audit_acknowledged(struct place *p, const struct life *lives, size_t n)
{
    struct lives l = { lives, n, 0 };
    struct store *store = open_books(p);
    look(p, store, acknowledged, &l);
    store_close(store);
}

/* ---- at rest ---- */

SQL(left_to_do,
    "SELECT (SELECT count(*) FROM payment_order WHERE status <= 1 OR (status = 2 AND settled = 0))"
    " + (SELECT count(*) FROM outbox_due) + (SELECT count(*) FROM event_delivery WHERE state = 0)"
    " + (SELECT count(*) FROM order_info WHERE cancel_requested <> 0 AND order_status IN (0, 1, 3))"
    " + (SELECT count(*) FROM callback_due)"
    " + (SELECT count(*) FROM refund_order WHERE status <= 1)");

static void count_left(struct place *p, struct tx *tx, void *arg)
{
    (void)p;
    if (tx_select_int(tx, &left_to_do, NO_BINDS, arg, NULL))
        *(int64_t *)arg = -1;
}

static bool wait_rest(struct place *p, struct store *store)
{
    int64_t left = 0;
    for (int i = 0; i < REST_LOOKS; i++) {
        look(p, store, count_left, &left);
        if (!left && !sandbox_next_ms(p->sandbox))
            return true;
        poll(NULL, 0, 20); /* leaves the processor to the server between two looks */
        place_move_clock(p, 1000);
    }
    complaint(p, "%lld things are left to do, and nobody does them", (long long)left);
    return false;
}

/* Each must be zero. */
static const struct {
    const char *what;
    struct sql sql;
} zeros[] = {
    { "orders were settled twice",
      { "settled_twice", "SELECT count(*) FROM (SELECT subject_id FROM state_journal WHERE kind = ?"
                         " AND to_status = 2 GROUP BY subject_id HAVING count(*) > 1) d" } },
    { "orders have two winning payments",
      { "two_winners", "SELECT count(*) FROM (SELECT order_id FROM payment_order WHERE settled = 1"
                       " AND ? > 0 GROUP BY order_id HAVING count(*) > 1) d" } },
    { "paid orders have no winning payment",
      { "no_winner", "SELECT count(*) FROM order_info o WHERE order_status = 2 AND ? > 0 AND NOT"
                     " EXISTS (SELECT 1 FROM payment_order p WHERE p.id = o.pay_id AND"
                     " p.order_id = o.id AND p.status = 2 AND p.settled = 1)" } },
    { "events happened twice",
      { "events_twice", "SELECT count(*) FROM (SELECT subject_id FROM outbox WHERE ? > 0"
                        " GROUP BY subject_id, type HAVING count(*) > 1) d" } },
    { "callbacks are not handled",
      { "callbacks_left",
        "SELECT count(*) FROM callback_log WHERE handle_result NOT IN (1, 3) AND ? > 0" } },
    { "payments were refunded otherwise than their refunds say",
      { "refund_sums", "SELECT count(*) FROM payment_order p WHERE ? > 0 AND (refunding <> 0 OR"
                       " refunded <> (SELECT coalesce(sum(r.amount), 0) FROM refund_order r"
                       " WHERE r.pay_id = p.id AND r.status = 2))" } },
    { "payments were refunded by several refunds",
      { "refunds_twice", "SELECT count(*) FROM (SELECT pay_id FROM refund_order WHERE ? > 0"
                         " GROUP BY pay_id HAVING count(*) > 1) d" } },
    { "incidents are open",
      { "incidents_open", "SELECT count(*) FROM incident WHERE ? > 0 AND state = 0" } },
};

SQL(all_payments, "SELECT id, slot, status, paid_amount, refunded FROM payment_order");
SQL(all_incidents, "SELECT count(*) FROM incident");
SQL(all_events, "SELECT id, slot FROM outbox");

static void compare_trade(struct place *p, struct query *q, size_t *ret_trades)
{
    ARENA_AUTO a = arena_new(4096);
    struct sandbox_trade t;
    struct number no = number_make(NUMBER_PAYMENT, (unsigned)col_int(q, 1), col_int(q, 0));
    struct number_text text = number_text(no);
    bool success = col_int(q, 2) == PAYMENT_SUCCESS;
    enum err e = sandbox_trade_get(p->sandbox, str_of(text.s), a, &t);
    bool taken = !e && t.taken_fen > 0;

    *ret_trades += !e;
    if (!e && t.refunded_fen != col_int(q, 4))
        complaint(p, "%s: the channel gave %lld back, we say %lld", text.s,
                  (long long)t.refunded_fen, (long long)col_int(q, 4));
    if (taken != success || (success && col_int(q, 3) != t.taken_fen))
        complaint(p, "%s: the channel took %lld, we say %s %lld", text.s,
                  e ? 0LL : (long long)t.taken_fen,
                  payment_status_name((enum payment_status)col_int(q, 2)),
                  (long long)col_int(q, 3));
}

static void compare_channel(struct place *p, struct tx *tx, const struct lives *l)
{
    ARENA_AUTO a = arena_new(16384);
    struct sandbox_trade *trades;
    size_t known = 0, n = sandbox_trades(p->sandbox, a, &trades);
    int64_t incidents = -1, refunds = 0;
    int prepays = 0, closes = 0, most_prepays = l->accidents, most_closes = l->accidents;
    struct query *q = tx_select(tx, &all_payments, NO_BINDS);
    while (query_row(q))
        compare_trade(p, q, &known);
    if (query_end(q, NULL) || known != n)
        complaint(p, "the channel has %zu trades, we know %zu of them", n, known);
    for (size_t i = 0; i < n; i++) {
        prepays += trades[i].prepays;
        closes += trades[i].closes;
        refunds += trades[i].refunded_fen > 0;
        most_closes +=
            !trades[i].taken_fen || trades[i].refunded_fen; /* by the merchant or when it expires */
    }
    for (size_t i = 0; i < l->n; i++)
        most_prepays += l->at[i].path->prepays;
    if (tx_select_int(tx, &all_incidents, NO_BINDS, &incidents, NULL) || incidents != refunds)
        complaint(p, "%lld incidents, %lld refunds", (long long)incidents, (long long)refunds);
    if (prepays > most_prepays)
        complaint(p, "%d prepays at the channel, at most %d were right", prepays, most_prepays);
    if (closes > most_closes)
        complaint(p, "%d closes at the channel, at most %d were right", closes, most_closes);
}

/* Everything was told, and each time in the same words. */
static void compare_hooks(struct place *p, struct tx *tx)
{
    struct query *q = tx_select(tx, &all_events, NO_BINDS);
    while (query_row(q)) {
        struct number_text no =
            number_text(number_make(NUMBER_EVENT, (unsigned)col_int(q, 1), col_int(q, 0)));
        const struct hook *first = NULL;
        for (size_t i = 0; i < p->hook_count; i++) {
            const struct hook *h = &p->hooks[i];
            if (strcmp(h->event_no, no.s) != 0)
                continue;
            if (first && memcmp(&first->body, &h->body, sizeof h->body) != 0)
                complaint(p, "the event %s was told in different words", no.s);
            first = h;
        }
        if (!first)
            complaint(p, "the event %s was told to nobody", no.s);
    }
    if (query_end(q, NULL))
        complaint(p, "the events cannot be read");
}

static void compare(struct place *p, struct tx *tx, void *arg)
{
    const struct lives *l = arg;
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        int64_t n = -1;
        enum err e = tx_select_int(tx, &zeros[i].sql, BINDS(bind_int(NUMBER_ORDER)), &n, NULL);
        if (e || n)
            complaint(p, "%lld %s", (long long)n, zeros[i].what);
    }
    acknowledged(p, tx, arg);
    compare_channel(p, tx, l);
    compare_hooks(p, tx);
}

void audit_rest(struct place *p, const struct life *lives, size_t n, int accidents)
{
    struct lives l = { lives, n, accidents };
    struct store *store = open_books(p);
    if (wait_rest(p, store))
        look(p, store, compare, &l);
    store_close(store);
}
