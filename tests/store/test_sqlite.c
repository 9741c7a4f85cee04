/* test_sqlite.c -- what is particular to the embedded engine: who owns the file, commands beside a
 * running server, the log, the inline mode of the simulator, and a COMMIT whose answer is lost. */
#include "fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fibre.h"
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

/* ---- one owner ---- */

static void second_owner_is_told_who_holds_it(void **state)
{
    (void)state;
    fixture_open(&f);
    struct store *other = NULL;
    struct err_info info = { 0 };
    char pid[32];
    snprintf(pid, sizeof pid, "process %d ", getpid());
    assert_int_equal(store_open(&f.options, &other, &info), ERR_CONFLICT);
    assert_null(other);
    assert_non_null(strstr(info.text, pid));
    assert_int_equal(store_migrate(&f.options, NULL, &info), ERR_CONFLICT);
    fixture_close(&f);
    fixture_open(&f); /* the lock went with its owner */
}

static void file_is_private(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(fixture_path(&f), &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
}

static void wrong_places_are_refused(void **state)
{
    (void)state;
    struct store *store;
    struct err_info info = { 0 };
    const char *urls[] = { "", "sqlite", "sqlite:", "oracle:/x", "sqlite:/nowhere/at/all.db" };
    enum err errors[] = { ERR_INVALID, ERR_INVALID, ERR_INVALID, ERR_INVALID, ERR_IO };
    for (size_t i = 0; i < 5; i++) {
        f.options.url = str_of(urls[i]);
        assert_int_equal(store_open(&f.options, &store, &info), errors[i]);
    }
}

static void *second_writer_main(void *arg)
{
    struct fixture g = f;
    struct err_info info = { 0 };
    g.options.second_writer = true;
    if (store_open(&g.options, &g.store, &info))
        return NULL;
    for (int i = 0; i < 50; i++) {
        struct act act = { .id = 5000 + i };
        if (act_run(&g, &act) != STORE_COMMITTED)
            return NULL;
    }
    struct act refused = { .id = 6000, .end = ACT_REFUSE_LAST }, submitted = { .id = 6001 };
    if (act_run(&g, &refused) != STORE_REFUSED)
        return NULL;
    act_submit(&g, &submitted);
    if (submitted.outcome != STORE_COMMITTED || rows_of(&g, 6001) != 2)
        return NULL;
    store_close(g.store);
    return arg;
}

static void commands_write_beside_a_server(void **state)
{
    (void)state;
    fixture_open(&f);
    pthread_t thread;
    void *good;
    pthread_create(&thread, NULL, second_writer_main, &f);
    for (int i = 0; i < 200; i++) {
        struct act act = { .id = i + 1 };
        assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    }
    pthread_join(thread, &good);
    assert_non_null(good);
    assert_int_equal(rows_in_all(&f), 2 * (200 + 51));
}

/* Each of these is alone when it is committed; the next batch does not begin at once. */
static void callbacks_wait_for_company(void **state)
{
    (void)state;
    fixture_open(&f);
    int64_t start = env_mono_us(f.options.env);
    for (int i = 1; i <= 20; i++) {
        struct act act = { .id = i, .job.class = STORE_CALLBACK };
        assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    }
    assert_true(env_mono_us(f.options.env) - start >= 19 * 2000);
    assert_int_equal(rows_in_all(&f), 2 * 20);
}

/* ---- the log ---- */

static int64_t log_bytes(void)
{
    char name[160];
    struct stat st;
    snprintf(name, sizeof name, "%s-wal", fixture_path(&f));
    return stat(name, &st) == 0 ? st.st_size : 0;
}

static void write_mb(int first, int mb)
{
    for (int i = 0; i < mb; i++) {
        struct act acts[8];
        for (int k = 0; k < 8; k++) {
            acts[k] = (struct act) { .id = first + i * 8 + k, .pad = 128 << 10 };
            act_submit(&f, &acts[k]);
        }
        for (int k = 0; k < 8; k++)
            act_wait(&acts[k]);
    }
}

static int64_t log_frames(void)
{
    struct store_stats stats;
    store_stats(f.store, &stats);
    return stats.wal_frames;
}

/* By the thread that copies and the writer's last bit; the limit is far. */
static void log_starts_again_without_stopping_writers(void **state)
{
    (void)state;
    fixture_open(&f);
    write_mb(1, 28);
    assert_true(log_frames() > 12000);
    int64_t id = 1000;
    while (log_frames() > 12000 && id < 100000) {
        struct act act = { .id = id++, .job.class = STORE_API };
        assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    }
    assert_true(log_frames() < 12000);
}

/* Many short waits instead of one long one. */
static void writer_makes_room_the_nearer_the_limit(void **state)
{
    (void)state;
    assert_int_equal(store_log_rest_us(0, 32000), 0);
    assert_int_equal(store_log_rest_us(25600, 32000), 0);
    assert_in_range(store_log_rest_us(27200, 32000), 4000, 6000);
    assert_in_range(store_log_rest_us(31990, 32000), 19000, 20000);
    assert_int_equal(store_log_rest_us(90000, 32000), 20000);
    for (int64_t limit = 1; limit < 200; limit++)
        for (int64_t frames = 0; frames < 300; frames++)
            assert_in_range(store_log_rest_us(frames, limit), 0, 20000);
}

static void log_keeps_its_limit(void **state)
{
    (void)state;
    f.options.wal_bytes_max = 8 << 20;
    fixture_open(&f);
    write_mb(1, 48);
    assert_in_range(log_bytes(), 1 << 20, 11 << 20); /* the last batches come on top */
    assert_int_equal(rows_in_all(&f), 2 * 48 * 8);
}

/* A snapshot that stays pins the log; afterwards it is soon small again. */
static void log_recovers_from_a_long_reader(void **state)
{
    (void)state;
    f.options.wal_bytes_max = 4 << 20;
    fixture_open(&f);
    store_reads_begin(f.store);
    assert_int_equal(rows_in_all(&f), 0);
    write_mb(1, 8);
    assert_true(log_bytes() > 8 << 20);
    assert_int_equal(rows_in_all(&f), 0);
    store_reads_end(f.store);
    write_mb(1000, 3);
    store_drain(f.store); /* the figure is taken after the outcomes were told */
    assert_true(log_frames() * (2048 + 24) < 4 << 20);
}

static void closing_leaves_one_file(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act act = { .id = 1 };
    assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    assert_true(log_bytes() > 0);
    fixture_close(&f);
    assert_int_equal(log_bytes(), 0);
}

/* ---- inline ---- */

static void inline_jobs_wait_for_their_turn(void **state)
{
    (void)state;
    f.options.inline_mode = true;
    fixture_open(&f);
    struct act acts[5], direct = { .id = 100 };
    for (int i = 0; i < 5; i++) {
        acts[i] = (struct act) { .id = i + 1, .job.class = (enum store_class)(i % 3) };
        act_submit(&f, &acts[i]);
    }
    assert_int_equal(store_waiting(f.store), 5);
    assert_int_equal(act_run(&f, &direct), STORE_COMMITTED); /* outside a fibre: at once, alone */
    assert_int_equal(acts[0].told, 0);
    assert_int_equal(store_turn(f.store, 2), 2);
    assert_int_equal(acts[1].told, 1);
    assert_int_equal(acts[2].told, 0); /* in order, whatever the class */
    assert_int_equal(store_turn(f.store, 100), 3);
    assert_int_equal(store_turn(f.store, 100), 0);
    assert_int_equal(rows_in_all(&f), 12);
}

static void yielding(struct env *env, enum env_effect effect)
{
    (void)env;
    (void)effect;
    if (fibre_current())
        fibre_yield();
}

static void run_in_fibre(void *arg)
{
    struct act *act = arg;
    act_run(&f, act);
    act->told = 1;
}

static void inline_runs_yield_until_the_scheduler_turns(void **state)
{
    (void)state;
    struct env_ops ops = *f.real.ops;
    ops.effect = yielding;
    f.real.ops = &ops;
    f.options.inline_mode = true;
    fixture_open(&f);
    struct act one = { .id = 1 }, two = { .id = 2, .end = ACT_REFUSE_LAST };
    struct fibre *a = fibre_new(run_in_fibre, &one, 256 << 10),
                 *b = fibre_new(run_in_fibre, &two, 256 << 10);
    for (int i = 0; i < 4; i++) {
        assert_true(fibre_resume(a));
        assert_true(fibre_resume(b));
    }
    assert_int_equal(store_waiting(f.store), 2);
    assert_int_equal(one.tries, 0);
    while (store_waiting(f.store) > 0)
        store_turn(f.store, 10); /* one transaction for both fibres */
    while (fibre_resume(a))
        ;
    while (fibre_resume(b))
        ;
    assert_int_equal(one.outcome, STORE_COMMITTED);
    assert_int_equal(two.outcome, STORE_REFUSED);
    fibre_free(a);
    fibre_free(b);

    /* A process that dies with a rule in the queue. */
    struct act three = { .id = 3 };
    a = fibre_new(run_in_fibre, &three, 256 << 10);
    fibre_resume(a);
    fibre_resume(a);
    assert_int_equal(store_waiting(f.store), 1);
    fibre_free(a);
    store_drop(f.store);
    fixture_open(&f);
    assert_int_equal(rows_of(&f, 1), 2);
    assert_int_equal(rows_of(&f, 3), 0);
    fixture_close(&f);
}

/* ---- a lost COMMIT answer ---- */

static struct store_driver lossy;
static int answers_to_lose;

static enum err commit_and_lose_the_answer(struct conn *c, struct err_info *info)
{
    enum err e = sqlite_driver.commit(c, info);
    if (!e && answers_to_lose > 0) {
        answers_to_lose--;
        return err_set(info, ERR_UNKNOWN, "the answer was lost");
    }
    return e;
}

static void open_lossy(bool settles, int lost)
{
    lossy = sqlite_driver;
    lossy.commit = commit_and_lose_the_answer;
    lossy.settles_unknown = settles;
    f.options.driver = &lossy;
    fixture_open(&f);
    answers_to_lose = lost;
}

static void lost_answer_is_settled_by_running_again(void **state)
{
    (void)state;
    open_lossy(true, 2);
    struct act act = { .id = 1 };
    assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    assert_int_equal(act.tries, 3);
    assert_true(act.exists); /* its own row */
    assert_int_equal(rows_of(&f, 1), 2);
    assert_false(store_failed(f.store));

    answers_to_lose = 100;
    struct act hopeless = { .id = 2 };
    assert_int_equal(act_run(&f, &hopeless), STORE_UNKNOWN);
    assert_int_equal(hopeless.tries, 4);
    answers_to_lose = 0;
}

static void lost_answer_stops_a_file_store(void **state)
{
    (void)state;
    open_lossy(false, 1);
    struct act act = { .id = 1 }, next = { .id = 2 };
    assert_int_equal(act_run(&f, &act), STORE_UNKNOWN);
    assert_int_equal(act.tries, 1);
    assert_true(store_failed(f.store));
    assert_int_equal(act_run(&f, &next), STORE_BUSY);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(rows_of(&f, 1), 2);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(second_owner_is_told_who_holds_it),
        STORE_TEST(file_is_private),
        STORE_TEST(wrong_places_are_refused),
        STORE_TEST(commands_write_beside_a_server),
        STORE_TEST(callbacks_wait_for_company),
        STORE_TEST(log_starts_again_without_stopping_writers),
        STORE_TEST(writer_makes_room_the_nearer_the_limit),
        STORE_TEST(log_keeps_its_limit),
        STORE_TEST(log_recovers_from_a_long_reader),
        STORE_TEST(closing_leaves_one_file),
        STORE_TEST(inline_jobs_wait_for_their_turn),
        STORE_TEST(inline_runs_yield_until_the_scheduler_turns),
        STORE_TEST(lost_answer_is_settled_by_running_again),
        STORE_TEST(lost_answer_stops_a_file_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
