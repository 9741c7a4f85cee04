/* Calls against a scripted transport: what goes over the wire, and what every kind of answer
 * becomes. */
#include "channel_testing.h"

#include "base/json.h"

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_open(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static const char paid[] =
    "{\"mchid\":\"1900000109\",\"appid\":\"wxd678efh567hg6787\",\"out_trade_no\":\"PAY-0001\","
    "\"transaction_id\":"
    "\"4200\",\"trade_state\":\"SUCCESS\",\"trade_state_desc\":\"支付成功\",\"success_time\":"
    "\"2023-11-15T06:13:18+08:00\",\"payer\":{\"openid\":\"oSECRETopenid\"},\"amount\":{\"total\":"
    "4999,\"payer_total\":"
    "3999,\"currency\":\"CNY\",\"payer_currency\":\"CNY\"}}";
static const char refund_done[] =
    "{\"refund_id\":\"5030\",\"out_refund_no\":\"REF-0001\",\"transaction_id\":\"4200\",\"out_"
    "trade_no\":\"PAY-0001\","
    "\"user_received_account\":\"招商银行信用卡0403\",\"success_time\":\"2023-11-15T06:20:00+08:"
    "00\",\"status\":"
    "\"SUCCESS\",\"amount\":{\"total\":4999,\"refund\":1500,\"currency\":\"CNY\"}}";

static const struct channel_request prepay_request = {
    STR_INIT("/v3/pay/transactions/native"),
    STR_INIT("{\"out_trade_no\":\"PAY-0001\",\"payer\":{\"openid\":\"oSECRETopenid\"}}"),
};
static const struct channel_request refund_request = {
    STR_INIT("/v3/refund/domestic/refunds"),
    STR_INIT("{\"out_trade_no\":\"PAY-0001\",\"out_refund_no\":\"REF-0001\"}"),
};

static void call(struct arena *a, struct scripted *s, enum wechat_op op, struct channel_answer *ret)
{
    const struct channel_driver *driver = w.account->info->driver;
    struct channel_ctx ctx = { .env = &w.env.env, .transport = &s->transport, .arena = a };
    switch (op) {
    case WECHAT_PREPAY:
        driver->prepay(w.account, &ctx, METHOD_NATIVE, &prepay_request, ret);
        break;
    case WECHAT_QUERY:
        driver->query(w.account, &ctx, STR("PAY-0001"), ret);
        break;
    case WECHAT_CLOSE:
        driver->close(w.account, &ctx, STR("PAY-0001"), ret);
        break;
    case WECHAT_REFUND:
        driver->refund(w.account, &ctx, &refund_request, ret);
        break;
    case WECHAT_QUERY_REFUND:
        driver->query_refund(w.account, &ctx, STR("REF-0001"), ret);
        break;
    case WECHAT_CERTIFICATES:
    case WECHAT_BILL:
        fail();
    }
}

static const struct good {
    enum wechat_op op;
    const char *method, *url;
    int status;
    const char *answer;
    enum fact_kind fact;
} goods[] = {
    { WECHAT_PREPAY, "POST", "https://api.mch.weixin.qq.com/v3/pay/transactions/native", 200,
      "{\"code_url\":\"weixin://wxpay/bizpayurl?pr=p4lpSuKzz\"}", FACT_ACCEPTED },
    { WECHAT_QUERY, "GET",
      "https://api.mch.weixin.qq.com/v3/pay/transactions/out-trade-no/PAY-0001?mchid=1900000109",
      200, paid, FACT_PAID },
    { WECHAT_CLOSE, "POST",
      "https://api.mch.weixin.qq.com/v3/pay/transactions/out-trade-no/PAY-0001/close", 204, "",
      FACT_SHUT },
    { WECHAT_REFUND, "POST", "https://api.mch.weixin.qq.com/v3/refund/domestic/refunds", 200,
      refund_done, FACT_REFUND_DONE },
    { WECHAT_QUERY_REFUND, "GET",
      "https://api.mch.weixin.qq.com/v3/refund/domestic/refunds/REF-0001", 200, refund_done,
      FACT_REFUND_DONE },
};
#define GOODS (sizeof goods / sizeof goods[0])

/* The wire's Authorization verifies over the wire's own bytes, and nothing secret gets into the
 * copies. */
static void check_wire(struct arena *a, const struct scripted *s, const struct good *good)
{
    struct str auth = http_header_get(&s->call.headers, "Authorization", NULL), rest = auth;
    assert_true(
        str_starts(auth, STR("WECHATPAY2-SHA256-RSA2048 mchid=\"1900000109\",nonce_str=\"")));
    struct str item[5];
    (void)str_cut(&rest, ' ');
    for (size_t i = 0; i < 5; i++) {
        struct str pair = str_cut(&rest, ',');
        (void)str_cut(&pair, '"');
        item[i] = str_cut(&pair, '"');
    }
    assert_null(rest.p);
    assert_str(item[2], "1700000000");
    assert_str(item[3], "0C4AEF34B893");
    struct str path = str_sub(s->call.url, strlen("https://api.mch.weixin.qq.com"), s->call.url.n);
    struct str message =
        str_printf(a, "%s\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", good->method,
                   STR_ARG(path), STR_ARG(item[2]), STR_ARG(item[1]), STR_ARG(s->call.body));
    struct str signature;
    assert_int_equal(str_unbase64(a, item[4], &signature), ERR_OK);
    assert_int_equal(rsa_verify(w.merchant, message, signature), ERR_OK);

    assert_str(s->call.url, good->url);
    assert_string_equal(s->call.method, good->method);
    assert_str(http_header_get(&s->call.headers, "Accept", NULL), "application/json");
    assert_str(http_header_get(&s->call.headers, "User-Agent", NULL), "fenpay/" FENPAY_VERSION);
    assert_str(http_header_get(&s->call.headers, "Wechatpay-Serial", NULL), SERIAL);
    assert_true((s->call.body.p != NULL) == (strcmp(good->method, "POST") == 0));
    struct str type = http_header_get(&s->call.headers, "Content-Type", NULL);
    assert_true(s->call.body.p ? str_eq(type, STR("application/json")) : !type.p);
}

static void good_answers_become_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOODS; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        scripted_answer(&s, &w, goods[i].status, goods[i].answer, SIGN_GOOD);
        call(a, &s, goods[i].op, &answer);
        assert_int_equal(answer.outcome, CHANNEL_DONE);
        assert_int_equal(answer.class, CLASS_NONE);
        assert_int_equal(answer.fact_count, 1);
        assert_int_equal(answer.facts[0].kind, goods[i].fact);
        assert_true(answer.facts[0].ours);
        assert_int_equal(answer.took_us, 1234);
        assert_str(answer.channel_request_id, "08F78BB5AF06-268512771");
        check_wire(a, &s, &goods[i]);
        assert_false(contains(answer.request, "oSECRETopenid"));
        assert_false(contains(answer.answer, "oSECRETopenid"));
        assert_false(contains(answer.answer, "招商银行"));
        assert_true(contains(answer.request, goods[i].method));
    }
}

static void facts_carry_what_the_channel_said(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct scripted s;
    struct channel_answer answer;
    scripted_answer(&s, &w, 200, paid, SIGN_GOOD);
    call(a, &s, WECHAT_QUERY, &answer);
    const struct fact *f = &answer.facts[0];
    assert_str(f->pay_no, "PAY-0001");
    assert_str(f->transaction_id, "4200");
    assert_str(f->payer, "oSECRETopenid");
    assert_int_equal(money_fen(f->amount), 4999);
    assert_int_equal(money_fen(f->payer_amount), 3999);
    assert_int_equal(money_fen(f->channel_discount), 1000);
    assert_int_equal(f->time_ms, 1700000000000 - 2000 + 0);

    scripted_answer(&s, &w, 200, refund_done, SIGN_GOOD);
    call(a, &s, WECHAT_QUERY_REFUND, &answer);
    assert_str(answer.facts[0].refund_no, "REF-0001");
    assert_str(answer.facts[0].channel_refund_id, "5030");
    assert_int_equal(money_fen(answer.facts[0].amount), 1500);

    scripted_answer(&s, &w, 200, goods[0].answer, SIGN_GOOD);
    call(a, &s, WECHAT_PREPAY, &answer);
    assert_str(answer.credentials, goods[0].answer);
    assert_int_equal(answer.credential_expire_ms, NOW_MS + 2 * 3600 * 1000);
}

/* A 2xx that does not verify is never believed, and never a refusal. */
static void unverifiable_successes_are_unknown(void **state)
{
    (void)state;
    static const enum sign_mode modes[] = { SIGN_NONE, SIGN_WRONG, SIGN_UNKNOWN_SERIAL, SIGN_STALE,
                                            SIGN_PROBE };
    for (size_t i = 0; i < GOODS; i++) {
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
            ARENA_AUTO a = arena_new(65536);
            struct scripted s;
            struct channel_answer answer;
            scripted_answer(&s, &w, goods[i].status, goods[i].answer, modes[m]);
            call(a, &s, goods[i].op, &answer);
            assert_int_equal(answer.outcome, CHANNEL_UNKNOWN);
            assert_int_equal(answer.class, CLASS_NONE);
            assert_int_equal(answer.fact_count, 0);
            assert_int_equal(answer.unknown_key, modes[m] == SIGN_UNKNOWN_SERIAL);
            assert_true(answer.message.n > 0);
        }
    }
}

/* Verified, but not what was asked for. */
static void odd_successes_are_unknown(void **state)
{
    (void)state;
    static const struct {
        enum wechat_op op;
        const char *body;
    } odd[] = {
        { WECHAT_PREPAY, "{}" },
        { WECHAT_PREPAY, "" },
        { WECHAT_PREPAY, "<html>" },
        { WECHAT_PREPAY, "{\"prepay_id\":\"wx20\"}" }, /* not Native's */
        { WECHAT_PREPAY, "{\"code_url\":\"\"}" },
        { WECHAT_QUERY, "[]" },
        { WECHAT_QUERY, "{\"out_trade_no\":\"PAY-0001\"}" },
        { WECHAT_QUERY, "{\"out_trade_no\":\"PAY-0002\",\"trade_state\":\"CLOSED\"}" },
        { WECHAT_QUERY, "{\"out_trade_no\":\"PAY-0001\",\"trade_state\":\"SUCCESS\",\"transaction_"
                        "id\":\"4200\"}" },
        { WECHAT_QUERY, "{\"out_trade_no\":\"PAY-0001\",\"trade_state\":\"SUCCESS\",\"transaction_"
                        "id\":\"4200\",\"amount\":{\"total\":"
                        "49.99}}" },
        { WECHAT_QUERY, "{\"out_trade_no\":\"PAY-0001\",\"trade_state\":\"SUCCESS\",\"amount\":{"
                        "\"total\":4999}}" },
        { WECHAT_REFUND,
          "{\"out_refund_no\":\"REF-0002\",\"status\":\"SUCCESS\",\"amount\":{\"refund\":1}}" },
        { WECHAT_REFUND, "{\"out_refund_no\":\"REF-0001\",\"refund_status\":\"SUCCESS\",\"amount\":"
                         "{\"refund\":1}}" },
        { WECHAT_QUERY_REFUND,
          "{\"out_refund_no\":\"REF-0001\",\"status\":\"SUCCESS\",\"amount\":{\"refund\":-1}}" },
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        scripted_answer(&s, &w, 200, odd[i].body, SIGN_GOOD);
        call(a, &s, odd[i].op, &answer);
        if (answer.outcome != CHANNEL_UNKNOWN || answer.fact_count)
            fail_msg("%s: outcome %d", odd[i].body, (int)answer.outcome);
    }
}

static void states_become_facts(void **state)
{
    (void)state;
    static const struct {
        const char *state;
        enum fact_kind fact;
    } states[] = {
        { "SUCCESS", FACT_PAID },          { "REFUND", FACT_PAID },
        { "CLOSED", FACT_SHUT },           { "REVOKED", FACT_SHUT },
        { "NOTPAY", FACT_NOTHING },        { "USERPAYING", FACT_NOTHING },
        { "ACCEPT", FACT_NOTHING },        { "PAYERROR", FACT_PAY_FAILED },
        { "SOMETHING_NEW", FACT_NOTHING },
    };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        struct str body = str_printf(
            a,
            "{\"mchid\":\"1900000109\",\"appid\":\"wx-of-another\",\"out_trade_no\":\"PAY-0001\","
            "\"transaction_id\":\"4200\",\"trade_state\":\"%s\",\"amount\":{\"total\":1}}",
            states[i].state);
        scripted_answer(&s, &w, 200, str_cstr(a, body), SIGN_GOOD);
        call(a, &s, WECHAT_QUERY, &answer);
        assert_int_equal(answer.outcome, CHANNEL_DONE);
        assert_int_equal(answer.facts[0].kind, states[i].fact);
        assert_false(answer.facts[0].ours);
        assert_str(answer.code, states[i].state);
    }
    static const struct {
        const char *state;
        enum fact_kind created, queried;
    } refunds[] = {
        { "PROCESSING", FACT_REFUND_ACCEPTED, FACT_REFUND_ACCEPTED },
        { "SUCCESS", FACT_REFUND_DONE, FACT_REFUND_DONE },
        { "CLOSED", FACT_REFUND_CLOSED, FACT_REFUND_CLOSED },
        { "ABNORMAL", FACT_REFUND_ABNORMAL, FACT_REFUND_ABNORMAL },
        { "SOMETHING_NEW", FACT_REFUND_ACCEPTED, FACT_NOTHING },
    };
    for (size_t i = 0; i < sizeof refunds / sizeof refunds[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        struct str body = str_printf(
            a, "{\"out_refund_no\":\"REF-0001\",\"status\":\"%s\",\"amount\":{\"refund\":1}}",
            refunds[i].state);
        scripted_answer(&s, &w, 200, str_cstr(a, body), SIGN_GOOD);
        call(a, &s, WECHAT_REFUND, &answer);
        assert_int_equal(answer.facts[0].kind, refunds[i].created);
        call(a, &s, WECHAT_QUERY_REFUND, &answer);
        assert_int_equal(answer.facts[0].kind, refunds[i].queried);
    }
}

static void refusals_follow_the_table(void **state)
{
    (void)state;
    static const struct {
        enum wechat_op op;
        int status;
        const char *body;
        enum channel_outcome outcome;
        enum channel_class class;
        bool not_exist;
    } cases[] = {
        { WECHAT_QUERY, 404, "{\"code\":\"ORDER_NOT_EXIST\",\"message\":\"订单不存在\"}",
          CHANNEL_REFUSED, CLASS_FINAL, true },
        { WECHAT_QUERY, 404, "", CHANNEL_REFUSED, CLASS_ACCOUNT, false },
        { WECHAT_QUERY, 404, "<html>404</html>", CHANNEL_REFUSED, CLASS_ACCOUNT, false },
        { WECHAT_PREPAY, 401, "{\"code\":\"SIGN_ERROR\",\"message\":\"sign error\"}",
          CHANNEL_REFUSED, CLASS_ACCOUNT, false },
        { WECHAT_PREPAY, 202, "{}", CHANNEL_REFUSED, CLASS_RETRY, false },
        { WECHAT_PREPAY, 302, "", CHANNEL_UNKNOWN, CLASS_NONE, false },
        { WECHAT_PREPAY, 500, "{\"code\":\"SYSTEM_ERROR\"}", CHANNEL_UNKNOWN, CLASS_NONE, false },
        { WECHAT_REFUND, 403, "{\"code\":\"NOT_ENOUGH\"}", CHANNEL_REFUSED, CLASS_PERSON, false },
        { WECHAT_REFUND, 429, "{\"code\":\"FREQUENCY_LIMITED\"}", CHANNEL_UNKNOWN, CLASS_NONE,
          false },
        { WECHAT_CLOSE, 400, "{\"code\":\"ORDERPAID\"}", CHANNEL_REFUSED, CLASS_QUERY, false },
        { WECHAT_QUERY_REFUND, 404, "{\"code\":\"RESOURCE_NOT_EXISTS\"}", CHANNEL_REFUSED,
          CLASS_FINAL, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        scripted_answer(&s, &w, cases[i].status, cases[i].body, SIGN_NONE);
        call(a, &s, cases[i].op, &answer);
        assert_int_equal(answer.outcome, cases[i].outcome);
        assert_int_equal(answer.class, cases[i].class);
        assert_int_equal(answer.not_exist, cases[i].not_exist);
        assert_int_equal(answer.http_status, cases[i].status);
        assert_int_equal(answer.fact_count, 0);
        assert_true(answer.message.n > 0);
    }
}

static void detail_names_the_field(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct scripted s;
    struct channel_answer answer;
    scripted_answer(&s, &w, 400,
                    "{\"code\":\"PARAM_ERROR\",\"message\":\"bad\",\"detail\":{\"field\":\"/amount/"
                    "total\",\"value\":\"0\"}}",
                    SIGN_NONE);
    call(a, &s, WECHAT_PREPAY, &answer);
    assert_str(answer.code, "PARAM_ERROR");
    assert_str(answer.message, "bad (/amount/total)");
}

static void broken_wires(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOODS; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct scripted s;
        struct channel_answer answer;
        scripted_answer(&s, &w, 200, "", SIGN_NONE);
        s.outcome = HTTP_NOT_SENT;
        call(a, &s, goods[i].op, &answer);
        assert_int_equal(answer.outcome, CHANNEL_REFUSED);
        assert_int_equal(answer.class, CLASS_RETRY);
        assert_int_equal(answer.http_status, 0);
        s.outcome = HTTP_UNKNOWN;
        call(a, &s, goods[i].op, &answer);
        assert_int_equal(answer.outcome, CHANNEL_UNKNOWN);
        assert_str(answer.message, "the wire broke");
        assert_int_equal(s.calls, 2);
    }
}

static void paths_are_encoded_once_and_signed_so(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct scripted s;
    struct channel_answer answer;
    struct channel_ctx ctx = { .env = &w.env.env, .transport = &s.transport, .arena = a };
    scripted_answer(&s, &w, 404, "", SIGN_NONE);
    wechat_query(w.account, &ctx, STR("A|B*C_1-2"), &answer);
    assert_str(s.call.url, "https://api.mch.weixin.qq.com/v3/pay/transactions/out-trade-no/"
                           "A%7CB%2AC_1-2?mchid=1900000109");
    wechat_query_refund(w.account, &ctx, STR("../x?y@z"), &answer);
    assert_str(s.call.url,
               "https://api.mch.weixin.qq.com/v3/refund/domestic/refunds/..%2Fx%3Fy%40z");
}

static void masks(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    static const char *const cases[][2] = {
        { "{\"payer\":{\"openid\":\"oUpF8\"},\"a\":1}",
          "{\"payer\":{\"openid\":\"***\"},\"a\":1}" },
        { "{ \"openid\" : \"o\\\"x\" , \"b\":2}", "{ \"openid\" : \"***\" , \"b\":2}" },
        { "{\"openid\":\"cut off", "{\"openid\":\"***" },
        { "{\"openid\":null}", "{\"openid\":null}" },
        { "{\"openid\"", "{\"openid\"" },
        { "{\"openid\":\"ends in a backslash\\", "{\"openid\":\"***" },
        { "", "" },
        { "<html>", "<html>" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_str(wechat_masked_body(a, str_of(cases[i][0])), cases[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_answers_become_facts),
        cmocka_unit_test(facts_carry_what_the_channel_said),
        cmocka_unit_test(unverifiable_successes_are_unknown),
        cmocka_unit_test(odd_successes_are_unknown),
        cmocka_unit_test(states_become_facts),
        cmocka_unit_test(refusals_follow_the_table),
        cmocka_unit_test(detail_names_the_field),
        cmocka_unit_test(broken_wires),
        cmocka_unit_test(paths_are_encoded_once_and_signed_so),
        cmocka_unit_test(masks),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
