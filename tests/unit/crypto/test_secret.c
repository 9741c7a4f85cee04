/* Secrets: wiped values and the "enc:v1:" form of configuration values. */
#include "crypto/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

static const struct str key = STR_INIT("an example master key, 32 bytes!");
static const struct str other_key = STR_INIT("an example master key, 32 bytes?");

static void copy_is_independent_and_let_go_twice(void **state)
{
    (void)state;
    char text[] = "hush";
    struct secret s = secret_copy((struct str) { text, 4 });
    secret_wipe(text, sizeof text);
    assert_int_equal(text[0] | text[1] | text[2] | text[3], 0);
    assert_true(str_eq(secret_str(&s), STR("hush")));
    secret_done(&s);
    assert_null(s.p);
    secret_done(&s);

    s = secret_copy(STR_NONE);
    assert_int_equal(secret_str(&s).n, 0);
    secret_done(&s);
}

static void what_was_encrypted_comes_back(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct env_test world;
    env_init_test(&world, 0, 7);
    struct str enc, again, plain;
    struct str name = STR("channel.main.api_v3_key");

    assert_int_equal(secret_encrypt(&world.env, key, name, STR("密 hush"), a, &enc), ERR_OK);
    assert_true(str_starts(enc, STR("enc:v1:")));
    assert_int_equal(enc.n, 7 + ((12 + 8 + 16) * 4 + 2) / 3);
    assert_int_equal(secret_decrypt(key, name, enc, a, &plain, NULL), ERR_OK);
    assert_true(str_eq(plain, STR("密 hush")));

    /* A new nonce each time. */
    assert_int_equal(secret_encrypt(&world.env, key, name, STR("密 hush"), a, &again), ERR_OK);
    assert_false(str_eq(enc, again));

    assert_int_equal(secret_encrypt(&world.env, key, name, STR_NONE, a, &enc), ERR_OK);
    assert_int_equal(secret_decrypt(key, name, enc, a, &plain, NULL), ERR_OK);
    assert_int_equal(plain.n, 0);
}

/* The layout is promised, so a value written once is read for ever. Made with Python's
 * cryptography: nonce 00..0b, name "db.password", text "swordfish". */
static void written_values_stay_readable(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct str plain;
    struct str enc = STR("enc:v1:AAECAwQFBgcICQoLUXUXjqHTN2fwP2la5PFgrfuHicMAnXextQ");
    assert_int_equal(secret_decrypt(key, STR("db.password"), enc, a, &plain, NULL), ERR_OK);
    assert_true(str_eq(plain, STR("swordfish")));
}

static void wrong_name_or_key_is_denied(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct env_test world;
    env_init_test(&world, 0, 7);
    struct err_info info = { 0 };
    struct str enc, plain = STR("untouched");

    assert_int_equal(secret_encrypt(&world.env, key, STR("a"), STR("hush"), a, &enc), ERR_OK);
    assert_int_equal(secret_decrypt(key, STR("b"), enc, a, &plain, &info), ERR_DENIED);
    assert_non_null(strstr(info.text, "'b'"));
    assert_int_equal(secret_decrypt(other_key, STR("a"), enc, a, &plain, NULL), ERR_DENIED);

    char *altered = arena_copy(a, enc.p, enc.n);
    altered[10] = altered[10] == 'A' ? 'B' : 'A';
    assert_int_equal(
        secret_decrypt(key, STR("a"), (struct str) { altered, enc.n }, a, &plain, NULL),
        ERR_DENIED);
    assert_true(str_eq(plain, STR("untouched")));
}

static void bad_shapes_are_invalid(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    struct env_test world;
    env_init_test(&world, 0, 7);
    struct str plain, enc;
    const struct str bad[] = {
        STR_NONE,
        STR("enc:v1:"),
        STR("enc:v2:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        STR("enc:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), /* 26 bytes: no room for nonce and tag */
        STR("enc:v1:AAAA*AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err_info info = { 0 };
        assert_int_equal(secret_decrypt(key, STR("a"), bad[i], a, &plain, &info), ERR_INVALID);
        assert_true(info.text[0]);
    }
    assert_int_equal(secret_encrypt(&world.env, STR("short"), STR("a"), STR("b"), a, &enc),
                     ERR_INVALID);
    assert_int_equal(
        secret_decrypt(STR("0123456789abcdef"), STR("a"), STR("enc:v1:AAAA"), a, &plain, NULL),
        ERR_INVALID);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_is_independent_and_let_go_twice),
        cmocka_unit_test(what_was_encrypted_comes_back),
        cmocka_unit_test(written_values_stay_readable),
        cmocka_unit_test(wrong_name_or_key_is_denied),
        cmocka_unit_test(bad_shapes_are_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
