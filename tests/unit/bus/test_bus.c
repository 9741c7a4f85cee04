/* The local bus: publishing in batches, a failing consumer alone, feed, replay, parking. */
#include "bus_world.h"

#include "store/driver.h"

#define ALL_TYPES 0xfffeu

struct fixture {
    struct world w;
    struct receiver r;
    struct taker one, two;
    struct consumer consumers[2];
    struct bus *bus;
};

static void begin(struct fixture *f)
{
    *f = (struct fixture) { .one = { .how = ERR_OK } };
    world_open(&f->w, false);
    f->consumers[0] =
        (struct consumer) { "one", EVENT_BIT(EVENT_PAYMENT_SUCCESS), taker_consume, &f->one };
    f->consumers[1] = (struct consumer) { "two", ALL_TYPES, taker_consume, &f->two };
    struct bus_options o = bus_world_options(&f->w, &f->r, f->consumers, 2);
    f->bus = bus_new(&o);
}

static void end(struct fixture *f)
{
    bus_free(f->bus);
    world_close(&f->w);
}

static void effects_feed_and_removal_in_one(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 5; i++)
        emit(&f.w, i == 2 ? EVENT_ORDER_PAID : EVENT_PAYMENT_SUCCESS, 1, i);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox_due"), 5);

    assert_int_equal(publish(f.bus), 5);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox_due"), 0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox"), 5);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 5);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'one'"), 4);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'two'"), 5);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery"), 0);
    assert_int_equal(f.one.calls, 4);
    assert_int_equal(publish(f.bus), 0);
    end(&f);
}

static void a_batch_has_its_limit(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 100; i++)
        emit(&f.w, EVENT_ORDER_PAID, 1, i);
    assert_int_equal(publish(f.bus), 85); /* 1,024 ids, 6 for each of two consumers */
    assert_int_equal(publish(f.bus), 15);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event"), 100);
    end(&f);
}

/* The poisoned event goes on for everybody else at once; for its consumer it waits on a schedule of
 * its own. */
static void a_poisoned_consumer_hurts_only_itself(enum err how)
{
    struct fixture f;
    begin(&f);
    struct event events[6];
    for (int i = 0; i < 6; i++)
        events[i] = emit(&f.w, EVENT_PAYMENT_SUCCESS, 1, i);
    f.one.poison = events[3].no.id;
    f.one.how = how;

    assert_int_equal(publish(f.bus), 6);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox_due"), 0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'one'"), 5);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'two'"), 6);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM order_due"), 11);
    assert_int_equal(ASK(&f.w, "SELECT tries FROM event_delivery WHERE target = 'consumer:one'"),
                     1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 6);

    assert_int_equal(deliver(f.bus), 0); /* not yet */
    env_test_advance(&f.w.test, 5000);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(ASK(&f.w, "SELECT tries FROM event_delivery"), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM order_due"), 11);

    f.one.how = ERR_OK;
    env_test_advance(&f.w.test, 15000);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(ASK(&f.w, "SELECT state FROM event_delivery"), DELIVERY_DONE);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'one'"), 6);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM order_due"), 12);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM delivery_due"), 0);
    end(&f);
}

static void poison_that_refuses(void **state)
{
    (void)state;
    a_poisoned_consumer_hurts_only_itself(ERR_CONFLICT);
}

static void poison_that_always_retries(void **state)
{
    (void)state;
    a_poisoned_consumer_hurts_only_itself(ERR_RETRY);
}

/* Broken for every event, it costs a few repetitions, not one an event. */
static void a_broken_consumer_is_cheap(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    f.one.poison = -1;
    f.one.how = ERR_INTERNAL;
    for (int i = 0; i < 80; i++)
        emit(&f.w, EVENT_PAYMENT_SUCCESS, 1, i);
    assert_int_equal(publish(f.bus), 80);
    assert_true(f.one.calls <= 3);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE target = 'consumer:one'"),
                     80);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'two'"), 80);

    f.one.how = ERR_OK;
    env_test_advance(&f.w.test, 5000);
    size_t n = 0;
    for (int i = 0; i < 6; i++)
        n += deliver(f.bus);
    assert_int_equal(n, 80);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event WHERE consumer = 'one'"), 80);
    end(&f);
}

static void an_unknown_type_is_parked(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    emit(&f.w, EVENT_ORDER_PAID, 7, 1);
    EXEC(&f.w, "UPDATE outbox SET type = 99 WHERE sequence = 1 AND caller = 7");
    emit(&f.w, EVENT_ORDER_PAID, 1, 2);
    assert_int_equal(publish(f.bus), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox WHERE parked IS NOT NULL"), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox_due"), 0);
    end(&f);
}

struct feed {
    int64_t caller, after;
    struct event events[16];
    int64_t seqs[16];
    size_t n;
    int64_t numbers[16];
};

static enum err feed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct feed *f = arg;
    enum err e = feed_read(tx, f->caller, f->after, 16, f->events, f->seqs, &f->n, info);
    for (size_t i = 0; i < f->n && !e; i++)
        e = str_int64(str_sub(f->events[i].data, 5, f->events[i].data.n - 6), &f->numbers[i]);
    return e;
}

static void the_feed_is_in_publish_order_per_caller(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 10; i++)
        emit(&f.w, EVENT_ORDER_PAID, 1 + i % 2, i);
    publish(f.bus);

    struct feed all = { .caller = 0 };
    world_read(&f.w, feed_rule, &all);
    assert_int_equal(all.n, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(all.seqs[i], i + 1);
        assert_int_equal(all.numbers[i], i);
    }
    struct feed mine = { .caller = 2, .after = 4 };
    world_read(&f.w, feed_rule, &mine);
    assert_int_equal(mine.n, 3);
    assert_int_equal(mine.numbers[0], 5);
    assert_int_equal(mine.seqs[2], 10);
    end(&f);
}

static enum err replay_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return event_replay(tx, *(int64_t *)arg, info);
}

static void replay_reaches_webhooks_again_and_consumers_once(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    subscribe(&f.w, 3, 1, 0, "http://127.0.0.1:9/hook");
    struct event event = emit(&f.w, EVENT_PAYMENT_SUCCESS, 1, 1);
    publish(f.bus);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(f.r.calls, 1);

    world_run(&f.w, replay_rule, &event.no.id);
    assert_int_equal(deliver(f.bus) + deliver(f.bus), 2);
    assert_int_equal(f.r.calls, 2);
    assert_int_equal(f.one.calls, 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 1"), 2);

    int64_t nothing = 12345;
    struct err_info info = { .err = ERR_OK };
    assert_int_equal(world_try(&f.w, replay_rule, &nothing, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_NOT_FOUND);
    end(&f);
}

static enum err stats_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return bus_stats(tx, arg, info);
}

static void the_figures(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    emit(&f.w, EVENT_ORDER_PAID, 1, 1);
    emit(&f.w, EVENT_ORDER_PAID, 1, 1);
    env_test_advance(&f.w.test, 700);
    struct bus_stats s;
    world_read(&f.w, stats_rule, &s);
    assert_int_equal(s.pending, 2);
    assert_int_equal(s.oldest_ms, 700);
    assert_int_equal(s.dead, 0);
    end(&f);
}

/* ---- a COMMIT whose answer gets lost, and an event that comes before the rule runs again ---- */

static bool answer_lost;

static enum err commit_unheard(struct conn *c, struct err_info *info)
{
    static const char another[] =
        "INSERT INTO outbox SELECT id + 1, slot, type, subject_kind, subject_id, caller, sequence,"
        " data, trace_id, parked, create_time, update_time FROM outbox;"
        "INSERT INTO outbox_due SELECT create_time, id FROM outbox WHERE id = (SELECT max(id) FROM "
        "outbox)";
    enum err e = sqlite_driver.commit(c, info);
    if (e || answer_lost)
        return e;
    answer_lost = true;
    assert_ok(sqlite_driver.script(c, str_of(another), info));
    return err_set(info, ERR_IO, "the answer got lost");
}

static enum err take_an_id(struct tx *tx, const struct event *event, void *ctx,
                           struct err_info *info)
{
    (void)ctx;
    return tx_exec(tx, &taker_effect, BINDS(bind_int(tx_new_id(tx)), bind_int(event->no.id)), NULL,
                   info);
}

/* The ids that the first event's effect took are in use. */
static void a_lost_answer_and_a_new_event(void **state)
{
    (void)state;
    struct fixture f;
    struct store_driver driver = sqlite_driver;
    struct err_info info = { 0 };
    begin(&f);
    emit(&f.w, EVENT_PAYMENT_SUCCESS, 1, 1);
    store_close(f.w.store);
    driver.settles_unknown = true;
    driver.commit = commit_unheard;
    answer_lost = false;
    struct store_options o = world_options(&f.w, false);
    o.driver = &driver;
    assert_ok(store_open(&o, &f.w.store, &info));
    bus_free(f.bus);
    f.consumers[0].consume = take_an_id;
    struct bus_options bo = bus_world_options(&f.w, &f.r, f.consumers, 1);
    f.bus = bus_new(&bo);

    publish(f.bus);
    assert_true(answer_lost);
    publish(f.bus);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event"), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(DISTINCT due) FROM order_due"), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 2);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(effects_feed_and_removal_in_one),
        cmocka_unit_test(a_batch_has_its_limit),
        cmocka_unit_test(poison_that_refuses),
        cmocka_unit_test(poison_that_always_retries),
        cmocka_unit_test(a_broken_consumer_is_cheap),
        cmocka_unit_test(an_unknown_type_is_parked),
        cmocka_unit_test(the_feed_is_in_publish_order_per_caller),
        cmocka_unit_test(replay_reaches_webhooks_again_and_consumers_once),
        cmocka_unit_test(the_figures),
        cmocka_unit_test(a_lost_answer_and_a_new_event),
    };
    return RUN_TESTS(tests);
}
