/* Certificates made and read back; those made by the openssl command line are in test_peer.c. */
#include "crypto/x509.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"

static struct rsa_key *key;

static int setup(void **state)
{
    (void)state;
    return rsa_generate(1024, &key, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rsa_unref(key);
    return 0;
}

static int64_t at(const char *rfc3339)
{
    int64_t ms = 0;
    assert_int_equal(clock_parse_rfc3339(str_of(rfc3339), &ms), ERR_OK);
    return ms;
}

static void round_trip(struct arena *a, struct str name, struct str serial, int64_t from,
                       int64_t to)
{
    struct str pem;
    struct certificate c;
    assert_int_equal(certificate_make(key, name, serial, from, to, a, &pem, NULL), ERR_OK);
    assert_int_equal(certificate_from_pem(pem, a, &c, NULL), ERR_OK);
    assert_true(str_eq(c.serial, serial));
    assert_int_equal(c.not_before_ms, from);
    assert_int_equal(c.not_after_ms, to);
    assert_true(str_eq(c.subject, str_printf(a, "CN = " STR_FMT, STR_ARG(name))));
    assert_true(str_eq(c.issuer, c.subject));
    assert_true(rsa_same_public(c.key, key));
    certificate_done(&c);
    assert_null(c.key);
    certificate_done(&c);
}

static void what_is_made_reads_back(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    int64_t from = at("2026-01-01T00:00:00+08:00"), to = at("2031-02-28T23:59:59+08:00");

    round_trip(a, STR("Fenpay sandbox"), STR("5DEA10EF55877E3CF6C33255C2E7DEFFF7E427EC"), from, to);
    round_trip(a, STR("Fenpay sandbox"), STR("0C4AEF34B89340881BB2B25226393DC2E47F094B"), from, to);
    round_trip(a, STR("top bit set"), STR("F5765756002FDD77"), from, to);
    round_trip(a, STR("一個測試"), STR("01"), from, to);
    round_trip(a, STR("zero"), STR("00"), from, to);
    /* X.509 changes its time format in 2050; and nothing may depend on 1970 or 2038. */
    round_trip(a, STR("old"), STR("02"), at("1969-12-31T23:59:58Z"), at("1970-01-01T00:00:01Z"));
    round_trip(a, STR("new"), STR("03"), at("2038-01-19T03:14:08Z"), at("2049-12-31T23:59:59Z"));
    round_trip(a, STR("far"), STR("04"), at("2050-01-01T00:00:00Z"), at("2126-02-28T00:00:00Z"));
}

static void times_are_cut_to_seconds(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str pem;
    struct certificate c;
    assert_int_equal(certificate_make(key, STR("x"), STR("01"), 1999, 5001, a, &pem, NULL), ERR_OK);
    assert_int_equal(certificate_from_pem(pem, a, &c, NULL), ERR_OK);
    assert_int_equal(c.not_before_ms, 1000);
    assert_int_equal(c.not_after_ms, 5000);
    certificate_done(&c);
}

static void control_characters_in_names_are_escaped(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str pem;
    struct certificate c;
    assert_int_equal(certificate_make(key, STR("a\nb"), STR("01"), 0, 0, a, &pem, NULL), ERR_OK);
    assert_int_equal(certificate_from_pem(pem, a, &c, NULL), ERR_OK);
    assert_true(str_eq(c.subject, STR("CN = a\\0Ab")));
    certificate_done(&c);
}

static void impossible_wishes_are_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    const struct str bad_serials[] = {
        STR_NONE,    STR("ABC"), STR("0G"),   STR("ab"),
        STR("0001"), STR("-1"),  STR("0x01"), STR("000102030405060708090A0B0C0D0E0F1011121314"),
    };
    struct str pem = STR("untouched");
    for (size_t i = 0; i < sizeof bad_serials / sizeof *bad_serials; i++)
        assert_int_equal(certificate_make(key, STR("x"), bad_serials[i], 0, 0, a, &pem, NULL),
                         ERR_INVALID);
    assert_int_equal(certificate_make(key, STR_NONE, STR("01"), 0, 0, a, &pem, NULL), ERR_INVALID);
    assert_int_equal(certificate_make(key, STR("\xff"), STR("01"), 0, 0, a, &pem, NULL),
                     ERR_INVALID);
    assert_int_equal(certificate_make(key, STR("x"), STR("01"), 1000, 0, a, &pem, NULL),
                     ERR_INVALID);
    struct rsa_key *public = rsa_public_of(key);
    assert_int_equal(certificate_make(public, STR("x"), STR("01"), 0, 0, a, &pem, NULL),
                     ERR_INVALID);
    rsa_unref(public);
    assert_true(str_eq(pem, STR("untouched")));
}

static void the_first_certificate_of_a_text_counts(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str first, second;
    struct certificate c;
    assert_int_equal(certificate_make(key, STR("first"), STR("01"), 0, 0, a, &first, NULL), ERR_OK);
    assert_int_equal(certificate_make(key, STR("second"), STR("02"), 0, 0, a, &second, NULL),
                     ERR_OK);
    struct str text = str_printf(a, "subject=/CN=first\n\n" STR_FMT STR_FMT STR_FMT,
                                 STR_ARG(rsa_public_pem(a, key)), STR_ARG(first), STR_ARG(second));
    assert_int_equal(certificate_from_pem(text, a, &c, NULL), ERR_OK);
    assert_true(str_eq(c.serial, STR("01")));
    certificate_done(&c);
}

static void what_is_no_certificate_is_invalid(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    struct str pem;
    assert_int_equal(certificate_make(key, STR("x"), STR("01"), 0, 0, a, &pem, NULL), ERR_OK);
    const struct str bad[] = {
        STR_NONE,
        STR("hello"),
        str_sub(pem, 0, pem.n - 30),
        rsa_private_pem(a, key),
        STR("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err_info info = { 0 };
        struct certificate c = { .not_before_ms = 42 };
        assert_int_equal(certificate_from_pem(bad[i], a, &c, &info), ERR_INVALID);
        assert_true(info.text[0]);
        assert_int_equal(c.not_before_ms, 42);
    }
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_made_reads_back),
        cmocka_unit_test(times_are_cut_to_seconds),
        cmocka_unit_test(control_characters_in_names_are_escaped),
        cmocka_unit_test(impossible_wishes_are_refused),
        cmocka_unit_test(the_first_certificate_of_a_text_counts),
        cmocka_unit_test(what_is_no_certificate_is_invalid),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
