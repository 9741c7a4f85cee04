/* Real-format callbacks, plaintexts and answers, when they lie beside the repository: the clock
 * stands at 1700000000. */
#include "channel_testing.h"

#include "crypto/aead.h"
#include "support/shared.h"

#define FOLDER "cases/inputs/wechat-callbacks/"

static struct arena *arena;
static struct account *account;
static struct env_test env;
static struct str merchant_key;
static size_t ran;

static struct str slurp(const char *name)
{
    return shared_read(arena, str_printf(arena, FOLDER "%s", name).p);
}

static struct account *open_account(struct str apiv3, struct str certificate)
{
    struct account_config config = {
        .name = STR("inputs"),
        .notify_url = STR("https://pay.example.com/notify/inputs"),
        .environment = ENVIRONMENT_PRODUCTION,
        .wechat = { .mchid = STR("1900000109"),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = merchant_key,
                    .merchant_serial = STR("01"),
                    .apiv3_key = apiv3,
                    .platform_certs = { &certificate, 1 },
                    .download_certs = true },
    };
    struct account *made;
    struct err_info info = { 0 };
    if (account_open(&config, STR_NONE, &env.env, &made, &info))
        fail_msg("%s: %s", info.field, info.text);
    return made;
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new(1 << 18);
    env_init_test(&env, 1700000000500, 1);
    struct str certificate =
        shared_read(arena, "cases/inputs/keys/throwaway-wechatpay-platform-cert.pem");
    if (!certificate.p)
        return 0;
    struct rsa_key *key;
    assert_int_equal(rsa_generate(1024, &key, NULL), ERR_OK);
    merchant_key = rsa_private_pem(arena, key);
    rsa_unref(key);
    account = open_account(STR("THROWAWAY0TEST0APIV3KEY000000001"), certificate);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    print_message("# %zu inputs\n", ran);
    account_unref(account);
    arena_free(arena);
    return 0;
}

static struct http_headers read_headers(const char *name)
{
    struct str rest = slurp(name);
    struct http_header *items = arena_array(arena, 16, sizeof items[0]);
    size_t n = 0;
    while (rest.n && n < 16) {
        struct str line = str_cut(&rest, '\n');
        struct str key = str_cut(&line, ':');
        if (line.p)
            items[n++] = (struct http_header) { key, str_trim(line.n && line.p[line.n - 1] == '\r'
                                                                  ? str_sub(line, 0, line.n - 1)
                                                                  : line) };
    }
    return (struct http_headers) { items, n };
}

static const struct {
    const char *body, *headers, *plain;
    enum notice_result result;
    enum notice_reason reason;
    enum fact_kind fact;
    int64_t fen;
    const char *event_key;
} callbacks[] = {
    { "10-transaction-success.body.json", "10-transaction-success.headers",
      "10-transaction-success.plaintext.json", NOTICE_OK, NOTICE_REASON_NONE, FACT_PAID, 4999,
      "TRANSACTION.SUCCESS:4200001900202311150000000001:SUCCESS" },
    { "10-transaction-success.body.json", "11-transaction-success-lowercase.headers", NULL,
      NOTICE_OK, NOTICE_REASON_NONE, FACT_PAID, 4999, NULL },
    { "12-reserialised-must-fail.body.json", "10-transaction-success.headers", NULL, NOTICE_BAD,
      NOTICE_REASON_SIGNATURE, FACT_NOTHING, 0, NULL },
    { "14-pretty-printed-must-fail.body.json", "10-transaction-success.headers", NULL, NOTICE_BAD,
      NOTICE_REASON_SIGNATURE, FACT_NOTHING, 0, NULL },
    { "10-transaction-success.body.json", "15-signtest-probe.headers", NULL, NOTICE_BAD,
      NOTICE_REASON_PROBE, FACT_NOTHING, 0, NULL },
    { "10-transaction-success.body.json", "17-unknown-serial.headers", NULL, NOTICE_LATER,
      NOTICE_REASON_SERIAL, FACT_NOTHING, 0, NULL },
    { "18-missing-summary-original-type.body.json", "10-transaction-success.headers", NULL,
      NOTICE_BAD, NOTICE_REASON_SIGNATURE, FACT_NOTHING, 0, NULL },
    { "30-refund-success.body.json", "30-refund-success.headers",
      "30-refund-success.plaintext.json", NOTICE_OK, NOTICE_REASON_NONE, FACT_REFUND_DONE, 1500,
      "REFUND.SUCCESS:4200001900202311150000000001:SUCCESS:50300400552023111500000000001" },
    { "31-refund-closed.body.json", "31-refund-closed.headers", NULL, NOTICE_OK, NOTICE_REASON_NONE,
      FACT_REFUND_CLOSED, 1500, NULL },
    { "01-KAT-payscore.body.json", "01-KAT-payscore.headers", NULL, NOTICE_BAD, NOTICE_REASON_STALE,
      FACT_NOTHING, 0, NULL },
};

static void callbacks_as_they_come(void **state)
{
    (void)state;
    if (!account)
        return;
    for (size_t i = 0; i < sizeof callbacks / sizeof callbacks[0]; i++) {
        struct http_headers headers = read_headers(callbacks[i].headers);
        struct notice_input in = { .body = slurp(callbacks[i].body), .headers = &headers };
        struct notice n;
        struct err_info info = { 0 };
        enum notice_result result = wechat_read_notice(account, &env.env, &in, arena, &n, &info);
        if (result != callbacks[i].result || n.reason != callbacks[i].reason)
            fail_msg("%s with %s: %d %s %s", callbacks[i].body, callbacks[i].headers, (int)result,
                     notice_reason_name(n.reason), info.text);
        assert_int_equal(n.fact_count, result == NOTICE_OK);
        assert_int_equal(n.facts[0].kind, callbacks[i].fact);
        if (result == NOTICE_OK) {
            assert_true(n.facts[0].ours);
            assert_int_equal(money_fen(n.facts[0].amount), callbacks[i].fen);
            assert_str(n.subject_no, "T20231115061320000001");
        }
        if (callbacks[i].event_key)
            assert_str(n.event_key, callbacks[i].event_key);
        if (callbacks[i].plain)
            assert_true(str_eq(str_trim(n.plain), slurp(callbacks[i].plain)));
        ran++;
    }
}

/* The vendor's own known answer: signature as in production, decryption with its 16-byte key. */
static void known_answers(void **state)
{
    (void)state;
    if (!account)
        return;
    struct account *own =
        open_account(STR("0123456789abcdefABCDEF9876543210"), slurp("01-KAT-payscore.cert.pem"));
    struct http_headers headers = read_headers("01-KAT-payscore.headers");
    struct notice_input in = { .body = slurp("01-KAT-payscore.body.json"), .headers = &headers };
    struct env_test then;
    struct notice n;
    env_init_test(&then, 1624523846000, 1);
    assert_int_equal(wechat_read_notice(own, &then.env, &in, arena, &n, NULL), NOTICE_RAW_ONLY);
    assert_int_equal(n.reason, NOTICE_REASON_DECRYPT);
    ((struct wechat_keys *)own->keys)->apiv3[0] = STR("testMchAPIv3Key0");
    assert_int_equal(wechat_read_notice(own, &then.env, &in, arena, &n, NULL), NOTICE_OK);
    assert_int_equal(n.facts[0].kind, FACT_NOTHING);
    assert_true(str_eq(n.plain, slurp("01-KAT-payscore.plaintext.json")));
    account_unref(own);

    const struct json *kat, *transaction;
    struct str key = STR_NONE, nonce = STR_NONE, aad = STR_NONE, text = STR_NONE;
    struct str cipher, plain, word;
    struct fact fact;
    assert_int_equal(json_parse(arena, slurp("02-KAT-aes256gcm-transaction.json"), &kat, NULL),
                     ERR_OK);
    assert_false(json_get_str(kat, "apiv3_key", &key, NULL) ||
                 json_get_str(kat, "nonce", &nonce, NULL) ||
                 json_get_str(kat, "associated_data", &aad, NULL) ||
                 json_get_str(kat, "ciphertext", &text, NULL));
    assert_int_equal(str_unbase64(arena, text, &cipher), ERR_OK);
    assert_int_equal(aead_decrypt(key, nonce, aad, cipher, arena, &plain), ERR_OK);
    assert_int_equal(json_parse(arena, plain, &transaction, NULL), ERR_OK);
    assert_int_equal(wechat_transaction_fact(account, transaction, &fact, &word, NULL), ERR_OK);
    assert_int_equal(fact.kind, FACT_PAID);
    assert_int_equal(money_fen(fact.amount), 100);
    ran += 2;
}

static const struct json *parse(const char *name)
{
    const struct json *json;
    assert_int_equal(json_parse(arena, slurp(name), &json, NULL), ERR_OK);
    ran++;
    return json;
}

static void plaintexts_and_answers(void **state)
{
    (void)state;
    if (!account)
        return;
    struct fact fact;
    struct str word;
    assert_int_equal(wechat_transaction_fact(account,
                                             parse("20-plaintext-coupon-payer-total-less.json"),
                                             &fact, &word, NULL),
                     ERR_OK);
    assert_true(fact.ours);
    assert_int_equal(money_fen(fact.amount), 4999);
    assert_int_equal(money_fen(fact.payer_amount), 3999);
    assert_int_equal(money_fen(fact.channel_discount), 1000);
    struct money due;
    assert_int_equal(money_of(4999, STR("CNY"), &due), ERR_OK);
    assert_true(wechat_info.driver->paid_equal(account, &fact, due));

    assert_int_equal(
        wechat_transaction_fact(account, parse("21-plaintext-partner.json"), &fact, &word, NULL),
        ERR_OK);
    assert_int_equal(fact.kind, FACT_PAID);
    assert_false(fact.ours);

    assert_int_equal(wechat_refund_fact(account, parse("40-api-refund-processing.json"), false,
                                        &fact, &word, NULL),
                     ERR_OK);
    assert_int_equal(fact.kind, FACT_REFUND_ACCEPTED);
    assert_int_equal(money_fen(fact.amount), 10);
    assert_int_equal(wechat_refund_fact(account, parse("41-api-refund-ecommerce-success.json"),
                                        false, &fact, &word, NULL),
                     ERR_OK);
    assert_int_equal(fact.kind, FACT_REFUND_DONE);
    assert_int_equal(money_fen(fact.amount), 88);
}

static void errors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum wechat_op op;
        int status;
        enum channel_class class;
        bool not_exist;
    } cases[] = {
        { "50-error-param.json", WECHAT_PREPAY, 400, CLASS_FINAL, false },
        { "51-error-sign.json", WECHAT_QUERY, 401, CLASS_ACCOUNT, false },
        { "52-error-resource-not-exists.json", WECHAT_QUERY, 404, CLASS_FINAL, true },
        { "53-error-rate.json", WECHAT_PREPAY, 429, CLASS_RETRY, false },
        { "54-error-platform-serial.json", WECHAT_PREPAY, 400, CLASS_FINAL, false },
    };
    for (size_t i = 0; account && i < sizeof cases / sizeof cases[0]; i++) {
        struct str code;
        assert_int_equal(json_get_str(parse(cases[i].name), "code", &code, NULL), ERR_OK);
        struct wechat_verdict v = wechat_judge(cases[i].op, cases[i].status, code);
        assert_int_equal(v.outcome, CHANNEL_REFUSED);
        assert_int_equal(v.class, cases[i].class);
        assert_int_equal(v.not_exist, cases[i].not_exist);
    }
}

static void version_2_bodies(void **state)
{
    (void)state;
    static const char *const names[] = { "01-pay-notify.xml",
                                         "02-pay-notify-coupons-out-of-order.xml",
                                         "03-refund-req_info-plain.xml",
                                         "04-refund-notify-encrypted.xml",
                                         "05-xxe.xml",
                                         "06-bad-entity.xml",
                                         "08-html-404.html",
                                         "09-billion-laughs.xml" };
    struct http_headers headers = read_headers("10-transaction-success.headers");
    for (size_t i = 0; account && i < sizeof names / sizeof names[0]; i++) {
        struct str body = shared_read(
            arena, str_printf(arena, "cases/inputs/wechat-v2-reference/%s", names[i]).p);
        struct notice_input in = { .body = body, .headers = &headers };
        struct notice n;
        assert_int_equal(wechat_read_notice(account, &env.env, &in, arena, &n, NULL), NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_BODY);
        ran++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_as_they_come), cmocka_unit_test(known_answers),
        cmocka_unit_test(plaintexts_and_answers), cmocka_unit_test(errors),
        cmocka_unit_test(version_2_bodies),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
