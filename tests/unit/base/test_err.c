/* The error vocabulary: filling, cutting, quoting itself. */
#include "../check.h"

#include "base/err.h"

static void test_set(void **state)
{
    (void)state;
    struct err_info info = { .field = "old", .text = "old" };
    assert_int_equal(err_set(&info, ERR_BUSY, "queue of %d", 7), ERR_BUSY);
    assert_int_equal(info.err, ERR_BUSY);
    assert_string_equal(info.field, "");
    assert_string_equal(info.text, "queue of 7");

    assert_int_equal(err_field(&info, ERR_INVALID, "amount", "is %s", "odd"), ERR_INVALID);
    assert_string_equal(info.field, "amount");
    assert_string_equal(info.text, "is odd");

    assert_int_equal(err_set(&info, ERR_IO, "reading x: %s", info.text), ERR_IO);
    assert_string_equal(info.text, "reading x: is odd");

    assert_int_equal(err_set(NULL, ERR_DENIED, "nobody listens"), ERR_DENIED);
    assert_int_equal(err_field(NULL, ERR_DENIED, "f", "nobody listens"), ERR_DENIED);
    assert_int_equal(err_internal(&info, "row %d", 1), ERR_INTERNAL);
}

/* Every alignment of a three-byte character against the end. */
static void test_cut_at_character(void **state)
{
    (void)state;
    struct err_info info;
    for (size_t shift = 0; shift < 6; shift++) {
        char text[1000] = "aaaaaa";
        for (size_t i = shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "元", 3);
        err_field(&info, ERR_INVALID, text, "%s", text);
        assert_true(str_is_utf8(str_of(info.text)));
        assert_true(strlen(info.text) > sizeof(info.text) - 4);
        assert_true(str_is_utf8(str_of(info.field)));
        assert_true(strlen(info.field) > sizeof(info.field) - 4);
    }
    char fits[sizeof(info.text)];
    memset(fits, 'x', sizeof(fits) - 1);
    fits[sizeof(fits) - 1] = '\0';
    err_set(&info, ERR_INVALID, "%s", fits);
    assert_string_equal(info.text, fits);
}

static void test_names(void **state)
{
    (void)state;
    for (int e = ERR_OK; e >= ERR_INTERNAL; e--)
        for (int other = e - 1; other >= ERR_INTERNAL; other--)
            assert_string_not_equal(err_name((enum err)e), err_name((enum err)other));
    assert_string_equal(err_name(ERR_NOT_FOUND), "not found");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_cut_at_character),
        cmocka_unit_test(test_names),
    };
    return RUN_TESTS(tests);
}
