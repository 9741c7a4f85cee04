/* Calls that go wrong on demand: what the caller sees, and whether the work was done. */
#include "sandbox_testing.h"

#include "sandbox/internal.h"

static struct http_reply prepay_under(struct sandbox_fault_rule rule)
{
    rule.times = 1;
    fault(rule);
    return prepay("FAULT00001", 8800);
}

static bool known(void)
{
    struct sandbox_trade t;
    return sandbox_trade_get(sandbox, STR("FAULT00001"), arena, &t) == ERR_OK;
}

static void no_answer_with_the_work_done(void **state)
{
    (void)state;
    struct http_reply r = prepay_under(
        (struct sandbox_fault_rule) { .fault = FAULT_ANSWER_LOST, .call = STR("prepay") });
    assert_int_equal(r.outcome, HTTP_UNKNOWN);
    assert_true(known());
    assert_answer(prepay("FAULT00001", 8800), 200, NULL);
    assert_int_equal(trade("FAULT00001").prepays, 2);
}

static void no_answer_with_nothing_done(void **state)
{
    (void)state;
    struct http_reply r = prepay_under((struct sandbox_fault_rule) {
        .fault = FAULT_TIMEOUT, .call = STR("*"), .delay_ms = 10000 });
    assert_int_equal(r.outcome, HTTP_UNKNOWN);
    assert_int_equal(env_now_ms(&world.env), NOW_MS + 10000);
    assert_false(known());
    assert_answer(prepay("FAULT00001", 8800), 200, NULL);
}

static void not_sent_at_all(void **state)
{
    (void)state;
    struct http_reply r = prepay_under((struct sandbox_fault_rule) { .fault = FAULT_NOT_SENT });
    assert_int_equal(r.outcome, HTTP_NOT_SENT);
    assert_true(r.trouble.n > 0);
    assert_false(known());
}

static void refused_with_nothing_done(void **state)
{
    (void)state;
    static const struct {
        struct sandbox_fault_rule rule;
        int status;
        const char *code;
    } rows[] = {
        { { .fault = FAULT_HTTP_500 }, 500, "SYSTEM_ERROR" },
        { { .fault = FAULT_HTTP_429 }, 429, "FREQUENCY_LIMITED" },
        { { .fault = FAULT_ERROR, .code = STR_INIT("NO_AUTH"), .status = 403 }, 403, "NO_AUTH" },
        { { .fault = FAULT_ERROR, .code = STR_INIT("INVALID_REQUEST") }, 400, "INVALID_REQUEST" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_answer(prepay_under(rows[i].rule), rows[i].status, rows[i].code);
        assert_false(known());
    }
}

static void answers_that_prove_nothing(void **state)
{
    (void)state;
    struct http_reply r = prepay_under((struct sandbox_fault_rule) { .fault = FAULT_UNSIGNED });
    assert_int_equal(r.status, 200);
    assert_null(header(&r.headers, "Wechatpay-Signature").p);
    assert_null(header(&r.headers, "Wechatpay-Serial").p);
    assert_true(member(r.body, "code_url").n > 0);
    assert_true(known());

    r = prepay_under((struct sandbox_fault_rule) { .fault = FAULT_BAD_SIGNATURE });
    assert_int_equal(r.status, 200);
    assert_false(is_signed_by(&r.headers, r.body, platform_key));

    r = prepay_under((struct sandbox_fault_rule) { .fault = FAULT_GARBAGE });
    const struct json *j;
    assert_int_equal(r.status, 200);
    assert_true(is_signed_by(&r.headers, r.body, platform_key));
    assert_int_equal(json_parse(arena, r.body, &j, NULL), ERR_INVALID);

    fault((struct sandbox_fault_rule) { .fault = FAULT_GARBAGE, .call = STR("close"), .times = 1 });
    r = close_call("FAULT00001");
    assert_int_equal(r.status, 200); /* instead of 204 */
    assert_int_equal(json_parse(arena, r.body, &j, NULL), ERR_INVALID);
    assert_str(trade("FAULT00001").state, "CLOSED");
}

static void paid_while_it_was_closed(void **state)
{
    (void)state;
    assert_answer(prepay("FAULT00001", 1), 200, NULL);
    assert_answer(close_call("FAULT00001"), 204, NULL);
    assert_int_equal(sandbox_pay(sandbox, STR("FAULT00001"), NULL), ERR_CONFLICT);
    fault((struct sandbox_fault_rule) { .fault = FAULT_PAY_CLOSED, .times = 1 });
    assert_ok(sandbox_pay(sandbox, STR("FAULT00001"), NULL));
    assert_str(trade("FAULT00001").state, "SUCCESS");
    assert_int_equal(sandbox_pay(sandbox, STR("FAULT00001"), NULL), ERR_CONFLICT);
}

static void rules_choose_their_calls(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_HTTP_500, .call = STR("query") });
    fault((struct sandbox_fault_rule) {
        .fault = FAULT_HTTP_429, .call = STR("*"), .mchid = STR("1900000002") });
    assert_answer(prepay("FAULT00001", 1), 200, NULL);
    assert_answer(query("FAULT00001"), 500, NULL);
    assert_answer(query("FAULT00001"), 500, NULL); /* times 0: it stays */
    assert_answer(close_call("FAULT00001"), 204, NULL);
    struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
    c.mchid = STR("1900000002");
    assert_int_equal(exchange_call(&c).status, 429);
    sandbox_clear_faults(sandbox);
    assert_answer(query("FAULT00001"), 200, NULL);
    assert_answer(exchange_call(&c), 200, NULL);
}

static void rules_count_down_one_after_the_other(void **state)
{
    (void)state;
    fault((struct sandbox_fault_rule) { .fault = FAULT_ERROR, .code = STR("NO_AUTH"), .times = 2 });
    fault((struct sandbox_fault_rule) {
        .fault = FAULT_ERROR, .code = STR("RULE_LIMIT"), .times = 1 });
    assert_answer(prepay("FAULT00001", 1), 400, "NO_AUTH");
    assert_answer(prepay("FAULT00001", 1), 400, "NO_AUTH");
    assert_answer(prepay("FAULT00001", 1), 400, "RULE_LIMIT");
    assert_answer(prepay("FAULT00001", 1), 200, NULL);
}

static int failures_of_1000(uint64_t seed)
{
    struct sandbox_options o = {
        .env = &world.env, .wechat_count = 1, .manual = true, .seed = seed
    };
    struct sandbox *ours = sandbox;
    int failed = 0;
    o.wechat[0] = test_account();
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    fault((struct sandbox_fault_rule) { .fault = FAULT_HTTP_500, .percent = 30 });
    for (int i = 0; i < 1000; i++) { /* unauthenticated calls: refused either way, and quick */
        struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
        c.authorization = STR("none");
        failed += exchange_call(&c).status == 500;
    }
    sandbox_free(sandbox);
    sandbox = ours;
    return failed;
}

static void probability_comes_from_the_seed(void **state)
{
    (void)state;
    int first = failures_of_1000(1), other = failures_of_1000(2);
    assert_in_range(first, 240, 360);
    assert_int_equal(failures_of_1000(1), first);
    assert_in_range(other, 240, 360);
}

/* Every example of docs/sandbox.md is taken, and no fault is without one. */
static void the_documented_rules(void **state)
{
    (void)state;
    static char docs[32768];
    FILE *f = fopen(FENPAY_SOURCE_ROOT "/docs/sandbox.md", "re");
    assert_non_null(f);
    size_t n = fread(docs, 1, sizeof docs - 1, f), found = 0;
    fclose(f);
    docs[n] = '\0';
    bool named[SANDBOX_FAULTS] = { false };
    for (const char *at = docs; (at = strstr(at, "'{\"fault\":")); found++) {
        const char *end = strchr(++at, '\'');
        assert_non_null(end);
        struct str rule = str_dup(arena, (struct str) { at, (size_t)(end - at) });
        enum sandbox_fault fault;
        assert_int_equal(plain_call("POST", "/sandbox/v1/faults", rule.p, NULL).status, 204);
        assert_true(sandbox_fault_of_name(member(rule, "fault"), &fault));
        named[fault] = true;
    }
    for (size_t i = 0; i < SANDBOX_FAULTS; i++)
        if (!named[i])
            fail_msg("docs/sandbox.md has no example of %s",
                     sandbox_fault_name((enum sandbox_fault)i));
    assert_int_equal(found, SANDBOX_FAULTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_documented_rules, begin, end),
        cmocka_unit_test_setup_teardown(no_answer_with_the_work_done, begin, end),
        cmocka_unit_test_setup_teardown(no_answer_with_nothing_done, begin, end),
        cmocka_unit_test_setup_teardown(not_sent_at_all, begin, end),
        cmocka_unit_test_setup_teardown(refused_with_nothing_done, begin, end),
        cmocka_unit_test_setup_teardown(answers_that_prove_nothing, begin, end),
        cmocka_unit_test_setup_teardown(paid_while_it_was_closed, begin, end),
        cmocka_unit_test_setup_teardown(rules_choose_their_calls, begin, end),
        cmocka_unit_test_setup_teardown(rules_count_down_one_after_the_other, begin, end),
        cmocka_unit_test_setup_teardown(probability_comes_from_the_seed, begin, end),
    };
    return RUN_TESTS(tests);
}
