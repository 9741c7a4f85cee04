/* Jobs: one process at a time, what each does, keys on request, the counts of what must be zero. */
#include "../flow_world.h"

#include "base/metrics.h"
#include "bus/bus.h"
#include "consumer/consumer.h"
#include "core/channel_key/channel_key.h"
#include "core/incident/incident.h"
#include "core/payment/flow.h"
#include "job/job.h"

#include <sched.h>

#define MINUTE 60000LL
#define HOUR   (60 * MINUTE)

struct fixture {
    struct flow_world f;
    struct metrics *metrics;
    struct bus *bus;
    struct job_context ctx;
    int flushed;
};

static enum err count_flush(void *ctx, struct err_info *info)
{
    (void)info;
    ++*(int *)ctx;
    return ERR_OK;
}

static void begin(struct fixture *x, bool threads)
{
    flow_world_open(&x->f, threads);
    x->metrics = metrics_new(metrics_table, metrics_table_count);
    x->f.w.test.env.metrics = x->metrics;
    const struct consumer consumers[] = { order_consumer(&x->f.c) };
    struct bus_options o = { .env = x->f.w.env,
                             .store = x->f.w.store,
                             .mint = x->f.w.mint,
                             .consumers = consumers,
                             .consumer_count = 1,
                             .source = STR("test") };
    x->bus = bus_new(&o);
    x->flushed = 0;
    x->ctx = (struct job_context) { .centre = &x->f.c,
                                    .bus = x->bus,
                                    .flush_rejects = count_flush,
                                    .flush_rejects_ctx = &x->flushed };
}

static void end(struct fixture *x)
{
    bus_free(x->bus);
    flow_world_close(&x->f);
    metrics_free(x->metrics);
}

static size_t turn(struct scheduler *s)
{
    size_t done = 0;
    struct err_info info = { .err = ERR_OK };
    assert_ok(scheduler_turn(s, &done, &info));
    return done;
}

static int64_t figure(struct fixture *x, const char *family, const char *labels)
{
    return metric_value(metrics_get(x->metrics, family, labels));
}

static void the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < job_count; i++) {
        assert_true(strlen(jobs[i].name) < 50 && jobs[i].every_ms > 0 && jobs[i].max > 0 &&
                    jobs[i].run_once);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(jobs[i].name, jobs[k].name);
    }
}

static void every_job_runs_when_due(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    turn(s);
    for (size_t i = 0; i < job_count; i++) {
        char labels[80];
        snprintf(labels, sizeof labels, "%s,ok", jobs[i].name);
        check_row(figure(&x, "fenpay_job_runs_total", labels) == 1, labels);
    }
    turn(s); /* nothing is due */
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "settle_sweep,ok"), 1);
    env_test_advance(&x.f.w.test, 60000);
    turn(s);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "settle_sweep,ok"), 2);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "keys,ok"), 1);
    assert_int_equal(x.flushed, 2);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

/* Two processes: the second one leaves the first one's jobs alone, until it stops or dies. */
static void one_process_at_a_time(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct centre second = x.f.c;
    struct job_context ctx = x.ctx;
    second.process_id = 88;
    ctx.centre = &second;
    struct scheduler *one = scheduler_new(&x.ctx, 1), *two = scheduler_new(&ctx, 1);

    turn(one);
    int64_t runs = figure(&x, "fenpay_job_runs_total", "callbacks,ok"), local = x.flushed;
    turn(two);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "callbacks,ok"), runs);
    assert_int_equal(x.flushed, local + 1); /* what is the process's own runs in each */
    assert_int_equal(
        ASK(&x.f.w, "SELECT count(*) FROM lease WHERE owner = 'process/4d' AND name LIKE 'job/%'"),
        job_count - 2);

    env_test_advance(&x.f.w.test, 59000);
    turn(two);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "callbacks,ok"), runs);
    env_test_advance(&x.f.w.test, 11000); /* the first one is dead: its lease has run out */
    turn(two);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "callbacks,ok"), runs + 1);
    assert_int_equal(ASK(&x.f.w, "SELECT fence FROM lease WHERE name = 'job/callbacks'"), 2);

    env_test_advance(&x.f.w.test, 60000);
    turn(two); /* also what comes once an hour */
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "keys,ok"), 2);

    runs = figure(&x, "fenpay_job_runs_total", "callbacks,ok");
    env_test_advance(&x.f.w.test, 11000);
    turn(one); /* back from the dead: not its job any more */
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "callbacks,ok"), runs);
    scheduler_stop(two); /* gives its leases up */
    env_test_advance(&x.f.w.test, 11000);
    turn(one);
    assert_int_equal(figure(&x, "fenpay_job_runs_total", "callbacks,ok"), runs + 1);
    scheduler_stop(one);
    scheduler_free(one);
    scheduler_free(two);
    end(&x);
}

struct takeover {
    struct fixture *x;
    struct scheduler *two;
    int64_t away_ms;
    int asked; /* by the other process, in the meantime */
};

/* While the first process waits for its first answer: the second one takes over and does all. */
static void take_over(void *arg)
{
    struct takeover *t = arg;
    fake_channel.while_asked = NULL;
    int before = fake_channel.queries;
    env_test_advance(&t->x->f.w.test, t->away_ms);
    turn(t->two);
    t->asked = fake_channel.queries - before;
}

/* Its lease ran out while it was away, or the other's clock is ahead: either way the first process
 * takes in the answer it waits for, and begins nothing more. */
static void who_lost_the_lease_begins_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int64_t away_ms, ahead_ms;
    } rows[] = { { "away", 61000, 0 }, { "clock ahead", 0, 61000 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture x;
        struct attempt at[8];
        struct env_test other;
        begin(&x, false);
        struct centre second = x.f.c;
        struct job_context ctx = x.ctx;
        second.process_id = 88;
        second.env = &other.env;
        ctx.centre = &second;
        struct scheduler *one = scheduler_new(&x.ctx, 1), *two = scheduler_new(&ctx, 1);
        struct takeover t = { .x = &x, .two = two, .away_ms = rows[i].away_ms };

        fake_channel.query_outcome = CHANNEL_DONE; /* and nothing new */
        turn(one);                                 /* takes the leases */
        flow_attempts(&x.f, at, COUNT(at));
        env_test_advance(&x.f.w.test, 30000);
        turn(one); /* extends them, and asks for all */
        env_test_advance(&x.f.w.test, 61000);
        env_init_test(&other, env_now_ms(x.f.w.env) + rows[i].away_ms + rows[i].ahead_ms, 2);
        other.env.metrics = x.metrics;
        fake_channel.queries = 0;
        fake_channel.while_asked = take_over;
        fake_channel.while_asked_arg = &t;
        turn(one);
        check_row(t.asked >= 7 && fake_channel.queries == 1 + t.asked, rows[i].what);
        check_row(ASK(&x.f.w, "SELECT count(*) FROM channel_call") == 8 + 1 + t.asked,
                  rows[i].what);
        scheduler_stop(one);
        scheduler_stop(two);
        scheduler_free(one);
        scheduler_free(two);
        end(&x);
    }
}

SQL(order_due_now, "INSERT INTO order_due (due, id) SELECT 1, id FROM order_info");
SQL(callback_due_now, "UPDATE callback_log SET next_retry_time = 1");
SQL(callback_due_row, "INSERT INTO callback_due (due, id) SELECT 1, id FROM callback_log");

/* Every job's first rule checks the fence. */
static void a_stale_fence_is_refused_by_every_job(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum err (*turn)(struct centre *c, size_t max, size_t *ret_done, struct err_info *info);
    } rows[] = { { "payments", payment_due_turn },
                 { "orders", order_due_turn },
                 { "callbacks", callback_due_turn },
                 { "settle", order_settle_sweep } };
    struct fixture x;
    begin(&x, false);
    x.ctx.bus = NULL; /* nobody tells the order */
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    turn(s);
    struct attempt paid = flow_attempt(&x.f, "A1"), open = flow_attempt(&x.f, "A2");
    flow_callback(&x.f, x.f.account,
                  notice_text(x.f.w.arena, "ok", "PAID", paid.pay_no, "T1", 8800));
    flow_callback(&x.f, x.f.account, notice_text(x.f.w.arena, "raw", "PAID", open.pay_no, "T2", 1));
    world_exec(&x.f.w, &order_due_now);
    world_exec(&x.f.w, &callback_due_now);
    world_exec(&x.f.w, &callback_due_row);
    env_test_advance(&x.f.w.test, 90000);

    struct shift stale = { .lease = { STR("job/query_payments"), STR("process/4d"), 7, INT64_MAX },
                           .until_us = INT64_MAX };
    struct centre c = x.f.c;
    c.shift = &stale;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err_info info = { .err = ERR_OK };
        size_t done = 0;
        check_row(rows[i].turn(&c, 10, &done, &info) == ERR_BUSY && done == 0, rows[i].name);
    }
    assert_int_equal(fake_channel.queries, 0);
    assert_int_equal(flow_order(&x.f, paid.order_no).status, ORDER_PAYING);
    c.shift = NULL; /* by hand, or in a test */
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err_info info = { .err = ERR_OK };
        size_t done = 0;
        check_row(rows[i].turn(&c, 10, &done, &info) == ERR_OK, rows[i].name);
    }
    assert_true(fake_channel.queries > 0);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void a_slow_answer(void *arg)
{
    env_test_advance(&((struct fixture *)arg)->f.w.test, 10000);
}

/* A channel that takes ten seconds for each answer: a run leaves the rest to the next one before a
 * minute is over, and that one follows at once. */
static void a_long_run_is_split(void **state)
{
    (void)state;
    struct fixture x;
    struct attempt at[9];
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    flow_attempts(&x.f, at, COUNT(at));
    turn(s);
    env_test_advance(&x.f.w.test, 30000);
    int64_t runs = figure(&x, "fenpay_job_runs_total", "query_payments,ok");
    fake_channel.query_outcome = CHANNEL_DONE;
    fake_channel.while_asked = a_slow_answer;
    fake_channel.while_asked_arg = &x;
    for (int asked = 0; asked < 9; asked = fake_channel.queries) {
        turn(s);
        assert_in_range(fake_channel.queries - asked, 1, 2 * JOB_RUN_MS / 10000 + 2);
    }
    assert_true(figure(&x, "fenpay_job_runs_total", "query_payments,ok") - runs >= 2);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void an_idle_process_writes_little(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    struct store_stats before, after;
    turn(s);
    store_stats(x.f.w.store, &before);
    for (int i = 0; i < 20; i++) {
        env_test_advance(&x.f.w.test, 1000);
        turn(s);
    }
    store_stats(x.f.w.store, &after);
    assert_true(after.batches - before.batches <= 12);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void from_callback_to_order_by_turns(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    struct attempt at = flow_attempt(&x.f, "A1");
    flow_callback(&x.f, x.f.account, notice_text(x.f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    assert_true(turn(s) > 0);
    assert_int_equal(flow_order(&x.f, at.order_no).status, ORDER_PAID);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void keys_on_request_once_a_minute(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    turn(s);
    int hourly = fake_channel.refreshes;
    assert_int_equal(hourly, 2);
    for (int i = 0; i < 10; i++)
        scheduler_want_keys(s, x.f.account);
    turn(s);
    assert_int_equal(fake_channel.refreshes, hourly + 1);
    scheduler_want_keys(s, x.f.account);
    turn(s);
    assert_int_equal(fake_channel.refreshes, hourly + 1);
    env_test_advance(&x.f.w.test, 60000);
    scheduler_want_keys(s, x.f.account);
    turn(s);
    assert_int_equal(fake_channel.refreshes, hourly + 2);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void keys_that_expire(void **state)
{
    (void)state;
    const int64_t day = 86400000;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    fake_channel.key_not_after_ms = WORLD_NOW_MS + 40 * day;
    turn(s);
    assert_int_equal(figure(&x, "fenpay_key_days_left", "fake,platform certificate AB12"), 40);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM incident"), 0);
    static const struct {
        int days_left, incidents;
    } rows[] = { { 31, 0 }, { 30, 2 }, { 29, 2 }, { 7, 4 }, { 2, 4 }, { 1, 6 }, { 0, 6 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t then = fake_channel.key_not_after_ms - rows[i].days_left * day;
        env_test_advance(&x.f.w.test, then - env_now_ms(x.f.w.env));
        turn(s);
        assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM incident WHERE kind = 15"),
                         rows[i].incidents);
    }
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static struct learnt_key key_named(const char *serial, const char *origin)
{
    return (struct learnt_key) { .serial = str_of(serial),
                                 .origin = str_of(origin),
                                 .pem = STR("-----BEGIN CERTIFICATE-----"),
                                 .not_before_ms = WORLD_NOW_MS,
                                 .not_after_ms = WORLD_NOW_MS + 86400000 };
}

static const char *held_by(struct fixture *x, const char *name)
{
    struct account *account = registry_ref(x->f.c.registry, str_of(name));
    const char *serial = account->keys ? account->keys : "";
    account_unref(account);
    return serial;
}

/* What a refresh brings is stored under the account's name, and a process that starts later has it;
 * whether it trusts it is the adapter's judgement. */
static void learnt_keys_outlive_the_process(void **state)
{
    (void)state;
    struct fixture x;
    struct err_info info = { .err = ERR_OK };
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    struct account *first = registry_ref(x.f.c.registry, STR("fake")); /* of before the refresh */
    fake_channel.learnt = key_named("AB12", "fake");
    turn(s);
    assert_string_equal(held_by(&x, "fake"), "AB12");
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM channel_key WHERE serial = 'AB12'"), 2);
    env_test_advance(&x.f.w.test, 3600000);
    turn(s); /* nothing new */
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM channel_key"), 2);
    assert_int_equal(
        ASK(&x.f.w, "SELECT count(*) FROM channel_key WHERE update_time <> create_time"), 0);

    struct account *started = account_ref(first), *elsewhere = account_ref(first);
    assert_ok(channel_keys_load(x.f.w.store, x.f.w.env, &started, &info));
    assert_true(started != first);
    assert_string_equal(started->keys, "AB12");
    account_unref(started);

    /* Rows of an account's name under another contract. */
    fake_channel.learnt = key_named("AB12", "another merchant");
    env_test_advance(&x.f.w.test, 3600000);
    turn(s);
    assert_int_equal(
        ASK(&x.f.w, "SELECT count(*) FROM channel_key WHERE origin = 'another merchant'"), 2);
    assert_ok(channel_keys_load(x.f.w.store, x.f.w.env, &elsewhere, &info));
    assert_true(elsewhere == first);
    account_unref(elsewhere);
    account_unref(first);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

/* A reload while the channel is being asked: the keys land in the new snapshot, not the other way
 * round. */
static void a_reload_is_not_undone_by_a_refresh(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    struct account *reloaded;
    assert_ok(account_renew(x.f.account, NULL, &reloaded));
    fake_channel.learnt = key_named("AB12", "fake");
    fake_channel.while_refreshing = reloaded;
    fake_channel.registry = x.f.c.registry;
    uint64_t generation = reloaded->generation;
    turn(s);
    struct account *now = registry_ref(x.f.c.registry, STR("fake"));
    assert_string_equal(now->keys, "AB12");
    assert_int_equal(now->generation, generation + 1); /* made of the reloaded one */
    account_unref(now);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

/* Four days without a word from the channel, and bytes that nobody can decrypt: what the jobs give
 * up they tell somebody, once, and nothing has FAILED or was CLOSED for it. */
static void a_give_up_is_an_incident(void **state)
{
    (void)state;
    struct fixture x;
    struct attempt at[5];
    begin(&x, false);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    flow_attempts(&x.f, at, COUNT(at));
    fake_channel.undecryptable = true;
    flow_callback(&x.f, x.f.account,
                  notice_text(x.f.w.arena, "raw", "PAID", at[0].pay_no, "T1", 8800));
    /* By the minute at first: a silent account's other payments are asked about a minute later. */
    for (int64_t passed = 0, step; passed < 96 * HOUR; passed += step) {
        step = passed < 6 * HOUR ? MINUTE : HOUR;
        env_test_advance(&x.f.w.test, step);
        turn(s);
    }
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM payment_order WHERE status <= 1"),
                     COUNT(at));
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM order_info WHERE order_status = 1"),
                     COUNT(at));
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM incident WHERE kind = 8 AND state = 0"),
                     COUNT(at)); /* QUERY_STUCK */
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM incident WHERE kind = 9 AND state = 0"), 1);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM incident"), COUNT(at) + 1);
    assert_true(fake_channel.queries > 96); /* and they are still asked about */
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

SQL(wrong_winner, "UPDATE order_info SET pay_id = 5");
SQL(no_evidence, "UPDATE payment_order SET evidence_kind = 0");
SQL(overdrawn, "UPDATE payment_order SET refunded = paid_amount + 1");

static void what_must_be_zero(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    x.ctx.bus = NULL; /* nobody tells the order */
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    struct attempt at = flow_attempt(&x.f, "A1");
    flow_attempt(&x.f, "A2");
    flow_callback(&x.f, x.f.account, notice_text(x.f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    turn(s);
    assert_int_equal(figure(&x, "fenpay_open_attempts", NULL), 1);
    assert_int_equal(figure(&x, "fenpay_paid_unsettled", NULL), 0); /* not yet a minute */
    assert_int_equal(figure(&x, "fenpay_outbox_backlog", NULL), 1);

    const struct sql *const spoiled[] = { &wrong_winner, &no_evidence, (struct sql *)&overdrawn };
    env_test_advance(&x.f.w.test, 61000);
    turn(s); /* the sweep repairs the order */
    assert_int_equal(flow_order(&x.f, at.order_no).status, ORDER_PAID);
    for (size_t i = 0; i < COUNT(spoiled); i++)
        world_exec(&x.f.w, spoiled[i]);
    env_test_advance(&x.f.w.test, 61000);
    turn(s);
    assert_int_equal(figure(&x, "fenpay_paid_unsettled", NULL), 0);
    assert_int_equal(figure(&x, "fenpay_invariant_violations", "winner"), 1);
    assert_int_equal(figure(&x, "fenpay_terminal_without_evidence", NULL), 1);
    assert_true(figure(&x, "fenpay_invariant_violations", "overdrawn") >= 1);
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

SQL(call_row, "INSERT INTO channel_call (id, slot, subject_id, account, kind, outcome, class, "
              "http_status, took_us, create_time, update_time)"
              " VALUES (?, 0, 0, 'fake', 1, 0, 0, 200, 0, 0, 0)");
static enum err calls_rule(struct tx *tx, void *arg, struct err_info *info)
{
    int64_t *from_ms = arg;
    for (int i = 0; i < 250; i++) {
        enum err e =
            tx_exec(tx, &call_row, BINDS(bind_int(number_first_id(*from_ms) + i)), NULL, info);
        if (e)
            return e;
    }
    return ERR_OK;
}

static void old_calls_are_let_go(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, false);
    int64_t old = WORLD_NOW_MS - 31 * 86400000LL, young = WORLD_NOW_MS - 29 * 86400000LL;
    world_run(&x.f.w, calls_rule, &old);
    world_run(&x.f.w, calls_rule, &young);
    struct scheduler *s = scheduler_new(&x.ctx, 1);
    turn(s);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM channel_call"), 250);
    assert_int_equal(ASK(&x.f.w, "SELECT min(id) FROM channel_call"), number_first_id(young));
    scheduler_stop(s);
    scheduler_free(s);
    end(&x);
}

static void with_threads(void **state)
{
    (void)state;
    struct fixture x;
    begin(&x, true);
    struct scheduler *s = scheduler_new(&x.ctx, 3);
    struct err_info info = { .err = ERR_OK };
    assert_ok(scheduler_start(s, &info));
    while (figure(&x, "fenpay_job_runs_total", "rejects,ok") == 0 ||
           figure(&x, "fenpay_job_runs_total", "keys,ok") == 0)
        sched_yield();
    int before = fake_channel.refreshes;
    scheduler_want_keys(s, x.f.account);
    while (fake_channel.refreshes == before)
        sched_yield();
    scheduler_stop(s);
    assert_int_equal(ASK(&x.f.w, "SELECT count(*) FROM lease WHERE until_time > 1780000000000"), 0);
    scheduler_free(s);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(every_job_runs_when_due),
        cmocka_unit_test(one_process_at_a_time),
        cmocka_unit_test(who_lost_the_lease_begins_nothing),
        cmocka_unit_test(a_stale_fence_is_refused_by_every_job),
        cmocka_unit_test(a_long_run_is_split),
        cmocka_unit_test(a_give_up_is_an_incident),
        cmocka_unit_test(an_idle_process_writes_little),
        cmocka_unit_test(from_callback_to_order_by_turns),
        cmocka_unit_test(keys_on_request_once_a_minute),
        cmocka_unit_test(keys_that_expire),
        cmocka_unit_test(learnt_keys_outlive_the_process),
        cmocka_unit_test(a_reload_is_not_undone_by_a_refresh),
        cmocka_unit_test(what_must_be_zero),
        cmocka_unit_test(old_calls_are_let_go),
        cmocka_unit_test(with_threads),
    };
    return RUN_TESTS(tests);
}
