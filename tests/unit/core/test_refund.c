/* rules.md section 5: every cell of the table, on the real database. */
#include "refund_world.h"

#include "base/buf.h"

static const char *const names[] = { "INIT",   "PROCESSING", "SUCCESS",
                                     "FAILED", "ABNORMAL",   "REVERSED" };

/* Turns what a test wants of the row into what the row says. */
struct forcing {
    int64_t id, unknown, missing;
};

static enum err forcing_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct forcing *f = arg;
    struct refund r;
    enum err e = refund_load(tx, f->id, &r, info);
    if (e)
        return e;
    struct refund to = r;
    to.unknown_calls = f->unknown;
    to.missing_count = f->missing;
    return refund_sql_keep(tx, &r, &to, info);
}

static struct refund in_status(struct core *w, const char *order, enum refund_status status)
{
    struct payment p = paid(w, order, 8800);
    struct refund r = open_amount(w, p.no, "r1", 3000).r;
    static const enum fact_kind way[] = {
        [REFUND_PROCESSING] = FACT_REFUND_ACCEPTED, [REFUND_SUCCESS] = FACT_REFUND_DONE,
        [REFUND_FAILED] = FACT_REFUND_CLOSED,       [REFUND_ABNORMAL] = FACT_REFUND_ABNORMAL,
        [REFUND_REVERSED] = FACT_REFUND_DONE,
    };
    if (status != REFUND_INIT)
        state_kind(w, &r, way[status]);
    if (status == REFUND_REVERSED)
        state_kind(w, &r, FACT_REFUND_REVERSED);
    assert_int_equal(refund_now(w, r.no).status, status);
    return refund_now(w, r.no);
}

struct expected {
    enum refund_move move;
    enum refund_status to;
    int incident; /* enum incident_kind; 0: none */
};
#define MOVED(s)                                                                                   \
    {                                                                                              \
        REFUND_MOVED, REFUND_##s, 0                                                                \
    }
#define STAYS(s)                                                                                   \
    {                                                                                              \
        REFUND_ALREADY, REFUND_##s, 0                                                              \
    }
#define ASKS(s)                                                                                    \
    {                                                                                              \
        REFUND_QUERY_WANTED, REFUND_##s, 0                                                         \
    }
#define CONFLICTS(s)                                                                               \
    {                                                                                              \
        REFUND_CONFLICT, REFUND_##s, INCIDENT_STATUS_CONFLICT                                      \
    }
#define STUCK                                                                                      \
    {                                                                                              \
        REFUND_MOVED, REFUND_ABNORMAL, INCIDENT_REFUND_ABNORMAL                                    \
    }
/* clang-format off */
static const struct expected table[][6] = {
    [REFUND_ROW_ACCEPTED] = { MOVED(PROCESSING), STAYS(PROCESSING), STAYS(SUCCESS), ASKS(FAILED), STAYS(ABNORMAL), STAYS(REVERSED) },
    [REFUND_ROW_REFUSED] = { MOVED(FAILED), ASKS(PROCESSING), STAYS(SUCCESS), STAYS(FAILED), ASKS(ABNORMAL), STAYS(REVERSED) },
    [REFUND_ROW_REFUSED_UNSURE] = { ASKS(INIT), ASKS(PROCESSING), STAYS(SUCCESS), STAYS(FAILED), ASKS(ABNORMAL), STAYS(REVERSED) },
    [REFUND_ROW_REFUSED_GONE] = { MOVED(FAILED), MOVED(FAILED), STAYS(SUCCESS), STAYS(FAILED), MOVED(FAILED), STAYS(REVERSED) },
    [REFUND_ROW_DONE] = { MOVED(SUCCESS), MOVED(SUCCESS), STAYS(SUCCESS), MOVED(SUCCESS), MOVED(SUCCESS), STAYS(REVERSED) },
    [REFUND_ROW_CLOSED] = { MOVED(FAILED), MOVED(FAILED), CONFLICTS(SUCCESS), STAYS(FAILED), MOVED(FAILED), STAYS(REVERSED) },
    [REFUND_ROW_ABNORMAL] = { STUCK, STUCK, CONFLICTS(SUCCESS), CONFLICTS(FAILED), STAYS(ABNORMAL), STAYS(REVERSED) },
    [REFUND_ROW_REVERSED] = { CONFLICTS(INIT), CONFLICTS(PROCESSING), MOVED(REVERSED), STAYS(FAILED), CONFLICTS(ABNORMAL), STAYS(REVERSED) },
};
/* clang-format on */
static const enum fact_kind facts[] = {
    [REFUND_ROW_ACCEPTED] = FACT_REFUND_ACCEPTED, [REFUND_ROW_REFUSED] = FACT_REFUSED,
    [REFUND_ROW_REFUSED_UNSURE] = FACT_REFUSED,   [REFUND_ROW_REFUSED_GONE] = FACT_REFUSED,
    [REFUND_ROW_DONE] = FACT_REFUND_DONE,         [REFUND_ROW_CLOSED] = FACT_REFUND_CLOSED,
    [REFUND_ROW_ABNORMAL] = FACT_REFUND_ABNORMAL, [REFUND_ROW_REVERSED] = FACT_REFUND_REVERSED,
};

static bool holds(enum refund_status s)
{
    return s == REFUND_INIT || s == REFUND_PROCESSING || s == REFUND_ABNORMAL;
}

static void one_cell(struct core *w, enum refund_row row, enum refund_status from)
{
    const struct expected *x = &table[row][from];
    struct str what = str_printf(w->world.arena, "%s, row %d", names[from], (int)row);
    struct refund before =
        in_status(w, str_printf(w->world.arena, "o%d-%d", (int)row, (int)from).p, from);
    struct forcing f = { before.no.id, row >= REFUND_ROW_REFUSED_UNSURE,
                         row == REFUND_ROW_REFUSED_GONE ? 2 : 1 };
    world_run(&w->world, forcing_rule, &f);
    int64_t events = ASK(&w->world, "SELECT count(*) FROM outbox WHERE type BETWEEN 9 AND 12");
    int64_t incidents = ASK(&w->world, "SELECT count(*) FROM incident");

    core_advance(w, 1000);
    struct stating a = state_kind(w, &before, facts[row]);
    struct refund after = refund_now(w, before.no);
    struct payment p = core_get(w, before.pay_no);

    bool moved = x->move == REFUND_MOVED, tells = moved && x->to >= REFUND_SUCCESS;
    check_row(a.move == x->move, what.p);
    check_row(after.status == x->to && a.r.status == x->to, what.p);
    check_row(after.version == before.version + moved, what.p);
    check_row(after.journal.seq == before.journal.seq + moved, what.p);
    check_row(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type BETWEEN 9 AND 12") ==
                  events + tells,
              what.p);
    check_row(ASK(&w->world, "SELECT count(*) FROM incident") == incidents + (x->incident != 0),
              what.p);
    if (x->incident)
        check_row(ASK(&w->world, "SELECT kind FROM incident ORDER BY id DESC LIMIT 1") ==
                      x->incident,
                  what.p);
    check_row(money_fen(p.refunding) == (holds(x->to) ? 3000 : 0), what.p);
    check_row(money_fen(p.refunded) == (x->to == REFUND_SUCCESS ? 3000 : 0), what.p);
    check_row(after.late == (from == REFUND_FAILED && x->to == REFUND_SUCCESS), what.p);
    if (moved)
        check_row(after.evidence_kind == EVIDENCE_CALLBACK && after.evidence_ref == 77, what.p);
    if (x->move == REFUND_QUERY_WANTED)
        check_row(after.step == REFUND_ASK && after.next_ms == env_now_ms(w->world.env), what.p);
    struct refund_cell cell = refund_cell_of(row, from);
    check_row((cell.act == REFUND_ACT_MOVE) == moved && (!moved || cell.to == x->to), what.p);

    /* once more: the same fact finds its work done */
    check_row(state_fact(w, before.no, a.fact).move != REFUND_MOVED, what.p);
    check_row(refund_now(w, before.no).status == x->to, what.p);
}

static void every_cell(void **state)
{
    (void)state;
    for (size_t row = 0; row < COUNT(table); row++) {
        struct core w;
        core_open(&w);
        for (int from = 0; from < 6; from++) {
            w.prepay.calls = 0;
            one_cell(&w, (enum refund_row)row, (enum refund_status)from);
        }
        core_check(&w);
    }
}

static void what_a_success_holds(void **state)
{
    struct core *w = *state;
    struct refund r = in_status(w, "o1", REFUND_SUCCESS);
    assert_int_equal(r.done_ms, WORLD_NOW_MS + 5000);
    assert_str(r.channel_refund_id, str_printf(w->world.arena, "W%lld", (long long)r.no.id).p);
    assert_int_equal(r.next_ms, 0);
    SQL(data, "SELECT 1 FROM outbox WHERE type = 9 AND CAST(data AS TEXT) LIKE "
              "'%\"merchant_order_no\":\"o1\"%' AND CAST(data AS TEXT) LIKE '%\"amount\":3000%' "
              "AND CAST(data AS TEXT) LIKE '%\"refunded\":3000%' AND CAST(data AS TEXT) LIKE "
              "'%\"winning_payment\":true%' AND sequence = 2");
    assert_int_equal(world_ask(&w->world, &data), 1);
}

/* Given up for good, given out again, and then it succeeded all the same: the money is gone twice,
 * and the books say so. */
static void a_late_success_counts_above_what_was_paid(void **state)
{
    struct core *w = *state;
    struct payment p = paid(w, "o1", 8800);
    struct refund a = open_amount(w, p.no, "r1", 6000).r;
    state_kind(w, &a, FACT_REFUND_CLOSED);
    struct refund b = open_amount(w, p.no, "r2", 6000).r;
    state_kind(w, &b, FACT_REFUND_DONE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 0);
    assert_int_equal(state_kind(w, &a, FACT_REFUND_DONE).move, REFUND_MOVED);
    assert_true(refund_now(w, a.no).late);
    assert_int_equal(money_fen(core_get(w, p.no).refunded), 12000);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_OVER_REFUNDED);
    assert_int_equal(ASK(&w->world, "SELECT subject_id FROM incident"), a.no.id);
}

static void a_fact_about_something_else_moves_nothing(void **state)
{
    struct core *w = *state;
    struct refund r = in_status(w, "o1", REFUND_PROCESSING);
    struct payment other = paid(w, "o2", 8800);

    struct fact wrong_amount = refund_fact(w, &r, FACT_REFUND_DONE);
    wrong_amount.amount = cny(2999);
    assert_int_equal(state_fact(w, r.no, wrong_amount).move, REFUND_MISMATCH);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_AMOUNT_MISMATCH);

    struct fact wrong_payment = refund_fact(w, &r, FACT_REFUND_CLOSED);
    wrong_payment.pay_no = number_str(w->world.arena, other.no);
    assert_int_equal(state_fact(w, r.no, wrong_payment).move, REFUND_MISMATCH);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 2);

    struct fact wrong_merchant = refund_fact(w, &r, FACT_REFUND_DONE);
    wrong_merchant.ours = false;
    assert_int_equal(state_fact(w, r.no, wrong_merchant).move, REFUND_MISMATCH);
    assert_int_equal(ASK(&w->world, "SELECT max(kind) FROM incident"), INCIDENT_ACCOUNT_MISMATCH);

    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
    /* the payment's number at the channel may be none of ours: its transaction says which it is */
    struct fact adopted = refund_fact(w, &r, FACT_REFUND_DONE);
    adopted.pay_no = STR("somebody-elses-number");
    adopted.transaction_id = core_get(w, r.pay_no).transaction_id;
    assert_int_equal(state_fact(w, r.no, adopted).move, REFUND_MOVED);
}

static void terminal_needs_evidence(void **state)
{
    struct core *w = *state;
    struct refund r = in_status(w, "o1", REFUND_PROCESSING);
    struct stating x = { .refund_id = r.no.id,
                         .fact = refund_fact(w, &r, FACT_REFUND_DONE),
                         .kind = EVIDENCE_NONE,
                         .arena = w->world.arena };
    struct err_info info = { 0 };
    assert_int_equal(world_try(&w->world, stating_rule, &x, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_INTERNAL);
    x.fact.kind = FACT_PAID;
    x.kind = EVIDENCE_QUERY;
    assert_int_equal(world_try(&w->world, stating_rule, &x, &info), STORE_REFUSED);
    x.refund_id = 12345;
    assert_int_equal(world_try(&w->world, stating_rule, &x, &info), STORE_REFUSED);
    assert_int_equal(info.err, ERR_NOT_FOUND);
    assert_int_equal(refund_now(w, r.no).status, REFUND_PROCESSING);
}

/* An operator who knows that the payer has the money states it without a channel's words. */
static enum err settle_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct loading *l = arg;
    struct evidence evidence = { .kind = EVIDENCE_OPERATOR, .actor = STR("operator:li") };
    enum refund_move move;
    return refund_apply(tx, l->id, FACT_REFUND_DONE, &evidence, CAUSE_OPERATOR, STR("t"), &move,
                        &l->r, info);
}

static void settled_offline(void **state)
{
    struct core *w = *state;
    struct refund r = in_status(w, "o1", REFUND_ABNORMAL);
    struct loading l = { .id = r.no.id };
    world_run(&w->world, settle_rule, &l);
    r = refund_now(w, r.no);
    assert_int_equal(r.status, REFUND_SUCCESS);
    assert_int_equal(r.evidence_kind, EVIDENCE_OPERATOR);
}

static enum err wake_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct refund r;
    enum err e = refund_load(tx, *(int64_t *)arg, &r, info);
    return e ? e : refund_wake(tx, &r, info);
}

static void a_turn_now(void **state)
{
    struct core *w = *state;
    struct refund r = in_status(w, "o1", REFUND_PROCESSING);
    core_advance(w, 5000);
    world_run(&w->world, wake_rule, &r.no.id);
    assert_int_equal(refund_now(w, r.no).next_ms, WORLD_NOW_MS + 5000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell),
        CORE_TEST(what_a_success_holds),
        CORE_TEST(a_late_success_counts_above_what_was_paid),
        CORE_TEST(a_fact_about_something_else_moves_nothing),
        CORE_TEST(terminal_needs_evidence),
        CORE_TEST(settled_offline),
        CORE_TEST(a_turn_now),
    };
    return RUN_CORE_TESTS(tests);
}
