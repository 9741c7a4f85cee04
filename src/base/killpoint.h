/* killpoint.h -- places where a test may end the process, and switches that plant a bug, in test
 * builds only.
 *
 * Built with -Dtest_hooks=true: the environment variable FENPAY_KILL_AT="name" or "name:3" raises
 * SIGKILL when that point is passed (the third time); FENPAY_MUTATION="name" makes
 * mutation_on(name) true. In other builds both are nothing. */
#ifndef FENPAY_KILLPOINT_H
#define FENPAY_KILLPOINT_H

#include <stdbool.h>

enum mutation {
    MUTATION_NONE,
    MUTATION_SYNC_OFF,             /* the database does not sync */
    MUTATION_ANSWER_BEFORE_COMMIT, /* callbacks are acknowledged before they are durable */
};

#ifdef FENPAY_TEST_HOOKS
void kill_point(const char *name);
bool mutation_on(enum mutation m);
void mutation_set(enum mutation m); /* for tests in the same process */
#else
static inline void kill_point(const char *name)
{
    (void)name;
}
static inline bool mutation_on(enum mutation m)
{
    (void)m;
    return false;
}
#endif

#endif
