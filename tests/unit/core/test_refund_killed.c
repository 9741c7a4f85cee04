/* The process dies at every named point of a refund; another one opens what is left. Whether the
 * channel took the refund before or not: the money goes back once, by the jobs alone. */
#include "killed.h"

#include "core/refund/refund.h"

#define FEN 3000

/* ---- the parts, outside cmocka ---- */

static void turn(struct core *w)
{
    struct err_info info = { 0 };
    size_t done;
    assert_ok(refund_due_turn(&w->c, 100, &done, &info));
}

static void live(const char *folder)
{
    struct core w;
    struct refund r;
    struct refusal refusal = { 0 };
    bool created;
    open_in(&w, folder, WORLD_NOW_MS, true);
    struct payment p = core_pay(&w, core_order(&w, "o1", 8800).no);
    core_paid(&w, p.no, 8800, "T1");
    core_settle(&w, p.order_no);
    struct refund_new n = {
        .pay_no = p.no, .request_id = STR("r1"), .has_amount = true, .amount_fen = FEN
    };
    refund_create(&w.c, &w.act, &n, &r, &created, &refusal);
    turn(&w);
    core_advance(&w, 60000);
    expect(&w.query_refund, CHANNEL_UNKNOWN, CLASS_NONE);
    turn(&w);
}

/* The channel of the life after. */
static bool knows;
static int taken;

static struct fact done(struct core *w)
{
    struct fact f = fact_of(w, FACT_REFUND_DONE, FEN, NULL);
    f.channel_refund_id = STR("W1");
    return f;
}

static void take_refund(struct account *account, const struct channel_ctx *ctx,
                        const struct channel_request *request, struct channel_answer *ret)
{
    (void)ctx;
    (void)request;
    taken += !knows;
    knows = true;
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE, .fact_count = 1 };
    ret->facts[0] = done(fake_core(account));
}

static void tell_refund(struct account *account, const struct channel_ctx *ctx, struct str no,
                        struct channel_answer *ret)
{
    (void)ctx;
    (void)no;
    if (!knows) {
        *ret = (struct channel_answer) { .outcome = CHANNEL_REFUSED,
                                         .class = CLASS_FINAL,
                                         .not_exist = true };
        return;
    }
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE, .fact_count = 1 };
    ret->facts[0] = done(fake_core(account));
}

static struct channel_driver after_driver;
static struct channel_info after_info;

static void live_on(const char *folder, bool took_it)
{
    struct core w;
    knows = took_it;
    open_in(&w, folder, WORLD_NOW_MS + 61000, false);
    after_driver = fake_driver;
    after_driver.refund = take_refund;
    after_driver.query_refund = tell_refund;
    after_info = fake_wechat;
    after_info.driver = &after_driver;
    core_account(&w, &after_info, "main");
    for (int minute = 0; minute < 10; minute++) {
        turn(&w);
        core_advance(&w, 60000);
    }
    assert_int_equal(ASK(&w.world, "SELECT count(*) FROM refund_order WHERE status = 2"), 1);
    assert_int_equal(ASK(&w.world, "SELECT refunded FROM payment_order"), FEN);
    assert_int_equal(ASK(&w.world, "SELECT refunding FROM payment_order"), 0);
    assert_int_equal(taken, !took_it);
    core_check(&w); /* removes the folder */
}

/* ---- the lives of a test ---- */

static void every_point(bool took_it)
{
    static const char *const points[] = {
        "refund.stored", "refund.leased",         "refund.answered",    "refund.taken",
        "refund.asking", "refund.query_answered", "refund.query_taken",
    };
    for (size_t i = 0; i < COUNT(points); i++) {
        char room[KILLED_FOLDER];
        const char *folder = killed_folder(room);
        int status = part("live", folder, points[i]);
        check_row(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, points[i]);
        status = part(took_it ? "live-on-taken" : "live-on", folder, NULL);
        check_row(WIFEXITED(status) && WEXITSTATUS(status) == 0, points[i]);
    }
}

static void the_channel_never_heard_of_it(void **state)
{
    (void)state;
    every_point(false);
}

static void the_channel_took_it(void **state)
{
    (void)state;
    every_point(true);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        if (strcmp(argv[2], "live") == 0)
            live(argv[3]);
        else
            live_on(argv[3], strcmp(argv[2], "live-on-taken") == 0);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_channel_never_heard_of_it),
        cmocka_unit_test(the_channel_took_it),
    };
    return RUN_TESTS(tests);
}
