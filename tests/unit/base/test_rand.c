/* The generator against the reference implementation, and its bounds. */
#include "../check.h"

#include "base/rand.h"

static void test_reference(void **state)
{
    (void)state;
    struct rand plain = { { 1, 2, 3, 4 } };
    static const uint64_t expected[] = { 11520, 0, 1509978240, 1215971899390074240 };
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_int_equal(rand_next(&plain), expected[i]);

    struct rand seeded;
    rand_seed(&seeded, 0);
    assert_int_equal(seeded.s[0], 0xe220a8397b1dcdafu);
    assert_int_equal(rand_next(&seeded), 0x99ec5f36cb75f2b4u);
    assert_int_equal(rand_next(&seeded), 0xbf6e1f784956452au);
    assert_int_equal(rand_next(&seeded), 0x1a5f849d4933e6e0u);
}

static void test_below(void **state)
{
    (void)state;
    struct rand r;
    rand_seed(&r, 42);
    unsigned seen[7] = { 0 };
    for (int i = 0; i < 7000; i++)
        seen[rand_below(&r, 7)]++;
    for (size_t i = 0; i < COUNT(seen); i++)
        assert_in_range(seen[i], 850, 1150);
    assert_int_equal(rand_below(&r, 1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(rand_below(&r, UINT64_MAX) < UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_below),
    };
    return RUN_TESTS(tests);
}
