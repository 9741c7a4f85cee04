/* flow_accounts.c -- which accounts do payments and refunds still need? Asked when a configuration
 * lacks one.
 *
 * No index answers that: it would cost every callback a page. So a pass over what leads back to
 * those that are not finished, until each account in question has one: the due rows of both, and
 * for money that is held, which has none, the open incidents. Short pages, so that no read holds
 * the log for long. */
#include "core/incident/incident.h"
#include "core/payment/flow.h"
#include "core/payment/payment_sql.h"
#include "core/refund/refund.h"

#define PAGE_ROWS 100

struct look {
    struct list *needs;
    struct payment_due after;
    struct refund_turn_at refund_after;
    int64_t before; /* incidents, newest first */
    size_t n;
};

static void note(struct look *l, struct str account, struct number no)
{
    list_each (node, l->needs) {
        struct account_need *need = container_of(node, struct account_need, link);
        if (!need->no.id && str_eq(need->account, account))
            need->no = no;
    }
}

static bool is_answered(const struct look *l)
{
    list_each (node, l->needs)
        if (!container_of(node, struct account_need, link)->no.id)
            return false;
    return true;
}

static enum err due_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    struct payment_due rows[PAGE_ROWS];
    enum err e = payment_sql_due_after(tx, &l->after, 0, PAGE_ROWS, rows, &l->n, info);

    for (size_t i = 0; i < l->n && !e; i++) {
        if (rows[i].needs_account)
            note(l, rows[i].account, number_make(NUMBER_PAYMENT, rows[i].slot, rows[i].id));
        l->after = rows[i];
    }
    return e;
}

static enum err refund_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    struct refund_turn_at rows[PAGE_ROWS];
    enum err e = refund_open_page(tx, &l->refund_after, PAGE_ROWS, rows, &l->n, info);

    for (size_t i = 0; i < l->n && !e; i++) {
        note(l, rows[i].account, number_make(NUMBER_REFUND, rows[i].slot, rows[i].id));
        l->refund_after = rows[i];
    }
    return e;
}

static enum err held_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    struct incident_row rows[PAGE_ROWS];
    struct payment p;
    struct incident_filter open = { .before = l->before, .limit = PAGE_ROWS };
    enum err e = incident_list(tx, &open, rows, &l->n, info);

    for (size_t i = 0; i < l->n && !e; i++) {
        l->before = rows[i].no.id;
        if (rows[i].subject.kind != NUMBER_PAYMENT)
            continue;
        e = payment_load(tx, rows[i].subject.id, &p, info);
        if (!e && payment_needs_account(&p))
            note(l, p.account, p.no);
        if (e == ERR_NOT_FOUND) /* a number that no payment of ours has */
            e = ERR_OK;
    }
    return e;
}

enum err payments_needing(struct store *store, struct list *needs, struct err_info *info)
{
    static const struct {
        const char *name;
        store_rule *rule;
    } passes[] = { { "payment.needs_due", due_rule },
                   { "refund.needs_due", refund_rule },
                   { "payment.needs_held", held_rule } };
    struct look l = { .needs = needs };

    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        l.n = PAGE_ROWS;
        while (l.n == PAGE_ROWS && !is_answered(&l)) {
            enum err e = store_read(store, 0, passes[i].name, passes[i].rule, &l, info);
            if (e)
                return e;
        }
    }
    return ERR_OK;
}
