/* Money that no order wants (rules.md section 2): late, double, superseded, held, in every order of
 * events and under every policy. The money is always a fact, at most one payment settles an order,
 * and what is left goes back once, or somebody is asked. */
#include "refund_world.h"

#include "core/refund/refund_auto.h"
#include "core/resolve/follow.h"
#include "core/resolve/resolve.h"

/* ---- what the consumer does ---- */

struct following {
    int64_t refund_id;
    bool reversed;
};

static enum err following_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct following *f = arg;
    struct refund r;
    bool first;
    enum err e = first_run(tx, &first, info);
    if (e || !first)
        return e;
    e = refund_load(tx, f->refund_id, &r, info);
    return e ? e : follow_refund(tx, &r, f->reversed, STR("trace-f"), info);
}

static void follow(struct core *w, struct number refund_no, bool reversed)
{
    struct following f = { refund_no.id, reversed };
    world_run(&w->world, following_rule, &f);
}

static struct refund last_refund(struct core *w)
{
    int64_t id = ASK(&w->world, "SELECT max(id) FROM refund_order");
    return refund_now(w, number_make(NUMBER_REFUND, 0, id));
}

/* The channel's word about the newest refund, and what follows. */
static void channel_says(struct core *w, enum fact_kind kind)
{
    struct refund r = last_refund(w);
    state_kind(w, &r, kind);
    follow(w, r.no, kind == FACT_REFUND_REVERSED);
}

/* ---- situations ---- */

static void policies(struct core *w, enum incident_policy after_close, enum incident_policy twice)
{
    w->c.settings.paid_after_close = after_close;
    w->c.settings.paid_twice = twice;
}

static struct number late(struct core *w, const char *key, int64_t fen, struct number *ret_pay_no)
{
    struct number no = core_order(w, key, fen).no;
    struct order o;
    struct refusal r = { 0 };
    bool closing;
    *ret_pay_no = core_pay(w, no).no;
    assert_int_equal(order_cancel(&w->c, &w->act, no, STR("no"), &o, &closing, &r), CODE_OK);
    assert_int_equal(core_paid(w, *ret_pay_no, fen, key), PAYMENT_MOVED);
    core_settle(w, no);
    return no;
}

/* The first attempt ended, the second one settled, and then the first was paid after all. */
static struct number twice(struct core *w, const char *key, int64_t fen, struct number *ret_pay_no)
{
    struct number no = core_order(w, key, fen).no, second;
    *ret_pay_no = core_pay(w, no).no;
    core_state(w, *ret_pay_no, fact_of(w, FACT_PAY_FAILED, 0, NULL));
    core_ended(w, no);
    second = core_pay(w, no).no;
    core_paid(w, second, fen, str_printf(w->world.arena, "%s-2", key).p);
    core_settle(w, no);
    core_paid(w, *ret_pay_no, fen, str_printf(w->world.arena, "%s-1", key).p);
    core_settle(w, no);
    return no;
}

static struct number the_incident(struct core *w)
{
    unsigned slot = (unsigned)ASK(&w->world, "SELECT slot FROM incident ORDER BY id DESC LIMIT 1");
    return number_make(NUMBER_INCIDENT, slot,
                       ASK(&w->world, "SELECT id FROM incident ORDER BY id DESC LIMIT 1"));
}

struct acted {
    enum code code;
    struct resolved r;
};

static struct acted operator_says(struct core *w, enum incident_action action)
{
    struct acted a;
    struct resolve r = { .incident_no = the_incident(w),
                         .any_caller = true,
                         .action = action,
                         .who = STR("operator:amy"),
                         .reason = STR("because") };
    struct refusal refusal = { 0 };
    a.code = resolve_incident(&w->c, &w->act, &r, &a.r, &refusal);
    return a;
}

#define INCIDENT(w, column)                                                                        \
    ASK(&(w)->world, "SELECT " column " FROM incident ORDER BY id DESC LIMIT 1")

/* ---- the policy ---- */

static void late_money_goes_back(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_HOLD);
    struct number pay_no, no = late(w, "o1", 8800, &pay_no);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    assert_int_equal(INCIDENT(w, "kind * 10 + policy"),
                     INCIDENT_PAID_AFTER_CLOSE * 10 + POLICY_REFUND);
    struct refund r = last_refund(w);
    assert_int_equal(r.origin, REFUND_BY_POLICY);
    assert_int_equal(money_fen(r.amount), 8800);
    assert_str(r.request_id,
               str_printf(w->world.arena, "auto:%s:1", number_text(the_incident(w)).s).p);
    assert_int_equal(money_fen(core_get(w, pay_no).refunding), 8800);
    core_settle(w, no); /* once */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1);

    channel_says(w, FACT_REFUND_ACCEPTED);
    assert_int_equal(INCIDENT(w, "state"), 0);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_REFUND);
    assert_int_equal(INCIDENT(w, "who = 'policy'"), 1);
    assert_int_equal(money_fen(core_get(w, pay_no).refunded), 8800);
    follow(w, r.no, false); /* an event that comes twice */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1);
}

/* Some of it went back before anybody looked: the order would be paid with less. */
static void late_money_that_is_not_whole_is_not_taken(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REVIVE, POLICY_HOLD);
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    struct order o;
    struct refusal refusal = { 0 };
    bool closing;
    assert_int_equal(order_cancel(&w->c, &w->act, no, STR("no"), &o, &closing, &refusal), CODE_OK);
    core_paid(w, pay_no, 8800, "A");
    struct refund r = open_amount(w, pay_no, "r", 800).r;
    state_kind(w, &r, FACT_REFUND_DONE);
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_SURPLUS);
    assert_int_equal(INCIDENT(w, "kind * 100 + state * 10 + policy"),
                     INCIDENT_PAID_AFTER_CLOSE * 100 + POLICY_HOLD);
}

static void double_money_goes_back(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_HOLD, POLICY_REFUND);
    struct number pay_no, no = twice(w, "o1", 8800, &pay_no);
    assert_true(core_get_order(w, no).pay_no.id != pay_no.id);
    assert_int_equal(INCIDENT(w, "kind"), INCIDENT_PAID_TWICE);
    assert_int_equal(last_refund(w).pay_no.id, pay_no.id);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 1);
    assert_int_equal(core_get_order(w, no).refund_status, 0); /* not of the winning payment */
}

/* n + 1 only after n has failed, and not for ever. */
static void a_failed_one_is_tried_again(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    for (int n = 1; n <= REFUND_AUTO_TRIES; n++) {
        struct refund r = last_refund(w);
        assert_str(r.request_id,
                   str_printf(w->world.arena, "auto:%s:%d", number_text(the_incident(w)).s, n).p);
        assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), n);
        assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
        follow(w, r.no, false); /* under way */
        channel_says(w, FACT_REFUND_CLOSED);
        follow(w, r.no, false); /* again, after the next was opened */
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), REFUND_AUTO_TRIES);
    assert_int_equal(INCIDENT(w, "state * 10 + policy"), POLICY_HOLD);
    assert_int_equal(money_fen(core_get(w, pay_no).refunding), 0);

    /* A person may insist, again and again. */
    struct acted a = operator_says(w, ACTION_REFUND);
    assert_int_equal(a.code, CODE_OK);
    assert_false(a.r.incident.resolved);
    assert_int_equal(a.r.incident.policy, POLICY_REFUND);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_OK); /* said twice is said once */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), REFUND_AUTO_TRIES + 1);
    channel_says(w, FACT_REFUND_CLOSED);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_HOLD);
    operator_says(w, ACTION_REFUND);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_REFUND);
    assert_int_equal(INCIDENT(w, "who = 'operator:amy'"), 1);
}

/* Held: the caller gives a part of it back, the channel another one, an operator the rest. */
static void what_is_left_goes_back(void **state)
{
    struct core *w = *state;
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    open_amount(w, pay_no, "by-caller", 3000);
    struct refund part = last_refund(w);
    assert_int_equal(operator_says(w, ACTION_REVIVE).code, CODE_INCIDENT_STATE);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_OK);
    assert_int_equal(money_fen(last_refund(w).amount), 5800);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 0);

    /* The caller's fails: its part is left, though no automatic one has failed. */
    state_kind(w, &part, FACT_REFUND_CLOSED);
    follow(w, part.no, false);
    assert_int_equal(money_fen(last_refund(w).amount), 3000);
    assert_int_equal(last_refund(w).origin, REFUND_BY_POLICY);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 1);
    assert_int_equal(money_fen(core_get(w, pay_no).refunded), 8800);
}

/* One at a time: what becomes free meanwhile waits for the one under way. */
static void one_at_a_time(void **state)
{
    struct core *w = *state;
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    open_amount(w, pay_no, "by-caller", 3000);
    struct refund part = last_refund(w);
    operator_says(w, ACTION_REFUND);
    struct refund rest = last_refund(w);
    state_kind(w, &part, FACT_REFUND_CLOSED);
    follow(w, part.no, false);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 2);
    state_kind(w, &rest, FACT_REFUND_DONE);
    follow(w, rest.no, false);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 3);
    assert_int_equal(money_fen(last_refund(w).amount), 3000);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 1);
}

/* Whoever gives it back: nothing is left for a person to do. */
static void the_caller_gives_it_back(void **state)
{
    struct core *w = *state;
    struct number pay_no;
    twice(w, "o1", 8800, &pay_no);
    open_amount(w, pay_no, "r1", 8000);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1); /* nobody said so */
    open_amount(w, pay_no, "r2", 800);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_INCIDENT_STATE);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_REFUND);
}

static void an_ignored_one_is_let_be(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    assert_int_equal(operator_says(w, ACTION_IGNORE).code, CODE_OK);
    channel_says(w, FACT_REFUND_CLOSED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_IGNORE);
}

/* Apple's money cannot be sent back: an order that was cancelled is paid after all, a second
 * payment waits for a person. */
static void a_channel_that_cannot_refund(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    core_account(w, &fake_apple, "store");
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    n.channel = CHANNEL_APPLE;
    struct number apple = core_start(w, &n).p.no;
    n.channel = CHANNEL_WECHAT;
    struct number wechat = core_start(w, &n).p.no;
    core_paid(w, wechat, 8800, "T1");
    core_settle(w, no);
    core_paid(w, apple, 8800, "T2");
    core_settle(w, no);
    assert_int_equal(INCIDENT(w, "kind * 10 + policy"), INCIDENT_PAID_TWICE * 10 + POLICY_HOLD);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_INCIDENT_STATE);

    no = core_order(w, "o2", 8800).no;
    n = payment_input(no);
    n.channel = CHANNEL_APPLE;
    apple = core_start(w, &n).p.no;
    core_state(w, apple, fact_of(w, FACT_SHUT, 0, NULL));
    core_ended(w, no);
    struct order o;
    struct refusal r = { 0 };
    bool closing;
    assert_int_equal(order_cancel(&w->c, &w->act, no, STR("no"), &o, &closing, &r), CODE_OK);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
    core_paid(w, apple, 8800, "T3");
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_REVIVE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 0);
}

/* Taken back by the channel after it had been given back: a person decides anew. */
static void a_reversed_refund(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 1);
    channel_says(w, FACT_REFUND_REVERSED);
    assert_int_equal(INCIDENT(w, "state * 10 + policy"), POLICY_HOLD);
    assert_int_equal(INCIDENT(w, "count"), 2);
    assert_int_equal(money_fen(core_get(w, pay_no).refunded), 0);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_OK);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state"), 1);
}

/* ---- the brake ---- */

static void so_many_an_hour(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    w->c.settings.auto_refund_max_count = 2;
    struct number pay_no;
    late(w, "o1", 100, &pay_no);
    twice(w, "o2", 100, &pay_no);
    late(w, "o3", 100, &pay_no);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_BRAKED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 2);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_SURPLUS);
    assert_int_equal(ASK(&w->world, "SELECT sum(count) FROM refund_brake"), 2);
    assert_int_equal(core_invariants(w).broken[BROKEN_UNEXPLAINED], 0);

    /* It waits, also when the hour is over; what comes then goes back. */
    core_advance(w, 3600000);
    struct number then;
    late(w, "o4", 100, &then);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE policy = 3"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 3);
    core_advance(w, 50 * 3600000LL);
    late(w, "o5", 100, &then);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_brake"),
                     1); /* no hour stays for ever */
}

static void so_much_an_hour(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    w->c.settings.auto_refund_max_fen = 1000;
    struct number pay_no;
    late(w, "o1", 1001, &pay_no); /* alone above it */
    assert_int_equal(INCIDENT(w, "policy"), POLICY_BRAKED);
    late(w, "o2", 600, &pay_no);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
    late(w, "o3", 401, &pay_no);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_BRAKED);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_OK); /* a person is no fault */
    assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
    late(w, "o4", 400, &pay_no);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
    assert_int_equal(ASK(&w->world, "SELECT sum(fen) FROM refund_brake"), 1000);
    w->c.settings.auto_refund_max_fen = w->c.settings.auto_refund_max_count = 0; /* no limit */
    late(w, "o5", 999999, &pay_no);
    assert_int_equal(INCIDENT(w, "policy"), POLICY_REFUND);
}

/* ---- held money ---- */

static void held_money_is_accepted_and_goes_back(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_paid(w, pay_no, 7700, "T1");
    struct acted a = operator_says(w, ACTION_ACCEPT_AND_REFUND);
    assert_int_equal(a.code, CODE_OK);
    assert_false(a.r.incident.resolved);
    struct payment p = core_get(w, pay_no);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_int_equal(p.settled, SETTLED_ASIDE);
    assert_int_equal(money_fen(p.refunding), 7700);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED);
    assert_int_equal(operator_says(w, ACTION_ACCEPT_AND_REFUND).code, CODE_OK); /* the same again */
    core_settle(w, no);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1);

    channel_says(w, FACT_REFUND_CLOSED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 2);
    channel_says(w, FACT_REFUND_DONE);
    assert_int_equal(INCIDENT(w, "state * 10 + resolution"), 10 + ACTION_ACCEPT_AND_REFUND);
    assert_int_equal(INCIDENT(w, "evidence_ref = (SELECT id FROM audit_log)"), 1);
}

/* Of the right amount, but the operator does not want it. */
static void what_goes_back_settles_nothing(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    w->fact_ours = false;
    core_paid(w, pay_no, 8800, "T1");
    assert_int_equal(operator_says(w, ACTION_ACCEPT_AND_REFUND).code, CODE_OK);
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_ASIDE);
}

static void an_orders_money_does_not_go_back(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_paid(w, pay_no, 100, "T1");
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_INCIDENT_STATE); /* held */
    operator_says(w, ACTION_RETRY);
    core_paid(w, pay_no, 8800, "T1");
    core_settle(w, no);
    core_paid(w, pay_no, 100, "T1"); /* a success is contradicted */
    assert_int_equal(INCIDENT(w, "state"), 0);
    assert_int_equal(operator_says(w, ACTION_REFUND).code, CODE_INCIDENT_STATE);
    assert_int_equal(operator_says(w, ACTION_ACCEPT_AND_REFUND).code, CODE_INCIDENT_STATE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 0);
}

/* ---- refunds that need a person ---- */

static void an_abnormal_refund_is_settled_offline(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    channel_says(w, FACT_REFUND_ACCEPTED);
    struct refund r = last_refund(w);
    state_kind(w, &r, FACT_REFUND_ABNORMAL);
    assert_int_equal(INCIDENT(w, "kind"), INCIDENT_REFUND_ABNORMAL);
    assert_int_equal(operator_says(w, ACTION_SETTLED_OFFLINE).code, CODE_OK);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
    assert_int_equal(refund_now(w, r.no).evidence_kind, EVIDENCE_OPERATOR);
    follow(w, r.no, false);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 0);
    assert_int_equal(money_fen(core_get(w, pay_no).refunded), 8800);
    assert_int_equal(ASK(&w->world, "SELECT resolution FROM incident WHERE kind = 12"),
                     ACTION_SETTLED_OFFLINE);
}

static void an_abnormal_refund_recovers(void **state)
{
    struct core *w = *state;
    policies(w, POLICY_REFUND, POLICY_REFUND);
    struct number pay_no;
    late(w, "o1", 8800, &pay_no);
    channel_says(w, FACT_REFUND_ACCEPTED);
    struct refund r = last_refund(w);
    state_kind(w, &r, FACT_REFUND_ABNORMAL);
    struct number abnormal = the_incident(w);
    state_kind(w, &r, FACT_REFUND_DONE);
    follow(w, r.no, false);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 0);
    assert_int_equal(ASK(&w->world, "SELECT resolution FROM incident WHERE kind = 12"),
                     ACTION_RECOVERED);
    assert_int_equal(the_incident(w).id, abnormal.id);
    assert_int_equal(operator_says(w, ACTION_SETTLED_OFFLINE).code, CODE_INCIDENT_STATE);
}

/* ---- every order of events ---- */

/* Two attempts of one order that can both be paid (the first was superseded when its account
 * broke), a cancel, and the work of the jobs and consumers between them. */
enum event { PAID_FIRST, PAID_SECOND, CANCEL, SETTLE, DUE, EVENTS };

static const char *const event_names[] = { "paid first, ", "paid second, ", "cancel, ", "settle, ",
                                           "due, " };

struct story {
    struct core *w;
    struct number order_no, first, second;
    bool paid[2];
};

static void begin_story(struct story *s, struct core *w)
{
    SQL(superseded, "SELECT id FROM payment_order WHERE superseded = 1");
    *s = (struct story) { .w = w, .order_no = core_order(w, "o1", 8800).no };
    core_account(w, &fake_wechat, "second");
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_ACCOUNT);
    s->second = core_pay(w, s->order_no).no;
    s->first = number_make(NUMBER_PAYMENT, s->order_no.slot, world_ask(&w->world, &superseded));
    assert_true(s->first.id != s->second.id);
}

/* Accepted while another success of the order waits to be applied: one a transaction, so this one
 * waits, and must not be forgotten. */
static void accepted_while_another_waits(void **state)
{
    struct core *w = *state;
    struct story s;
    begin_story(&s, w);
    w->fact_ours = false;
    assert_int_equal(core_paid(w, s.second, 8800, "T2"), PAYMENT_QUARANTINED);
    core_advance(w, 60000);
    core_due(w); /* it has left the ladder */
    w->fact_ours = true;
    core_paid(w, s.first, 8800, "T1");
    assert_int_equal(operator_says(w, ACTION_ACCEPT).code, CODE_OK);
    core_due(w);
    assert_int_equal(core_get(w, s.first).settled, SETTLED_WON);
    assert_int_equal(core_get(w, s.second).settled, SETTLED_SURPLUS);
}

static void play(struct story *s, enum event event)
{
    struct order o;
    struct refusal r = { 0 };
    bool closing;
    switch (event) {
    case PAID_FIRST:
        s->paid[0] |= core_paid(s->w, s->first, 8800, "T1") == PAYMENT_MOVED;
        return;
    case PAID_SECOND:
        s->paid[1] |= core_paid(s->w, s->second, 8800, "T2") == PAYMENT_MOVED;
        return;
    case CANCEL:
        (void)order_cancel(&s->w->c, &s->w->act, s->order_no, STR("no"), &o, &closing, &r);
        return;
    case SETTLE:
        core_settle(s->w, s->order_no);
        return;
    case DUE:
        core_advance(s->w, 1000);
        core_due(s->w);
        return;
    case EVENTS:
        break;
    }
}

static void end_story(struct story *s)
{
    play(s, PAID_FIRST); /* both were paid: said twice, it is one payment each */
    play(s, PAID_SECOND);
    for (int i = 0; i < 3; i++)
        core_settle(s->w, s->order_no);
    for (int i = 0;
         i < 2 && ASK(&s->w->world, "SELECT count(*) FROM refund_order WHERE status < 2"); i++) {
        int64_t id = ASK(&s->w->world, "SELECT min(id) FROM refund_order WHERE status < 2");
        struct refund r = refund_now(s->w, number_make(NUMBER_REFUND, 0, id));
        state_kind(s->w, &r, FACT_REFUND_DONE);
        follow(s->w, r.no, false);
    }
}

static void check_story(struct story *s, enum incident_policy after_close,
                        enum incident_policy twice_policy, const char *told)
{
    struct order o = core_get_order(s->w, s->order_no);
    struct number nos[] = { s->first, s->second };
    bool cancelled_first = o.status == ORDER_CANCELLED;
    int won = 0, surplus = 0, back = 0;
    check_row(s->paid[0] && s->paid[1], told); /* the money is a fact, whatever else happens */
    for (int i = 0; i < 2; i++) {
        struct payment p = core_get(s->w, nos[i]);
        check_row(p.status == PAYMENT_SUCCESS && money_fen(p.paid_amount) == 8800, told);
        won += p.settled == SETTLED_WON;
        surplus += p.settled == SETTLED_SURPLUS;
        back += p.settled == SETTLED_SURPLUS && money_fen(p.refunded) == 8800;
        check_row(p.settled != SETTLED_WON || o.pay_no.id == p.no.id, told);
        check_row(p.settled != SETTLED_WON || money_fen(p.refunded) == 0, told);
    }
    check_row(won + surplus == 2, told);
    check_row(cancelled_first ? won == 0 : won == 1 && o.status == ORDER_PAID, told);
    check_row(after_close != POLICY_REVIVE || won == 1, told);
    int64_t open = ASK(&s->w->world, "SELECT count(*) FROM incident WHERE state = 0 AND kind < 3");
    int64_t late_n = ASK(&s->w->world, "SELECT count(*) FROM incident WHERE kind = 1"),
            twice_n = ASK(&s->w->world, "SELECT count(*) FROM incident WHERE kind = 2");
    check_row(late_n + twice_n >= surplus, told);
    int64_t held =
        (after_close == POLICY_HOLD ? late_n : 0) + (twice_policy == POLICY_HOLD ? twice_n : 0);
    check_row(open == held, told);
    check_row(back == surplus - held, told);
    check_row(ASK(&s->w->world, "SELECT count(*) FROM refund_order") == back, told);
}

/* Heap's algorithm over the events. */
static void every_order_of(enum event *events, int n, void (*play_one)(const enum event *, void *),
                           void *arg)
{
    if (n == 1) {
        play_one(events, arg);
        return;
    }
    for (int i = 0; i < n; i++) {
        every_order_of(events, n - 1, play_one, arg);
        int other = n % 2 ? 0 : i;
        enum event kept = events[other];
        events[other] = events[n - 1];
        events[n - 1] = kept;
    }
}

struct played {
    enum incident_policy after_close, twice;
    int n;
};

static void play_all(const enum event *events, void *arg)
{
    struct played *played = arg;
    struct core w;
    struct story s;
    BUF_AUTO told;
    core_open(&w);
    policies(&w, played->after_close, played->twice);
    begin_story(&s, &w);
    buf_init(&told, 1024);
    for (int i = 0; i < EVENTS; i++) {
        buf_add_str(&told, str_of(event_names[events[i]]));
        play(&s, events[i]);
    }
    buf_printf(&told, "%s/%s", incident_policy_name(played->after_close),
               incident_policy_name(played->twice));
    buf_add_char(&told, 0);
    end_story(&s);
    check_story(&s, played->after_close, played->twice, told.p);
    core_check(&w);
    played->n++;
}

static void every_order_of_events(void **state)
{
    (void)state;
    static const enum incident_policy after_close[] = { POLICY_REFUND, POLICY_HOLD, POLICY_REVIVE },
                                      twice_policies[] = { POLICY_REFUND, POLICY_HOLD };
    struct played played = { .n = 0 };
    for (size_t i = 0; i < COUNT(after_close); i++)
        for (size_t j = 0; j < COUNT(twice_policies); j++) {
            enum event events[] = { PAID_FIRST, PAID_SECOND, CANCEL, SETTLE, DUE };
            played.after_close = after_close[i];
            played.twice = twice_policies[j];
            every_order_of(events, EVENTS, play_all, &played);
        }
    assert_int_equal(played.n, 720);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(late_money_goes_back),
        CORE_TEST(late_money_that_is_not_whole_is_not_taken),
        CORE_TEST(double_money_goes_back),
        CORE_TEST(a_failed_one_is_tried_again),
        CORE_TEST(what_is_left_goes_back),
        CORE_TEST(one_at_a_time),
        CORE_TEST(the_caller_gives_it_back),
        CORE_TEST(an_ignored_one_is_let_be),
        CORE_TEST(a_channel_that_cannot_refund),
        CORE_TEST(a_reversed_refund),
        CORE_TEST(so_many_an_hour),
        CORE_TEST(so_much_an_hour),
        CORE_TEST(held_money_is_accepted_and_goes_back),
        CORE_TEST(what_goes_back_settles_nothing),
        CORE_TEST(an_orders_money_does_not_go_back),
        CORE_TEST(an_abnormal_refund_is_settled_offline),
        CORE_TEST(an_abnormal_refund_recovers),
        CORE_TEST(accepted_while_another_waits),
        cmocka_unit_test(every_order_of_events),
    };
    return RUN_CORE_TESTS(tests);
}
