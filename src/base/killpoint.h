/* killpoint.h -- places where a test may end the process, and switches that plant a bug, in test
 * builds only.
 *
 * Built with -Dtest_hooks=true: the environment variable FENPAY_KILL_AT="name" or "name:3" raises
 * SIGKILL when that point is passed (the third time); FENPAY_MUTATION="name" makes
 * mutation_on(name) true; FENPAY_CLOCK="file" adds the int64 of milliseconds in that file to the
 * real environment's wall clock, and who writes to the file moves the clock of running processes.
 * In other builds all three are nothing. */
#ifndef FENPAY_KILLPOINT_H
#define FENPAY_KILLPOINT_H

#include <stdbool.h>
#include <stdint.h>

enum mutation {
    MUTATION_NONE,
    MUTATION_SYNC_OFF,             /* the database does not sync */
    MUTATION_ANSWER_BEFORE_COMMIT, /* callbacks are acknowledged before they are durable */
    MUTATION_CANCEL_UNSETTLED,     /* a cancel does not look for a success that waits */
    MUTATION_NOT_EXIST_AT_ONCE, /* "does not exist" is believed while a prepay may be on its way */
    MUTATION_UNKNOWN_FORGOTTEN, /* a prepay without an answer counts as none */
    MUTATION_CLOSE_UNHEARD,     /* a close without an answer counts as one that was done */
    MUTATION_SURPLUS_UNTOLD,    /* money that an order did not want opens no incident */
    MUTATION_STALE_ROW,         /* an answer is applied to the row as it was before the call */
    MUTATION_REDELIVERY_DONE,   /* a callback that comes again counts as done, whatever it was */
    MUTATION_BYTES_LOST,        /* when our rule fails, the callback's bytes are undone with it */
    MUTATION_ATTEMPT_UNGUARDED, /* an attempt is stored whatever its order says by now */
    MUTATION_CLOSE_UNASKED,     /* a close is neither preceded nor followed by a query */
    MUTATION_MARKED_UNSENT,     /* a delivery is marked done before it is sent */
    MUTATION_DEAD_TARGET,       /* a consumer that fails on an event keeps it from everybody */
    MUTATION_LOSER_WINS,        /* a payment that came too late becomes its order's all the same */
    MUTATION_LEASE_IGNORED,     /* a call does not wait for another one about the same payment */
    MUTATION_REFUND_UNRESERVED, /* a refund does not look at what is left to give back */
    MUTATION_REFUND_UNSURE,     /* a refusal fails a refund although an earlier call went unheard */
    MUTATION_REFUND_UNKEYED,    /* an automatic refund does not look for itself, under no key */
    MUTATION_FEED_BY_MINT,      /* the feed counts events as they were made, not as published */
    MUTATIONS                   /* how many, not one of them */
};

#ifdef FENPAY_TEST_HOOKS
void kill_point(const char *name);
bool mutation_on(enum mutation m);
void mutation_set(enum mutation m); /* for tests in the same process */
const char *mutation_name(enum mutation m);
int64_t clock_ahead_ms(void);
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
static inline int64_t clock_ahead_ms(void)
{
    return 0;
}
#endif

#endif
