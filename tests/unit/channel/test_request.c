/* The bodies we send, and what the client gets. */
#include "channel_testing.h"

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

static struct money cny(int64_t fen)
{
    struct money m;
    assert_int_equal(money_of(fen, STR("CNY"), &m), ERR_OK);
    return m;
}

static struct prepay good(enum pay_method method)
{
    return (struct prepay) {
        .method = method,
        .pay_no = STR("P20231115000000000001"),
        .amount = cny(8800),
        .description = STR("保温杯 红色"),
        .payer = STR("oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"),
        .client_ip = STR("203.0.113.7"),
        .expire_ms = NOW_MS + 15 * 60000,
    };
}

#define HEAD                                                                                       \
    "{\"appid\":\"wxd678efh567hg6787\",\"mchid\":\"1900000109\",\"description\":\"保温杯 "      \
    "红色\",\"out_trade_no\":"                                                                   \
    "\"P20231115000000000001\",\"time_expire\":\"2023-11-15T06:28:20+08:00\",\"notify_url\":"      \
    "\"https://pay.example.com/notify/wx-main\",\"amount\":{\"total\":8800,\"currency\":\"CNY\"}"

static void exact_bodies(void **state)
{
    (void)state;
    static const struct {
        enum pay_method method;
        const char *endpoint, *body;
    } cases[] = {
        { METHOD_NATIVE, "/v3/pay/transactions/native", HEAD "}" },
        { METHOD_APP, "/v3/pay/transactions/app", HEAD "}" },
        { METHOD_JSAPI, "/v3/pay/transactions/jsapi",
          HEAD ",\"payer\":{\"openid\":\"oUpF8uMuAJO_M2pxb1Q9zNjWeS6o\"}}" },
        { METHOD_H5, "/v3/pay/transactions/h5",
          HEAD
          ",\"scene_info\":{\"payer_client_ip\":\"203.0.113.7\",\"h5_info\":{\"type\":\"Wap\"}}}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct prepay p = good(cases[i].method);
        struct channel_request r;
        assert_int_equal(wechat_prepay_build(w.account, &p, a, &r, NULL), ERR_OK);
        assert_str(r.endpoint, cases[i].endpoint);
        assert_str(r.body, cases[i].body);
    }
    ARENA_AUTO a = arena_new(65536);
    struct channel_request r;
    struct refund_request refund = { .pay_no = STR("P20231115000000000001"),
                                     .refund_no = STR("R20231115000000000001"),
                                     .amount = cny(1500),
                                     .total = cny(8800),
                                     .reason = STR("退货😀") };
    assert_int_equal(wechat_refund_build(w.account, &refund, a, &r, NULL), ERR_OK);
    assert_str(r.endpoint, "/v3/refund/domestic/refunds");
    assert_str(r.body, "{\"out_trade_no\":\"P20231115000000000001\",\"out_refund_no\":"
                       "\"R20231115000000000001\",\"reason\":"
                       "\"退货\",\"notify_url\":\"https://pay.example.com/notify/"
                       "wx-main\",\"amount\":{\"refund\":1500,"
                       "\"total\":8800,\"currency\":\"CNY\"}}");

    /* money that stands at the channel under a number that is none of ours */
    refund.pay_no = STR_NONE;
    refund.transaction_id = STR("4200000001");
    assert_int_equal(wechat_refund_build(w.account, &refund, a, &r, NULL), ERR_OK);
    assert_true(contains(r.body, "{\"transaction_id\":\"4200000001\",\"out_refund_no\":"));
    assert_false(contains(r.body, "out_trade_no"));
}

static void refuse(struct prepay p, const char *field)
{
    ARENA_AUTO a = arena_new(65536);
    struct channel_request r = { 0 };
    struct err_info info = { 0 };
    assert_int_equal(wechat_prepay_build(w.account, &p, a, &r, &info), ERR_INVALID);
    assert_string_equal(info.field, field);
    assert_null(r.body.p);
}

static void refused_fields_are_named(void **state)
{
    (void)state;
    struct prepay p = good(METHOD_NATIVE);
    p.pay_no = STR("P1234");
    refuse(p, "pay_no");
    p.pay_no = STR("P12345678901234567890123456789012");
    refuse(p, "pay_no");
    p.pay_no = STR("P123456.7");
    refuse(p, "pay_no");
    p = good(METHOD_NATIVE);
    p.amount = cny(0);
    refuse(p, "amount");
    p.amount = cny(-1);
    refuse(p, "amount");
    assert_int_equal(money_of(1, STR("USD"), &p.amount), ERR_OK);
    refuse(p, "amount");
    p = good(METHOD_JSAPI);
    p.payer = STR_NONE;
    refuse(p, "payer");
    p = good(METHOD_H5);
    p.client_ip = STR_NONE;
    refuse(p, "client_ip");

    ARENA_AUTO a = arena_new(65536);
    struct channel_request r;
    const struct {
        struct str refund_no;
        int64_t amount;
        enum err result;
    } refunds[] = { { STR_NONE, 1, ERR_INVALID },
                    { STR("R/1"), 1, ERR_INVALID },
                    { STR("R1"), 3, ERR_INVALID },
                    { STR("R1"), 0, ERR_INVALID },
                    { STR("R1"), 2, ERR_OK } };
    for (size_t i = 0; i < sizeof refunds / sizeof refunds[0]; i++) {
        struct refund_request refund = { .pay_no = STR("P20231115000000000001"),
                                         .refund_no = refunds[i].refund_no,
                                         .amount = cny(refunds[i].amount),
                                         .total = cny(2) };
        assert_int_equal(wechat_refund_build(w.account, &refund, a, &r, NULL), refunds[i].result);
    }
    assert_false(contains(r.body, "reason"));
}

static void texts_are_bent_not_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    static const char *const cases[][2] = {
        { "plain", "plain" },
        { "  a\tb\nc\x7f ", "a b c" },
        { "杯子😀红", "杯子红" },
        { "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 \xe2\x9d\xa4\xef\xb8\x8f", "\xe2\x9d\xa4" },
        { "bad\xff\xfe\xc3(utf8\xe4\xb8", "bad(utf8" },
        { "\xed\xa0\x80x", "x" },
        { "\xf0\x9f\x98\x80", "" },
        { "", "" },
        { "quote\"back\\slash", "quote\"back\\slash" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_str(wechat_clean_text(a, str_of(cases[i][0]), 127), cases[i][1]);

    char long_text[300];
    for (size_t i = 0; i + 3 <= sizeof long_text; i += 3)
        memcpy(long_text + i, "杯", 3);
    struct str cut = wechat_clean_text(a, (struct str) { long_text, sizeof long_text }, 127);
    assert_int_equal(cut.n, 126);
    assert_true(str_is_utf8(cut));

    struct prepay p = good(METHOD_NATIVE);
    struct channel_request r;
    p.description = STR("😀");
    p.expire_ms = 0;
    assert_int_equal(wechat_prepay_build(w.account, &p, a, &r, NULL), ERR_OK);
    assert_true(contains(r.body, "\"description\":\"P20231115000000000001\""));
    assert_false(contains(r.body, "time_expire"));
}

static struct str params(struct arena *a, enum pay_method method, const char *credentials)
{
    struct buf out;
    struct json_out o;
    struct err_info info = { 0 };
    buf_init_arena(&out, a, 8192);
    json_out_init(&o, &out);
    json_begin_object(&o);
    assert_int_equal(
        wechat_client_params(w.account, &w.env.env, method, str_of(credentials), a, &o, &info),
        ERR_OK);
    json_end_object(&o);
    return buf_str(&out);
}

static struct str member(struct arena *a, struct str object, const char *key)
{
    const struct json *json;
    struct str s;
    assert_int_equal(json_parse(a, object, &json, NULL), ERR_OK);
    if (json_get_str(json, key, &s, NULL))
        fail_msg("no %s in " STR_FMT, key, STR_ARG(object));
    return s;
}

static void check_sign(struct arena *a, struct str nonce, const char *fourth, struct str sign)
{
    struct str message =
        str_printf(a, "wxd678efh567hg6787\n1700000000\n" STR_FMT "\n%s\n", STR_ARG(nonce), fourth);
    struct str signature;
    assert_int_equal(str_unbase64(a, sign, &signature), ERR_OK);
    assert_int_equal(rsa_verify(w.merchant, message, signature), ERR_OK);
    assert_int_equal(nonce.n, 32);
}

static void client_parameters(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str p = params(a, METHOD_NATIVE, "{\"code_url\":\"weixin://wxpay/bizpayurl?pr=x\"}");
    assert_str(p, "{\"code_url\":\"weixin://wxpay/bizpayurl?pr=x\"}");
    p = params(a, METHOD_H5, "{\"h5_url\":\"https://wx.tenpay.com/x?y=1\"}");
    assert_str(p, "{\"h5_url\":\"https://wx.tenpay.com/x?y=1\"}");

    p = params(a, METHOD_JSAPI, "{\"prepay_id\":\"wx20\"}");
    assert_str(member(a, p, "appId"), "wxd678efh567hg6787");
    assert_str(member(a, p, "timeStamp"), "1700000000");
    assert_str(member(a, p, "package"), "prepay_id=wx20");
    assert_str(member(a, p, "signType"), "RSA");
    check_sign(a, member(a, p, "nonceStr"), "prepay_id=wx20", member(a, p, "paySign"));

    struct str other = params(a, METHOD_JSAPI, "{\"prepay_id\":\"wx20\"}");
    assert_false(str_eq(member(a, p, "nonceStr"), member(a, other, "nonceStr")));

    p = params(a, METHOD_APP, "{\"prepay_id\":\"wx20\"}");
    assert_str(member(a, p, "appid"), "wxd678efh567hg6787");
    assert_str(member(a, p, "partnerid"), "1900000109");
    assert_str(member(a, p, "prepayid"), "wx20");
    assert_str(member(a, p, "package"), "Sign=WXPay");
    assert_str(member(a, p, "timestamp"), "1700000000");
    check_sign(a, member(a, p, "noncestr"), "wx20", member(a, p, "sign"));

    struct json_out o;
    struct buf out;
    buf_init_arena(&out, a, 100);
    json_out_init(&o, &out);
    assert_int_equal(
        wechat_client_params(w.account, &w.env.env, METHOD_APP, STR("{}"), a, &o, NULL),
        ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_bodies),
        cmocka_unit_test(refused_fields_are_named),
        cmocka_unit_test(texts_are_bent_not_refused),
        cmocka_unit_test(client_parameters),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
