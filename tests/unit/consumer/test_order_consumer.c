/* The order consumer on the bus: from a callback to a settled order, and what a dead delivery
 * becomes. */
#include "../flow_world.h"

#include "consumer/consumer.h"
#include "core/incident/incident.h"
#include "core/resolve/resolve.h"

static struct bus *bus_over(struct flow_world *f)
{
    const struct consumer consumers[] = { order_consumer(&f->c) };
    struct bus_options o = {
        .env = f->w.env,
        .store = f->w.store,
        .mint = f->w.mint,
        .consumers = consumers,
        .consumer_count = 1,
        .source = STR("test"),
        .on_dead = consumer_on_dead,
    };
    return bus_new(&o);
}

static void turn(struct bus *bus)
{
    size_t done;
    struct err_info info = { .err = ERR_OK };
    assert_ok(bus_turn(bus, &done, &info));
}

static void success_settles_the_order(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct bus *bus = bus_over(&f);
    struct attempt at = flow_attempt(&f, "A1");
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    assert_int_equal(flow_order(&f, at.order_no).status, ORDER_PAYING);
    turn(bus);
    assert_int_equal(flow_order(&f, at.order_no).status, ORDER_PAID);
    assert_int_equal(flow_payment(&f, at.pay_no).settled, SETTLED_WON);
    turn(bus); /* order.paid */
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM outbox_due"), 0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_feed"), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM consumed_event"), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery"), 0);
    bus_free(bus);
    flow_world_close(&f);
}

static void a_refund_reaches_the_order(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct bus *bus = bus_over(&f);
    struct attempt at = flow_attempt(&f, "A1");
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8800));
    turn(bus);
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "REFUND", at.pay_no, "W1", 3000));
    assert_int_equal(flow_order(&f, at.order_no).refund_status, REFUNDED_NONE);
    turn(bus);
    turn(bus);
    assert_int_equal(flow_order(&f, at.order_no).refund_status, REFUNDED_PART);
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "REFUND", at.pay_no, "W2", 5800));
    turn(bus);
    assert_int_equal(flow_order(&f, at.order_no).refund_status, REFUNDED_FULL);
    bus_free(bus);
    flow_world_close(&f);
}

static void the_last_attempt_ended(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct bus *bus = bus_over(&f);
    struct attempt failed = flow_attempt(&f, "A1"), closed = flow_attempt(&f, "A2");
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "FAILED", failed.pay_no, "", 8800));
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "SHUT", closed.pay_no, "", 8800));
    turn(bus);
    assert_int_equal(flow_order(&f, failed.order_no).status, ORDER_PAY_FAILED);
    assert_int_equal(flow_order(&f, closed.order_no).status, ORDER_PAY_FAILED);
    bus_free(bus);
    flow_world_close(&f);
}

static enum err stuck_rule(struct tx *tx, void *pay_no, struct err_info *info)
{
    struct incident incident = { .kind = INCIDENT_QUERY_STUCK,
                                 .subject = *(struct number *)pay_no,
                                 .detail = STR("nobody knows") };
    enum err e = incident_open(tx, &incident, NULL, info);
    incident.kind = INCIDENT_TRANSACTION_CLASH; /* not answered by its end */
    return e ? e : incident_open(tx, &incident, NULL, info);
}

static void an_end_answers_what_was_stuck(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct bus *bus = bus_over(&f);
    struct attempt paid = flow_attempt(&f, "A1"), closed = flow_attempt(&f, "A2");
    world_run(&f.w, stuck_rule, &paid.pay_no);
    world_run(&f.w, stuck_rule, &closed.pay_no);
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", paid.pay_no, "T1", 8800));
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "SHUT", closed.pay_no, "", 8800));
    turn(bus);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM incident WHERE state = 1 AND kind = 8 AND "
                               "resolution = 9"),
                     2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM incident WHERE state = 0 AND kind = 5"), 2);
    bus_free(bus);
    flow_world_close(&f);
}

struct dead {
    struct event event;
    struct str target;
};

static enum err dead_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct dead *d = arg;
    return consumer_on_dead(tx, &d->event, d->target, STR("answered 500"), NULL, info);
}

static void the_dead_are_told_of(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    for (int i = 0; i < 3; i++) {
        struct dead hook = { .event = { .no = number_make(NUMBER_EVENT, 1, 1000 + i),
                                        .type = EVENT_ORDER_PAID,
                                        .caller = 1 },
                             .target = STR("webhook:5") };
        struct dead box = hook;
        box.target = STR("consumer:order");
        world_run(&f.w, dead_rule, &hook);
        world_run(&f.w, dead_rule, &box);
    }
    /* One for the webhook, counting; one an event for the consumer in the box. */
    assert_int_equal(
        ASK(&f.w, "SELECT count(*) FROM incident WHERE kind = 10 AND discriminator = 'webhook:5'"),
        1);
    assert_int_equal(ASK(&f.w, "SELECT count FROM incident WHERE discriminator = 'webhook:5'"), 3);
    assert_int_equal(
        ASK(&f.w, "SELECT count(*) FROM incident WHERE discriminator = 'consumer:order'"), 3);
    flow_world_close(&f);
}

/* A webhook that was gone for long, and the operator's word that it is back: more than one rule
 * takes up. */
#define BURIED 120

static enum err bury_rule(struct tx *tx, void *arg, struct err_info *info)
{
    static const struct sql delivery = {
        "delivery", "INSERT INTO event_delivery (event_id, target, state, tries, next_time, "
                    "lease_until, last_error, version, create_time, update_time) VALUES (?, ?, 2, "
                    "16, 9223372036854775807, 0, 'gone', 1, 0, 0)"
    };
    static const struct sql due = {
        "due", "INSERT INTO delivery_due (target, due, event_id) VALUES (?, 9223372036854775807, ?)"
    };
    const struct dead *d = arg;
    struct bind target = bind_text(d->target);
    enum err e = ERR_OK;
    for (int64_t i = 1; !e && i <= BURIED; i++) {
        e = tx_exec(tx, &delivery, BINDS(bind_int(i), target), NULL, info);
        if (!e)
            e = tx_exec(tx, &due, BINDS(target, bind_int(i)), NULL, info);
    }
    return e;
}

static enum code retry(struct flow_world *f, const char *where)
{
    struct act act = { .actor = STR("operator:amy"), .arena = f->w.arena };
    SQL(webhook, "SELECT id FROM incident WHERE discriminator = 'webhook:5'");
    SQL(box, "SELECT id FROM incident WHERE discriminator = 'consumer:order'");
    int64_t id = world_ask(&f->w, *where == 'w' ? &webhook : &box);
    struct resolve r = { .incident_no = number_make(NUMBER_INCIDENT, *where == 'w' ? 0 : 1, id),
                         .any_caller = true,
                         .action = ACTION_RETRY,
                         .who = act.actor,
                         .reason = STR("it is back") };
    struct resolved ret;
    struct refusal refusal = { 0 };
    return resolve_incident(&f->c, &act, &r, &ret, &refusal);
}

static void the_dead_are_tried_again(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    struct dead hook = {
        .event = { .no = number_make(NUMBER_EVENT, 1, 3), .type = EVENT_ORDER_PAID, .caller = 1 },
        .target = STR("webhook:5")
    };
    struct dead box = hook, other = hook;
    box.target = STR("consumer:order");
    other.target = STR("webhook:6");
    world_run(&f.w, bury_rule, &hook);
    world_run(&f.w, bury_rule, &box);
    world_run(&f.w, bury_rule, &other);
    world_run(&f.w, dead_rule, &hook);
    world_run(&f.w, dead_rule, &box);

    assert_int_equal(retry(&f, "webhook"), CODE_OK);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE target = 'webhook:5' AND "
                               "state = 0 AND tries = 0"),
                     BURIED);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM delivery_due WHERE target = 'webhook:5' AND "
                               "due <= 1780000000000"),
                     BURIED);
    assert_int_equal(retry(&f, "consumer"), CODE_OK);
    assert_int_equal(ASK(&f.w, "SELECT event_id FROM event_delivery WHERE target = "
                               "'consumer:order' AND state = 0"),
                     3);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 2"),
                     2 * BURIED - 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM incident WHERE state = 0"), 0);
    flow_world_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(success_settles_the_order),
        cmocka_unit_test(a_refund_reaches_the_order),
        cmocka_unit_test(the_last_attempt_ended),
        cmocka_unit_test(an_end_answers_what_was_stuck),
        cmocka_unit_test(the_dead_are_told_of),
        cmocka_unit_test(the_dead_are_tried_again),
    };
    return RUN_TESTS(tests);
}
