/* Money at the channel without a payment of ours, and callbacks that need a person. */
#include "../flow_world.h"

#include "core/incident/incident.h"
#include "core/payment/flow.h"
#include "core/resolve/resolve.h"

#define SHOP 7

struct outcome {
    enum code code;
    struct resolved r;
    struct refusal refusal;
};

static struct act operator_act(struct flow_world *f)
{
    return (struct act) { .actor = STR("operator:amy"),
                          .trace_id = STR("trace-op"),
                          .arena = f->w.arena };
}

static struct number newest_incident(struct flow_world *f)
{
    unsigned slot = (unsigned)ASK(&f->w, "SELECT slot FROM incident ORDER BY id DESC LIMIT 1");
    return number_make(NUMBER_INCIDENT, slot,
                       ASK(&f->w, "SELECT id FROM incident ORDER BY id DESC LIMIT 1"));
}

static struct outcome act_on(struct flow_world *f, enum incident_action action, const char *who)
{
    struct outcome o = { .code = CODE_OK };
    struct act act = operator_act(f);
    struct resolve r = { .incident_no = newest_incident(f),
                         .any_caller = true,
                         .action = action,
                         .who = str_of(who),
                         .reason = STR("because"),
                         .adopt_for = { SHOP, STR("shop") } };
    o.code = resolve_incident(&f->c, &act, &r, &o.r, &o.refusal);
    return o;
}

static void channel_says_paid(const char *transaction, int64_t fen)
{
    fake_channel.query_outcome = CHANNEL_DONE;
    fake_channel.query_fact_count = 1;
    fake_channel.query_facts[0] = (struct fact) { .kind = FACT_PAID,
                                                  .transaction_id = str_of(transaction),
                                                  .ours = true,
                                                  .time_ms = WORLD_NOW_MS - 9000 };
    assert_ok(money_of(fen, STR("CNY"), &fake_channel.query_facts[0].amount));
    fake_channel.query_facts[0].payer_amount = fake_channel.query_facts[0].amount;
}

/* A paid callback about a number nobody has, and what the retry found out. */
static void orphan(struct flow_world *f, const char *number, const char *transaction)
{
    struct err_info info = { .err = ERR_OK };
    size_t done;
    flow_callback(f, f->account,
                  str_printf(f->w.arena, "ok\nPAID|%s|%s|8800|", number, transaction));
    channel_says_paid(transaction, 8800);
    env_test_advance(&f->w.test, 300000);
    assert_ok(callback_due_turn(&f->c, 10, &done, &info));
    assert_int_equal(ASK(&f->w, "SELECT kind FROM incident ORDER BY id DESC LIMIT 1"),
                     INCIDENT_ORPHAN_PAYMENT);
}

static const char *lost_number(struct flow_world *f, struct number *ret)
{
    *ret = number_make(NUMBER_PAYMENT, 9, number_first_id(WORLD_NOW_MS));
    return number_str(f->w.arena, *ret).p;
}

static void a_lost_payment_comes_back(void **state)
{
    (void)state;
    struct flow_world f;
    struct number lost;
    flow_world_open(&f, false);
    orphan(&f, lost_number(&f, &lost), "T1");
    struct outcome o = act_on(&f, ACTION_ADOPT, "operator:amy");
    assert_int_equal(o.code, CODE_OK);
    assert_int_equal(o.r.incident.resolution, ACTION_ADOPT);
    assert_int_equal(o.r.pay_no.id, lost.id);
    assert_non_null(strstr(str_cstr(f.w.arena, o.r.incident.detail), "adopted as payment"));

    struct payment p = flow_payment(&f, lost);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_int_equal(p.settled, SETTLED_ASIDE);
    assert_int_equal(p.caller, SHOP);
    assert_int_equal(money_fen(p.paid_amount), 8800);
    assert_str(p.transaction_id, "T1");
    assert_int_equal(p.pay_ms, WORLD_NOW_MS - 9000);
    assert_int_equal(p.evidence_kind, EVIDENCE_OPERATOR);
    struct order order = flow_order(&f, p.order_no);
    assert_int_equal(order.status, ORDER_CANCELLED);
    assert_int_equal(order.caller, SHOP);
    assert_int_equal(order.no.slot, lost.slot);

    assert_int_equal(ASK(&f.w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM callback_due"), 0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox WHERE type = 1"), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM channel_call"), 2);

    /* The same act again; and what the channel says from now on is about a payment we have. */
    o = act_on(&f, ACTION_ADOPT, "operator:amy");
    assert_int_equal(o.code, CODE_OK);
    assert_int_equal(o.r.pay_no.id, lost.id);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM payment_order"), 1);
    struct callback_input in =
        flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", lost, "T1", 8800));
    assert_true(in.duplicate);
    flow_world_close(&f);
}

static void a_foreign_number_gets_one_of_ours(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    orphan(&f, "OLD-SYSTEM-77", "T1");
    struct outcome o = act_on(&f, ACTION_ADOPT, "operator:amy");
    assert_int_equal(o.code, CODE_OK);
    struct payment p = flow_payment(&f, o.r.pay_no);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_true(payment_is_adopted(&p));

    /* It cannot be asked for by our number: that must not contradict what we know. */
    struct act act = operator_act(&f);
    struct refusal refusal = { 0 };
    act.caller.id = SHOP;
    int queries = fake_channel.queries;
    assert_int_equal(payment_sync(&f.c, &act, o.r.pay_no, &p, &refusal), CODE_OK);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_int_equal(fake_channel.queries, queries);
    flow_world_close(&f);
}

static void what_the_channel_says_now_counts(void **state)
{
    (void)state;
    struct flow_world f;
    struct number lost;
    flow_world_open(&f, false);
    orphan(&f, lost_number(&f, &lost), "T1");
    channel_says_paid("T2", 8800);
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_INCIDENT_STATE);
    channel_says_paid("T1", 8800);
    fake_channel.query_facts[0].ours = false;
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_INCIDENT_STATE);
    fake_channel.query_outcome = CHANNEL_UNKNOWN;
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_CHANNEL_BUSY);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM payment_order"), 0);
    channel_says_paid("T1", 8700); /* what it took, not what a notice said */
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_OK);
    assert_int_equal(money_fen(flow_payment(&f, lost).paid_amount), 8700);
    flow_world_close(&f);
}

/* The money is a payment's already: there is nothing to adopt. */
static void what_is_known_is_not_adopted(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    orphan(&f, "OLD-SYSTEM-77", "T1");
    struct attempt at = flow_attempt(&f, "A1");
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_INCIDENT_STATE);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM payment_order"), 1);
    assert_int_equal(act_on(&f, ACTION_IGNORE, "operator:amy").code, CODE_OK);
    flow_world_close(&f);
}

/* For whom belongs to what two persons must agree on. */
static void two_persons_adopt_for_the_same(void **state)
{
    (void)state;
    struct flow_world f;
    struct number lost;
    flow_world_open(&f, false);
    f.c.settings.second_person_fen = 8799;
    orphan(&f, lost_number(&f, &lost), "T1");
    struct outcome o = act_on(&f, ACTION_ADOPT, "operator:amy");
    assert_true(!o.code && o.r.proposed);
    struct act act = operator_act(&f);
    struct resolve other = { .incident_no = newest_incident(&f),
                             .any_caller = true,
                             .action = ACTION_ADOPT,
                             .who = STR("operator:bob"),
                             .reason = STR("because"),
                             .adopt_for = { SHOP + 1, STR("else") } };
    assert_int_equal(resolve_incident(&f.c, &act, &other, &o.r, &o.refusal), CODE_INCIDENT_STATE);
    o = act_on(&f, ACTION_ADOPT, "operator:bob");
    assert_true(!o.code && !o.r.proposed);
    assert_int_equal(flow_payment(&f, lost).caller, SHOP);
    flow_world_close(&f);
}

/* ---- callbacks ---- */

static void a_stuck_callback_is_tried_again(void **state)
{
    (void)state;
    struct flow_world f;
    struct err_info info = { .err = ERR_OK };
    struct number lost;
    size_t done;
    flow_world_open(&f, false);
    const char *number = lost_number(&f, &lost);
    flow_callback(&f, f.account, str_printf(f.w.arena, "ok\nPAID|%s|T1|8800|", number));
    for (int i = 1; i <= 10; i++) {
        env_test_advance(&f.w.test, 300000);
        assert_ok(callback_due_turn(&f.c, 10, &done, &info));
    }
    assert_int_equal(ASK(&f.w, "SELECT kind FROM incident"), INCIDENT_CALLBACK_STUCK);

    assert_int_equal(act_on(&f, ACTION_RETRY, "operator:amy").code, CODE_OK);
    assert_int_equal(ASK(&f.w, "SELECT state FROM incident"), 1);
    for (int i = 1; i <= 10; i++) { /* now, and nine times more */
        assert_ok(callback_due_turn(&f.c, 10, &done, &info));
        assert_int_equal(done, 1);
        assert_int_equal(ASK(&f.w, "SELECT state FROM incident"), i < 10);
        env_test_advance(&f.w.test, 300000);
    }
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox WHERE type = 13"), 2);

    /* Meanwhile it is known that the channel was paid. */
    channel_says_paid("T1", 8800);
    assert_int_equal(act_on(&f, ACTION_RETRY, "operator:amy").code, CODE_OK);
    assert_ok(callback_due_turn(&f.c, 10, &done, &info));
    assert_int_equal(act_on(&f, ACTION_ADOPT, "operator:amy").code, CODE_OK);
    assert_int_equal(ASK(&f.w, "SELECT handle_result FROM callback_log"), HANDLE_DONE);
    flow_world_close(&f);
}

static enum err exec_rule(struct tx *tx, void *sql, struct err_info *info)
{
    return tx_exec(tx, sql, NO_BINDS, NULL, info);
}

static void a_handled_callback_needs_no_retry(void **state)
{
    (void)state;
    struct flow_world f;
    struct number lost;
    flow_world_open(&f, false);
    orphan(&f, lost_number(&f, &lost), "T1");
    assert_int_equal(act_on(&f, ACTION_RETRY, "operator:amy").code, CODE_OK);
    size_t done;
    struct err_info info = { .err = ERR_OK };
    assert_ok(callback_due_turn(&f.c, 10, &done, &info)); /* an orphan again: open again */
    assert_int_equal(ASK(&f.w, "SELECT state * 10 + count FROM incident"), 2);

    SQL(handled, "UPDATE callback_log SET handle_result = 1 WHERE reason IS NOT NULL");
    world_run(&f.w, exec_rule, (void *)(uintptr_t)&handled);
    assert_int_equal(act_on(&f, ACTION_RETRY, "operator:amy").code, CODE_INCIDENT_STATE);
    flow_world_close(&f);
}

/* ---- what comes to a good end by itself ---- */

static void a_replayed_callback_recovers(void **state)
{
    (void)state;
    struct flow_world f;
    struct err_info info = { .err = ERR_OK };
    struct refusal refusal = { 0 };
    enum handle_result result;
    size_t done;
    flow_world_open(&f, false);
    struct attempt at = flow_attempt(&f, "A1");
    struct act act = operator_act(&f);
    fake_channel.undecryptable = true;
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    for (int i = 1; i <= 10; i++) {
        env_test_advance(&f.w.test, 300000);
        assert_ok(callback_due_turn(&f.c, 10, &done, &info));
    }
    assert_int_equal(ASK(&f.w, "SELECT state * 100 + kind FROM incident"), INCIDENT_CALLBACK_STUCK);
    fake_channel.undecryptable = false; /* the key is there now */
    assert_int_equal(
        callback_replay(&f.c, &act, ASK(&f.w, "SELECT id FROM callback_log"), &result, &refusal),
        CODE_OK);
    assert_int_equal(result, HANDLE_DONE);
    assert_int_equal(ASK(&f.w, "SELECT state * 100 + resolution FROM incident"),
                     100 + ACTION_RECOVERED);
    flow_world_close(&f);
}

static enum err keep_failed_rule(struct tx *tx, void *input, struct err_info *info)
{
    return callback_rule_keep_failed(tx, input, info);
}

static enum err stuck_rule(struct tx *tx, void *id, struct err_info *info)
{
    struct incident incident = { .kind = INCIDENT_CALLBACK_STUCK,
                                 .subject = number_make(NUMBER_CALLBACK, 0, *(int64_t *)id),
                                 .detail = STR("tried ten times") };
    return incident_open(tx, &incident, NULL, info);
}

static void a_redelivered_callback_recovers(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct attempt at = flow_attempt(&f, "A1");
    struct str text = notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800);
    struct callback_input in = flow_input(&f, f.account, text);
    world_run(&f.w, keep_failed_rule, &in);
    int64_t id = ASK(&f.w, "SELECT id FROM callback_log");
    world_run(&f.w, stuck_rule, &id);
    flow_callback(&f, f.account, text);
    assert_int_equal(flow_payment(&f, at.pay_no).status, PAYMENT_SUCCESS);
    assert_int_equal(ASK(&f.w, "SELECT state * 100 + resolution FROM incident"),
                     100 + ACTION_RECOVERED);
    flow_world_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_payment_comes_back),
        cmocka_unit_test(a_foreign_number_gets_one_of_ours),
        cmocka_unit_test(what_the_channel_says_now_counts),
        cmocka_unit_test(what_is_known_is_not_adopted),
        cmocka_unit_test(two_persons_adopt_for_the_same),
        cmocka_unit_test(a_stuck_callback_is_tried_again),
        cmocka_unit_test(a_handled_callback_needs_no_retry),
        cmocka_unit_test(a_replayed_callback_recovers),
        cmocka_unit_test(a_redelivered_callback_recovers),
    };
    return RUN_TESTS(tests);
}
