/* Opening refunds: what is left, what a line is worth, the same again. */
#include "refund_world.h"

static struct order_item item(int64_t price, int64_t quantity)
{
    return (struct order_item) {
        .sku = STR("s"), .name = STR("n"), .unit_price = cny(price), .quantity = quantity
    };
}

/* Three lines of 3 x 33.33, 1 x 50.00 and 5 x 1.00, less one fen: no share can be divided evenly.
 */
static struct payment paid_lines(struct core *w, const char *merchant_order_no)
{
    struct order_item items[] = { item(3333, 3), item(5000, 1), item(100, 5) };
    for (size_t i = 0; i < COUNT(items); i++)
        items[i].discount = cny(0);
    struct order_new n = { .merchant_order_no = str_of(merchant_order_no),
                           .user_id = STR("u1"),
                           .subject = STR("tea"),
                           .items = items,
                           .item_count = COUNT(items),
                           .discount_fen = 1,
                           .currency = STR("CNY") };
    return paid_of(w, &n);
}

static void reserved_and_stored(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct opening x = open_amount(w, p.no, "r1", 3000);
    assert_int_equal(x.o.how, REFUND_OPENED);
    struct refund r = refund_now(w, x.r.no);
    assert_int_equal(r.status, REFUND_INIT);
    assert_int_equal(r.pay_no.id, p.no.id);
    assert_int_equal(r.no.slot, p.no.slot);
    assert_int_equal(r.caller, CALLER);
    assert_str(r.account, "main");
    assert_int_equal(r.next_ms, WORLD_NOW_MS);
    assert_int_equal(r.step, REFUND_SEND);
    assert_int_equal(money_fen(core_get(w, p.no).refunding), 3000);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 0);
}

static void no_more_than_is_left(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    assert_int_equal(open_amount(w, p.no, "r1", 8801).o.how, REFUND_EXCEEDS);
    assert_int_equal(open_amount(w, p.no, "r1", 0).o.how, REFUND_EXCEEDS);
    assert_int_equal(open_amount(w, p.no, "r1", 8000).o.how, REFUND_OPENED);
    struct opening x = open_amount(w, p.no, "r2", 801);
    assert_int_equal(x.o.how, REFUND_EXCEEDS);
    assert_string_equal(x.o.field, "amount");
    struct refund r = open_amount(w, p.no, "r2", 800).r;
    assert_int_equal(open_amount(w, p.no, "r3", 1).o.how, REFUND_EXCEEDS);
    /* one that failed gives its amount back, one that succeeded does not */
    state_kind(w, &r, FACT_REFUND_CLOSED);
    r = open_amount(w, p.no, "r3", 800).r;
    state_kind(w, &r, FACT_REFUND_DONE);
    assert_int_equal(open_amount(w, p.no, "r4", 1).o.how, REFUND_EXCEEDS);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 3);
}

static void fifty_at_once_let_one_through(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 100);
    int opened = 0;
    for (int i = 0; i < 50; i++)
        opened +=
            open_amount(w, p.no, str_printf(w->world.arena, "r%d", i).p, 60).o.how == REFUND_OPENED;
    assert_int_equal(opened, 1);
    assert_int_equal(money_fen(core_get(w, p.no).refunding), 60);
}

/* Somebody refunded between the load and the reservation: the conditional UPDATE says so. */
static enum err stale_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct opening *x = arg;
    struct payment before, p;
    enum err e = payment_load(tx, x->pay_id, &before, info);
    p = before;
    if (!e)
        e = payment_refund_reserve(tx, &p, cny(60), info);
    if (e)
        return e;
    x->draft.id = tx_new_id(tx);
    return refund_open(tx, &before, &x->draft, &x->r, &x->o, info);
}

static void a_stale_row_reserves_nothing(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 100);
    struct opening x = {
        .pay_id = p.no.id,
        .draft = { .amount = cny(60), .origin = REFUND_BY_CALLER, .request_id = STR("r1") }
    };
    struct err_info info = { 0 };
    assert_int_not_equal(world_try(&w->world, stale_rule, &x, &info), STORE_COMMITTED);
    assert_int_equal(money_fen(core_get(w, p.no).refunding), 0);
}

/* The database decides, also where nobody looked before. */
static enum err too_much_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct payment p;
    enum err e = payment_load(tx, *(int64_t *)arg, &p, info);
    return e ? e : payment_refund_reserve(tx, &p, cny(101), info);
}

static void the_update_has_the_last_word(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 100);
    struct err_info info = { 0 };
    assert_int_not_equal(world_try(&w->world, too_much_rule, &p.no.id, &info), STORE_COMMITTED);
    assert_int_equal(money_fen(core_get(w, p.no).refunding), 0);
}

static void the_same_again(void **state)
{
    struct core *w = *state;
    struct payment p = paid_lines(w, "o1");
    struct refund r = open_amount(w, p.no, "r1", 3000).r;
    struct opening x = open_amount(w, p.no, "r1", 3000);
    assert_int_equal(x.o.how, REFUND_SAME);
    assert_int_equal(x.r.no.id, r.no.id);
    x = open_amount(w, p.no, "r1", 3001);
    assert_int_equal(x.o.how, REFUND_DIFFERS);
    assert_string_equal(x.o.field, "amount");
    x = open_line(w, p.no, "r1", 1, 1);
    assert_int_equal(x.o.how, REFUND_DIFFERS);
    assert_string_equal(x.o.field, "amount");
    x = open_draft(w, p.no,
                   (struct refund_draft) {
                       .amount = cny(3000), .request_id = STR("r1"), .reason = STR("other") });
    assert_int_equal(x.o.how, REFUND_DIFFERS);
    assert_string_equal(x.o.field, "reason");

    open_line(w, p.no, "r2", 1, 1);
    assert_int_equal(open_line(w, p.no, "r2", 1, 1).o.how, REFUND_SAME);
    assert_string_equal(open_line(w, p.no, "r2", 1, 2).o.field, "items");
    assert_string_equal(open_amount(w, p.no, "r2", 3000).o.field, "items");
    /* a caller's request id is in nobody else's way */
    x = open_draft(w, p.no,
                   (struct refund_draft) {
                       .amount = cny(1), .origin = REFUND_BY_POLICY, .request_id = STR("r1") });
    assert_int_equal(x.o.how, REFUND_OPENED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 3);
}

static void what_cannot_be_refunded(void **state)
{
    struct core *w = *state;
    struct payment open = core_pay(w, core_order(w, "o1", 8800).no);
    assert_int_equal(open_amount(w, open.no, "r1", 1).o.how, REFUND_UNPAID);
    core_paid(w, open.no, 100, "T1"); /* quarantined */
    assert_int_equal(open_amount(w, open.no, "r1", 1).o.how, REFUND_UNPAID);

    core_account(w, &fake_apple, "apple");
    struct payment_new n = payment_input(core_order(w, "o2", 8800).no);
    n.account = STR("apple");
    struct payment p = core_start(w, &n).p;
    core_paid(w, p.no, 8800, "T2");
    core_settle(w, p.order_no);
    assert_int_equal(open_amount(w, p.no, "r1", 1).o.how, REFUND_UNSUPPORTED);
}

static void fifty_a_payment(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund failed = open_amount(w, p.no, "f", 10).r;
    struct stating x = { .refund_id = failed.no.id,
                         .fact = { .kind = FACT_REFUSED },
                         .kind = EVIDENCE_REFUSAL,
                         .arena = w->world.arena };
    world_run(&w->world, stating_rule, &x); /* never accepted: it does not count at the channel */
    assert_int_equal(refund_now(w, failed.no).status, REFUND_FAILED);
    for (int i = 0; i < 50; i++)
        assert_int_equal(open_amount(w, p.no, str_printf(w->world.arena, "r%d", i).p, 10).o.how,
                         REFUND_OPENED);
    assert_int_equal(open_amount(w, p.no, "r50", 10).o.how, REFUND_TOO_MANY);
}

/* ---- lines ---- */

static void lines_give_all_of_it(void **state)
{
    struct core *w = *state;
    struct payment p = paid_lines(w, "o1");
    struct order o = core_get_order(w, p.order_no);
    int64_t sum = 0, line1 = 0;
    for (int i = 0; i < 3; i++) {
        struct opening x = open_line(w, p.no, str_printf(w->world.arena, "a%d", i).p, 1, 1);
        assert_int_equal(x.o.how, REFUND_OPENED);
        assert_int_equal(money_fen(x.r.amount), money_fen(x.r.lines[0].amount));
        line1 += money_fen(x.r.amount);
    }
    assert_int_equal(line1, money_fen(o.items[0].paid_share));
    sum += line1;
    struct opening over = open_line(w, p.no, "a3", 1, 1);
    assert_int_equal(over.o.how, REFUND_EXCEEDS);
    assert_string_equal(over.o.field, "quantity");
    assert_int_equal(over.o.line_no, 1);

    struct refund_line rest[] = { { .line_no = 2, .quantity = 1 },
                                  { .line_no = 3, .quantity = 5 } };
    struct opening x = open_draft(
        w, p.no, (struct refund_draft) { .lines = rest, .line_count = 2, .request_id = STR("b") });
    assert_int_equal(x.o.how, REFUND_OPENED);
    sum += money_fen(x.r.amount);
    assert_int_equal(sum, money_fen(p.paid_amount));
}

/* The middle of three fails and is given again: together they are the line's share, to the fen,
 * whichever of them failed. */
static void a_failed_one_gives_its_quantity_back(void **state)
{
    (void)state;
    for (int fails = 0; fails < 3; fails++) {
        struct core w;
        core_open(&w);
        struct payment p = paid_lines(&w, "o1");
        int64_t share = money_fen(core_get_order(&w, p.order_no).items[0].paid_share);
        struct refund r[3];
        for (int i = 0; i < 3; i++)
            r[i] = open_line(&w, p.no, str_printf(w.world.arena, "r%d", i).p, 1, 1).r;
        state_kind(&w, &r[fails], FACT_REFUND_CLOSED);
        struct opening again = open_line(&w, p.no, "again", 1, 1);
        assert_int_equal(again.o.how, REFUND_OPENED);
        assert_int_equal(money_fen(core_get(&w, p.no).refunding), share);
        core_check(&w);
    }
}

static void lines_take_no_more_than_is_left(void **state)
{
    struct core *w = *state;
    struct payment p = paid_lines(w, "o1");
    int64_t left = 100;
    open_amount(w, p.no, "most", money_fen(p.paid_amount) - left);
    struct refund_line both[] = { { .line_no = 1, .quantity = 3 },
                                  { .line_no = 2, .quantity = 1 } };
    struct opening x = open_draft(
        w, p.no, (struct refund_draft) { .lines = both, .line_count = 2, .request_id = STR("l") });
    assert_int_equal(x.o.how, REFUND_OPENED);
    assert_int_equal(money_fen(x.r.amount), left);
    assert_int_equal(money_fen(x.r.lines[0].amount), left);
    assert_int_equal(money_fen(x.r.lines[1].amount), 0);
    assert_int_equal(open_line(w, p.no, "l2", 3, 1).o.how, REFUND_EXCEEDS);
}

static void lines_belong_to_the_winning_payment(void **state)
{
    struct core *w = *state;
    struct payment p = paid_lines(w, "o1");
    struct opening x = open_line(w, p.no, "l", 4, 1);
    assert_int_equal(x.o.how, REFUND_NO_LINE);
    assert_int_equal(x.o.line_no, 4);

    /* closed, cancelled, and then paid all the same: not the order's money */
    struct payment late = core_pay(w, core_order(w, "o2", 8800).no);
    struct order cancelled;
    bool closing;
    struct refusal r = { 0 };
    assert_int_equal(
        order_cancel(&w->c, &w->act, late.order_no, STR("no"), &cancelled, &closing, &r), CODE_OK);
    core_paid(w, late.no, 8800, "T9");
    core_settle(w, late.order_no);
    x = open_line(w, late.no, "l", 1, 1);
    assert_int_equal(x.o.how, REFUND_NO_LINE);
    assert_int_equal(x.o.line_no, 0);
    assert_int_equal(open_amount(w, late.no, "all", 8800).o.how, REFUND_OPENED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(reserved_and_stored),
        CORE_TEST(no_more_than_is_left),
        CORE_TEST(fifty_at_once_let_one_through),
        CORE_TEST(a_stale_row_reserves_nothing),
        CORE_TEST(the_update_has_the_last_word),
        CORE_TEST(the_same_again),
        CORE_TEST(what_cannot_be_refunded),
        CORE_TEST(fifty_a_payment),
        CORE_TEST(lines_give_all_of_it),
        cmocka_unit_test(a_failed_one_gives_its_quantity_back),
        CORE_TEST(lines_take_no_more_than_is_left),
        CORE_TEST(lines_belong_to_the_winning_payment),
    };
    return RUN_CORE_TESTS(tests);
}
