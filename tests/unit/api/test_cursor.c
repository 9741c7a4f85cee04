/* Cursors: back and forth, and every tampering noticed. */
#include "../check.h"

#include "api/cursor.h"
#include "base/arena.h"

static void a_cursor_comes_back(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    static const int64_t positions[] = { 0, 1, 255, 256, 1LL << 59, INT64_MAX };
    for (size_t i = 0; i < COUNT(positions); i++) {
        int64_t back = -1;
        struct str c = cursor_print(a, "orders", 7, positions[i]);
        assert_int_equal(c.n, 16);
        assert_ok(cursor_parse(a, "orders", 7, c, &back));
        assert_int_equal(back, positions[i]);
    }
}

static void another_list_or_caller_is_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    int64_t back = -1;
    struct str c = cursor_print(a, "orders", 7, 123456789);
    assert_int_equal(cursor_parse(a, "events", 7, c, &back), ERR_INVALID);
    assert_int_equal(cursor_parse(a, "orders", 8, c, &back), ERR_INVALID);
    assert_int_equal(back, -1);
}

static void every_changed_character_is_noticed(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(4096);
    const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    struct str c = cursor_print(a, "orders", 7, 987654321987654321);
    int64_t back = -1;

    for (size_t i = 0; i < c.n; i++) {
        char *changed = arena_copy(a, c.p, c.n);
        for (const char *to = alphabet; *to; to++) {
            if (*to == c.p[i])
                continue;
            changed[i] = *to;
            assert_int_equal(cursor_parse(a, "orders", 7, (struct str) { changed, c.n }, &back),
                             ERR_INVALID);
        }
    }
    assert_int_equal(cursor_parse(a, "orders", 7, STR(""), &back), ERR_INVALID);
    assert_int_equal(cursor_parse(a, "orders", 7, str_sub(c, 0, 15), &back), ERR_INVALID);
    assert_int_equal(cursor_parse(a, "orders", 7, STR("not base64 at !!"), &back), ERR_INVALID);
    assert_int_equal(back, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cursor_comes_back),
        cmocka_unit_test(another_list_or_caller_is_refused),
        cmocka_unit_test(every_changed_character_is_noticed),
    };
    return RUN_TESTS(tests);
}
