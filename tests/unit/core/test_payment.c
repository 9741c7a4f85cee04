/* rules.md section 1: every cell of the table, on the real database. */
#include "core_world.h"

#include "base/buf.h"

static const char *const names[] = { "INIT", "PAYING", "SUCCESS", "FAILED", "CLOSED" };

static struct number attempt(struct core *w, const char *order, enum payment_status status)
{
    struct order o = core_order(w, order, 8800);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_RETRY); /* three times: stays INIT, no call unknown */
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_RETRY);
    expect(&w->prepay, CHANNEL_REFUSED, CLASS_RETRY);
    struct payment_new n = payment_input(o.no);
    assert_int_equal(core_start(w, &n).code, CODE_CHANNEL_BUSY);
    static const enum fact_kind to[] = { FACT_NOTHING, FACT_ACCEPTED, FACT_PAID, FACT_PAY_FAILED,
                                         FACT_SHUT };
    SQL(latest, "SELECT max(id) FROM payment_order");
    struct number no = number_make(NUMBER_PAYMENT, o.no.slot, world_ask(&w->world, &latest));
    core_state(w, no, fact_of(w, to[status], 8800, order));
    assert_int_equal(core_get(w, no).status, status);
    return no;
}

struct expected {
    enum payment_move move;
    enum payment_status to;
    enum incident_kind incident; /* 0: none */
};
#define MOVED(s)                                                                                   \
    {                                                                                              \
        PAYMENT_MOVED, PAYMENT_##s, 0                                                              \
    }
#define STAYS(s)                                                                                   \
    {                                                                                              \
        PAYMENT_ALREADY, PAYMENT_##s, 0                                                            \
    }
#define CLOSES(s)                                                                                  \
    {                                                                                              \
        PAYMENT_CLOSE_WANTED, PAYMENT_##s, 0                                                       \
    }
#define QUERIES(s)                                                                                 \
    {                                                                                              \
        PAYMENT_QUERY_WANTED, PAYMENT_##s, 0                                                       \
    }
#define HELD(s)                                                                                    \
    {                                                                                              \
        PAYMENT_QUARANTINED, PAYMENT_##s, INCIDENT_AMOUNT_MISMATCH                                 \
    }
#define CONFLICT(s, i)                                                                             \
    {                                                                                              \
        PAYMENT_CONFLICT, PAYMENT_##s, INCIDENT_##i                                                \
    }
static const struct expected table[][5] = {
    [ROW_ACCEPTED] = { MOVED(PAYING), STAYS(PAYING), STAYS(SUCCESS), CLOSES(FAILED),
                       CLOSES(CLOSED) },
    [ROW_REFUSED] = { MOVED(FAILED), STAYS(PAYING), STAYS(SUCCESS), STAYS(FAILED), STAYS(CLOSED) },
    [ROW_REFUSED_UNSURE] = { QUERIES(INIT), STAYS(PAYING), STAYS(SUCCESS), STAYS(FAILED),
                             STAYS(CLOSED) },
    [ROW_PAID_EQUAL] = { MOVED(SUCCESS), MOVED(SUCCESS), STAYS(SUCCESS), MOVED(SUCCESS),
                         MOVED(SUCCESS) },
    [ROW_PAID_UNEQUAL] = { HELD(INIT), HELD(PAYING), CONFLICT(SUCCESS, AMOUNT_MISMATCH),
                           HELD(FAILED), HELD(CLOSED) },
    [ROW_PAY_FAILED] = { MOVED(FAILED), MOVED(FAILED), CONFLICT(SUCCESS, STATUS_CONFLICT),
                         STAYS(FAILED), STAYS(CLOSED) },
    [ROW_SHUT] = { MOVED(CLOSED), MOVED(CLOSED), CONFLICT(SUCCESS, STATUS_CONFLICT), STAYS(FAILED),
                   STAYS(CLOSED) },
};
static const enum fact_kind facts[] = {
    [ROW_ACCEPTED] = FACT_ACCEPTED,
    [ROW_REFUSED] = FACT_REFUSED,
    [ROW_REFUSED_UNSURE] = FACT_REFUSED,
    [ROW_PAID_EQUAL] = FACT_PAID,
    [ROW_PAID_UNEQUAL] = FACT_PAID,
    [ROW_PAY_FAILED] = FACT_PAY_FAILED,
    [ROW_SHUT] = FACT_SHUT,
};

static enum err unsure_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct payment p;
    enum err e = payment_load(tx, *(int64_t *)arg, &p, info);
    return e ? e : payment_sql_called(tx, &p, 1, info);
}

static void one_cell(struct core *w, enum payment_row row, enum payment_status from)
{
    const struct expected *x = &table[row][from];
    struct str what = str_printf(w->world.arena, "%s, row %d", names[from], (int)row);
    struct number no =
        attempt(w, str_printf(w->world.arena, "o%d-%d", (int)row, (int)from).p, from);
    if (row == ROW_REFUSED_UNSURE)
        world_run(&w->world, unsure_rule, &no.id);
    struct payment before = core_get(w, no);
    int64_t events = ASK(&w->world, "SELECT count(*) FROM outbox WHERE type <= 3");
    int64_t incidents = ASK(&w->world, "SELECT count(*) FROM incident");

    int64_t fen = row == ROW_PAID_UNEQUAL ? 100 : 8800;
    struct applying a = core_state(
        w, no,
        fact_of(w, facts[row], fen, before.transaction_id.n ? before.transaction_id.p : what.p));
    struct payment after = core_get(w, no);

    check_row(a.move == x->move, what.p);
    check_row(after.status == x->to && a.p.status == x->to, what.p);
    bool moved = x->move == PAYMENT_MOVED;
    check_row(after.journal.seq == before.journal.seq + moved, what.p);
    check_row(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type <= 3") ==
                  events + (moved && x->to >= PAYMENT_SUCCESS),
              what.p);
    check_row(ASK(&w->world, "SELECT count(*) FROM incident") == incidents + (x->incident != 0),
              what.p);
    check_row(after.quarantined == (x->move == PAYMENT_QUARANTINED), what.p);
    check_row(after.late == (moved && x->to == PAYMENT_SUCCESS && from >= PAYMENT_FAILED), what.p);
    check_row((after.close_requested == CLOSE_TERMINAL) == (x->move == PAYMENT_CLOSE_WANTED),
              what.p);
    if (!moved && x->move != PAYMENT_QUARANTINED && x->move != PAYMENT_CLOSE_WANTED)
        check_row(after.version == before.version, what.p); /* "–" writes nothing */
    if (moved && x->to >= PAYMENT_SUCCESS)
        check_row(after.evidence_kind == EVIDENCE_CALLBACK && after.evidence_ref == 99, what.p);

    /* once more: the same fact finds its work done */
    struct applying again = core_state(w, no, a.fact);
    check_row(again.move != PAYMENT_MOVED, what.p);
    check_row(core_get(w, no).status == x->to, what.p);
}

static void every_cell(void **state)
{
    (void)state;
    for (size_t row = 0; row < COUNT(table); row++) {
        struct core w;
        core_open(&w);
        for (int from = 0; from < 5; from++) {
            w.prepay.head = w.prepay.tail = w.prepay.calls = 0;
            one_cell(&w, (enum payment_row)row, (enum payment_status)from);
        }
        core_check(&w);
    }
}

static void what_a_success_holds(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    struct fact f = fact_of(w, FACT_PAID, 8800, "T1");
    f.payer_amount = cny(8000);
    f.channel_discount = cny(800);
    core_state(w, no, f);
    struct payment p = core_get(w, no);
    assert_int_equal(money_fen(p.paid_amount), 8800);
    assert_int_equal(money_fen(p.payer_amount), 8000);
    assert_int_equal(money_fen(p.channel_discount), 800);
    assert_str(p.transaction_id, "T1");
    assert_int_equal(p.pay_ms, WORLD_NOW_MS + 5000);
    assert_int_equal(ASK(&w->world, "SELECT live FROM payment_order"), 0); /* keeps its place */
    SQL(data, "SELECT 1 FROM outbox WHERE type = 1 AND CAST(data AS TEXT) LIKE "
              "'%\"merchant_order_no\":\"o1\"%' "
              "AND CAST(data AS TEXT) LIKE '%\"paid_amount\":8800%' AND CAST(data AS TEXT) LIKE "
              "'%\"transaction_id\":\"T1\"%'");
    assert_int_equal(world_ask(&w->world, &data), 1);
}

static void another_transaction_is_a_clash(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_SUCCESS);
    assert_int_equal(core_paid(w, no, 8800, "o1"), PAYMENT_ALREADY);
    assert_int_equal(core_paid(w, no, 8800, "T2"), PAYMENT_CLASH);
    assert_int_equal(core_paid(w, no, 8800, "T2"), PAYMENT_CLASH);
    assert_int_equal(core_paid(w, no, 8800, "T3"), PAYMENT_CLASH);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 5"), 2);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident WHERE discriminator = 'T2'"), 2);
    assert_str(core_get(w, no).transaction_id, "o1");
}

struct detail {
    struct arena *arena;
    struct str text;
};

static enum err detail_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct detail *d = arg;
    struct incident_row row;
    size_t n;
    struct incident_filter newest = { .state = -1, .limit = 1 };
    enum err e = incident_list(tx, &newest, &row, &n, info);
    if (!e && n)
        d->text = str_dup(d->arena, row.detail);
    return e;
}

/* Of the newest incident. */
static void assert_detail(struct core *w, const char *want)
{
    struct detail d = { .arena = w->world.arena };
    struct err_info info = { 0 };
    assert_ok(store_read(w->world.store, 0, "detail", detail_rule, &d, &info));
    assert_str(d.text, want);
}

/* The channel names one transaction for two payments: the second is held, not believed. */
static void one_transaction_for_two_payments(void **state)
{
    struct core *w = *state;
    struct number a = attempt(w, "o1", PAYMENT_PAYING);
    struct number b = attempt(w, "o2", PAYMENT_PAYING);
    assert_int_equal(core_paid(w, a, 8800, "T1"), PAYMENT_MOVED);
    assert_int_equal(core_paid(w, b, 8800, "T1"), PAYMENT_QUARANTINED);
    struct payment p = core_get(w, b);
    assert_true(p.quarantined && p.status == PAYMENT_PAYING);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_TRANSACTION_CLASH);
    struct number_text owner = number_text(a);
    assert_detail(w, str_printf(w->world.arena,
                                "PAID stated by callback: 88.00 CNY (8800 fen); transaction T1; "
                                "the payment is PAYING: 88.00 CNY (8800 fen); payment %s has this "
                                "transaction",
                                owner.s)
                         .p);
}

static void details_have_no_loose_ends(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    assert_int_equal(core_paid(w, no, 500, NULL), PAYMENT_QUARANTINED);
    assert_detail(w, "PAID stated by callback: 5.00 CNY (500 fen); the payment is PAYING: 88.00 "
                     "CNY (8800 fen)");
}

static void the_held_move_by_nobody_but_an_operator(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    assert_int_equal(core_paid(w, no, 100, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(money_fen(core_get(w, no).paid_amount), 100);
    assert_int_equal(core_paid(w, no, 8800, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(core_state(w, no, fact_of(w, FACT_SHUT, 0, NULL)).move, PAYMENT_ALREADY);
    assert_int_equal(core_state(w, no, fact_of(w, FACT_PAY_FAILED, 0, NULL)).move, PAYMENT_ALREADY);
    assert_int_equal(core_get(w, no).status, PAYMENT_PAYING);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 2);
    /* out of the ladder and the close job */
    core_advance(w, 3600 * 1000);
    core_due(w);
    assert_int_equal(w->query.calls + w->close.calls, 0);
}

static void another_merchants_money(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    w->fact_ours = false;
    assert_int_equal(core_paid(w, no, 8800, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_ACCOUNT_MISMATCH);
}

static void wrong_currency_is_no_amount(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    struct fact f = fact_of(w, FACT_PAID, 8800, "T1");
    assert_ok(money_of(8800, STR("USD"), &f.amount));
    assert_int_equal(core_state(w, no, f).move, PAYMENT_QUARANTINED);
    assert_int_equal(money_fen(core_get(w, no).paid_amount), 0);
}

static void terminal_needs_evidence(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    static const enum fact_kind kinds[] = { FACT_PAID, FACT_PAY_FAILED, FACT_SHUT };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct applying x = { .pay_id = no.id,
                              .fact = fact_of(w, kinds[i], 8800, "T1"),
                              .equal = true,
                              .kind = EVIDENCE_NONE };
        struct err_info info = { 0 };
        assert_int_equal(world_try(&w->world, applying_rule, &x, &info), STORE_REFUSED);
        assert_int_equal(info.err, ERR_INTERNAL);
    }
    assert_int_equal(core_get(w, no).status, PAYMENT_PAYING);
}

static void what_is_no_fact_of_a_payment(void **state)
{
    struct core *w = *state;
    struct number no = attempt(w, "o1", PAYMENT_PAYING);
    assert_int_equal(core_state(w, no, fact_of(w, FACT_NOTHING, 0, NULL)).move, PAYMENT_ALREADY);
    struct applying x = { .pay_id = no.id,
                          .fact = fact_of(w, FACT_REFUND_DONE, 1, NULL),
                          .kind = EVIDENCE_QUERY };
    struct err_info info = { 0 };
    assert_int_equal(world_try(&w->world, applying_rule, &x, &info), STORE_REFUSED);
    x = (struct applying) { .pay_id = 12345,
                            .fact = fact_of(w, FACT_SHUT, 0, NULL),
                            .kind = EVIDENCE_QUERY };
    assert_int_equal(world_try(&w->world, applying_rule, &x, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_NOT_FOUND);
}

/* The open place: 0 while open or succeeded, the row's own id once it is over. */
static void the_open_place(void **state)
{
    struct core *w = *state;
    static const struct {
        enum payment_status status;
        bool keeps;
    } rows[] = { { PAYMENT_INIT, true },
                 { PAYMENT_PAYING, true },
                 { PAYMENT_SUCCESS, true },
                 { PAYMENT_FAILED, false },
                 { PAYMENT_CLOSED, false } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        w->prepay.head = w->prepay.tail = w->prepay.calls = 0;
        struct number no = attempt(w, str_printf(w->world.arena, "o%zu", i).p, rows[i].status);
        SQL(live, "SELECT live FROM payment_order ORDER BY id DESC LIMIT 1");
        assert_int_equal(world_ask(&w->world, &live), rows[i].keeps ? 0 : no.id);
    }
}

static void the_printed_table(void **state)
{
    (void)state;
    BUF_AUTO b;
    buf_init(&b, 8192);
    payment_matrix_print(&b);
    assert_true(buf_ok(&b));
    buf_add_char(&b, 0);
    assert_non_null(strstr(b.p, "| PAID, equal | → SUCCESS | → SUCCESS | – ; other transaction: "
                                "incident | → SUCCESS, late | → SUCCESS, late |"));
    assert_non_null(strstr(b.p, "| REFUSED, a call was unknown | query | – | – | – | – |"));
    assert_non_null(strstr(
        b.p, "| PAID, unequal | quarantine | quarantine | incident | quarantine | quarantine |"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell),
        CORE_TEST(what_a_success_holds),
        CORE_TEST(another_transaction_is_a_clash),
        CORE_TEST(one_transaction_for_two_payments),
        CORE_TEST(details_have_no_loose_ends),
        CORE_TEST(the_held_move_by_nobody_but_an_operator),
        CORE_TEST(another_merchants_money),
        CORE_TEST(wrong_currency_is_no_amount),
        CORE_TEST(terminal_needs_evidence),
        CORE_TEST(what_is_no_fact_of_a_payment),
        CORE_TEST(the_open_place),
        cmocka_unit_test(the_printed_table),
    };
    return RUN_CORE_TESTS(tests);
}
