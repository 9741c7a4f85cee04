/* fixture.h -- what the store tests share: a fresh database per test, a small schema, rules to play
 * with.
 *
 * The database comes from FENPAY_TEST_STORE_URL or is a SQLite file in a temporary folder, so that
 * the same suite runs on every engine. */
#ifndef FENPAY_TEST_STORE_FIXTURE_H
#define FENPAY_TEST_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/store.h"

struct fixture {
    struct env real;
    struct env_test test; /* a clock that stands */
    struct mint *mint;
    char folder[64];
    char url[128];
    struct store_options options;
    struct store *store;
};

extern const struct migration fixture_schema[];

/* A migrated, not yet opened database; the options may be changed before fixture_open. */
void fixture_init(struct fixture *f);
void fixture_open(struct fixture *f);
void fixture_close(struct fixture *f); /* the store only */
void fixture_done(struct fixture *f);
const char *fixture_path(const struct fixture *f); /* SQLite's file */

/* A rule with a script: what it does before and how it ends. It writes two rows, so that half a
 * rule would be seen. */
enum act_end { ACT_OK, ACT_REFUSE_FIRST, ACT_REFUSE_LAST, ACT_RETRY_FIRST, ACT_RETRY_LAST };
struct act {
    int64_t id;
    enum act_end end;
    int until_try;   /* the end holds for tries before this one; 0: always */
    int pad;         /* bytes of the blob */
    int tries;       /* counted */
    bool exists;     /* the id was taken */
    size_t together; /* by act_batch: how many were in the call that counted */
    bool right_item; /* stays true when time and ids were its own */
    /* of submitted jobs */
    struct store_job job;
    enum store_outcome outcome;
    _Atomic int told;
    bool accepted;
};
enum err act_rule(struct tx *tx, void *act, struct err_info *info);
store_batch act_batch; /* the same for many, where job.batch says so */
enum store_outcome act_run(struct fixture *f, struct act *act);
void act_submit(struct fixture *f, struct act *act); /* asserts a place */
void act_try_submit(struct fixture *f, struct act *act);
void act_wait(struct act *act); /* until told */

/* 2 when both rows are there, 0 none, 1 torn. */
int rows_of(struct fixture *f, int64_t id);
int64_t rows_in_all(struct fixture *f);

#endif
