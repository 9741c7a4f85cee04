/* Callbacks: one delivery, redeliveries, what does not fit, what our own rule cannot do, and the
 * retries (rules.md section 7). */
#include "../flow_world.h"

#include "bus/event.h"
#include "core/incident/incident.h"

static void a_payment_is_paid(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct callback_input in =
        flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));

    assert_int_equal(in.result, HANDLE_DONE);
    assert_false(in.repeated);
    struct payment p = flow_payment(f, at.pay_no);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_str(p.transaction_id, "T1");
    assert_int_equal(p.evidence_kind, EVIDENCE_CALLBACK);
    assert_int_equal(p.evidence_ref, ASK(&f->w, "SELECT id FROM callback_log"));
    assert_int_equal(ASK(&f->w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);
    assert_int_equal(ASK(&f->w, "SELECT type FROM outbox"), EVENT_PAYMENT_SUCCESS);
    assert_int_equal(ASK(&f->w, "SELECT length(body) FROM callback_log"), (int64_t)in.body.n);
    assert_int_equal(ASK(&f->w, "SELECT subject_id FROM callback_log"), at.pay_no.id);
}

static void delivered_three_times(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct str text = notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800);
    for (int i = 0; i < 3; i++) {
        struct callback_input in = flow_callback(f, f->account, text);
        assert_int_equal(in.result, HANDLE_DONE);
        assert_int_equal(in.duplicate, i > 0);
    }
    assert_int_equal(ASK(&f->w, "SELECT callback_count FROM callback_log"), 3);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM outbox"), 1);
    assert_int_equal(flow_payment(f, at.pay_no).version, 2);
}

/* A second notice about the same thing under another key: nothing moves, and that is an answer,
 * too. */
static void nothing_to_do_is_done(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    struct str hello = notice_text(f->w.arena, "ok", "HELLO", at.pay_no, "T1", 8800);
    struct callback_input in = flow_callback(f, f->account, hello);
    assert_int_equal(in.result, HANDLE_NOTHING);
    in = flow_callback(f, f->account, hello);
    assert_int_equal(in.result, HANDLE_NOTHING);
    assert_true(in.duplicate);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);
}

static void an_unknown_number_waits(void **state)
{
    struct flow_world *f = *state;
    struct number nobody = number_make(NUMBER_PAYMENT, 9, number_first_id(WORLD_NOW_MS));
    struct str text = notice_text(f->w.arena, "ok", "PAID", nobody, "T1", 8800);
    struct callback_input in = flow_callback(f, f->account, text);
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_str(in.reason, "no such payment");
    assert_int_equal(ASK(&f->w, "SELECT due FROM callback_due"), WORLD_NOW_MS + 300000);

    in = flow_callback(f, f->account, text); /* again: handled again, one retry all the same */
    assert_true(in.repeated);
    assert_false(in.duplicate);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 1);
    assert_int_equal(ASK(&f->w, "SELECT callback_count FROM callback_log"), 2);
}

/* Numbers that are none of ours get a stand-in; the right id under another slot or date is unknown,
 * too. */
static void strange_numbers(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct number forged = at.pay_no;
    forged.slot ^= 1;
    struct str texts[] = {
        STR("ok\nPAID|ORDER-77|T1|8800|"),
        STR("ok\nPAID||T2|8800|"),
        notice_text(f->w.arena, "ok", "PAID", at.order_no, "T3",
                    8800), /* an order's number is no payment's */
        notice_text(f->w.arena, "ok", "PAID", forged, "T4", 8800),
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct callback_input in = flow_callback(f, f->account, texts[i]);
        assert_int_equal(in.result, HANDLE_FAILED);
        assert_true(in.subject.id > 0);
    }
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_log"), COUNT(texts));
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_PAYING);
}

static void another_amount_is_quarantined(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct callback_input in =
        flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8700));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_true(flow_payment(f, at.pay_no).quarantined);
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident"), INCIDENT_AMOUNT_MISMATCH);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_log WHERE handle_result = 1"), 1);
}

/* Money named by another of our accounts is held; anything else from there moves nothing and is
 * taken up again. */
static void another_account(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1"), two = flow_attempt(f, "A2");
    struct callback_input in =
        flow_callback(f, f->other, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_true(flow_payment(f, at.pay_no).quarantined);

    in = flow_callback(f, f->other, notice_text(f->w.arena, "ok", "SHUT", two.pay_no, "", 8800));
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_int_equal(flow_payment(f, two.pay_no).status, PAYMENT_PAYING);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 1);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM incident WHERE kind = 4"), 2);
}

static void two_transactions_clash(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1"), two = flow_attempt(f, "A2");
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    struct callback_input in =
        flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T2", 8800));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_str(flow_payment(f, at.pay_no).transaction_id, "T1");
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident"), INCIDENT_TRANSACTION_CLASH);

    /* One transaction for two payments: the second one is held. */
    in =
        flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", two.pay_no, "T1", 8800));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_true(flow_payment(f, two.pay_no).quarantined);
}

static void a_success_is_contradicted(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    struct callback_input in =
        flow_callback(f, f->account, notice_text(f->w.arena, "ok", "SHUT", at.pay_no, "", 8800));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident"), INCIDENT_STATUS_CONFLICT);
}

/* A COMMIT whose answer got lost: the store runs the same rule with the same ids again. */
static void the_same_rule_twice(void **state)
{
    struct flow_world *f = *state;
    static const char *const words[] = { "PAID", "SHUT", "REFUND" };
    for (size_t i = 0; i < COUNT(words); i++) {
        struct attempt at = flow_attempt(f, words[i]);
        struct callback_input in = flow_input(
            f, f->account, notice_text(f->w.arena, "ok", words[i], at.pay_no, words[i], 8800));
        struct store_job job;
        enum handle_result first;
        store_job_init(&job, f->w.env, f->w.mint, CALLBACK_IDS);
        job.name = "callback";
        job.rule = callback_rule;
        job.arg = &in;
        assert_int_equal(store_run(f->w.store, &job, NULL), STORE_COMMITTED);
        first = in.result;
        env_test_advance(&f->w.test, 1000);
        assert_int_equal(store_run(f->w.store, &job, NULL), STORE_COMMITTED);
        assert_int_equal(in.result, first);
        assert_false(in.duplicate || in.repeated);
    }
    assert_int_equal(ASK(&f->w, "SELECT sum(callback_count) FROM callback_log"), COUNT(words));
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 1);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM outbox"), 2);
}

/* A refund is heard of before the payment it belongs to: kept, and taken up by the job once the
 * payment's own success is known. */
static void a_refund_waits_for_its_payment(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct callback_input in = flow_callback(
        f, f->account, notice_text(f->w.arena, "ok", "REFUND", at.pay_no, "W1", 3000));
    assert_int_equal(in.result, HANDLE_FAILED);
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    env_test_advance(&f->w.test, 300000);
    size_t done;
    struct err_info info = { .err = ERR_OK };
    assert_ok(callback_due_turn(&f->c, 100, &done, &info));
    assert_int_equal(done, 1);
    assert_int_equal(money_fen(flow_payment(f, at.pay_no).refunded), 3000);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_log WHERE handle_result = 1"), 2);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM incident"), 0);
}

/* ---- our own rule fails ---- */

static enum err broken_rule(struct tx *tx, void *arg, struct err_info *info)
{
    enum err e = callback_rule(tx, arg, info);
    return e ? e : err_internal(info, "a bug of ours");
}

static void our_bug_keeps_the_bytes(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct str text = notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800);
    struct callback_input in = flow_input(f, f->account, text);
    struct err_info info = { .err = ERR_OK };
    assert_int_equal(world_try(&f->w, broken_rule, &in, &info), STORE_REFUSED);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_log"), 0);

    in.reason = str_of(info.text);
    world_run(&f->w, callback_rule_keep_failed, &in);
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_int_equal(ASK(&f->w, "SELECT reason = 'a bug of ours' FROM callback_log"), 1);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 1);
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_PAYING);

    /* The channel delivers again after the bug is mended: handled with the new bytes; the retry
     * then finds nothing to do. */
    in = flow_callback(f, f->account, text);
    assert_int_equal(in.result, HANDLE_DONE);
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_SUCCESS);
    env_test_advance(&f->w.test, 300000);
    size_t done;
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);
    assert_int_equal(ASK(&f->w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
}

/* A row that is done stays done, whatever a broken rule says about its redelivery. */
static void keeping_does_not_undo(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct str text = notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800);
    flow_callback(f, f->account, text);
    struct callback_input in = flow_input(f, f->account, text);
    world_run(&f->w, callback_rule_keep_failed, &in);
    assert_true(in.duplicate);
    assert_int_equal(ASK(&f->w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
}

/* ---- undecryptable ---- */

static void undecryptable_is_kept_and_read_later(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    fake_channel.undecryptable = true;
    struct str text = notice_text(f->w.arena, "stale", "PAID", at.pay_no, "T1", 8800);
    struct callback_input in =
        flow_input(f, f->account, text); /* stale now: stored bytes have no window */
    in.raw_only = true;
    in.notice = (struct notice) { .event_key = STR("raw:n-1"), .transport_id = STR("n-1") };
    callback_prepare(&in, f->w.arena);
    world_run(&f->w, callback_rule, &in);
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_int_equal(ASK(&f->w, "SELECT response FROM callback_log"), ANSWER_LATER);

    size_t done;
    struct err_info info = { .err = ERR_OK };
    env_test_advance(&f->w.test, 300000);
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(done, 1);
    assert_int_equal(ASK(&f->w, "SELECT retry_count FROM callback_log"), 1);
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_PAYING);

    fake_channel.undecryptable = false; /* the key is there now */
    env_test_advance(&f->w.test, 300000);
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(ASK(&f->w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
    assert_int_equal(ASK(&f->w, "SELECT subject_id FROM callback_log"), at.pay_no.id);
}

/* Two undecryptable deliveries without an id of their own must not cover each other. */
static void undecryptable_without_id(void **state)
{
    struct flow_world *f = *state;
    for (int i = 0; i < 2; i++) {
        struct callback_input in = { .account = f->account,
                                     .body = i ? STR("one") : STR("two"),
                                     .raw_only = true,
                                     .notice = { .event_key = STR("raw:") } };
        callback_prepare(&in, f->w.arena);
        world_run(&f->w, callback_rule, &in);
    }
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_log"), 2);
}

/* ---- retries ---- */

static void ten_retries_then_stuck(void **state)
{
    struct flow_world *f = *state;
    struct number nobody = number_make(NUMBER_PAYMENT, 9, number_first_id(WORLD_NOW_MS));
    struct err_info info = { .err = ERR_OK };
    size_t done;
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", nobody, "T1", 8800));

    for (int i = 1; i <= 10; i++) {
        assert_ok(callback_due_turn(&f->c, 10, &done, &info));
        assert_int_equal(done, 0);
        env_test_advance(&f->w.test, 300000);
        assert_ok(callback_due_turn(&f->c, 10, &done, &info));
        assert_int_equal(done, 1);
        assert_int_equal(ASK(&f->w, "SELECT retry_count FROM callback_log"), i);
        assert_int_equal(fake_channel.queries, i);
        assert_int_equal(ASK(&f->w, "SELECT count(*) FROM incident"), i == 10);
    }
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident"), INCIDENT_CALLBACK_STUCK);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);
}

static void money_without_a_payment_is_an_orphan(void **state)
{
    struct flow_world *f = *state;
    struct number nobody = number_make(NUMBER_PAYMENT, 9, number_first_id(WORLD_NOW_MS));
    struct err_info info = { .err = ERR_OK };
    size_t done;
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", nobody, "T1", 8800));
    fake_channel.query_outcome = CHANNEL_DONE;
    fake_channel.query_fact_count = 1;
    fake_channel.query_facts[0] =
        (struct fact) { .kind = FACT_PAID, .transaction_id = STR("T1"), .ours = true };
    assert_ok(money_of(8800, STR("CNY"), &fake_channel.query_facts[0].amount));

    env_test_advance(&f->w.test, 300000);
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident"), INCIDENT_ORPHAN_PAYMENT);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM channel_call c JOIN callback_log l ON "
                                "c.subject_id = l.id WHERE c.kind = 2 AND c.outcome = 0 AND "
                                "c.account = 'fake' AND c.trace_id = l.trace_id"),
                     1);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);
    env_test_advance(&f->w.test, 3000000);
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(done, 0);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM incident"), 1);
}

/* Whatever the channel says, that it was asked stands in a row. */
static void an_answer_that_says_nothing_is_kept_too(void **state)
{
    struct flow_world *f = *state;
    struct number nobody = number_make(NUMBER_PAYMENT, 9, number_first_id(WORLD_NOW_MS));
    struct err_info info = { .err = ERR_OK };
    size_t done;
    flow_callback(f, f->account, notice_text(f->w.arena, "ok", "PAID", nobody, "T1", 8800));
    for (int i = 1; i <= 3; i++) {
        env_test_advance(&f->w.test, 300000);
        assert_ok(callback_due_turn(&f->c, 10, &done, &info));
        assert_int_equal(fake_channel.queries, i);
        assert_int_equal(ASK(&f->w, "SELECT count(*) FROM channel_call WHERE outcome = 2"), i);
    }
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM incident"), 0);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 1);
}

static void by_hand(void **state)
{
    struct flow_world *f = *state;
    struct attempt at = flow_attempt(f, "A1");
    struct callback_input in =
        flow_input(f, f->account, notice_text(f->w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    world_run(&f->w, callback_rule_keep_failed, &in);
    int64_t id = ASK(&f->w, "SELECT id FROM callback_log");
    struct act act = { .actor = STR("operator:li"), .arena = f->w.arena };
    struct refusal refusal;
    enum handle_result result;

    assert_int_equal(callback_replay(&f->c, &act, id, &result, &refusal), CODE_OK);
    assert_int_equal(result, HANDLE_DONE);
    assert_int_equal(flow_payment(f, at.pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_due"), 0);

    assert_int_equal(callback_replay(&f->c, &act, id, &result, &refusal), CODE_OK);
    assert_int_equal(result, HANDLE_NOTHING);
    assert_int_equal(ASK(&f->w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
    assert_int_equal(callback_replay(&f->c, &act, 5, &result, &refusal), CODE_NOT_FOUND);
}

/* ---- rejected samples ---- */

static enum err sample_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return callback_reject_insert(tx, arg, 3, info);
}

static void samples_are_capped(void **state)
{
    struct flow_world *f = *state;
    for (int i = 0; i < 7; i++) {
        struct reject_sample s = { .account = STR("fake"),
                                   .detail = STR("x"),
                                   .reason = NOTICE_REASON_SIGNATURE,
                                   .time_ms = WORLD_NOW_MS + i };
        world_run(&f->w, sample_rule, &s);
    }
    assert_int_equal(ASK(&f->w, "SELECT count(*) FROM callback_reject"), 3);
    assert_int_equal(ASK(&f->w, "SELECT min(create_time) FROM callback_reject"), WORLD_NOW_MS + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLOW_TEST(a_payment_is_paid),
        FLOW_TEST(delivered_three_times),
        FLOW_TEST(nothing_to_do_is_done),
        FLOW_TEST(an_unknown_number_waits),
        FLOW_TEST(strange_numbers),
        FLOW_TEST(another_amount_is_quarantined),
        FLOW_TEST(another_account),
        FLOW_TEST(two_transactions_clash),
        FLOW_TEST(a_success_is_contradicted),
        FLOW_TEST(the_same_rule_twice),
        FLOW_TEST(a_refund_waits_for_its_payment),
        FLOW_TEST(our_bug_keeps_the_bytes),
        FLOW_TEST(keeping_does_not_undo),
        FLOW_TEST(undecryptable_is_kept_and_read_later),
        FLOW_TEST(undecryptable_without_id),
        FLOW_TEST(ten_retries_then_stuck),
        FLOW_TEST(money_without_a_payment_is_an_orphan),
        FLOW_TEST(an_answer_that_says_nothing_is_kept_too),
        FLOW_TEST(by_hand),
        FLOW_TEST(samples_are_capped),
    };
    return RUN_TESTS(tests);
}
