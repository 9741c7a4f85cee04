/* Notices about refunds: ours, those made at the channel, too early, of others. */
#include "refund_world.h"

#include "core/callback/callback.h"

static struct callback_input hear_at(struct core *w, const char *account, struct fact fact)
{
    struct callback_input in = {
        .account = registry_ref(w->c.registry, str_of(account)),
        .body = STR("{}"),
        .headers_text = STR("h: 1\n"),
        .notice = { .kind = STR("REFUND"),
                    .subject_no = fact.pay_no,
                    .event_key = str_printf(w->world.arena, "REFUND:%d:" STR_FMT, (int)fact.kind,
                                            STR_ARG(fact.channel_refund_id)),
                    .facts = { fact },
                    .fact_count = 1 },
        .trace_id = STR("trace-cb"),
    };
    callback_prepare(&in, w->world.arena);
    world_run(&w->world, callback_rule, &in);
    account_unref(in.account);
    callback_tell(&w->c, &in);
    return in;
}

static struct callback_input hear(struct core *w, struct fact fact)
{
    return hear_at(w, "main", fact);
}

/* Of a number that the merchant portal made. */
static struct fact portal(struct core *w, struct number pay_no, enum fact_kind kind, int64_t fen,
                          const char *channel_refund_id)
{
    struct fact f = fact_of(w, kind, fen, NULL);
    f.pay_no = number_str(w->world.arena, pay_no);
    f.refund_no = STR("portal-1");
    f.channel_refund_id = str_of(channel_refund_id);
    return f;
}

static void ours_moves(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund r = open_amount(w, p.no, "r", 3000).r;
    struct fact f = refund_fact(w, &r, FACT_REFUND_ABNORMAL);
    assert_int_equal(hear(w, f).result, HANDLE_DONE); /* the notice overtook the answer */
    assert_int_equal(refund_now(w, r.no).status, REFUND_ABNORMAL);
    f.kind = FACT_REFUND_DONE;
    struct callback_input in = hear(w, f);
    assert_int_equal(in.result, HANDLE_DONE);
    assert_int_equal(in.moved.refund.status, REFUND_SUCCESS);
    assert_int_equal(in.moved.refund_from, REFUND_ABNORMAL);
    r = refund_now(w, r.no);
    assert_int_equal(r.status, REFUND_SUCCESS);
    assert_int_equal(r.evidence_kind, EVIDENCE_CALLBACK);
    assert_true(hear(w, f).duplicate);
    f.channel_refund_id = STR("another-key"); /* the same, as another notice */
    assert_int_equal(hear(w, f).result, HANDLE_NOTHING);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 3000);
}

static void a_wrong_amount_moves_nothing(void **state)
{
    struct core *w = *state;
    struct refund r = open_amount(w, paid(w, "o1", 8800).no, "r", 3000).r;
    struct fact f = refund_fact(w, &r, FACT_REFUND_DONE);
    f.amount = cny(8800);
    assert_int_equal(hear(w, f).result, HANDLE_DONE);
    assert_int_equal(refund_now(w, r.no).status, REFUND_INIT);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_AMOUNT_MISMATCH);
}

static void made_at_the_channel(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    assert_int_equal(hear(w, portal(w, p.no, FACT_REFUND_ACCEPTED, 2000, "W1")).result,
                     HANDLE_NOTHING);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 0);
    struct callback_input in = hear(w, portal(w, p.no, FACT_REFUND_DONE, 2000, "W1"));
    assert_int_equal(in.result, HANDLE_DONE);
    assert_int_equal(in.moved.refund.status, REFUND_SUCCESS);
    struct refund r = refund_now(w, in.moved.refund.no);
    assert_int_equal(r.origin, REFUND_BY_CHANNEL);
    assert_str(r.request_id, "channel:W1");
    assert_str(r.channel_refund_id, "W1");
    assert_int_equal(r.status, REFUND_SUCCESS);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 2000);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 9"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 0);

    /* the same money in another notice is the same money */
    struct fact again = portal(w, p.no, FACT_REFUND_DONE, 2000, "W1");
    struct callback_input other = { .account = registry_ref(w->c.registry, STR("main")),
                                    .body = STR("{}"),
                                    .headers_text = STR("h: 1\n"),
                                    .notice = { .kind = STR("REFUND"),
                                                .subject_no = again.pay_no,
                                                .event_key = STR("another key"),
                                                .facts = { again },
                                                .fact_count = 1 } };
    callback_prepare(&other, w->world.arena);
    world_run(&w->world, callback_rule, &other);
    account_unref(other.account);
    assert_int_equal(other.result, HANDLE_NOTHING);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 2000);

    /* another one is more money, and our own refunds have less left */
    hear(w, portal(w, p.no, FACT_REFUND_DONE, 1000, "W2"));
    assert_int_equal(open_amount(w, p.no, "r", 5801).o.how, REFUND_EXCEEDS);
    assert_int_equal(open_amount(w, p.no, "r", 5800).o.how, REFUND_OPENED);
    /* it is not ours to ask about */
    struct refusal refusal = { 0 };
    assert_int_equal(refund_sync(&w->c, &w->act, r.no, &r, &refusal), CODE_OK);
    assert_int_equal(w->query_refund.calls, 0);
    /* and may be reversed by the channel */
    assert_int_equal(hear(w, portal(w, p.no, FACT_REFUND_REVERSED, 2000, "W1")).result,
                     HANDLE_DONE);
    assert_int_equal(refund_now(w, r.no).status, REFUND_REVERSED);
}

/* Ours holds all there is, and the portal gives it back as well: both are facts. */
static void made_at_the_channel_above_what_was_paid(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund r = open_amount(w, p.no, "r", 8800).r;
    hear(w, portal(w, p.no, FACT_REFUND_DONE, 5000, "W1"));
    p = core_get(w, p.no);
    assert_int_equal(money_fen(p.refunded), 5000);
    assert_int_equal(money_fen(p.refunding), 8800);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_OVER_REFUNDED);
    assert_int_equal(ASK(&w->world, "SELECT amount FROM incident"), 5000);
    state_kind(w, &r, FACT_REFUND_CLOSED); /* the channel had no more to give */
    assert_int_equal(money_fen(core_get(w, p.no).refunding), 0);
}

/* The notice of a refund before the payment's own: asked about now, and the next delivery finds the
 * success. */
static void before_the_payments_success(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    struct fact f = portal(w, p.no, FACT_REFUND_DONE, 2000, "W1");
    struct callback_input in = hear(w, f);
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM callback_due WHERE id > 0 AND due > 0"),
                     1);
    expect_fact(w, FACT_PAID, 8800, "T1");
    core_due(w);
    assert_int_equal(w->query.calls, 1);
    assert_int_equal(core_get(w, p.no).status, PAYMENT_SUCCESS);
    assert_int_equal(hear(w, f).result, HANDLE_DONE);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 2000);
}

/* Closed here, paid and given back there: the close protocol asks first and finds the success. */
static void before_a_late_success(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    core_state(w, p.no, fact_of(w, FACT_SHUT, 0, NULL));
    struct fact f = portal(w, p.no, FACT_REFUND_DONE, 8800, "W1");
    assert_int_equal(hear(w, f).result, HANDLE_FAILED);
    expect_fact(w, FACT_PAID, 8800, "T1");
    core_due(w);
    assert_int_equal(core_get(w, p.no).status, PAYMENT_SUCCESS);
    assert_int_equal(hear(w, f).result, HANDLE_DONE);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 8800);
}

static void held_money_waits_for_its_person(void **state)
{
    struct core *w = *state;
    struct payment p = core_pay(w, core_order(w, "o1", 8800).no);
    core_paid(w, p.no, 100, "T1");
    assert_int_equal(hear(w, portal(w, p.no, FACT_REFUND_DONE, 100, "W1")).result, HANDLE_FAILED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 0);
}

static void of_others_and_of_nobody(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_wechat, "second");
    struct payment p = paid(w, "o1", 8800);
    struct refund r = open_amount(w, p.no, "r", 3000).r;

    struct callback_input in = hear_at(w, "second", refund_fact(w, &r, FACT_REFUND_DONE));
    assert_int_equal(in.result, HANDLE_FAILED);
    assert_int_equal(refund_now(w, r.no).status, REFUND_INIT);
    in = hear_at(w, "second", portal(w, p.no, FACT_REFUND_DONE, 100, "W2"));
    assert_int_equal(in.result, HANDLE_FAILED);
    struct fact f = portal(w, p.no, FACT_REFUND_DONE, 100, "W3");
    f.ours = false;
    assert_int_equal(hear(w, f).result, HANDLE_FAILED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 4"), 3);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 0);

    f = portal(w, number_make(NUMBER_PAYMENT, 3, p.no.id + 5), FACT_REFUND_DONE, 100, "W4");
    assert_int_equal(hear(w, f).result, HANDLE_FAILED);
    /* known by its transaction, as money that was adopted is */
    f = portal(w, p.no, FACT_REFUND_DONE, 100, "W5");
    f.pay_no = STR("not-one-of-ours");
    f.transaction_id = p.transaction_id;
    assert_int_equal(hear(w, f).result, HANDLE_DONE);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(ours_moves),
        CORE_TEST(a_wrong_amount_moves_nothing),
        CORE_TEST(made_at_the_channel),
        CORE_TEST(made_at_the_channel_above_what_was_paid),
        CORE_TEST(before_the_payments_success),
        CORE_TEST(before_a_late_success),
        CORE_TEST(held_money_waits_for_its_person),
        CORE_TEST(of_others_and_of_nobody),
    };
    return RUN_CORE_TESTS(tests);
}
