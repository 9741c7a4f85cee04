/* flow_accounts.c -- before a configuration is used: does it still have the accounts that open
 * payments and refunds need?
 *
 * Short pages of the due tables, so that no read holds the log for long; what is missing is few
 * names, or a configuration of somebody else's, and then the first ones say enough. */
#include "core/payment/flow.h"
#include "core/payment/payment_sql.h"
#include "core/refund/refund.h"

#include <inttypes.h>
#include <string.h>

#define PAGE_ROWS   200
#define MISSING_MAX 8
#define NAME_MAX    64

struct missing {
    char name[NAME_MAX + 1];
    int64_t count;
};

typedef enum err open_page(struct tx *tx, const struct payment_open *after, size_t max,
                           struct payment_open *ret, size_t *ret_n, struct err_info *info);

struct look {
    open_page *page;
    struct payment_open after;
    struct missing pending[PAGE_ROWS]; /* of this page, by account */
    size_t pending_count, rows;
    bool more;
};

static void count_in(struct missing list[], size_t *n, size_t max, struct str name, int64_t count)
{
    for (size_t i = 0; i < *n; i++)
        if (str_eq(str_of(list[i].name), name)) {
            list[i].count += count;
            return;
        }
    if (*n == max)
        return;
    struct missing *m = &list[(*n)++];
    *m = (struct missing) { .count = count };
    memcpy(m->name, name.p, name.n < NAME_MAX ? name.n : NAME_MAX);
}

static enum err page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    struct payment_open rows[PAGE_ROWS];
    enum err e = l->page(tx, &l->after, PAGE_ROWS, rows, &l->rows, info);

    l->pending_count = 0;
    for (size_t i = 0; i < l->rows && !e; i++)
        if (rows[i].open)
            count_in(l->pending, &l->pending_count, PAGE_ROWS, rows[i].account, 1);
    l->more = !e && l->rows == PAGE_ROWS;
    if (l->more)
        l->after = (struct payment_open) { .due_ms = rows[PAGE_ROWS - 1].due_ms,
                                           .id = rows[PAGE_ROWS - 1].id };
    return e;
}

static enum err refuse_start(const struct missing list[], size_t n, int64_t total,
                             struct err_info *info)
{
    ARENA_AUTO a = arena_new(2048);
    struct buf names;
    buf_init_arena(&names, a, 1024);
    for (size_t i = 0; i < n; i++)
        buf_printf(&names, "%s%s (%" PRId64 ")", i ? ", " : "", list[i].name, list[i].count);
    struct str text = buf_str(&names);
    return err_field(info, ERR_CONFLICT, "accounts",
                     "%" PRId64 " open payments and refunds need accounts that are not there (keep "
                     "them, with retired: true, until those have ended): " STR_FMT,
                     total, STR_ARG(text));
}

struct sum {
    struct missing missing[MISSING_MAX];
    size_t n;
    int64_t total;
};

static enum err look_through(struct store *store, struct registry *registry, open_page *page,
                             struct sum *sum, struct err_info *info)
{
    struct look l = { .page = page, .more = true };

    while (l.more) {
        enum err e = store_read(store, 0, "payment.accounts", page_rule, &l, info);
        if (e)
            return e;
        for (size_t i = 0; i < l.pending_count; i++) {
            struct str name = str_of(l.pending[i].name);
            struct account *account = registry_ref(registry, name);
            if (!account) {
                sum->total += l.pending[i].count;
                count_in(sum->missing, &sum->n, MISSING_MAX, name, l.pending[i].count);
            }
            account_unref(account);
        }
    }
    return ERR_OK;
}

enum err payment_accounts_check(struct store *store, struct registry *registry,
                                struct err_info *info)
{
    struct sum sum = { .total = 0 };
    enum err e = look_through(store, registry, payment_sql_open_page, &sum, info);

    if (!e)
        e = look_through(store, registry, refund_open_page, &sum, info);
    if (!e && sum.total)
        e = refuse_start(sum.missing, sum.n, sum.total, info);
    return e;
}
