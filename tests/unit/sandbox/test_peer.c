/* The openssl command line as the merchant: it signs what the sandbox accepts, and verifies what
 * the sandbox signs. And the request printed in WeChat Pay's own documents, which must be accepted
 * as it stands there. */
#include "sandbox_testing.h"

#include <unistd.h>

#include "support/shared.h"

static char dir[] = "/tmp/fenpay-sandbox-XXXXXX";

static int run(const char *command)
{
    return system(text("cd %s && { %s; } >out 2>err </dev/null", dir, command).p);
}

static struct str slurp(const char *name)
{
    struct str s = file_read(arena, text("%s/%s", dir, name).p);
    assert_non_null(s.p);
    return s;
}

static void spill(const char *name, struct str s)
{
    FILE *f = fopen(text("%s/%s", dir, name).p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

/* Keys and the platform's certificate by openssl, the sandbox with them. */
static int begin_openssl(void **state)
{
    begin(state);
    sandbox_free(sandbox);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(run("openssl genrsa -out merchant.pem 2048"), 0);
    assert_int_equal(run("openssl rsa -in merchant.pem -pubout -out merchant.pub"), 0);
    assert_int_equal(run("openssl req -x509 -newkey rsa:2048 -nodes -keyout platform.pem -subj "
                         "/CN=platform -set_serial 0x5157F09EFDC096DE15EBE81A47057A7232F1B8E1 "
                         "-days 100 -out platform.crt"),
                     0);
    assert_int_equal(run("openssl x509 -in platform.crt -noout -pubkey >platform.pub"), 0);
    struct sandbox_options o = {
        .env = &world.env, .wechat_count = 1, .callbacks = &box.transport, .manual = true
    };
    o.wechat[0] = test_account();
    o.wechat[0].merchant_public_pem = slurp("merchant.pub");
    o.wechat[0].platform_key_pem = slurp("platform.pem");
    o.wechat[0].platform_cert_pem = slurp("platform.crt");
    o.wechat[0].public_key_id = STR_NONE;
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    return 0;
}

static int end_openssl(void **state)
{
    assert_int_equal(run("rm -r -- \"$PWD\""), 0);
    return end(state);
}

static struct http_reply openssl_call(const char *method, const char *target, struct str body)
{
    struct merchant_call c = merchant_call(method, target, body.p);
    spill("message", merchant_message(&c));
    assert_int_equal(run("openssl dgst -sha256 -sign merchant.pem message >signature"), 0);
    assert_int_equal(run("openssl base64 -A -in signature -out signature.b64"), 0);
    c.signature = slurp("signature.b64");
    return exchange_call(&c);
}

static bool openssl_verifies(const struct http_headers *h, struct str body)
{
    assert_str(header(h, "Wechatpay-Serial"), "5157F09EFDC096DE15EBE81A47057A7232F1B8E1");
    spill("signature.b64", header(h, "Wechatpay-Signature"));
    spill("message",
          text(STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", STR_ARG(header(h, "Wechatpay-Timestamp")),
               STR_ARG(header(h, "Wechatpay-Nonce")), STR_ARG(body)));
    return !run("openssl base64 -d -A -in signature.b64 -out signature && openssl dgst -sha256 "
                "-verify platform.pub -signature signature message");
}

static void signed_and_verified_by_openssl(void **state)
{
    (void)state;
    struct http_reply r =
        openssl_call("POST", "/v3/pay/transactions/native", prepay_body("PEER000001", 100));
    assert_int_equal(r.status, 200);
    assert_true(openssl_verifies(&r.headers, r.body));
    assert_false(openssl_verifies(&r.headers, STR("{}")));
    r = openssl_call("GET", "/v3/pay/transactions/out-trade-no/PEER000001?mchid=" MCHID, STR(""));
    assert_int_equal(r.status, 200);
    assert_true(openssl_verifies(&r.headers, r.body));

    pay("PEER000001");
    assert_int_equal(sandbox_turn(sandbox), 1);
    assert_true(openssl_verifies(&box.got[0].headers, box.got[0].body));

    r = openssl_call("POST", "/v3/pay/transactions/native", prepay_body("PEER000002", 100));
    r = openssl_call("POST", "/v3/pay/transactions/out-trade-no/PEER000002/close",
                     STR("{\"mchid\":\"" MCHID "\"}"));
    assert_int_equal(r.status, 204);
    assert_true(openssl_verifies(&r.headers, STR("")));
    fault((struct sandbox_fault_rule) { .fault = FAULT_BAD_SIGNATURE });
    r = openssl_call("GET", "/v3/certificates", STR(""));
    assert_false(openssl_verifies(&r.headers, r.body));
}

/* Vector S1: key, body, timestamp, nonce and signature of the official page. */
static void the_documents_request_is_accepted(void **state)
{
    (void)state;
    struct str all = shared_read(arena, "vectors/wechatpay/vectors.json");
    if (!all.p) {
        print_message("no shared vectors: 0 cases\n");
        return;
    }
    const struct json *j, *v;
    struct rsa_key *key, *public;
    assert_ok(json_parse(arena, all, &j, NULL));
    for (v = json_get(j, "vectors")->first; v && !str_eq(json_get(v, "id")->text, STR("S1"));)
        v = v->next;
    assert_non_null(v);
    struct str key_pem = json_get(json_get(j, "keys"), "K1-doc-merchant-priv")->text;
    assert_ok(rsa_private_from_pem(key_pem, &key, NULL));
    public = rsa_public_of(key);

    struct sandbox_options o = { .env = &world.env, .wechat_count = 1, .manual = true };
    o.wechat[0] = test_account();
    o.wechat[0].mchid = STR("1900007291");
    o.wechat[0].appid = STR("wxd678efh567hg6787");
    o.wechat[0].merchant_serial = STR("408B07E79B8269FEC3D5D3E6AB8ED163A6A380DB");
    o.wechat[0].merchant_public_pem = rsa_public_pem(arena, public);
    sandbox_free(sandbox);
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    rsa_unref(key);
    rsa_unref(public);

    struct merchant_call c = merchant_call("POST", "/v3/pay/transactions/jsapi", "");
    c.body = json_get(v, "body")->text;
    c.timestamp = json_get(v, "timestamp")->text;
    c.nonce = json_get(v, "nonce")->text;
    c.signature = json_get(v, "signature")->text;
    c.mchid = o.wechat[0].mchid;
    c.serial = o.wechat[0].merchant_serial;
    assert_int_equal(exchange_call(&c).status, 401); /* years later */
    int64_t then_s;
    assert_ok(str_int64(c.timestamp, &then_s));
    env_test_advance(&world, then_s * 1000 - NOW_MS);
    struct http_reply r = exchange_call(&c);
    assert_answer(r, 200, NULL);
    assert_true(member(r.body, "prepay_id").n > 0);
    print_message("shared vectors: 1 case\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(signed_and_verified_by_openssl, begin_openssl, end_openssl),
        cmocka_unit_test_setup_teardown(the_documents_request_is_accepted, begin, end),
    };
    return RUN_TESTS(tests);
}
