/* Refunds: accepted, then done; the rules that refuse them; their callbacks. */
#include "sandbox_testing.h"

#define REFUNDS "/v3/refund/domestic/refunds"

static struct str refund_body(const char *out_trade_no, const char *out_refund_no, int refund,
                              int total)
{
    return text("{\"out_trade_no\":\"%s\",\"out_refund_no\":\"%s\",\"reason\":\"退货\","
                "\"notify_url\":\"" NOTIFY "/refund\","
                "\"amount\":{\"refund\":%d,\"total\":%d,\"currency\":\"CNY\"}}",
                out_trade_no, out_refund_no, refund, total);
}

static struct http_reply refund(const char *out_refund_no, int fen)
{
    return call("POST", REFUNDS, refund_body("PAID000001", out_refund_no, fen, 10000).p);
}

static struct http_reply query_refund(const char *out_refund_no)
{
    return call("GET", text(REFUNDS "/%s", out_refund_no).p, "");
}

static int begin_paid(void **state)
{
    begin(state);
    assert_answer(prepay("PAID000001", 10000), 200, NULL);
    pay("PAID000001");
    assert_int_equal(sandbox_turn(sandbox), 1);
    return 0;
}

static void accepted_then_done(void **state)
{
    (void)state;
    struct http_reply r = refund("R1", 3000);
    assert_answer(r, 200, NULL);
    assert_true(header(&r.headers, "Request-ID").n > 0);
    assert_str(member(r.body, "status"), "PROCESSING");
    assert_str(member(r.body, "amount.refund"), "3000");
    assert_str(member(r.body, "amount.total"), "10000");
    assert_str(member(r.body, "out_trade_no"), "PAID000001");
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 7000);
    assert_str(trade("PAID000001").state, "REFUND");
    assert_str(member(query("PAID000001").body, "trade_state"), "REFUND");

    assert_int_equal(sandbox_turn(sandbox), 0);
    env_test_advance(&world, 3000);
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_str(box.got[1].url, NOTIFY "/refund");
    assert_str(member(box.got[1].body, "event_type"), "REFUND.SUCCESS");
    assert_str(member(box.got[1].body, "resource.original_type"), "refund");
    assert_true(is_signed_by(&box.got[1].headers, box.got[1].body, platform_key));
    struct str plain = opened(1);
    assert_str(member(plain, "refund_status"), "SUCCESS");
    assert_str(member(plain, "out_refund_no"), "R1");
    assert_str(member(plain, "amount.refund"), "3000");
    assert_true(str_eq(member(plain, "refund_id"), member(r.body, "refund_id")));
    assert_str(member(query_refund("R1").body, "status"), "SUCCESS");
    assert_answer(query_refund("R9"), 404, "RESOURCE_NOT_EXISTS");
}

static void the_same_number_is_the_same_refund(void **state)
{
    (void)state;
    struct http_reply first = refund("R1", 3000), again = refund("R1", 3000);
    assert_answer(again, 200, NULL);
    assert_true(str_eq(member(first.body, "refund_id"), member(again.body, "refund_id")));
    assert_answer(refund("R1", 3001), 400, "INVALID_REQUEST");
    assert_int_equal(trade("PAID000001").refunded_fen, 3000);
    env_test_advance(&world, 400 * 86400000LL); /* what was accepted stays accepted */
    assert_answer(refund("R1", 3000), 200, NULL);
    assert_answer(refund("R2", 1), 400, "TRADE_OVERDUE");
    assert_int_equal(trade("PAID000001").refunded_fen, 3000);
}

static void rules_that_refuse(void **state)
{
    (void)state;
    assert_answer(refund("R1", 10001), 400, "INVALID_REQUEST");
    assert_answer(call("POST", REFUNDS, refund_body("PAID000001", "R1", 1, 9999).p), 400,
                  "INVALID_REQUEST");
    assert_answer(call("POST", REFUNDS, refund_body("NONE000001", "R1", 1, 10000).p), 404,
                  "RESOURCE_NOT_EXISTS");
    prepay("UNPAID0001", 10000);
    assert_answer(call("POST", REFUNDS, refund_body("UNPAID0001", "R1", 1, 10000).p), 404,
                  "RESOURCE_NOT_EXISTS");
    assert_answer(refund("R 1", 1), 400, "PARAM_ERROR");
    assert_answer(refund("R1", 0), 400, "PARAM_ERROR");

    assert_answer(refund("R1", 4000), 200, NULL);
    assert_answer(refund("R2", 4000), 400, "INVALID_REQUEST"); /* a minute apart */
    env_test_advance(&world, 59999);
    assert_answer(refund("R2", 4000), 400, "INVALID_REQUEST");
    env_test_advance(&world, 1);
    assert_answer(refund("R2", 4000), 200, NULL);
    env_test_advance(&world, 60000);
    assert_answer(refund("R3", 2001), 400, "INVALID_REQUEST");
    assert_answer(refund("R3", 2000), 200, NULL);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 0);
    assert_int_equal(trade("PAID000001").refunded_fen, 10000);
}

static void fifty_times_at_most(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_answer(refund(text("R%d", i).p, 1), 200, NULL);
        env_test_advance(&world, 60000);
    }
    assert_answer(refund("R50", 1), 400, "INVALID_REQUEST");
    assert_int_equal(trade("PAID000001").refunded_fen, 50);
}

static void the_balance_may_not_be_enough(void **state)
{
    (void)state;
    static const char out[] = "{\"mchid\":\"" MCHID "\",\"amount\":9000}";
    static const char back[] = "{\"mchid\":\"" MCHID "\",\"amount\":-9000}";
    assert_int_equal(plain_call("POST", "/sandbox/v1/withdraw", out, NULL).status, 204);
    assert_answer(refund("R1", 1001), 403, "NOT_ENOUGH");
    assert_int_equal(plain_call("POST", "/sandbox/v1/withdraw", back, NULL).status, 204);
    assert_answer(refund("R1", 1001), 200, NULL); /* the same number after topping up */
}

static void accepted_in_spite_of_429(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) {
        .fault = FAULT_HTTP_429_DONE, .call = STR("refund"), .times = 1 });
    assert_answer(refund("R1", 500), 429, "FREQUENCY_LIMITED");
    assert_int_equal(trade("PAID000001").refunded_fen, 500);
    assert_answer(query_refund("R1"), 200, NULL);
}

static void other_ends(void **state)
{
    (void)state;
    static const struct {
        enum sandbox_fault fault;
        const char *status, *event;
        int64_t refunded_fen;
    } rows[] = {
        { FAULT_REFUND_STUCK, "PROCESSING", NULL, 100 },
        { FAULT_REFUND_CLOSED, "CLOSED", "REFUND.CLOSED", 100 },
        { FAULT_REFUND_ABNORMAL, "ABNORMAL", "REFUND.ABNORMAL", 200 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str no = text("R%zu", i);
        size_t before = box.count;
        fault((struct sandbox_fault_rule) { .fault = rows[i].fault, .times = 1 });
        assert_answer(refund(no.p, 100), 200, NULL);
        env_test_advance(&world, 60000);
        sandbox_turn(sandbox);
        assert_str(member(query_refund(no.p).body, "status"), rows[i].status);
        assert_int_equal(box.count - before, rows[i].event ? 1 : 0);
        if (rows[i].event) {
            assert_str(member(box.got[before].body, "event_type"), rows[i].event);
            assert_str(member(opened(before), "refund_status"), rows[i].status);
            assert_str(member(opened(before), "success_time"), "");
        }
        assert_int_equal(trade("PAID000001").refunded_fen, rows[i].refunded_fen);
        assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 10000 - rows[i].refunded_fen);
    }
}

/* The books age by themselves: nobody needs to ask for the refund first. */
static void a_closed_refund_gives_the_money_back_unasked(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_REFUND_CLOSED, .times = 1 });
    assert_answer(refund("R1", 100), 200, NULL);
    env_test_advance(&world, 60000);
    assert_int_equal(trade("PAID000001").refunded_fen, 0);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 10000);
}

static void given_back_by_hand(void **state)
{
    struct err_info info = { 0 };
    struct sandbox_refund *all, one;
    (void)state;
    assert_int_equal(sandbox_refund_by_hand(sandbox, STR("PAID000001"), 4000, &info), ERR_OK);
    assert_int_equal(sandbox_refund_by_hand(sandbox, STR("PAID000001"), 6001, &info), ERR_CONFLICT);
    assert_int_equal(sandbox_refund_by_hand(sandbox, STR("NOBODY00001"), 1, &info), ERR_NOT_FOUND);
    env_test_advance(&world, 3000);
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_str(box.got[1].url, NOTIFY); /* the trade's own */
    assert_str(member(opened(1), "amount.refund"), "4000");
    assert_int_equal(sandbox_refunds(sandbox, arena, &all), 1);
    assert_str(all[0].state, "SUCCESS");
    assert_int_equal(sandbox_refund_get(sandbox, all[0].out_refund_no, arena, &one), ERR_OK);
    assert_int_equal(one.amount_fen, 4000);
    assert_int_equal(sandbox_refund_get(sandbox, STR("R9"), arena, &one), ERR_NOT_FOUND);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 6000);
}

/* Overtaken or not, it is not told before it has come to its end. */
static void reordered_not_before_its_end(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_REORDER, .times = 1 });
    assert_answer(refund("R1", 100), 200, NULL);
    assert_answer(prepay("PAID000002", 1), 200, NULL);
    pay("PAID000002");
    assert_int_equal(sandbox_turn(sandbox), 1);
    env_test_advance(&world, 3000);
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_str(member(opened(2), "refund_status"), "SUCCESS");
}

static void stuck_until_it_goes_on(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_REFUND_STUCK, .times = 1 });
    assert_answer(refund("R1", 100), 200, NULL);
    env_test_advance(&world, 3600000);
    assert_str(member(query_refund("R1").body, "status"), "PROCESSING");
    assert_int_equal(sandbox_turn(sandbox), 0);
    sandbox_refunds_go_on(sandbox);
    env_test_advance(&world, 3000);
    assert_str(member(query_refund("R1").body, "status"), "SUCCESS");
    assert_int_equal(sandbox_turn(sandbox), 1);
}

static void unseen_in_its_first_minute(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_REFUND_UNSEEN });
    assert_answer(refund("R1", 100), 200, NULL);
    assert_answer(query_refund("R1"), 404, "RESOURCE_NOT_EXISTS");
    assert_answer(refund("R1", 100), 200, NULL);
    env_test_advance(&world, 60000);
    assert_str(member(query_refund("R1").body, "status"), "SUCCESS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accepted_then_done, begin_paid, end),
        cmocka_unit_test_setup_teardown(the_same_number_is_the_same_refund, begin_paid, end),
        cmocka_unit_test_setup_teardown(rules_that_refuse, begin_paid, end),
        cmocka_unit_test_setup_teardown(fifty_times_at_most, begin_paid, end),
        cmocka_unit_test_setup_teardown(the_balance_may_not_be_enough, begin_paid, end),
        cmocka_unit_test_setup_teardown(accepted_in_spite_of_429, begin_paid, end),
        cmocka_unit_test_setup_teardown(other_ends, begin_paid, end),
        cmocka_unit_test_setup_teardown(given_back_by_hand, begin_paid, end),
        cmocka_unit_test_setup_teardown(reordered_not_before_its_end, begin_paid, end),
        cmocka_unit_test_setup_teardown(stuck_until_it_goes_on, begin_paid, end),
        cmocka_unit_test_setup_teardown(unseen_in_its_first_minute, begin_paid, end),
        cmocka_unit_test_setup_teardown(a_closed_refund_gives_the_money_back_unasked, begin_paid,
                                        end),
    };
    return RUN_TESTS(tests);
}
