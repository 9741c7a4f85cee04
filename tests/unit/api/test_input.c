/* The strict reader of request inputs: everything a table does not allow is refused, with a code
 * and the field. */
#include "../check.h"

#include "api/input.h"
#include "base/arena.h"

struct line {
    struct str sku;
    struct opt_int quantity;
};
#define LINE struct line
static const struct field line_fields[] = {
    INPUT_TEXT(LINE, sku, REQUIRED, 1, 8, SET_ID),
    INPUT_INT(LINE, quantity, REQUIRED, 1, 100),
};
static const struct shape line_shape = SHAPE(LINE, line_fields);

struct in {
    struct str name, note;
    struct opt_int amount, count, since;
    struct opt_list lines, tags;
};
#define IN struct in
static const struct field in_fields[] = {
    INPUT_TEXT(IN, name, REQUIRED, 1, 5, SET_ANY),
    INPUT_TEXT(IN, note, OPTIONAL, 0, 5, SET_ID),
    INPUT_FEN(IN, amount, OPTIONAL),
    INPUT_INT(IN, count, OPTIONAL, 1, 10),
    INPUT_TIME(IN, since, OPTIONAL),
    INPUT_OBJECTS(IN, lines, OPTIONAL, 1, 2, &line_shape),
    INPUT_TEXTS(IN, tags, OPTIONAL, 1, 3, SET_ID),
};
static const struct shape in_shape = SHAPE(IN, in_fields);

static const struct {
    const char *body;
    enum code code;
    const char *field; /* "": none */
} refused[] = {
    { "{", CODE_BAD_JSON, "" },
    { "[]", CODE_BAD_JSON, "" },
    { "\"name\"", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\"} x", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\",}", CODE_BAD_JSON, "" },
    { "{'name':'a'}", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\xff\"}", CODE_BAD_JSON, "" },
    { "{\"name\":\"\\ud800\"}", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\\u0000\"}", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\",\"amount\":01}", CODE_BAD_JSON, "" },
    { "{\"name\":\"a\",\"amount\":NaN}", CODE_BAD_JSON, "" },
    { "{}", CODE_BAD_FIELD, "name" },
    { "{\"name\":null}", CODE_BAD_FIELD, "name" },
    { "{\"name\":7}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"\"}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"abcdef\"}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"订单订单订单\"}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"a\\n\"}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"a\\u007f\"}", CODE_BAD_FIELD, "name" },
    { "{\"name\":\"a\",\"note\":\"a b\"}", CODE_BAD_FIELD, "note" },
    { "{\"name\":\"a\",\"amuont\":1}", CODE_UNKNOWN_FIELD, "amuont" },
    { "{\"name\":\"a\",\"Amount\":1}", CODE_UNKNOWN_FIELD, "Amount" },
    { "{\"name\":\"a\",\"amount\":1.5}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":1.0}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":1e3}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":\"100\"}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":-1}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":true}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":10000000000001}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":9223372036854775808}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":18446744073709551716}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"amount\":1e400}", CODE_AMOUNT_INVALID, "amount" },
    { "{\"name\":\"a\",\"count\":0}", CODE_BAD_FIELD, "count" },
    { "{\"name\":\"a\",\"count\":11}", CODE_BAD_FIELD, "count" },
    { "{\"name\":\"a\",\"count\":2.0}", CODE_BAD_FIELD, "count" },
    { "{\"name\":\"a\",\"since\":\"2026-02-30T00:00:00Z\"}", CODE_BAD_FIELD, "since" },
    { "{\"name\":\"a\",\"since\":\"2026-02-03\"}", CODE_BAD_FIELD, "since" },
    { "{\"name\":\"a\",\"since\":1780000000}", CODE_BAD_FIELD, "since" },
    { "{\"name\":\"a\",\"lines\":{}}", CODE_BAD_FIELD, "lines" },
    { "{\"name\":\"a\",\"lines\":[]}", CODE_BAD_FIELD, "lines" },
    { "{\"name\":\"a\",\"lines\":[1]}", CODE_BAD_FIELD, "lines[0]" },
    { "{\"name\":\"a\",\"lines\":[{\"sku\":\"s\",\"quantity\":1},{\"sku\":\"s\"}]}", CODE_BAD_FIELD,
      "lines[1].quantity" },
    { "{\"name\":\"a\",\"lines\":[{\"sku\":\"s\",\"quantity\":1,\"qty\":1}]}", CODE_UNKNOWN_FIELD,
      "lines[0].qty" },
    { "{\"name\":\"a\",\"lines\":[{\"sku\":\"s\",\"quantity\":1},{\"sku\":\"s\",\"quantity\":1},"
      "{\"sku\":\"s\",\"quantity\":1}]}",
      CODE_BAD_FIELD, "lines" },
    { "{\"name\":\"a\",\"tags\":[\"x\",\"long\"]}", CODE_BAD_FIELD, "tags[1]" },
    { "{\"name\":\"a\",\"tags\":[\"x\",3]}", CODE_BAD_FIELD, "tags[1]" },
};

static void what_a_table_does_not_allow_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        ARENA_AUTO a = arena_new(1024);
        struct in in = { 0 };
        struct refusal refusal = { 0 };
        enum code code = input_json(a, str_of(refused[i].body), &in_shape, &in, &refusal);
        check_row(code == refused[i].code, refused[i].body);
        check_row(refusal.code == code, refused[i].body);
        check_row(str_eq(refusal.field, str_of(refused[i].field)), refused[i].body);
    }
}

/* The second of two alike would win or lose silently: nobody may pay by it. */
static void a_key_given_twice_is_refused(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct in in = { 0 };
    struct refusal refusal = { 0 };
    assert_int_equal(
        input_json(a, STR("{\"name\":\"a\",\"amount\":1,\"amount\":2}"), &in_shape, &in, &refusal),
        CODE_BAD_JSON);
    assert_true(refusal.detail.n > 0);
}

static void the_nearest_known_name_is_offered(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct in in = { 0 };
    struct refusal refusal = { 0 };
    input_json(a, STR("{\"name\":\"a\",\"ammount\":1}"), &in_shape, &in, &refusal);
    assert_str(refusal.detail, "did you mean amount?");
}

static void good_input_lands_in_its_members(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct in in = { 0 };
    struct refusal refusal = { 0 };
    const char *body =
        "{\"name\":\"订单订单订\",\"note\":\"\",\"amount\":10000000000000,\"count\":10,"
        "\"since\":\"2026-01-01T08:00:00+08:00\",\"tags\":[\"a\",\"b\"],"
        "\"lines\":[{\"sku\":\"s-1\",\"quantity\":3}]}";
    assert_int_equal(input_json(a, str_of(body), &in_shape, &in, &refusal), CODE_OK);
    assert_str(in.name, "订单订单订");
    assert_true(in.note.p != NULL && in.note.n == 0);
    assert_true(in.amount.given && in.amount.v == 10000000000000);
    assert_int_equal(in.count.v, 10);
    assert_int_equal(in.since.v, 1767225600000);
    assert_int_equal(in.tags.n, 2);
    assert_str(((const struct str *)in.tags.p)[1], "b");
    assert_int_equal(in.lines.n, 1);
    assert_str(((const struct line *)in.lines.p)[0].sku, "s-1");
    assert_int_equal(((const struct line *)in.lines.p)[0].quantity.v, 3);
}

static void null_and_absent_are_the_same(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct in in = { 0 };
    struct refusal refusal = { 0 };
    assert_int_equal(input_json(a, STR("{\"name\":\"a\",\"note\":null,\"amount\":null}"), &in_shape,
                                &in, &refusal),
                     CODE_OK);
    assert_null(in.note.p);
    assert_false(in.amount.given);
}

struct query {
    struct str user;
    struct opt_int limit, since;
};
static const struct field query_fields[] = {
    INPUT_TEXT(struct query, user, REQUIRED, 1, 4, SET_ANY),
    INPUT_INT(struct query, limit, OPTIONAL, 1, 100),
    INPUT_TIME(struct query, since, OPTIONAL),
};
static const struct shape query_shape = SHAPE(struct query, query_fields);

static enum code read_one(struct arena *a, const char *key, const char *value, struct query *ret,
                          struct refusal *refusal)
{
    struct input_pair pairs[] = {
        { STR("user"), STR("u") },
        { str_of(key), str_of(value) },
    };
    *ret = (struct query) { 0 };
    return input_pairs(a, pairs, COUNT(pairs), &query_shape, ret, refusal);
}

static void query_strings_are_as_strict(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    struct query q;
    struct refusal refusal = { 0 };
    static const char *const bad_limits[] = { "0", "101", "1.0", "+1", "01", "", "1e1", " 1" };

    assert_int_equal(read_one(a, "limit", "100", &q, &refusal), CODE_OK);
    assert_int_equal(q.limit.v, 100);
    assert_int_equal(read_one(a, "since", "2026-01-01T00:00:00Z", &q, &refusal), CODE_OK);
    assert_int_equal(q.since.v, 1767225600000);
    for (size_t i = 0; i < COUNT(bad_limits); i++) {
        check_row(read_one(a, "limit", bad_limits[i], &q, &refusal) == CODE_BAD_FIELD,
                  bad_limits[i]);
        assert_str(refusal.field, "limit");
    }
    assert_int_equal(read_one(a, "limt", "1", &q, &refusal), CODE_UNKNOWN_FIELD);
    assert_str(refusal.field, "limt");

    struct input_pair not_utf8 = { STR("user"), STR("\xc3(") };
    assert_int_equal(input_pairs(a, &not_utf8, 1, &query_shape, &q, &refusal), CODE_BAD_FIELD);
    assert_int_equal(input_pairs(a, NULL, 0, &query_shape, &q, &refusal), CODE_BAD_FIELD);
    assert_str(refusal.field, "user");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_table_does_not_allow_is_refused),
        cmocka_unit_test(a_key_given_twice_is_refused),
        cmocka_unit_test(the_nearest_known_name_is_offered),
        cmocka_unit_test(good_input_lands_in_its_members),
        cmocka_unit_test(null_and_absent_are_the_same),
        cmocka_unit_test(query_strings_are_as_strict),
    };
    return RUN_TESTS(tests);
}
