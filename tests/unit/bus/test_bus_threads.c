/* The bus with its threads on a store with its writer: writers, publisher and feed readers at once;
 * the feed never shows a gap. */
#include "bus_world.h"

#include <pthread.h>

#define EVENTS 400

struct reader {
    struct world *w;
    _Atomic bool stop;
    int64_t last;
    bool gap;
    int seen;
};

static enum err follow_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct reader *r = arg;
    struct event events[64];
    int64_t seqs[64];
    size_t n;
    enum err e = feed_read(tx, 0, r->last, 64, events, seqs, &n, info);

    for (size_t i = 0; i < n && !e; i++) {
        r->gap = r->gap || seqs[i] != r->last + 1;
        r->last = seqs[i];
        r->seen++;
    }
    return e;
}

static void *read_feed(void *arg)
{
    struct reader *r = arg;
    while (!r->stop)
        if (store_read(r->w->store, 0, "test", follow_rule, r, NULL))
            break;
    return NULL;
}

static void *write_events(void *arg)
{
    struct world *w = arg;
    for (int i = 0; i < EVENTS / 2; i++) {
        struct event_in in = { .event = { .type = EVENT_ORDER_PAID, .caller = 1, .sequence = 1 },
                               .number = i };
        struct store_job job;
        store_job_init(&job, w->env, w->mint, 4);
        job.name = "test";
        job.rule = emit_rule;
        job.arg = &in;
        if (store_run(w->store, &job, NULL) != STORE_COMMITTED)
            return (void *)"not written";
    }
    return NULL;
}

static void on_wake(void *ctx, const struct store_waked *wakes, size_t n)
{
    (void)wakes;
    (void)n;
    bus_wake(ctx);
}

static void no_gap_under_concurrency(void **state)
{
    (void)state;
    struct world w;
    struct receiver r = { .calls = 0 };
    struct taker t = { .how = ERR_OK };
    world_open(&w, true);
    struct consumer consumer = { "one", EVENT_BIT(EVENT_ORDER_PAID), taker_consume, &t };
    struct bus_options o = bus_world_options(&w, &r, &consumer, 1);
    struct bus *bus = bus_new(&o);
    struct err_info info = { .err = ERR_OK };
    store_set_wake(w.store, on_wake, bus);
    assert_ok(bus_start(bus, &info));

    struct reader reader = { .w = &w };
    pthread_t reading, writing[2];
    assert_int_equal(pthread_create(&reading, NULL, read_feed, &reader), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&writing[i], NULL, write_events, &w), 0);
    for (int i = 0; i < 2; i++) {
        void *trouble;
        pthread_join(writing[i], &trouble);
        assert_null(trouble);
    }
    while (ASK(&w, "SELECT count(*) FROM outbox_due") > 0)
        sched_yield();
    bus_stop(bus);
    reader.stop = true;
    pthread_join(reading, NULL);
    world_read(&w, follow_rule, &reader);

    while (reader.last < EVENTS) {
        int before = reader.seen;
        world_read(&w, follow_rule, &reader);
        assert_true(reader.seen > before);
    }
    assert_false(reader.gap);
    assert_int_equal(reader.seen, EVENTS);
    assert_int_equal(ASK(&w, "SELECT count(*) FROM consumed_event"), EVENTS);
    store_drain(w.store); /* its last wake goes to the bus */
    bus_free(bus);
    world_close(&w);
}

static void stop_and_start_again(void **state)
{
    (void)state;
    struct world w;
    struct receiver r = { .calls = 0 };
    world_open(&w, true);
    struct bus_options o = bus_world_options(&w, &r, NULL, 0);
    struct bus *bus = bus_new(&o);
    struct err_info info = { .err = ERR_OK };
    for (int i = 0; i < 3; i++) {
        assert_ok(bus_start(bus, &info));
        bus_stop(bus);
    }
    bus_stop(bus);
    bus_free(bus);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gap_under_concurrency),
        cmocka_unit_test(stop_and_start_again),
    };
    return RUN_TESTS(tests);
}
