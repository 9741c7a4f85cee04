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
};

static struct crowd *the_crowd; /* the fake channel has no better place */

static void crowd_prepay(struct account *account, const struct channel_ctx *ctx,
                         enum pay_method method, const struct channel_request *request,
                         struct channel_answer *ret)
{
    (void)account;
    (void)ctx;
    (void)method;
    (void)request;
    int now = ++the_crowd->calls;
    if (now > the_crowd->most)
        the_crowd->most = now;
    for (volatile int i = 0; i < 200000; i++)
        ;
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE,
                                     .credentials = STR("{\"code_url\":\"x\"}") };
    the_crowd->calls--;
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
    crowd_info = fake_wechat;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_open_attempt),
        cmocka_unit_test(cancelled_or_open),
    };
    return RUN_TESTS(tests);
}
