/* Money: the text border, checked arithmetic, and sharing out without losing a fen. */
#include "../check.h"

#include "base/arena.h"
#include "base/money.h"
#include "base/rand.h"

#define CNY STR("CNY")

static struct money cny(int64_t fen)
{
    struct money m;
    assert_ok(money_of(fen, CNY, &m));
    return m;
}

static void test_of(void **state)
{
    (void)state;
    struct money m = cny(7);
    assert_int_equal(money_fen(m), 7);
    assert_str(money_currency(&m), "CNY");
    assert_int_equal(money_fen(money_zero(m)), 0);
    assert_true(money_same_currency(money_zero(m), m));

    static const struct {
        int64_t fen;
        const char *currency;
        enum err e;
    } rows[] = {
        { MONEY_FEN_MAX, "CNY", ERR_OK },
        { -MONEY_FEN_MAX, "CNY", ERR_OK },
        { MONEY_FEN_MAX + 1, "CNY", ERR_INVALID },
        { -MONEY_FEN_MAX - 1, "CNY", ERR_INVALID },
        { INT64_MIN, "CNY", ERR_INVALID },
        { INT64_MAX, "CNY", ERR_INVALID },
        { 1, "cny", ERR_INVALID },
        { 1, "CN", ERR_INVALID },
        { 1, "CNYX", ERR_INVALID },
        { 1, "", ERR_INVALID },
        { 1, "C1Y", ERR_INVALID },
        { 1, "USD", ERR_OK },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct money r = cny(99);
        check_row(money_of(rows[i].fen, str_of(rows[i].currency), &r) == rows[i].e,
                  rows[i].currency);
        check_row(money_fen(r) == (rows[i].e ? 99 : rows[i].fen), rows[i].currency);
    }
}

static void test_arithmetic(void **state)
{
    (void)state;
    struct money r, usd, empty = { 0 };
    int order;
    assert_ok(money_of(5, STR("USD"), &usd));
    assert_ok(money_add(cny(3), cny(4), &r));
    assert_true(money_eq(r, cny(7)));
    assert_ok(money_sub(cny(3), cny(4), &r));
    assert_int_equal(money_fen(r), -1);
    assert_int_equal(money_sign(r), -1);
    assert_int_equal(money_sign(cny(0)), 0);
    assert_int_equal(money_sign(cny(1)), 1);
    assert_ok(money_mul(cny(199), 3, &r));
    assert_int_equal(money_fen(r), 597);
    assert_ok(money_cmp(cny(1), cny(2), &order));
    assert_int_equal(order, -1);
    assert_ok(money_cmp(cny(2), cny(2), &order));
    assert_int_equal(order, 0);

    assert_false(money_eq(cny(5), usd));
    assert_int_equal(money_add(cny(5), usd, &r), ERR_INVALID);
    assert_int_equal(money_sub(cny(5), usd, &r), ERR_INVALID);
    assert_int_equal(money_cmp(cny(5), usd, &order), ERR_INVALID);
    assert_int_equal(money_add(cny(5), empty, &r), ERR_INVALID);
    assert_int_equal(money_add(cny(MONEY_FEN_MAX), cny(1), &r), ERR_INVALID);
    assert_int_equal(money_sub(cny(-MONEY_FEN_MAX), cny(1), &r), ERR_INVALID);
    assert_int_equal(money_mul(cny(MONEY_FEN_MAX), 2, &r), ERR_INVALID);
    assert_int_equal(money_mul(cny(MONEY_FEN_MAX), INT64_MAX, &r), ERR_INVALID);
    assert_int_equal(money_mul(cny(-1), INT64_MIN, &r), ERR_INVALID);
    assert_int_equal(money_fen(r), 597); /* untouched by all those */
}

static void test_yuan_round_trip(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1 << 16);
    for (int64_t fen = 0; fen <= 10000; fen++) {
        char expected[16];
        snprintf(expected, sizeof(expected), "%d.%02d", (int)fen / 100, (int)fen % 100);
        struct str text = money_print_yuan(a, cny(fen));
        assert_str(text, expected);
        struct money back;
        assert_ok(money_parse_yuan(text, CNY, false, &back));
        assert_true(money_eq(back, cny(fen)));

        text = money_print_yuan(a, cny(-fen));
        assert_ok(money_parse_yuan(text, CNY, true, &back));
        assert_true(money_eq(back, cny(-fen)));
        arena_reset(a);
    }
    assert_str(money_print_yuan(a, cny(MONEY_FEN_MAX)), "100000000000.00");
    assert_str(money_print_yuan(a, cny(-5)), "-0.05");
    assert_str(money_text(a, cny(500)), "5.00 CNY (500 fen)");
}

#define REFUSED INT64_MIN

static void test_parse_yuan(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t positive, any; /* with negative_ok false and true */
    } rows[] = {
        { "12", 1200, 1200 },
        { "12.3", 1230, 1230 },
        { "12.34", 1234, 1234 },
        { "0", 0, 0 },
        { "0.10", 10, 10 },
        { "0.0", 0, 0 },
        { "100000000000", MONEY_FEN_MAX, MONEY_FEN_MAX },
        { "-12.30", REFUSED, -1230 },
        { "-100000000000.00", REFUSED, -MONEY_FEN_MAX },
        { "100000000000.01", REFUSED, REFUSED },
        { "100000000001", REFUSED, REFUSED },
        { "99999999999999999999", REFUSED, REFUSED },
        { "", REFUSED, REFUSED },
        { "-", REFUSED, REFUSED },
        { ".", REFUSED, REFUSED },
        { "1.", REFUSED, REFUSED },
        { ".5", REFUSED, REFUSED },
        { "-.5", REFUSED, REFUSED },
        { "1.234", REFUSED, REFUSED },
        { "1.2.3", REFUSED, REFUSED },
        { "+1", REFUSED, REFUSED },
        { "--1", REFUSED, REFUSED },
        { "1.-1", REFUSED, REFUSED },
        { " 1", REFUSED, REFUSED },
        { "1 ", REFUSED, REFUSED },
        { "1e2", REFUSED, REFUSED },
        { "1,000", REFUSED, REFUSED },
        { "007", REFUSED, REFUSED },
        { "00", REFUSED, REFUSED },
        { "-01", REFUSED, REFUSED },
        { "0x1", REFUSED, REFUSED },
        { "１", REFUSED, REFUSED },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int negative_ok = 0; negative_ok < 2; negative_ok++) {
            int64_t want = negative_ok ? rows[i].any : rows[i].positive;
            struct money m = cny(99);
            enum err e = money_parse_yuan(str_of(rows[i].text), CNY, negative_ok, &m);
            check_row(e == (want == REFUSED ? ERR_INVALID : ERR_OK), rows[i].text);
            check_row(money_fen(m) == (want == REFUSED ? 99 : want), rows[i].text);
        }
    }
    struct money m;
    assert_int_equal(money_parse_yuan((struct str) { "1\0", 2 }, CNY, true, &m), ERR_INVALID);
    assert_int_equal(money_parse_yuan(STR_NONE, CNY, true, &m), ERR_INVALID);
}

static void test_allocate_examples(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t total, weight[4], share[4];
        size_t n;
    } rows[] = {
        { "document", 17910, { 9950, 9950 }, { 8955, 8955 }, 2 },
        { "thirds", 100, { 1, 1, 1 }, { 34, 33, 33 }, 3 },
        { "largest remainder wins", 10, { 1, 2, 4 }, { 1, 3, 6 }, 3 }, /* 1.43 2.86 5.71 */
        { "zero weight gets nothing", 5, { 0, 3, 0 }, { 0, 5, 0 }, 3 },
        { "nothing to share", 0, { 0, 0 }, { 0, 0 }, 2 },
        { "nothing over weights", 0, { 3, 4 }, { 0, 0 }, 2 },
        { "128 bits",
          MONEY_FEN_MAX,
          { MONEY_FEN_MAX, MONEY_FEN_MAX, MONEY_FEN_MAX },
          { 3333333333334, 3333333333333, 3333333333333 },
          3 },
        { "nobody", 0, { 0 }, { 0 }, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct money weight[4], share[4];
        for (size_t j = 0; j < rows[i].n; j++)
            weight[j] = cny(rows[i].weight[j]);
        check_row(money_allocate(cny(rows[i].total), weight, rows[i].n, share) == ERR_OK,
                  rows[i].name);
        for (size_t j = 0; j < rows[i].n; j++)
            check_row(money_eq(share[j], cny(rows[i].share[j])), rows[i].name);
    }

    /* 9,950 of 19,900 at 10 % off: the line's own share of 17,910. */
    struct money share[2], lines[2] = { cny(9950), cny(19900 - 9950) };
    assert_ok(money_allocate(cny(17910), lines, 2, share));
    assert_int_equal(money_fen(share[0]), 8955);

    struct money usd, two[2] = { cny(1), cny(1) };
    assert_ok(money_of(1, STR("USD"), &usd));
    assert_int_equal(money_allocate(cny(-1), two, 2, share), ERR_INVALID);
    assert_int_equal(money_allocate(cny(1), two, 0, share), ERR_INVALID);
    two[1] = usd;
    assert_int_equal(money_allocate(cny(1), two, 2, share), ERR_INVALID);
    two[1] = cny(-1);
    assert_int_equal(money_allocate(cny(1), two, 2, share), ERR_INVALID);
    two[0] = two[1] = cny(0);
    assert_int_equal(money_allocate(cny(1), two, 2, share), ERR_INVALID);
}

/* The shares add up, each is the exact quota rounded down or up, and who was rounded up had no
 * smaller remainder. */
static void test_allocate_property(void **state)
{
    (void)state;
    struct rand r;
    rand_seed(&r, 2026);
    for (int round = 0; round < 3000; round++) {
        struct money weight[20], share[20];
        size_t n = 1 + rand_below(&r, COUNT(weight));
        int64_t bound = (int64_t[]) { 3, 1000, 10000000, MONEY_FEN_MAX }[round % 4], sum = 0;
        for (size_t i = 0; i < n; i++) {
            weight[i] = cny((int64_t)rand_below(&r, (uint64_t)bound));
            sum += money_fen(weight[i]);
        }
        if (sum == 0)
            continue;
        int64_t total = (int64_t)rand_below(&r, (uint64_t)(round % 3 ? sum + 1 : MONEY_FEN_MAX));
        total = total > MONEY_FEN_MAX ? MONEY_FEN_MAX : total;
        assert_ok(money_allocate(cny(total), weight, n, share));

        int64_t given = 0;
        __int128 least_up = sum, most_down = -1; /* remainders */
        for (size_t i = 0; i < n; i++) {
            __int128 product = (__int128)total * money_fen(weight[i]);
            int64_t over = money_fen(share[i]) - (int64_t)(product / sum);
            assert_true(over == 0 || over == 1);
            given += money_fen(share[i]);
            if (over && product % sum < least_up)
                least_up = product % sum;
            if (!over && product % sum > most_down)
                most_down = product % sum;
        }
        assert_int_equal(given, total);
        assert_true(least_up >= most_down);
    }
}

static void test_share_of(void **state)
{
    (void)state;
    struct money r;
    for (int64_t line = 1; line <= 12; line++) {
        for (int64_t share = 0; share <= 40; share++) {
            int64_t back = 0; /* piece by piece gives back exactly the share */
            for (int64_t already = 0; already < line; already++) {
                assert_ok(money_share_of(cny(share), already, 1, line, &r));
                back += money_fen(r);
            }
            assert_int_equal(back, share);
            assert_ok(money_share_of(cny(share), 0, line, line, &r));
            assert_int_equal(money_fen(r), share);
        }
    }
    assert_ok(money_share_of(cny(100), 1, 1, 3, &r));
    assert_int_equal(money_fen(r), 33);
    assert_ok(money_share_of(cny(100), 2, 1, 3, &r));
    assert_int_equal(money_fen(r), 34);
    assert_ok(money_share_of(cny(MONEY_FEN_MAX), INT64_MAX - 1, 1, INT64_MAX, &r));

    static const int64_t bad[][4] = {
        /* share, already, quantity, line */
        { 100, 0, 4, 3 }, { 100, 2, 2, 3 }, { 100, -1, 1, 3 },        { 100, 0, -1, 3 },
        { 100, 0, 0, 0 }, { -1, 0, 1, 3 },  { 100, 1, INT64_MAX, 3 },
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(money_share_of(cny(bad[i][0]), bad[i][1], bad[i][2], bad[i][3], &r),
                         ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_yuan_round_trip),
        cmocka_unit_test(test_parse_yuan),
        cmocka_unit_test(test_allocate_examples),
        cmocka_unit_test(test_allocate_property),
        cmocka_unit_test(test_share_of),
    };
    return RUN_TESTS(tests);
}
