/* rules.md section 10: what an operator may do about an incident, and what comes of it. */
#include "core_world.h"

#include "base/buf.h"
#include "core/resolve/resolve.h"

/* ---- acting ---- */

static struct number incident_no(struct core *w)
{
    unsigned slot = (unsigned)ASK(&w->world, "SELECT slot FROM incident ORDER BY id DESC LIMIT 1");
    return number_make(NUMBER_INCIDENT, slot,
                       ASK(&w->world, "SELECT id FROM incident ORDER BY id DESC LIMIT 1"));
}

struct outcome {
    enum code code;
    struct resolved r;
    struct refusal refusal;
};

static struct outcome act_on(struct core *w, struct number no, enum incident_action action,
                             const char *who)
{
    struct outcome o = { .code = CODE_OK };
    struct resolve r = { .incident_no = no,
                         .any_caller = true,
                         .action = action,
                         .who = str_of(who),
                         .reason = STR("because") };
    o.code = resolve_incident(&w->c, &w->act, &r, &o.r, &o.refusal);
    return o;
}

/* Of the newest incident; it must be allowed and done. */
static struct resolved resolve_now(struct core *w, enum incident_action action)
{
    struct outcome o = act_on(w, incident_no(w), action, "operator:amy");
    if (o.code) {
        print_error("%s: " STR_FMT "\n", code_info(o.code)->name, STR_ARG(o.refusal.detail));
        fail();
    }
    assert_false(o.r.proposed);
    return o.r;
}

static enum code refused(struct core *w, enum incident_action action)
{
    return act_on(w, incident_no(w), action, "operator:amy").code;
}

static enum code cancel(struct core *w, struct number no, bool *ret_closing)
{
    struct order o;
    struct refusal r = { 0 };
    return order_cancel(&w->c, &w->act, no, STR("reason"), &o, ret_closing, &r);
}

static void orders_due(struct core *w)
{
    size_t done;
    struct err_info info = { 0 };
    assert_ok(order_due_turn(&w->c, 10, &done, &info));
}

/* A cancelled order, and its payment's late success, applied. */
static struct number paid_after_close(struct core *w, const char *key, int64_t fen,
                                      struct number *ret_pay_no)
{
    struct number no = core_order(w, key, fen).no;
    bool closing;
    *ret_pay_no = core_pay(w, no).no;
    assert_int_equal(cancel(w, no, &closing), CODE_OK);
    assert_false(closing);
    assert_int_equal(core_paid(w, *ret_pay_no, fen, key), PAYMENT_MOVED);
    core_settle(w, no);
    return no;
}

/* ---- the table ---- */

static const struct {
    enum incident_kind kind;
    const char *actions;
} fits[] = {
    { INCIDENT_PAID_AFTER_CLOSE, "refund revive ignore " },
    { INCIDENT_PAID_TWICE, "refund ignore " },
    { INCIDENT_AMOUNT_MISMATCH, "accept accept_and_refund refund retry ignore " },
    { INCIDENT_ACCOUNT_MISMATCH, "accept accept_and_refund refund retry ignore " },
    { INCIDENT_TRANSACTION_CLASH, "retry ignore " },
    { INCIDENT_STATUS_CONFLICT, "ignore " },
    { INCIDENT_ORPHAN_PAYMENT, "adopt retry ignore " },
    { INCIDENT_QUERY_STUCK, "retry ignore " },
    { INCIDENT_CALLBACK_STUCK, "retry ignore " },
    { INCIDENT_DELIVERY_DEAD, "retry ignore " },
    { INCIDENT_REFUND_HELD, "retry ignore " },
    { INCIDENT_REFUND_ABNORMAL, "settled_offline ignore " },
    { INCIDENT_OVER_REFUNDED, "ignore " },
    { INCIDENT_RISK_HELD, "retry ignore " },
    { INCIDENT_KEY_EXPIRING, "ignore " },
    { INCIDENT_LEDGER_IMBALANCE, "ignore " },
};

static void every_cell_of_the_table(void **state)
{
    (void)state;
    assert_int_equal(COUNT(fits), INCIDENT_KINDS_END - 1);
    for (size_t i = 0; i < COUNT(fits); i++) {
        BUF_AUTO b;
        buf_init(&b, 1024);
        for (int a = ACTION_NONE; a < INCIDENT_ACTIONS_END; a++)
            if (resolve_fits(fits[i].kind, (enum incident_action)a))
                buf_printf(&b, "%s ", incident_action_name((enum incident_action)a));
        assert_str(buf_str(&b), fits[i].actions);
    }
}

static void names_are_read_back(void **state)
{
    (void)state;
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k < INCIDENT_KINDS_END; k++) {
        enum incident_kind kind = 0;
        assert_ok(incident_kind_parse(str_of(incident_kind_name((enum incident_kind)k)), &kind));
        assert_int_equal(kind, k);
    }
    enum incident_kind kind = INCIDENT_PAID_TWICE;
    assert_int_equal(incident_kind_parse(STR("paid_twice"), &kind), ERR_INVALID);
    for (int a = ACTION_ACCEPT; a <= ACTION_IGNORE; a++) {
        enum incident_action action = 0;
        assert_ok(
            incident_action_parse(str_of(incident_action_name((enum incident_action)a)), &action));
        assert_int_equal(action, a);
    }
    enum incident_action action;
    assert_int_equal(incident_action_parse(STR("recovered"), &action), ERR_INVALID);
    assert_int_equal(incident_action_parse(STR("none"), &action), ERR_INVALID);
}

/* ---- the page ---- */

#define PAGE FENPAY_SOURCE_ROOT "/docs/incidents.md"
#define BEGIN_                                                                                     \
    "<!-- table: made from src/core/resolve/resolve.c by tests/unit/core/test_resolve.c "          \
    "(FENPAY_UPDATE_DOCS=1) -->\n\n"
#define END_ "\n<!-- end of table -->"

static void the_page_has_the_table(void **state)
{
    (void)state;
    static char page[65536];
    BUF_AUTO table;
    buf_init(&table, 8192);
    resolve_table_print(&table);
    buf_add_char(&table, 0);

    FILE *f = fopen(PAGE, "rb");
    assert_non_null(f);
    size_t n = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    page[n] = 0;
    char *from = strstr(page, BEGIN_), *end = strstr(page, END_);
    assert_non_null(from);
    assert_non_null(end);
    from += strlen(BEGIN_);
    bool same = (size_t)(end - from) == table.n - 1 && memcmp(from, table.p, table.n - 1) == 0;
    if (!same && getenv("FENPAY_UPDATE_DOCS")) {
        f = fopen(PAGE, "wb");
        assert_non_null(f);
        fwrite(page, 1, (size_t)(from - page), f);
        fwrite(table.p, 1, table.n - 1, f);
        fputs(end, f);
        assert_int_equal(fclose(f), 0);
        return;
    }
    assert_true(same);
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k < INCIDENT_KINDS_END; k++) {
        char section[64];
        snprintf(section, sizeof section, "| `%s` |", incident_kind_name((enum incident_kind)k));
        check_row(strstr(page, section), section); /* what each kind means stands there, too */
    }
}

/* ---- money that is held ---- */

static void another_amount_is_accepted(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    assert_int_equal(core_paid(w, pay_no, 100, "T1"), PAYMENT_QUARANTINED);
    assert_str(core_get(w, pay_no).transaction_id, "T1");

    struct resolved r = resolve_now(w, ACTION_ACCEPT);
    assert_true(r.incident.resolved);
    assert_int_equal(r.incident.resolution, ACTION_ACCEPT);
    assert_str(r.incident.who, "operator:amy");
    assert_str(r.incident.reason, "because");
    assert_int_equal(money_fen(r.incident.amount), 100);

    struct payment p = core_get(w, pay_no);
    assert_int_equal(p.status, PAYMENT_SUCCESS);
    assert_int_equal(money_fen(p.paid_amount), 100);
    assert_str(p.transaction_id, "T1");
    assert_int_equal(p.pay_ms, WORLD_NOW_MS + 5000);
    assert_int_equal(p.settled, SETTLED_ASIDE);
    assert_int_equal(p.evidence_kind, EVIDENCE_OPERATOR);
    assert_int_equal(p.evidence_ref, ASK(&w->world, "SELECT id FROM audit_log"));
    assert_false(p.quarantined);
    assert_int_equal(order_status_of(w, no), ORDER_PAY_FAILED); /* that was its last attempt */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 1"), 1);

    /* The channel goes on saying so: that is what was accepted. */
    assert_int_equal(core_paid(w, pay_no, 100, "T1"), PAYMENT_ALREADY);
    assert_int_equal(core_paid(w, pay_no, 200, "T1"), PAYMENT_CONFLICT);
    assert_int_equal(core_paid(w, pay_no, 100, "T2"), PAYMENT_CONFLICT);

    /* The order can be paid anew. */
    struct number second = core_pay(w, no).no;
    assert_int_equal(core_paid(w, second, 8800, "T3"), PAYMENT_MOVED);
    core_settle(w, no);
    assert_int_equal(core_get_order(w, no).pay_no.id, second.id);
}

/* "Of another merchant", but of the right amount: accepted, it settles. */
static void the_right_amount_settles(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    w->fact_ours = false;
    assert_int_equal(core_paid(w, pay_no, 8800, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_ACCOUNT_MISMATCH);
    resolve_now(w, ACTION_ACCEPT);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_WON);
}

/* Its order was being cancelled: held money stood in the way, accepted money of another amount does
 * not. */
static void accepted_while_cancelling(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    bool closing;
    assert_int_equal(core_paid(w, pay_no, 100, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(cancel(w, no, &closing), CODE_OK);
    assert_true(closing);
    resolve_now(w, ACTION_ACCEPT);
    core_advance(w, 61000);
    orders_due(w);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);
}

/* Late, for an order that another payment has settled: accepted, it is PAID_TWICE. */
static void accepted_too_late(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, first = core_pay(w, no).no;
    core_state(w, first, fact_of(w, FACT_PAY_FAILED, 0, NULL));
    core_ended(w, no);
    struct number second = core_pay(w, no).no;
    core_paid(w, second, 8800, "T2");
    core_settle(w, no);
    w->fact_ours = false;
    assert_int_equal(core_paid(w, first, 8800, "T1"), PAYMENT_QUARANTINED);
    resolve_now(w, ACTION_ACCEPT);
    assert_int_equal(core_get_order(w, no).pay_no.id, second.id);
    struct payment p = core_get(w, first);
    assert_true(p.late);
    assert_int_equal(p.settled, SETTLED_SURPLUS);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 2 AND state = 0"),
                     1);
}

static void what_is_held_is_not_ignored(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_paid(w, pay_no, 100, "T1");
    assert_int_equal(refused(w, ACTION_IGNORE), CODE_INCIDENT_STATE);
    assert_true(core_get(w, pay_no).quarantined);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM audit_log"), 0);
    assert_int_equal(refused(w, ACTION_REVIVE), CODE_ACTION_UNFIT);
    assert_int_equal(refused(w, ACTION_ADOPT), CODE_BAD_FIELD); /* for whom? */
}

/* A false word in one callback: asked again, the channel says the truth. */
static void retry_asks_the_channel(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_paid(w, pay_no, 1, "T1");
    resolve_now(w, ACTION_RETRY);
    struct payment p = core_get(w, pay_no);
    assert_false(p.quarantined);
    assert_int_equal(money_fen(p.paid_amount), 0);
    assert_int_equal(p.transaction_id.n, 0);
    expect_fact(w, FACT_PAID, 8800, "T1");
    core_due(w);
    core_settle(w, no);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 0);
}

/* The same with an attempt that had ended, and the channel stands by its word. */
static void retry_of_an_ended_attempt(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    core_state(w, pay_no, fact_of(w, FACT_SHUT, 0, NULL));
    core_ended(w, no);
    core_paid(w, pay_no, 1, "T1");
    struct number incident = incident_no(w);
    resolve_now(w, ACTION_RETRY);
    expect_fact(w, FACT_PAID, 2, "T1");
    core_due(w);
    assert_true(core_get(w, pay_no).quarantined);
    assert_int_equal(incident_no(w).id, incident.id);
    assert_int_equal(ASK(&w->world, "SELECT state FROM incident"), 0);
    assert_int_equal(ASK(&w->world, "SELECT count FROM incident"), 2);
    assert_int_equal(ASK(&w->world, "SELECT amount FROM incident"), 2);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 2);
    resolve_now(w, ACTION_ACCEPT);
    assert_int_equal(money_fen(core_get(w, pay_no).paid_amount), 2);
    assert_true(core_get(w, pay_no).late);
}

static enum err let_go_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct payment p;
    enum err e = payment_load(tx, ((struct number *)arg)->id, &p, info);
    return e || !p.quarantined ? e : payment_release(tx, &p, info);
}

/* Let go by a retry of another incident, ignored meanwhile, and held again: somebody must know. */
static void held_again_after_it_was_ignored(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, pay_no = core_pay(w, no).no;
    assert_int_equal(core_paid(w, pay_no, 1, "T1"), PAYMENT_QUARANTINED);
    world_run(&w->world, let_go_rule, &pay_no);
    resolve_now(w, ACTION_IGNORE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 0);
    assert_int_equal(core_paid(w, pay_no, 1, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 2);
    resolve_now(w, ACTION_ACCEPT);
    assert_int_equal(core_get(w, pay_no).status, PAYMENT_SUCCESS);
}

/* One transaction claimed for two payments: none of our money came with the second. */
static void a_clash_is_let_be(void **state)
{
    struct core *w = *state;
    struct number one = core_order(w, "o1", 8800).no, two = core_order(w, "o2", 8800).no;
    struct number first = core_pay(w, one).no, second = core_pay(w, two).no;
    core_paid(w, first, 8800, "T1");
    core_settle(w, one);
    assert_int_equal(core_paid(w, second, 8800, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(core_paid(w, second, 8700, "T1"), PAYMENT_QUARANTINED);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 2);
    struct number clash = number_make(NUMBER_INCIDENT, incident_no(w).slot,
                                      ASK(&w->world, "SELECT id FROM incident WHERE kind = 5"));
    assert_int_equal(act_on(w, clash, ACTION_IGNORE, "operator:amy").code, CODE_OK);
    struct payment p = core_get(w, second);
    assert_int_equal(p.status, PAYMENT_CLOSED);
    assert_int_equal(p.evidence_kind, EVIDENCE_OPERATOR);
    assert_false(p.quarantined);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE state = 0"), 0);
    assert_int_equal(ASK(&w->world, "SELECT resolution FROM incident WHERE kind = 3"),
                     ACTION_RECOVERED);
    core_ended(w, two);
    assert_int_equal(order_status_of(w, two), ORDER_PAY_FAILED);
}

/* ---- paid after close ---- */

static void a_cancelled_order_is_revived(void **state)
{
    struct core *w = *state;
    struct number pay_no, no = paid_after_close(w, "o1", 8800, &pay_no);
    struct resolved r = resolve_now(w, ACTION_REVIVE);
    assert_int_equal(r.incident.resolution, ACTION_REVIVE);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_WON);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 5"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM state_journal WHERE to_status = 2 AND "
                                    "cause = 11 AND evidence_kind = 7"),
                     1);

    struct timeline_entry *entries;
    size_t n, told = 0;
    struct refusal refusal = { 0 };
    assert_int_equal(timeline_read(&w->c, &w->act, no, &entries, &n, &refusal), CODE_OK);
    for (size_t i = 0; i < n; i++)
        told += str_eq(entries[i].text, STR("incident PAID_AFTER_CLOSE resolved: revive; by "
                                            "operator:amy; because: because"));
    assert_int_equal(told, 1);

    /* Asked twice by one person: the same answer. By another one, or something else: too late. */
    assert_int_equal(act_on(w, r.incident.no, ACTION_REVIVE, "operator:amy").code, CODE_OK);
    assert_int_equal(act_on(w, r.incident.no, ACTION_REVIVE, "operator:bob").code,
                     CODE_INCIDENT_STATE);
    assert_int_equal(act_on(w, r.incident.no, ACTION_IGNORE, "operator:amy").code,
                     CODE_INCIDENT_STATE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM audit_log"), 1);
}

/* Two late payments of one cancelled order: one may revive it, the other may not. */
static void only_one_revives(void **state)
{
    struct core *w = *state;
    struct number no = core_order(w, "o1", 8800).no, first = core_pay(w, no).no;
    bool closing;
    core_state(w, first, fact_of(w, FACT_PAY_FAILED, 0, NULL));
    core_ended(w, no);
    struct number second = core_pay(w, no).no;
    assert_int_equal(cancel(w, no, &closing), CODE_OK);
    core_paid(w, first, 8800, "T1");
    core_settle(w, no);
    struct number of_first = incident_no(w);
    core_paid(w, second, 8800, "T2");
    core_settle(w, no);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident WHERE kind = 1"), 2);
    resolve_now(w, ACTION_REVIVE);
    assert_int_equal(core_get_order(w, no).pay_no.id, second.id);
    assert_int_equal(act_on(w, of_first, ACTION_REVIVE, "operator:amy").code, CODE_INCIDENT_STATE);
    assert_int_equal(core_get(w, first).settled, SETTLED_SURPLUS);
}

static void the_policy_revives(void **state)
{
    struct core *w = *state;
    w->c.settings.paid_after_close = POLICY_REVIVE;
    struct number pay_no, no = paid_after_close(w, "o1", 8800, &pay_no);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(core_get_order(w, no).pay_no.id, pay_no.id);
    assert_int_equal(core_get(w, pay_no).settled, SETTLED_WON);
    assert_int_equal(ASK(&w->world, "SELECT state * 10 + resolution FROM incident"),
                     10 + ACTION_REVIVE);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 5"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 1);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM state_journal WHERE from_status = 4 AND "
                                    "to_status = 2 AND cause = 6 AND evidence_kind = 1"),
                     1);
    core_settle(w, no);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident"), 1);
}

/* ---- the second person ---- */

static void much_money_needs_two_persons(void **state)
{
    struct core *w = *state;
    w->c.settings.second_person_fen = 8799;
    struct number pay_no, no = paid_after_close(w, "o1", 8800, &pay_no);
    struct number incident = incident_no(w);

    struct outcome o = act_on(w, incident, ACTION_REVIVE, "operator:amy");
    assert_int_equal(o.code, CODE_OK);
    assert_true(o.r.proposed);
    assert_int_equal(o.r.proposal.action, ACTION_REVIVE);
    assert_str(o.r.proposal.who, "operator:amy");
    assert_false(o.r.incident.resolved);
    assert_int_equal(order_status_of(w, no), ORDER_CANCELLED);

    o = act_on(w, incident, ACTION_REVIVE, "operator:amy"); /* one person is one person */
    assert_true(!o.code && o.r.proposed);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM audit_log"), 1);
    o = act_on(w, incident, ACTION_IGNORE, "operator:bob"); /* that was not said before */
    assert_int_equal(o.code, CODE_INCIDENT_STATE);

    o = act_on(w, incident, ACTION_REVIVE, "operator:bob");
    assert_true(!o.code && !o.r.proposed && o.r.incident.resolved);
    assert_str(o.r.incident.who, "operator:bob");
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident_proposal"), 0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM audit_log"), 2);
}

static void little_money_needs_one(void **state)
{
    struct core *w = *state;
    w->c.settings.second_person_fen = 8800;
    struct number pay_no;
    paid_after_close(w, "o1", 8800, &pay_no);
    resolve_now(w, ACTION_REVIVE);
    w->c.settings.second_person_fen = 0; /* never */
    paid_after_close(w, "o2", 880000, &pay_no);
    resolve_now(w, ACTION_IGNORE);
}

/* What moves no money needs one, however much it is about. */
static void asking_again_needs_one(void **state)
{
    struct core *w = *state;
    w->c.settings.second_person_fen = 1;
    struct number pay_no = core_pay(w, core_order(w, "o1", 8800).no).no;
    core_paid(w, pay_no, 100, "T1");
    resolve_now(w, ACTION_RETRY);
}

static void a_proposal_runs_out(void **state)
{
    struct core *w = *state;
    w->c.settings.second_person_fen = 1;
    struct number pay_no, no = paid_after_close(w, "o1", 8800, &pay_no);
    struct number incident = incident_no(w);
    act_on(w, incident, ACTION_IGNORE, "operator:amy");
    core_advance(w, PROPOSAL_LASTS_MS);
    struct outcome o = act_on(w, incident, ACTION_REVIVE, "operator:bob"); /* a new one */
    assert_true(!o.code && o.r.proposed);
    assert_str(o.r.proposal.who, "operator:bob");
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident_proposal"), 1);
    core_advance(w, PROPOSAL_LASTS_MS - 1);
    o = act_on(w, incident, ACTION_REVIVE, "operator:amy");
    assert_true(!o.code && !o.r.proposed);
    assert_int_equal(order_status_of(w, no), ORDER_PAID);
}

static void a_proposal_is_withdrawn(void **state)
{
    struct core *w = *state;
    w->c.settings.second_person_fen = 1;
    struct number pay_no;
    paid_after_close(w, "o1", 8800, &pay_no);
    struct number incident = incident_no(w);
    struct resolved r;
    struct refusal refusal;
    assert_int_equal(
        resolve_withdraw(&w->c, &w->act, incident, true, STR("operator:bob"), &r, &refusal),
        CODE_INCIDENT_STATE);
    act_on(w, incident, ACTION_IGNORE, "operator:amy");
    assert_int_equal(
        resolve_withdraw(&w->c, &w->act, incident, true, STR("operator:bob"), &r, &refusal),
        CODE_OK);
    assert_false(r.proposed);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM incident_proposal"), 0);
    struct outcome o = act_on(w, incident, ACTION_IGNORE, "operator:bob");
    assert_true(!o.code && o.r.proposed);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM audit_log"), 3);
}

/* ---- whose they are, what they say ---- */

static void each_caller_its_own(void **state)
{
    struct core *w = *state;
    struct number pay_no;
    paid_after_close(w, "o1", 8800, &pay_no);
    struct resolve r = { .incident_no = incident_no(w),
                         .action = ACTION_IGNORE,
                         .who = STR("amy@other"),
                         .reason = STR("because") };
    struct resolved ret;
    struct refusal refusal = { 0 };
    w->act.caller.id = CALLER + 1;
    assert_int_equal(resolve_incident(&w->c, &w->act, &r, &ret, &refusal), CODE_INCIDENT_NOT_FOUND);
    assert_int_equal(resolve_get(&w->c, &w->act, r.incident_no, false, &ret, &refusal),
                     CODE_INCIDENT_NOT_FOUND);
    assert_int_equal(resolve_get(&w->c, &w->act, r.incident_no, true, &ret, &refusal), CODE_OK);
    w->act.caller.id = CALLER;
    assert_int_equal(resolve_get(&w->c, &w->act, r.incident_no, false, &ret, &refusal), CODE_OK);
    r.reason = STR(" ");
    assert_int_equal(resolve_incident(&w->c, &w->act, &r, &ret, &refusal), CODE_BAD_FIELD);
    r.reason = STR("because");
    assert_int_equal(resolve_incident(&w->c, &w->act, &r, &ret, &refusal), CODE_OK);
    r.incident_no.slot ^= 1; /* not the number it has */
    assert_int_equal(resolve_incident(&w->c, &w->act, &r, &ret, &refusal), CODE_INCIDENT_NOT_FOUND);
}

/* Reported again: open again with what is said now, unless a person said to ignore it. */
static void it_happens_again(void **state)
{
    struct core *w = *state;
    w->c.settings.query_stuck_ms = 60000;
    struct number pay_no = core_pay(w, core_order(w, "o1", 8800).no).no;
    core_advance(w, 16 * 60000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w); /* its close begins: the query is the first step */
    core_advance(w, 3600000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w);
    assert_int_equal(ASK(&w->world, "SELECT kind FROM incident"), INCIDENT_QUERY_STUCK);
    assert_int_equal(ASK(&w->world, "SELECT amount FROM incident"), 8800);

    resolve_now(w, ACTION_RETRY);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w); /* now, not in an hour */
    assert_int_equal(ASK(&w->world, "SELECT state FROM incident"), 0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 2);
    assert_int_equal(ASK(&w->world, "SELECT evidence_ref FROM incident"), 0);

    resolve_now(w, ACTION_IGNORE);
    core_advance(w, 3600000);
    expect(&w->query, CHANNEL_UNKNOWN, CLASS_NONE);
    core_due(w);
    assert_int_equal(ASK(&w->world, "SELECT state FROM incident"), 1);
    assert_true(ASK(&w->world, "SELECT count FROM incident") >= 3);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM outbox WHERE type = 13"), 2);
    assert_int_equal(core_get(w, pay_no).status, PAYMENT_PAYING);
}

static void a_contradiction_is_only_ignored(void **state)
{
    struct core *w = *state;
    struct number pay_no = core_pay(w, core_order(w, "o1", 8800).no).no;
    core_paid(w, pay_no, 8800, "T1");
    core_state(w, pay_no, fact_of(w, FACT_SHUT, 0, NULL));
    assert_int_equal(refused(w, ACTION_RETRY), CODE_ACTION_UNFIT);
    resolve_now(w, ACTION_IGNORE);
    core_state(w, pay_no, fact_of(w, FACT_PAID, 100, "T1")); /* a success: nothing is held */
    assert_int_equal(refused(w, ACTION_ACCEPT), CODE_INCIDENT_STATE);
    assert_int_equal(refused(w, ACTION_RETRY), CODE_INCIDENT_STATE);
    resolve_now(w, ACTION_IGNORE);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_table),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(the_page_has_the_table),
        CORE_TEST(another_amount_is_accepted),
        CORE_TEST(the_right_amount_settles),
        CORE_TEST(accepted_while_cancelling),
        CORE_TEST(accepted_too_late),
        CORE_TEST(what_is_held_is_not_ignored),
        CORE_TEST(retry_asks_the_channel),
        CORE_TEST(retry_of_an_ended_attempt),
        CORE_TEST(held_again_after_it_was_ignored),
        CORE_TEST(a_clash_is_let_be),
        CORE_TEST(a_cancelled_order_is_revived),
        CORE_TEST(only_one_revives),
        CORE_TEST(the_policy_revives),
        CORE_TEST(much_money_needs_two_persons),
        CORE_TEST(little_money_needs_one),
        CORE_TEST(asking_again_needs_one),
        CORE_TEST(a_proposal_runs_out),
        CORE_TEST(a_proposal_is_withdrawn),
        CORE_TEST(each_caller_its_own),
        CORE_TEST(it_happens_again),
        CORE_TEST(a_contradiction_is_only_ignored),
    };
    return RUN_CORE_TESTS(tests);
}
