/* Text views and the codings, by table. */
#include "../check.h"

#include "base/arena.h"
#include "base/rand.h"

static void test_compare(void **state)
{
    (void)state;
    assert_true(str_eq_nocase(STR("Content-TYPE"), STR("content-type")));
    assert_false(str_eq_nocase(STR("a"), STR("ab")));
    assert_false(str_eq_nocase(STR("["), STR("{")));
    assert_true(str_starts(STR("abc"), STR("ab")) && str_starts(STR("abc"), STR("")) &&
                str_starts(STR_NONE, STR_NONE));
    assert_false(str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")) && str_ends(STR("abc"), STR("")));
    assert_false(str_ends(STR("bc"), STR("abc")));
    assert_int_equal(str_cmp(STR("a"), STR("b")), -1);
    assert_int_equal(str_cmp(STR("ab"), STR("a")), 1);
    assert_int_equal(str_cmp(STR("\xff"), STR("a")), 1);
    assert_int_equal(str_cmp(STR_NONE, STR("")), 0);
    assert_true(str_eq_secret(STR("abc"), STR("abc")));
    assert_false(str_eq_secret(STR("abc"), STR("abd")));
    assert_false(str_eq_secret(STR("abc"), STR("ab")));
}

static void test_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text, *parts[4];
    } rows[] = {
        { "a,b,c", { "a", "b", "c" } }, { "a,", { "a", "" } }, { ",", { "", "" } }, { "", { "" } },
        { "abc", { "abc" } },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str rest = str_of(rows[i].text);
        size_t n = 0;
        do
            assert_str(str_cut(&rest, ','), rows[i].parts[n++]);
        while (rest.p);
        assert_true(n == 4 || !rows[i].parts[n]);
    }
    assert_str(str_trim(STR(" \t a b \t")), "a b");
    assert_str(str_trim(STR("  ")), "");
    assert_str(str_sub(STR("abcdef"), 2, 3), "cde");
    assert_str(str_sub(STR("abc"), 2, 9), "c");
    assert_str(str_sub(STR("abc"), 9, 9), "");
    assert_null(str_sub(STR_NONE, 1, 1).p);
}

static void test_make(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    assert_string_equal(str_cstr(a, str_sub(STR("abcdef"), 1, 2)), "bc");
    assert_string_equal(str_dup(a, STR_NONE).p, "");
    assert_str(str_printf(a, "%d-%s", 7, "x"), "7-x");
    char big[1000];
    memset(big, 'q', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    struct str s = str_printf(a, "%s", big);
    assert_str(s, big);
    assert_int_equal(s.p[s.n], 0);
}

static void test_int64(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum err e;
        int64_t v;
    } rows[] = {
        { "0", ERR_OK, 0 },
        { "7", ERR_OK, 7 },
        { "-7", ERR_OK, -7 },
        { "9223372036854775807", ERR_OK, INT64_MAX },
        { "-9223372036854775808", ERR_OK, INT64_MIN },
        { "9223372036854775808", ERR_INVALID, 0 },
        { "-9223372036854775809", ERR_INVALID, 0 },
        { "99999999999999999999999", ERR_INVALID, 0 },
        { "", ERR_INVALID, 0 },
        { "-", ERR_INVALID, 0 },
        { "-0", ERR_INVALID, 0 },
        { "00", ERR_INVALID, 0 },
        { "01", ERR_INVALID, 0 },
        { "-01", ERR_INVALID, 0 },
        { "+1", ERR_INVALID, 0 },
        { " 1", ERR_INVALID, 0 },
        { "1 ", ERR_INVALID, 0 },
        { "1.0", ERR_INVALID, 0 },
        { "1e3", ERR_INVALID, 0 },
        { "--1", ERR_INVALID, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t v = 42;
        check_row(str_int64(str_of(rows[i].text), &v) == rows[i].e, rows[i].text);
        check_row(v == (rows[i].e ? 42 : rows[i].v), rows[i].text);
    }
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {
        { "", true },
        { "abc", true },
        { "元é😀", true },
        { "\xed\x9f\xbf\xee\x80\x80", true }, /* around the surrogates */
        { "\xf4\x8f\xbf\xbf", true },         /* U+10FFFF */
        { "\x80", false },
        { "\xc3", false },
        { "\xc0\xaf", false }, /* overlong */
        { "\xc1\xbf", false },
        { "\xe0\x9f\xbf", false },
        { "\xf0\x8f\xbf\xbf", false },
        { "\xed\xa0\x80", false },     /* a surrogate */
        { "\xf4\x90\x80\x80", false }, /* beyond */
        { "\xf5\x80\x80\x80", false },
        { "\xe5\x85", false },
        { "\xe5\x85\x41", false },
        { "a\xff", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(str_is_utf8(str_of(rows[i].text)) == rows[i].valid, rows[i].text);
    assert_int_equal(str_utf8_count(STR("元é😀a")), 4);
    assert_true(str_all_of(STR("abba"), "ab"));
    assert_false(str_all_of(STR("abc"), "ab"));
    assert_false(str_all_of((struct str) { "a", 2 }, "ab"));
    assert_true(str_all_of(STR_NONE, "ab"));
}

static void test_edit_distance(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int distance;
    } rows[] = {
        { "", "", 0 },    { "lisen", "listen", 1 }, { "kitten", "sitting", 3 }, { "abc", "", 3 },
        { "", "abc", 3 }, { "same", "same", 0 },    { "prot", "port", 2 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(str_edit_distance(str_of(rows[i].a), str_of(rows[i].b)) == rows[i].distance,
                  rows[i].a);
    char big[200];
    memset(big, 'x', sizeof(big));
    assert_int_equal(str_edit_distance((struct str) { big, 200 }, STR("")), 64);
}

typedef enum err decoder(struct arena *a, struct str text, struct str *ret);

static void test_codings(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    static const struct {
        const char *plain, *hex, *base64, *base64url;
    } rows[] = {
        /* RFC 4648, section 10 */
        { "", "", "", "" },
        { "f", "66", "Zg==", "Zg" },
        { "fo", "666f", "Zm8=", "Zm8" },
        { "foo", "666f6f", "Zm9v", "Zm9v" },
        { "foob", "666f6f62", "Zm9vYg==", "Zm9vYg" },
        { "fooba", "666f6f6261", "Zm9vYmE=", "Zm9vYmE" },
        { "foobar", "666f6f626172", "Zm9vYmFy", "Zm9vYmFy" },
        { "\xfb\xff\xbf", "fbffbf", "+/+/", "-_-_" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str plain = str_of(rows[i].plain), back;
        assert_str(str_hex(a, plain.p, plain.n), rows[i].hex);
        assert_str(str_base64(a, plain), rows[i].base64);
        assert_str(str_base64url(a, plain), rows[i].base64url);
        assert_ok(str_unhex(a, str_of(rows[i].hex), &back));
        assert_true(str_eq(back, plain));
        assert_ok(str_unbase64(a, str_of(rows[i].base64), &back));
        assert_true(str_eq(back, plain));
        assert_ok(str_unbase64url(a, str_of(rows[i].base64url), &back));
        assert_true(str_eq(back, plain));
    }

    static const struct {
        decoder *decode;
        const char *text;
    } bad[] = {
        { str_unhex, "6" },
        { str_unhex, "6g" },
        { str_unhex, " 66" },
        { str_unbase64, "Zg" },
        { str_unbase64, "Zg=" },
        { str_unbase64, "Zh==" }, /* trailing bits */
        { str_unbase64, "Zm9=" },
        { str_unbase64, "====" },
        { str_unbase64, "Z===" },
        { str_unbase64, "Zg==Zg==" },
        { str_unbase64, "Zm9v\nZm9v" },
        { str_unbase64, "-_-_" },
        { str_unbase64, "=" },
        { str_unbase64, "Zm=v" },
        { str_unbase64url, "Zg==" },
        { str_unbase64url, "Zh" },
        { str_unbase64url, "Z" },
        { str_unbase64url, "+/+/" },
        { str_unbase64url, "Zm9vY" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct str back = STR_NONE;
        check_row(bad[i].decode(a, str_of(bad[i].text), &back) == ERR_INVALID, bad[i].text);
        check_row(!back.p, bad[i].text);
    }
    struct str upper;
    assert_ok(str_unhex(a, STR("AbCd"), &upper));
    assert_str(upper, "\xab\xcd");
}

static void test_percent(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    struct str back;
    assert_str(str_percent(a, STR("aZ09-._~ /?%元")), "aZ09-._~%20%2F%3F%25%E5%85%83");
    assert_str(str_percent(a, (struct str) { "\0", 1 }), "%00");
    assert_ok(str_unpercent(a, STR("a%20b+c%e5%85%83"), false, &back));
    assert_str(back, "a b+c元");
    assert_ok(str_unpercent(a, STR("a+b"), true, &back));
    assert_str(back, "a b");
    static const char *const bad[] = { "%", "%4", "a%4", "%zz", "%4g", "%00", "x%" };
    for (size_t i = 0; i < COUNT(bad); i++)
        check_row(str_unpercent(a, str_of(bad[i]), true, &back) == ERR_INVALID, bad[i]);
}

static void test_round_trips(void **state)
{
    (void)state;
    struct rand r;
    rand_seed(&r, 5);
    ARENA_AUTO a = arena_new(4096);
    for (int i = 0; i < 500; i++) {
        char bytes[64];
        size_t n = rand_below(&r, sizeof(bytes));
        for (size_t j = 0; j < n; j++)
            bytes[j] = (char)(1 + rand_below(&r, 255));
        struct str s = { bytes, n }, back;
        assert_ok(str_unbase64(a, str_base64(a, s), &back));
        assert_true(str_eq(back, s));
        assert_ok(str_unbase64url(a, str_base64url(a, s), &back));
        assert_true(str_eq(back, s));
        assert_ok(str_unpercent(a, str_percent(a, s), true, &back));
        assert_true(str_eq(back, s));
        arena_reset(a);
    }
}

static void test_crc32c(void **state)
{
    (void)state;
    assert_int_equal(str_crc32c(0, STR("123456789")), 0xe3069283);
    assert_int_equal(str_crc32c(str_crc32c(0, STR("1234")), STR("56789")), 0xe3069283);
    char zero[32] = { 0 }; /* RFC 3720, B.4 */
    assert_int_equal(str_crc32c(0, (struct str) { zero, 32 }), 0x8a9136aa);
    assert_int_equal(str_crc32c(0, STR_NONE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),     cmocka_unit_test(test_cut),
        cmocka_unit_test(test_make),        cmocka_unit_test(test_int64),
        cmocka_unit_test(test_utf8),        cmocka_unit_test(test_edit_distance),
        cmocka_unit_test(test_codings),     cmocka_unit_test(test_percent),
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_crc32c),
    };
    return RUN_TESTS(tests);
}
