/* The disk that is memory, and the staging of a simulated database: what the power takes along,
 * what a copy shares, commits without an answer, rows that were written. */
#include "../unit/check.h"

#include "store/store.h"

#include "base/killpoint.h"
#include "base/rand.h"

struct stage {
    struct env_test env;
    struct mint *mint;
    struct store_staging staging;
    struct store_options options;
    enum commit_fate next;
    int64_t rows_seen;
    struct store *store;
};

static enum commit_fate fate(void *ctx)
{
    struct stage *t = ctx;
    enum commit_fate now = t->next;
    t->next = COMMIT_ANSWERED;
    return now;
}

static void on_row(void *ctx, const char *table, int64_t id)
{
    struct stage *t = ctx;
    t->rows_seen += strcmp(table, "thing") == 0 && id > 0;
}

static const struct migration schema[] = {
    { "0001-thing", "CREATE TABLE thing (id {id}, text {blob}) {table_end};" },
    { NULL, NULL },
};
SQL(insert_thing, "INSERT INTO thing (id, text) VALUES (?, ?)");
SQL(count_things, "SELECT count(*) FROM thing");

static void open_store(struct stage *t)
{
    struct err_info info = { 0 };
    assert_int_equal(store_open(&t->options, &t->store, &info), ERR_OK);
}

static void stage_open(struct stage *t, bool server)
{
    struct err_info info = { 0 };
    int applied;
    *t = (struct stage) { .next = COMMIT_ANSWERED };
    env_init_test(&t->env, 1780000000000LL, 1);
    t->staging = (struct store_staging) { .ctx = t,
                                          .disk = store_disk_new(NULL),
                                          .commit = fate,
                                          .settles_unknown = server,
                                          .on_row = on_row };
    t->options = (struct store_options) { .url = STR("sqlite:db"),
                                          .env = &t->env.env,
                                          .inline_mode = true,
                                          .migrations = schema,
                                          .staging = &t->staging };
    assert_int_equal(store_migrate(&t->options, &applied, &info), ERR_OK);
    open_store(t);
}

static void stage_close(struct stage *t)
{
    store_drop(t->store);
    store_disk_free(t->staging.disk);
}

static enum err insert_rule(struct tx *tx, void *arg, struct err_info *info)
{
    char bytes[3000] = "";
    enum err e =
        tx_exec(tx, &insert_thing,
                BINDS(bind_int(*(int64_t *)arg), bind_blob((struct str) { bytes, sizeof bytes })),
                NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

static enum store_outcome insert(struct stage *t, int64_t id)
{
    struct store_job job;
    store_job_init(&job, &t->env.env, NULL, 0);
    job.name = "insert";
    job.rule = insert_rule;
    job.arg = &id;
    return store_run(t->store, &job, NULL);
}

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return tx_select_int(tx, &count_things, NO_BINDS, arg, info);
}

static int64_t count(struct stage *t)
{
    int64_t n = -1;
    struct err_info info = { 0 };
    assert_int_equal(store_read(t->store, 0, "count", count_rule, &n, &info), ERR_OK);
    return n;
}

static void cut_power(struct stage *t)
{
    store_drop(t->store);
    store_disk_cut_power(t->staging.disk);
    open_store(t);
}

static void what_was_committed_survives_the_power(void **state)
{
    struct stage t;
    (void)state;
    stage_open(&t, false);
    for (int64_t id = 1; id <= 50; id++) {
        assert_int_equal(insert(&t, id), STORE_COMMITTED);
        if (id % 7 == 0)
            cut_power(&t);
        assert_int_equal(count(&t), id);
    }
    stage_close(&t);
}

/* Enough for several passes of the log over its own beginning, and checkpoints between them. */
static void also_across_checkpoints(void **state)
{
    struct stage t;
    struct rand rand;
    (void)state;
    rand_seed(&rand, 1);
    stage_open(&t, false);
    store_drop(t.store);
    t.options.wal_bytes_max = 100000;
    open_store(&t);
    for (int64_t id = 1; id <= 600; id++) {
        assert_int_equal(insert(&t, id), STORE_COMMITTED);
        if (rand_below(&rand, 40) == 0)
            cut_power(&t);
    }
    cut_power(&t);
    assert_int_equal(count(&t), 600);
    stage_close(&t);
}

static void without_syncs_the_power_takes_it(void **state)
{
    struct stage t;
    (void)state;
    mutation_set(MUTATION_SYNC_OFF);
    stage_open(&t, false);
    assert_int_equal(insert(&t, 1), STORE_COMMITTED);
    assert_int_equal(count(&t), 1);
    store_drop(t.store);
    store_disk_cut_power(t.staging.disk);
    struct err_info info = { 0 };
    assert_true(store_open(&t.options, &t.store, &info) != ERR_OK || count(&t) == 0);
    mutation_set(MUTATION_NONE);
    if (t.store && !info.err)
        store_drop(t.store);
    store_disk_free(t.staging.disk);
}

static void a_copy_is_a_disk_of_its_own(void **state)
{
    struct stage t, copy;
    (void)state;
    stage_open(&t, false);
    assert_int_equal(insert(&t, 1), STORE_COMMITTED);
    copy = t;
    copy.staging.ctx = &copy;
    copy.staging.disk = store_disk_new(t.staging.disk);
    copy.options.staging = &copy.staging;
    open_store(&copy);
    assert_int_equal(insert(&copy, 2), STORE_COMMITTED);
    assert_int_equal(count(&copy), 2);
    assert_int_equal(count(&t), 1);
    stage_close(&copy);
    stage_close(&t);
}

/* Two stores on one disk, as two nodes on one database. */
static void two_stores_see_each_other(void **state)
{
    struct stage t, other;
    (void)state;
    stage_open(&t, false);
    other = t;
    open_store(&other);
    for (int64_t id = 1; id <= 20; id++) {
        assert_int_equal(insert(id % 2 ? &t : &other, id), STORE_COMMITTED);
        assert_int_equal(count(id % 2 ? &other : &t), id);
    }
    store_drop(other.store);
    stage_close(&t);
}

static void a_commit_without_an_answer(void **state)
{
    static const struct {
        const char *name;
        enum commit_fate fate;
        bool server;
        enum store_outcome outcome;
        int64_t there;
    } rows[] = {
        { "unheard, file", COMMIT_UNHEARD, false, STORE_UNKNOWN, 1 },
        { "lost, file", COMMIT_LOST, false, STORE_UNKNOWN, 0 },
        { "unheard, server", COMMIT_UNHEARD, true, STORE_COMMITTED, 1 },
        { "lost, server", COMMIT_LOST, true, STORE_COMMITTED, 1 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct stage t;
        stage_open(&t, rows[i].server);
        t.next = rows[i].fate;
        check_row(insert(&t, 1) == rows[i].outcome, rows[i].name);
        check_row(store_failed(t.store) == !rows[i].server, rows[i].name);
        check_row(count(&t) == rows[i].there, rows[i].name);
        stage_close(&t);
    }
}

static void rows_that_were_written_are_told(void **state)
{
    struct stage t;
    (void)state;
    stage_open(&t, false);
    insert(&t, 1);
    insert(&t, 2);
    assert_int_equal(t.rows_seen, 2);
    insert(&t, 2);
    assert_int_equal(t.rows_seen, 2);
    stage_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_committed_survives_the_power),
        cmocka_unit_test(also_across_checkpoints),
        cmocka_unit_test(without_syncs_the_power_takes_it),
        cmocka_unit_test(a_copy_is_a_disk_of_its_own),
        cmocka_unit_test(two_stores_see_each_other),
        cmocka_unit_test(a_commit_without_an_answer),
        cmocka_unit_test(rows_that_were_written_are_told),
    };
    return RUN_TESTS(tests);
}
