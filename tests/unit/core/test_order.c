/* rules.md section 2: every edge of orders, settling, cancel, expiry, completion, and the races
 * between them. */
#include "core_world.h"

#include "base/buf.h"

static const char *const names[] = { "WAIT_PAY",   "PAYING",    "PAID",
                                     "PAY_FAILED", "CANCELLED", "COMPLETED" };

/* ---- the edge table ---- */

#define STOPS (-1)
static const int edges[][6] = {
    /*                        WAIT_PAY         PAYING           PAID             PAY_FAILED
       CANCELLED   COMPLETED */
    [ORDER_EDGE_ATTEMPT] = { ORDER_PAYING, ORDER_PAYING, STOPS, ORDER_PAYING, STOPS, STOPS },
    [ORDER_EDGE_SETTLE] = { ORDER_PAID, ORDER_PAID, STOPS, ORDER_PAID, STOPS, STOPS },
    [ORDER_EDGE_FAILED] = { STOPS, ORDER_PAY_FAILED, STOPS, STOPS, STOPS, STOPS },
    [ORDER_EDGE_CANCEL] = { ORDER_CANCELLED, ORDER_CANCELLED, STOPS, ORDER_CANCELLED, STOPS,
                            STOPS },
    [ORDER_EDGE_EXPIRE] = { ORDER_CANCELLED, ORDER_CANCELLED, STOPS, ORDER_CANCELLED, STOPS,
                            STOPS },
    [ORDER_EDGE_REVIVE] = { STOPS, STOPS, STOPS, STOPS, ORDER_PAID, STOPS },
    [ORDER_EDGE_COMPLETE] = { STOPS, STOPS, ORDER_COMPLETED, STOPS, STOPS, STOPS },
};

/* An order in that status, by its own road. *ret_pay_no: its last attempt. */
static struct number order_in(struct core *w, const char *key, enum order_status status,
                              struct number *ret_pay_no)
{
    struct refusal r = { 0 };
    struct order ignored;
    bool closing;
    struct number no = core_order(w, key, 8800).no;
    *ret_pay_no = (struct number) { 0 };
    if (status == ORDER_WAIT_PAY)
        return no;
    *ret_pay_no = core_pay(w, no).no;
    switch (status) {
    case ORDER_WAIT_PAY:
    case ORDER_PAYING:
        break;
    case ORDER_PAID:
    case ORDER_COMPLETED:
        core_paid(w, *ret_pay_no, 8800, key);
        core_settle(w, no);
        if (status == ORDER_COMPLETED)
            assert_int_equal(order_complete(&w->c, &w->act, no, &ignored, &r), CODE_OK);
        break;
    case ORDER_PAY_FAILED:
        core_state(w, *ret_pay_no, fact_of(w, FACT_PAY_FAILED, 0, NULL));
        core_ended(w, no);
        break;
    case ORDER_CANCELLED:
        assert_int_equal(
            order_cancel(&w->c, &w->act, no, STR("changed my mind"), &ignored, &closing, &r),
            CODE_OK);
        assert_false(closing);
        break;
    }
    assert_int_equal(order_status_of(w, no), status);
    return no;
}

static void every_edge_of_the_table(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(edges); e++)
        for (int s = 0; s < 6; s++) {
            enum order_status to = ORDER_WAIT_PAY;
            bool leaves = order_edge_leaves((enum order_edge)e, (enum order_status)s, &to);
            check_row(leaves == (edges[e][s] != STOPS), names[s]);
            check_row(!leaves || (int)to == edges[e][s], names[s]);
        }
    BUF_AUTO b;
    buf_init(&b, 4096);
    order_matrix_print(&b);
    buf_add_char(&b, 0);
    assert_non_null(strstr(b.p, "| settled | → PAID | → PAID | – | → PAID | – | – |"));
}

/* The same, done to real orders: what each call answers, where the order is afterwards. */

static void an_attempt_starts(void **state)
{
    struct core *w = *state;
    static const enum code codes[] = { CODE_OK,
                                       CODE_OK,
                                       CODE_ORDER_ALREADY_PAID,
                                       CODE_OK,
                                       CODE_ORDER_NOT_PAYABLE,
                                       CODE_ORDER_ALREADY_PAID };
    for (int s = 0; s < 6; s++) {
        struct number pay_no, no = order_in(w, names[s], (enum order_status)s, &pay_no);
        int64_t version = core_get_order(w, no).version;
        struct payment_new n = payment_input(no);
        n.method = STR("jsapi"); /* on a PAYING order: the old attempt is closed first */
        n.payer = STR("openid");
        check_row(core_start(w, &n).code == codes[s], names[s]);
        check_row((int)order_status_of(w, no) == (codes[s] ? s : ORDER_PAYING), names[s]);
        check_row(core_get_order(w, no).version == version + (codes[s] == CODE_OK), names[s]);
    }
}

static void a_success_settles(void **state)
{
    struct core *w = *state;
    static const enum order_status from[] = { ORDER_PAYING, ORDER_PAY_FAILED };
    for (size_t i = 0; i < COUNT(from); i++) {
        struct number pay_no, no = order_in(w, names[from[i]], from[i], &pay_no);
        assert_int_equal(core_paid(w, pay_no, 8800, names[i]), PAYMENT_MOVED);
        assert_int_equal(order_status_of(w, no), from[i]); /* payments do not move orders */
        core_settle(w, no);
        struct order o = core_get_order(w, no);
        assert_int_equal(o.status, ORDER_PAID);
        assert_int_equal(o.pay_no.id, pay_no.id);
        assert_str(o.transaction_id, names[i]);
        assert_int_equal(o.pay_ms, WORLD_NOW_MS + 5000);
        assert_int_equal(core_get(w, pay_no).settled, SETTLED_WON);
        core_settle(w, no); /* idempotent */
        assert_int_equal(core_get_order(w, no).version, o.version);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 4"), 2);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 0);
}

static void a_second_success_is_paid_twice(void **state)
{
    struct core *w = *state;
    struct number first, second, no = order_in(w, "o1", ORDER_PAY_FAILED, &first);
    second = core_pay(w, no).no;
    assert_true(first.id != second.id);
    core_paid(w, second, 8800, "T2");
    core_settle(w, no);
    core_paid(w, first, 8800, "T1"); /* late */
    core_settle(w, no);
    core_settle(w, no);
    assert_int_equal(core_get_order(w, no).pay_no.id, second.id);
    assert_int_equal(core_get(w, first).settled, SETTLED_SURPLUS);
    assert_true(core_get(w, first).late);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_PAID_TWICE);
    assert_int_equal(ASK(&w->world, "SELECT policy FROM incident"), POLICY_HOLD);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 1);
}

/* Two successes before anybody settled: one call applies one, the next the other. */
static void two_unapplied_successes(void **state)
{
    struct core *w = *state;
    struct number first, no = order_in(w, "o1", ORDER_PAY_FAILED, &first);
    struct number second = core_pay(w, no).no;
    core_paid(w, second, 8800, "T2");
    core_paid(w, first, 8800, "T1");
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    core_settle(w, no);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE settled = 1"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE settled = 2"), 1);
}

static void money_for_a_cancelled_order(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_CANCELLED, &pay_no);
    assert_int_equal(core_paid(w, pay_no, 8800, "T1"), PAYMENT_MOVED);
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_SURPLUS);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_PAID_AFTER_CLOSE);
}

/* A success of another amount (an operator accepted it) settles nothing. */
static void another_amount_is_set_aside(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    struct applying x = { .pay_id = pay_no.id,
                          .fact = fact_of(w, FACT_PAID, 100, "T1"),
                          .equal = true,
                          .kind = EVIDENCE_OPERATOR };
    world_run(&w->world, applying_rule, &x);
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAYING);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_ASIDE);
    assert_int_equal(ASK(&w->world, "SELECT live FROM payment_order"),
                     pay_no.id); /* the place is free */
    core_ended(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED);
}

static void a_paid_order_closes_its_other_attempts(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "store");
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    n.channel = CHANNEL_APPLE;
    struct number other = core_start(w, &n).p.no;
    n.channel = CHANNEL_WECHAT;
    struct number mine = core_start(w, &n).p.no;
    assert_int_equal(core_get(w, other).close_requested, CLOSE_SWITCH);
    core_paid(w, mine, 8800, "T1");
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get(w, other).close_requested, CLOSE_SWITCH);
    assert_int_equal(core_get(w, mine).close_requested, CLOSE_NO);
    core_paid(w, other, 8800, "T2"); /* both were open: PAID_TWICE is the net */
    core_settle(w, no);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_PAID_TWICE);
}

static void close_is_requested_when_another_wins(void **state)
{
    struct core *w = *state;
    struct number first, no = order_in(w, "o1", ORDER_PAY_FAILED, &first);
    struct number open = core_pay(w, no).no;
    core_paid(w, first, 8800, "T1");
    core_settle(w, no);
    assert_int_equal(core_get(w, open).close_requested, CLOSE_PAID_ELSEWHERE);
    core_due(w);
    assert_int_equal(core_get(w, open).status, PAYMENT_CLOSED);
}

/* ---- PAYING -> PAY_FAILED ---- */

static void the_last_open_attempt_ends(void **state)
{
    struct core *w = *state;
    for (int s = 0; s < 6; s++) {
        struct number pay_no, no = order_in(w, names[s], (enum order_status)s, &pay_no);
        core_ended(w, no); /* an attempt is still open, or it is no PAYING order: nothing */
        check_row((int)order_status_of(w, no) == s, names[s]);
    }
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    core_state(w, pay_no, fact_of(w, FACT_SHUT, 0, NULL));
    core_ended(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED);

    no = order_in(w, "o2", ORDER_PAYING, &pay_no);
    core_paid(w, pay_no, 8800, "T9");
    core_ended(w, no); /* not yet settled, but paid */
    assert_int_equal(order_status_of(w, no), ORDER_PAYING);
}

/* ---- cancel ---- */

static enum code cancel(struct core *w, struct number no, bool *ret_closing)
{
    struct order o;
    struct refusal r = { 0 };
    return order_cancel(&w->c, &w->act, no, STR("reason"), &o, ret_closing, &r);
}

static void cancel_from_every_status(void **state)
{
    struct core *w = *state;
    for (int s = 0; s < 6; s++) {
        struct number pay_no, no = order_in(w, names[s], (enum order_status)s, &pay_no);
        bool closing = true, paid = s == ORDER_PAID || s == ORDER_COMPLETED;
        check_row(cancel(w, no, &closing) == (paid ? CODE_ORDER_ALREADY_PAID : CODE_OK), names[s]);
        check_row((int)order_status_of(w, no) == (paid ? s : ORDER_CANCELLED), names[s]);
        check_row(paid || !closing, names[s]);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 6"), 4);
}

static void cancel_waits_for_the_attempt(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    bool closing = false;
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    assert_int_equal(cancel(w, no, &closing), CODE_OK);
    assert_true(closing);
    assert_int_equal(order_status_of(w, no), ORDER_PAYING);
    assert_int_equal(core_get(w, pay_no).close_requested, CLOSE_CANCEL);
    assert_int_equal(core_get_order(w, no).cancel_requested, CANCEL_CALLER);

    struct payment_new n = payment_input(no); /* nobody starts to pay it any more */
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_PAYABLE);

    size_t done;
    struct err_info info = { 0 };
    core_advance(w, 61000);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 1);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    assert_int_equal(core_get(w, pay_no).status, PAYMENT_CLOSED);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 0);
}

static void cancel_finds_the_money(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    bool closing;
    expect_fact(w, FACT_PAID, 8800, "T1");
    assert_int_equal(cancel(w, no, &closing), CODE_ORDER_ALREADY_PAID);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(w->close.calls, 0);
}

/* A success that nobody has settled yet: cancel settles first. */
static void cancel_decides_on_no_stale_order(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    bool closing;
    core_paid(w, pay_no, 8800, "T1");
    assert_int_equal(cancel(w, no, &closing), CODE_ORDER_ALREADY_PAID);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
}

static void paid_while_closing(struct core *w)
{
    SQL(pay, "SELECT id FROM payment_order");
    struct number no = number_make(NUMBER_PAYMENT, 0, world_ask(&w->world, &pay));
    SQL(slot, "SELECT slot FROM payment_order");
    no.slot = (uint16_t)world_ask(&w->world, &slot);
    core_paid(w, no, 8800, "T1");
}

static void the_callback_comes_while_we_close(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    bool closing;
    expect(&w->close, CHANNEL_DONE, CLASS_NONE)->meanwhile = paid_while_closing;
    assert_int_equal(cancel(w, no, &closing), CODE_ORDER_ALREADY_PAID);
    assert_int_equal(core_get(w, pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"),
                     INCIDENT_STATUS_CONFLICT); /* "shut" after "paid" */
}

static void quarantine_blocks_cancel(void **state)
{
    struct core *w = *state;
    static const enum order_status from[] = { ORDER_PAYING, ORDER_PAY_FAILED };
    for (size_t i = 0; i < COUNT(from); i++) {
        struct number pay_no, no = order_in(w, names[from[i]], from[i], &pay_no);
        bool closing = false;
        assert_int_equal(core_paid(w, pay_no, 100, names[i]), PAYMENT_QUARANTINED);
        assert_int_equal(cancel(w, no, &closing), CODE_OK);
        assert_true(closing);
        assert_int_equal(order_status_of(w, no), from[i]);
    }
}

static size_t looked_at(struct core *w, int64_t minutes)
{
    size_t done, sum = 0;
    struct err_info info = { 0 };
    for (int64_t i = 0; i < minutes; i++) {
        core_advance(w, 60000);
        assert_ok(order_due_turn(&w->c, 10, &done, &info));
        sum += done;
    }
    return sum;
}

/* What only a person ends is not asked for every minute for ever, however often it was asked for.
 */
static void a_waiting_cancel_is_looked_at_ever_more_seldom(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    bool closing;
    assert_int_equal(core_paid(w, pay_no, 100, "T1"), PAYMENT_QUARANTINED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cancel(w, no, &closing), CODE_OK);
        core_advance(w, 7000);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM order_due"), 1);
    assert_int_equal(looked_at(w, 30), 30);
    assert_in_range(looked_at(w, 24 * 60), 23, 25);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM order_due"), 1);
}

/* ... but at once when its last attempt has ended. */
static void a_waiting_cancel_goes_on_with_its_attempts_end(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    size_t done;
    struct err_info info = { 0 };
    bool closing;
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    assert_int_equal(cancel(w, no, &closing), CODE_OK);
    assert_true(closing);
    core_advance(w, 1000);
    core_state(w, pay_no, fact_of(w, FACT_SHUT, 0, NULL));
    core_ended(w, no);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 1);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
}

/* ---- expiry ---- */

static void clock_steps_back(struct core *w)
{
    core_advance(w, -5000);
}

/* Between reading which orders have expired and cancelling them: the second one has not any more,
 * and must come again. */
static void expiry_while_the_clock_steps_back(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    n.expire_in_ms = 600000;
    core_pay(w, core_order_of(w, &n).no);
    n.merchant_order_no = STR("o2");
    struct number no = core_order_of(w, &n).no;

    size_t done;
    struct err_info info = { 0 };
    core_advance(w, 600000);
    expect(&w->query, CHANNEL_DONE, CLASS_NONE)->meanwhile = clock_steps_back;
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 2);
    assert_int_equal(order_status_of(w, no), ORDER_WAIT_PAY);
    core_advance(w, 5000);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
}

static void expiry(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    n.expire_in_ms = 600000;
    struct number no = core_order_of(w, &n).no;
    n.merchant_order_no = STR("o2");
    struct number paying = core_order_of(w, &n).no;
    struct payment p = core_pay(w, paying);
    assert_int_equal(p.expire_ms, WORLD_NOW_MS + 600000); /* not 15 minutes: the order's */

    size_t done;
    struct err_info info = { 0 };
    core_advance(w, 599999);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 0);
    core_advance(w, 1);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(done, 2);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    assert_int_equal(order_status_of(w, paying), ORDER_CANCELLED);
    assert_int_equal(core_get(w, p.no).status, PAYMENT_CLOSED);
    assert_int_equal(core_get(w, p.no).close_requested, CLOSE_EXPIRY);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 7"), 2);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM order_due"), 0);
}

/* Paid a moment before, settled by nobody: expiry finds it. Success before CANCELLED is in time. */
static void paid_before_it_expired(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    n.expire_in_ms = 600000;
    struct number no = core_order_of(w, &n).no;
    struct payment p = core_pay(w, no);
    size_t done;
    struct err_info info = { 0 };
    core_advance(w, 700000);
    core_paid(w, p.no, 8800, "T1");
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
}

static void near_its_end_no_new_attempt(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    n.expire_in_ms = 600000;
    struct number no = core_order_of(w, &n).no;
    struct payment_new pay = payment_input(no);
    core_advance(w, 600000 - 89999);
    assert_int_equal(core_start(w, &pay).code, CODE_ORDER_EXPIRING);
    assert_int_equal(w->prepay.calls, 0);
    core_advance(w, -1);
    assert_int_equal(core_start(w, &pay).code, CODE_OK);
    core_advance(w, 60000); /* an attempt that is open is still given */
    struct started s = core_start(w, &pay);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_SAME);
}

/* ---- complete, revive ---- */

static void complete_from_every_status(void **state)
{
    struct core *w = *state;
    for (int s = 0; s < 6; s++) {
        struct number pay_no, no = order_in(w, names[s], (enum order_status)s, &pay_no);
        struct order o;
        struct refusal r = { 0 };
        bool fine = s == ORDER_PAID || s == ORDER_COMPLETED;
        check_row(order_complete(&w->c, &w->act, no, &o, &r) == (fine ? CODE_OK : CODE_ORDER_STATE),
                  names[s]);
        check_row((int)order_status_of(w, no) == (fine ? ORDER_COMPLETED : s), names[s]);
    }
    struct number pay_no, no = order_in(w, "unsettled", ORDER_PAYING, &pay_no);
    struct order o;
    struct refusal r = { 0 };
    core_paid(w, pay_no, 8800, "T1");
    assert_int_equal(order_complete(&w->c, &w->act, no, &o, &r), CODE_OK);
    assert_int_equal(o.status, ORDER_COMPLETED);
}

struct revive {
    struct core *w;
    int64_t order_id, pay_id;
    enum err result;
};

static enum err revive_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct revive *r = arg;
    struct order o;
    struct payment p;
    bool first;
    enum err e = first_run(tx, &first, info);
    if (e || !first)
        return e;
    if ((e = order_load(tx, r->order_id, &o, info)) || (e = payment_load(tx, r->pay_id, &p, info)))
        return e;
    struct evidence evidence = { .kind = EVIDENCE_OPERATOR,
                                 .ref = 99,
                                 .actor = STR("operator:amy") };
    r->result = order_revive(tx, &o, &p, CAUSE_OPERATOR, &evidence, STR("trace"), info);
    return r->result == ERR_CONFLICT ? ERR_OK : r->result;
}

static enum err revive(struct core *w, struct number no, struct number pay_no)
{
    struct revive r = { .w = w, .order_id = no.id, .pay_id = pay_no.id };
    world_run(&w->world, revive_rule, &r);
    return r.result;
}

static void revive_from_every_status(void **state)
{
    struct core *w = *state;
    for (int s = 0; s < 6; s++) {
        struct number pay_no, no = order_in(w, names[s], (enum order_status)s, &pay_no);
        if (s == ORDER_WAIT_PAY)
            pay_no = core_pay(w, no).no;
        if (s != ORDER_CANCELLED) {
            int64_t before = (int64_t)order_status_of(w, no);
            check_row(revive(w, no, pay_no) == ERR_CONFLICT, names[s]);
            check_row(order_status_of(w, no) == before, names[s]);
            continue;
        }
        check_row(revive(w, no, pay_no) == ERR_CONFLICT, names[s]); /* not paid */
        core_paid(w, pay_no, 8800, "T1");
        check_row(revive(w, no, pay_no) == ERR_CONFLICT, names[s]); /* not settled as surplus */
        core_settle(w, no);
        check_row(revive(w, no, pay_no) == ERR_OK, names[s]);
        check_row(order_status_of(w, no) == ORDER_PAID, names[s]);
        check_row(core_get(w, pay_no).settled == SETTLED_WON, names[s]);
        check_row(revive(w, no, pay_no) == ERR_CONFLICT, names[s]); /* once */
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 5"), 1);
}

/* ---- the sweep ---- */

static void the_sweep_repairs(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    core_advance(w, 1000000); /* its ladder is far along, its due row an hour off */
    core_due(w);
    struct number late_pay, late = order_in(w, "o2", ORDER_PAYING, &late_pay);
    core_paid(w, late_pay, 8800, "T2");
    size_t repaired;
    struct err_info info = { 0 };
    core_advance(w, 59000);
    assert_ok(order_settle_sweep(&w->c, 100, &repaired, &info));
    assert_int_equal(repaired, 0);
    core_advance(w, 1000);
    assert_ok(order_settle_sweep(&w->c, 100, &repaired, &info));
    assert_int_equal(repaired, 1);
    assert_int_equal(order_status_of(w, late), ORDER_PAID);
    assert_ok(order_settle_sweep(&w->c, 100, &repaired, &info));
    assert_int_equal(repaired, 0);
    (void)no;
}

/* The rows that led the job to a closed attempt are gone; the sweep has to see it all the same. */
static void the_sweep_repairs_a_late_success(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = order_in(w, "o1", ORDER_PAYING, &pay_no);
    struct payment p;
    struct refusal r = { 0 };
    struct err_info info = { 0 };
    bool closing;
    size_t repaired;
    assert_int_equal(payment_close(&w->c, &w->act, pay_no, &p, &closing, &r), CODE_OK);
    assert_int_equal(p.status, PAYMENT_CLOSED);
    core_advance(w, 3600000);
    core_due(w);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_due"), 0);
    core_paid(w, pay_no, 8800, "T1");
    assert_true(core_get(w, pay_no).late);
    core_advance(w, 60000);
    assert_ok(order_settle_sweep(&w->c, 100, &repaired, &info));
    assert_int_equal(repaired, 1);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_of_the_table),
        CORE_TEST(an_attempt_starts),
        CORE_TEST(a_success_settles),
        CORE_TEST(a_second_success_is_paid_twice),
        CORE_TEST(two_unapplied_successes),
        CORE_TEST(money_for_a_cancelled_order),
        CORE_TEST(another_amount_is_set_aside),
        CORE_TEST(a_paid_order_closes_its_other_attempts),
        CORE_TEST(close_is_requested_when_another_wins),
        CORE_TEST(the_last_open_attempt_ends),
        CORE_TEST(cancel_from_every_status),
        CORE_TEST(cancel_waits_for_the_attempt),
        CORE_TEST(cancel_finds_the_money),
        CORE_TEST(cancel_decides_on_no_stale_order),
        CORE_TEST(the_callback_comes_while_we_close),
        CORE_TEST(quarantine_blocks_cancel),
        CORE_TEST(a_waiting_cancel_is_looked_at_ever_more_seldom),
        CORE_TEST(a_waiting_cancel_goes_on_with_its_attempts_end),
        CORE_TEST(expiry),
        CORE_TEST(expiry_while_the_clock_steps_back),
        CORE_TEST(paid_before_it_expired),
        CORE_TEST(near_its_end_no_new_attempt),
        CORE_TEST(complete_from_every_status),
        CORE_TEST(revive_from_every_status),
        CORE_TEST(the_sweep_repairs),
        CORE_TEST(the_sweep_repairs_a_late_success),
    };
    return RUN_CORE_TESTS(tests);
}
