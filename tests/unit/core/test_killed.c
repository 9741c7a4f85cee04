/* The process dies at every named point of the flows; another one opens what is left. Nothing may
 * be lost: every attempt comes to its end by the jobs alone, and money that the channel took is
 * found.
 *
 * Each life is a process of its own (this program again, with --part), because a kill point is
 * armed once a process. */
#include "killed.h"

/* ---- the parts, outside cmocka ---- */

/* One story that passes every point: unknown prepay, prepaid again, asked, switched, closed by
 * hand, once more, cancelled. */
static void live(const char *folder)
{
    struct core w;
    struct order o;
    struct payment p;
    bool closing;
    struct refusal r = { 0 };
    open_in(&w, folder, WORLD_NOW_MS, true);
    struct order_new input = order_input("o1", 8800);
    input.expire_in_ms = 1800 * 1000;
    struct number no = core_order_of(&w, &input).no;
    struct payment_new n = payment_input(no);
    expect(&w.prepay, CHANNEL_UNKNOWN, CLASS_NONE);
    core_start(&w, &n);
    core_start(&w, &n);
    core_advance(&w, 30000);
    core_due(&w);
    n.method = STR("jsapi");
    n.payer = STR("openid");
    struct started s = core_start(&w, &n);
    payment_close(&w.c, &w.act, s.p.no, &p, &closing, &r);
    core_start(&w, &n);
    order_cancel(&w.c, &w.act, no, STR(""), &o, &closing, &r);
}

static void jobs(struct core *w)
{
    struct err_info info = { 0 };
    size_t done;
    assert_ok(payment_due_turn(&w->c, 100, &done, &info));
    assert_ok(order_due_turn(&w->c, 100, &done, &info));
    assert_ok(order_settle_sweep(&w->c, 100, &done, &info));
}

static bool channel_has_money;

/* The channel of the life after: it knows what was accepted before, and perhaps was paid. */
static void answers(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                    struct channel_answer *ret)
{
    struct core *w = fake_core(account);
    (void)ctx;
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE, .fact_count = 1 };
    ret->facts[0] = channel_has_money
                        ? fact_of(w, FACT_PAID, 8800, str_cstr(w->world.arena, pay_no))
                        : (struct fact) { .kind = FACT_ACCEPTED };
}

static struct channel_driver after_driver;
static struct channel_info after_info;

static void live_on(const char *folder, bool money)
{
    struct core w;
    channel_has_money = money;
    open_in(&w, folder, WORLD_NOW_MS + 90000, false);
    after_driver = fake_driver;
    after_driver.query = answers;
    after_info = fake_wechat;
    after_info.driver = &after_driver;
    core_account(&w, &after_info, "main");
    for (int minute = 0; minute < 60; minute++) {
        jobs(&w);
        core_advance(&w, 60000);
    }
    SQL(orders, "SELECT count(*) FROM order_info");
    if (world_ask(&w.world, &orders)) {
        int64_t attempts = ASK(&w.world, "SELECT count(*) FROM payment_order");
        int64_t status = ASK(&w.world, "SELECT order_status FROM order_info");
        int64_t ended_before =
            ASK(&w.world, "SELECT count(*) FROM payment_order WHERE status IN (3, 4)");
        assert_int_equal(ASK(&w.world, "SELECT count(*) FROM payment_order WHERE status < 2"), 0);
        if (!money || attempts == ended_before)
            assert_int_equal(status, ORDER_CANCELLED);
        else
            assert_true(status == ORDER_PAID ||
                        ASK(&w.world, "SELECT count(*) FROM incident WHERE kind = 1"));
        assert_int_equal(
            ASK(&w.world, "SELECT count(*) FROM payment_order WHERE status = 2 AND settled = 0"),
            0);
        assert_int_equal(ASK(&w.world, "SELECT count(*) FROM payment_order WHERE call_owner <> 0 "
                                       "AND call_until > 1780003600000"),
                         0);
    }
    core_check(&w); /* removes the folder */
}

/* ---- the lives of a test ---- */

static void every_point(bool money)
{
    static const char *const points[] = {
        "prepay.planned",   "prepay.stored",     "prepay.answered",  "prepay.taken",
        "prepay.leased",    "prepay.answered:2", "prepay.taken:2",   "due.taken",
        "query.answered",   "query.taken",       "switch.requested", "close.leased",
        "query.answered:2", "close.answered",    "close.taken",      "close.released",
        "prepay.stored:2",  "prepay.answered:3", "close.requested",  "close.leased:2",
        "close.answered:2", "prepay.stored:3",   "cancel.requested", "close.answered:3",
        "close.taken:3",    "cancel.closed",
    };
    for (size_t i = 0; i < COUNT(points); i++) {
        char room[KILLED_FOLDER];
        const char *folder = killed_folder(room);
        int status = part("live", folder, points[i]);
        check_row(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, points[i]);
        status = part(money ? "live-on-paid" : "live-on", folder, NULL);
        check_row(WIFEXITED(status) && WEXITSTATUS(status) == 0, points[i]);
    }
}

static void nobody_pays(void **state)
{
    (void)state;
    every_point(false);
}

static void somebody_paid(void **state)
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
            live_on(argv[3], strcmp(argv[2], "live-on-paid") == 0);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_pays),
        cmocka_unit_test(somebody_paid),
    };
    return RUN_TESTS(tests);
}
