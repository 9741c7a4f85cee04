/* What must be zero is found when it is not, and only then. */
#include "refund_world.h"

/* Four orders: one paid and some of it on its way back, one cancelled and paid afterwards; one held
 * payment and one open. */
struct books {
    struct number paid, surplus, held, open;
};

static struct books some_books(struct core *w)
{
    struct books b;
    struct order o;
    struct refusal r = { 0 };
    bool closing;
    struct number no = core_order(w, "paid", 8800).no;
    b.paid = core_pay(w, no).no;
    core_paid(w, b.paid, 8800, "T1");
    core_settle(w, no);
    assert_int_equal(open_amount(w, b.paid, "r1", 3000).o.how, REFUND_OPENED);

    no = core_order(w, "late", 8800).no;
    b.surplus = core_pay(w, no).no;
    assert_int_equal(order_cancel(&w->c, &w->act, no, STR("no"), &o, &closing, &r), CODE_OK);
    core_paid(w, b.surplus, 8800, "T2");
    core_settle(w, no);

    b.held = core_pay(w, core_order(w, "held", 8800).no).no;
    core_paid(w, b.held, 1, "T3");
    b.open = core_pay(w, core_order(w, "open", 8800).no).no;
    return b;
}

#define SPOIL(text) (&(const struct sql) { "spoil", text })

static enum err spoil_rule(struct tx *tx, void *sql, struct err_info *info)
{
    return tx_exec(tx, sql, NO_BINDS, NULL, info);
}

static void each_is_found(void **state)
{
    (void)state;
    const struct {
        enum invariant which;
        const struct sql *spoil;
        int64_t ms; /* that pass before it is looked at */
    } rows[] = {
        { BROKEN_UNSETTLED, SPOIL("UPDATE payment_order SET settled = 0 WHERE settled = 2"),
          601000 },
        { BROKEN_NO_EVIDENCE,
          SPOIL("UPDATE payment_order SET evidence_kind = 0 WHERE settled = 1") },
        { BROKEN_OVERDRAWN, SPOIL("UPDATE payment_order SET refunding = 1, refunded = 8800 WHERE "
                                  "settled = 1") },
        { BROKEN_WINNER, SPOIL("UPDATE payment_order SET settled = 1 WHERE settled = 2") },
        { BROKEN_UNEXPLAINED, SPOIL("DELETE FROM incident WHERE kind = 1") },
        { BROKEN_ASIDE, SPOIL("UPDATE payment_order SET settled = 3 WHERE settled = 2") },
        { BROKEN_HELD, SPOIL("UPDATE incident SET state = 1 WHERE kind = 3") },
        { BROKEN_FORGOTTEN, SPOIL("UPDATE callback_due SET due = due"), 25 * 3600000LL },
        { BROKEN_FORGOTTEN, SPOIL("DELETE FROM refund_due") },
        { BROKEN_NO_EVIDENCE, SPOIL("UPDATE refund_order SET status = 3") },
        { BROKEN_SUMS, SPOIL("UPDATE payment_order SET refunding = refunding + 1 WHERE settled = "
                             "1") },
        { BROKEN_SUMS, SPOIL("DELETE FROM refund_order") },
        { BROKEN_PAID, SPOIL("UPDATE payment_order SET paid_amount = 8801 WHERE settled = 1") },
        { BROKEN_CANCELLED, SPOIL("UPDATE payment_order SET late = 0") },
        { BROKEN_JOURNAL,
          SPOIL("UPDATE state_journal SET to_status = 3 WHERE seq = 2 AND kind = 80 "
                "AND to_status = 1 AND subject_id = (SELECT id FROM payment_order "
                "WHERE settled = 1)") },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct core w;
        core_open(&w);
        struct books b = some_books(&w);
        struct invariant_pass before = core_invariants(&w);
        for (int k = 0; k < INVARIANTS; k++)
            check_row(before.broken[k] == 0, invariant_name((enum invariant)k));
        assert_int_equal(before.open, 2);
        assert_int_equal(before.quarantined, 1);
        assert_int_equal(before.rows, 18);

        world_run(&w.world, spoil_rule, (void *)(uintptr_t)rows[i].spoil);
        core_advance(&w, rows[i].ms);
        struct invariant_pass after = core_invariants(&w);
        const char *name = invariant_name(rows[i].which);
        check_row(after.broken[rows[i].which] == 1, name);
        struct number example = after.example[rows[i].which];
        check_row(number_is(example), name);
        if (rows[i].which == BROKEN_HELD)
            assert_string_equal(number_text(example).s, number_text(b.held).s);
        if (rows[i].ms > 601000)
            assert_string_equal(number_text(example).s, number_text(b.open).s);
        core_close(&w);
    }
}

/* A move between two rows that fit together, but that no table has. */
static enum err impossible_rule(struct tx *tx, void *id, struct err_info *info)
{
    static const struct sql write = { "write",
                                      "UPDATE payment_order SET status = 1, journal_id = "
                                      "?, journal_seq = ?, journal_hash = ? WHERE id = ?" };
    struct payment p;
    struct journal_row row;
    struct journal_head head;
    struct evidence none = { .actor = STR("nobody") };
    bool first;
    enum err e = first_run(tx, &first, info);
    if (e || !first)
        return e;
    e = payment_load(tx, *(int64_t *)id, &p, info);
    if (!e)
        e = journal_next(tx, p.no, &p.journal, PAYMENT_SUCCESS, PAYMENT_PAYING, CAUSE_QUERY, &none,
                         STR("trace"), STR_NONE, &row, &head, info);
    if (!e)
        e = journal_insert(tx, &row, info);
    return e ? e
             : tx_exec(tx, &write,
                       BINDS(bind_int(head.id), bind_int(head.seq),
                             bind_blob(sha256_str(&head.hash)), bind_int(p.no.id)),
                       NULL, info);
}

static void a_success_is_not_taken_back(void **state)
{
    (void)state;
    struct core w;
    core_open(&w);
    struct books b = some_books(&w);
    world_run(&w.world, impossible_rule, &b.paid.id);
    struct invariant_pass after = core_invariants(&w);
    assert_int_equal(after.broken[BROKEN_MOVE], 1);
    assert_int_equal(after.broken[BROKEN_JOURNAL], 0);
    assert_string_equal(number_text(after.example[BROKEN_MOVE]).s, number_text(b.paid).s);
    core_close(&w);
}

/* More rows than a page has, and only those of the time asked about. */
static void page_by_page(void **state)
{
    struct core *w = *state;
    char key[16];
    for (int i = 0; i < 120; i++) {
        snprintf(key, sizeof key, "o%d", i);
        w->prepay.calls = 0;
        core_pay(w, core_order(w, key, 100).no);
        if (i == 59)
            core_advance(w, 10000000);
    }
    assert_int_equal(core_invariants(w).rows, 480);
    assert_int_equal(core_invariants(w).open, 120);
    struct invariant_pass pass = { .since_ms = WORLD_NOW_MS + 10000000 };
    while (!pass.over)
        world_read(&w->world, invariants_rule, &pass);
    assert_int_equal(pass.open, 60);
}

static enum err incidents_rule(struct tx *tx, void *ret, struct err_info *info)
{
    return invariant_incidents(tx, ret, info);
}

static void incidents_by_kind(void **state)
{
    struct core *w = *state;
    some_books(w);
    struct invariant_incidents i;
    world_read(&w->world, incidents_rule, &i);
    assert_int_equal(i.open[INCIDENT_PAID_AFTER_CLOSE], 1);
    assert_int_equal(i.open[INCIDENT_AMOUNT_MISMATCH], 1);
    assert_int_equal(i.open[INCIDENT_PAID_TWICE], 0);
    assert_int_equal(i.oldest_ms[INCIDENT_PAID_AFTER_CLOSE], WORLD_NOW_MS);
    assert_int_equal(i.braked, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_found),
        cmocka_unit_test(a_success_is_not_taken_back),
        CORE_TEST(page_by_page),
        CORE_TEST(incidents_by_kind),
    };
    return RUN_CORE_TESTS(tests);
}
