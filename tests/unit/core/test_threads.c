/* Many at once on the threaded store: one order, one open attempt, one winner, whatever the order
 * in which they come. */
#include "core_world.h"

#include <pthread.h>

#define THREADS 8

struct crowd {
    struct core w;
    struct number order_no;
    pthread_barrier_t gate;
    _Atomic int calls; /* on the wire at this moment, and the most ever seen */
    _Atomic int most;
    struct number pay_no;
    _Atomic int refunds, made, same, exceeded;
};

static struct crowd *the_crowd; /* the fake channel has no better place */

static void on_the_wire(void)
{
    int now = ++the_crowd->calls;
    if (now > the_crowd->most)
        the_crowd->most = now;
    for (volatile int i = 0; i < 200000; i++)
        ;
    the_crowd->calls--;
}

static void crowd_prepay(struct account *account, const struct channel_ctx *ctx,
                         enum pay_method method, const struct channel_request *request,
                         struct channel_answer *ret)
{
    (void)account;
    (void)ctx;
    (void)method;
    (void)request;
    on_the_wire();
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE,
                                     .credentials = STR("{\"code_url\":\"x\"}") };
}

static void crowd_refund(struct account *account, const struct channel_ctx *ctx,
                         const struct channel_request *request, struct channel_answer *ret)
{
    (void)account;
    (void)ctx;
    (void)request;
    the_crowd->refunds++;
    on_the_wire();
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE };
}

static void crowd_query_refund(struct account *account, const struct channel_ctx *ctx,
                               struct str refund_no, struct channel_answer *ret)
{
    (void)account;
    (void)ctx;
    (void)refund_no;
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE };
}

static struct channel_driver crowd_driver;
static struct channel_info crowd_info;

static void crowd_open(struct crowd *k)
{
    memset(k, 0, sizeof *k);
    the_crowd = k;
    core_open(&k->w);
    store_close(k->w.world.store);
    struct store_options o = world_options(&k->w.world, true);
    struct err_info info = { 0 };
    assert_ok(store_open(&o, &k->w.world.store, &info));
    k->w.c.store = k->w.world.store;
    crowd_driver = fake_driver;
    crowd_driver.prepay = crowd_prepay;
    crowd_driver.refund = crowd_refund;
    crowd_driver.query_refund = crowd_query_refund;
    crowd_info = fake_wechat;
    crowd_info.refund_gap_ms = 0;
    crowd_info.driver = &crowd_driver;
    core_account(&k->w, &crowd_info, "main");
    pthread_barrier_init(&k->gate, NULL, THREADS);
    k->order_no = core_order(&k->w, "o1", 8800).no;
}

static void crowd_run(struct crowd *k, void *(*fn)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fn, k), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *starts(void *arg)
{
    struct crowd *k = arg;
    struct arena *arena = arena_new(4096);
    struct act act = k->w.act;
    struct payment_new n = payment_input(k->order_no);
    struct payment p;
    enum payment_started how;
    struct refusal r = { 0 };
    act.arena = arena;
    pthread_barrier_wait(&k->gate);
    enum code code = payment_start(&k->w.c, &act, &n, &p, &how, &r);
    assert_true(code == CODE_OK || code == CODE_REQUEST_IN_FLIGHT);
    arena_free(arena);
    return NULL;
}

static void one_open_attempt(void **state)
{
    (void)state;
    static struct crowd k;
    crowd_open(&k);
    crowd_run(&k, starts);
    assert_int_equal(ASK(&k.w.world, "SELECT count(*) FROM payment_order"), 1);
    assert_int_equal(ASK(&k.w.world, "SELECT calls FROM payment_order"), 1);
    assert_int_equal(k.most, 1);
    assert_int_equal(order_status_of(&k.w, k.order_no), ORDER_PAYING);
    core_check(&k.w);
}

static _Atomic int turn;

/* Half cancel, half start: either order of events is fine, a mixture is not. */
static void *starts_or_cancels(void *arg)
{
    struct crowd *k = arg;
    struct arena *arena = arena_new(4096);
    struct act act = k->w.act;
    struct payment_new n = payment_input(k->order_no);
    struct payment p;
    struct order o;
    enum payment_started how;
    struct refusal r = { 0 };
    bool closing;
    act.arena = arena;
    bool cancels = turn++ % 2;
    pthread_barrier_wait(&k->gate);
    if (cancels)
        order_cancel(&k->w.c, &act, k->order_no, STR(""), &o, &closing, &r);
    else
        payment_start(&k->w.c, &act, &n, &p, &how, &r);
    arena_free(arena);
    return NULL;
}

static void cancelled_or_open(void **state)
{
    (void)state;
    static struct crowd k;
    for (int i = 0; i < 5; i++) {
        crowd_open(&k);
        crowd_run(&k, starts_or_cancels);
        if (order_status_of(&k.w, k.order_no) == ORDER_CANCELLED)
            assert_int_equal(ASK(&k.w.world, "SELECT count(*) FROM payment_order WHERE status < 2"),
                             0);
        else
            assert_int_equal(ASK(&k.w.world, "SELECT cancel_requested FROM order_info"),
                             CANCEL_CALLER);
        core_check(&k.w);
    }
}

/* ---- refunds ---- */

#define REFUNDS_EACH 7 /* 8 x 7: more than fifty at once */

static void refund_once(struct crowd *k, const char *request_id, int64_t fen)
{
    struct arena *arena = arena_new(4096);
    struct act act = k->w.act;
    struct refund_new n = {
        .pay_no = k->pay_no, .request_id = str_of(request_id), .has_amount = true, .amount_fen = fen
    };
    struct refund r;
    struct refusal refusal = { 0 };
    bool created;
    act.arena = arena;
    enum code code = refund_create(&k->w.c, &act, &n, &r, &created, &refusal);
    assert_true(code == CODE_OK || code == CODE_REFUND_EXCEEDS);
    if (code)
        k->exceeded++;
    else if (created)
        k->made++;
    else
        k->same++;
    arena_free(arena);
}

static void *refunds(void *arg)
{
    struct crowd *k = arg;
    char request_id[32];
    int me = turn++;
    pthread_barrier_wait(&k->gate);
    for (int i = 0; i < REFUNDS_EACH; i++) {
        snprintf(request_id, sizeof request_id, "r-%d-%d", me, i);
        refund_once(k, request_id, 60);
    }
    return NULL;
}

static void *twins(void *arg)
{
    struct crowd *k = arg;
    pthread_barrier_wait(&k->gate);
    refund_once(k, "the-same", 60);
    return NULL;
}

static void *sends(void *arg)
{
    struct crowd *k = arg;
    struct err_info info = { 0 };
    size_t done;
    pthread_barrier_wait(&k->gate);
    for (int i = 0; i < 10; i++)
        assert_ok(refund_due_turn(&k->w.c, 100, &done, &info));
    return NULL;
}

static void paid(struct crowd *k, int64_t fen)
{
    crowd_open(k);
    struct order o = core_order(&k->w, "paid", fen);
    struct payment p = core_pay(&k->w, o.no);
    core_paid(&k->w, p.no, fen, "T1");
    core_settle(&k->w, o.no);
    k->pay_no = p.no;
}

static void fifty_at_once_let_one_through(void **state)
{
    (void)state;
    static struct crowd k;
    paid(&k, 100);
    crowd_run(&k, refunds);
    assert_int_equal(k.made, 1);
    assert_int_equal(k.same, 0);
    assert_int_equal(k.exceeded, THREADS * REFUNDS_EACH - 1);
    assert_int_equal(ASK(&k.w.world, "SELECT sum(refunding) FROM payment_order"), 60);
    core_check(&k.w);
}

static void twins_are_one(void **state)
{
    (void)state;
    static struct crowd k;
    paid(&k, 100);
    crowd_run(&k, twins);
    assert_int_equal(k.made, 1);
    assert_int_equal(k.same, THREADS - 1);
    core_check(&k.w);
}

/* Several refunds of one payment, sent by everybody at once: each once, one at a time. */
static void one_at_a_time_on_the_wire(void **state)
{
    (void)state;
    static struct crowd k;
    paid(&k, 6000);
    for (int i = 0; i < 5; i++)
        refund_once(&k, str_printf(k.w.world.arena, "r%d", i).p, 100);
    k.most = 0;
    for (int i = 0; i < 5; i++) {
        crowd_run(&k, sends);
        core_advance(&k.w, k.w.c.settings.call_lease_ms + 1);
    }
    assert_int_equal(ASK(&k.w.world, "SELECT count(*) FROM refund_order WHERE status = 1"), 5);
    assert_int_equal(k.refunds, 5);
    assert_int_equal(k.most, 1);
    core_check(&k.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_open_attempt),
        cmocka_unit_test(cancelled_or_open),
        cmocka_unit_test(fifty_at_once_let_one_through),
        cmocka_unit_test(twins_are_one),
        cmocka_unit_test(one_at_a_time_on_the_wire),
    };
    return RUN_TESTS(tests);
}
