/* invariant.c -- the pass over all tables, and what the statements cannot count: whether a journal
 * is whole and every move in it stands in a table. */
#include "core/invariant/invariant.h"

#include "core/invariant/invariant_sql.h"
#include "core/order/order.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"

#include <assert.h>

#define ROWS_A_PAGE     500
#define JOURNALS_A_PAGE 100 /* each some rows, each row a hash: a snapshot lasts 50 ms at most */

static const struct {
    const char *name, *text;
} rules[] = {
    [BROKEN_UNSETTLED] = { "unsettled", "paid, and its order does not know it" },
    [BROKEN_NO_EVIDENCE] = { "no_evidence", "final without evidence" },
    [BROKEN_OVERDRAWN] = { "overdrawn", "more goes back than was paid" },
    [BROKEN_WINNER] = { "winner", "says it settled an order that says otherwise" },
    [BROKEN_UNEXPLAINED] = { "unexplained", "money of no order, and no incident about it" },
    [BROKEN_ASIDE] = { "aside", "set aside by no operator" },
    [BROKEN_HELD] = { "held", "money is held, and nobody is asked about it" },
    [BROKEN_FORGOTTEN] = { "forgotten", "nobody has asked about it for a day" },
    [BROKEN_SUMS] = { "sums", "the sums of its refunds are others" },
    [BROKEN_PAID] = { "paid", "a paid order without its payment" },
    [BROKEN_CANCELLED] = { "cancelled", "an order was cancelled after it had been paid" },
    [BROKEN_JOURNAL] = { "journal", "the journal has been edited, or is not whole" },
    [BROKEN_MOVE] = { "move", "a move that no table allows" },
};
static_assert(sizeof rules / sizeof *rules == INVARIANTS, "every rule has a name");

const char *invariant_name(enum invariant i)
{
    return rules[i].name;
}

const char *invariant_text(enum invariant i)
{
    return rules[i].text;
}

/* ---- journals ---- */

static bool payment_moves(int from, int to)
{
    if (from < 0)
        return to == PAYMENT_INIT;
    for (int row = ROW_ACCEPTED; row <= ROW_SHUT; row++) {
        struct payment_cell cell =
            payment_cell_of((enum payment_row)row, (enum payment_status)from);
        if (cell.act == ACT_MOVE && (int)cell.to == to)
            return true;
    }
    return false;
}

static bool order_moves(int from, int to)
{
    if (from < 0) /* or adopted: an order that nobody can pay */
        return to == ORDER_WAIT_PAY || to == ORDER_CANCELLED;
    for (int edge = ORDER_EDGE_ATTEMPT; edge <= ORDER_EDGE_COMPLETE; edge++) {
        enum order_status leads;
        if (order_edge_leaves((enum order_edge)edge, (enum order_status)from, &leads) &&
            (int)leads == to)
            return true;
    }
    return false;
}

static bool refund_moves(int from, int to)
{
    if (from < 0) /* or made at the channel: a success when we hear of it */
        return to == REFUND_INIT || to == REFUND_SUCCESS;
    for (int row = REFUND_ROW_ACCEPTED; row <= REFUND_ROW_REVERSED; row++) {
        struct refund_cell cell = refund_cell_of((enum refund_row)row, (enum refund_status)from);
        if (cell.act == REFUND_ACT_MOVE && (int)cell.to == to)
            return true;
    }
    return false;
}

static void note(struct invariant_pass *sum, enum invariant i, struct number no)
{
    if (!sum->broken[i]++)
        sum->example[i] = no;
}

static enum err check_journal(struct tx *tx, const struct invariant_head *h,
                              struct invariant_pass *sum, struct err_info *info)
{
    bool (*allowed)(int from, int to) = h->no.kind == NUMBER_ORDER     ? order_moves
                                        : h->no.kind == NUMBER_PAYMENT ? payment_moves
                                                                       : refund_moves;
    struct journal_row *rows;
    size_t n;
    enum err e = journal_read(tx, &h->head, &rows, &n, info);

    if (e && e != ERR_CONFLICT)
        return e;
    if (e || !n || rows[n - 1].to != h->status) {
        note(sum, BROKEN_JOURNAL, h->no);
        return ERR_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (!allowed(rows[i].from, rows[i].to) || (i && rows[i].from != rows[i - 1].to)) {
            note(sum, BROKEN_MOVE, h->no);
            break;
        }
    return ERR_OK;
}

static enum err check_journals(struct tx *tx, enum number_kind kind, int64_t after,
                               struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                               struct err_info *info)
{
    struct invariant_head *heads = arena_array(tx_arena(tx), JOURNALS_A_PAGE, sizeof *heads);
    enum err e = invariant_sql_heads(tx, kind, after, JOURNALS_A_PAGE, heads, ret_n, info);

    for (size_t i = 0; !e && i < *ret_n; i++)
        e = check_journal(tx, &heads[i], sum, info);
    if (!e && *ret_n)
        *ret_last = heads[*ret_n - 1].no.id;
    return e;
}

/* ---- the pass ---- */

enum { PAYMENTS, ORDERS, REFUNDS, PAYMENT_JOURNALS, ORDER_JOURNALS, REFUND_JOURNALS, STAGES };

static enum err one_page(struct tx *tx, struct invariant_pass *p, int64_t *ret_last, size_t *ret_n,
                         size_t *ret_limit, struct err_info *info)
{
    *ret_limit = p->stage < PAYMENT_JOURNALS ? ROWS_A_PAGE : JOURNALS_A_PAGE;
    switch (p->stage) {
    case PAYMENTS:
        return invariant_sql_payments(tx, p->after_id, ROWS_A_PAGE, p, ret_last, ret_n, info);
    case ORDERS:
        return invariant_sql_orders(tx, p->after_id, ROWS_A_PAGE, p, ret_last, ret_n, info);
    case REFUNDS:
        return invariant_sql_refunds(tx, p->after_id, ROWS_A_PAGE, p, ret_last, ret_n, info);
    case PAYMENT_JOURNALS:
        return check_journals(tx, NUMBER_PAYMENT, p->after_id, p, ret_last, ret_n, info);
    case ORDER_JOURNALS:
        return check_journals(tx, NUMBER_ORDER, p->after_id, p, ret_last, ret_n, info);
    case REFUND_JOURNALS:
        return check_journals(tx, NUMBER_REFUND, p->after_id, p, ret_last, ret_n, info);
    default:
        return err_internal(info, "the pass is over");
    }
}

static enum err whole_number(struct tx *tx, struct number *no, struct err_info *info)
{
    struct order order = { .no = *no };
    struct payment payment = { .no = *no };
    struct refund refund = { .no = *no };
    enum err e = no->kind == NUMBER_ORDER     ? order_load(tx, no->id, &order, info)
                 : no->kind == NUMBER_PAYMENT ? payment_load(tx, no->id, &payment, info)
                                              : refund_load(tx, no->id, &refund, info);
    if (!e)
        *no = no->kind == NUMBER_ORDER     ? order.no
              : no->kind == NUMBER_PAYMENT ? payment.no
                                           : refund.no;
    return e;
}

/* The statements give an id; people want the whole number. */
static enum err name_examples(struct tx *tx, const struct invariant_pass *before,
                              struct invariant_pass *p, struct err_info *info)
{
    enum err e = ERR_OK;

    for (int i = 0; !e && i < INVARIANTS && before->stage < PAYMENT_JOURNALS; i++)
        if (!before->broken[i] && p->broken[i])
            e = whole_number(tx, &p->example[i], info);
    return e;
}

enum err invariant_step(struct tx *tx, struct invariant_pass *p, struct err_info *info)
{
    struct invariant_pass next = *p;
    size_t n = 0, limit = 0;

    if (!next.after_id)
        next.after_id = number_first_id(next.since_ms) - 1;
    enum err e = one_page(tx, &next, &next.after_id, &n, &limit, info);
    if (!e)
        e = name_examples(tx, p, &next, info);
    if (e)
        return e;
    next.rows += (int64_t)n;
    if (n < limit) {
        next.after_id = 0;
        next.over = ++next.stage == STAGES;
    }
    *p = next;
    return ERR_OK;
}

enum err invariant_incidents(struct tx *tx, struct invariant_incidents *ret, struct err_info *info)
{
    return invariant_sql_incidents(tx, ret, info);
}
