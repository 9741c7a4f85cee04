/* Arena and buf: where memory comes from, and what happens at the maximum. */
#include "../check.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/rand.h"

static void test_zeroed_aligned_apart(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(64);
    struct rand r;
    rand_seed(&r, 1);
    for (int round = 0; round < 3; round++) {
        unsigned char *piece[300];
        size_t size[300];
        for (size_t i = 0; i < COUNT(piece); i++) {
            size[i] = rand_below(&r, i % 50 ? 100 : 10000);
            piece[i] = arena_alloc(a, size[i]);
            assert_int_equal((uintptr_t)piece[i] % 16, 0);
            for (size_t j = 0; j < size[i]; j++)
                assert_int_equal(piece[i][j], 0);
            memset(piece[i], (int)(i & 0xff), size[i]);
        }
        for (size_t i = 0; i < COUNT(piece); i++)
            for (size_t j = 0; j < size[i]; j++)
                assert_int_equal(piece[i][j], i & 0xff);
        assert_true(arena_used(a) > 0);
        arena_reset(a);
        assert_int_equal(arena_used(a), 0);
    }
    arena_free(NULL);
}

static void test_reset_keeps_first_block(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    char *first = arena_alloc(a, 100);
    arena_alloc(a, 100000);
    arena_reset(a);
    assert_ptr_equal(arena_alloc(a, 10), first);
}

static void test_secret_is_wiped(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    arena_mark_secret(a);
    const char *p = str_cstr(a, STR("the merchant's key"));
    arena_reset(a);
    arena_alloc(a, 1);                  /* under ASan only what is handed out may be looked at */
    p = arena_alloc(a, 0) == p ? p : p; /* the address stays in the first block */
#if !defined(__SANITIZE_ADDRESS__)
    for (size_t i = 0; i < 18; i++)
        assert_int_equal(p[i], 0);
#endif
}

static void test_copy(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    assert_memory_equal(arena_copy(a, "abc", 4), "abc", 4);
    assert_non_null(arena_copy(a, NULL, 0));
    int *numbers = arena_array(a, 5, sizeof(int));
    assert_int_equal(numbers[4], 0);
}

static void test_buf_grows(void **state)
{
    (void)state;
    for (int use_arena = 0; use_arena < 2; use_arena++) {
        ARENA_AUTO a = arena_new(0);
        BUF_AUTO b;
        if (use_arena)
            buf_init_arena(&b, a, 100000);
        else
            buf_init(&b, 100000);
        for (int i = 0; i < 1000; i++) {
            buf_add_char(&b, 'x');
            buf_add_int(&b, i);
            buf_printf(&b, "%s", ",");
        }
        assert_true(buf_ok(&b));
        struct str rest = buf_str(&b);
        for (int i = 0; i < 1000; i++) {
            char expected[16];
            snprintf(expected, sizeof(expected), "x%d", i);
            assert_str(str_cut(&rest, ','), expected);
        }
        assert_int_equal(rest.n, 0);
        buf_done(&b);
        buf_done(&b);
    }
}

static void test_buf_int(void **state)
{
    (void)state;
    static const struct {
        int64_t v;
        const char *text;
    } rows[] = {
        { 0, "0" },
        { -1, "-1" },
        { 10, "10" },
        { INT64_MAX, "9223372036854775807" },
        { INT64_MIN, "-9223372036854775808" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        BUF_AUTO b;
        buf_init(&b, 64);
        buf_add_int(&b, rows[i].v);
        assert_str(buf_str(&b), rows[i].text);
    }
}

static void test_buf_maximum(void **state)
{
    (void)state;
    BUF_AUTO b;
    buf_init(&b, 10);
    assert_non_null(buf_str(&b).p); /* empty is not absent */
    buf_add_str(&b, STR("0123456789"));
    assert_true(buf_ok(&b));
    buf_add(&b, NULL, 0);
    assert_true(buf_ok(&b));
    buf_add_char(&b, 'x');
    assert_false(buf_ok(&b));
    assert_int_equal(buf_str(&b).n, 0);
    buf_add_char(&b, 'x');
    buf_printf(&b, "x");
    assert_int_equal(buf_str(&b).n, 0);

    buf_clear(&b);
    buf_printf(&b, "%d", 42);
    assert_true(buf_ok(&b));
    assert_str(buf_str(&b), "42");

    char long_text[600];
    memset(long_text, 'y', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    BUF_AUTO big;
    buf_init(&big, 599); /* exactly */
    buf_printf(&big, "%s", long_text);
    assert_str(buf_str(&big), long_text);
    buf_printf(&big, "%s", "zz");
    assert_false(buf_ok(&big));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_aligned_apart),
        cmocka_unit_test(test_reset_keeps_first_block),
        cmocka_unit_test(test_secret_is_wiped),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_buf_grows),
        cmocka_unit_test(test_buf_int),
        cmocka_unit_test(test_buf_maximum),
    };
    return RUN_TESTS(tests);
}
