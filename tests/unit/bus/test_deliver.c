/* Webhook deliveries: signed, by schedule, dead in the end, private addresses, isolation of
 * targets. */
#include "bus_world.h"

#include "bus/bus_inner.h"

struct grave {
    int n;
    char target[64], error[200];
};

struct fixture {
    struct world w;
    struct receiver r;
    struct bus *bus;
    struct grave grave;
};

static enum err on_dead(struct tx *tx, const struct event *event, struct str target,
                        struct str error, void *ctx, struct err_info *info)
{
    struct grave *g = ctx;
    (void)info;
    assert_true(tx_new_id(tx) != 0 && tx_new_id(tx) != 0);
    assert_int_equal(event->type, EVENT_ORDER_PAID);
    g->n++;
    receiver_copy(g->target, sizeof g->target, target);
    receiver_copy(g->error, sizeof g->error, error);
    return ERR_OK;
}

static void begin(struct fixture *f, bool private_ok)
{
    *f = (struct fixture) { .bus = NULL };
    world_open(&f->w, false);
    struct bus_options o = bus_world_options(&f->w, &f->r, NULL, 0);
    o.webhook_private = private_ok;
    o.on_dead = on_dead;
    o.on_dead_ctx = &f->grave;
    f->bus = bus_new(&o);
}

static void end(struct fixture *f)
{
    bus_free(f->bus);
    world_close(&f->w);
}

static void one_signed_post(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 42, 1, 0, "http://127.0.0.1:9/hook?x=1");
    struct event event = emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(f.r.calls, 1);
    assert_string_equal(f.r.url, "http://127.0.0.1:9/hook?x=1");
    assert_string_equal(f.r.pin, "127.0.0.1");
    assert_string_equal(f.r.id, number_text(event.no).s);
    assert_string_equal(f.r.timestamp, "1780000000");
    struct str secret = STR("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX");
    assert_str(
        webhook_signature(f.w.arena, str_of(f.r.id), 1780000000, str_of(f.r.body), &secret, 1),
        f.r.signature);
    assert_non_null(strstr(f.r.body, "\"type\":\"order.paid\""));
    assert_int_equal(ASK(&f.w, "SELECT state FROM event_delivery"), DELIVERY_DONE);
    assert_int_equal(deliver(f.bus), 0);
    end(&f);
}

static void only_what_was_subscribed(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 1, 1, EVENT_BIT(EVENT_ORDER_PAID), "http://127.0.0.1:9/a");
    subscribe(&f.w, 2, 2, 0, "http://127.0.0.1:9/b");
    subscribe(&f.w, 3, 0, 0, "http://127.0.0.1:9/c"); /* the installation's own: everything */
    emit(&f.w, EVENT_ORDER_PAID, 1, 1);
    emit(&f.w, EVENT_ORDER_CANCELLED, 1, 2);
    emit(&f.w, EVENT_ORDER_CANCELLED, 2, 3);
    emit(&f.w, EVENT_INCIDENT_OPENED, 0, 4);
    publish(f.bus);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE target = 'webhook:1'"),
                     1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE target = 'webhook:2'"),
                     1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE target = 'webhook:3'"),
                     4);
    end(&f);
}

static void sixteen_tries_in_a_day_then_dead(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 42, 1, 0, "http://127.0.0.1:9/hook");
    emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    f.r.next.status = 500;

    int64_t start = env_now_ms(f.w.env);
    for (int i = 1; i <= 16; i++) {
        assert_int_equal(deliver(f.bus), 1);
        assert_int_equal(f.r.calls, i);
        assert_int_equal(ASK(&f.w, "SELECT tries FROM event_delivery"), i);
        if (i == 16)
            break;
        int64_t next = ASK(&f.w, "SELECT next_time FROM event_delivery");
        env_test_advance(&f.w.test, next - env_now_ms(f.w.env) - 1);
        assert_int_equal(deliver(f.bus), 0); /* a moment too early */
        env_test_advance(&f.w.test, 1);
    }
    int64_t hours = (env_now_ms(f.w.env) - start) / 3600000;
    assert_true(hours >= 23 && hours <= 25);
    assert_int_equal(ASK(&f.w, "SELECT state FROM event_delivery"), DELIVERY_DEAD);
    assert_int_equal(f.grave.n, 1);
    assert_string_equal(f.grave.target, "webhook:42");
    assert_string_equal(f.grave.error, "answered 500");

    env_test_advance(&f.w.test, 100 * 3600000LL);
    assert_int_equal(deliver(f.bus), 0);
    assert_int_equal(f.r.calls, 16);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM delivery_due WHERE due = 9223372036854775807"),
                     1);
    end(&f);
}

static void a_redirect_is_a_failure(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 42, 1, 0, "http://127.0.0.1:9/hook");
    emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    f.r.next.status = 302;
    deliver(f.bus);
    assert_int_equal(ASK(&f.w, "SELECT state FROM event_delivery"), DELIVERY_PENDING);
    assert_int_equal(ASK(&f.w, "SELECT last_error = 'answered 302' FROM event_delivery"), 1);
    end(&f);
}

static void private_addresses_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = { "http://127.0.0.1:9/hook", "http://10.1.2.3/",
                                        "http://[::1]/", "http://169.254.169.254/latest/",
                                        "http://[::ffff:10.0.0.1]/" };
    struct fixture f;
    begin(&f, false);
    for (size_t i = 0; i < COUNT(urls); i++)
        subscribe(&f.w, (int64_t)i + 1, 1, 0, urls[i]);
    emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    for (size_t i = 0; i < COUNT(urls); i++)
        assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(f.r.calls, 0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE tries = 1 AND state = 0"),
                     COUNT(urls));
    end(&f);
}

/* What does not answer at all rests; the others of its claim are put back as they were, and other
 * targets have their turn. */
static void an_unreachable_target_waits_others_do_not(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 1, 1, 0, "http://127.0.0.1:9/a");
    subscribe(&f.w, 2, 2, 0, "http://127.0.0.1:9/b");
    emit(&f.w, EVENT_ORDER_PAID, 1, 0);
    publish(f.bus);
    assert_int_equal(deliver(f.bus), 1); /* it is trusted now */
    int64_t due_ms = env_now_ms(f.w.env);
    for (int i = 1; i < 5; i++)
        emit(&f.w, EVENT_ORDER_PAID, 1, i);
    emit(&f.w, EVENT_ORDER_PAID, 2, 9);
    publish(f.bus);
    env_test_advance(&f.w.test, 1000);

    f.r.next = (struct http_reply) { .outcome = HTTP_NOT_SENT, .trouble = STR("refused") };
    f.bus->suspects_first = false;
    assert_int_equal(deliver(f.bus), 1);
    assert_string_equal(f.r.url, "http://127.0.0.1:9/a");
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE tries > 0"), 2);
    assert_int_equal(ASK(&f.w,
                         "SELECT count(*) FROM event_delivery d JOIN delivery_due u ON u.target "
                         "= d.target AND u.event_id = d.event_id AND u.due = d.next_time "
                         "WHERE d.target = 'webhook:1' AND tries = 0 AND lease_until = 0"),
                     3);
    assert_int_equal(ASK(&f.w, "SELECT max(next_time) FROM event_delivery WHERE tries = 0"),
                     due_ms);

    f.r.next = (struct http_reply) { .outcome = HTTP_ANSWERED, .status = 200 };
    assert_int_equal(deliver(f.bus), 1);
    assert_string_equal(f.r.url, "http://127.0.0.1:9/b");
    assert_int_equal(deliver(f.bus), 0);
    env_test_advance(&f.w.test, 5000);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(deliver(f.bus), 3);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 1"), 6);
    end(&f);
}

/* A claim ends when its time is over; the rest goes on at once. */
static void a_claim_has_its_time(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 1, 1, 0, "http://127.0.0.1:9/a");
    for (int i = 0; i < 6; i++)
        emit(&f.w, EVENT_ORDER_PAID, 1, i);
    publish(f.bus);
    f.r.takes_ms = 1500;
    assert_int_equal(deliver(f.bus), 1); /* one, until it is known */
    assert_int_equal(deliver(f.bus), 2);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 0 AND tries = 0 "
                               "AND lease_until = 0"),
                     3);
    f.r.takes_ms = 7000; /* slow: one at a time */
    for (int i = 0; i < 3; i++)
        assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery WHERE state = 1"), 6);
    assert_int_equal(f.r.calls, 6);
    end(&f);
}

/* The process ends with one on the wire: half a minute later it is tried again. */
static void in_flight_at_a_crash(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 1, 1, 0, "http://127.0.0.1:9/a");
    emit(&f.w, EVENT_ORDER_PAID, 1, 1);
    publish(f.bus);
    f.r.next.status = 500;
    SQL(again, "SELECT next_time FROM event_delivery WHERE lease_until = next_time");
    f.r.while_sending = &again;
    int64_t began_ms = env_now_ms(f.w.env);
    assert_int_equal(deliver(f.bus), 1);
    assert_int_equal(f.r.seen, began_ms + 30000);
    end(&f);
}

static enum err off_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return webhook_set(tx, *(int64_t *)arg, 42, false, info);
}

static void switched_off_and_whose(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 42, 1, 0, "http://127.0.0.1:9/hook");
    emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    int64_t stranger = 2, owner = 1;
    struct err_info info = { .err = ERR_OK };
    assert_int_equal(world_try(&f.w, off_rule, &stranger, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_NOT_FOUND);
    world_run(&f.w, off_rule, &owner);
    deliver(f.bus);
    assert_int_equal(f.r.calls, 0);
    emit(&f.w, EVENT_ORDER_PAID, 1, 9);
    publish(f.bus);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM event_delivery"), 1);
    end(&f);
}

static enum err rotate_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return webhook_rotate(tx, 1, 42, *(struct str *)arg, info);
}

static void both_secrets_sign_while_rotating(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, true);
    subscribe(&f.w, 42, 1, 0, "http://127.0.0.1:9/hook");
    struct str fresh;
    assert_ok(secret_encrypt(f.w.env, MASTER_KEY, STR("webhook:42"),
                             STR("whsec_/////////////////////w=="), f.w.arena, &fresh));
    world_run(&f.w, rotate_rule, &fresh);
    emit(&f.w, EVENT_ORDER_PAID, 1, 8);
    publish(f.bus);
    assert_int_equal(deliver(f.bus), 1);
    struct str secrets[] = { STR("whsec_/////////////////////w=="),
                             STR("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX") };
    assert_str(
        webhook_signature(f.w.arena, str_of(f.r.id), 1780000000, str_of(f.r.body), secrets, 2),
        f.r.signature);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_signed_post),
        cmocka_unit_test(only_what_was_subscribed),
        cmocka_unit_test(sixteen_tries_in_a_day_then_dead),
        cmocka_unit_test(a_redirect_is_a_failure),
        cmocka_unit_test(private_addresses_are_refused),
        cmocka_unit_test(an_unreachable_target_waits_others_do_not),
        cmocka_unit_test(a_claim_has_its_time),
        cmocka_unit_test(in_flight_at_a_crash),
        cmocka_unit_test(switched_off_and_whose),
        cmocka_unit_test(both_secrets_sign_while_rotating),
    };
    return RUN_TESTS(tests);
}
