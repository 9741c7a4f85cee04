/* Asking and closing: rules.md section 4, the query and close columns of section 6, the ladder, and
 * "does not exist" of section 1. */
#include "core_world.h"

#include "core/payment/silence.h"

static enum code close_payment(struct core *w, struct number no, struct payment *ret, bool *closing)
{
    struct refusal r = { 0 };
    return payment_close(&w->c, &w->act, no, ret, closing, &r);
}

static struct payment sync_payment(struct core *w, struct number no)
{
    struct payment p;
    struct refusal r = { 0 };
    assert_int_equal(payment_sync(&w->c, &w->act, no, &p, &r), CODE_OK);
    return p;
}

static int64_t incidents(struct core *w)
{
    return ASK(&w->world, "SELECT count(*) FROM incident");
}

/* ---- the query column ---- */

static void every_answer_of_a_query(void **state)
{
    struct core *w = *state;
    static const struct {
        const char *what;
        enum channel_outcome outcome;
        enum channel_class class;
        enum fact_kind fact;
        bool not_exist;
        enum payment_status to; /* from PAYING, before expiry */
        bool incident;
    } rows[] = {
        { "paid", CHANNEL_DONE, CLASS_NONE, FACT_PAID, false, PAYMENT_SUCCESS, false },
        { "not paid", CHANNEL_DONE, CLASS_NONE, FACT_ACCEPTED, false, PAYMENT_PAYING, false },
        { "user paying", CHANNEL_DONE, CLASS_NONE, FACT_NOTHING, false, PAYMENT_PAYING, false },
        { "shut", CHANNEL_DONE, CLASS_NONE, FACT_SHUT, false, PAYMENT_CLOSED, false },
        { "failed", CHANNEL_DONE, CLASS_NONE, FACT_PAY_FAILED, false, PAYMENT_FAILED, false },
        { "busy", CHANNEL_REFUSED, CLASS_RETRY, 0, false, PAYMENT_PAYING, false },
        { "nonsense", CHANNEL_REFUSED, CLASS_QUERY, 0, false, PAYMENT_PAYING, false },
        { "final", CHANNEL_REFUSED, CLASS_FINAL, 0, false, PAYMENT_PAYING, false },
        { "not exist", CHANNEL_REFUSED, CLASS_FINAL, 0, true, PAYMENT_PAYING, false },
        { "account", CHANNEL_REFUSED, CLASS_ACCOUNT, 0, false, PAYMENT_PAYING, false },
        { "person", CHANNEL_REFUSED, CLASS_PERSON, 0, false, PAYMENT_PAYING, true },
        { "unknown", CHANNEL_UNKNOWN, CLASS_NONE, 0, false, PAYMENT_PAYING, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct number no = core_order(w, str_printf(w->world.arena, "o%zu", i).p, 8800).no;
        struct payment p = core_pay(w, no);
        int64_t before = incidents(w);
        struct reply *r = expect(&w->query, rows[i].outcome, rows[i].class);
        r->answer.not_exist = rows[i].not_exist;
        if (rows[i].outcome == CHANNEL_DONE) {
            r->answer.facts[0] = fact_of(w, rows[i].fact, 8800, rows[i].what);
            r->answer.fact_count = 1;
        }
        p = sync_payment(w, p.no);
        check_row(p.status == rows[i].to, rows[i].what);
        check_row(incidents(w) == before + rows[i].incident, rows[i].what);
        check_row(p.unknown_calls == 0, rows[i].what); /* only prepay calls count */
        check_row(rows[i].to < PAYMENT_SUCCESS || p.evidence_kind == EVIDENCE_QUERY, rows[i].what);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM channel_call WHERE kind = 2"),
                     COUNT(rows));
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_RISK_HELD);
}

/* "REFUND" at WeChat: paid, and a fact about a refund that is not this module's. */
static void paid_and_refunded(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    struct reply *r = expect_fact(w, FACT_PAID, 8800, "T1");
    r->answer.facts[1] = fact_of(w, FACT_REFUND_DONE, 8800, "T1");
    r->answer.fact_count = 2;
    assert_int_equal(sync_payment(w, p.no).status, PAYMENT_SUCCESS);
}

static void a_fact_about_another_number(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    struct reply *r = expect_fact(w, FACT_PAID, 8800, "T1");
    r->answer.facts[0].pay_no = STR("P2026010100000000000000AB");
    assert_int_equal(sync_payment(w, p.no).status, PAYMENT_PAYING);
}

static void a_query_with_another_amount(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    expect_fact(w, FACT_PAID, 8700, "T1");
    p = sync_payment(w, p.no);
    assert_true(p.quarantined);
}

/* ---- the close column ---- */

static void every_answer_of_a_close(void **state)
{
    struct core *w = *state;
    static const struct {
        const char *what;
        enum channel_outcome outcome;
        enum channel_class class;
        enum fact_kind then; /* of the query that follows, FACT_NOTHING: none is expected */
        enum payment_status to;
        bool incident;
    } rows[] = {
        { "done", CHANNEL_DONE, CLASS_NONE, FACT_NOTHING, PAYMENT_CLOSED, false },
        { "busy", CHANNEL_REFUSED, CLASS_RETRY, FACT_NOTHING, PAYMENT_PAYING, false },
        { "already paid", CHANNEL_REFUSED, CLASS_QUERY, FACT_PAID, PAYMENT_SUCCESS, false },
        { "differs", CHANNEL_REFUSED, CLASS_QUERY, FACT_SHUT, PAYMENT_CLOSED, false },
        { "final, paid", CHANNEL_REFUSED, CLASS_FINAL, FACT_PAID, PAYMENT_SUCCESS, false },
        { "final, open", CHANNEL_REFUSED, CLASS_FINAL, FACT_ACCEPTED, PAYMENT_PAYING, false },
        { "account", CHANNEL_REFUSED, CLASS_ACCOUNT, FACT_NOTHING, PAYMENT_PAYING, false },
        { "person", CHANNEL_REFUSED, CLASS_PERSON, FACT_NOTHING, PAYMENT_PAYING, true },
        { "unknown, shut", CHANNEL_UNKNOWN, CLASS_NONE, FACT_SHUT, PAYMENT_CLOSED, false },
        { "unknown, paid", CHANNEL_UNKNOWN, CLASS_NONE, FACT_PAID, PAYMENT_SUCCESS, false },
        { "unknown, open", CHANNEL_UNKNOWN, CLASS_NONE, FACT_ACCEPTED, PAYMENT_PAYING, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct number no = core_order(w, str_printf(w->world.arena, "o%zu", i).p, 8800).no;
        struct payment p = core_pay(w, no);
        int64_t before = incidents(w);
        int queries = w->query.calls;
        bool closing = false;
        expect(&w->close, rows[i].outcome, rows[i].class);
        expect_fact(w, FACT_ACCEPTED, 0, NULL);
        if (rows[i].then != FACT_NOTHING)
            expect_fact(w, rows[i].then, 8800, rows[i].what);
        enum code code = close_payment(w, p.no, &p, &closing);
        check_row(code == (rows[i].to == PAYMENT_SUCCESS ? CODE_PAYMENT_STATE : CODE_OK),
                  rows[i].what);
        p = core_get(w, p.no);
        check_row(p.status == rows[i].to, rows[i].what);
        check_row(closing == (rows[i].to == PAYMENT_PAYING), rows[i].what);
        check_row(w->query.calls == queries + 1 + (rows[i].then != FACT_NOTHING), rows[i].what);
        check_row(incidents(w) == before + rows[i].incident, rows[i].what);
        check_row(p.close_requested == CLOSE_CALLER && p.call_owner == 0, rows[i].what);
    }
}

static void the_first_query_decides(void **state)
{
    struct core *w = *state;
    static const struct {
        enum channel_outcome outcome;
        enum channel_class class;
        bool not_exist;
        int closes;
    } rows[] = {
        { CHANNEL_UNKNOWN, CLASS_NONE, false, 0 },
        { CHANNEL_REFUSED, CLASS_RETRY, false, 0 },
        { CHANNEL_REFUSED, CLASS_ACCOUNT, false, 0 },
        { CHANNEL_REFUSED, CLASS_FINAL, true, 1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct payment p =
            core_pay(w, core_order(w, str_printf(w->world.arena, "o%zu", i).p, 8800).no);
        bool closing;
        w->close.calls = 0;
        expect(&w->query, rows[i].outcome, rows[i].class)->answer.not_exist = rows[i].not_exist;
        assert_int_equal(close_payment(w, p.no, &p, &closing), CODE_OK);
        assert_int_equal(w->close.calls, rows[i].closes);
        assert_int_equal(closing, rows[i].closes == 0);
    }
}

static void close_by_status(void **state)
{
    struct core *w = *state;
    static const struct {
        enum fact_kind fact;
        enum code code;
    } rows[] = { { FACT_ACCEPTED, CODE_OK },
                 { FACT_PAID, CODE_PAYMENT_STATE },
                 { FACT_PAY_FAILED, CODE_OK },
                 { FACT_SHUT, CODE_OK } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct payment p =
            core_pay(w, core_order(w, str_printf(w->world.arena, "o%zu", i).p, 8800).no);
        bool closing = true;
        core_state(w, p.no, fact_of(w, rows[i].fact, 8800, "T"));
        int calls = w->query.calls;
        assert_int_equal(close_payment(w, p.no, &p, &closing), rows[i].code);
        assert_int_equal(w->query.calls, calls + (rows[i].fact == FACT_ACCEPTED));
        if (!rows[i].code)
            assert_false(closing);
    }
}

static void a_close_after_a_crash(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment p = core_pay(w, no);
    bool closing;
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    close_payment(w, p.no, &p, &closing);
    assert_true(closing);
    assert_int_equal(core_due(w), 1); /* its own due row: the job goes on with it */
    assert_int_equal(core_get(w, p.no).status, PAYMENT_CLOSED);
}

/* Accepted after it was closed: it may be payable at the channel, so it is closed there, too. */
static void ended_here_alive_there(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    core_state(w, p.no, fact_of(w, FACT_SHUT, 0, NULL));
    assert_int_equal(core_state(w, p.no, fact_of(w, FACT_ACCEPTED, 0, NULL)).move,
                     PAYMENT_CLOSE_WANTED);
    expect(&w->close, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w);
    assert_int_equal(w->close.calls, 1);
    assert_int_equal(core_get(w, p.no).close_requested, CLOSE_TERMINAL);
    core_advance(w, 60000);
    core_due(w);
    assert_int_equal(w->close.calls, 2);
    assert_int_equal(core_get(w, p.no).close_requested, CLOSE_NO); /* done with */
    assert_int_equal(core_get(w, p.no).status, PAYMENT_CLOSED);
    core_advance(w, 7200 * 1000);
    core_due(w);
    assert_int_equal(w->close.calls, 2);
}

/* ---- "does not exist" ---- */

static void not_exist_closes_only_when_it_cannot_come_any_more(void **state)
{
    (void)state;
    static const struct {
        int64_t after_expiry_ms;
        bool lease; /* somebody is calling */
        enum payment_status to;
    } rows[] = {
        { -1, false, PAYMENT_INIT },    { 0, false, PAYMENT_INIT },
        { 60000, false, PAYMENT_INIT }, { 60001, false, PAYMENT_CLOSED },
        { 60001, true, PAYMENT_INIT },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct core w;
        core_open(&w);
        struct payment_new n = payment_input(core_order(&w, "o1", 8800).no);
        expect(&w.prepay, CHANNEL_UNKNOWN, CLASS_NONE);
        struct payment p = core_start(&w, &n).p;
        if (rows[i].lease) {
            w.c.settings.call_lease_ms = 3600 * 1000;
            struct call k;
            struct refusal r = { 0 };
            bool taken;
            call_begin(&k, &w.c, &p, w.world.arena, STR("test"), STR(""), STORE_API);
            assert_int_equal(call_lease(&k, LEASE_PREPAY, 3600 * 1000, &taken, &r), CODE_OK);
            assert_true(taken);
            call_end(&k);
        }
        core_advance(&w, p.expire_ms + rows[i].after_expiry_ms - WORLD_NOW_MS);
        expect_not_exist(&w);
        p = sync_payment(&w, p.no);
        assert_int_equal(p.status, rows[i].to);
        if (p.status == PAYMENT_CLOSED)
            assert_int_equal(p.evidence_kind, EVIDENCE_NOT_EXIST);
        core_check(&w);
    }
}

/* Asked before the margin was over, answered after it: what it says was true too early. */
static void time_passes(struct core *w)
{
    core_advance(w, 2000);
}

static void asked_too_early(void **state)
{
    struct core *w = *state;
    struct payment_new n = payment_input(core_order(w, "o1", 8800).no);
    expect(&w->prepay, CHANNEL_UNKNOWN, CLASS_NONE);
    struct payment p = core_start(w, &n).p;
    core_advance(w, p.expire_ms + 59000 - WORLD_NOW_MS);
    expect_not_exist(w)->meanwhile = time_passes;
    assert_int_equal(sync_payment(w, p.no).status, PAYMENT_INIT);
}

/* ---- a channel that cannot close ---- */

static void a_channel_that_cannot_close(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "store");
    struct payment_new n = payment_input(core_order(w, "o1", 8800).no);
    n.channel = CHANNEL_APPLE;
    struct payment p = core_start(w, &n).p;
    bool closing = false;
    assert_int_equal(close_payment(w, p.no, &p, &closing), CODE_OK);
    assert_true(closing);
    assert_int_equal(w->close.calls, 0);
    core_advance(w, 15 * 60000);
    core_due(w);
    p = core_get(w, p.no);
    assert_int_equal(p.status, PAYMENT_CLOSED);
    assert_int_equal(p.evidence_kind, EVIDENCE_EXPIRY);
    assert_int_equal(core_paid(w, p.no, 8800, "T1"), PAYMENT_MOVED); /* late success as always */
}

/* ---- the ladder ---- */

static void the_ladder(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    static const int64_t at_s[] = { 30, 90, 210, 450, 885 }; /* …, and 15 s before its end */
    int64_t now = 0;
    for (size_t i = 0; i < COUNT(at_s); i++) {
        core_advance(w, at_s[i] * 1000 - now - 1);
        assert_int_equal(core_due(w), 0);
        core_advance(w, 1);
        assert_int_equal(core_due(w), 1);
        now = at_s[i] * 1000;
        assert_int_equal(w->query.calls, i + 1);
        assert_int_equal(core_due(w), 0);
    }
    core_advance(w, 900 * 1000 - now); /* its end: closed at the channel */
    assert_int_equal(core_due(w), 1);
    assert_int_equal(core_get(w, p.no).status, PAYMENT_CLOSED);
    assert_int_equal(core_get(w, p.no).close_requested, CLOSE_EXPIRY);
    assert_int_equal(core_get(w, p.no).evidence_kind, EVIDENCE_ANSWER);
}

static void clock_steps_back(struct core *w)
{
    core_advance(w, -5000);
}

/* Between reading what is due and doing it: the second one is not due any more, and must come
 * again.
 */
static void the_clock_steps_back(void **state)
{
    struct core *w = *state;
    core_pay(w, core_order(w, "o1", 8800).no);
    core_pay(w, core_order(w, "o2", 8800).no);
    core_advance(w, 30000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE)->meanwhile = clock_steps_back;
    assert_int_equal(core_due(w), 2);
    assert_int_equal(ASK(&w->world, "SELECT count(DISTINCT id) FROM payment_due"), 2);
    core_advance(w, 5000);
    assert_int_equal(core_due(w), 1);
}

static void the_rungs(void **state)
{
    (void)state;
    static const int64_t rungs_s[] = { 30, 60, 120, 240, 480, 960, 3600, 3600 };
    for (size_t i = 0; i < COUNT(rungs_s); i++)
        assert_int_equal(payment_next_query(1000, (int64_t)i, 1), 1000 + rungs_s[i] * 1000);
    assert_int_equal(payment_next_query(0, 0, 20000), 5000);     /* just before */
    assert_int_equal(payment_next_query(5000, 1, 20000), 20000); /* at its end */
    assert_int_equal(payment_next_query(20000, 2, 20000), 140000);
}

static void nobody_answers(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    core_advance(w, 15 * 60000 + 30 * 60000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w);
    assert_int_equal(incidents(w), 0);
    core_advance(w, 3600 * 1000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w);
    assert_int_equal(incidents(w), 1);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_QUERY_STUCK);
    assert_int_equal(core_get(w, p.no).status, PAYMENT_PAYING); /* no timer makes it final */
    core_advance(w, 3600 * 1000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    assert_int_equal(core_due(w), 1); /* and still asked, hourly */
    assert_int_equal(incidents(w), 1);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_QUERY_STUCK);
}

/* The account was taken out of the configuration by force: nothing crashes, nothing is decided. */
static void the_account_is_gone(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    registry_free(w->c.registry);
    w->c.registry = registry_new();
    core_advance(w, 30000);
    assert_int_equal(core_due(w), 1);
    core_advance(w, 3600 * 1000);
    core_due(w);
    p = core_get(w, p.no);
    assert_int_equal(p.status, PAYMENT_PAYING);
    assert_false(client_given(w, &p));
}

static void the_job_settles_what_nobody_settled(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment p = core_pay(w, no);
    core_paid(w, p.no, 8800, "T1");
    core_advance(w, 30000);
    assert_int_equal(core_due(w), 1);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_due"), 0);
}

/* Newest first, every fourth place the oldest's, and everybody once. */
static void who_is_asked_first(void **state)
{
    struct core *w = *state;
    for (int i = 0; i < 8; i++) {
        core_pay(w, core_order(w, str_printf(w->world.arena, "o%d", i).p, 100 + i).no);
        core_advance(w, 1000);
    }
    core_advance(w, 60000);
    struct err_info info = { 0 };
    size_t done;
    assert_ok(payment_due_turn(&w->c, 4, &done, &info));
    assert_int_equal(done, 4);
    SQL(asked, "SELECT sum(CASE WHEN query_count = 1 THEN 1 << (amount - 100) ELSE 0 END) FROM "
               "payment_order");
    assert_int_equal(world_ask(&w->world, &asked), 0xe1); /* 7, 6, 5 and 0 */
    assert_ok(payment_due_turn(&w->c, 100, &done, &info));
    assert_int_equal(done, 4);
    assert_int_equal(world_ask(&w->world, &asked), 0xff);
}

/* One account's channel is dead: three calls find it out, its other rows wait a minute on their
 * rung, and the other account's are all asked. */
static void a_dead_channel_holds_nobody_back(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "store");
    for (int i = 0; i < 16; i++) {
        struct payment_new n =
            payment_input(core_order(w, str_printf(w->world.arena, "o%d", i).p, 100 + i).no);
        n.channel = i % 4 == 3 ? CHANNEL_APPLE : CHANNEL_WECHAT;
        assert_int_equal(core_start(w, &n).code, CODE_OK);
    }
    w->silent_account = STR("main");
    core_advance(w, 31000);
    assert_int_equal(core_due(w), 16);
    assert_int_equal(w->silent_queries, SILENCE_CALLS);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE query_count = 1 AND "
                                    "account = 'store'"),
                     4);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE query_count = 1"), 7);
    assert_int_equal(core_due(w), 0);

    core_advance(w, 60000); /* alive again: those that waited are asked, with the others' rungs */
    w->silent_account = STR_NONE;
    assert_int_equal(core_due(w), 16);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE query_count = 1"), 9);
}

static void what_is_silence(void **state)
{
    (void)state;
    static const struct {
        struct channel_answer answer;
        bool silent;
    } cases[] = {
        { { .outcome = CHANNEL_UNKNOWN }, true },
        { { .outcome = CHANNEL_UNKNOWN, .http_status = 502 }, true },
        { { .outcome = CHANNEL_UNKNOWN, .http_status = 200 }, false },
        { { .outcome = CHANNEL_REFUSED, .class = CLASS_RETRY }, true },
        { { .outcome = CHANNEL_REFUSED, .class = CLASS_RETRY, .http_status = 429 }, true },
        { { .outcome = CHANNEL_REFUSED, .class = CLASS_RETRY, .http_status = 400 }, false },
        { { .outcome = CHANNEL_REFUSED, .class = CLASS_ACCOUNT }, false },
        { { .outcome = CHANNEL_DONE, .http_status = 200 }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct silences s = { 0 };
        const struct channel_answer none = { .outcome = CHANNEL_UNKNOWN };
        for (int k = 1; k < SILENCE_CALLS; k++)
            silence_note(&s, STR("main"), &none);
        silence_note(&s, STR("other"), &none);
        silence_note(&s, STR("main"), &cases[i].answer);
        assert_int_equal(silence_of(&s, STR("main")), cases[i].silent);
        assert_false(silence_of(&s, STR("other")));
    }
}

/* Closes wait for the same silence; the channel's next word ends it. */
static void a_dead_channel_holds_no_close_back(void **state)
{
    struct core *w = *state;
    for (int i = 0; i < 6; i++)
        core_pay(w, core_order(w, str_printf(w->world.arena, "o%d", i).p, 100 + i).no);
    w->silent_account = STR("main");
    core_advance(w, 16 * 60000); /* past expiry: every row asks for its close */
    assert_int_equal(core_due(w), 6);
    assert_int_equal(w->silent_queries, SILENCE_CALLS);
    core_advance(w, 60000);
    w->silent_account = STR_NONE;
    assert_int_equal(core_due(w), 6);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE status = 4"), 6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(a_dead_channel_holds_nobody_back),
        CORE_TEST(a_dead_channel_holds_no_close_back),
        cmocka_unit_test(what_is_silence),
        CORE_TEST(every_answer_of_a_query),
        CORE_TEST(paid_and_refunded),
        CORE_TEST(a_fact_about_another_number),
        CORE_TEST(a_query_with_another_amount),
        CORE_TEST(every_answer_of_a_close),
        CORE_TEST(the_first_query_decides),
        CORE_TEST(close_by_status),
        CORE_TEST(a_close_after_a_crash),
        CORE_TEST(ended_here_alive_there),
        cmocka_unit_test(not_exist_closes_only_when_it_cannot_come_any_more),
        CORE_TEST(asked_too_early),
        CORE_TEST(a_channel_that_cannot_close),
        CORE_TEST(the_ladder),
        CORE_TEST(the_clock_steps_back),
        cmocka_unit_test(the_rungs),
        CORE_TEST(nobody_answers),
        CORE_TEST(the_account_is_gone),
        CORE_TEST(the_job_settles_what_nobody_settled),
        CORE_TEST(who_is_asked_first),
    };
    return RUN_CORE_TESTS(tests);
}
