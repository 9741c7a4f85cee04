/* check.h -- cmocka with what it needs before it, and the checks that our own types want. For unit
 * tests only. */
#ifndef FENPAY_TEST_CHECK_H
#define FENPAY_TEST_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Bytes and length of a view against a C string. */
#define assert_str(s, expected)                                                                    \
    do {                                                                                           \
        struct str check_s_ = (s);                                                                 \
        if (!str_eq(check_s_, str_of(expected))) {                                                 \
            print_error("\"" STR_FMT "\" is not \"%s\"\n", STR_ARG(check_s_), (expected));         \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

#define assert_ok(call) assert_int_equal((call), ERR_OK)

/* In a loop over a table: says which row failed. */
#define check_row(condition, what)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("row \"%s\": %s\n", (what), #condition);                                   \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

/* main() of a unit test. */
#define RUN_TESTS(tests)                                                                           \
    (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, NULL, NULL))

#endif
