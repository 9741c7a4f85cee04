/* Callbacks made here, under the account's keys: every reason to refuse, what each event states,
 * and what is kept raw. */
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

static const char transaction[] = "{\"mchid\":\"1900000109\",\"appid\":\"wxd678efh567hg6787\","
                                  "\"out_trade_no\":\"PAY-0001\",\"transaction_id\":\"4200\","
                                  "\"trade_state\":\"SUCCESS\",\"success_time\":\"2023-11-15T06:13:"
                                  "18+08:00\",\"payer\":{\"openid\":\"oX\"},\"amount\":"
                                  "{\"total\":4999,\"payer_total\":3999,\"currency\":\"CNY\"}}";
static const char refund[] = "{\"mchid\":\"1900000109\",\"out_trade_no\":\"PAY-0001\","
                             "\"transaction_id\":\"4200\",\"out_refund_no\":\"REF-0001\","
                             "\"refund_id\":\"5030\",\"refund_status\":\"ABNORMAL\",\"amount\":{"
                             "\"total\":4999,\"refund\":1500}}";

static enum notice_result read_as(struct arena *a, struct str body, struct http_headers headers,
                                  bool stored, struct notice *ret, struct err_info *info)
{
    struct notice_input in = { .body = body, .headers = &headers, .stored = stored };
    return w.account->info->driver->read_notice(w.account, &w.env.env, &in, a, ret, info);
}

static enum notice_result read_good(struct arena *a, struct str body, struct notice *ret)
{
    struct err_info info = { 0 };
    return read_as(a, body, world_sign(&w, a, body, SIGN_GOOD), false, ret, &info);
}

static void payment_notice(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct notice n;
    assert_int_equal(read_good(a,
                               world_envelope(a, "TRANSACTION.SUCCESS", "transaction",
                                              str_of(transaction), APIV3),
                               &n),
                     NOTICE_OK);
    assert_int_equal(n.reason, NOTICE_REASON_NONE);
    assert_str(n.kind, "TRANSACTION.SUCCESS");
    assert_str(n.transport_id, "EV-1");
    assert_str(n.event_key, "TRANSACTION.SUCCESS:4200:SUCCESS");
    assert_str(n.subject_no, "PAY-0001");
    assert_str(n.plain, transaction);
    assert_int_equal(n.fact_count, 1);
    assert_int_equal(n.facts[0].kind, FACT_PAID);
    assert_true(n.facts[0].ours);
    assert_int_equal(money_fen(n.facts[0].amount), 4999);
    assert_int_equal(n.facts[0].time_ms, NOW_MS - 2000);

    struct money same, other;
    assert_int_equal(money_of(4999, STR("CNY"), &same), ERR_OK);
    assert_int_equal(money_of(3999, STR("CNY"), &other), ERR_OK);
    const struct channel_driver *driver = w.account->info->driver;
    assert_true(driver->paid_equal(w.account, &n.facts[0], same));
    assert_false(driver->paid_equal(w.account, &n.facts[0], other));
    n.facts[0].ours = false;
    assert_false(driver->paid_equal(w.account, &n.facts[0], same));
}

static void refund_notices(void **state)
{
    (void)state;
    static const struct {
        const char *status;
        enum fact_kind fact;
    } cases[] = {
        { "SUCCESS", FACT_REFUND_DONE },      { "CLOSED", FACT_REFUND_CLOSED },
        { "ABNORMAL", FACT_REFUND_ABNORMAL }, { "PROCESSING", FACT_REFUND_ACCEPTED },
        { "NEW_WORD", FACT_NOTHING },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct notice n;
        struct str plain =
            str_printf(a,
                       "{\"mchid\":\"1900000109\",\"out_trade_no\":\"PAY-0001\",\"transaction_id\":"
                       "\"4200\",\"out_refund_no\":\"REF-0001\",\"refund_id\":\"5030\","
                       "\"refund_status\":\"%s\",\"amount\":{\"total\":4999,\"refund\":1500}}",
                       cases[i].status);
        struct str kind = str_printf(a, "REFUND.%s", cases[i].status);
        assert_int_equal(
            read_good(a, world_envelope(a, str_cstr(a, kind), "refund", plain, APIV3), &n),
            NOTICE_OK);
        assert_int_equal(n.facts[0].kind, cases[i].fact);
        assert_true(n.facts[0].ours);
        assert_str(n.subject_no, "PAY-0001");
        assert_str(n.facts[0].refund_no, "REF-0001");
        assert_int_equal(money_fen(n.facts[0].amount), 1500);
        assert_true(str_eq(n.event_key, str_printf(a, "REFUND.%s:4200:%s:5030", cases[i].status,
                                                   cases[i].status)));
    }
}

static void whose_money(void **state)
{
    (void)state;
    static const char *const plains[] = {
        "{\"mchid\":\"1900000108\",\"appid\":\"wxd678efh567hg6787\",\"out_trade_no\":\"P\","
        "\"transaction_id\":\"4\","
        "\"trade_state\":\"SUCCESS\",\"amount\":{\"total\":1}}",
        "{\"mchid\":\"1900000109\",\"appid\":\"wxd678efh567hg678\",\"out_trade_no\":\"P\","
        "\"transaction_id\":\"4\","
        "\"trade_state\":\"SUCCESS\",\"amount\":{\"total\":1}}",
        "{\"sub_mchid\":\"1900000109\",\"sub_appid\":\"wxd678efh567hg6787\",\"out_trade_no\":\"P\","
        "\"transaction_id\":\"4\","
        "\"trade_state\":\"SUCCESS\",\"amount\":{\"total\":1}}",
    };
    for (size_t i = 0; i < sizeof plains / sizeof plains[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct notice n;
        assert_int_equal(read_good(a,
                                   world_envelope(a, "TRANSACTION.SUCCESS", "transaction",
                                                  str_of(plains[i]), APIV3),
                                   &n),
                         NOTICE_OK);
        assert_int_equal(n.facts[0].kind, FACT_PAID);
        assert_false(n.facts[0].ours);
    }
    ARENA_AUTO a = arena_new(65536);
    struct notice n;
    struct str nobody = str_sub(str_of(refund), 0, sizeof refund);
    nobody = str_printf(a, "{" STR_FMT,
                        STR_ARG(str_sub(nobody, strlen("{\"mchid\":\"1900000109\","), nobody.n)));
    assert_int_equal(
        read_good(a, world_envelope(a, "REFUND.ABNORMAL", "refund", nobody, APIV3), &n), NOTICE_OK);
    assert_false(n.facts[0].ours);
}

static void every_reason_to_refuse(void **state)
{
    (void)state;
    static const struct {
        enum sign_mode mode;
        enum notice_result result;
        enum notice_reason reason;
    } cases[] = {
        { SIGN_NONE, NOTICE_BAD, NOTICE_REASON_HEADERS },
        { SIGN_WRONG, NOTICE_BAD, NOTICE_REASON_SIGNATURE },
        { SIGN_UNKNOWN_SERIAL, NOTICE_LATER, NOTICE_REASON_SERIAL },
        { SIGN_STALE, NOTICE_BAD, NOTICE_REASON_STALE },
        { SIGN_PROBE, NOTICE_BAD, NOTICE_REASON_PROBE },
    };
    ARENA_AUTO a = arena_new(65536);
    struct str body =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct notice n;
        struct err_info info = { 0 };
        assert_int_equal(read_as(a, body, world_sign(&w, a, body, cases[i].mode), false, &n, &info),
                         cases[i].result);
        assert_int_equal(n.reason, cases[i].reason);
        assert_int_equal(n.fact_count, 0);
        assert_true(info.text[0] != 0);
    }
}

static void each_header_counts(void **state)
{
    (void)state;
    static const char *const names[] = { "Wechatpay-Timestamp", "Wechatpay-Nonce",
                                         "Wechatpay-Serial", "Wechatpay-Signature" };
    ARENA_AUTO a = arena_new(65536);
    struct str body =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    struct http_headers good = world_sign(&w, a, body, SIGN_GOOD);
    for (size_t i = 0; i < 4; i++) {
        struct notice n;
        struct err_info info = { 0 };
        struct str value = http_header_get(&good, names[i], NULL);
        struct http_headers without = world_with(a, good, names[i], STR_NONE);
        struct http_headers empty = world_with(a, good, names[i], STR(""));
        struct http_header *twice = arena_array(a, good.count + 1, sizeof twice[0]);
        memcpy(twice, good.items, good.count * sizeof twice[0]);
        twice[good.count] = (struct http_header) { str_of(names[i]), value };

        assert_int_equal(read_as(a, body, without, false, &n, &info), NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_HEADERS);
        assert_string_equal(info.field, names[i]);
        assert_int_equal(read_as(a, body, empty, false, &n, &info), NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_HEADERS);
        assert_int_equal(
            read_as(a, body, (struct http_headers) { twice, good.count + 1 }, false, &n, &info),
            NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_HEADERS);
        /* Altered, each spoils the signature, or is not what it should be. */
        struct str altered = str_printf(a, STR_FMT "1", STR_ARG(value));
        assert_int_not_equal(
            read_as(a, body, world_with(a, good, names[i], altered), true, &n, &info), NOTICE_OK);
    }
    static const char *const times[] = {
        "-1", "abc", "99999999999999999999", "9223372036854775807", "1700000000.0", " 1700000000"
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct notice n;
        assert_int_equal(
            read_as(a, body, world_with(a, good, names[0], str_of(times[i])), false, &n, NULL),
            NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_HEADERS);
    }
}

static void the_window_is_300_seconds_both_ways(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str body =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    struct http_headers headers = world_sign(&w, a, body, SIGN_GOOD);
    static const struct {
        int64_t apart_ms;
        enum notice_result result;
    } cases[] = { { 300000, NOTICE_OK },
                  { 301000, NOTICE_BAD },
                  { -300000, NOTICE_OK },
                  { -301000, NOTICE_BAD } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct notice n;
        env_test_advance(&w.env, cases[i].apart_ms);
        assert_int_equal(read_as(a, body, headers, false, &n, NULL), cases[i].result);
        assert_int_equal(read_as(a, body, headers, true, &n, NULL), NOTICE_OK);
        env_test_advance(&w.env, -cases[i].apart_ms);
    }
}

static void any_changed_byte_is_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1 << 20);
    struct str body =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    struct http_headers headers = world_sign(&w, a, body, SIGN_GOOD);
    for (size_t i = 0; i < body.n; i += 7) {
        struct notice n;
        char *changed = arena_copy(a, body.p, body.n);
        changed[i] ^= 1;
        assert_int_equal(read_as(a, (struct str) { changed, body.n }, headers, false, &n, NULL),
                         NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_SIGNATURE);
    }
    struct notice n;
    assert_int_equal(read_as(a, str_sub(body, 0, body.n - 1), headers, false, &n, NULL),
                     NOTICE_BAD);
    assert_int_equal(
        read_as(a, str_printf(a, STR_FMT "\n", STR_ARG(body)), headers, false, &n, NULL),
        NOTICE_BAD);
}

/* Verified bytes are never thrown away. */
static void verified_but_unreadable_is_kept(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1 << 18);
    struct str good =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    const struct {
        struct str body;
        enum notice_reason reason;
        const char *key; /* NULL: a hash of the body */
    } cases[] = {
        { world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction),
                         "another-key-of-32-characters-000"),
          NOTICE_REASON_DECRYPT, "raw:EV-1" },
        { world_envelope(a, "COUPON.USE", "coupon", str_of("{}"),
                         "another-key-of-32-characters-000"),
          NOTICE_REASON_DECRYPT, "raw:EV-1" },
        { STR("{\"id\":\"EV-2\",\"event_type\":\"TRANSACTION.SUCCESS\",\"resource\":{\"algorithm\":"
              "\"AEAD_AES_256_GCM\","
              "\"ciphertext\":\"!!!!\",\"nonce\":\"nonce1234567\"}}"),
          NOTICE_REASON_DECRYPT, "raw:EV-2" },
        { STR("{\"id\":\"EV-2\",\"event_type\":\"TRANSACTION.SUCCESS\",\"resource\":{\"algorithm\":"
              "\"AEAD_SM4_GCM\","
              "\"ciphertext\":\"AAAA\",\"nonce\":\"nonce1234567\"}}"),
          NOTICE_REASON_DECRYPT, "raw:EV-2" },
        { STR("{\"id\":\"EV-2\",\"event_type\":\"TRANSACTION.SUCCESS\",\"resource\":{\"algorithm\":"
              "\"AEAD_AES_256_GCM\","
              "\"ciphertext\":\"\",\"associated_data\":\"\",\"nonce\":\"\"}}"),
          NOTICE_REASON_BODY, "raw:EV-2" },
        { str_sub(good, 0, good.n - 1), NOTICE_REASON_BODY, NULL },
        { STR("[1]"), NOTICE_REASON_BODY, NULL },
        { STR(""), NOTICE_REASON_BODY, NULL },
        { STR("{\"event_type\":\"X\",\"resource\":7}"), NOTICE_REASON_BODY, NULL },
        { world_envelope(a, "TRANSACTION.SUCCESS", "transaction", STR("not JSON"), APIV3),
          NOTICE_REASON_BODY, "raw:EV-1" },
        { world_envelope(a, "TRANSACTION.SUCCESS", "transaction",
                         STR("{\"trade_state\":\"SUCCESS\"}"), APIV3),
          NOTICE_REASON_BODY, "raw:EV-1" },
        { world_envelope(a, "TRANSACTION.SUCCESS", "transaction",
                         STR("{\"out_trade_no\":\"P\",\"transaction_id\":\"4\",\"trade_state\":"
                             "\"SUCCESS\",\"amount\":{"
                             "\"total\":\"4999\"}}"),
                         APIV3),
          NOTICE_REASON_BODY, "raw:EV-1" },
        { world_envelope(a, "REFUND.SUCCESS", "refund",
                         STR("{\"out_refund_no\":\"R\",\"status\":\"SUCCESS\"}"), APIV3),
          NOTICE_REASON_BODY, "raw:EV-1" },
        { world_envelope(a, "REFUND.SUCCESS", "refund",
                         STR("{\"out_trade_no\":\"P\",\"out_refund_no\":\"R\",\"refund_status\":"
                             "\"SUCCESS\",\"amount\":{\"refund\":1}}"),
                         APIV3),
          NOTICE_REASON_BODY, "raw:EV-1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct notice n;
        if (read_good(a, cases[i].body, &n) != NOTICE_RAW_ONLY)
            fail_msg("case %zu", i);
        assert_int_equal(n.reason, cases[i].reason);
        assert_int_equal(n.fact_count, 0);
        assert_int_equal(n.subject_no.n, 0);
        if (cases[i].key)
            assert_str(n.event_key, cases[i].key);
        else
            assert_int_equal(n.event_key.n, strlen("raw:") + 64);
    }
}

static void other_products_are_acknowledged(void **state)
{
    (void)state;
    static const char *const events[][2] = {
        { "COUPON.USE", "coupon" },
        { "PAYSCORE.USER_OPEN_SERVICE", "payscore" },
        { "TRANSACTION.SUCCESS", "profitsharing" },
    };
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        ARENA_AUTO a = arena_new(65536);
        struct notice n;
        assert_int_equal(
            read_good(a, world_envelope(a, events[i][0], events[i][1], str_of(transaction), APIV3),
                      &n),
            NOTICE_OK);
        assert_int_equal(n.fact_count, 1);
        assert_int_equal(n.facts[0].kind, FACT_NOTHING);
        assert_int_equal(n.subject_no.n, 0);
        assert_true(str_eq(n.event_key, str_printf(a, "%s:EV-1", events[i][0])));
    }
}

static void xml_is_version_2(void **state)
{
    (void)state;
    static const char *const bodies[] = { "<xml><return_code>SUCCESS</return_code></xml>",
                                          " \t<xml/>" };
    for (size_t i = 0; i < 2; i++) {
        ARENA_AUTO a = arena_new(4096);
        struct notice n;
        struct err_info info = { 0 };
        assert_int_equal(
            read_as(a, str_of(bodies[i]), (struct http_headers) { 0 }, false, &n, &info),
            NOTICE_BAD);
        assert_int_equal(n.reason, NOTICE_REASON_BODY);
        assert_non_null(strstr(info.text, "v2"));
    }
}

static void previous_apiv3_key_still_decrypts(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct account_config config = world_config(&w);
    struct account *account;
    struct notice n;
    struct err_info info = { 0 };
    config.wechat.apiv3_key = STR("the-new-key-after-a-reset-000000");
    config.wechat.apiv3_key_previous = STR(APIV3);
    assert_int_equal(account_open(&config, STR_NONE, &w.env.env, &account, &info), ERR_OK);
    struct str body =
        world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction), APIV3);
    struct http_headers headers = world_sign(&w, a, body, SIGN_GOOD);
    struct notice_input in = { .body = body, .headers = &headers };
    assert_int_equal(wechat_read_notice(account, &w.env.env, &in, a, &n, &info), NOTICE_OK);
    body = world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(transaction),
                          "the-new-key-after-a-reset-000000");
    headers = world_sign(&w, a, body, SIGN_GOOD);
    in.body = body;
    assert_int_equal(wechat_read_notice(account, &w.env.env, &in, a, &n, &info), NOTICE_OK);
    account_unref(account);
}

static void answers(void **state)
{
    (void)state;
    struct notice_reply reply;
    wechat_answer_notice(w.account, ANSWER_OK, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.content_type, "application/json");
    assert_str(reply.body, "{\"code\":\"SUCCESS\",\"message\":\"成功\"}");
    wechat_answer_notice(w.account, ANSWER_LATER, &reply);
    assert_int_equal(reply.status, 503);
    assert_true(contains(reply.body, "\"FAIL\""));
    wechat_answer_notice(w.account, ANSWER_BAD, &reply);
    assert_int_equal(reply.status, 401);
    assert_true(contains(reply.body, "\"FAIL\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payment_notice),
        cmocka_unit_test(refund_notices),
        cmocka_unit_test(whose_money),
        cmocka_unit_test(every_reason_to_refuse),
        cmocka_unit_test(each_header_counts),
        cmocka_unit_test(the_window_is_300_seconds_both_ways),
        cmocka_unit_test(any_changed_byte_is_refused),
        cmocka_unit_test(verified_but_unreadable_is_kept),
        cmocka_unit_test(other_products_are_acknowledged),
        cmocka_unit_test(xml_is_version_2),
        cmocka_unit_test(previous_apiv3_key_still_decrypts),
        cmocka_unit_test(answers),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
