/* test_faults.c -- the store on a disk that fails: every operation of a batch broken in turn, the
 * power cut at every sync and write, and the proof that this suite would see a missing fsync.
 *
 * What must hold after each: who was told "committed" is in the reopened database, who was told
 * "refused" or "busy" is not, and "unknown" is whole or absent. */
#include "fixture.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/killpoint.h"
#include "fault_vfs.h"

#define ACTS 12

static struct fixture f;
static store_batch *batch; /* of every act: many in one call */
static char *template_bytes;
static size_t template_n;

static int set_up(void **state)
{
    (void)state;
    fault_vfs_register();
    fixture_init(&f);
    f.options.vfs = FAULT_VFS;
    f.options.inline_mode = true;
    f.options.env = &f.test.env;
    FILE *file = fopen(fixture_path(&f), "rb");
    assert_non_null(file);
    template_bytes = malloc(1 << 20);
    template_n = fread(template_bytes, 1, 1 << 20, file);
    fclose(file);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fault_disarm();
    fault_careless_disk(false);
    fixture_done(&f);
    fault_reset();
    free(template_bytes);
    return 0;
}

static void fresh_database(void)
{
    char name[160];
    const char *tails[] = { "-wal", "-shm" };
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", fixture_path(&f), tails[i]);
        unlink(name);
    }
    FILE *file = fopen(fixture_path(&f), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(template_bytes, 1, template_n, file), template_n);
    assert_int_equal(fclose(file), 0);
    fault_reset();
}

static void assert_sound(void)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(fixture_path(&f), &db, SQLITE_OPEN_READWRITE, FAULT_VFS),
                     SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    sqlite3_close(db);
}

/* Two batches of good and failing rules; some are not even accepted after a fault, and then stay
 * untold. */
static void run_acts(struct act acts[ACTS])
{
    static const enum act_end ends[ACTS] = { [2] = ACT_REFUSE_FIRST,
                                             [4] = ACT_REFUSE_LAST,
                                             [5] = ACT_RETRY_FIRST,
                                             [8] = ACT_RETRY_LAST,
                                             [10] = ACT_REFUSE_LAST };
    for (int i = 0; i < ACTS; i++)
        acts[i] = (struct act) { .id = i + 1,
                                 .end = ends[i],
                                 .until_try = ends[i] == ACT_RETRY_LAST ? 3 : 0,
                                 .pad = i * 700,
                                 .job.batch = batch };
    for (int i = 0; i < ACTS; i++) {
        if (i == ACTS / 2)
            while (store_turn(f.store, 100) > 0)
                ;
        act_try_submit(&f, &acts[i]);
    }
    while (store_turn(f.store, 100) > 0)
        ;
}

/* The number of promises that were broken. */
static int check_acts(struct act acts[ACTS])
{
    int broken = 0;
    fixture_open(&f);
    for (int i = 0; i < ACTS; i++) {
        int rows = rows_of(&f, acts[i].id);
        assert_int_equal(acts[i].told, acts[i].accepted);
        if (!acts[i].accepted) {
            broken += rows != 0;
            continue;
        }
        switch (acts[i].outcome) {
        case STORE_COMMITTED:
            broken += rows != 2;
            break;
        case STORE_REFUSED:
        case STORE_BUSY:
            broken += rows != 0;
            break;
        case STORE_UNKNOWN:
            broken += rows == 1;
            break;
        }
    }
    store_drop(f.store);
    f.store = NULL;
    return broken;
}

/* ---- faults ---- */

static void break_every_operation(enum fault_kind kind, bool sticky, bool savepoints, unsigned ops)
{
    int fired = 1;
    f.options.savepoints = savepoints;
    for (int n = 1; fired; n++) {
        struct act acts[ACTS];
        fresh_database();
        fixture_open(&f);
        fault_arm(ops, n, kind, sticky);
        run_acts(acts);
        fired = fault_fired();
        store_drop(f.store);
        fault_disarm();
        int broken = check_acts(acts);
        if (broken)
            fail_msg("kind %d, sticky %d, savepoints %d: operation %d broke %d promises", kind,
                     sticky, savepoints, n, broken);
        assert_sound();
        if (!fired)
            assert_true(n > 3); /* the loop has seen something */
    }
}

static void io_error_at_every_operation(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        break_every_operation(FAULT_IOERR, i & 1, i & 2, FAULT_ANY);
}

static void disk_full_at_every_write(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        break_every_operation(FAULT_FULL, i & 1, i & 2, FAULT_WRITE);
}

/* The log is copied into the database again and again. */
static void faults_while_checkpointing(void **state)
{
    (void)state;
    f.options.wal_bytes_max = 4 * 4120;
    break_every_operation(FAULT_IOERR, false, false, FAULT_ANY);
    break_every_operation(FAULT_FULL, true, false, FAULT_WRITE);
}

/* systems.md F2: after a COMMIT that proves nothing the process must stop, and nothing more is
 * accepted. */
static void failed_sync_stops_the_store(void **state)
{
    (void)state;
    fresh_database();
    fixture_open(&f);
    ARENA_AUTO a = arena_new(512);
    assert_int_equal(store_trouble(f.store, a).n, 0);
    struct act act = { .id = 1 }, next = { .id = 2 };
    fault_arm(FAULT_SYNC, 1, FAULT_IOERR, false);
    assert_int_equal(act_run(&f, &act), STORE_UNKNOWN);
    assert_true(store_failed(f.store));
    assert_true(store_trouble(f.store, a).n > 0);
    assert_int_equal(act_run(&f, &next), STORE_BUSY);
}

static void full_disk_refuses_until_there_is_room(void **state)
{
    (void)state;
    fresh_database();
    fixture_open(&f);
    ARENA_AUTO a = arena_new(512);
    struct act act = { .id = 1 }, next = { .id = 2 };
    fault_arm(FAULT_WRITE, 1, FAULT_FULL, true);
    assert_int_equal(act_run(&f, &act), STORE_UNKNOWN);
    assert_false(store_failed(f.store));
    assert_true(store_trouble(f.store, a).n > 0);
    assert_int_equal(act_run(&f, &next), STORE_BUSY);

    env_test_advance(&f.test, 1000); /* still full */
    store_turn(f.store, 1);
    assert_int_equal(act_run(&f, &next), STORE_BUSY);

    fault_disarm();
    env_test_advance(&f.test, 1000);
    store_turn(f.store, 1);
    assert_int_equal(store_trouble(f.store, a).n, 0);
    assert_int_equal(act_run(&f, &next), STORE_COMMITTED);
    assert_int_equal(rows_of(&f, 2), 2);
}

/* ---- the engine gives up in the middle of a batch (systems.md F1) ---- */

static enum err few_pages_rule(struct tx *tx, void *arg, struct err_info *info)
{
    SQL(few_pages, "PRAGMA max_page_count = 40");
    SQL(many_pages, "PRAGMA max_page_count = 1000000");
    int64_t pages;
    return tx_select_int(tx, *(bool *)arg ? &few_pages : &many_pages, NO_BINDS, &pages, info);
}

static void set_few_pages(bool few)
{
    struct store_job job;
    store_job_init(&job, &f.real, NULL, 0);
    job.name = "few_pages";
    job.rule = few_pages_rule;
    job.arg = &few;
    assert_int_equal(store_run(f.store, &job, NULL), STORE_COMMITTED);
}

static void batch_rules_broken_at_every_operation(void **state)
{
    (void)state;
    batch = act_batch;
    for (int i = 0; i < 4; i++) {
        break_every_operation(FAULT_IOERR, i & 1, i & 2, FAULT_ANY);
        break_every_operation(FAULT_FULL, i & 1, i & 2, FAULT_WRITE);
    }
    batch = NULL;
}

/* SQLITE_FULL in one rule silently rolls back all the others with it. */
static void silent_rollback_of_a_batch(bool savepoints, int huge)
{
    struct act acts[10];
    fresh_database();
    f.options.savepoints = savepoints;
    fixture_open(&f);
    set_few_pages(true);
    for (int i = 0; i < 10; i++) {
        acts[i] = (struct act) { .id = i + 1,
                                 .pad = i % 4 < huge && i % 4 > 0 ? 300000 : 10,
                                 .job.batch = batch };
        act_submit(&f, &acts[i]);
    }
    while (store_turn(f.store, 10) > 0)
        ;
    for (int i = 0; i < 10; i++) {
        bool fits = acts[i].pad < 1000;
        assert_int_equal(acts[i].told, 1);
        assert_int_equal(rows_of(&f, acts[i].id), acts[i].outcome == STORE_COMMITTED ? 2 : 0);
        assert_true(fits || acts[i].outcome == STORE_BUSY);
        if (huge == 2) /* two that are known and one at the end: the others do not suffer */
            assert_int_equal(acts[i].outcome, fits ? STORE_COMMITTED : STORE_BUSY);
    }
    if (huge == 2)
        assert_int_equal(acts[9].job.info.err, ERR_LIMIT);

    ARENA_AUTO a = arena_new(256);
    assert_true(store_trouble(f.store, a).n > 0);
    env_test_advance(&f.test, 1000);
    store_turn(f.store, 1);
    set_few_pages(false);
    assert_int_equal(act_run(&f, &acts[1]), STORE_COMMITTED);
    store_drop(f.store);
    f.store = NULL;
}

static void silent_rollback_hurts_no_other_rule(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int huge = 2; huge <= 4; huge++) {
            batch = i & 2 ? act_batch : NULL;
            silent_rollback_of_a_batch(i & 1, huge);
        }
    batch = NULL;
}

/* ---- power ---- */

static int cut_power_everywhere(unsigned ops)
{
    int broken = 0, fired = 1;
    for (int n = 1; fired; n++)
        for (enum power_loss loss = POWER_DROP; loss < POWER_LOSSES; loss++) {
            struct act acts[ACTS];
            fresh_database();
            fixture_open(&f);
            fault_arm(ops, n, FAULT_POWER, false);
            run_acts(acts);
            fired = fault_fired();
            store_drop(f.store);
            fault_power_restore(loss, (uint64_t)n);
            broken += check_acts(acts);
        }
    return broken;
}

static void power_cut_loses_nothing_acknowledged(void **state)
{
    (void)state;
    assert_int_equal(cut_power_everywhere(FAULT_SYNC | FAULT_WRITE), 0);
    fault_careless_disk(true);
    assert_int_equal(cut_power_everywhere(FAULT_SYNC | FAULT_WRITE), 0);
}

static void power_cut_while_checkpointing(void **state)
{
    (void)state;
    f.options.wal_bytes_max = 4 * 4120;
    assert_int_equal(cut_power_everywhere(FAULT_SYNC | FAULT_WRITE), 0);
}

/* The same with all threads: writers, the one that copies the log, and everything they overlap in.
 */
#define RUNNERS 4
#define RUNS    25

static void *runner_main(void *arg)
{
    struct act *acts = arg;
    for (int i = 0; i < RUNS; i++)
        act_run(&f, &acts[i]);
    return NULL;
}

static void power_cut_with_threads(void **state)
{
    (void)state;
    f.options.inline_mode = false;
    f.options.env = &f.real;
    f.options.wal_bytes_max = 100 * 4120;
    for (int n = 1; n < 300; n += 13) {
        static struct act acts[RUNNERS][RUNS];
        pthread_t threads[RUNNERS];
        fresh_database();
        fixture_open(&f);
        fault_arm(FAULT_SYNC | FAULT_WRITE, n, FAULT_POWER, false);
        for (int t = 0; t < RUNNERS; t++) {
            for (int i = 0; i < RUNS; i++)
                acts[t][i] = (struct act) { .id = 1 + t * RUNS + i, .pad = i * 500 };
            pthread_create(&threads[t], NULL, runner_main, acts[t]);
        }
        for (int t = 0; t < RUNNERS; t++)
            pthread_join(threads[t], NULL);
        fixture_close(&f);
        fault_power_restore((enum power_loss)(n % POWER_LOSSES), (uint64_t)n);
        fixture_open(&f);
        for (int t = 0; t < RUNNERS; t++)
            for (int i = 0; i < RUNS; i++) {
                int rows = rows_of(&f, acts[t][i].id);
                assert_true(rows == 2 || (rows == 0 && acts[t][i].outcome != STORE_COMMITTED));
                assert_true(rows == 0 || acts[t][i].outcome != STORE_BUSY);
            }
        fixture_close(&f);
        assert_sound();
    }
}

/* The suite itself is tested: without syncs it must find losses. */
static void suite_sees_a_missing_sync(void **state)
{
    (void)state;
    mutation_set(MUTATION_SYNC_OFF);
    int broken = cut_power_everywhere(FAULT_WRITE);
    mutation_set(MUTATION_NONE);
    assert_true(broken > 0);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(io_error_at_every_operation),
        STORE_TEST(disk_full_at_every_write),
        STORE_TEST(batch_rules_broken_at_every_operation),
        STORE_TEST(faults_while_checkpointing),
        STORE_TEST(failed_sync_stops_the_store),
        STORE_TEST(full_disk_refuses_until_there_is_room),
        STORE_TEST(silent_rollback_hurts_no_other_rule),
        STORE_TEST(power_cut_loses_nothing_acknowledged),
        STORE_TEST(power_cut_while_checkpointing),
        STORE_TEST(power_cut_with_threads),
        STORE_TEST(suite_sees_a_missing_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
