/* RSA keys and signatures within one thread: forms of keys, refusals, alterations, OAEP. The
 * openssl command line as an independent peer is in test_peer.c, threads are in test_rsa_threads.c.
 */
#include "crypto/rsa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

static struct rsa_key *key_a, *key_b;

static int setup(void **state)
{
    (void)state;
    return rsa_generate(2048, &key_a, NULL) || rsa_generate(1024, &key_b, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rsa_unref(key_a);
    rsa_unref(key_b);
    rsa_unref(NULL);
    return 0;
}

static struct str sign(struct arena *a, struct rsa_key *key, struct str message)
{
    struct str signature;
    assert_int_equal(rsa_sign(key, message, a, &signature, NULL), ERR_OK);
    assert_int_equal(signature.n, rsa_bits(key) / 8);
    return signature;
}

/* Runs before anything allows short keys: that cannot be taken back. */
static void short_keys_are_refused_unless_allowed(void **state)
{
    (void)state;
    struct err_info info = { 0 };
    struct rsa_key *key = NULL;
    assert_int_equal(rsa_generate(512, &key, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "512 bits"));
    assert_int_equal(rsa_generate(1023, &key, NULL), ERR_INVALID);
    assert_int_equal(rsa_generate(100000, &key, NULL), ERR_INVALID);
    assert_null(key);
}

static void signatures_verify_and_alterations_do_not(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str message = STR("POST\n/v3/pay\n1554208460\nnonce\n{}\n");
    struct str s = sign(a, key_a, message);

    assert_int_equal(rsa_verify(key_a, message, s), ERR_OK);
    assert_true(str_eq(s, sign(a, key_a, message))); /* PKCS#1 v1.5 has no randomness */
    const struct str parts[] = { str_sub(message, 0, 5), STR_NONE, str_sub(message, 5, message.n) };
    assert_int_equal(rsa_verify_parts(key_a, parts, 3, s), ERR_OK);
    assert_int_equal(rsa_verify_parts(key_a, parts, 2, s), ERR_DENIED);

    assert_int_equal(rsa_verify(key_a, str_sub(message, 0, message.n - 1), s), ERR_DENIED);
    assert_int_equal(rsa_verify(key_a, STR_NONE, s), ERR_DENIED);
    assert_int_equal(rsa_verify(key_b, message, s), ERR_DENIED);
    assert_int_equal(rsa_verify(key_a, message, STR_NONE), ERR_DENIED);
    assert_int_equal(rsa_verify(key_a, message, str_sub(s, 0, s.n - 1)), ERR_DENIED);
    assert_int_equal(rsa_verify(key_a, message, str_printf(a, STR_FMT "0", STR_ARG(s))),
                     ERR_DENIED);
    for (size_t bit = 0; bit < 8 * s.n; bit += 61) {
        char *altered = arena_copy(a, s.p, s.n);
        altered[bit / 8] = (char)(altered[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(rsa_verify(key_a, message, (struct str) { altered, s.n }), ERR_DENIED);
    }
    char *big = arena_alloc(a, s.n);
    memset(big, 0xff, s.n); /* larger than the modulus */
    assert_int_equal(rsa_verify(key_a, message, (struct str) { big, s.n }), ERR_DENIED);
    char *zero = arena_alloc(a, s.n);
    assert_int_equal(rsa_verify(key_a, message, (struct str) { zero, s.n }), ERR_DENIED);
    assert_int_equal(rsa_verify(key_a, message, s), ERR_OK);
}

static void printed_keys_read_back(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *private, *public;
    struct str s = sign(a, key_a, STR("m"));

    assert_int_equal(rsa_private_from_pem(rsa_private_pem(a, key_a), &private, NULL), ERR_OK);
    assert_int_equal(rsa_public_from_pem(rsa_public_pem(a, key_a), &public, NULL), ERR_OK);
    assert_int_equal(rsa_bits(public), 2048);
    assert_true(str_eq(sign(a, private, STR("m")), s));
    assert_int_equal(rsa_verify(public, STR("m"), s), ERR_OK);
    assert_true(rsa_same_public(private, public));
    assert_true(rsa_same_public(public, key_a));
    assert_false(rsa_same_public(public, key_b));
    assert_false(rsa_same_public(key_b, private));
    rsa_unref(private);
    rsa_unref(public);
}

static void the_public_half_outlives_the_pair_and_cannot_sign(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct rsa_key *pair;
    assert_int_equal(rsa_generate(1024, &pair, NULL), ERR_OK);
    struct str s = sign(a, pair, STR("m")), got = STR("untouched");
    struct rsa_key *public = rsa_public_of(pair);
    rsa_unref(pair);

    assert_int_equal(rsa_verify(public, STR("m"), s), ERR_OK);
    struct err_info info = { 0 };
    assert_int_equal(rsa_sign(public, STR("m"), a, &got, &info), ERR_INVALID);
    assert_true(info.text[0]);
    assert_int_equal(rsa_oaep_decrypt(public, s, a, &got, NULL), ERR_INVALID);
    assert_true(str_eq(got, STR("untouched")));

    struct rsa_key *same = rsa_public_of(public);
    assert_ptr_equal(same, public);
    rsa_unref(same);
    rsa_unref(public);
}

static void refuse(struct str pem, bool private, const char *word)
{
    struct err_info info = { 0 };
    struct rsa_key *key = NULL;
    enum err e =
        private ? rsa_private_from_pem(pem, &key, &info) : rsa_public_from_pem(pem, &key, &info);
    assert_int_equal(e, ERR_INVALID);
    assert_null(key);
    if (!strstr(info.text, word))
        fail_msg("'%s' does not say '%s'", info.text, word);
}

static void wrong_key_texts_are_refused_in_clear_words(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str private = rsa_private_pem(a, key_b), public = rsa_public_pem(a, key_b);

    refuse(public, true, "a PUBLIC KEY");
    refuse(private, false, "a PRIVATE KEY");
    refuse(STR_NONE, true, "no PEM block");
    refuse(STR(""), false, "no PEM block");
    refuse(STR("hello"), false, "no PEM block");
    refuse(str_sub(private, 0, private.n / 2), true, "no PEM block");
    refuse(STR("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), false,
           "not an RSA key");
    refuse(STR("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), true,
           "not an RSA key");
    refuse(STR("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), false,
           "CERTIFICATE");
}

static void oaep_round_trip_and_limits(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str cipher, again, plain = STR("untouched");
    struct err_info info = { 0 };

    assert_int_equal(rsa_oaep_encrypt(key_a, STR("张三"), a, &cipher, NULL), ERR_OK);
    assert_int_equal(rsa_oaep_encrypt(key_a, STR("张三"), a, &again, NULL), ERR_OK);
    assert_false(str_eq(cipher, again));

    assert_int_equal(rsa_oaep_decrypt(key_b, cipher, a, &plain, &info), ERR_DENIED);
    assert_true(info.text[0]);
    assert_int_equal(rsa_oaep_decrypt(key_a, STR("1234"), a, &plain, NULL), ERR_DENIED);
    assert_int_equal(rsa_oaep_decrypt(key_a, STR_NONE, a, &plain, NULL), ERR_DENIED);
    char *altered = arena_copy(a, cipher.p, cipher.n);
    altered[100] = (char)(altered[100] ^ 1);
    assert_int_equal(rsa_oaep_decrypt(key_a, (struct str) { altered, cipher.n }, a, &plain, NULL),
                     ERR_DENIED);
    assert_true(str_eq(plain, STR("untouched")));
    assert_int_equal(rsa_oaep_decrypt(key_a, cipher, a, &plain, NULL), ERR_OK);
    assert_true(str_eq(plain, STR("张三")));

    char *longest = arena_alloc(a, 215);
    assert_int_equal(rsa_oaep_encrypt(key_a, (struct str) { longest, 214 }, a, &cipher, NULL),
                     ERR_OK);
    assert_int_equal(rsa_oaep_decrypt(key_a, cipher, a, &plain, NULL), ERR_OK);
    assert_int_equal(plain.n, 214);
    assert_int_equal(rsa_oaep_encrypt(key_a, (struct str) { longest, 215 }, a, &cipher, NULL),
                     ERR_INVALID);
    assert_int_equal(rsa_oaep_encrypt(key_a, STR_NONE, a, &cipher, NULL), ERR_OK);
    assert_int_equal(rsa_oaep_decrypt(key_a, cipher, a, &plain, NULL), ERR_OK);
    assert_int_equal(plain.n, 0);
}

static void references_count(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct rsa_key *key;
    assert_int_equal(rsa_generate(1024, &key, NULL), ERR_OK);
    assert_ptr_equal(rsa_ref(key), key);
    rsa_unref(key);
    assert_int_equal(rsa_verify(key, STR("m"), sign(a, key, STR("m"))), ERR_OK);
    rsa_unref(key);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_keys_are_refused_unless_allowed),
        cmocka_unit_test(signatures_verify_and_alterations_do_not),
        cmocka_unit_test(printed_keys_read_back),
        cmocka_unit_test(the_public_half_outlives_the_pair_and_cannot_sign),
        cmocka_unit_test(wrong_key_texts_are_refused_in_clear_words),
        cmocka_unit_test(oaep_round_trip_and_limits),
        cmocka_unit_test(references_count),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
