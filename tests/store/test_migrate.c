/* test_migrate.c -- the schema's history: fresh, twice, older, newer, changed, broken half-way; and
 * the type words. */
#include "fixture.h"

#include <stdio.h>

#include "base/buf.h"
#include "store/driver.h"
#include "store/internal.h"

static struct fixture f;

static int set_up(void **state)
{
    (void)state;
    fixture_init(&f);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_done(&f);
    return 0;
}

static enum err migrate(const struct migration *steps, int *ret_applied, struct err_info *info)
{
    f.options.migrations = steps;
    return store_migrate(&f.options, ret_applied, info);
}

static enum err open_with(const struct migration *steps, struct err_info *info)
{
    struct store *store = NULL;
    f.options.migrations = steps;
    enum err e = store_open(&f.options, &store, info);
    store_close(store);
    return e;
}

static void second_time_does_nothing(void **state)
{
    (void)state;
    int applied = -1;
    assert_int_equal(migrate(fixture_schema, &applied, NULL), ERR_OK);
    assert_int_equal(applied, 0);
}

/* The fixture's steps and `n` more. */
static const struct migration *fixture_and(const struct migration *more, size_t n)
{
    static struct migration steps[8];
    memset(steps, 0, sizeof steps);
    memcpy(steps, fixture_schema, 3 * sizeof *steps);
    memcpy(steps + 3, more, n * sizeof *steps);
    return steps;
}

static const struct migration good = { "0004-good", "CREATE TABLE good (id {id}) {table_end};" };

static void old_schema_asks_for_migrate(void **state)
{
    (void)state;
    const struct migration *longer = fixture_and(&good, 1);
    struct err_info info = { 0 };
    int applied = 0;
    assert_int_equal(open_with(longer, &info), ERR_CONFLICT);
    assert_non_null(strstr(info.text, "run fenpay migrate"));
    assert_int_equal(migrate(longer, &applied, &info), ERR_OK);
    assert_int_equal(applied, 1);
    assert_int_equal(open_with(longer, &info), ERR_OK);
}

static void newer_schema_is_refused(void **state)
{
    (void)state;
    struct err_info info = { 0 };
    assert_int_equal(migrate(fixture_and(&good, 1), NULL, &info), ERR_OK);
    assert_int_equal(open_with(fixture_schema, &info), ERR_CONFLICT);
    assert_non_null(strstr(info.text, "newer program needed"));
    assert_int_equal(migrate(fixture_schema, NULL, &info), ERR_CONFLICT);
}

static void changed_text_is_refused(void **state)
{
    (void)state;
    struct migration changed[8];
    memcpy(changed, fixture_and(&good, 1), sizeof changed);
    changed[0].text = "CREATE TABLE other (id {id}) {table_end};";
    struct err_info info = { 0 };
    assert_int_equal(migrate(changed, NULL, &info), ERR_CONFLICT);
    assert_non_null(strstr(info.text, "0001-pair"));
    assert_int_equal(open_with(changed, &info), ERR_CONFLICT);
    assert_int_equal(open_with(fixture_schema, &info), ERR_OK); /* nothing was touched */
}

static void unmigrated_database_is_refused(void **state)
{
    (void)state;
    char url[200];
    struct err_info info = { 0 };
    struct store *store = NULL;
    snprintf(url, sizeof url, "%s2", f.url);
    f.options.url = str_of(url);
    assert_int_equal(store_open(&f.options, &store, &info), ERR_CONFLICT);
    assert_non_null(strstr(info.text, "run fenpay migrate"));
}

static void broken_step_leaves_nothing_of_itself(void **state)
{
    (void)state;
    struct migration more[] = {
        good,
        { "0005-half", "CREATE TABLE half (id {id}) {table_end}; CREATE NONSENSE;" },
    };
    struct err_info info = { 0 };
    int applied = -1;
    assert_int_equal(migrate(fixture_and(more, 2), &applied, &info), ERR_INTERNAL);
    assert_int_equal(applied, -1);
    more[1].text = "CREATE TABLE half (id {id}) {table_end};";
    assert_int_equal(migrate(fixture_and(more, 2), &applied, &info), ERR_OK);
    assert_int_equal(applied, 1); /* 0004 stayed */
}

/* ---- type words ---- */

static void assert_expands(const char *text, const char *expect)
{
    BUF_AUTO out;
    struct err_info info = { 0 };
    buf_init(&out, 4096);
    enum err e = schema_expand(sqlite_driver.types, str_of(text), &out, &info);
    if (!expect) {
        assert_int_equal(e, ERR_INVALID);
        return;
    }
    if (e)
        fail_msg("%s", info.text);
    assert_int_equal(out.n, strlen(expect));
    assert_memory_equal(out.p, expect, out.n);
}

static void type_words(void **state)
{
    (void)state;
    assert_expands("a {id}, b {int}", "a INTEGER PRIMARY KEY, b INTEGER");
    assert_expands(
        "paid  {fen} NOT NULL",
        "paid  INTEGER CHECK (paid BETWEEN -10000000000000 AND 10000000000000) NOT NULL");
    assert_expands("name {text(64)}", "name TEXT CHECK (length(name) <= 64)");
    assert_expands("x -- {nothing} here\ny", "x \ny");
    assert_expands("x {", NULL);
    assert_expands("x {money}", NULL);
    assert_expands("x {text}", NULL);
    assert_expands("x {text()}", NULL);
    assert_expands("x {text(6a)}", NULL);
    assert_expands("x {text(6}", NULL);
    assert_expands("x {int(6)}", NULL);
}

/* ---- the real schema ---- */

SQL(loose_tables, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                  " AND name NOT LIKE 'sqlite_%' AND strict = 0");
SQL(count_tables, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
                  "AND strict = 1");

static enum err tables_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct query *q = tx_select(tx, &loose_tables, NO_BINDS);
    if (query_row(q))
        return err_set(info, ERR_INVALID, STR_FMT " is not STRICT", STR_ARG(col_text(q, 0)));
    return tx_select_int(tx, &count_tables, NO_BINDS, arg, info);
}

static void embedded_schema_applies_and_is_strict(void **state)
{
    (void)state;
    char url[200];
    struct err_info info = { 0 };
    int applied = 0;
    int64_t tables = 0;
    snprintf(url, sizeof url, "%s-real", f.url);
    f.options.url = str_of(url);
    f.options.migrations = NULL;
    if (store_migrate(&f.options, &applied, &info))
        fail_msg("%s", info.text);
    assert_true(applied >= 6);
    fixture_open(&f);
    if (store_read(f.store, 0, "tables", tables_rule, &tables, &info))
        fail_msg("%s", info.text);
    assert_true(tables > 15);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(second_time_does_nothing),
        STORE_TEST(old_schema_asks_for_migrate),
        STORE_TEST(newer_schema_is_refused),
        STORE_TEST(changed_text_is_refused),
        STORE_TEST(unmigrated_database_is_refused),
        STORE_TEST(broken_step_leaves_nothing_of_itself),
        STORE_TEST(type_words),
        STORE_TEST(embedded_schema_applies_and_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
