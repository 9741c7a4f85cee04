/* A refund's turns: what each answer of the channel does (rules.md sections 5 and 6), and what
 * becomes of answers nobody heard. */
#include "refund_world.h"

#define MINUTE 60000
#define HOUR   (60 * MINUTE)

static size_t turn(struct core *w)
{
    struct err_info info = { 0 };
    size_t done = 99;
    assert_ok(refund_due_turn(&w->c, 100, &done, &info));
    return done;
}

static struct refund opened(struct core *w, int64_t fen)
{
    return open_amount(w, paid(w, "o1", 8800).no, "r1", fen).r;
}

static struct reply *expect_sent(struct core *w, const struct refund *r, enum fact_kind kind)
{
    struct reply *reply = expect(&w->refund, CHANNEL_DONE, CLASS_NONE);
    reply->answer.facts[0] = refund_fact(w, r, kind);
    reply->answer.fact_count = 1;
    return reply;
}

static struct reply *expect_asked(struct core *w, const struct refund *r, enum fact_kind kind)
{
    struct reply *reply = expect(&w->query_refund, CHANNEL_DONE, CLASS_NONE);
    reply->answer.facts[0] = refund_fact(w, r, kind);
    reply->answer.fact_count = 1;
    return reply;
}

static void expect_missing(struct core *w)
{
    expect(&w->query_refund, CHANNEL_REFUSED, CLASS_FINAL)->answer.not_exist = true;
}

static int64_t incidents(struct core *w, enum incident_kind kind)
{
    SQL(open_ones, "SELECT coalesce(sum(1 << kind), 0) FROM (SELECT DISTINCT kind FROM incident "
                   "WHERE state = 0)");
    return world_ask(&w->world, &open_ones) >> kind & 1;
}

static void assert_at(struct core *w, const struct refund *r, enum refund_status status,
                      enum refund_step step, int64_t in_ms)
{
    struct refund now = refund_now(w, r->no);
    assert_int_equal(now.status, status);
    assert_int_equal(now.step, step);
    assert_int_equal(now.next_ms, in_ms < 0 ? 0 : env_now_ms(w->world.env) + in_ms);
}

/* ---- sending ---- */

/* The run lost its lease: nothing is sent, and nothing about the refund has changed. */
static void under_a_stale_fence_nothing_is_sent(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 1000);
    struct shift stale = { .lease = { STR("job/refunds"), STR("process/1"), 7, INT64_MAX },
                           .until_us = INT64_MAX };
    struct centre c = w->c;
    struct err_info info = { 0 };
    size_t done = 0;
    c.shift = &stale;
    assert_int_equal(refund_due_turn(&c, 100, &done, &info), ERR_BUSY);
    assert_int_equal(refund_now(w, r.no).calls, 0);
    expect_sent(w, &r, FACT_REFUND_DONE);
    assert_int_equal(turn(w), 1);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
}

static void sent_once_and_asked_about(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    assert_int_equal(turn(w), 1);
    assert_int_equal(w->refund.calls, 1);
    assert_str(w->refund_sent[0], str_printf(w->world.arena, "%s %s 3000/8800 ",
                                             number_text(r.pay_no).s, number_text(r.no).s)
                                      .p);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, MINUTE);
    assert_int_equal(refund_now(w, r.no).unknown_calls, 0);
    assert_int_equal(core_get(w, r.pay_no).call_owner, 0);
    assert_int_equal(turn(w), 0);

    core_advance(w, MINUTE);
    expect_asked(w, &r, FACT_REFUND_ACCEPTED);
    assert_int_equal(turn(w), 1);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, MINUTE);
    core_advance(w, MINUTE);
    expect_asked(w, &r, FACT_REFUND_DONE);
    assert_int_equal(turn(w), 1);
    assert_at(w, &r, REFUND_SUCCESS, REFUND_ASK, -1);
    assert_int_equal(w->refund.calls, 1);
    struct refund done = refund_now(w, r.no);
    assert_int_equal(done.evidence_kind, EVIDENCE_QUERY);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM channel_call c JOIN refund_order r ON "
                                    "c.subject_id = r.id AND c.kind IN (4, 5)"),
                     3);
    assert_int_equal(turn(w), 0);
}

static void done_at_once(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect_sent(w, &r, FACT_REFUND_DONE);
    turn(w);
    assert_at(w, &r, REFUND_SUCCESS, REFUND_ASK, -1);
    assert_int_equal(refund_now(w, r.no).evidence_kind, EVIDENCE_ANSWER);
}

static void nothing_happened_so_it_is_sent_again(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    static const int64_t minutes[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
    for (size_t i = 0; i < COUNT(minutes); i++) {
        expect(&w->refund, CHANNEL_REFUSED, CLASS_RETRY);
        assert_int_equal(turn(w), 1);
        assert_at(w, &r, REFUND_INIT, REFUND_SEND, minutes[i] * MINUTE);
        core_advance(w, minutes[i] * MINUTE);
    }
    turn(w);
    assert_int_equal(w->refund.calls, COUNT(minutes) + 1);
    assert_int_equal(w->query_refund.calls, 0);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, MINUTE);
}

/* Nobody knows whether it arrived: asked a minute later, and what the channel does not know then is
 * sent again, with the bytes of the first time, whatever would be built now. */
static void unknown_and_missing_is_sent_again_as_it_was(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_ASK, MINUTE);
    assert_int_equal(refund_now(w, r.no).unknown_calls, 1);
    w->build_result = ERR_INVALID;
    core_advance(w, MINUTE);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, 0);
    turn(w);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, MINUTE);
    assert_int_equal(w->refund.calls, 2);
    assert_str(w->refund_sent[1], w->refund_sent[0].p);
    assert_int_equal(refund_now(w, r.no).unknown_calls, 1); /* the first stays unknown */
}

/* "The state differs" (INVALID_REQUEST at WeChat): asked at once; "does not know it" so soon proves
 * nothing, and one refusal of that kind may be over by now. */
static void the_state_differs(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_QUERY);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_ASK, 0);
    assert_int_equal(refund_now(w, r.no).unknown_calls, 1);
    core_advance(w, 1000);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_ASK, MINUTE - 1000);
    core_advance(w, MINUTE - 1000);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, 0);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_QUERY);
    turn(w);
    expect_asked(w, &r, FACT_REFUND_ACCEPTED);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
    assert_int_equal(w->refund.calls, 2);
}

/* Twice, and the channel says twice, a minute apart, that it does not know it: it will not take it
 * (more than is left there, say), and its money is free again. */
static void the_state_differs_for_good(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    for (int i = 0; i < 2; i++) {
        struct reply *reply = expect(&w->refund, CHANNEL_REFUSED, CLASS_QUERY);
        reply->answer.code = STR("INVALID_REQUEST");
        turn(w);
        expect_missing(w);
        turn(w);
        assert_at(w, &r, REFUND_INIT, REFUND_ASK, MINUTE);
        core_advance(w, MINUTE);
        expect_missing(w);
        turn(w);
    }
    assert_at(w, &r, REFUND_FAILED, REFUND_ASK, -1);
    struct refund failed = refund_now(w, r.no);
    assert_int_equal(failed.evidence_kind, EVIDENCE_NOT_EXIST);
    assert_str(failed.error_code, "INVALID_REQUEST");
    assert_int_equal(failed.calls, 2);
    assert_int_equal(money_fen(core_get(w, r.pay_no).refunding), 0);
}

/* ---- refused ---- */

static void refused_for_good_is_failed(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    struct reply *reply = expect(&w->refund, CHANNEL_REFUSED, CLASS_FINAL);
    reply->answer.code = STR("PARAM_ERROR");
    reply->answer.message = STR("no");
    turn(w);
    assert_at(w, &r, REFUND_FAILED, REFUND_ASK, -1);
    struct refund failed = refund_now(w, r.no);
    assert_int_equal(failed.evidence_kind, EVIDENCE_REFUSAL);
    assert_str(failed.error_code, "PARAM_ERROR");
    assert_str(failed.error_message, "no");
    assert_int_equal(money_fen(core_get(w, r.pay_no).refunding), 0);
    assert_int_equal(w->query_refund.calls, 0);
}

/* A lost call may have been accepted, so a refusal of the same number proves nothing until the
 * channel has said twice, a minute apart, that it does not know it. */
static void refused_after_an_unknown_call(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    core_advance(w, MINUTE);
    expect_missing(w);
    turn(w);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_FINAL);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_ASK, 0);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_ASK, MINUTE);
    core_advance(w, MINUTE - 1);
    assert_int_equal(turn(w), 0);
    struct refusal refusal = { 0 }; /* by hand, too soon: it counts for nothing */
    expect_missing(w);
    assert_int_equal(refund_sync(&w->c, &w->act, r.no, &r, &refusal), CODE_OK);
    assert_int_equal(r.status, REFUND_INIT);
    core_advance(w, 1);
    expect(&w->query_refund, CHANNEL_UNKNOWN, CLASS_NONE); /* counts for nothing */
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_INIT);
    core_advance(w, HOUR);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_FAILED, REFUND_ASK, -1);
    assert_int_equal(refund_now(w, r.no).evidence_kind, EVIDENCE_NOT_EXIST);
    assert_int_equal(w->refund.calls, 2);
}

/* The lost call came after the refusal, which says nothing of it: it may still be on its way. */
static void an_unknown_call_after_a_refusal(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_QUERY);
    turn(w);
    expect_missing(w);
    turn(w);
    core_advance(w, MINUTE);
    expect_missing(w);
    turn(w); /* it was never there: sent again */
    expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    assert_int_equal(w->refund.calls, 2);
    core_advance(w, HOUR);
    expect_missing(w);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, 0);
    expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    assert_int_equal(w->refund.calls, 3);
}

static void refused_but_the_channel_knows_it(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    core_advance(w, MINUTE);
    expect_missing(w);
    turn(w);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_FINAL);
    turn(w);
    expect_asked(w, &r, FACT_REFUND_DONE);
    turn(w);
    assert_at(w, &r, REFUND_SUCCESS, REFUND_ASK, -1);
}

/* Not enough balance: it stays, somebody tops up, and it goes out by itself within the hour. */
static void held_until_the_balance_is_there(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    for (int i = 0; i < 3; i++) {
        expect(&w->refund, CHANNEL_REFUSED, CLASS_PERSON)->answer.code = STR("NOT_ENOUGH");
        turn(w);
        assert_at(w, &r, REFUND_INIT, REFUND_SEND, HOUR);
        assert_true(refund_now(w, r.no).held);
        assert_str(refund_now(w, r.no).error_code, "NOT_ENOUGH");
        core_advance(w, HOUR);
    }
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 1);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 3);
    turn(w);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, MINUTE);
    assert_false(refund_now(w, r.no).held);
    assert_false(refund_now(w, r.no).error_code.n);
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 0);
}

static void the_account_is_broken(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_ACCOUNT);
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, MINUTE);
    assert_true(registry_suspended(w->c.registry, STR("main"), env_now_ms(w->world.env) + MINUTE));
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 1);
    core_advance(w, MINUTE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 0);
}

static void what_a_question_is_refused_with(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    static const enum channel_class classes[] = { CLASS_RETRY, CLASS_ACCOUNT, CLASS_PERSON,
                                                  CLASS_FINAL };
    for (size_t i = 0; i < COUNT(classes); i++) {
        core_advance(w, HOUR);
        expect(&w->query_refund, CHANNEL_REFUSED, classes[i]);
        turn(w);
        assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
        assert_int_equal(refund_now(w, r.no).step, REFUND_ASK);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 11"), 2);
    assert_int_equal(w->refund.calls, 1);
}

/* It was accepted, and then the channel does not know it: the same bytes again. */
static void accepted_and_lost(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    core_advance(w, MINUTE);
    expect_missing(w);
    turn(w);
    turn(w);
    assert_int_equal(w->refund.calls, 2);
    assert_str(w->refund_sent[1], w->refund_sent[0].p);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
}

/* ---- on its way ---- */

static void days_pass_and_somebody_is_told(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    for (int i = 0; i < 30; i++) {
        expect_asked(w, &r, FACT_REFUND_ACCEPTED);
        core_advance(w, HOUR);
        turn(w);
    }
    w->query_refund.head = w->query_refund.tail = 0;
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 0);
    core_advance(w, 48 * HOUR);
    expect(&w->query_refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(w);
    assert_at(w, &r, REFUND_PROCESSING, REFUND_ASK, HOUR);
    assert_int_equal(
        ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 11 AND discriminator = 'age'"),
        1);
    core_advance(w, HOUR);
    expect_asked(w, &r, FACT_REFUND_DONE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 0);
}

static void abnormal_and_then_done(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    core_advance(w, MINUTE);
    expect_asked(w, &r, FACT_REFUND_ABNORMAL);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_ABNORMAL);
    assert_int_equal(money_fen(core_get(w, r.pay_no).refunding), 3000);
    assert_int_equal(incidents(w, INCIDENT_REFUND_ABNORMAL), 1);
    core_advance(w, HOUR);
    expect_asked(w, &r, FACT_REFUND_DONE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
    assert_int_equal(incidents(w, INCIDENT_REFUND_ABNORMAL), 0);
}

/* Failed here and alive there: it is watched until the channel says how it ended. */
static void failed_here_and_alive_there(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    state_kind(w, &r, FACT_REFUND_CLOSED);
    core_advance(w, HOUR);
    assert_int_equal(turn(w), 1); /* a row that is there for nothing */
    assert_int_equal(w->query_refund.calls, 0);
    struct refusal refusal = { 0 };
    expect_asked(w, &r, FACT_REFUND_ACCEPTED);
    assert_int_equal(refund_sync(&w->c, &w->act, r.no, &r, &refusal), CODE_OK);
    assert_int_equal(r.status, REFUND_FAILED);
    expect_asked(w, &r, FACT_REFUND_ACCEPTED);
    assert_int_equal(turn(w), 1);
    assert_true(refund_now(w, r.no).next_ms > env_now_ms(w->world.env));
    core_advance(w, HOUR);
    expect_asked(w, &r, FACT_REFUND_DONE);
    turn(w);
    r = refund_now(w, r.no);
    assert_int_equal(r.status, REFUND_SUCCESS);
    assert_true(r.late);

    struct refund other = open_amount(w, r.pay_no, "r2", 100).r;
    core_advance(w, HOUR);
    expect_sent(w, &other, FACT_REFUND_CLOSED);
    turn(w);
    expect_asked(w, &other, FACT_REFUND_ACCEPTED);
    assert_int_equal(refund_sync(&w->c, &w->act, other.no, &other, &refusal), CODE_OK);
    expect_asked(w, &other, FACT_REFUND_CLOSED);
    turn(w);
    assert_at(w, &other, REFUND_FAILED, REFUND_ASK, -1);
}

/* ---- one at a time ---- */

static void siblings_keep_the_channels_gap(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund r[3];
    for (int i = 0; i < 3; i++)
        r[i] = open_amount(w, p.no, str_printf(w->world.arena, "r%d", i).p, 100).r;
    struct refund other = open_amount(w, paid(w, "o2", 8800).no, "r", 100).r;
    turn(w);
    assert_int_equal(w->refund.calls, 2); /* another payment's is in nobody's way */
    assert_int_equal(refund_now(w, other.no).status, REFUND_PROCESSING);
    assert_int_equal(refund_now(w, r[0].no).status, REFUND_PROCESSING);
    assert_at(w, &r[1], REFUND_INIT, REFUND_SEND, MINUTE);
    for (int i = 1; i < 3; i++) {
        core_advance(w, MINUTE);
        turn(w);
        assert_int_equal(w->refund.calls, 2 + i);
        assert_int_equal(refund_now(w, r[i].no).calls, 1);
    }
}

static size_t turns_meanwhile;
static void turn_meanwhile(struct core *w)
{
    core_advance(w, 5000);
    turns_meanwhile = turn(w);
}

/* While one is on the wire nobody else sends anything of this payment. */
static void another_process_finds_nothing_to_do(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund a = open_amount(w, p.no, "a", 100).r;
    expect_sent(w, &a, FACT_REFUND_ACCEPTED)->meanwhile = turn_meanwhile;
    turn(w);
    assert_int_equal(turns_meanwhile, 0);
    struct refund b = open_amount(w, p.no, "b", 100).r;
    assert_int_equal(turn(w), 1);
    assert_int_equal(w->refund.calls, 1);
    assert_at(w, &b, REFUND_INIT, REFUND_SEND, MINUTE);
}

/* A channel without a gap: the payment's call lease alone keeps them apart. */
static struct refund sibling;
static void open_and_turn(struct core *w)
{
    sibling = open_amount(w, sibling.pay_no, "b", 100).r;
    turn(w);
}

static void one_at_a_time_without_a_gap(void **state)
{
    struct core *w = *state;
    static struct channel_info quick;
    quick = fake_wechat;
    quick.refund_gap_ms = 0;
    core_account(w, &quick, "main");
    struct payment p = paid(w, "o1", 8800);
    struct refund a = open_amount(w, p.no, "a", 100).r;
    sibling = (struct refund) { .pay_no = p.no };
    expect_sent(w, &a, FACT_REFUND_ACCEPTED)->meanwhile = open_and_turn;
    turn(w);
    assert_int_equal(w->refund.calls, 1);
    assert_at(w, &sibling, REFUND_INIT, REFUND_SEND, w->c.settings.call_lease_ms);
    core_advance(w, w->c.settings.call_lease_ms);
    turn(w);
    assert_int_equal(refund_now(w, sibling.no).status, REFUND_PROCESSING);
}

/* The call takes longer than its lease, and another process takes the refund up: it asks first, is
 * told that nobody knows it, and sends the same bytes. Then the first answer arrives. */
static void take_over(struct core *w)
{
    core_advance(w, 2 * MINUTE);
    expect_missing(w);
    turn(w);
    turn(w);
}

static void two_processes_send_the_same_refund(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    struct reply *first = expect(&w->refund, CHANNEL_REFUSED, CLASS_FINAL);
    first->meanwhile = take_over;
    expect_sent(w, &r, FACT_REFUND_ACCEPTED);
    turn(w);
    assert_int_equal(w->refund.calls, 2);
    assert_str(w->refund_sent[1], w->refund_sent[0].p);
    struct refund now = refund_now(w, r.no);
    assert_int_equal(now.status, REFUND_PROCESSING); /* the late refusal moved nothing */
    assert_int_equal(now.calls, 2);
    assert_int_equal(now.unknown_calls, 0);
    assert_int_equal(core_get(w, r.pay_no).call_owner, 0);
    expect_asked(w, &r, FACT_REFUND_DONE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
}

/* ---- what stands in the way ---- */

static void its_account_is_gone(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    struct registry *there = w->c.registry;
    w->c.registry = registry_new();
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, MINUTE);
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 1);
    registry_free(w->c.registry);
    w->c.registry = there;
    core_advance(w, MINUTE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
}

static void the_channel_would_not_take_it(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    w->build_result = ERR_INVALID;
    turn(w);
    assert_at(w, &r, REFUND_INIT, REFUND_SEND, MINUTE);
    assert_int_equal(incidents(w, INCIDENT_REFUND_HELD), 1);
    assert_int_equal(w->refund.calls, 0);
    w->build_result = ERR_OK;
    core_advance(w, MINUTE);
    turn(w);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
}

static void a_silent_channel_is_left_alone(void **state)
{
    struct core *w = *state;
    struct refund r[5];
    for (int i = 0; i < 5; i++) {
        r[i] = open_amount(w, paid(w, str_printf(w->world.arena, "o%d", i).p, 8800).no, "r", 100).r;
        expect(&w->refund, CHANNEL_UNKNOWN, CLASS_NONE);
    }
    turn(w);
    assert_int_equal(w->refund.calls, 3);
    for (int i = 3; i < 5; i++)
        assert_at(w, &r[i], REFUND_INIT, REFUND_SEND, MINUTE);
}

static enum err adopt_rule(struct tx *tx, void *arg, struct err_info *info)
{
    static const struct sql adopt = { "adopt", "UPDATE payment_order SET method = 0 WHERE id = ?" };
    return tx_exec(tx, &adopt, BINDS(bind_int(*(int64_t *)arg)), NULL, info);
}

/* The channel may know it by another number. */
static void money_that_was_adopted(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund r = open_amount(w, p.no, "r", 100).r;
    world_run(&w->world, adopt_rule, &p.no.id);
    turn(w);
    assert_str(w->refund_sent[0], str_printf(w->world.arena, STR_FMT " %s 100/8800 ",
                                             STR_ARG(p.transaction_id), number_text(r.no).s)
                                      .p);
}

/* ---- what is counted ---- */

static enum err figures_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return refund_figures(tx, arg, info);
}

/* Does an open refund keep the account from leaving? */
static bool needed(struct core *w, struct str account)
{
    struct account_need need = { .account = account };
    struct list needs;
    list_init(&needs);
    list_append(&needs, &need.link);
    assert_ok(payments_needing(w->world.store, &needs, NULL));
    assert_true(!need.no.id || need.no.kind == NUMBER_REFUND);
    return need.no.id != 0;
}

static void open_ones_are_counted_and_keep_their_account(void **state)
{
    struct core *w = *state;
    struct refund_figures f;
    struct payment p = paid(w, "o1", 8800);
    world_read(&w->world, figures_rule, &f);
    assert_true(!f.open && !f.held && !f.oldest_ms);
    assert_false(needed(w, STR("main")));

    open_amount(w, p.no, "a", 100);
    core_advance(w, MINUTE);
    open_amount(w, paid(w, "o2", 8800).no, "b", 100);
    expect(&w->refund, CHANNEL_REFUSED, CLASS_PERSON);
    turn(w);
    world_read(&w->world, figures_rule, &f);
    assert_int_equal(f.open, 2);
    assert_int_equal(f.held, 1);
    assert_int_equal(f.oldest_ms, WORLD_NOW_MS);
    assert_true(needed(w, STR("main")));
    assert_false(needed(w, STR("other")));
}

/* ---- the clock ---- */

static void a_clock_that_steps_back_loses_no_turn(void **state)
{
    struct core *w = *state;
    struct refund r = opened(w, 3000);
    turn(w);
    core_advance(w, -10 * MINUTE);
    assert_int_equal(turn(w), 0);
    core_advance(w, 11 * MINUTE);
    expect_asked(w, &r, FACT_REFUND_DONE);
    assert_int_equal(turn(w), 1);
    assert_int_equal(refund_now(w, r.no).status, REFUND_SUCCESS);
}

/* ---- by hand ---- */

static void synced_by_hand(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund a = open_amount(w, p.no, "a", 100).r, b = open_amount(w, p.no, "b", 100).r, now;
    struct refusal refusal = { 0 };
    assert_int_equal(refund_sync(&w->c, &w->act, a.no, &now, &refusal), CODE_OK);
    assert_int_equal(now.status, REFUND_PROCESSING);
    /* the other one keeps the gap, and its turn */
    assert_int_equal(refund_sync(&w->c, &w->act, b.no, &now, &refusal), CODE_OK);
    assert_int_equal(now.status, REFUND_INIT);
    assert_int_equal(w->refund.calls, 1);
    assert_at(w, &b, REFUND_INIT, REFUND_SEND, 0);

    expect_asked(w, &a, FACT_REFUND_DONE);
    assert_int_equal(refund_sync(&w->c, &w->act, a.no, &now, &refusal), CODE_OK);
    assert_int_equal(now.status, REFUND_SUCCESS);
    /* also one that is final; what it says is a conflict then */
    expect_asked(w, &a, FACT_REFUND_CLOSED);
    assert_int_equal(refund_sync(&w->c, &w->act, a.no, &now, &refusal), CODE_OK);
    assert_int_equal(now.status, REFUND_SUCCESS);
    assert_int_equal(incidents(w, INCIDENT_STATUS_CONFLICT), 1);

    struct act other = w->act;
    other.caller.id = CALLER + 1;
    assert_int_equal(refund_sync(&w->c, &other, a.no, &now, &refusal), CODE_REFUND_NOT_FOUND);
    assert_int_equal(w->query_refund.calls, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(under_a_stale_fence_nothing_is_sent),
        CORE_TEST(sent_once_and_asked_about),
        CORE_TEST(done_at_once),
        CORE_TEST(nothing_happened_so_it_is_sent_again),
        CORE_TEST(unknown_and_missing_is_sent_again_as_it_was),
        CORE_TEST(the_state_differs),
        CORE_TEST(the_state_differs_for_good),
        CORE_TEST(refused_for_good_is_failed),
        CORE_TEST(refused_after_an_unknown_call),
        CORE_TEST(an_unknown_call_after_a_refusal),
        CORE_TEST(refused_but_the_channel_knows_it),
        CORE_TEST(held_until_the_balance_is_there),
        CORE_TEST(the_account_is_broken),
        CORE_TEST(what_a_question_is_refused_with),
        CORE_TEST(accepted_and_lost),
        CORE_TEST(days_pass_and_somebody_is_told),
        CORE_TEST(abnormal_and_then_done),
        CORE_TEST(failed_here_and_alive_there),
        CORE_TEST(siblings_keep_the_channels_gap),
        CORE_TEST(another_process_finds_nothing_to_do),
        CORE_TEST(one_at_a_time_without_a_gap),
        CORE_TEST(two_processes_send_the_same_refund),
        CORE_TEST(its_account_is_gone),
        CORE_TEST(the_channel_would_not_take_it),
        CORE_TEST(a_silent_channel_is_left_alone),
        CORE_TEST(money_that_was_adopted),
        CORE_TEST(open_ones_are_counted_and_keep_their_account),
        CORE_TEST(a_clock_that_steps_back_loses_no_turn),
        CORE_TEST(synced_by_hand),
    };
    return RUN_CORE_TESTS(tests);
}
