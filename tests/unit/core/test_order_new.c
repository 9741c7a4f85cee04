/* What an order may be: every refusal names its field; sums and shares; the same order again. */
#include "core_world.h"

#include "core/order/order_new.h"

struct made {
    enum code code;
    struct order o;
    bool created;
    struct refusal r;
};

static struct made make(struct core *w, const struct order_new *n)
{
    struct made m = { 0 };
    m.code = order_create(&w->c, &w->act, n, &m.o, &m.created, &m.r);
    return m;
}

static struct order_item item(const char *sku, int64_t price, int64_t quantity, int64_t discount)
{
    return (struct order_item) { .sku = str_of(sku),
                                 .name = STR("thing"),
                                 .unit_price = cny(price),
                                 .quantity = quantity,
                                 .discount = cny(discount) };
}

/* ---- refusals ---- */

static struct order_new base;
static struct order_item items[2];
static struct order_item many[ORDER_ITEMS_MAX + 1];

static void change(int which)
{
    static char longest[2000];
    memset(longest, 'x', sizeof longest);
    base = order_input("o1", 8800);
    items[0] = item("a", 100, 2, 0);
    items[1] = item("b", 50, 1, 0);
    struct order_new with_items = base;
    with_items.has_amount = false;
    with_items.amount_fen = 0;
    with_items.items = items;
    with_items.item_count = 2;
    if (which >= 40)
        base = with_items;
    switch (which) {
    case 0:
        base.merchant_order_no = STR("");
        break;
    case 1:
        base.merchant_order_no = STR("a b");
        break;
    case 2:
        base.merchant_order_no = (struct str) { longest, 65 };
        break;
    case 3:
        base.merchant_order_no = STR("中");
        break;
    case 4:
        base.user_id = STR("");
        break;
    case 5:
        base.user_id = STR("u\n");
        break;
    case 6:
        base.user_id = (struct str) { longest, 65 };
        break;
    case 7:
        base.user_id = STR("u1 ");
        break;
    case 8:
        base.user_id = STR("\xff");
        break;
    case 9:
        base.subject = STR("");
        break;
    case 10:
        base.subject = (struct str) { longest, 257 };
        break;
    case 11:
        base.remark = (struct str) { longest, 257 };
        break;
    case 12:
        base.request_id = STR("r 1");
        break;
    case 13:
        base.request_id = (struct str) { longest, 65 };
        break;
    case 14:
        base.expire_in_ms = 999;
        break;
    case 15:
        base.expire_in_ms = -1;
        break;
    case 16:
        base.expire_in_ms = 367LL * 24 * 3600 * 1000;
        break;
    case 17:
        base.currency = STR("EUR");
        break;
    case 18:
        base.currency = STR("cny");
        break;
    case 19:
        base.currency = STR_NONE;
        break;
    case 20:
        base.amount_fen = -1;
        break;
    case 21:
        base.amount_fen = 100000000;
        break;
    case 22:
        base.amount_fen = INT64_MAX;
        break;
    case 23:
        base.discount_fen = -1;
        break;
    case 24:
        base.discount_fen = 8801;
        break;
    case 25:
        base.shipping_fen = INT64_MIN;
        break;
    case 26:
        base.tax_fen = 100000000;
        break;
    case 27:
        base.shipping_fen = 99999999;
        break; /* the sum is too large */
    case 28:
        base.has_amount = false;
        break;
    case 29:
        base.items = items, base.item_count = 2;
        break;
    case 40:
        items[1].sku = STR("");
        break;
    case 41:
        items[1].name = (struct str) { longest, 257 };
        break;
    case 42:
        items[0].quantity = 0;
        break;
    case 43:
        items[0].quantity = 1000001;
        break;
    case 44:
        items[0].unit_price = cny(100000000);
        break;
    case 45:
        items[0].unit_price = cny(99999999);
        break; /* times 2 */
    case 46:
        items[0].unit_price = cny(-1);
        break;
    case 47:
        items[0].discount = cny(201);
        break;
    case 48:
        items[1].discount = cny(-1);
        break;
    case 49:
        base.discount_fen = 251;
        break;
    case 50:
        for (size_t i = 0; i < COUNT(many); i++)
            many[i] = item("a", 1, 1, 0);
        base.items = many;
        base.item_count = COUNT(many);
        break;
    default:
        fail();
    }
}

static void every_refusal_names_its_field(void **state)
{
    struct core *w = *state;
    static const struct {
        int which;
        enum code code;
        const char *field;
    } rows[] = {
        { 0, CODE_BAD_FIELD, "merchant_order_no" },
        { 1, CODE_BAD_FIELD, "merchant_order_no" },
        { 2, CODE_BAD_FIELD, "merchant_order_no" },
        { 3, CODE_BAD_FIELD, "merchant_order_no" },
        { 4, CODE_BAD_FIELD, "user_id" },
        { 5, CODE_BAD_FIELD, "user_id" },
        { 6, CODE_BAD_FIELD, "user_id" },
        { 7, CODE_BAD_FIELD, "user_id" },
        { 8, CODE_BAD_FIELD, "user_id" },
        { 9, CODE_BAD_FIELD, "subject" },
        { 10, CODE_BAD_FIELD, "subject" },
        { 11, CODE_BAD_FIELD, "remark" },
        { 12, CODE_BAD_FIELD, "request_id" },
        { 13, CODE_BAD_FIELD, "request_id" },
        { 14, CODE_BAD_FIELD, "expire_in_s" },
        { 15, CODE_BAD_FIELD, "expire_in_s" },
        { 16, CODE_BAD_FIELD, "expire_in_s" },
        { 17, CODE_CURRENCY_UNSUPPORTED, "currency" },
        { 18, CODE_CURRENCY_UNSUPPORTED, "currency" },
        { 19, CODE_CURRENCY_UNSUPPORTED, "currency" },
        { 20, CODE_AMOUNT_INVALID, "amount" },
        { 21, CODE_AMOUNT_INVALID, "amount" },
        { 22, CODE_AMOUNT_INVALID, "amount" },
        { 23, CODE_AMOUNT_INVALID, "discount" },
        { 24, CODE_AMOUNT_INVALID, "discount" },
        { 25, CODE_AMOUNT_INVALID, "shipping" },
        { 26, CODE_AMOUNT_INVALID, "tax" },
        { 27, CODE_AMOUNT_INVALID, "amount" },
        { 28, CODE_BAD_FIELD, "items" },
        { 29, CODE_BAD_FIELD, "amount" },
        { 40, CODE_BAD_FIELD, "items[1].sku" },
        { 41, CODE_BAD_FIELD, "items[1].name" },
        { 42, CODE_BAD_FIELD, "items[0].quantity" },
        { 43, CODE_BAD_FIELD, "items[0].quantity" },
        { 44, CODE_AMOUNT_INVALID, "items[0].unit_price" },
        { 45, CODE_AMOUNT_INVALID, "items[0].quantity" },
        { 46, CODE_AMOUNT_INVALID, "items[0].unit_price" },
        { 47, CODE_AMOUNT_INVALID, "items[0].discount" },
        { 48, CODE_AMOUNT_INVALID, "items[1].discount" },
        { 49, CODE_AMOUNT_INVALID, "discount" },
        { 50, CODE_BAD_FIELD, "items" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        change(rows[i].which);
        struct made m = make(w, &base);
        struct str what = str_printf(w->world.arena, "%d: %s " STR_FMT, rows[i].which,
                                     code_info(m.code)->name, STR_ARG(m.r.field));
        check_row(m.code == rows[i].code && m.r.code == m.code, what.p);
        check_row(str_eq(m.r.field, str_of(rows[i].field)), what.p);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM order_info"), 0);
}

static void a_number_like_ours(void **state)
{
    struct core *w = *state;
    struct order first = core_order(w, "o1", 1);
    struct number_text ours = number_text(first.no);
    struct order_new n = order_input(ours.s, 1);
    struct made m = make(w, &n);
    assert_int_equal(m.code, CODE_BAD_FIELD);
    assert_str(m.r.field, "merchant_order_no");
}

static void nothing_to_pay(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    n.discount_fen = 8800;
    assert_int_equal(make(w, &n).code, CODE_AMOUNT_ZERO);
    n.shipping_fen = 1;
    assert_int_equal(make(w, &n).code, CODE_OK);
}

/* ---- sums and shares ---- */

static void shares(void **state)
{
    struct core *w = *state;
    struct order_item lines[] = { item("a", 9950, 1, 0), item("b", 9950, 1, 0),
                                  item("free", 0, 3, 0), item("c", 200, 2, 400) };
    struct order_new n = order_input("o1", 0);
    n.has_amount = false;
    n.items = lines;
    n.item_count = 4;
    n.discount_fen = 1990;
    struct order o = core_order_of(w, &n);
    assert_int_equal(money_fen(o.order_amount), 19900);
    assert_int_equal(money_fen(o.pay_amount), 17910);
    assert_int_equal(o.item_count, 4);
    assert_int_equal(money_fen(o.items[0].paid_share), 8955); /* not the 8954 of document 001 */
    assert_int_equal(money_fen(o.items[1].paid_share), 8955);
    assert_int_equal(money_fen(o.items[2].paid_share), 0);
    assert_int_equal(money_fen(o.items[3].paid_share), 0);
    assert_int_equal(money_fen(o.items[3].line_amount), 400);
    o = core_get_order(w, o.no);
    assert_int_equal(money_fen(o.items[1].paid_share), 8955);
    assert_str(o.items[2].sku, "free");
}

static void the_odd_fen_goes_to_the_first_line(void **state)
{
    struct core *w = *state;
    struct order_item lines[] = { item("a", 1, 1, 0), item("b", 1, 1, 0), item("c", 1, 1, 0) };
    struct order_new n = order_input("o1", 0);
    n.has_amount = false;
    n.items = lines;
    n.item_count = 3;
    n.shipping_fen = 7;
    struct order o = core_order_of(w, &n); /* 10 over 3 equal lines */
    assert_int_equal(money_fen(o.items[0].paid_share), 4);
    assert_int_equal(money_fen(o.items[1].paid_share), 3);
    assert_int_equal(money_fen(o.items[2].paid_share), 3);

    for (size_t i = 0; i < 3; i++)
        lines[i] = item("free", 0, 1, 0);
    n.merchant_order_no = STR("o2");
    o = core_order_of(w, &n); /* only shipping is paid */
    assert_int_equal(money_fen(o.items[0].paid_share) + money_fen(o.items[1].paid_share) +
                         money_fen(o.items[2].paid_share),
                     7);
}

/* ---- once more ---- */

static void the_same_order_again(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input("o1", 8800);
    struct made first = make(w, &n);
    assert_true(first.created);
    n.remark = STR("a remark is no business"), n.request_id = STR("r9");
    core_advance(w, 60000);
    struct made again = make(w, &n);
    assert_int_equal(again.code, CODE_OK);
    assert_false(again.created);
    assert_int_equal(again.o.no.id, first.o.no.id);
    w->act.caller = (struct caller_ref) { 8, STR("other") }; /* numbers are each caller's own */
    assert_true(make(w, &n).created);
}

static void another_content_names_the_field(void **state)
{
    struct core *w = *state;
    struct order_item lines[] = { item("a", 100, 2, 0), item("b", 50, 1, 10) };
    struct order_new n = order_input("o1", 0);
    n.has_amount = false;
    n.items = lines;
    n.item_count = 2;
    n.discount_fen = 5;
    n.expire_in_ms = 600000;
    assert_true(make(w, &n).created);
    static const char *const fields[] = { "user_id",
                                          "subject",
                                          "items",
                                          "items[0].sku",
                                          "items[0].name",
                                          "items[1].unit_price",
                                          "items[0].quantity",
                                          "items[1].discount",
                                          "discount",
                                          "shipping",
                                          "tax",
                                          "expire_in_s",
                                          "items" };
    for (size_t i = 0; i < COUNT(fields); i++) {
        struct order_item changed[] = { lines[0], lines[1] };
        struct order_new m = n;
        m.items = changed;
        switch (i) {
        case 0:
            m.user_id = STR("u2");
            break;
        case 1:
            m.subject = STR("coffee");
            break;
        case 2:
            m.item_count = 1;
            break;
        case 3:
            changed[0].sku = STR("z");
            break;
        case 4:
            changed[0].name = STR("z");
            break;
        case 5:
            changed[1].unit_price = cny(51);
            break;
        case 6:
            changed[0].quantity = 3;
            break;
        case 7:
            changed[1].discount = cny(11);
            break;
        case 8:
            m.discount_fen = 6;
            break;
        case 9:
            m.shipping_fen = 1;
            break;
        case 10:
            m.tax_fen = 1;
            break;
        case 11:
            m.expire_in_ms = 0;
            break;
        case 12:
            m.items = NULL, m.item_count = 0, m.has_amount = true, m.amount_fen = 240;
            break;
        }
        struct made made = make(w, &m);
        check_row(made.code == CODE_ORDER_MISMATCH, fields[i]);
        check_row(str_eq(made.r.field, str_of(fields[i])), fields[i]);
    }
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM order_info"), 1);
}

/* Without a number of the caller's: user and request id are the key; without either, every order is
 * new. */
static void keys(void **state)
{
    struct core *w = *state;
    struct order_new n = order_input(NULL, 8800);
    n.request_id = STR("r1");
    struct made first = make(w, &n), again = make(w, &n);
    assert_int_equal(first.o.no.id, again.o.no.id);
    n.user_id = STR("u2");
    assert_true(make(w, &n).created);
    n.request_id = STR_NONE;
    assert_true(make(w, &n).created);
    assert_true(make(w, &n).created);
    assert_int_equal(first.o.no.slot, number_slot(STR("shop"), STR("u1")));
    n = order_input("o1", 1);
    assert_int_equal(core_order_of(w, &n).no.slot, number_slot(STR("shop"), STR("o1")));
}

/* ---- reading ---- */

static void reading(void **state)
{
    struct core *w = *state;
    struct number nos[5];
    for (int i = 0; i < 5; i++) {
        struct order_new n = order_input(str_printf(w->world.arena, "o%d", i).p, 100 + i);
        if (i == 3)
            n.user_id = STR("u2");
        nos[i] = core_order_of(w, &n).no;
        core_advance(w, 1000);
    }
    struct order o, *rows;
    struct refusal r = { 0 };
    size_t n;
    assert_int_equal(order_find(&w->c, &w->act, STR("o2"), &o, &r), CODE_OK);
    assert_int_equal(o.no.id, nos[2].id);
    assert_int_equal(order_find(&w->c, &w->act, STR("nope"), &o, &r), CODE_ORDER_NOT_FOUND);

    struct order_filter f = { .status = -1, .limit = 2 };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 2);
    assert_int_equal(rows[0].no.id, nos[4].id);
    f.before_id = rows[1].no.id;
    f.limit = 10;
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 3);
    assert_int_equal(rows[0].no.id, nos[2].id);
    f = (struct order_filter) { .status = -1, .limit = 10, .user_id = STR("u2") };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 1);
    f = (struct order_filter) { .status = ORDER_PAID, .limit = 10 };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 0);
    f = (struct order_filter) { .status = -1,
                                .limit = 10,
                                .created_from_ms = WORLD_NOW_MS + 1000,
                                .created_to_ms = WORLD_NOW_MS + 3000 };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 2);
    f = (struct order_filter) { .status = -1, .limit = 10, .merchant_order_no = STR("o1") };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 1);

    w->act.caller.id = 8;
    assert_int_equal(order_get(&w->c, &w->act, nos[0], &o, &r), CODE_ORDER_NOT_FOUND);
    f = (struct order_filter) { .status = -1, .limit = 10 };
    assert_int_equal(order_list(&w->c, &w->act, &f, &rows, &n, &r), CODE_OK);
    assert_int_equal(n, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CORE_TEST(every_refusal_names_its_field),
        CORE_TEST(a_number_like_ours),
        CORE_TEST(nothing_to_pay),
        CORE_TEST(shares),
        CORE_TEST(the_odd_fen_goes_to_the_first_line),
        CORE_TEST(the_same_order_again),
        CORE_TEST(another_content_names_the_field),
        CORE_TEST(keys),
        CORE_TEST(reading),
    };
    return RUN_CORE_TESTS(tests);
}
