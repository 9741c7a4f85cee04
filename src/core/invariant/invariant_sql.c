/* invariant_sql.c -- the counting statements. Status numbers stand in the SQL as they are
 * persisted; the asserts tie them to their names. */
#include "core/invariant/invariant.h"

#include "core/order/order.h"
#include "core/payment/payment.h"

#include <assert.h>

static_assert(PAYMENT_INIT == 0 && PAYMENT_PAYING == 1 && PAYMENT_SUCCESS == 2 &&
                  PAYMENT_CLOSED == 4,
              "in the SQL");
static_assert(SETTLED_NO == 0 && SETTLED_WON == 1 && EVIDENCE_NONE == 0, "in the SQL");
static_assert(ORDER_PAID == 2 && ORDER_COMPLETED == 5, "in the SQL");

#define UNSETTLED_AFTER_MS 60000

SQL(invariant_payments,
    "SELECT count(*), coalesce(max(id), 0), coalesce(sum(status < 2), 0), "
    "coalesce(sum(quarantined), 0),"
    " coalesce(sum(status = 2 AND settled = 0 AND quarantined = 0 AND update_time < ?), 0),"
    " coalesce(sum(status >= 2 AND evidence_kind = 0), 0), coalesce(sum(refunding + refunded > "
    "paid_amount), 0),"
    " coalesce(sum(settled = 1 AND (winner IS NULL OR winner <> id OR order_status NOT IN (2, "
    "5))), 0)"
    " FROM (SELECT p.id, p.status, p.quarantined, p.settled, p.update_time, p.evidence_kind, "
    "p.refunding, p.refunded, p.paid_amount,"
    " o.pay_id AS winner, o.order_status FROM payment_order p LEFT JOIN order_info o ON o.id = "
    "p.order_id"
    " WHERE p.id > ? ORDER BY p.id LIMIT ?) page");

enum err invariant_page(struct tx *tx, int64_t *after_id, size_t limit, struct invariants *sum,
                        int64_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(tx, &invariant_payments,
                                BINDS(bind_int(tx_now_ms(tx) - UNSETTLED_AFTER_MS),
                                      bind_int(*after_id), bind_int((int64_t)limit)));
    if (!query_row(q))
        return query_none(q, info, ERR_INTERNAL, "a count without a row");

    int64_t n = col_int(q, 0);
    if (n)
        *after_id = col_int(q, 1);
    sum->payments += n;
    sum->open += col_int(q, 2);
    sum->quarantined += col_int(q, 3);
    sum->unsettled += col_int(q, 4);
    sum->no_evidence += col_int(q, 5);
    sum->overdrawn += col_int(q, 6);
    sum->winner += col_int(q, 7);
    *ret_n = n;
    return query_end(q, info);
}

SQL(invariant_open_incidents,
    "SELECT kind, count(*) FROM incident WHERE state = 0 GROUP BY kind LIMIT 32");

enum err invariant_incidents(struct tx *tx, int64_t ret[INCIDENT_KINDS], struct err_info *info)
{
    struct query *q = tx_select(tx, &invariant_open_incidents, NO_BINDS);

    memset(ret, 0, INCIDENT_KINDS * sizeof *ret);
    while (query_row(q)) {
        int64_t kind = col_int(q, 0);
        if (kind > 0 && kind < INCIDENT_KINDS)
            ret[kind] = col_int(q, 1);
    }
    return query_end(q, info);
}
