/* Several delivery workers and targets that hang, are slow, or recover: fibres on a virtual clock,
 * switched where a request is on the wire. A target's requests go to /<its webhook id>. */
#include "bus_world.h"

#include "base/fibre.h"
#include "bus/bus_inner.h"

#define WORKERS_MAX 8
#define TARGETS     10
#define NEVER       INT64_MAX
#define HANG_MS     15000 /* what a target that never answers costs a worker */
#define USUAL_MS    20
#define EVENTS_MAX  2000

struct target {
    bool silent;
    int64_t takes_ms;
    int64_t feed_ms, next_feed_ms; /* an event so often */
    int calls, answered;
    int on_wire, most_on_wire;
    int64_t worst_ms; /* from the event to its answer */
    int64_t last_ms;  /* of its last answer */
};

struct worker {
    struct field *field;
    struct fibre *fibre;
    int64_t wake_ms;
    bool idle;
};

struct field {
    struct transport transport; /* first */
    struct world w;
    struct receiver unused;
    struct bus *bus;
    struct worker workers[WORKERS_MAX], *now;
    int worker_count;
    struct target targets[TARGETS + 1];
    int64_t emitted_ms[EVENTS_MAX];
    int events, hanging, most_hanging;
    bool trouble;
};

static void wait_until(struct field *f, int64_t ms, bool idle)
{
    struct worker *self = f->now;
    self->wake_ms = ms;
    self->idle = idle;
    fibre_yield();
}

static int64_t number_after(struct arena *a, struct str text, const char *key)
{
    const char *found = strstr(str_cstr(a, text), key);
    return found ? strtoll(found + strlen(key), NULL, 10) : 0;
}

static void exchange(struct transport *t, struct env *env, const struct http_call *call,
                     struct arena *a, struct http_reply *ret)
{
    struct field *f = (struct field *)(void *)t;
    struct target *to = &f->targets[number_after(a, call->url, ":9/")];
    int64_t emitted_ms = f->emitted_ms[number_after(a, call->body, "\"n\":")];
    bool silent = to->silent;

    to->calls++;
    if (++to->on_wire > to->most_on_wire)
        to->most_on_wire = to->on_wire;
    f->hanging += silent;
    if (f->hanging > f->most_hanging)
        f->most_hanging = f->hanging;
    wait_until(f, env_now_ms(env) + (silent ? HANG_MS : to->takes_ms), false);
    f->hanging -= silent;
    to->on_wire--;
    *ret = (struct http_reply) { .outcome = HTTP_UNKNOWN, .trouble = STR("timeout") };
    if (silent)
        return;
    *ret = (struct http_reply) { .outcome = HTTP_ANSWERED, .status = 200 };
    to->answered++;
    to->last_ms = env_now_ms(env);
    if (to->last_ms - emitted_ms > to->worst_ms)
        to->worst_ms = to->last_ms - emitted_ms;
}

/* As the bus's own threads: turns until one finds nothing, then a sweep a second later. */
static void work(void *arg)
{
    struct worker *self = arg;
    for (;;) {
        struct err_info info = { .err = ERR_OK };
        size_t done = 0;
        if (bus_deliver_turn(self->field->bus, &done, &info))
            self->field->trouble = true;
        if (!done)
            wait_until(self->field, env_now_ms(self->field->w.env) + 1000, true);
    }
}

static void begin(struct field *f, int workers, int targets)
{
    *f = (struct field) { .transport = { .exchange = exchange }, .worker_count = workers };
    world_open(&f->w, false);
    struct bus_options o = bus_world_options(&f->w, &f->unused, NULL, 0);
    o.transport = &f->transport;
    o.webhook_workers = (unsigned)workers;
    f->bus = bus_new(&o);
    for (int i = 1; i <= targets; i++) {
        subscribe(&f->w, i, i, 0,
                  str_cstr(f->w.arena, str_printf(f->w.arena, "http://127.0.0.1:9/%d", i)));
        f->targets[i].takes_ms = USUAL_MS;
    }
    for (int i = 0; i <= TARGETS; i++)
        f->targets[i].next_feed_ms = NEVER;
    for (int i = 0; i < f->worker_count; i++)
        f->workers[i] = (struct worker) {
            .field = f,
            .fibre = fibre_new(work, &f->workers[i], 256 * 1024),
            .wake_ms = env_now_ms(f->w.env) + i,
        };
}

/* Once nothing is on the wire. */
static void end(struct field *f)
{
    assert_false(f->trouble);
    for (int i = 0; i < f->worker_count; i++) {
        assert_true(f->workers[i].idle);
        fibre_free(f->workers[i].fibre);
    }
    bus_free(f->bus);
    world_close(&f->w);
}

static void emit_to(struct field *f, int target, int n)
{
    for (int i = 0; i < n; i++) {
        assert_true(f->events < EVENTS_MAX);
        f->emitted_ms[f->events] = env_now_ms(f->w.env);
        emit(&f->w, EVENT_ORDER_PAID, target, f->events++);
    }
    publish(f->bus);
    for (int i = 0; i < f->worker_count; i++)
        if (f->workers[i].idle)
            f->workers[i].wake_ms = env_now_ms(f->w.env);
}

static void feed(struct field *f, int target, int64_t every_ms)
{
    f->targets[target].feed_ms = every_ms;
    f->targets[target].next_feed_ms = every_ms ? env_now_ms(f->w.env) : NEVER;
}

/* What comes first happens first. */
static void pass(struct field *f, int64_t ms)
{
    int64_t end_ms = env_now_ms(f->w.env) + ms;
    for (;;) {
        struct target *fed = &f->targets[0];
        struct worker *worker = &f->workers[0];
        for (int i = 1; i <= TARGETS; i++)
            if (f->targets[i].next_feed_ms < fed->next_feed_ms)
                fed = &f->targets[i];
        for (int i = 1; i < f->worker_count; i++)
            if (f->workers[i].wake_ms < worker->wake_ms)
                worker = &f->workers[i];
        bool feeds = fed->next_feed_ms <= worker->wake_ms;
        int64_t at_ms = feeds ? fed->next_feed_ms : worker->wake_ms;
        if (at_ms > end_ms)
            break;
        if (at_ms > env_now_ms(f->w.env))
            env_test_advance(&f->w.test, at_ms - env_now_ms(f->w.env));
        if (feeds) {
            fed->next_feed_ms += fed->feed_ms;
            emit_to(f, (int)(fed - f->targets), 1);
        } else {
            f->now = worker;
            fibre_resume(worker->fibre);
        }
    }
    env_test_advance(&f->w.test, end_ms - env_now_ms(f->w.env));
}

static void all_answer(struct field *f)
{
    for (int i = 1; i <= TARGETS; i++) {
        feed(f, i, 0);
        f->targets[i].silent = false;
        f->targets[i].takes_ms = USUAL_MS;
    }
    pass(f, 600000);
}

/* Six targets accept and never answer; the seventh, which answers, does not notice. */
static void hanging_targets_take_one_worker_of_four(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 7);
    feed(&f, 7, 500);
    pass(&f, 2000);
    for (int i = 1; i <= 6; i++) {
        f.targets[i].silent = true;
        emit_to(&f, i, 20);
        feed(&f, i, 20000);
    }
    pass(&f, 120000);
    assert_true(f.targets[7].worst_ms <= 2 * USUAL_MS);
    assert_int_equal(f.targets[7].answered, 2 * 122);
    assert_int_equal(f.most_hanging, 1);
    for (int i = 1; i <= 6; i++)
        assert_true(f.targets[i].calls > 0);
    all_answer(&f);
    end(&f);
}

/* Those that begin to hang while trusted hold what they have, once. */
static void trusted_targets_that_begin_to_hang(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 4);
    for (int i = 1; i <= 4; i++)
        feed(&f, i, 500);
    pass(&f, 4000);
    for (int i = 1; i <= 3; i++)
        f.targets[i].silent = true;
    pass(&f, 2000);
    assert_int_equal(f.hanging, 4);
    pass(&f, HANG_MS);
    assert_true(f.targets[4].worst_ms <= HANG_MS + 100);
    f.targets[4].worst_ms = f.most_hanging = 0;
    pass(&f, 120000);
    assert_true(f.targets[4].worst_ms <= 2 * USUAL_MS);
    assert_int_equal(f.most_hanging, 1);
    all_answer(&f);
    end(&f);
}

/* Answers that take long are answers, but they hold a worker as well. */
static void slow_targets_share_a_worker_and_have_their_turns(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 4);
    feed(&f, 1, 500);
    for (int i = 2; i <= 4; i++) {
        f.targets[i].takes_ms = 9000;
        emit_to(&f, i, 20);
    }
    pass(&f, 100000);
    assert_true(f.targets[1].worst_ms <= 10000); /* not heard of, it had to wait for one of them */
    f.targets[1].worst_ms = 0;
    pass(&f, 100000);
    assert_true(f.targets[1].worst_ms <= 2 * USUAL_MS);
    for (int i = 2; i <= 4; i++)
        assert_in_range(f.targets[i].answered, 6, 8);
    all_answer(&f);
    end(&f);
}

/* The rest grows to five minutes: of a target that is back after an hour, all is delivered at full
 * speed then; each try was counted, and nothing else. */
static void a_target_that_recovers_gets_its_backlog_at_full_speed(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 1);
    f.targets[1].silent = true;
    emit_to(&f, 1, 100);
    pass(&f, 3600000);
    int tries = f.targets[1].calls;
    assert_in_range(tries, 12, 20); /* 15 s each, and 5, 10, 20, 40, 80, 160, 300, 300 s … */
    assert_int_equal(ASK(&f.w, "SELECT sum(tries) FROM event_delivery"), tries);
    assert_int_equal(
        ASK(&f.w,
            "SELECT count(*) FROM event_delivery WHERE tries = 0 AND next_time = create_time"),
        100 - tries);

    f.targets[1].silent = false;
    int64_t back_ms = env_now_ms(f.w.env);
    f.targets[1].most_on_wire = 0;
    pass(&f, 3600000);
    assert_int_equal(f.targets[1].answered, 100);
    assert_int_equal(f.targets[1].most_on_wire, 2);
    assert_true(f.targets[1].last_ms <= back_ms + 300000 + 100 / 2 * USUAL_MS + 1000);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 1"), 100);
    assert_int_equal(ASK(&f.w, "SELECT sum(tries) FROM event_delivery"), tries + 100);
    end(&f);
}

/* At the start nobody is known: each waits for its first answer once. */
static void all_are_heard_of_after_a_start(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 10);
    for (int i = 1; i <= 10; i++) {
        f.targets[i].silent = i > 7;
        emit_to(&f, i, 3);
    }
    pass(&f, 3 * HANG_MS + 1000);
    for (int i = 1; i <= 7; i++)
        assert_int_equal(f.targets[i].answered, 3);
    all_answer(&f);
    end(&f);
}

/* Each kind has its turns, however much the other has to do. */
static void one_worker_serves_both_kinds(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 1, 4);
    feed(&f, 1, 15); /* more than it can take */
    pass(&f, 1000);
    for (int i = 2; i <= 4; i++) {
        f.targets[i].takes_ms = 3000;
        emit_to(&f, i, 20);
    }
    pass(&f, 11000);
    for (int i = 2; i <= 4; i++)
        assert_in_range(f.targets[i].answered, 1, 2);
    feed(&f, 1, 0);
    pass(&f, 300000);
    for (int i = 2; i <= 4; i++)
        emit_to(&f, i, 20);
    f.targets[1].worst_ms = f.targets[1].answered = 0;
    feed(&f, 1, 4000);
    pass(&f, 62000);
    assert_true(f.targets[1].worst_ms <= 3000 + USUAL_MS);
    assert_int_equal(f.targets[1].answered, 60 / 4 + 1);
    all_answer(&f);
    end(&f);
}

static void of_eight_workers_two_are_for_suspects(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 8, 4);
    f.targets[4].takes_ms = 3000;
    emit_to(&f, 4, 5);
    pass(&f, 20000);
    assert_int_equal(f.targets[4].answered, 5);
    assert_int_equal(f.targets[4].most_on_wire, 1);
    for (int i = 1; i <= 3; i++) {
        f.targets[i].takes_ms = 3000;
        emit_to(&f, i, 20);
    }
    f.targets[3].silent = true;
    pass(&f, 60000);
    assert_int_equal(f.hanging, 1);
    for (int i = 1; i <= 3; i++)
        assert_int_equal(f.targets[i].most_on_wire, 1);
    assert_true(f.targets[1].answered + f.targets[2].answered < 2 * 60 / 3 - 15 / 3);
    assert_true(f.targets[1].answered + f.targets[2].answered > 60 / 3 + 3);
    all_answer(&f);
    end(&f);
}

/* What is remembered has a limit; the forgotten are heard of again. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct field f;
    begin(&f, 4, 2);
    for (int64_t i = 3; i < 3 * WEBHOOKS_MAX; i++)
        assert_int_equal(target_heard(f.bus, i, i % 2, 10), i % 2);
    assert_int_equal(f.bus->known_count, KNOWN_TARGETS_MAX);
    emit_to(&f, 1, 100);
    emit_to(&f, 2, 100);
    pass(&f, 4000);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(f.targets[i].answered, 100);
        assert_int_equal(f.targets[i].most_on_wire, 2);
    }
    assert_int_equal(f.bus->known_count, KNOWN_TARGETS_MAX);
    assert_int_equal(f.bus->known[f.bus->known_next % KNOWN_TARGETS_MAX].webhook,
                     2 * WEBHOOKS_MAX + 2); /* the oldest that is left */
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hanging_targets_take_one_worker_of_four),
        cmocka_unit_test(trusted_targets_that_begin_to_hang),
        cmocka_unit_test(slow_targets_share_a_worker_and_have_their_turns),
        cmocka_unit_test(a_target_that_recovers_gets_its_backlog_at_full_speed),
        cmocka_unit_test(all_are_heard_of_after_a_start),
        cmocka_unit_test(one_worker_serves_both_kinds),
        cmocka_unit_test(of_eight_workers_two_are_for_suspects),
        cmocka_unit_test(memory_is_bounded),
    };
    return RUN_TESTS(tests);
}
