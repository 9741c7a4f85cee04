/* Digests and HMAC against published answers (FIPS 180, RFC 4231). */
#include "crypto/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

static struct str repeat(struct arena *a, char c, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    memset(p, c, n);
    return (struct str) { p, n };
}

static void assert_sha256(struct arena *a, struct sha256 d, const char *hex)
{
    assert_string_equal(str_cstr(a, str_hex(a, d.b, sizeof d.b)), hex);
}

static void known_hashes(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    assert_sha256(a, sha256(STR("")),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(a, sha256(STR_NONE),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(a, sha256(STR("abc")),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(sha256_hex(a, repeat(a, 'a', 1000000)).p,
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_string_equal(sha1_hex(a, STR("abc")).p, "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_string_equal(sha1_hex(a, STR_NONE).p, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

static void parts_are_their_concatenation(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    const struct str parts[] = { STR("a"), STR_NONE, STR("bc"), STR("") };
    assert_sha256(a, sha256_of(parts, 4),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256(a, sha256_of(NULL, 0),
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void known_hmacs(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    assert_sha256(a, hmac_sha256(repeat(a, 0x0b, 20), STR("Hi There")),
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_sha256(a, hmac_sha256(STR("Jefe"), STR("what do ya want for nothing?")),
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_sha256(a,
                  hmac_sha256(repeat(a, (char)0xaa, 131),
                              STR("Test Using Larger Than Block-Size Key - Hash Key First")),
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* An empty key must not mean "the key of the call before". */
static void empty_hmac_key_is_a_key(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    const char *empty = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
    hmac_sha256(STR("Jefe"), STR(""));
    assert_sha256(a, hmac_sha256(STR_NONE, STR_NONE), empty);
    hmac_sha256(STR("Jefe"), STR(""));
    assert_sha256(a, hmac_sha256(STR(""), STR("")), empty);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hashes),
        cmocka_unit_test(parts_are_their_concatenation),
        cmocka_unit_test(known_hmacs),
        cmocka_unit_test(empty_hmac_key_is_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
