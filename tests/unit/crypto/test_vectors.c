/* Known answers of the official documentation and public SDKs, when they lie beside the repository.
 * One table entry a kind; kinds that are not about cryptography belong to other tests and are left
 * out of the count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "crypto/aead.h"
#include "crypto/digest.h"
#include "crypto/rsa.h"
#include "crypto/x509.h"
#include "support/shared.h"

struct vector {
    struct arena *a;
    const struct json *keys, *v;
};

static struct str text(const struct vector *c, const char *key)
{
    struct str s;
    assert_int_equal(json_get_str(c->v, key, &s, NULL), ERR_OK);
    return s;
}

static struct str bytes(const struct vector *c, const char *key)
{
    struct str s;
    assert_int_equal(str_unbase64(c->a, text(c, key), &s), ERR_OK);
    return s;
}

static struct str pem(const struct vector *c, const char *key)
{
    struct str s;
    assert_int_equal(json_get_str(c->keys, str_cstr(c->a, text(c, key)), &s, NULL), ERR_OK);
    return s;
}

static struct rsa_key *private_key(const struct vector *c)
{
    struct rsa_key *key;
    assert_int_equal(rsa_private_from_pem(pem(c, "key"), &key, NULL), ERR_OK);
    return key;
}

/* "verify_key" where the vector has one, else "key"; a public key, or a certificate's. */
static struct rsa_key *verifying_key(const struct vector *c)
{
    struct str p = pem(c, json_get(c->v, "verify_key") ? "verify_key" : "key");
    struct rsa_key *key;
    struct certificate certificate;
    if (rsa_public_from_pem(p, &key, NULL) == ERR_OK)
        return key;
    assert_int_equal(certificate_from_pem(p, c->a, &certificate, NULL), ERR_OK);
    assert_non_null(certificate.key);
    return certificate.key;
}

static void run_sign(const struct vector *c)
{
    struct rsa_key *key = private_key(c);
    struct str signature;
    assert_int_equal(rsa_sign(key, text(c, "message"), c->a, &signature, NULL), ERR_OK);
    assert_true(str_eq(str_base64(c->a, signature), text(c, "signature")));
    assert_int_equal(rsa_verify(key, text(c, "message"), signature), ERR_OK);
    rsa_unref(key);
}

static void run_verify(const struct vector *c)
{
    struct rsa_key *key = verifying_key(c);
    struct str message = text(c, "message"), signature = bytes(c, "signature");
    assert_int_equal(rsa_verify(key, message, signature), ERR_OK);
    assert_int_equal(rsa_verify(key, STR("wrong source"), signature), ERR_DENIED);
    assert_int_equal(rsa_verify(key, STR_NONE, signature), ERR_DENIED);
    assert_int_equal(rsa_verify(key, message, STR_NONE), ERR_DENIED);
    assert_int_equal(rsa_verify(key, message, STR("invalid base64 signature")), ERR_DENIED);
    rsa_unref(key);
}

static void run_callback(const struct vector *c)
{
    run_verify(c);
    const struct json *body;
    assert_int_equal(json_parse(c->a, text(c, "body"), &body, NULL), ERR_OK);
    struct vector resource = { c->a, c->keys, json_get(body, "resource") };
    struct str plain;
    assert_int_equal(aead_decrypt(text(c, "apiv3_key"), text(&resource, "nonce"),
                                  text(&resource, "associated_data"),
                                  bytes(&resource, "ciphertext"), c->a, &plain),
                     ERR_OK);
    assert_true(str_eq(plain, text(c, "plaintext")));
}

static struct str decrypt(const struct vector *c)
{
    struct str key = text(c, "key_ascii"), nonce = text(c, "nonce"), aad = text(c, "aad");
    struct str cipher = bytes(c, "ciphertext"), plain, got;
    assert_int_equal(aead_decrypt(key, nonce, STR("bad aad"), cipher, c->a, &plain), ERR_DENIED);
    assert_int_equal(aead_decrypt(key, STR("bad nonce"), aad, cipher, c->a, &plain), ERR_DENIED);
    assert_int_equal(aead_decrypt(key, nonce, aad, cipher, c->a, &plain), ERR_OK);
    assert_int_equal(aead_encrypt(key, nonce, aad, plain, c->a, &got), ERR_OK);
    assert_true(str_eq(got, cipher));
    return plain;
}

static void run_aead(const struct vector *c)
{
    assert_true(str_eq(decrypt(c), text(c, "plaintext")));
}

static void run_aead_negative(const struct vector *c)
{
    for (const struct json *v = json_get(c->v, "cases")->first; v; v = v->next) {
        struct vector one = { c->a, c->keys, v };
        struct str cipher, plain;
        bool refused = str_unbase64(c->a, text(&one, "ciphertext"), &cipher) ||
                       aead_decrypt(text(c, "key_ascii"), text(&one, "nonce"), text(c, "aad"),
                                    cipher, c->a, &plain);
        assert_true(refused);
    }
}

static void expect_time(const struct vector *c, const char *key, int64_t got_ms)
{
    int64_t ms;
    if (!json_get(c->v, key))
        return;
    assert_int_equal(clock_parse_rfc3339(text(c, key), &ms), ERR_OK);
    assert_int_equal(got_ms, ms);
}

static void run_certificates_response(const struct vector *c)
{
    struct str plain = decrypt(c);
    struct certificate got;
    int64_t n;
    assert_int_equal(json_get_int(c->v, "plaintext_len", &n, NULL), ERR_OK);
    assert_int_equal(plain.n, n);
    assert_true(str_eq(sha256_hex(c->a, plain), text(c, "plaintext_sha256")));
    assert_int_equal(certificate_from_pem(plain, c->a, &got, NULL), ERR_OK);
    assert_true(str_eq(got.serial, text(c, "serial")));
    expect_time(c, "effective_time", got.not_before_ms);
    expect_time(c, "expire_time", got.not_after_ms);
    certificate_done(&got);
}

static void run_oaep_decrypt(const struct vector *c)
{
    struct rsa_key *key = private_key(c);
    struct str plain;
    assert_int_equal(rsa_oaep_decrypt(key, bytes(c, "ciphertext"), c->a, &plain, NULL), ERR_OK);
    assert_true(str_eq(plain, text(c, "plaintext")));
    rsa_unref(key);
}

static void run_pkcs1_legacy(const struct vector *c)
{
    struct rsa_key *key = private_key(c);
    struct str plain;
    assert_int_equal(rsa_oaep_decrypt(key, bytes(c, "ciphertext"), c->a, &plain, NULL), ERR_DENIED);
    rsa_unref(key);
}

static void run_sha1(const struct vector *c)
{
    assert_true(str_eq(sha1_hex(c->a, text(c, "message")), text(c, "sha1")));
    assert_true(str_eq(sha256_hex(c->a, text(c, "message")), text(c, "sha256")));
}

static void run_cert_serial(const struct vector *c)
{
    struct certificate got;
    assert_int_equal(certificate_from_pem(pem(c, "key"), c->a, &got, NULL), ERR_OK);
    assert_true(str_eq(got.serial, text(c, "serial")));
    certificate_done(&got);
}

/* A probe's signature is not even Base64, and must stop there. */
static void run_signature_probe(const struct vector *c)
{
    struct str signature;
    assert_int_equal(str_unbase64(c->a, text(c, "signature"), &signature), ERR_INVALID);
}

static const struct kind {
    const char *name;
    void (*run)(const struct vector *c);
} kinds[] = {
    { "request-sign", run_sign },
    { "jsapi-paysign", run_sign },
    { "app-sign", run_sign },
    { "response-verify", run_verify },
    { "cert-verify", run_verify },
    { "pubkey-verify", run_verify },
    { "callback", run_callback },
    { "aead-256", run_aead },
    { "aead-128", run_aead },
    { "aead-256-iv16", run_aead },
    { "aead-negative", run_aead_negative },
    { "certificates-response", run_certificates_response },
    { "rsa-oaep-decrypt", run_oaep_decrypt },
    { "rsa-pkcs1-legacy", run_pkcs1_legacy },
    { "sha1", run_sha1 },
    { "cert-serial", run_cert_serial },
    { "signature-probe", run_signature_probe },
};

static void wechatpay_vectors(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str file = shared_read(a, "vectors/wechatpay/vectors.json");
    int count = 0;
    if (!file.p) {
        printf("# ran 0 shared vectors (no vectors/wechatpay beside the repository)\n");
        return;
    }
    const struct json *root;
    struct err_info info = { 0 };
    if (json_parse(a, file, &root, &info))
        fail_msg("vectors.json: %s", info.text);

    for (const struct json *v = json_get(root, "vectors")->first; v; v = v->next) {
        struct vector c = { a, json_get(root, "keys"), v };
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (str_eq(text(&c, "kind"), str_of(kinds[i].name))) {
                printf("# %s " STR_FMT "\n", kinds[i].name, STR_ARG(text(&c, "id")));
                kinds[i].run(&c);
                count++;
            }
    }
    printf("# ran %d shared vectors\n", count);
    assert_true(count > 0);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wechatpay_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
