/* test_conformance.c -- what every engine behind store.h must do. Uses store.h alone. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/lease.h"

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

static void commits_and_reads_back(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act act = { .id = 7 };
    assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    assert_int_equal(rows_of(&f, 7), 2);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(rows_of(&f, 7), 2);
}

static void taken_key_lets_the_rule_go_on(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act one = { .id = 7 }, two = { .id = 7 };
    assert_int_equal(act_run(&f, &one), STORE_COMMITTED);
    assert_int_equal(act_run(&f, &two), STORE_COMMITTED);
    assert_true(two.exists);
    assert_int_equal(rows_in_all(&f), 2);
}

static void refusal_undoes_everything(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act first = { .id = 1, .end = ACT_REFUSE_FIRST },
               last = { .id = 2, .end = ACT_REFUSE_LAST };
    assert_int_equal(act_run(&f, &first), STORE_REFUSED);
    assert_int_equal(act_run(&f, &last), STORE_REFUSED);
    assert_int_equal(first.job.info.err, ERR_CONFLICT);
    assert_string_equal(last.job.info.text, "refused after writing");
    assert_int_equal(rows_in_all(&f), 0);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(commits_and_reads_back),
        STORE_TEST(taken_key_lets_the_rule_go_on),
        STORE_TEST(refusal_undoes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
