/* order_refunds.c -- what of an order was given back. Refunds of other payments (surplus, late) are
 * not the order's; those under way are not yet. */
#include "core/order/order_sql.h"
#include "core/refund/refund.h"

static enum order_refunds refunds_of_order(const struct order *o, struct money sum)
{
    int order;

    if (money_sign(sum) <= 0)
        return REFUNDED_NONE;
    return !money_cmp(sum, o->pay_amount, &order) && order >= 0 ? REFUNDED_FULL : REFUNDED_PART;
}

static int64_t quantity_of(const struct refund_line *lines, size_t n, int line_no)
{
    for (size_t i = 0; i < n; i++)
        if (lines[i].line_no == line_no)
            return lines[i].quantity;
    return 0;
}

enum err order_refunds_changed(struct tx *tx, int64_t order_id, struct err_info *info)
{
    struct refund_line *lines = arena_array(tx_arena(tx), REFUND_LINES_MAX, sizeof *lines);
    struct order o;
    struct money sum;
    size_t n;
    enum err e = order_load(tx, order_id, &o, info);

    if (e || !number_is(o.pay_no))
        return e;
    if ((e = refund_done(tx, o.pay_no.id, o.pay_amount, &sum, lines, REFUND_LINES_MAX, &n, info)) ||
        (e = order_load_items(tx, &o, info)))
        return e;
    enum order_refunds now = refunds_of_order(&o, sum);
    bool changed = (int)now != o.refund_status;
    for (size_t i = 0; i < o.item_count && !e; i++) {
        int64_t quantity = quantity_of(lines, n, o.items[i].line_no);
        if (quantity == o.items[i].refunded_quantity)
            continue;
        changed = true;
        e = order_sql_item_refunded(tx, o.no.id, &o.items[i], quantity, info);
    }
    if (!e && changed)
        e = order_sql_refunds(tx, &o, now, info);
    if (!e && changed)
        tx_after_commit(tx, WAKE_ORDER, o.no.id);
    return e;
}
