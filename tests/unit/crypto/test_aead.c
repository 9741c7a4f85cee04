/* AES-GCM: answers of the GCM specification (McGrew, Viega, appendix B), refusals, and kept
 * contexts that must never mix keys, directions or nonce lengths. */
#include "crypto/aead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

#define KEY16 "feffe9928665731c6d6a8f9467308308"
#define PLAIN60                                                                                    \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"                             \
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
#define AAD20 "feedfacedeadbeeffeedfacedeadbeefabaddad2"

static const struct known {
    const char *key, *nonce, *aad, *plain, *cipher, *tag;
} known[] = {
    { "00000000000000000000000000000000", "000000000000000000000000", "", "", "",
      "58e2fccefa7e3061367f1d57a4e7455a" },
    { KEY16, "cafebabefacedbaddecaf888", AAD20, PLAIN60,
      "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
      "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
      "5bc94fbc3221a5db94fae95ae7121a47" },
    { "0000000000000000000000000000000000000000000000000000000000000000",
      "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b" },
    { "0000000000000000000000000000000000000000000000000000000000000000",
      "000000000000000000000000", "", "00000000000000000000000000000000",
      "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919" },
    { KEY16 KEY16, "cafebabefacedbaddecaf888", AAD20, PLAIN60,
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
      "76fc6ece0f4e1768cddf8853bb2d551b" },
    { KEY16 KEY16, "cafebabefacedbad", AAD20, PLAIN60,
      "c3762df1ca787d32ae47c13bf19844cbaf1ae14d0b976afac52ff7d79bba9de0"
      "feb582d33934a4f0954cc2363bc73f7862ac430e64abe499f47c9b1f",
      "3a337dbf46a792c45e454913fe2ea8f2" },
};

static struct str unhex(struct arena *a, const char *hex)
{
    struct str s;
    assert_int_equal(str_unhex(a, str_of(hex), &s), ERR_OK);
    return s;
}

static void check_known(struct arena *a, const struct known *k)
{
    struct str key = unhex(a, k->key), nonce = unhex(a, k->nonce), aad = unhex(a, k->aad);
    struct str plain = unhex(a, k->plain), got;
    struct str cipher = unhex(a, str_printf(a, "%s%s", k->cipher, k->tag).p);

    assert_int_equal(aead_encrypt(key, nonce, aad, plain, a, &got), ERR_OK);
    assert_true(str_eq(got, cipher));
    assert_int_equal(aead_decrypt(key, nonce, aad, cipher, a, &got), ERR_OK);
    assert_true(str_eq(got, plain));
}

/* Three rounds: the second and third meet contexts that the first left behind. */
static void known_answers(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            check_known(a, &known[i]);
}

static void every_altered_bit_is_denied(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    const struct known *k = &known[4];
    struct str key = unhex(a, k->key), nonce = unhex(a, k->nonce), aad = unhex(a, k->aad);
    struct str cipher = unhex(a, str_printf(a, "%s%s", k->cipher, k->tag).p);

    for (size_t bit = 0; bit < 8 * cipher.n; bit++) {
        char *altered = arena_copy(a, cipher.p, cipher.n);
        altered[bit / 8] = (char)(altered[bit / 8] ^ (1 << bit % 8));
        struct str got = STR("untouched");
        assert_int_equal(aead_decrypt(key, nonce, aad, (struct str) { altered, cipher.n }, a, &got),
                         ERR_DENIED);
        assert_true(str_eq(got, STR("untouched")));
    }
    struct str got;
    assert_int_equal(aead_decrypt(key, nonce, STR("other"), cipher, a, &got), ERR_DENIED);
    assert_int_equal(aead_decrypt(key, nonce, STR_NONE, cipher, a, &got), ERR_DENIED);
    assert_int_equal(aead_decrypt(key, STR("0123456789ab"), aad, cipher, a, &got), ERR_DENIED);
    assert_int_equal(aead_decrypt(key, nonce, aad, str_sub(cipher, 0, cipher.n - 1), a, &got),
                     ERR_DENIED);
    check_known(a, k); /* and the context is as good as before */
}

static void bad_shapes_are_invalid(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct str key = STR("0123456789abcdef0123456789abcdef"), nonce = STR("0123456789ab"), got;
    struct str cipher = STR("0123456789abcdef");
    struct str none = STR_NONE;

    assert_int_equal(aead_decrypt(none, nonce, none, cipher, a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(str_sub(key, 0, 31), nonce, none, cipher, a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(str_sub(key, 0, 24), nonce, none, cipher, a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(key, none, none, cipher, a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(key, STR("0123456789abcdef0"), none, cipher, a, &got),
                     ERR_INVALID);
    assert_int_equal(aead_decrypt(key, nonce, none, str_sub(cipher, 0, 15), a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(key, nonce, none, none, a, &got), ERR_INVALID);
    assert_int_equal(aead_decrypt(key, nonce, none, cipher, a, &got), ERR_DENIED);
    assert_int_equal(aead_encrypt(str_sub(key, 0, 17), nonce, none, cipher, a, &got), ERR_INVALID);
    assert_int_equal(aead_encrypt(key, none, none, cipher, a, &got), ERR_INVALID);
}

/* More keys than a thread keeps, every nonce length, both directions interleaved. */
static void kept_contexts_do_not_mix(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str keys[24], ciphers[24], got;
    struct str nonces = STR("fedcba9876543210");
    for (size_t i = 0; i < 24; i++) {
        char *key = arena_alloc(a, 32);
        memset(key, (int)i, 32);
        keys[i] = (struct str) { key, i % 2 ? 32 : 16 };
        struct str nonce = str_sub(nonces, 0, i % 16 + 1);
        assert_int_equal(aead_encrypt(keys[i], nonce, STR("aad"), keys[i], a, &ciphers[i]), ERR_OK);
    }
    for (size_t n = 0; n < 24 * 12; n++) {
        size_t i = n * 7 % 24;
        struct str nonce = str_sub(nonces, 0, i % 16 + 1);
        assert_int_equal(aead_decrypt(keys[i], nonce, STR("aad"), ciphers[i], a, &got), ERR_OK);
        assert_true(str_eq(got, keys[i]));
        assert_int_equal(aead_decrypt(keys[(i + 2) % 24], nonce, STR("aad"), ciphers[i], a, &got),
                         ERR_DENIED);
        assert_int_equal(aead_encrypt(keys[i], nonce, STR("aad"), keys[i], a, &got), ERR_OK);
        assert_true(str_eq(got, ciphers[i]));
    }
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(every_altered_bit_is_denied),
        cmocka_unit_test(bad_shapes_are_invalid),
        cmocka_unit_test(kept_contexts_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
