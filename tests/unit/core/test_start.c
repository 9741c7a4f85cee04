/* Starting to pay: rules.md section 3, and the prepay column of section 6. */
#include "core_world.h"

static void stored_and_sent(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_STARTED);
    assert_int_equal(s.p.status, PAYMENT_PAYING);
    assert_int_equal(order_status_of(w, no), ORDER_PAYING);
    assert_int_equal(s.p.expire_ms, WORLD_NOW_MS + 15 * 60000);
    assert_int_equal(s.p.call_owner, 0);
    assert_int_equal(s.p.calls, 1);
    assert_true(client_given(w, &s.p));
    struct number_text no_text = number_text(s.p.no);
    struct str expected =
        str_printf(w->world.arena, "%s 8800 %lld", no_text.s, (long long)s.p.expire_ms);
    assert_str(w->sent[0], expected.p);
    assert_int_equal(
        ASK(&w->world, "SELECT count(*) FROM channel_call WHERE kind = 1 AND outcome = 0"), 1);
    assert_int_equal(
        ASK(&w->world, "SELECT evidence_ref = (SELECT id FROM channel_call) FROM payment_order"),
        1);
    assert_int_equal(ASK(&w->world, "SELECT due FROM payment_due"), WORLD_NOW_MS + 30000);
}

static void post_again_is_the_same(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment first = core_pay(w, no);
    struct payment_new n = payment_input(no);
    struct started s = core_start(w, &n);
    assert_int_equal(s.how, PAYMENT_SAME);
    assert_int_equal(s.p.no.id, first.no.id);
    assert_int_equal(w->prepay.calls, 1);
    n.request_id = STR("r2"); /* another request for the same thing */
    s = core_start(w, &n);
    assert_int_equal(s.how, PAYMENT_SAME);
    assert_int_equal(s.p.no.id, first.no.id);
}

static void credentials_over_are_made_again(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct reply *r = expect(&w->prepay, CHANNEL_DONE, CLASS_NONE);
    r->answer.credentials = STR("{\"code_url\":\"one\"}");
    r->answer.credential_expire_ms = WORLD_NOW_MS + 60000;
    struct payment p = core_pay(w, no);
    core_advance(w, 60000);
    assert_false(client_given(w, &p));
    r = expect(&w->prepay, CHANNEL_DONE, CLASS_NONE);
    r->answer.credentials = STR("{\"code_url\":\"two\"}");
    struct payment_new n = payment_input(no);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.p.no.id, p.no.id);
    assert_str(s.p.credentials, "{\"code_url\":\"two\"}");
    assert_true(str_eq(w->sent[0], w->sent[1])); /* byte for byte, a minute later */
    assert_true(client_given(w, &s.p));
}

/* ---- the answers of prepay ---- */

static void nothing_happened_three_times(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    for (int i = 0; i < 3; i++)
        expect(&w->prepay, CHANNEL_REFUSED, CLASS_RETRY);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_CHANNEL_BUSY);
    assert_true(s.refusal.retry_after_s > 0);
    assert_int_equal(w->prepay.calls, 3);
    assert_true(str_eq(w->sent[0], w->sent[1]) && str_eq(w->sent[1], w->sent[2]));
    assert_int_equal(ASK(&w->world, "SELECT status FROM payment_order"), PAYMENT_INIT);
    assert_int_equal(ASK(&w->world, "SELECT unknown_calls FROM payment_order"), 0);
    assert_int_equal(ASK(&w->world, "SELECT call_owner FROM payment_order"), 0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM channel_call"), 3);

    s = core_start(w, &n); /* the client comes back */
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.p.status, PAYMENT_PAYING);
    assert_true(str_eq(w->sent[0], w->sent[3]));
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order"), 1);
}

static void nothing_happened_once(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_RETRY);
    struct payment p = core_pay(w, no);
    assert_int_equal(p.status, PAYMENT_PAYING);
    assert_int_equal(w->prepay.calls, 2);
    assert_int_equal(p.calls, 2);
}

static void unknown_waits_for_the_ladder(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    struct reply *r = expect(&w->prepay, CHANNEL_UNKNOWN, CLASS_NONE);
    r->answer.unknown_key = true;
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_WAITING);
    assert_int_equal(s.p.status, PAYMENT_INIT);
    assert_int_equal(s.p.unknown_calls, 1);
    assert_int_equal(w->keys_wanted, 1);
    assert_false(client_given(w, &s.p));

    core_advance(w, 30000);
    expect_fact(w, FACT_PAID, 8800, "T1"); /* it had arrived after all */
    assert_int_equal(core_due(w), 1);
    assert_int_equal(core_get(w, s.p.no).status, PAYMENT_SUCCESS);
}

static void unknown_then_the_client_comes_back(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    expect(&w->prepay, CHANNEL_UNKNOWN, CLASS_NONE);
    struct payment p = core_start(w, &n).p;
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.p.no.id, p.no.id);
    assert_int_equal(s.p.status, PAYMENT_PAYING);
    assert_true(str_eq(w->sent[0], w->sent[1]));
    assert_true(client_given(w, &s.p));
}

static void refused_for_good(void **state)
{
    (void)state;
    static const enum channel_class classes[] = { CLASS_FINAL, CLASS_PERSON };
    for (size_t i = 0; i < COUNT(classes); i++) {
        struct core w;
        core_open(&w);
        struct number no = core_order(&w, "o1", 8800).no;
        struct payment_new n = payment_input(no);
        struct reply *r = expect(&w.prepay, CHANNEL_REFUSED, classes[i]);
        r->answer.code = STR("PARAM_ERROR");
        r->answer.message = STR("no");
        struct started s = core_start(&w, &n);
        assert_int_equal(s.code, CODE_CHANNEL_REFUSED);
        assert_str(s.refusal.channel_code, "PARAM_ERROR");
        assert_str(s.refusal.channel_class, i ? "person" : "final");
        assert_int_equal(ASK(&w.world, "SELECT status FROM payment_order"), PAYMENT_FAILED);
        assert_int_equal(ASK(&w.world, "SELECT evidence_kind FROM payment_order"),
                         EVIDENCE_REFUSAL);
        assert_int_equal(ASK(&w.world, "SELECT count(*) FROM outbox WHERE type = 2"), 1);
        core_ended(&w, no);
        assert_int_equal(order_status_of(&w, no), ORDER_PAY_FAILED);
        assert_int_equal(core_start(&w, &n).code, CODE_OK); /* and once more, another attempt */
        assert_int_equal(ASK(&w.world, "SELECT count(*) FROM payment_order"), 2);
        core_check(&w);
    }
}

/* Refused, but an earlier call on the number was unknown: only a query can tell. */
static void refused_after_an_unknown_call(void **state)
{
    (void)state;
    static const struct {
        enum fact_kind fact;
        enum payment_status to;
        enum payment_started how;
    } rows[] = {
        { FACT_PAID, PAYMENT_SUCCESS, PAYMENT_SAME },
        { FACT_ACCEPTED, PAYMENT_PAYING, PAYMENT_WAITING },
        { FACT_SHUT, PAYMENT_CLOSED, PAYMENT_SAME },
        { FACT_PAY_FAILED, PAYMENT_FAILED, PAYMENT_SAME },
        { FACT_NOTHING, PAYMENT_INIT, PAYMENT_WAITING },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct core w;
        core_open(&w);
        struct number no = core_order(&w, "o1", 8800).no;
        struct payment_new n = payment_input(no);
        expect(&w.prepay, CHANNEL_UNKNOWN, CLASS_NONE);
        expect(&w.prepay, CHANNEL_REFUSED, i % 2 ? CLASS_FINAL : CLASS_PERSON);
        core_start(&w, &n);
        expect_fact(&w, rows[i].fact, 8800, "T1");
        struct started s = core_start(&w, &n);
        assert_int_equal(s.code, CODE_OK);
        assert_int_equal(s.how, rows[i].how);
        assert_int_equal(s.p.status, rows[i].to);
        assert_int_equal(w.query.calls, 1);
        core_check(&w);
    }
}

static void the_state_differs_so_ask(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_QUERY);
    expect_fact(w, FACT_PAID, 8800, "T1");
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.p.status, PAYMENT_SUCCESS);
    assert_false(client_given(w, &s.p));

    no = core_order(w, "o2", 8800).no;
    n = payment_input(no);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_QUERY);
    expect_not_exist(w); /* before expiry that proves nothing */
    s = core_start(w, &n);
    assert_int_equal(s.how, PAYMENT_WAITING);
    assert_int_equal(s.p.status, PAYMENT_INIT);
}

static void a_broken_account_gives_way(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_wechat, "second");
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    n.request_id = STR("r1");
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_ACCOUNT);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_STARTED);
    assert_str(s.p.account, "second");
    assert_str(s.p.request_id, "r1"); /* the request id went along */
    assert_int_equal(
        ASK(&w->world,
            "SELECT count(*) FROM payment_order WHERE superseded = 1 AND status = 0 AND live = id"),
        1);
    assert_true(registry_suspended(w->c.registry, STR("main"), WORLD_NOW_MS + 299999));
    assert_false(registry_suspended(w->c.registry, STR("main"), WORLD_NOW_MS + 300001));
    struct started again = core_start(w, &n);
    assert_int_equal(again.p.no.id, s.p.no.id);
}

/* The superseded attempt is still asked about; a success of it is surplus, and it blocks CANCELLED
 * but not PAY_FAILED. */
static void a_superseded_attempt_is_not_forgotten(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_wechat, "second");
    struct number no = core_order(w, "o1", 8800).no;
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_ACCOUNT);
    struct payment p = core_pay(w, no);
    SQL(old, "SELECT id FROM payment_order WHERE superseded = 1");
    struct number superseded = number_make(NUMBER_PAYMENT, no.slot, world_ask(&w->world, &old));
    core_state(w, p.no, fact_of(w, FACT_PAY_FAILED, 0, NULL));
    core_ended(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED);

    struct order o;
    bool closing = false;
    struct refusal r = { 0 };
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    assert_int_equal(order_cancel(&w->c, &w->act, no, STR(""), &o, &closing, &r), CODE_OK);
    assert_true(closing);

    core_paid(w, superseded, 8800, "T1");
    core_settle(w, no); /* nobody else paid: it wins */
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get(w, superseded).settled, SETTLED_WON);
}

static void no_account_left(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    n.request_id = STR("r1");
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_ACCOUNT);
    assert_int_equal(core_start(w, &n).code, CODE_NO_ACCOUNT);
    assert_int_equal(core_start(w, &n).code, CODE_NO_ACCOUNT); /* suspended */
    assert_int_equal(w->prepay.calls, 1);
    core_advance(w, 300001);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_str(s.p.request_id, "r1");
}

static void credentials_that_are_out_keep_their_place(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_wechat, "second");
    struct number no = core_order(w, "o1", 8800).no;
    struct reply *r = expect(&w->prepay, CHANNEL_DONE, CLASS_NONE);
    r->answer.credentials = STR("{}");
    r->answer.credential_expire_ms = WORLD_NOW_MS + 1000;
    struct payment p = core_pay(w, no);
    core_advance(w, 2000);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_ACCOUNT);
    struct payment_new n = payment_input(no);
    assert_int_equal(core_start(w, &n).code, CODE_NO_ACCOUNT);
    assert_false(core_get(w, p.no).superseded);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order"), 1);
}

static void an_answer_outside_the_table_is_unknown(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_NONE);
    struct started s = core_start(w, &n);
    assert_int_equal(s.how, PAYMENT_WAITING);
    assert_int_equal(s.p.unknown_calls, 1);
}

/* ---- switching ---- */

static void another_method_closes_the_old_one(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment old = core_pay(w, no);
    struct payment_new n = payment_input(no);
    n.method = STR("jsapi");
    n.payer = STR("openid-1");
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_true(s.p.no.id != old.no.id);
    assert_int_equal(core_get(w, old.no).status, PAYMENT_CLOSED);
    assert_int_equal(core_get(w, old.no).close_requested, CLOSE_SWITCH);
    assert_int_equal(w->query.calls, 1);
    assert_int_equal(w->close.calls, 1);
    n.payer = STR("openid-2"); /* another payer, too */
    assert_true(core_start(w, &n).p.no.id != s.p.no.id);
}

static void the_old_one_cannot_be_closed(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment old = core_pay(w, no);
    struct payment_new n = payment_input(no);
    n.method = STR("jsapi");
    n.payer = STR("openid");
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_ATTEMPT_CLOSING);
    assert_true(s.refusal.retry_after_s > 0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order"), 1);
    old = core_get(w, old.no);
    assert_false(client_given(w, &old));

    n = payment_input(no); /* not even the old method, until it is closed */
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    assert_int_equal(core_start(w, &n).code, CODE_ATTEMPT_CLOSING);
    s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_STARTED);
}

static void the_old_one_turns_out_paid(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment old = core_pay(w, no);
    struct payment_new n = payment_input(no);
    n.method = STR("jsapi");
    n.payer = STR("openid");
    expect_fact(w, FACT_PAID, 8800, "T1");
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_ALREADY_PAID);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get(w, old.no).settled, SETTLED_WON);
}

static void another_channel_stays_open_but_is_closed(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "store");
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    n.channel = CHANNEL_WECHAT;
    struct payment one = core_start(w, &n).p;
    n.channel = CHANNEL_APPLE;
    struct started two = core_start(w, &n);
    assert_int_equal(two.code, CODE_OK);
    assert_int_equal(core_get(w, one.no).status, PAYMENT_PAYING);
    assert_int_equal(core_get(w, one.no).close_requested, CLOSE_SWITCH);
    core_due(w);
    assert_int_equal(core_get(w, one.no).status, PAYMENT_CLOSED);
    assert_int_equal(core_get(w, two.p.no).status, PAYMENT_PAYING);
}

static void an_expired_attempt_is_replaced(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment old = core_pay(w, no);
    core_advance(w, 15 * 60000);
    struct payment_new n = payment_input(no);
    struct started s = core_start(w, &n);
    assert_int_equal(s.how, PAYMENT_STARTED);
    assert_true(s.p.no.id != old.no.id);
    assert_int_equal(core_get(w, old.no).status, PAYMENT_CLOSED);
}

/* ---- idempotency ---- */

static void the_same_request_id(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "store");
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no), other;
    n.request_id = STR("r1");
    n.channel = CHANNEL_WECHAT;
    struct payment p = core_start(w, &n).p;
    static const char *const fields[] = { "channel", "account", "method", "payer" };
    for (int i = 0; i < 4; i++) {
        other = n;
        if (i == 0)
            other.channel = CHANNEL_APPLE;
        if (i == 1) {
            other.channel = 0;
            other.account = STR("store");
        }
        if (i == 2)
            other.method = STR("jsapi");
        if (i >= 2)
            other.payer = STR("x");
        struct started s = core_start(w, &other);
        check_row(s.code == CODE_REQUEST_MISMATCH, fields[i]);
        check_row(str_eq(s.refusal.field, str_of(fields[i])), fields[i]);
    }
    core_paid(w, p.no, 8800, "T1");
    struct started s = core_start(w, &n); /* the answer of then, as it is now */
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.how, PAYMENT_SAME);
    assert_int_equal(s.p.no.id, p.no.id);
    assert_int_equal(s.p.status, PAYMENT_SUCCESS);
    assert_int_equal(w->prepay.calls, 1);
}

static void twin(struct core *w)
{
    SQL(order, "SELECT id FROM order_info");
    SQL(slot, "SELECT slot FROM order_info");
    struct payment_new n = payment_input(number_make(
        NUMBER_ORDER, (unsigned)world_ask(&w->world, &slot), world_ask(&w->world, &order)));
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_REQUEST_IN_FLIGHT);
    assert_true(s.refusal.retry_after_s > 0);
}

static void a_twin_in_flight(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    expect(&w->prepay, CHANNEL_DONE, CLASS_NONE)->meanwhile = twin;
    core_pay(w, no);
    assert_int_equal(w->prepay.calls, 1);
}

/* The process dies while the call is on the wire: the lease runs out, the call counts as unknown.
 */
static void died_on_the_wire(void **state)
{
    (void)state;
    struct core w;
    core_open(&w);
    struct number no = core_order(&w, "o1", 8800).no;
    struct payment p = core_pay(&w, no);
    SQL(crash, "UPDATE payment_order SET status = 0, credentials = NULL, calls = 0, call_owner = "
               "5, call_until = 1780000015000");
    world_exec(&w.world, &crash);
    struct payment_new n = payment_input(no);
    core_advance(&w, 14999);
    assert_int_equal(core_start(&w, &n).code, CODE_REQUEST_IN_FLIGHT);
    core_advance(&w, 1);
    expect(&w.prepay, CHANNEL_REFUSED, CLASS_FINAL);
    expect_fact(&w, FACT_NOTHING, 0, NULL);
    struct started s = core_start(&w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(s.p.no.id, p.no.id);
    assert_int_equal(s.p.unknown_calls, 1);
    assert_int_equal(s.p.status, PAYMENT_INIT); /* not FAILED: the first call may have arrived */
    assert_true(str_eq(w.sent[0], w.sent[1]));
    world_close(&w.world);
    registry_free(w.c.registry);
}

/* ---- races with the answer ---- */

static void pays_meanwhile(struct core *w)
{
    SQL(pay, "SELECT id FROM payment_order");
    SQL(slot, "SELECT slot FROM payment_order");
    core_paid(w,
              number_make(NUMBER_PAYMENT, (unsigned)world_ask(&w->world, &slot),
                          world_ask(&w->world, &pay)),
              8800, "T1");
}

static void the_callback_overtakes_the_answer(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    expect(&w->prepay, CHANNEL_DONE, CLASS_NONE)->meanwhile = pays_meanwhile;
    struct payment p = core_pay(w, no);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_false(client_given(w, &p));
}

static void cancels_meanwhile(struct core *w)
{
    SQL(order, "SELECT id FROM order_info");
    SQL(slot, "SELECT slot FROM order_info");
    struct order o;
    bool closing = false;
    struct refusal r = { 0 };
    assert_int_equal(order_cancel(&w->c, &w->act,
                                  number_make(NUMBER_ORDER, (unsigned)world_ask(&w->world, &slot),
                                              world_ask(&w->world, &order)),
                                  STR(""), &o, &closing, &r),
                     CODE_OK);
    assert_true(closing); /* the prepay holds the call lease */
}

static void cancelled_while_prepaying(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    expect(&w->prepay, CHANNEL_DONE, CLASS_NONE)->meanwhile = cancels_meanwhile;
    struct payment p = core_pay(w, no);
    assert_int_equal(p.close_requested, CLOSE_CANCEL);
    assert_false(client_given(w, &p)); /* hand nothing out */
    size_t done;
    struct err_info info = { 0 };
    core_advance(w, 60000);
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
}

/* ---- between looking and storing ---- */

static struct number raced_pay, raced_order;

static void race_pays(struct core *w)
{
    core_paid(w, raced_pay, 8800, "T1");
}

static void race_quarantines(struct core *w)
{
    core_paid(w, raced_pay, 1, "T1");
}

static void race_cancels(struct core *w)
{
    struct order o;
    bool closing;
    struct refusal r = { 0 };
    assert_int_equal(order_cancel(&w->c, &w->act, raced_order, STR(""), &o, &closing, &r), CODE_OK);
}

static void race_starts(struct core *w)
{
    raced_pay = core_pay(w, raced_order).no;
}

static void race_expires(struct core *w)
{
    core_advance(w, 600000);
}

static void what_changes_after_the_look(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        void (*race)(struct core *w);
        enum code code;
        int attempts;
    } rows[] = {
        { "an old attempt is paid", race_pays, CODE_ORDER_ALREADY_PAID, 1 },
        { "wrong money for an old attempt", race_quarantines, CODE_ORDER_NOT_PAYABLE, 1 },
        { "it is cancelled", race_cancels, CODE_ORDER_NOT_PAYABLE, 1 },
        { "it expires", race_expires, CODE_ORDER_EXPIRING, 1 },
        { "another request was quicker", race_starts, CODE_OK, 2 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct core w;
        core_open(&w);
        struct order_new o = order_input("o1", 8800);
        o.expire_in_ms = 600000;
        raced_order = core_order_of(&w, &o).no;
        raced_pay = core_pay(&w, raced_order).no;
        core_state(&w, raced_pay, fact_of(&w, FACT_PAY_FAILED, 0, NULL));
        core_ended(&w, raced_order);
        w.at_build = rows[i].race;
        struct payment_new n = payment_input(raced_order);
        struct started s = core_start(&w, &n);
        check_row(s.code == rows[i].code, rows[i].what);
        check_row(ASK(&w.world, "SELECT count(*) FROM payment_order") == rows[i].attempts,
                  rows[i].what);
        if (!s.code) { /* the twin's attempt, as it is */
            check_row(s.p.no.id == raced_pay.id && s.how == PAYMENT_SAME, rows[i].what);
            check_row(w.prepay.calls == 2, rows[i].what);
        }
        if (rows[i].race == race_pays) /* the settling stays */
            check_row(order_status_of(&w, raced_order) == ORDER_PAID, rows[i].what);
        core_check(&w);
    }
}

/* ---- whose order, which order ---- */

static void what_is_refused(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment_new n = payment_input(no);
    struct act mine = w->act;

    n.user_id = STR("u2");
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_FOUND);
    n.user_id = STR("u1");
    w->act.caller.id = 8;
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_FOUND);
    w->act = mine;
    n.order_no.slot ^= 1;
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_FOUND);
    n = payment_input(no);
    n.method = STR("cash");
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_BAD_FIELD);
    assert_str(s.refusal.field, "method");
    n.method = STR("jsapi");
    s = core_start(w, &n);
    assert_str(s.refusal.field, "payer");
    n.method = STR("native");
    n.account = STR("nobody");
    s = core_start(w, &n);
    assert_str(s.refusal.field, "account");
    n.account = STR("main");
    n.channel = CHANNEL_APPLE;
    s = core_start(w, &n);
    assert_str(s.refusal.field, "account");
    n = payment_input(no);
    n.channel = CHANNEL_APPLE;
    assert_int_equal(core_start(w, &n).code, CODE_NO_ACCOUNT);
    n = payment_input(no);
    w->build_result = ERR_INVALID;
    s = core_start(w, &n);
    assert_int_equal(s.code, CODE_BAD_FIELD);
    assert_str(s.refusal.field, "payer");
    n = (struct payment_new) { .merchant_order_no = STR("o2"), .method = STR("native") };
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_FOUND);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order"), 0);
    assert_int_equal(w->prepay.calls, 0);
}

static void an_order_made_on_the_way(void **state)
{
    struct core *w = *state;
    struct order_new o = order_input("o1", 8800);
    struct payment_new n = { .inline_order = &o, .method = STR("native") };
    struct started s = core_start(w, &n);
    assert_int_equal(s.code, CODE_OK);
    assert_int_equal(ASK(&w->world, "SELECT inline_order FROM order_info"), 1);
    struct started again = core_start(w, &n);
    assert_int_equal(again.p.no.id, s.p.no.id);
    o.subject = STR("other words"); /* fixed are amount, currency, items and user */
    assert_int_equal(core_start(w, &n).p.no.id, s.p.no.id);
    o.amount_fen = 8801;
    again = core_start(w, &n);
    assert_int_equal(again.code, CODE_ORDER_MISMATCH);
    assert_str(again.refusal.field, "amount");
    n = (struct payment_new) { .merchant_order_no = STR("o1"), .method = STR("native") };
    assert_int_equal(core_start(w, &n).p.no.id, s.p.no.id);
}

static void quarantine_stops_new_attempts(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no;
    struct payment p = core_pay(w, no);
    core_paid(w, p.no, 1, "T1");
    p = core_get(w, p.no);
    assert_false(client_given(w, &p));
    struct payment_new n = payment_input(no);
    assert_int_equal(core_start(w, &n).code, CODE_ORDER_NOT_PAYABLE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(stored_and_sent),
        CORE_TEST(post_again_is_the_same),
        CORE_TEST(credentials_over_are_made_again),
        CORE_TEST(nothing_happened_three_times),
        CORE_TEST(nothing_happened_once),
        CORE_TEST(unknown_waits_for_the_ladder),
        CORE_TEST(unknown_then_the_client_comes_back),
        cmocka_unit_test(refused_for_good),
        cmocka_unit_test(refused_after_an_unknown_call),
        CORE_TEST(the_state_differs_so_ask),
        CORE_TEST(a_broken_account_gives_way),
        CORE_TEST(a_superseded_attempt_is_not_forgotten),
        CORE_TEST(no_account_left),
        CORE_TEST(credentials_that_are_out_keep_their_place),
        CORE_TEST(an_answer_outside_the_table_is_unknown),
        CORE_TEST(another_method_closes_the_old_one),
        CORE_TEST(the_old_one_cannot_be_closed),
        CORE_TEST(the_old_one_turns_out_paid),
        CORE_TEST(another_channel_stays_open_but_is_closed),
        CORE_TEST(an_expired_attempt_is_replaced),
        CORE_TEST(the_same_request_id),
        CORE_TEST(a_twin_in_flight),
        cmocka_unit_test(died_on_the_wire),
        CORE_TEST(the_callback_overtakes_the_answer),
        CORE_TEST(cancelled_while_prepaying),
        cmocka_unit_test(what_changes_after_the_look),
        CORE_TEST(what_is_refused),
        CORE_TEST(an_order_made_on_the_way),
        CORE_TEST(quarantine_stops_new_attempts),
    };
    return RUN_CORE_TESTS(tests);
}
