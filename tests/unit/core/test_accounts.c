/* Which contract each account stands for: written down when it is new, kept while a payment needs
 * it, and not a look at the payments while nothing differs. */
#include "../flow_world.h"

#include "core/account_contract/account_contract.h"
#include "core/payment/flow.h"

#define MANY 450

SQL(ended, "UPDATE payment_order SET status = 4 WHERE id = ?");
SQL(opened, "UPDATE payment_order SET status = 1 WHERE id = ?");
SQL(moved, "UPDATE payment_order SET account = 'gone' WHERE id = ?");
SQL(woken, "INSERT INTO payment_due (due, id) VALUES (1, ?)");
SQL(closing, "UPDATE payment_order SET close_requested = 6 WHERE id = ?");
SQL(unseen, "DELETE FROM payment_due WHERE id = ?");
SQL(hidden, "ALTER TABLE payment_due RENAME TO payment_due_away");

struct change {
    const struct sql *sql;
    int64_t id;
};

static enum err change_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct change *c = arg;
    struct binds id = BINDS(bind_int(c->id));
    return tx_exec(tx, c->sql, c->id ? id : NO_BINDS, NULL, info);
}

static void change(struct flow_world *f, const struct sql *sql, struct number pay_no)
{
    struct change c = { sql, pay_no.id };
    world_run(&f->w, change_rule, &c);
}

/* A configuration: names and merchants in turns, up to NULL. */
static struct registry *accounts(const char *name, ...)
{
    struct registry *r = registry_new();
    va_list more;
    va_start(more, name);
    for (; name; name = va_arg(more, const char *))
        registry_put(r, flow_account(name, va_arg(more, const char *)));
    va_end(more);
    return r;
}

/* `text` NULL: taken. Lets the configuration go. */
static void expect_when(struct flow_world *f, bool running, struct registry *r, const char *text)
{
    struct err_info info = { .err = ERR_OK };
    enum err e = account_contracts_keep(f->w.store, f->w.env, r, running, &info);
    registry_free(r);
    assert_int_equal(e, text ? ERR_CONFLICT : ERR_OK);
    if (!text)
        return;
    assert_string_equal(info.field, "accounts");
    if (!strstr(info.text, text))
        fail_msg("\"%s\" does not say \"%s\"", info.text, text);
}

static void starts(struct flow_world *f, struct registry *r)
{
    expect_when(f, false, r, NULL);
}

static void refused(struct flow_world *f, struct registry *r, const char *text)
{
    expect_when(f, false, r, text);
}

#define STORED(f, account, contract)                                                               \
    ASK(&(f)->w, "SELECT count(*) FROM account_contract WHERE account = '" account                 \
                 "' AND contract = 'wechat merchant=" contract "' AND create_time > 0")

static void contracts_are_written_before_they_are_used(void **state)
{
    (void)state;
    struct flow_world f;
    struct store_stats before, after;
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", "other", "2", NULL));
    assert_int_equal(STORED(&f, "fake", "1"), 1);
    assert_int_equal(STORED(&f, "other", "2"), 1);
    store_stats(f.w.store, &before);
    starts(&f, accounts("other", "2", "fake", "1", NULL));
    store_stats(f.w.store, &after);
    assert_int_equal(after.rules, before.rules); /* nothing to write */
    starts(&f, accounts("fake", "1", "other", "2", "third", "1", NULL));
    assert_int_equal(STORED(&f, "third", "1"), 1);
    starts(&f, accounts(NULL)); /* no payments, no wishes */
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM account_contract"), 0);
    flow_world_close(&f);
}

/* Over many pages, and whatever else is due. */
static void an_account_stays_while_payments_need_it(void **state)
{
    (void)state;
    struct flow_world f;
    struct attempt *at = calloc(MANY, sizeof *at);
    char no[48];
    assert_non_null(at);
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", "gone", "3", NULL));
    flow_attempts(&f, at, MANY);
    change(&f, &moved, at[MANY - 1].pay_no);
    snprintf(no, sizeof no, "; %s needs it", number_text(at[MANY - 1].pay_no).s);

    starts(&f, accounts("fake", "1", "gone", "3", NULL));
    refused(&f, accounts("fake", "1", NULL), "gone is not there");
    refused(&f, accounts("fake", "1", NULL), no);
    refused(&f, accounts("fake", "1", "gone", "4", NULL),
            "gone was wechat merchant=3 and would be wechat merchant=4");
    refused(&f, accounts("fake", "1", "gone", "4", NULL), no);
    refused(&f, accounts(NULL), "fake is not there");
    refused(&f, accounts("fake", "9", NULL),
            "fake was wechat merchant=1 and would be wechat merchant=9");
    refused(&f, accounts("fake", "9", NULL), "gone is not there");
    assert_int_equal(STORED(&f, "gone", "3"), 1); /* nothing of them was taken */
    assert_int_equal(STORED(&f, "fake", "1"), 1);

    change(&f, &ended, at[MANY - 1].pay_no); /* its row in payment_due goes later */
    change(&f, &woken, at[MANY - 1].pay_no);
    starts(&f, accounts("fake", "1", "gone", "4", NULL));
    assert_int_equal(STORED(&f, "gone", "4"), 1);
    assert_int_equal(STORED(&f, "gone", "3"), 0);
    starts(&f, accounts("fake", "1", NULL));
    assert_int_equal(STORED(&f, "gone", "4"), 0);
    flow_world_close(&f);
    free(at);
}

/* An attempt that ended with us and can still be paid at the channel: its close is to be told. */
static void a_close_that_waits_needs_its_account(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", NULL));
    struct attempt at = flow_attempt(&f, "m-1");
    change(&f, &ended, at.pay_no);
    change(&f, &closing, at.pay_no);
    refused(&f, accounts(NULL), number_text(at.pay_no).s);
    flow_world_close(&f);
}

/* Money of the wrong amount, that an operator has to decide about: no job comes back to it. */
static void held_money_needs_its_account(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", NULL));
    struct attempt at = flow_attempt(&f, "m-1"), stray = flow_attempt(&f, "m-2");
    flow_callback(&f, f.account, notice_text(f.w.arena, "ok", "PAID", at.pay_no, "T1", 8801));
    assert_true(flow_payment(&f, at.pay_no).quarantined);
    change(&f, &unseen, at.pay_no);
    change(&f, &ended, stray.pay_no);
    refused(&f, accounts(NULL), number_text(at.pay_no).s);
    change(&f, &ended, at.pay_no); /* paid after it had been closed: held as well */
    refused(&f, accounts(NULL), number_text(at.pay_no).s);
    flow_world_close(&f);
}

/* In use, an account keeps its contract whatever the payments say; what is gone keeps its row,
 * because the process goes on with it. */
static void a_running_process_keeps_its_contracts(void **state)
{
    (void)state;
    struct flow_world f;
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", "other", "2", NULL));
    expect_when(&f, true, accounts("fake", "9", "other", "2", NULL),
                "fake was wechat merchant=1 and would be wechat merchant=9");
    expect_when(&f, true, accounts("fake", "1", "new", "5", NULL), NULL);
    assert_int_equal(STORED(&f, "new", "5"), 1);
    assert_int_equal(STORED(&f, "other", "2"), 1);
    expect_when(&f, true, accounts("fake", "1", "new", "5", "other", "3", NULL),
                "other was wechat merchant=2 and would be wechat merchant=3");

    struct attempt at = flow_attempt(&f, "m-1");
    expect_when(&f, true, accounts("other", "2", "new", "5", NULL), "fake is not there");
    change(&f, &ended, at.pay_no);
    expect_when(&f, true, accounts("other", "2", "new", "5", NULL), NULL);
    assert_int_equal(STORED(&f, "fake", "1"), 1);
    change(&f, &opened, at.pay_no);
    refused(&f, accounts("other", "2", "new", "5", NULL), "fake is not there");
    flow_world_close(&f);
}

static void payments_are_not_looked_at_while_nothing_differs(void **state)
{
    (void)state;
    struct flow_world f;
    struct err_info info = { .err = ERR_OK };
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", NULL));
    flow_attempt(&f, "m-1");
    change(&f, &hidden, (struct number) { .id = 0 });
    starts(&f, accounts("fake", "1", NULL));
    expect_when(&f, true, accounts("fake", "1", NULL), NULL);
    starts(&f, accounts("fake", "1", "other", "2", NULL));
    struct registry *none = accounts(NULL);
    assert_int_equal(account_contracts_keep(f.w.store, f.w.env, none, false, &info), ERR_INTERNAL);
    registry_free(none);
    flow_world_close(&f);
}

/* What the rule does with a row that is not as it was when it was read. */
static enum err race_rule(struct tx *tx, void *arg, struct err_info *info)
{
    enum err *add = arg;
    enum err e = account_contract_end(tx, STR("fake"), STR("an earlier one"), info);
    if (!e)
        e = account_contract_add(tx, STR("fake"), STR("wechat merchant=1"), info);
    *add = account_contract_add(tx, STR("fake"), STR("another"), info);
    return e;
}

static void a_row_of_somebody_else_is_not_written_over(void **state)
{
    (void)state;
    struct flow_world f;
    enum err add;
    flow_world_open(&f, false);
    starts(&f, accounts("fake", "1", NULL));
    world_run(&f.w, race_rule, &add);
    assert_int_equal(add, ERR_CONFLICT);
    assert_int_equal(STORED(&f, "fake", "1"), 1);
    flow_world_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contracts_are_written_before_they_are_used),
        cmocka_unit_test(an_account_stays_while_payments_need_it),
        cmocka_unit_test(a_close_that_waits_needs_its_account),
        cmocka_unit_test(held_money_needs_its_account),
        cmocka_unit_test(a_running_process_keeps_its_contracts),
        cmocka_unit_test(payments_are_not_looked_at_while_nothing_differs),
        cmocka_unit_test(a_row_of_somebody_else_is_not_written_over),
    };
    return RUN_TESTS(tests);
}
