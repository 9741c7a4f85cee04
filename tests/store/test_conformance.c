/* test_conformance.c -- what every engine behind store.h must do. Uses store.h alone. */
#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metrics.h"
#include "store/due.h"
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

/* ---- reading and writing ---- */

SQL(insert_counter, "INSERT INTO counter (id, amount, name, version) VALUES (?, ?, ?, ?)");
SQL(find_counter, "SELECT amount, name, version FROM counter WHERE id = ?");
SQL(all_counters, "SELECT id FROM counter ORDER BY id");
SQL(move_counter,
    "UPDATE counter SET amount = amount + ?, version = version + 1 WHERE id = ? AND version = ?");
SQL(insert_a, "INSERT INTO pair_a (id, body) VALUES (?, ?)");
SQL(find_a, "SELECT body FROM pair_a WHERE id = ?");

struct counter {
    int64_t id, amount, version;
    struct str name;
    bool found, null_name;
    char name_copy[16];
};

static enum err counter_insert(struct tx *tx, void *arg, struct err_info *info)
{
    const struct counter *c = arg;
    return tx_exec(
        tx, &insert_counter,
        BINDS(bind_int(c->id), bind_int(c->amount), bind_text(c->name), bind_int(c->version)), NULL,
        info);
}

static enum err counter_find(struct tx *tx, void *arg, struct err_info *info)
{
    struct counter *c = arg;
    struct query *q = tx_select(tx, &find_counter, BINDS(bind_int(c->id)));
    c->found = query_row(q);
    if (!c->found)
        return query_end(q, info);
    struct str name = col_text(q, 1);
    c->amount = col_int(q, 0);
    c->version = col_int(q, 2);
    c->null_name = col_is_null(q, 1) && name.p == NULL;
    snprintf(c->name_copy, sizeof c->name_copy, STR_FMT, STR_ARG(name));
    return query_end(q, info);
}

static enum err counter_move(struct tx *tx, void *arg, struct err_info *info)
{
    struct counter *c = arg;
    struct binds binds = BINDS(bind_int(c->amount), bind_int(c->id), bind_int(c->version));
    enum err e = tx_exec_one(tx, &move_counter, binds, "moved before", info);
    c->found = e == ERR_OK;
    if (e == ERR_RETRY)
        assert_string_equal(info->text, "moved before");
    return e == ERR_RETRY ? ERR_OK : e;
}

SQL(move_all, "UPDATE counter SET amount = amount + ?");

static enum err move_all_rule(struct tx *tx, void *arg, struct err_info *info)
{
    int64_t *changed = arg;
    enum err e = tx_exec(tx, &move_all, BINDS(bind_int(0)), changed, info);
    if (e)
        return e;
    assert_int_equal(tx_exec_one(tx, &move_all, BINDS(bind_int(0)), "", info), ERR_RETRY);
    return ERR_OK;
}

static enum store_outcome run(store_rule *rule, void *arg, struct err_info *info)
{
    struct store_job job;
    store_job_init(&job, &f.real, f.mint, 0);
    job.name = "test";
    job.class = STORE_API;
    job.rule = rule;
    job.arg = arg;
    return store_run(f.store, &job, info);
}

static void compare_and_set(void **state)
{
    (void)state;
    fixture_open(&f);
    struct err_info info = { 0 };
    struct counter c = { .id = 5, .amount = -3, .name = STR("") };
    assert_int_equal(run(counter_insert, &c, &info), STORE_COMMITTED);
    struct counter move = { .id = 5, .amount = 10, .version = 0 };
    assert_int_equal(run(counter_move, &move, &info), STORE_COMMITTED);
    assert_true(move.found);
    assert_int_equal(run(counter_move, &move, &info), STORE_COMMITTED);
    assert_false(move.found);

    struct counter found = { .id = 5 }, none = { .id = 6 };
    assert_int_equal(store_read(f.store, 0, "find", counter_find, &found, &info), ERR_OK);
    assert_true(found.found);
    assert_int_equal(found.amount, 7);
    assert_int_equal(found.version, 1);
    assert_false(found.null_name);
    assert_int_equal(store_read(f.store, 0, "find", counter_find, &none, &info), ERR_OK);
    assert_false(none.found);

    int64_t changed;
    c.id = 6;
    assert_int_equal(run(counter_insert, &c, &info), STORE_COMMITTED);
    assert_int_equal(run(move_all_rule, &changed, &info), STORE_COMMITTED);
    assert_int_equal(changed, 2);
}

DUE_TABLE(tick);
SQL(tick_create, "CREATE TABLE tick (due INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (due, "
                 "id))");
SQL(tick_due, "SELECT due FROM tick WHERE id = ?");

static enum err tick_rule(struct tx *tx, void *arg, struct err_info *info)
{
    int64_t *due = arg;
    enum err e = tx_exec(tx, &tick_create, NO_BINDS, NULL, info);
    for (int i = 0; i < 2 && !e; i++)
        e = due_insert(tx, &tick, 500, 7, info);
    if (!e)
        e = due_insert(tx, &tick, 600, 7, info);
    if (!e)
        e = due_delete(tx, &tick, 500, 7, info);
    return e ? e : tx_select_int(tx, &tick_due, BINDS(bind_int(7)), due, info);
}

static void due_rows_are_there_once(void **state)
{
    (void)state;
    fixture_open(&f);
    int64_t due = 0;
    assert_int_equal(run(tick_rule, &due, NULL), STORE_COMMITTED);
    assert_int_equal(due, 600);
}

static void null_is_not_empty(void **state)
{
    (void)state;
    fixture_open(&f);
    struct counter c = { .id = 1, .name = STR_NONE }, d = { .id = 2, .name = STR("名字") };
    run(counter_insert, &c, NULL);
    run(counter_insert, &d, NULL);
    assert_int_equal(store_read(f.store, 0, "find", counter_find, &c, NULL), ERR_OK);
    assert_int_equal(store_read(f.store, 0, "find", counter_find, &d, NULL), ERR_OK);
    assert_true(c.null_name);
    assert_false(d.null_name);
    assert_string_equal(d.name_copy, "名字");
}

/* The schema's own bounds: our mistakes, so ERR_INTERNAL, and nothing is kept. */
static void bounds_of_types_hold(void **state)
{
    (void)state;
    fixture_open(&f);
    struct err_info info = { 0 };
    struct counter edge = { .id = 1, .amount = 10000000000000, .name = STR("12345678") };
    struct counter rich = { .id = 2, .amount = 10000000000001, .name = STR("") };
    struct counter wide = { .id = 3, .name = STR("123456789") };
    assert_int_equal(run(counter_insert, &edge, &info), STORE_COMMITTED);
    assert_int_equal(run(counter_insert, &rich, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_INTERNAL);
    assert_int_equal(run(counter_insert, &wide, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_INTERNAL);
}

static enum err blob_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct str *body = arg;
    enum err e = tx_exec(tx, &insert_a, BINDS(bind_int(1), bind_blob(*body)), NULL, info);
    if (e)
        return e;
    struct query *q = tx_select(tx, &find_a, BINDS(bind_int(1)));
    assert_true(query_row(q));
    assert_true(str_eq(col_blob(q, 0), *body));
    return ERR_OK; /* left open on purpose: the runner resets it */
}

static void bytes_survive(void **state)
{
    (void)state;
    fixture_open(&f);
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    struct str body = { bytes, sizeof bytes };
    assert_int_equal(run(blob_rule, &body, NULL), STORE_COMMITTED);
}

/* ---- mistakes of a rule ---- */

static enum err nested_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    query_row(tx_select(tx, &all_counters, NO_BINDS));
    struct query *inner = tx_select(tx, &all_counters, NO_BINDS);
    return query_row(inner) ? ERR_OK : query_end(inner, info);
}

static enum err unbound_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    return tx_exec(tx, &move_counter, BINDS(bind_int(1)), NULL, info);
}

static enum err overbound_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    struct query *q = tx_select(tx, &find_counter, BINDS(bind_int(1), bind_int(2)));
    return query_row(q) ? ERR_OK : query_end(q, info);
}

static enum err wrong_sql_rule(struct tx *tx, void *arg, struct err_info *info)
{
    SQL(wrong, "SELECT nothing FROM nowhere");
    (void)arg;
    (void)info;
    query_row(tx_select(tx, &wrong, NO_BINDS));
    return ERR_OK; /* swallowing it does not help */
}

static enum err out_of_ids_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    return tx_new_id(tx) == 0 ? err_internal(info, "no more ids") : ERR_OK;
}

static void mistakes_are_internal_errors(void **state)
{
    (void)state;
    fixture_open(&f);
    struct counter c = { .id = 1, .name = STR("") };
    run(counter_insert, &c, NULL);
    store_rule *rules[] = { nested_rule, unbound_rule, overbound_rule, wrong_sql_rule,
                            out_of_ids_rule };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct err_info info = { 0 };
        assert_int_equal(run(rules[i], NULL, &info), STORE_REFUSED);
        assert_int_equal(info.err, ERR_INTERNAL);
        assert_true(info.text[0] != '\0');
    }
    struct act act = { .id = 1 };
    assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
}

static void reads_do_not_write(void **state)
{
    (void)state;
    fixture_open(&f);
    struct counter c = { .id = 1, .name = STR("") };
    assert_int_equal(store_read(f.store, 0, "write", counter_insert, &c, NULL), ERR_INTERNAL);
    assert_int_equal(store_read(f.store, 0, "ids", out_of_ids_rule, &c, NULL), ERR_INTERNAL);
    assert_int_equal(store_read(f.store, 0, "find", counter_find, &c, NULL), ERR_OK);
    assert_false(c.found);
}

static void reads_share_a_snapshot(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act act = { .id = 1 };
    store_reads_begin(f.store);
    assert_int_equal(rows_of(&f, 1), 0);
    assert_int_equal(act_run(&f, &act), STORE_COMMITTED);
    assert_int_equal(rows_of(&f, 1), 0);
    store_reads_end(f.store);
    assert_int_equal(rows_of(&f, 1), 2);
}

/* ---- trying again ---- */

static void soft_conflicts_are_tried_again(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act first = { .id = 1, .end = ACT_RETRY_FIRST, .until_try = 8 };
    struct act last = { .id = 2, .end = ACT_RETRY_LAST, .until_try = 3 };
    struct act never = { .id = 3, .end = ACT_RETRY_LAST };
    assert_int_equal(act_run(&f, &first), STORE_COMMITTED);
    assert_int_equal(act_run(&f, &last), STORE_COMMITTED);
    assert_int_equal(last.tries, 3);
    assert_int_equal(act_run(&f, &never), STORE_BUSY);
    assert_int_equal(never.tries, 8);
    assert_int_equal(never.job.info.err, ERR_RETRY);
    assert_int_equal(rows_in_all(&f), 4);
}

struct ids {
    int64_t seen[2][2], now[2];
    int tries;
};

static enum err ids_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct ids *ids = arg;
    int t = ids->tries++;
    ids->seen[t][0] = tx_new_id(tx);
    ids->seen[t][1] = tx_new_id(tx);
    ids->now[t] = tx_now_ms(tx);
    assert_int_equal(tx_new_id(tx), 0);
    return t == 0 ? err_set(info, ERR_RETRY, "once more") : ERR_OK;
}

static void tries_see_the_same_ids_and_time(void **state)
{
    (void)state;
    fixture_open(&f);
    struct ids ids = { 0 };
    struct store_job job;
    store_job_init(&job, &f.real, f.mint, 2);
    job.name = "ids";
    job.rule = ids_rule;
    job.arg = &ids;
    assert_int_equal(store_run(f.store, &job, NULL), STORE_COMMITTED);
    assert_int_equal(ids.tries, 2);
    assert_true(ids.seen[0][0] > 0);
    assert_int_equal(ids.seen[0][1], ids.seen[0][0] + 1);
    assert_memory_equal(ids.seen[0], ids.seen[1], sizeof ids.seen[0]);
    assert_int_equal(ids.now[0], ids.now[1]);
}

/* ---- many at once ---- */

/* Holds the writer until opened, so that a test decides what waits behind it. */
struct gate {
    struct act act;
    sem_t entered, open;
};

static enum err gate_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)tx;
    (void)info;
    struct gate *g = arg;
    sem_post(&g->entered);
    sem_wait(&g->open);
    return ERR_OK;
}

static void gate_done(struct store_job *job, enum store_outcome outcome,
                      const struct err_info *info)
{
    (void)outcome;
    (void)info;
    ((struct gate *)job->arg)->act.told++;
}

static void gate_close(struct gate *g)
{
    sem_init(&g->entered, 0, 0);
    sem_init(&g->open, 0, 0);
    struct store_job *job = &g->act.job;
    g->act.told = 0;
    store_job_init(job, &f.real, f.mint, 0);
    job->name = "gate";
    job->rule = gate_rule;
    job->arg = g;
    job->done = gate_done;
    assert_true(store_reserve(f.store, job));
    store_submit(f.store, job);
    sem_wait(&g->entered);
}

static void gate_open(struct gate *g)
{
    sem_post(&g->open);
    act_wait(&g->act);
    sem_destroy(&g->entered);
    sem_destroy(&g->open);
}

#define CROWD 60

/* Two failing rules of each kind among good ones, in one batch. */
static void one_failing_rule_hurts_no_other(bool savepoints)
{
    f.options.savepoints = savepoints;
    fixture_open(&f);
    struct act acts[CROWD];
    struct gate gate;
    gate_close(&gate);
    for (int i = 0; i < CROWD; i++) {
        acts[i] = (struct act) { .id = i + 1 };
        if (i % 20 == 7)
            acts[i].end = ACT_REFUSE_FIRST;
        if (i % 20 == 11)
            acts[i].end = ACT_REFUSE_LAST;
        if (i % 20 == 13)
            acts[i].id = 1; /* taken within this batch */
        act_submit(&f, &acts[i]);
    }
    gate_open(&gate);
    for (int i = 0; i < CROWD; i++) {
        act_wait(&acts[i]);
        bool refused = acts[i].end != ACT_OK;
        assert_int_equal(acts[i].outcome, refused ? STORE_REFUSED : STORE_COMMITTED);
        assert_int_equal(rows_of(&f, acts[i].id), refused ? 0 : 2);
        assert_int_equal(acts[i].exists, !refused && acts[i].id == 1 && i > 0);
        if (savepoints)
            assert_int_equal(acts[i].tries, 1);
        else
            assert_true(acts[i].tries <= 3); /* run again once for all failing ones */
    }
}

static void failing_rules_among_others(void **state)
{
    (void)state;
    one_failing_rule_hurts_no_other(false);
}

static void failing_rules_among_others_with_savepoints(void **state)
{
    (void)state;
    one_failing_rule_hurts_no_other(true);
}

/* Neighbours are one call, at most 64; one that fails or meets a taken key has its own outcome, and
 * so have all the others. */
static void calls_for_many(bool savepoints)
{
    enum { MANY = 200, APART = 100 };
    f.options.savepoints = savepoints;
    f.options.env = &f.test.env; /* a batch of slow rules would be shorter */
    fixture_open(&f);
    struct act acts[MANY], taken = { .id = 1031 };
    struct gate gate;
    int most = 0, together = 0;
    assert_int_equal(act_run(&f, &taken), STORE_COMMITTED);
    gate_close(&gate);
    for (int i = 0; i < MANY; i++) {
        acts[i] = (struct act) { .id = 1001 + i, .job.batch = act_batch, .right_item = true };
        if (i == APART)
            acts[i].job.batch = NULL;
        if (i == 7)
            acts[i].end = ACT_REFUSE_LAST;
        if (i == 77)
            acts[i].end = ACT_REFUSE_FIRST;
        if (i == 190) {
            acts[i].end = ACT_RETRY_LAST;
            acts[i].until_try = 3;
        }
        act_submit(&f, &acts[i]);
        acts[i].job.now_ms += i;
    }
    gate_open(&gate);
    for (int i = 0; i < MANY; i++) {
        act_wait(&acts[i]);
        bool refused = i == 7 || i == 77;
        assert_int_equal(acts[i].outcome, refused ? STORE_REFUSED : STORE_COMMITTED);
        assert_int_equal(rows_of(&f, acts[i].id), refused ? 0 : 2);
        assert_int_equal(acts[i].exists, i == 30);
        assert_true(acts[i].right_item);
        if (refused || i == 30 || i == APART)
            assert_true(acts[i].together <= 1);
        most = (int)acts[i].together > most ? (int)acts[i].together : most;
        together += acts[i].together > 1;
    }
    assert_int_equal(most, 64);
    assert_true(together > MANY * 3 / 4);
}

static void a_batch_rule_takes_many(void **state)
{
    (void)state;
    calls_for_many(false);
}

static void a_batch_rule_takes_many_with_savepoints(void **state)
{
    (void)state;
    calls_for_many(true);
}

static void queue_is_bounded(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    fixture_open(&f);
    struct act *acts = calloc(MANY, sizeof *acts);
    struct gate gate;
    int callbacks = 0, accepted = 0;
    gate_close(&gate);
    for (int i = 0; i < MANY; i++) {
        acts[i] = (struct act) { .id = i + 1,
                                 .job.class = i < MANY / 2 + 1000 ? STORE_CALLBACK : STORE_API };
        act_try_submit(&f, &acts[i]);
        accepted += acts[i].accepted;
        if (i == MANY / 2 + 999)
            callbacks = accepted;
    }
    assert_int_equal(callbacks + 1, 3072); /* three quarters for one class */
    assert_int_equal(accepted + 1, 4096);
    struct store_stats stats;
    store_stats(f.store, &stats);
    assert_int_equal(stats.queue[STORE_CALLBACK], callbacks);
    struct act late = { .id = MANY + 1 };
    assert_int_equal(act_run(&f, &late), STORE_BUSY);
    gate_open(&gate);
    for (int i = 0; i < MANY; i++)
        if (acts[i].accepted)
            act_wait(&acts[i]);
    assert_int_equal(rows_in_all(&f), 2 * accepted);
    assert_int_equal(act_run(&f, &late), STORE_COMMITTED);
    free(acts);
}

/* ---- classes ---- */

struct timed {
    struct store_job job;
    int cost_ms;
};
static _Atomic int class_told[STORE_CLASSES];
static int told_when_callbacks_ended[STORE_CLASSES];

static enum err timed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)tx;
    (void)info;
    env_test_advance(&f.test, ((struct timed *)arg)->cost_ms);
    return ERR_OK;
}

static void timed_done(struct store_job *job, enum store_outcome outcome,
                       const struct err_info *info)
{
    (void)outcome;
    (void)info;
    if (++class_told[job->class] == 600 && job->class == STORE_CALLBACK)
        for (int c = 0; c < STORE_CLASSES; c++)
            told_when_callbacks_ended[c] = class_told[c];
}

/* 600 ms of callbacks leave 300 ms to the API and 150 ms to the rest: 150 rules of 2 ms, 37 of 4
 * ms. */
static void classes_share_the_writers_time(void **state)
{
    (void)state;
    enum { EACH = 600 };
    static struct timed jobs[STORE_CLASSES][EACH];
    f.options.env = &f.test.env;
    fixture_open(&f);
    struct gate gate;
    gate_close(&gate);
    for (int c = 0; c < STORE_CLASSES; c++) {
        class_told[c] = 0;
        for (int i = 0; i < EACH; i++) {
            struct timed *t = &jobs[c][i];
            store_job_init(&t->job, &f.test.env, NULL, 0);
            t->cost_ms = 1 << c;
            t->job.name = "timed";
            t->job.class = (enum store_class)c;
            t->job.rule = timed_rule;
            t->job.arg = t;
            t->job.done = timed_done;
            assert_true(store_reserve(f.store, &t->job));
            store_submit(f.store, &t->job);
        }
    }
    gate_open(&gate);
    store_drain(f.store);
    assert_int_equal(class_told[STORE_BACKGROUND], EACH);
    assert_in_range(told_when_callbacks_ended[STORE_API], 120, 190);
    assert_in_range(told_when_callbacks_ended[STORE_BACKGROUND], 25, 55);
}

static void slow_rules_are_counted_by_name(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_new(metrics_table, metrics_table_count);
    f.test.env.metrics = metrics;
    f.options.env = &f.test.env;
    fixture_open(&f);
    struct timed quick = { .cost_ms = 5 }, slow = { .cost_ms = 6 };
    for (int i = 0; i < 2; i++) {
        struct timed *t = i ? &slow : &quick;
        store_job_init(&t->job, &f.test.env, NULL, 0);
        t->job.name = i ? "slow" : "quick";
        t->job.rule = timed_rule;
        t->job.arg = t;
        assert_int_equal(store_run(f.store, &t->job, NULL), STORE_COMMITTED);
    }
    fixture_close(&f);
    assert_int_equal(metric_value(metrics_get(metrics, "fenpay_store_slow_rules_total", "quick")),
                     0);
    assert_int_equal(metric_value(metrics_get(metrics, "fenpay_store_slow_rules_total", "slow")),
                     1);
    assert_int_equal(metric_value(metrics_get(metrics, "fenpay_store_batch_rules_total", NULL)), 2);
    metrics_free(metrics);
}

/* ---- wakes, ending ---- */

static struct store_waked woken[64];
static size_t woken_n, woken_calls;

static void on_wake(void *ctx, const struct store_waked *wakes, size_t n)
{
    assert_ptr_equal(ctx, &f);
    memcpy(woken + woken_n, wakes, n * sizeof *wakes);
    woken_n += n;
    woken_calls++;
}

static enum err wake_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct act *act = arg;
    tx_after_commit(tx, WAKE_PAYMENT, act->id);
    tx_after_commit(tx, WAKE_BUS, act->id);
    return act_rule(tx, act, info);
}

static void wakes_come_once_and_only_from_what_committed(void **state)
{
    (void)state;
    fixture_open(&f);
    store_set_wake(f.store, on_wake, &f);
    woken_n = woken_calls = 0;
    struct act acts[] = { { .id = 1 },
                          { .id = 2, .end = ACT_REFUSE_LAST },
                          { .id = 3 },
                          { .id = 4, .end = ACT_REFUSE_FIRST } };
    struct gate gate;
    gate_close(&gate);
    for (int i = 0; i < 4; i++) {
        act_try_submit(&f, &acts[i]); /* the rule is exchanged before the gate opens */
        acts[i].job.rule = wake_rule;
    }
    gate_open(&gate);
    store_drain(f.store);
    assert_int_equal(woken_calls, 1);
    assert_int_equal(woken_n, 4);
    assert_int_equal(woken[0].wake, WAKE_PAYMENT);
    assert_int_equal(woken[0].id, 1);
    assert_int_equal(woken[1].wake, WAKE_BUS);
    assert_int_equal(woken[2].id, 3);
}

static void drain_finishes_what_was_accepted(void **state)
{
    (void)state;
    fixture_open(&f);
    struct act acts[200], late = { .id = 1000 };
    for (int i = 0; i < 200; i++) {
        acts[i] = (struct act) { .id = i + 1 };
        act_submit(&f, &acts[i]);
    }
    store_drain(f.store);
    for (int i = 0; i < 200; i++)
        assert_int_equal(acts[i].told, 1);
    assert_int_equal(act_run(&f, &late), STORE_BUSY);
    assert_int_equal(late.tries, 0);
    assert_int_equal(rows_in_all(&f), 400);
    ARENA_AUTO a = arena_new(256);
    assert_true(store_trouble(f.store, a).n > 0);
}

static void *many_runs(void *arg)
{
    int64_t first = *(int64_t *)arg;
    for (int64_t i = 0; i < 100; i++) {
        struct act act = { .id = first + i, .end = i % 10 == 9 ? ACT_REFUSE_LAST : ACT_OK };
        if (act_run(&f, &act) != (i % 10 == 9 ? STORE_REFUSED : STORE_COMMITTED) ||
            rows_of(&f, first + i) != (i % 10 == 9 ? 0 : 2))
            *(int64_t *)arg = -1;
    }
    return NULL;
}

static void threads_run_and_read_at_once(void **state)
{
    (void)state;
    fixture_open(&f);
    pthread_t threads[4];
    int64_t firsts[4];
    for (int i = 0; i < 4; i++) {
        firsts[i] = 1 + i * 1000;
        pthread_create(&threads[i], NULL, many_runs, &firsts[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(firsts[i] > 0);
    }
    assert_int_equal(rows_in_all(&f), 4 * 90 * 2);
}

/* ---- leases ---- */

struct take {
    struct str owner;
    struct lease lease;
    bool taken, check, release;
};

static enum err take_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct take *t = arg;
    if (t->release)
        return lease_release(tx, &t->lease, info);
    if (t->check)
        return lease_check(tx, &t->lease, info);
    return lease_take(tx, STR("sweep"), t->owner, 1000, &t->lease, &t->taken, info);
}

static enum store_outcome run_take(struct take *t)
{
    struct store_job job;
    store_job_init(&job, &f.test.env, NULL, 0);
    job.name = "take";
    job.rule = take_rule;
    job.arg = t;
    return store_run(f.store, &job, NULL);
}

static void leases_have_one_owner_and_a_fence(void **state)
{
    (void)state;
    fixture_open(&f);
    struct take a = { .owner = STR("a") }, b = { .owner = STR("b") };
    assert_int_equal(run_take(&a), STORE_COMMITTED);
    assert_true(a.taken);
    assert_int_equal(run_take(&b), STORE_COMMITTED);
    assert_false(b.taken);

    int64_t fence = a.lease.fence;
    env_test_advance(&f.test, 500);
    assert_int_equal(run_take(&a), STORE_COMMITTED); /* extends */
    assert_int_equal(a.lease.fence, fence);
    env_test_advance(&f.test, 900);
    run_take(&b);
    assert_false(b.taken);
    env_test_advance(&f.test, 100);
    run_take(&b); /* expired at this very moment */
    assert_true(b.taken);
    assert_int_equal(b.lease.fence, fence + 1);

    a.check = b.check = true;
    assert_int_equal(run_take(&b), STORE_COMMITTED);
    assert_int_equal(run_take(&a),
                     STORE_BUSY); /* ERR_RETRY for good: the old fence has no effect */

    b.release = true;
    assert_int_equal(run_take(&b), STORE_COMMITTED);
    a.check = false;
    assert_int_equal(run_take(&a), STORE_COMMITTED);
    assert_true(a.taken);
    assert_int_equal(a.lease.fence, fence + 2);
}

static void node_ids_rest_an_hour(void **state)
{
    (void)state;
    f.options.env = &f.test.env;
    fixture_open(&f);
    ARENA_AUTO a = arena_new(1024);
    struct env *env = &f.test.env;
    struct node_lease one, two, three;
    struct err_info info = { 0 };
    assert_int_equal(node_lease_take(f.store, env, STR("one"), &one, a, &info), ERR_OK);
    assert_int_equal(node_lease_take(f.store, env, STR("one"), &two, a, &info), ERR_OK);
    assert_int_equal(one.node, 0);
    assert_int_equal(two.node, 1); /* also for the same owner: its first generator may live */
    env_test_advance(&f.test, 9 * 60000);
    assert_int_equal(node_lease_extend(f.store, env, &one, &info), ERR_OK);
    env_test_advance(&f.test, 9 * 60000);
    assert_int_equal(node_lease_extend(f.store, env, &one, &info), ERR_OK);
    assert_int_equal(node_lease_extend(f.store, env, &two, &info), ERR_RETRY); /* lapsed */
    assert_int_equal(node_lease_release(f.store, env, &one, &info), ERR_OK);

    env_test_advance(&f.test, 52 * 60000 - 1); /* an hour after two's end, less a moment */
    assert_int_equal(node_lease_take(f.store, env, STR("three"), &three, a, &info), ERR_OK);
    assert_int_equal(three.node, 2);
    env_test_advance(&f.test, 1);
    assert_int_equal(node_lease_take(f.store, env, STR("three"), &three, a, &info), ERR_OK);
    assert_int_equal(three.node, 1);
    assert_int_equal(three.lease.fence, 2);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(commits_and_reads_back),
        STORE_TEST(taken_key_lets_the_rule_go_on),
        STORE_TEST(refusal_undoes_everything),
        STORE_TEST(compare_and_set),
        STORE_TEST(due_rows_are_there_once),
        STORE_TEST(null_is_not_empty),
        STORE_TEST(bounds_of_types_hold),
        STORE_TEST(bytes_survive),
        STORE_TEST(mistakes_are_internal_errors),
        STORE_TEST(reads_do_not_write),
        STORE_TEST(reads_share_a_snapshot),
        STORE_TEST(soft_conflicts_are_tried_again),
        STORE_TEST(tries_see_the_same_ids_and_time),
        STORE_TEST(failing_rules_among_others),
        STORE_TEST(failing_rules_among_others_with_savepoints),
        STORE_TEST(a_batch_rule_takes_many),
        STORE_TEST(a_batch_rule_takes_many_with_savepoints),
        STORE_TEST(queue_is_bounded),
        STORE_TEST(classes_share_the_writers_time),
        STORE_TEST(slow_rules_are_counted_by_name),
        STORE_TEST(wakes_come_once_and_only_from_what_committed),
        STORE_TEST(drain_finishes_what_was_accepted),
        STORE_TEST(threads_run_and_read_at_once),
        STORE_TEST(leases_have_one_owner_and_a_fence),
        STORE_TEST(node_ids_rest_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
