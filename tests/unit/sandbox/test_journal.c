/* The books' file: what one sandbox knew, the next one goes on with. */
#include "sandbox_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64], path[80];

static void open_again(struct str file)
{
    sandbox_free(sandbox);
    sandbox = NULL;
    struct sandbox_options o = { .env = &world.env,
                                 .wechat_count = 2,
                                 .callbacks = &box.transport,
                                 .manual = true,
                                 .path = file };
    o.wechat[0] = o.wechat[1] = test_account();
    o.wechat[1].mchid = STR("1900000002");
    struct err_info info = { 0 };
    enum err e = sandbox_new(&o, &sandbox, &info);
    if (e)
        print_error("%s\n", info.text);
    assert_ok(e);
}

static void restart(void)
{
    open_again(str_of(path));
}

static int begin_kept(void **state)
{
    begin(state);
    strcpy(folder, "/tmp/fenpay-sandbox-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/sandbox.jsonl", folder);
    restart();
    return 0;
}

static int end_kept(void **state)
{
    unlink(path);
    rmdir(folder);
    return end(state);
}

static void every_state_survives(void **state)
{
    (void)state;
    assert_answer(prepay("OPEN000001", 100), 200, NULL);
    assert_answer(prepay("PAID000001", 200), 200, NULL);
    assert_answer(prepay("SHUT000001", 300), 200, NULL);
    assert_answer(prepay("BACK000001", 400), 200, NULL);
    pay("PAID000001");
    pay("BACK000001");
    sandbox_turn(sandbox);
    assert_answer(close_call("SHUT000001"), 204, NULL);
    const char *refund = "{\"out_trade_no\":\"BACK000001\",\"out_refund_no\":\"R1\",\"amount\":{"
                         "\"refund\":150,\"total\":400,\"currency\":\"CNY\"}}";
    struct http_reply first = call("POST", "/v3/refund/domestic/refunds", refund);
    assert_answer(first, 200, NULL);
    struct sandbox_trade before = trade("PAID000001");

    restart();
    assert_str(trade("OPEN000001").state, "NOTPAY");
    assert_str(trade("SHUT000001").state, "CLOSED");
    assert_str(trade("BACK000001").state, "REFUND");
    assert_int_equal(trade("BACK000001").refunded_fen, 150);
    struct sandbox_trade after = trade("PAID000001");
    assert_str(after.state, "SUCCESS");
    assert_true(str_eq(after.transaction_id, before.transaction_id));
    assert_int_equal(after.success_ms, before.success_ms);
    assert_int_equal(after.callbacks_acknowledged, 1);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 450);
    assert_str(member(query("PAID000001").body, "attach"), "a/b");
    assert_answer(call("GET",
                       text("/v3/pay/transactions/id/" STR_FMT "?mchid=" MCHID,
                            STR_ARG(before.transaction_id))
                           .p,
                       ""),
                  200, NULL);

    /* The same bytes are the same call, other bytes are another one. */
    assert_answer(prepay("OPEN000001", 100), 200, NULL);
    assert_answer(prepay("OPEN000001", 101), 403, "OUT_TRADE_NO_USED");
    struct http_reply again = call("POST", "/v3/refund/domestic/refunds", refund);
    assert_true(str_eq(member(again.body, "refund_id"), member(first.body, "refund_id")));
    env_test_advance(&world, 3000);
    assert_str(member(call("GET", "/v3/refund/domestic/refunds/R1", "").body, "status"), "SUCCESS");
}

static void paid_after_its_close(void **state)
{
    (void)state;
    prepay("SHUT000001", 300);
    assert_answer(close_call("SHUT000001"), 204, NULL);
    fault((struct sandbox_fault_rule) { .fault = FAULT_PAY_CLOSED });
    pay("SHUT000001");
    restart();
    assert_str(trade("SHUT000001").state, "SUCCESS");
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 300);
}

static void resends_go_on(void **state)
{
    (void)state;
    box.answer = 500;
    prepay("PAID000001", 200);
    pay("PAID000001");
    sandbox_turn(sandbox);
    env_test_advance(&world, 15000);
    sandbox_turn(sandbox);
    assert_int_equal(box.count, 2);

    restart();
    assert_int_equal(sandbox_next_ms(sandbox), NOW_MS + 30000);
    env_test_advance(&world, 15000);
    box.answer = 204;
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_true(str_eq(box.got[2].body, box.got[0].body));
    assert_int_equal(trade("PAID000001").callbacks_sent, 3);

    restart();
    assert_int_equal(sandbox_next_ms(sandbox), 0);
}

static void a_callback_not_yet_sent_is_sent(void **state)
{
    (void)state;
    prepay("PAID000001", 200);
    pay("PAID000001");
    assert_answer(call("POST", "/v3/refund/domestic/refunds",
                       "{\"out_trade_no\":\"PAID000001\",\"out_refund_no\":\"R1\",\"notify_url\":"
                       "\"" NOTIFY "\",\"amount\":{\"refund\":200,\"total\":200,\"currency\":"
                       "\"CNY\"}}"),
                  200, NULL);
    restart();
    env_test_advance(&world, 3000);
    assert_int_equal(sandbox_turn(sandbox), 2);
    assert_str(member(box.got[0].body, "event_type"), "TRANSACTION.SUCCESS");
    assert_str(member(box.got[1].body, "event_type"), "REFUND.SUCCESS");
    restart();
    assert_int_equal(sandbox_next_ms(sandbox), 0);
}

/* Three starts in the same millisecond or with the clock put back, one of them without a file. */
static void ids_are_never_given_again(void **state)
{
    (void)state;
    struct str ids[4];
    const char *numbers[] = { "NUMBER0001", "NUMBER0002", "NUMBER0003", "NUMBER0004" };
    for (size_t i = 0; i < 4; i++) {
        prepay(numbers[i], 1);
        ids[i] = trade(numbers[i]).transaction_id;
        assert_int_equal(ids[i].n, 28);
        for (size_t k = 0; k < i; k++)
            assert_false(str_eq(ids[i], ids[k]));
        if (i == 1)
            env_test_advance(&world, -500);
        open_again(i == 2 ? STR_NONE : str_of(path));
        if (i == 2)
            env_test_advance(&world, 1);
    }
}

static void add_to_file(const char *bytes)
{
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    fputs(bytes, f);
    fclose(f);
}

static void a_torn_last_line_is_cut_off(void **state)
{
    (void)state;
    prepay("OPEN000001", 100);
    add_to_file("{\"what\":\"paid\",\"mchid\":\"19");
    restart();
    assert_str(trade("OPEN000001").state, "NOTPAY");
    pay("OPEN000001"); /* written where the torn line began */
    restart();
    assert_str(trade("OPEN000001").state, "SUCCESS");
}

static enum err open_kept(struct str file, struct err_info *info)
{
    struct sandbox *other;
    struct sandbox_options o = {
        .env = &world.env, .wechat_count = 1, .manual = true, .path = file
    };
    o.wechat[0] = test_account();
    enum err e = sandbox_new(&o, &other, info);
    if (!e)
        sandbox_free(other);
    return e;
}

static void books_with_a_hole_refuse_the_start(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "nonsense\n",
        "{\"what\":\"paid\",\"mchid\":\"" MCHID "\",\"out_trade_no\":\"NOBODY0001\",\"taken\":1,"
        "\"at_ms\":1,\"callback_ms\":1}\n",
        "{\"what\":\"closed\",\"mchid\":\"1900000009\",\"out_trade_no\":\"OPEN000001\"}\n",
        "{\"what\":\"else\",\"mchid\":\"" MCHID "\"}\n",
    };
    struct err_info info = { 0 };
    for (size_t i = 0; i < COUNT(lines); i++) {
        unlink(path);
        restart();
        prepay("OPEN000001", 100);
        add_to_file(lines[i]);
        open_again(STR_NONE);
        assert_int_equal(open_kept(str_of(path), &info), ERR_INVALID);
        assert_non_null(strstr(info.text, "sandbox.jsonl: line 2"));
    }
}

static void two_do_not_share_a_file(void **state)
{
    (void)state;
    struct err_info info = { 0 };
    assert_int_equal(open_kept(str_of(path), &info), ERR_BUSY);
    assert_non_null(strstr(info.text, "another sandbox"));
}

static void keys_and_withdrawals_survive(void **state)
{
    (void)state;
    prepay("PAID000001", 200);
    pay("PAID000001");
    assert_int_equal(
        plain_call("POST", "/sandbox/v1/withdraw", "{\"mchid\":\"" MCHID "\",\"amount\":150}", NULL)
            .status,
        204);
    assert_ok(sandbox_rotate_certificate(sandbox, STR(MCHID), arena, NULL));
    sandbox_turn(sandbox);
    struct str serial = header(&box.got[0].headers, "Wechatpay-Serial");
    restart();
    prepay("PAID000002", 1);
    pay("PAID000002");
    sandbox_turn(sandbox);
    assert_true(str_eq(header(&box.got[1].headers, "Wechatpay-Serial"), serial));
    struct http_reply r = call("POST", "/v3/refund/domestic/refunds",
                               "{\"out_trade_no\":\"PAID000001\",\"out_refund_no\":\"R1\","
                               "\"amount\":{\"refund\":200,\"total\":200,\"currency\":\"CNY\"}}");
    assert_int_equal(r.status, 403);
    assert_str(member(r.body, "code"), "NOT_ENOUGH");

    assert_int_equal(plain_call("POST", "/sandbox/v1/key-mode",
                                "{\"mchid\":\"" MCHID "\",\"public_key\":true}", NULL)
                         .status,
                     204);
    restart();
    prepay("PAID000003", 1);
    pay("PAID000003");
    sandbox_turn(sandbox);
    assert_str(header(&box.got[2].headers, "Wechatpay-Serial"), KEY_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_state_survives, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(paid_after_its_close, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(resends_go_on, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(a_callback_not_yet_sent_is_sent, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(ids_are_never_given_again, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(a_torn_last_line_is_cut_off, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(books_with_a_hole_refuse_the_start, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(two_do_not_share_a_file, begin_kept, end_kept),
        cmocka_unit_test_setup_teardown(keys_and_withdrawals_survive, begin_kept, end_kept),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
