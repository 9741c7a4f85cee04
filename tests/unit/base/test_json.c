/* The reader by tables of what is taken and refused, and the printer. test_json_diff.c compares
 * with another reader. */
#include "../check.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/rand.h"

static enum err parse(struct arena *a, const char *text, const struct json **ret)
{
    return json_parse(a, str_of(text), ret, NULL);
}

static void test_accepts(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-1.5e+10",
        "1E5",
        "0.1",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\"",
        "[]",
        "{}",
        " [ ] ",
        "\t\n\r {\"a\" : 1 , \"b\":[1, 2]}\n",
        "[[],{},[{}]]",
        "{\"\":0}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"",
        "\"元é😀\x7f\"",
        "{\"a\":{\"a\":{\"a\":null}}}",
        "[null,true,false]",
        "\"\\u0001\"",
        "\"\xef\xbf\xbf\"",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        const struct json *j = NULL;
        check_row(parse(a, rows[i], &j) == ERR_OK && j, rows[i]);
    }
}

static void test_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n; /* 0: as a C string */
    } rows[] = {
        { "" },
        { " " },
        { "nul" },
        { "nulll" },
        { "True" },
        { "tru" },
        { "NaN" },
        { "Infinity" },
        { "+1" },
        { "-" },
        { "01" },
        { "-01" },
        { "1." },
        { ".5" },
        { "1.e5" },
        { "1e" },
        { "1e+" },
        { "0x10" },
        { "1 2" },
        { "1," },
        { "--1" },
        { "- 1" },
        { "\"" },
        { "\"a" },
        { "\"\\" },
        { "\"\\\"" },
        { "\"\\x\"" },
        { "\"\\u12\"" },
        { "\"\\u123g\"" },
        { "\"\\U0041\"" },
        { "\"\\\n\"" },
        { "\"\\é\"" },
        { "\"\n\"" },
        { "\"\x1f\"" },
        { "\"\\u0000\"" },
        { "\"\\ud800\"" },
        { "\"\\udc00\"" },
        { "\"\\ud800\\u0041\"" },
        { "\"\\ud800\\ud800\"" },
        { "\"\\ud83d\\ude0\"" },
        { "\"\\ud83d" },
        { "\"\\uD83D\"\"\\uDE00\"" },
        { "\"\xff\"" },
        { "\"\xc0\xaf\"" },
        { "\"\xed\xa0\x80\"" },
        { "\"\xf4\x90\x80\x80\"" },
        { "\"\xe5\x85\"" },
        { "\"\xe5" },
        { "[" },
        { "]" },
        { "[1" },
        { "[1," },
        { "[1,]" },
        { "[,1]" },
        { "[1 2]" },
        { "[1}" },
        { "{" },
        { "}" },
        { "{]" },
        { "{\"a\"" },
        { "{\"a\":" },
        { "{\"a\":}" },
        { "{\"a\":1" },
        { "{\"a\":1," },
        { "{\"a\":1,}" },
        { "{\"a\" 1}" },
        { "{a:1}" },
        { "{'a':1}" },
        { "{1:1}" },
        { "{\"a\":1 \"b\":2}" },
        { "{,}" },
        { "[]x" },
        { "[][]" },
        { "{}{}" },
        { "/**/1" },
        { "1//" },
        { "\xef\xbb\xbf{}" },
        { "{\"a\":1,\"a\":2}" },
        { "{\"a\":1,\"\\u0061\":1}" },
        { "{\"b\":{\"x\":1,\"y\":2,\"x\":3}}" },
        { "{\"\":1,\"\":1}" },
        { "\0", 1 },
        { "1\0", 2 },
        { "\"a\0\"", 4 },
        { "[1,\0]", 5 },
        { "\x0c"
          "1" },
        { "\xc2\xa0"
          "1" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        const struct json *j = NULL;
        struct err_info info = { 0 };
        struct str text = { rows[i].text, rows[i].n ? rows[i].n : strlen(rows[i].text) };
        /* From an exact heap copy, so that ASan sees a byte too far. */
        char *exact = malloc(text.n + !text.n);
        memcpy(exact, text.p, text.n);
        check_row(json_parse(a, (struct str) { exact, text.n }, &j, &info) == ERR_INVALID,
                  rows[i].text);
        check_row(!j, rows[i].text);
        check_row(str_starts(str_of(info.text), STR("byte ")), rows[i].text);
        free(exact);
    }
}

static void test_error_says_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        { "{\"a\":1,\"b\" 2}", "byte 11: expected ':'" },
        { "[1,2", "byte 4: unexpected end" },
        { "{\"a\":1,\"a\":2}", "byte 11: duplicate key" },
        { "{} x", "byte 3: something stands behind the value" },
        { "[\"abc\\u0000\"]", "byte 5: NUL in text" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ARENA_AUTO a = arena_new(0);
        const struct json *j;
        struct err_info info = { 0 };
        assert_int_equal(json_parse(a, str_of(rows[i].text), &j, &info), ERR_INVALID);
        assert_string_equal(info.text, rows[i].error);
    }
}

static void test_tree(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    const char *text = " {\"id\" : \"x\", \"n\":[ 1, -2.50 ,\"\\u5143\\n\"], \"o\":{\"t\":true}} ";
    const struct json *j;
    assert_ok(parse(a, text, &j));
    assert_int_equal(j->type, JSON_OBJECT);
    assert_int_equal(j->count, 3);
    assert_int_equal(j->raw.n, strlen(text) - 2);

    const struct json *id = json_get(j, "id");
    assert_str(id->text, "x");
    assert_str(id->raw, "\"x\"");
    assert_ptr_equal(id->text.p, text + 10); /* a view */
    assert_str(id->key, "id");

    const struct json *n = json_get(j, "n");
    assert_int_equal(n->count, 3);
    assert_str(n->raw, "[ 1, -2.50 ,\"\\u5143\\n\"]");
    assert_str(n->first->text, "1");
    assert_str(n->first->next->text, "-2.50");
    assert_str(n->first->next->next->text, "元\n");
    assert_null(n->first->next->next->next);
    assert_null(n->first->key.p);

    assert_int_equal(json_get(json_get(j, "o"), "t")->type, JSON_TRUE);
    assert_null(json_get(j, "absent"));
    assert_null(json_get(n, "id"));
    assert_null(json_get(NULL, "id"));
}

static void test_members(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    const struct json *j;
    assert_ok(parse(a,
                    "{\"s\":\"x\",\"i\":9223372036854775807,\"b\":false,\"z\":null,\"f\":1.0,\"e\":"
                    "1e2,\"big\":9223372036854775808,\"q\":\"1\"}",
                    &j));
    struct err_info info = { 0 };
    struct str s = STR("old");
    int64_t i = 42;
    bool b = true;
    assert_ok(json_get_str(j, "s", &s, &info));
    assert_str(s, "x");
    assert_ok(json_get_int(j, "i", &i, &info));
    assert_int_equal(i, INT64_MAX);
    assert_ok(json_get_bool(j, "b", &b, &info));
    assert_false(b);

    i = 42;
    static const struct {
        const char *key;
        enum err as_str, as_int, as_bool;
    } rows[] = {
        { "absent", ERR_NOT_FOUND, ERR_NOT_FOUND, ERR_NOT_FOUND },
        { "z", ERR_NOT_FOUND, ERR_NOT_FOUND, ERR_NOT_FOUND },
        { "f", ERR_INVALID, ERR_INVALID, ERR_INVALID },
        { "e", ERR_INVALID, ERR_INVALID, ERR_INVALID },
        { "big", ERR_INVALID, ERR_INVALID, ERR_INVALID },
    };
    for (size_t r = 0; r < COUNT(rows); r++) {
        check_row(json_get_str(j, rows[r].key, &s, &info) == rows[r].as_str, rows[r].key);
        check_row(json_get_int(j, rows[r].key, &i, &info) == rows[r].as_int, rows[r].key);
        check_row(json_get_bool(j, rows[r].key, &b, &info) == rows[r].as_bool, rows[r].key);
        check_row(strcmp(info.field, rows[r].key) == 0, rows[r].key);
    }
    assert_int_equal(json_get_int(j, "q", &i, &info), ERR_INVALID);
    assert_int_equal(json_get_str(j, "i", &s, NULL), ERR_INVALID);
    assert_int_equal(json_int(NULL, &i), ERR_INVALID);
    assert_int_equal(i, 42);
    assert_str(s, "x");
    assert_false(b);
}

static void test_limits(void **state)
{
    (void)state;
    for (size_t extra = 0; extra < 2; extra++) {
        ARENA_AUTO a = arena_new(0);
        const struct json *j;
        char deep[2 * (JSON_DEPTH_MAX + 1)];
        size_t depth = JSON_DEPTH_MAX + extra;
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        assert_int_equal(json_parse(a, (struct str) { deep, 2 * depth }, &j, NULL),
                         extra ? ERR_LIMIT : ERR_OK);

        BUF_AUTO b;
        buf_init(&b, 1 << 20);
        buf_add_str(&b, STR("[0"));
        for (size_t i = 2; i < JSON_VALUES_MAX + extra; i++)
            buf_add_str(&b, STR(",0"));
        buf_add_char(&b, ']');
        assert_int_equal(json_parse(a, buf_str(&b), &j, NULL), extra ? ERR_LIMIT : ERR_OK);
    }
}

/* Large objects: duplicates are found wherever they stand, and quickly. */
static void test_large_objects(void **state)
{
    (void)state;
    for (int count = 14; count <= 15000; count = count < 20 ? count + 1 : count * 5) {
        for (int twin = -1; twin < count; twin += count / 3 + 1) {
            ARENA_AUTO a = arena_new(0);
            const struct json *j;
            BUF_AUTO b;
            buf_init(&b, 1 << 20);
            buf_add_char(&b, '{');
            for (int i = 0; i < count; i++)
                buf_printf(&b, "\"key-%07d\":%d,", i, i);
            buf_printf(&b, "\"key-%07d\":0}", twin < 0 ? count : twin);
            assert_int_equal(json_parse(a, buf_str(&b), &j, NULL), twin < 0 ? ERR_OK : ERR_INVALID);
        }
    }
}

/* Every position of a special byte against the eight-byte steps. */
static void test_text_alignment(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *decoded; /* NULL: refused */
    } rows[] = {
        { "\\n", "\n" },  { "元", "元" }, { "\\u0041", "A" }, { "\x1f", NULL },
        { "\xff", NULL }, { " ", " " },   { "~", "~" },       { "!", "!" },
        { "#", "#" },     { "[", "[" },   { "]", "]" },
    };
    for (size_t r = 0; r < COUNT(rows); r++) {
        for (size_t before = 0; before < 20; before++) {
            for (size_t after = 0; after < 20; after += 3) {
                ARENA_AUTO a = arena_new(0);
                const struct json *j;
                char text[80], want[80];
                snprintf(text, sizeof(text), "\"%.*s%s%.*s\"", (int)before, "abcdefghijklmnopqrst",
                         rows[r].piece, (int)after, "ABCDEFGHIJKLMNOPQRST");
                enum err e = parse(a, text, &j);
                check_row(e == (rows[r].decoded ? ERR_OK : ERR_INVALID), text);
                if (e)
                    continue;
                snprintf(want, sizeof(want), "%.*s%s%.*s", (int)before, "abcdefghijklmnopqrst",
                         rows[r].decoded, (int)after, "ABCDEFGHIJKLMNOPQRST");
                assert_str(j->text, want);
            }
        }
    }
}

static void test_print(void **state)
{
    (void)state;
    BUF_AUTO b;
    buf_init(&b, 1000);
    struct json_out o;
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "s", STR("a\"\\\n\x01/元\x7f"));
    json_kv_str(&o, "left_out", STR_NONE);
    json_kv_int(&o, "i", INT64_MIN);
    json_kv_bool(&o, "b", true);
    json_key(&o, "list");
    json_begin_array(&o);
    json_put_int(&o, 1);
    json_put_bool(&o, false);
    json_put_null(&o);
    json_begin_object(&o);
    json_end_object(&o);
    json_begin_array(&o);
    json_end_array(&o);
    json_str(&o, STR("x"));
    json_end_array(&o);
    json_key(&o, "raw");
    json_put_raw(&o, STR("[1,2]"));
    json_kv_str(&o, "bad", STR("a\xff\xed\xa0\x80z"));
    json_end_object(&o);
    assert_true(buf_ok(&b));
    assert_str(buf_str(&b), "{\"s\":\"a\\\"\\\\\\n\\u0001/"
                            "元\\u007f\",\"i\":-9223372036854775808,\"b\":true,\"list\":[1,false,"
                            "null,{},[],\"x\"],\"raw\":[1,2],"
                            "\"bad\":\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"}");
    ARENA_AUTO a = arena_new(0);
    const struct json *j;
    assert_ok(json_parse(a, buf_str(&b), &j, NULL));
}

/* Whatever valid text goes out comes back the same. */
static void test_print_round_trip(void **state)
{
    (void)state;
    static const char *const pieces[] = { "a",        "\"", "\\", "\n", "\x01", "\x7f",        "é",
                                          "\xc2\x85", "元", "😀",  "/",  " ",    "\xef\xbf\xbf" };
    struct rand r;
    rand_seed(&r, 3);
    for (int round = 0; round < 500; round++) {
        ARENA_AUTO a = arena_new(0);
        const struct json *j;
        struct json_out o;
        BUF_AUTO text, out;
        buf_init(&text, 1000);
        buf_init(&out, 10000);
        for (uint64_t n = rand_below(&r, 30); n; n--)
            buf_add_str(&text, str_of(pieces[rand_below(&r, COUNT(pieces))]));
        json_out_init(&o, &out);
        json_str(&o, buf_str(&text));
        assert_ok(json_parse(a, buf_str(&out), &j, NULL));
        assert_true(str_eq(j->text, buf_str(&text)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_error_says_where),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_large_objects),
        cmocka_unit_test(test_text_alignment),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_print_round_trip),
    };
    return RUN_TESTS(tests);
}
