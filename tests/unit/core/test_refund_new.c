/* What a caller may ask for: every refusal names its field; the same request again. */
#include "refund_world.h"

struct created {
    enum code code;
    struct refund r;
    bool created;
    struct refusal refusal;
};

static struct created create(struct core *w, struct refund_new n)
{
    struct created x = { 0 };
    x.code = refund_create(&w->c, &w->act, &n, &x.r, &x.created, &x.refusal);
    return x;
}

static struct refund_new by_amount(struct number pay_no, const char *request_id, int64_t fen)
{
    return (struct refund_new) {
        .pay_no = pay_no, .request_id = str_of(request_id), .has_amount = true, .amount_fen = fen
    };
}

static void refused_fields_are_named(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    static const struct refund_line twice[] = { { 1, 1, { 0 } }, { 2, 1, { 0 } }, { 1, 2, { 0 } } },
                                    zero[] = { { 1, 1, { 0 } }, { 2, 0, { 0 } } },
                                    none[] = { { 0, 1, { 0 } } };
    struct refund_line *many = arena_array(w->world.arena, 201, sizeof *many);
    char longest[258];
    memset(longest, 'x', 257);
    longest[257] = 0;
    const struct {
        struct refund_new n;
        enum code code;
        const char *field;
    } rows[] = {
        { by_amount(p.no, "", 1), CODE_BAD_FIELD, "request_id" },
        { by_amount(p.no, "with blank", 1), CODE_BAD_FIELD, "request_id" },
        { by_amount(p.no, "r", 0), CODE_AMOUNT_INVALID, "amount" },
        { by_amount(p.no, "r", -5), CODE_AMOUNT_INVALID, "amount" },
        { by_amount(p.no, "r", 100000000), CODE_AMOUNT_INVALID, "amount" },
        { { .pay_no = p.no, .request_id = STR("r") }, CODE_BAD_FIELD, "amount" },
        { { .pay_no = p.no,
            .request_id = STR("r"),
            .has_amount = true,
            .amount_fen = 1,
            .lines = none,
            .line_count = 1 },
          CODE_BAD_FIELD,
          "items" },
        { { .pay_no = p.no, .request_id = STR("r"), .lines = twice, .line_count = 3 },
          CODE_BAD_FIELD,
          "items[2].line_no" },
        { { .pay_no = p.no, .request_id = STR("r"), .lines = zero, .line_count = 2 },
          CODE_BAD_FIELD,
          "items[1].quantity" },
        { { .pay_no = p.no, .request_id = STR("r"), .lines = none, .line_count = 1 },
          CODE_BAD_FIELD,
          "items[0].line_no" },
        { { .pay_no = p.no, .request_id = STR("r"), .lines = many, .line_count = 201 },
          CODE_BAD_FIELD,
          "items" },
        { { .pay_no = p.no,
            .request_id = STR("r"),
            .has_amount = true,
            .amount_fen = 1,
            .reason = str_of(longest) },
          CODE_BAD_FIELD,
          "reason" },
        { { .pay_no = p.no,
            .request_id = STR("r"),
            .has_amount = true,
            .amount_fen = 1,
            .currency = STR("USD") },
          CODE_BAD_FIELD,
          "currency" },
        { by_amount(p.no, "r", 8801), CODE_REFUND_EXCEEDS, "amount" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct created x = create(w, rows[i].n);
        struct str what = str_printf(w->world.arena, "%zu: %s " STR_FMT, i, code_info(x.code)->name,
                                     STR_ARG(x.refusal.field));
        check_row(x.code == rows[i].code, what.p);
        check_row(str_eq(x.refusal.field, str_of(rows[i].field)), what.p);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 0);
}

static void created_once(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund_new n = by_amount(p.no, "r1", 3000);
    n.reason = STR("too green");
    struct created x = create(w, n), again = create(w, n);
    assert_int_equal(x.code, CODE_OK);
    assert_true(x.created);
    assert_int_equal(again.code, CODE_OK);
    assert_false(again.created);
    assert_int_equal(again.r.no.id, x.r.no.id);
    assert_str(again.r.reason, "too green");
    assert_int_equal(x.r.origin, REFUND_BY_CALLER);

    n.amount_fen = 3001;
    again = create(w, n);
    assert_int_equal(again.code, CODE_REQUEST_MISMATCH);
    assert_str(again.refusal.field, "amount");
    n.amount_fen = 3000;
    n.reason = STR_NONE;
    again = create(w, n);
    assert_int_equal(again.code, CODE_REQUEST_MISMATCH);
    assert_str(again.refusal.field, "reason");
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order"), 1);
}

static void whose_and_what(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800), open = core_pay(w, core_order(w, "o2", 8800).no);
    struct number nobody = number_make(NUMBER_PAYMENT, p.no.slot, p.no.id + 99);
    struct number elsewhere = number_make(NUMBER_PAYMENT, p.no.slot ^ 1u, p.no.id);
    assert_int_equal(create(w, by_amount(nobody, "r", 1)).code, CODE_PAYMENT_NOT_FOUND);
    assert_int_equal(create(w, by_amount(elsewhere, "r", 1)).code, CODE_PAYMENT_NOT_FOUND);
    assert_int_equal(create(w, by_amount(open.no, "r", 1)).code, CODE_PAYMENT_STATE);
    core_paid(w, open.no, 1, "T-wrong");
    assert_int_equal(create(w, by_amount(open.no, "r", 1)).code, CODE_PAYMENT_STATE);

    struct refund r = create(w, by_amount(p.no, "r", 1)).r, got;
    struct refund *list;
    struct refusal refusal = { 0 };
    size_t n;
    assert_int_equal(refund_get(&w->c, &w->act, r.no, &got, &refusal), CODE_OK);
    assert_int_equal(got.no.id, r.no.id);
    assert_int_equal(refund_list(&w->c, &w->act, p.no, &list, &n, &refusal), CODE_OK);
    assert_int_equal(n, 1);

    struct act other = w->act;
    other.caller.id = CALLER + 1;
    w->act.caller.id = CALLER + 1;
    assert_int_equal(create(w, by_amount(p.no, "r", 1)).code, CODE_PAYMENT_NOT_FOUND);
    w->act.caller.id = CALLER;
    assert_int_equal(refund_get(&w->c, &other, r.no, &got, &refusal), CODE_REFUND_NOT_FOUND);
    assert_int_equal(refund_list(&w->c, &other, p.no, &list, &n, &refusal), CODE_PAYMENT_NOT_FOUND);
}

static struct order_item item(int64_t price, int64_t quantity)
{
    return (struct order_item) { .sku = STR("s"),
                                 .name = STR("n"),
                                 .unit_price = cny(price),
                                 .quantity = quantity,
                                 .discount = cny(0) };
}

static struct order_new two_lines(struct order_item items[2])
{
    items[0] = item(1000, 3);
    items[1] = item(700, 1);
    return (struct order_new) { .merchant_order_no = STR("o1"),
                                .user_id = STR("u1"),
                                .subject = STR("tea"),
                                .items = items,
                                .item_count = 2,
                                .currency = STR("CNY") };
}

/* The lines in any order, and refusals in the caller's. */
static void lines_in_any_order(void **state)
{
    struct core *w = *state;
    struct order_item items[2];
    struct order_new n = two_lines(items);
    struct payment p = paid_of(w, &n);
    struct refund_line lines[] = { { .line_no = 2, .quantity = 1 },
                                   { .line_no = 1, .quantity = 2 } };
    struct refund_new asked = {
        .pay_no = p.no, .request_id = STR("r1"), .lines = lines, .line_count = 2
    };
    struct created x = create(w, asked);
    assert_int_equal(x.code, CODE_OK);
    assert_int_equal(money_fen(x.r.amount), 2700);
    assert_int_equal(x.r.line_count, 2);
    assert_int_equal(x.r.lines[0].line_no, 1);
    struct refund_line swapped[] = { lines[1], lines[0] };
    asked.lines = swapped;
    assert_int_equal(create(w, asked).code, CODE_OK);

    asked.request_id = STR("r2");
    struct created over = create(w, asked);
    assert_int_equal(over.code, CODE_REFUND_EXCEEDS);
    assert_str(over.refusal.field, "items[0].quantity");
    swapped[0] = (struct refund_line) { .line_no = 1, .quantity = 1 };
    swapped[1] = (struct refund_line) { .line_no = 9, .quantity = 1 };
    over = create(w, asked);
    assert_int_equal(over.code, CODE_BAD_FIELD);
    assert_str(over.refusal.field, "items[1].line_no");
}

/* The payment's success has not reached its order yet: creating a refund settles it, so that the
 * lines are those of the payment that won. */
static void the_order_is_settled_first(void **state)
{
    struct core *w = *state;
    struct order_item items[2];
    struct order_new n = two_lines(items);
    struct order o = core_order_of(w, &n);
    struct payment p = core_pay(w, o.no);
    core_paid(w, p.no, 3700, "T1");
    assert_int_equal(order_status_of(w, o.no), ORDER_PAYING);
    struct refund_line line = { .line_no = 1, .quantity = 1 };
    struct created x =
        create(w, (struct refund_new) {
                      .pay_no = p.no, .request_id = STR("r"), .lines = &line, .line_count = 1 });
    assert_int_equal(x.code, CODE_OK);
    assert_true(x.created);
    assert_int_equal(money_fen(x.r.amount), 1000);
    assert_int_equal(order_status_of(w, o.no), ORDER_PAID);
}

/* ---- what the order knows of it ---- */

static enum err changed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return order_refunds_changed(tx, *(int64_t *)arg, info);
}

static void assert_order(struct core *w, struct number order_no, int refund_status, int64_t line1,
                         int64_t line2)
{
    world_run(&w->world, changed_rule, &order_no.id);
    struct order o = core_get_order(w, order_no);
    assert_int_equal(o.refund_status, refund_status);
    assert_int_equal(o.items[0].refunded_quantity, line1);
    assert_int_equal(o.items[1].refunded_quantity, line2);
    int64_t version = o.version;
    world_run(&w->world, changed_rule, &order_no.id); /* nothing has changed: nothing is written */
    assert_int_equal(core_get_order(w, order_no).version, version);
}

static struct refund lines_back(struct core *w, struct number pay_no, const char *request_id,
                                int line_no, int64_t quantity)
{
    struct refund r = open_line(w, pay_no, request_id, line_no, quantity).r;
    assert_true(number_is(r.no));
    return r;
}

static void the_order_sums_up_what_went_back(void **state)
{
    struct core *w = *state;
    struct order_item items[2];
    struct order_new n = two_lines(items);
    struct payment p = paid_of(w, &n);
    assert_order(w, p.order_no, REFUNDED_NONE, 0, 0);
    struct refund a = lines_back(w, p.no, "a", 1, 2), b = lines_back(w, p.no, "b", 2, 1);
    assert_order(w, p.order_no, REFUNDED_NONE, 0, 0); /* reserved is not given back */
    state_kind(w, &a, FACT_REFUND_DONE);
    state_kind(w, &b, FACT_REFUND_CLOSED);
    assert_order(w, p.order_no, REFUNDED_PART, 2, 0);
    b = lines_back(w, p.no, "b2", 2, 1);
    state_kind(w, &b, FACT_REFUND_DONE);
    assert_order(w, p.order_no, REFUNDED_PART, 2, 1);
    struct refund rest = open_amount(w, p.no, "rest", 1000).r;
    state_kind(w, &rest, FACT_REFUND_DONE);
    assert_order(w, p.order_no, REFUNDED_FULL, 2, 1);
    state_kind(w, &a, FACT_REFUND_REVERSED);
    assert_order(w, p.order_no, REFUNDED_PART, 0, 1);
}

/* The channel gives money back before the order knows that it was paid. */
static void given_back_before_the_order_was_settled(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_paid(w, pay_no, 8800, "A");
    struct refund r = open_amount(w, pay_no, "r", 800).r;
    state_kind(w, &r, FACT_REFUND_DONE);
    world_run(&w->world, changed_rule, &no.id);
    assert_int_equal(core_get_order(w, no).refund_status, REFUNDED_NONE);
    struct order o;
    struct refusal refusal = { 0 };
    assert_int_equal(order_complete(&w->c, &w->act, no, &o, &refusal), CODE_OK); /* settles first */
    assert_int_equal(o.status, ORDER_COMPLETED);
    assert_int_equal(core_get_order(w, no).refund_status, REFUNDED_PART);
}

/* Money of another payment that went back is not the order's. */
static void a_surplus_payment_is_not_the_orders(void **state)
{
    struct core *w = *state;
    core_account(w, &fake_apple, "apple");
    struct order o = core_order(w, "o1", 8800);
    struct payment_new n = payment_input(o.no);
    struct payment a = core_start(w, &n).p;
    n.account = STR("apple");
    struct payment b = core_start(w, &n).p;
    core_paid(w, b.no, 8800, "B");
    core_settle(w, o.no);
    core_paid(w, a.no, 8800, "A");
    core_settle(w, o.no);
    assert_int_equal(core_get(w, a.no).settled, SETTLED_SURPLUS);
    struct refund r = open_amount(w, a.no, "r", 8800).r;
    state_kind(w, &r, FACT_REFUND_DONE);
    world_run(&w->world, changed_rule, &o.no.id);
    assert_int_equal(core_get_order(w, o.no).refund_status, REFUNDED_NONE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(refused_fields_are_named),
        CORE_TEST(created_once),
        CORE_TEST(whose_and_what),
        CORE_TEST(lines_in_any_order),
        CORE_TEST(the_order_is_settled_first),
        CORE_TEST(the_order_sums_up_what_went_back),
        CORE_TEST(given_back_before_the_order_was_settled),
        CORE_TEST(a_surplus_payment_is_not_the_orders),
    };
    return RUN_CORE_TESTS(tests);
}
