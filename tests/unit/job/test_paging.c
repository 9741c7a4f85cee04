/* test_paging.c -- what goes page by page skips nothing and repeats nothing while rows are inserted
 * and moved between two pages. */
#include "../flow_world.h"

#include "bus/bus.h"
#include "core/payment/flow.h"
#include "job/job.h"

#define ATTEMPTS 120

static void begin(struct flow_world *f, struct attempt *at, size_t n)
{
    flow_world_open(f, false);
    fake_channel.query_outcome = CHANNEL_DONE; /* and nothing new */
    flow_attempts(f, at, n);
    env_test_advance(&f->w.test, 30000);
}

/* Ten a turn; between two, others become due that are older and newer than what is under way, and
 * some that were asked move on. */
static void the_query_ladder(void **state)
{
    (void)state;
    struct flow_world f;
    struct attempt at[ATTEMPTS];
    struct err_info info = { .err = ERR_OK };
    size_t done = 1, turns = 0, total = ATTEMPTS;
    begin(&f, at, ATTEMPTS);
    for (; done; turns++) {
        assert_ok(payment_due_turn(&f.c, 10, &done, &info));
        if (turns >= 5)
            continue;
        for (int i = 0; i < 5; i++, total++) { /* due in 30 s, newer than all */
            char name[16];
            snprintf(name, sizeof name, "F%zu.%d", turns, i);
            flow_attempt(&f, name);
        }
        /* One of them at once, older than all. */
        SQL(sooner, "UPDATE payment_due SET due = due - 45000 WHERE id IN (SELECT max(id) FROM "
                    "payment_order)");
        SQL(its_rung, "UPDATE payment_order SET next_query_time = next_query_time - 45000 WHERE id "
                      "IN (SELECT max(id) FROM payment_order)");
        world_exec(&f.w, &sooner);
        world_exec(&f.w, &its_rung);
    }
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM (SELECT subject_id FROM channel_call GROUP BY "
                               "subject_id HAVING count(*) > 1) d"),
                     0);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM channel_call"), ATTEMPTS + 5);
    env_test_advance(&f.w.test, 30000); /* the others */
    for (done = 1; done;)
        assert_ok(payment_due_turn(&f.c, 10, &done, &info));
    assert_int_equal(ASK(&f.w, "SELECT count(DISTINCT subject_id) FROM channel_call"), total);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM channel_call"), total);
    flow_world_close(&f);
}

/* Between two pages of the sweep successes come in and the ladder moves what it has reached. */
static void the_settle_sweep(void **state)
{
    (void)state;
    struct flow_world f;
    static struct attempt at[ATTEMPTS];
    struct err_info info = { .err = ERR_OK };
    size_t repaired = 1, total = 0, rounds = 0;
    begin(&f, at, ATTEMPTS);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        char transaction[16];
        snprintf(transaction, sizeof transaction, "T%zu", i);
        flow_callback(&f, f.account,
                      notice_text(f.w.arena, "ok", "PAID", at[i].pay_no, transaction, 8800));
    }
    env_test_advance(&f.w.test, 61000);
    for (; repaired; total += repaired, rounds++) {
        struct attempt fresh;
        char name[16];
        snprintf(name, sizeof name, "F%zu", rounds);
        assert_ok(order_settle_sweep(&f.c, 7, &repaired, &info));
        if (repaired && rounds < 9) {
            fresh = flow_attempt(&f, name);
            flow_callback(&f, f.account,
                          notice_text(f.w.arena, "ok", "PAID", fresh.pay_no, name, 8800));
            SQL(moved, "UPDATE payment_due SET due = due + 3600000 WHERE id IN (SELECT id FROM "
                       "payment_order WHERE settled <> 0)");
            world_exec(&f.w, &moved);
        }
    }
    assert_int_equal(total, ATTEMPTS); /* the fresh ones are younger than a minute */
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM order_info WHERE order_status = 2"), ATTEMPTS);
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM (SELECT subject_id FROM state_journal WHERE "
                               "kind = 79 AND to_status = 2 GROUP BY subject_id HAVING count(*) > "
                               "1) d"),
                     0);
    flow_world_close(&f);
}

struct feed_page {
    int64_t after;
    struct event events[7];
    int64_t seqs[7];
    size_t n;
};
static enum err feed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct feed_page *p = arg;
    return feed_read(tx, 0, p->after, 7, p->events, p->seqs, &p->n, info);
}

/* Events are published while somebody reads: each is read once, in order, without gaps. */
static void the_feed(void **state)
{
    (void)state;
    struct flow_world f;
    struct attempt at[60];
    struct err_info info = { .err = ERR_OK };
    struct feed_page page = { .after = 0, .n = 1 };
    size_t paid = 0, read = 0, done;
    begin(&f, at, COUNT(at));
    struct bus_options o = { .env = f.w.env, .store = f.w.store, .mint = f.w.mint };
    struct bus *bus = bus_new(&o);
    while (page.n || paid < COUNT(at)) {
        for (size_t i = 0; i < 5 && paid < COUNT(at); i++, paid++) {
            char transaction[16];
            snprintf(transaction, sizeof transaction, "T%zu", paid);
            flow_callback(&f, f.account,
                          notice_text(f.w.arena, "ok", "PAID", at[COUNT(at) - 1 - paid].pay_no,
                                      transaction, 8800));
        }
        assert_ok(bus_turn(bus, &done, &info));
        assert_ok(store_read(f.w.store, 0, "feed", feed_rule, &page, &info));
        for (size_t i = 0; i < page.n; i++, read++)
            assert_int_equal(page.seqs[i], ++page.after);
    }
    assert_int_equal(read, ASK(&f.w, "SELECT count(*) FROM outbox"));
    assert_true(read >= COUNT(at));
    bus_free(bus);
    flow_world_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_query_ladder),
        cmocka_unit_test(the_settle_sweep),
        cmocka_unit_test(the_feed),
    };
    return RUN_TESTS(tests);
}
