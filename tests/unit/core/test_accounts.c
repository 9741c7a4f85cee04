/* Which accounts open payments name that a configuration lacks: over many pages, each payment once.
 */
#include "../flow_world.h"

#include "core/payment/flow.h"

#define MANY 450

SQL(ended, "UPDATE payment_order SET status = 4 WHERE id = ?");
SQL(moved, "UPDATE payment_order SET account = 'gone' WHERE id = ?");
SQL(woken, "INSERT INTO payment_due (due, id) VALUES (1, ?)");

struct change {
    const struct sql *sql;
    int64_t id;
};

static enum err change_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct change *c = arg;
    return tx_exec(tx, c->sql, BINDS(bind_int(c->id)), NULL, info);
}

static void change(struct flow_world *f, const struct sql *sql, struct attempt at)
{
    struct change c = { sql, at.pay_no.id };
    world_run(&f->w, change_rule, &c);
}

static void expect(struct flow_world *f, struct registry *registry, const char *text)
{
    struct err_info info = { .err = ERR_OK };
    enum err e = payment_accounts_check(f->w.store, registry, &info);
    assert_int_equal(e, text ? ERR_CONFLICT : ERR_OK);
    if (text && !strstr(info.text, text))
        fail_msg("\"%s\" does not say \"%s\"", info.text, text);
}

static void what_is_missing_is_named_and_counted(void **state)
{
    (void)state;
    struct flow_world f;
    struct attempt *at = calloc(MANY, sizeof *at);
    struct registry *empty = registry_new();
    assert_non_null(at);
    flow_world_open(&f, false);
    expect(&f, empty, NULL); /* no payments, no wishes */
    flow_attempts(&f, at, MANY);
    expect(&f, f.c.registry, NULL);
    expect(&f, empty, "450 open payments and refunds need accounts that are not there");
    expect(&f, empty, ": fake (450)");

    change(&f, &moved, at[0]);
    change(&f, &moved, at[MANY - 1]);
    change(&f, &woken, at[MANY - 1]); /* an extra wake-up is no second payment */
    expect(&f, f.c.registry, "2 open payments and refunds need accounts that are not there");
    expect(&f, f.c.registry, ": gone (2)");
    expect(&f, empty, "fake (448)");
    expect(&f, empty, "450 open");

    change(&f, &ended, at[0]); /* its row in payment_due goes later */
    change(&f, &ended, at[MANY - 1]);
    expect(&f, f.c.registry, NULL);
    registry_free(empty);
    flow_world_close(&f);
    free(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_missing_is_named_and_counted) };
    return RUN_TESTS(tests);
}
