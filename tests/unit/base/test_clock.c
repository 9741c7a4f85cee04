/* Calendar: fixed moments (computed with Python's datetime), round trips over every day, and what
 * RFC 3339 forbids. */
#include "../check.h"

#include "base/arena.h"
#include "base/clock.h"

static const struct {
    const char *text; /* Beijing */
    int64_t ms;
} moments[] = {
    { "2026-01-01T10:34:56+08:00", 1767234896000 },
    { "2000-03-01T07:59:59+08:00", 951868799000 },
    { "1970-01-01T00:00:00+08:00", -28800000 },
    { "9999-12-31T23:59:59+08:00", 253402271999000 },
    { "0001-01-01T08:00:00+08:00", -62135596800000 },
    { "2100-03-01T08:00:00+08:00", 4107542400000 },
};

static void test_moments(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    for (size_t i = 0; i < COUNT(moments); i++) {
        assert_str(clock_rfc3339(a, moments[i].ms), moments[i].text);
        int64_t ms;
        assert_ok(clock_parse_rfc3339(str_of(moments[i].text), &ms));
        assert_int_equal(ms, moments[i].ms);
    }
    assert_str(clock_rfc3339_ms(a, 1767234896007), "2026-01-01T10:34:56.007+08:00");
    assert_str(clock_rfc3339_ms(a, -1), "1970-01-01T07:59:59.999+08:00");
    assert_str(clock_rfc3339(a, -1), "1970-01-01T07:59:59+08:00");
}

static void test_every_day(void **state)
{
    (void)state;
    int last = 19691231;
    for (int64_t day = 0; day < 150 * 365; day++) {
        int64_t ms = day * 86400000 + day % 86400 * 1000 + day % 1000;
        struct clock_date d = clock_split(ms, 0);
        assert_int_equal(clock_join(&d, 0), ms);
        int yyyymmdd = d.year * 10000 + d.month * 100 + d.day;
        assert_true(yyyymmdd > last);
        last = yyyymmdd;
    }
}

static void test_beijing_midnight(void **state)
{
    (void)state;
    int64_t midnight = 1767196800000; /* 2025-12-31T16:00:00Z */
    assert_int_equal(clock_beijing_yyyymmdd(midnight - 1), 20251231);
    assert_int_equal(clock_beijing_yyyymmdd(midnight), 20260101);
}

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        { "2026-01-01T02:34:56Z", 1767234896000 },
        { "2026-01-01T02:34:56.5Z", 1767234896500 },
        { "2026-01-01T02:34:56.123456789Z", 1767234896123 },
        { "2025-12-31T21:04:56-05:30", 1767234896000 },
        { "2026-01-01T02:34:56-00:00", 1767234896000 },
        { "2024-02-29T00:00:00Z", 1709164800000 },
        { "2023-02-29T00:00:00Z", -1 },
        { "2100-02-29T00:00:00Z", -1 },
        { "2026-04-31T00:00:00Z", -1 },
        { "2026-00-10T00:00:00Z", -1 },
        { "2026-13-10T00:00:00Z", -1 },
        { "2026-01-00T00:00:00Z", -1 },
        { "2026-01-01T24:00:00Z", -1 },
        { "2026-01-01T00:60:00Z", -1 },
        { "2026-01-01T00:00:60Z", -1 },
        { "2026-01-01t00:00:00Z", -1 },
        { "2026-01-01 00:00:00Z", -1 },
        { "2026-01-01T00:00:00z", -1 },
        { "2026-01-01T00:00:00", -1 },
        { "2026-01-01T00:00:00.Z", -1 },
        { "2026-01-01T00:00:00.1234567890Z", -1 },
        { "2026-01-01T00:00:00+8:00", -1 },
        { "2026-01-01T00:00:00+0800", -1 },
        { "2026-01-01T00:00:00+24:00", -1 },
        { "2026-01-01T00:00:00+08:60", -1 },
        { "2026-01-01T00:00:00Z ", -1 },
        { "2026-1-01T00:00:00Z", -1 },
        { "+026-01-01T00:00:00Z", -1 },
        { "", -1 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t ms = -1;
        enum err e = clock_parse_rfc3339(str_of(rows[i].text), &ms);
        check_row(e == (rows[i].ms < 0 ? ERR_INVALID : ERR_OK), rows[i].text);
        check_row(ms == rows[i].ms, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_every_day),
        cmocka_unit_test(test_beijing_midnight),
        cmocka_unit_test(test_parse),
    };
    return RUN_TESTS(tests);
}
