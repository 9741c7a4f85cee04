/* The openssl command line on the other end: its keys and certificates make an account, it verifies
 * what we sign and signs what we verify. */
#include "channel_testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/shared.h"

static char dir[] = "/tmp/fenpay-channel-XXXXXX";

static int run(const char *command)
{
    ARENA_AUTO a = arena_new(1024);
    return system(str_printf(a, "cd %s && { %s; } >out 2>err </dev/null", dir, command).p);
}

static struct str slurp(struct arena *a, const char *name)
{
    struct str s = file_read(a, str_printf(a, "%s/%s", dir, name).p);
    assert_non_null(s.p);
    return s;
}

static void spill(struct arena *a, const char *name, struct str s)
{
    FILE *f = fopen(str_printf(a, "%s/%s", dir, name).p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

#define MAKE(name, serial)                                                                         \
    "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=" name " -set_serial 0x" serial  \
    " -keyout " name ".key -out " name ".crt && openssl x509 -in " name                            \
    ".crt -pubkey -noout >" name ".pub"

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(dir) || run(MAKE("merchant", "0C4AEF34B893")) ||
           run(MAKE("platform", "5157F09EFDC096DE"));
}

static int teardown(void **state)
{
    (void)state;
    return run("rm -r -- \"$PWD\"");
}

static struct account *open_account(struct arena *a, struct env *env, bool public_key)
{
    struct str certificate = slurp(a, "platform.crt");
    struct account_config config = {
        .name = STR("peer"),
        .environment = ENVIRONMENT_PRODUCTION,
        .notify_url = STR("https://pay.example.com/notify/peer"),
        .wechat = { .mchid = STR("1900000109"),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = slurp(a, "merchant.key"),
                    .merchant_cert = slurp(a, "merchant.crt"),
                    .apiv3_key = STR(APIV3) },
    };
    if (public_key) {
        config.wechat.public_key_id = STR("PUB_KEY_ID_0119000001092023010100000000001");
        config.wechat.public_key = slurp(a, "platform.pub");
    } else {
        config.wechat.platform_certs = (struct cfg_str_list) { &certificate, 1 };
    }
    struct account *account;
    struct err_info info = { 0 };
    if (account_open(&config, STR_NONE, env, &account, &info))
        fail_msg("%s: %s", info.field, info.text);
    return account;
}

static void openssl_verifies_our_requests(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct env env;
    env_init_real(&env, NULL, NULL);
    struct account *account = open_account(a, &env, false);
    assert_str(wechat_keys_of(account)->merchant_serial, "0C4AEF34B893");
    struct str message =
        wechat_request_message(a, "POST", STR("/v3/pay/transactions/native"), STR("1700000000"),
                               STR("nonce"), STR("{\"description\":\"保温杯\"}"));
    struct str header, rest, signature;
    assert_int_equal(wechat_authorization(account->keys, STR("1900000109"), message,
                                          STR("1700000000"), STR("nonce"), a, &header, NULL),
                     ERR_OK);
    rest = str_sub(header, 0, header.n - 1);
    for (struct str part = rest; part.p;)
        rest = str_cut(&part, '"');
    assert_int_equal(str_unbase64(a, rest, &signature), ERR_OK);
    spill(a, "message", message);
    spill(a, "signature", signature);
    assert_int_equal(run("openssl dgst -sha256 -verify merchant.pub -signature signature message"),
                     0);
    account_unref(account);
}

static void we_verify_what_openssl_signs(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct env env;
    env_init_real(&env, NULL, NULL);
    static const char plain[] =
        "{\"mchid\":\"1900000109\",\"appid\":\"wxd678efh567hg6787\",\"out_trade_no\":\"PAY-1\","
        "\"transaction_id\":\"4200\",\"trade_state\":\"SUCCESS\",\"amount\":{\"total\":1}}";
    struct str body = world_envelope(a, "TRANSACTION.SUCCESS", "transaction", str_of(plain), APIV3);
    struct str timestamp = wechat_timestamp(&env, a);
    spill(
        a, "message",
        str_printf(a, STR_FMT "\nfrom-openssl\n" STR_FMT "\n", STR_ARG(timestamp), STR_ARG(body)));
    assert_int_equal(run("openssl dgst -sha256 -sign platform.key -out signature message && "
                         "openssl base64 -A -in signature -out signature.b64"),
                     0);
    for (int public_key = 0; public_key < 2; public_key++) {
        struct account *account = open_account(a, &env, public_key);
        struct http_header items[] = {
            { STR("Wechatpay-Timestamp"), timestamp },
            { STR("Wechatpay-Nonce"), STR("from-openssl") },
            { STR("Wechatpay-Serial"), public_key
                                           ? STR("PUB_KEY_ID_0119000001092023010100000000001")
                                           : STR("5157F09EFDC096DE") },
            { STR("Wechatpay-Signature"), slurp(a, "signature.b64") },
        };
        struct http_headers headers = { items, 4 };
        struct notice_input in = { .body = body, .headers = &headers };
        struct notice n;
        struct err_info info = { 0 };
        if (wechat_read_notice(account, &env, &in, a, &n, &info) != NOTICE_OK)
            fail_msg("%s", info.text);
        assert_int_equal(n.facts[0].kind, FACT_PAID);
        account_unref(account);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openssl_verifies_our_requests),
        cmocka_unit_test(we_verify_what_openssl_signs),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
