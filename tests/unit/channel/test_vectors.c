/* Known answers of WeChat Pay's documents and SDKs through the adapter's own functions, when they
 * lie beside the repository. Vectors about bare cryptography belong to the crypto tests and are
 * left out of the count. */
#include "channel_testing.h"

#include "crypto/digest.h"
#include "support/shared.h"

struct vector {
    struct arena *a;
    const struct json *keys, *v;
    struct account *account;
};

static struct str text(const struct vector *c, const char *key)
{
    struct str s;
    if (json_get_str(c->v, key, &s, NULL))
        fail_msg("a vector without %s", key);
    return s;
}

static struct str pem_of(const struct vector *c, const char *name)
{
    struct str s;
    assert_int_equal(json_get_str(c->keys, name, &s, NULL), ERR_OK);
    return s;
}

static struct str key_of(const struct vector *c)
{
    const char *field = json_get(c->v, "verify_key") ? "verify_key" : "key";
    return pem_of(c, str_cstr(c->a, text(c, field)));
}

/* The documents' merchant, with the vector's key or certificate as the channel's, and that APIv3
 * key put in afterwards: some suites use 16 bytes, which no account may. */
static void open_account(struct vector *c, struct str channel_pem, struct str apiv3,
                         const char *now_s)
{
    struct env_test env;
    int64_t s;
    struct account_config config = {
        .name = STR("vectors"),
        .notify_url = STR("https://pay.example.com/notify/vectors"),
        .environment = ENVIRONMENT_PRODUCTION,
        .wechat = { .mchid = STR("1900007291"),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = pem_of(c, "K1-doc-merchant-priv"),
                    .merchant_serial = STR("408B07E79B8269FEC3D5D3E6AB8ED163A6A380DB"),
                    .apiv3_key = STR("0123456789abcdefABCDEF9876543210"),
                    .download_certs = true },
    };
    bool certificate = str_starts(channel_pem, STR("-----BEGIN CERTIFICATE"));
    if (certificate)
        config.wechat.platform_certs = (struct cfg_str_list) { &channel_pem, 1 };
    else if (channel_pem.n) {
        config.wechat.public_key_id = STR("PUB_KEY_ID_0000000001");
        config.wechat.public_key = channel_pem;
    }
    assert_int_equal(str_int64(str_of(now_s), &s), ERR_OK);
    env_init_test(&env, s * 1000, 1);
    struct err_info info = { 0 };
    if (account_open(&config, STR_NONE, &env.env, &c->account, &info))
        fail_msg("%s: %s", info.field, info.text);
    if (apiv3.n)
        ((struct wechat_keys *)c->account->keys)->apiv3[0] = apiv3;
}

static struct str message_line(struct str *rest)
{
    return str_cut(rest, '\n');
}

static void request_sign(struct vector *c)
{
    open_account(c, STR_NONE, STR_NONE, "1554208460");
    struct str message = text(c, "message"), rest = message;
    struct str method = message_line(&rest), url = message_line(&rest),
               timestamp = message_line(&rest), nonce = message_line(&rest),
               body = str_sub(rest, 0, rest.n - 1);
    struct str made =
        wechat_request_message(c->a, str_cstr(c->a, method), url, timestamp, nonce, body);
    assert_true(str_eq(made, message));
    struct str header,
        expected = str_printf(
            c->a,
            "WECHATPAY2-SHA256-RSA2048 mchid=\"1900007291\",nonce_str=\"" STR_FMT
            "\",timestamp=\"" STR_FMT
            "\",serial_no=\"408B07E79B8269FEC3D5D3E6AB8ED163A6A380DB\",signature=\"" STR_FMT "\"",
            STR_ARG(nonce), STR_ARG(timestamp), STR_ARG(text(c, "signature")));
    assert_int_equal(wechat_authorization(c->account->keys, STR("1900007291"), made, timestamp,
                                          nonce, c->a, &header, NULL),
                     ERR_OK);
    assert_true(str_eq(header, expected));
}

static void authorization_layout(struct vector *c)
{
    const struct json *cases = json_get(c->v, "cases");
    for (const struct json *k = cases->first; k; k = k->next) {
        struct vector one = *c;
        one.v = k;
        struct str made =
            wechat_request_message(c->a, str_cstr(c->a, text(&one, "method")), text(&one, "url"),
                                   text(c, "timestamp"), text(c, "nonce"), text(&one, "body"));
        assert_true(str_eq(made, text(&one, "message")));
    }
}

static void client_sign(struct vector *c)
{
    open_account(c, STR_NONE, STR_NONE, "1554208460");
    struct str rest = text(c, "message"), sign;
    struct str appid = message_line(&rest), timestamp = message_line(&rest),
               nonce = message_line(&rest), fourth = message_line(&rest);
    assert_int_equal(
        wechat_client_sign(c->account->keys, appid, timestamp, nonce, fourth, c->a, &sign, NULL),
        ERR_OK);
    assert_true(str_eq(sign, text(c, "signature")));
}

static struct http_headers headers_of(struct vector *c, struct str serial, struct str timestamp,
                                      struct str nonce)
{
    struct http_header *items = arena_array(c->a, 4, sizeof items[0]);
    items[0] = (struct http_header) { STR("Wechatpay-Serial"), serial };
    items[1] = (struct http_header) { STR("Wechatpay-Timestamp"), timestamp };
    items[2] = (struct http_header) { STR("Wechatpay-Nonce"), nonce };
    items[3] = (struct http_header) { STR("Wechatpay-Signature"), text(c, "signature") };
    return (struct http_headers) { items, 4 };
}

static void response_verify(struct vector *c)
{
    open_account(c, key_of(c), STR_NONE, "1722850421");
    const struct wechat_keys *keys = wechat_keys_of(c->account);
    struct str rest = text(c, "message");
    struct str timestamp = message_line(&rest), nonce = message_line(&rest),
               body = str_sub(rest, 0, rest.n - 1);
    struct http_headers headers = headers_of(c, keys->table[0].id, timestamp, nonce);
    int64_t at_s;
    assert_int_equal(str_int64(timestamp, &at_s), ERR_OK);
    assert_int_equal(
        wechat_verify(keys->table, keys->count, &headers, body, at_s * 1000, false, c->a, NULL),
        NOTICE_REASON_NONE);
    assert_int_equal(wechat_verify(keys->table, keys->count, &headers,
                                   str_printf(c->a, STR_FMT " ", STR_ARG(body)), at_s * 1000, false,
                                   c->a, NULL),
                     NOTICE_REASON_SIGNATURE);
}

static enum notice_result read_callback(struct vector *c, struct str body, struct str serial,
                                        struct notice *ret)
{
    struct env_test env;
    int64_t at_s;
    assert_int_equal(str_int64(text(c, "timestamp"), &at_s), ERR_OK);
    env_init_test(&env, at_s * 1000 + 900, 1);
    struct http_headers headers = headers_of(c, serial, text(c, "timestamp"), text(c, "nonce"));
    struct notice_input in = { .body = body, .headers = &headers };
    return wechat_read_notice(c->account, &env.env, &in, c->a, ret, NULL);
}

static void callback(struct vector *c)
{
    struct notice n;
    open_account(c, key_of(c), text(c, "apiv3_key"), "1624523846");
    struct str id = wechat_keys_of(c->account)->table[0].id;
    assert_int_equal(read_callback(c, text(c, "body"), id, &n), NOTICE_OK);
    assert_true(str_eq(n.plain, text(c, "plaintext")));
    bool ours = str_starts(n.kind, STR("TRANSACTION."));
    assert_int_equal(n.facts[0].kind, ours ? FACT_PAID : FACT_NOTHING);
    assert_int_equal(n.facts[0].ours, ours);
    assert_int_equal(
        read_callback(c, str_printf(c->a, STR_FMT "\n", STR_ARG(text(c, "body"))), id, &n),
        NOTICE_BAD);
    assert_int_equal(n.reason, NOTICE_REASON_SIGNATURE);
}

static void certificates_response(struct vector *c)
{
    open_account(c, STR_NONE, text(c, "key_ascii"), "1722850421");
    struct str answer = str_printf(
        c->a,
        "{\"data\":[{\"serial_no\":\"x\",\"encrypt_certificate\":{\"nonce\":\"" STR_FMT
        "\",\"associated_data\":\"" STR_FMT "\",\"ciphertext\":\"" STR_FMT "\"}}]}",
        STR_ARG(text(c, "nonce")), STR_ARG(text(c, "aad")), STR_ARG(text(c, "ciphertext")));
    const struct json *json;
    struct wechat_key key;
    struct str pem;
    size_t n;
    assert_int_equal(json_parse(c->a, answer, &json, NULL), ERR_OK);
    assert_int_equal(
        wechat_certificates_read(c->account->keys, json, c->a, &key, &pem, 1, &n, NULL), ERR_OK);
    assert_true(str_eq(key.id, text(c, "serial")));
    assert_true(str_starts(pem, STR("-----BEGIN CERTIFICATE-----")));
    rsa_unref(key.key);
}

static void cert_serial(struct vector *c)
{
    struct wechat_key key;
    assert_int_equal(wechat_key_of_certificate(key_of(c), c->a, &key, NULL), ERR_OK);
    assert_true(str_eq(key.id, text(c, "serial")));
    rsa_unref(key.key);
}

static void signature_probe(struct vector *c)
{
    struct notice n;
    open_account(c, pem_of(c, "K2-doc-wechat-pub"), STR_NONE, "1733109540");
    assert_int_equal(read_callback(c, STR("{}"), text(c, "serial"), &n), NOTICE_BAD);
    assert_int_equal(n.reason, NOTICE_REASON_PROBE);
}

static const struct {
    const char *kind;
    void (*run)(struct vector *c);
} kinds[] = {
    { "request-sign", request_sign },
    { "authorization-layout", authorization_layout },
    { "jsapi-paysign", client_sign },
    { "app-sign", client_sign },
    { "response-verify", response_verify },
    { "callback", callback },
    { "certificates-response", certificates_response },
    { "cert-serial", cert_serial },
    { "signature-probe", signature_probe },
};

static void vectors(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1 << 18);
    struct str file = shared_read(a, "vectors/wechatpay/vectors.json");
    const struct json *json;
    size_t ran = 0;
    if (!file.p) {
        print_message("# 0 vectors: the folder is not there\n");
        return;
    }
    assert_int_equal(json_parse(a, file, &json, NULL), ERR_OK);
    for (const struct json *v = json_get(json, "vectors")->first; v; v = v->next) {
        struct vector c = { .a = a, .keys = json_get(json, "keys"), .v = v };
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (!str_eq(text(&c, "kind"), str_of(kinds[i].kind)))
                continue;
            kinds[i].run(&c);
            account_unref(c.account);
            ran++;
        }
    }
    print_message("# %zu vectors\n", ran);
    assert_true(ran >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(vectors) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
