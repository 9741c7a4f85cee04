/* Callbacks: what they say, when they are sent again, and each way in which they go wrong on
 * demand. */
#include "sandbox_testing.h"

static bool is_right(size_t i)
{
    return is_signed_by(&box.got[i].headers, box.got[i].body, platform_key);
}

static void a_payment_is_told(void **state)
{
    (void)state;
    prepay("CALL000001", 8800);
    assert_int_equal(sandbox_next_ms(sandbox), 0);
    pay("CALL000001");
    assert_int_equal(sandbox_next_ms(sandbox), NOW_MS);
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_int_equal(sandbox_turn(sandbox), 0);

    const struct http_call *c = &box.got[0];
    assert_string_equal(c->method, "POST");
    assert_str(c->url, NOTIFY);
    assert_int_equal(c->total_ms, 5000);
    assert_true(is_right(0));
    assert_str(header(&c->headers, "Wechatpay-Serial"), "5A00112233445566778899");
    assert_str(header(&c->headers, "Wechatpay-Timestamp"), "1767225600");
    assert_str(member(c->body, "event_type"), "TRANSACTION.SUCCESS");
    assert_str(member(c->body, "resource_type"), "encrypt-resource");
    assert_str(member(c->body, "resource.algorithm"), "AEAD_AES_256_GCM");
    assert_str(member(c->body, "resource.original_type"), "transaction");
    assert_int_equal(member(c->body, "id").n, 36);

    struct str plain = opened(0);
    assert_str(member(plain, "trade_state"), "SUCCESS");
    assert_str(member(plain, "out_trade_no"), "CALL000001");
    assert_str(member(plain, "amount.total"), "8800");
    assert_str(member(plain, "mchid"), MCHID);
    assert_true(str_eq(member(plain, "transaction_id"), trade("CALL000001").transaction_id));
    assert_int_equal(trade("CALL000001").callbacks_sent, 1);
    assert_int_equal(trade("CALL000001").callbacks_acknowledged, 1);
}

static void only_200_and_204_acknowledge(void **state)
{
    (void)state;
    static const int status[] = { 0, 199, 201, 302, 400, 401, 404, 500, 503 };
    prepay("CALL000001", 1);
    pay("CALL000001");
    for (size_t i = 0; i < COUNT(status); i++) {
        box.answer = status[i];
        env_test_advance(&world, sandbox_next_ms(sandbox) - env_now_ms(&world.env));
        assert_int_equal(sandbox_turn(sandbox), 1);
        assert_int_equal(trade("CALL000001").callbacks_acknowledged, 0);
    }
    box.answer = 200;
    env_test_advance(&world, sandbox_next_ms(sandbox) - env_now_ms(&world.env));
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_int_equal(trade("CALL000001").callbacks_acknowledged, 1);
    assert_int_equal(sandbox_next_ms(sandbox), 0);
}

/* 15s,15s,30s,3m,10m,20m,30m,30m,30m,60m,3h,3h,3h,6h,6h: every time the same envelope, freshly
 * signed. */
static void the_resend_schedule(void **state)
{
    (void)state;
    static const int wait_s[] = { 15,   15,   30,    180,   600,   1200,  1800, 1800,
                                  1800, 3600, 10800, 10800, 10800, 21600, 21600 };
    box.answer = 500;
    prepay("CALL000001", 1);
    pay("CALL000001");
    assert_int_equal(sandbox_turn(sandbox), 1);
    int64_t at_ms = NOW_MS;
    for (size_t i = 0; i < COUNT(wait_s); i++) {
        at_ms += wait_s[i] * 1000LL;
        assert_int_equal(sandbox_next_ms(sandbox), at_ms);
        env_test_advance(&world, wait_s[i] * 1000LL - 1);
        assert_int_equal(sandbox_turn(sandbox), 0);
        env_test_advance(&world, 1);
        assert_int_equal(sandbox_turn(sandbox), 1);
    }
    assert_int_equal(box.count, 16);
    assert_int_equal(sandbox_next_ms(sandbox), 0);
    env_test_advance(&world, 7 * 86400000LL);
    assert_int_equal(sandbox_turn(sandbox), 0);
    assert_int_equal(trade("CALL000001").callbacks_sent, 16);
    for (size_t i = 0; i < 16; i++) {
        assert_true(is_right(i));
        assert_true(str_eq(box.got[i].body, box.got[0].body));
        assert_str(header(&box.got[i].headers, "Wechatpay-Timestamp"),
                   text("%lld", (long long)(box.at_ms[i] / 1000)).p);
    }
    assert_false(str_eq(header(&box.got[0].headers, "Wechatpay-Nonce"),
                        header(&box.got[1].headers, "Wechatpay-Nonce")));
}

static void some_envelopes_escape_their_slashes(void **state)
{
    (void)state;
    size_t escaped = 0;
    for (int i = 0; i < 8; i++) {
        prepay(text("SLASH%05d", i).p, 1);
        pay(text("SLASH%05d", i).p);
    }
    assert_int_equal(sandbox_turn(sandbox), 8);
    for (size_t i = 0; i < 8; i++) {
        escaped += memmem(box.got[i].body.p, box.got[i].body.n, "\\/", 2) != NULL;
        assert_true(is_right(i));
        assert_str(member(opened(i), "attach"), "a/b");
    }
    assert_int_equal(escaped, 2);
}

/* ---- faults ---- */

/* One paid trade under one rule; how many callbacks came out at once. */
static size_t under(struct sandbox_fault_rule rule)
{
    rule.times = 1;
    fault(rule);
    prepay("FAULT00001", 8800);
    pay("FAULT00001");
    return sandbox_turn(sandbox);
}

/* The next try after `fault` is a right one. */
static void next_is_right(void)
{
    box.answer = 204;
    env_test_advance(&world, 15000);
    assert_int_equal(sandbox_turn(sandbox), 1);
    size_t last = box.count - 1;
    assert_true(is_right(last));
    assert_str(member(opened(last), "amount.total"), "8800");
    assert_str(member(opened(last), "mchid"), MCHID);
    assert_int_equal(trade("FAULT00001").callbacks_acknowledged, 1);
    assert_int_equal(trade("FAULT00001").taken_fen, 8800);
}

static void lost(void **state)
{
    (void)state;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_LOSE }), 1);
    assert_int_equal(box.count, 0);
    assert_int_equal(trade("FAULT00001").callbacks_sent, 1);
    next_is_right();
}

static void delayed(void **state)
{
    (void)state;
    assert_int_equal(
        under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_DELAY, .delay_ms = 15000 }), 0);
    assert_int_equal(sandbox_next_ms(sandbox), NOW_MS + 15000);
    next_is_right();
}

static void duplicated(void **state)
{
    (void)state;
    assert_int_equal(
        under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_DUPLICATE, .copies = 2 }), 3);
    assert_int_equal(box.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(is_right(i) && str_eq(box.got[i].body, box.got[0].body));
    assert_int_equal(trade("FAULT00001").callbacks_sent, 3);
    assert_int_equal(trade("FAULT00001").callbacks_acknowledged, 3);
    assert_int_equal(sandbox_next_ms(sandbox), 0);
}

static void in_another_order(void **state)
{
    (void)state;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_REORDER }), 0);
    prepay("FAULT00002", 200);
    pay("FAULT00002");
    assert_int_equal(sandbox_turn(sandbox), 2);
    assert_str(member(opened(0), "out_trade_no"), "FAULT00002");
    assert_str(member(opened(1), "out_trade_no"), "FAULT00001");

    fault((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_REORDER }); /* nobody follows */
    prepay("FAULT00003", 200);
    pay("FAULT00003");
    assert_int_equal(sandbox_next_ms(sandbox), NOW_MS + 60000);
    env_test_advance(&world, 60000);
    assert_int_equal(sandbox_turn(sandbox), 1);
}

static void badly_signed(void **state)
{
    (void)state;
    box.answer = 401;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_BAD_SIGNATURE }),
                     1);
    assert_false(is_right(0));
    assert_str(member(opened(0), "out_trade_no"), "FAULT00001");
    next_is_right();
}

static void probed(void **state)
{
    (void)state;
    box.answer = 401;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_PROBE }), 1);
    assert_true(
        str_starts(header(&box.got[0].headers, "Wechatpay-Signature"), STR("WECHATPAY/SIGNTEST/")));
    assert_false(is_right(0));
    next_is_right();
}

static void without_signature_headers(void **state)
{
    (void)state;
    box.answer = 401;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_UNSIGNED }), 1);
    for (size_t i = 0; i < box.got[0].headers.count; i++)
        assert_false(str_starts(box.got[0].headers.items[i].name, STR("Wechatpay-")));
    next_is_right();
}

static void corrupted_but_rightly_signed(void **state)
{
    (void)state;
    struct str cipher, plain;
    box.answer = 500;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_CORRUPT }), 1);
    assert_true(is_right(0));
    struct str body = box.got[0].body;
    assert_ok(str_unbase64(arena, member(body, "resource.ciphertext"), &cipher));
    assert_int_equal(aead_decrypt(STR(APIV3), member(body, "resource.nonce"),
                                  member(body, "resource.associated_data"), cipher, arena, &plain),
                     ERR_DENIED);
    next_is_right();
}

static void lying_about_the_amount(void **state)
{
    (void)state;
    box.answer = 500;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_WRONG_AMOUNT,
                                                         .amount_delta_fen = -100 }),
                     1);
    assert_true(is_right(0));
    assert_str(member(opened(0), "amount.total"), "8700");
    assert_str(member(query("FAULT00001").body, "amount.total"), "8800");
    next_is_right();
    assert_false(str_eq(member(box.got[0].body, "id"), member(box.got[1].body, "id")));
}

static void lying_about_the_merchant(void **state)
{
    (void)state;
    box.answer = 500;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_WRONG_MERCHANT }),
                     1);
    assert_true(is_right(0));
    assert_str(member(opened(0), "mchid"), "1999999999");
    next_is_right();
}

static void under_an_unknown_serial(void **state)
{
    (void)state;
    box.answer = 500;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_UNKNOWN_SERIAL }),
                     1);
    assert_true(is_right(0));
    assert_int_equal(header(&box.got[0].headers, "Wechatpay-Serial").n, 40);
    next_is_right();
}

/* The money is really another sum: books, callback and query agree about it. */
static void another_amount_taken(void **state)
{
    (void)state;
    assert_int_equal(under((struct sandbox_fault_rule) { .fault = FAULT_WRONG_AMOUNT_TAKEN,
                                                         .amount_delta_fen = -1 }),
                     1);
    assert_str(member(opened(0), "amount.total"), "8799");
    assert_str(member(query("FAULT00001").body, "amount.total"), "8799");
    assert_int_equal(trade("FAULT00001").total_fen, 8800);
    assert_int_equal(trade("FAULT00001").taken_fen, 8799);
    assert_int_equal(sandbox_balance_fen(sandbox, STR(MCHID)), 8799);
}

/* ---- keys ---- */

static void a_rotated_certificate_signs_what_follows(void **state)
{
    (void)state;
    assert_ok(sandbox_rotate_certificate(sandbox, STR(MCHID), arena, NULL));
    prepay("ROTATE0001", 1);
    pay("ROTATE0001");
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_false(is_right(0));
    struct str serial = header(&box.got[0].headers, "Wechatpay-Serial");
    assert_int_equal(serial.n, 40);

    struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
    c.wechatpay_serial = STR("5A00112233445566778899"); /* the old one still signs when asked to */
    struct http_reply r = exchange_call(&c);
    assert_answer(r, 200, NULL);
    const struct json *j, *second;
    assert_ok(json_parse(arena, r.body, &j, NULL));
    second = json_get(j, "data")->first->next;
    assert_null(second->next);
    assert_true(str_eq(json_get(second, "serial_no")->text, serial));

    const struct json *sealed = json_get(second, "encrypt_certificate");
    struct str cipher, pem;
    struct certificate cert;
    assert_ok(str_unbase64(arena, json_get(sealed, "ciphertext")->text, &cipher));
    assert_ok(aead_decrypt(STR(APIV3), json_get(sealed, "nonce")->text, STR("certificate"), cipher,
                           arena, &pem));
    assert_ok(certificate_from_pem(pem, arena, &cert, NULL));
    assert_true(str_eq(cert.serial, serial));
    assert_true(is_signed_by(&box.got[0].headers, box.got[0].body, cert.key));
    certificate_done(&cert);
}

static void the_key_is_chosen_by_the_request(void **state)
{
    (void)state;
    struct merchant_call c = merchant_call("GET", "/v3/certificates", "");
    struct http_reply r = exchange_call(&c);
    assert_str(header(&r.headers, "Wechatpay-Serial"), "5A00112233445566778899");
    c.wechatpay_serial = STR(KEY_ID);
    r = exchange_call(&c);
    assert_answer(r, 200, NULL);
    assert_str(header(&r.headers, "Wechatpay-Serial"), KEY_ID);
    c.wechatpay_serial = STR("PUB_KEY_ID_9");
    r = exchange_call(&c);
    assert_str(header(&r.headers, "Wechatpay-Serial"), "5A00112233445566778899");
}

static void a_merchant_with_a_public_key_only(void **state)
{
    (void)state;
    sandbox_free(sandbox);
    struct sandbox_options o = {
        .env = &world.env, .wechat_count = 1, .callbacks = &box.transport, .manual = true
    };
    o.wechat[0] = test_account();
    o.wechat[0].platform_cert_pem = STR_NONE;
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    assert_answer(call("GET", "/v3/certificates", ""), 404, "RESOURCE_NOT_EXISTS");
    struct http_reply r = prepay("PUBLIC0001", 1);
    assert_answer(r, 200, NULL);
    assert_str(header(&r.headers, "Wechatpay-Serial"), KEY_ID);
    pay("PUBLIC0001");
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_str(header(&box.got[0].headers, "Wechatpay-Serial"), KEY_ID);
    assert_true(is_right(0));
    assert_int_equal(sandbox_rotate_certificate(sandbox, STR(MCHID), arena, NULL), ERR_CONFLICT);
}

static void another_carrier_takes_over(void **state)
{
    (void)state;
    struct callback_box other = { .transport = { box_exchange }, .arena = arena, .answer = 204 };
    prepay("CARRY00001", 1);
    pay("CARRY00001");
    sandbox_set_callbacks(sandbox, &other.transport);
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_int_equal(other.count, 1);
    assert_int_equal(box.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_payment_is_told, begin, end),
        cmocka_unit_test_setup_teardown(only_200_and_204_acknowledge, begin, end),
        cmocka_unit_test_setup_teardown(the_resend_schedule, begin, end),
        cmocka_unit_test_setup_teardown(some_envelopes_escape_their_slashes, begin, end),
        cmocka_unit_test_setup_teardown(lost, begin, end),
        cmocka_unit_test_setup_teardown(delayed, begin, end),
        cmocka_unit_test_setup_teardown(duplicated, begin, end),
        cmocka_unit_test_setup_teardown(in_another_order, begin, end),
        cmocka_unit_test_setup_teardown(badly_signed, begin, end),
        cmocka_unit_test_setup_teardown(probed, begin, end),
        cmocka_unit_test_setup_teardown(without_signature_headers, begin, end),
        cmocka_unit_test_setup_teardown(corrupted_but_rightly_signed, begin, end),
        cmocka_unit_test_setup_teardown(lying_about_the_amount, begin, end),
        cmocka_unit_test_setup_teardown(lying_about_the_merchant, begin, end),
        cmocka_unit_test_setup_teardown(under_an_unknown_serial, begin, end),
        cmocka_unit_test_setup_teardown(another_amount_taken, begin, end),
        cmocka_unit_test_setup_teardown(a_rotated_certificate_signs_what_follows, begin, end),
        cmocka_unit_test_setup_teardown(the_key_is_chosen_by_the_request, begin, end),
        cmocka_unit_test_setup_teardown(a_merchant_with_a_public_key_only, begin, end),
        cmocka_unit_test_setup_teardown(another_carrier_takes_over, begin, end),
    };
    return RUN_TESTS(tests);
}
