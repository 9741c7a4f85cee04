/* invariant_sql.c -- the counting statements. Status numbers stand in the SQL as they are
 * persisted; the asserts tie them to their names. */
#include "core/invariant/invariant_sql.h"

#include "core/order/order.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"

#include <assert.h>
#include <inttypes.h>

static_assert(PAYMENT_INIT == 0 && PAYMENT_PAYING == 1 && PAYMENT_SUCCESS == 2 &&
                  PAYMENT_CLOSED == 4,
              "in the SQL");
static_assert(SETTLED_NO == 0 && SETTLED_WON == 1 && SETTLED_SURPLUS == 2 && SETTLED_ASIDE == 3 &&
                  EVIDENCE_NONE == 0 && EVIDENCE_OPERATOR == 7,
              "in the SQL");
static_assert(REFUND_INIT == 0 && REFUND_PROCESSING == 1 && REFUND_SUCCESS == 2 &&
                  REFUND_ABNORMAL == 4,
              "in the SQL");
static_assert(ORDER_PAID == 2 && ORDER_CANCELLED == 4 && ORDER_COMPLETED == 5, "in the SQL");
static_assert(INCIDENT_PAID_AFTER_CLOSE == 1 && INCIDENT_PAID_TWICE == 2 &&
                  INCIDENT_AMOUNT_MISMATCH == 3 && INCIDENT_ACCOUNT_MISMATCH == 4 &&
                  INCIDENT_TRANSACTION_CLASH == 5 && INCIDENT_OVER_REFUNDED == 13 &&
                  POLICY_BRAKED == 3,
              "in the SQL");

#define UNSETTLED_AFTER_MS  60000
#define UNREPAIRED_AFTER_MS (10 * 60000) /* the sweep comes every minute */
#define FORGOTTEN_AFTER_MS  (24LL * 60 * 60 * 1000)

/* How many rows of the page, and one of them. */
#define COUNT_AND_ONE(condition)                                                                   \
    "coalesce(sum(" condition "), 0), coalesce(max(CASE WHEN " condition " THEN id END), 0)"
#define NO_INCIDENT(condition)                                                                     \
    "NOT EXISTS (SELECT 1 FROM incident i WHERE i.subject_id = page.id AND " condition ")"

#define REFUNDS(statuses)                                                                          \
    "(SELECT coalesce(sum(r.amount), 0) FROM refund_order r WHERE r.pay_id = page.id AND "         \
    "r.status IN (" statuses "))"

/* clang-format off */
SQL(invariant_payments,
    "SELECT count(*), coalesce(max(id), 0), coalesce(sum(status < 2), 0), coalesce(sum(quarantined), 0), "
    "coalesce(sum(status = 2 AND settled = 0 AND update_time < unsettled_before), 0), "
    COUNT_AND_ONE("status = 2 AND settled = 0 AND update_time < unrepaired_before") ", "
    COUNT_AND_ONE("status >= 2 AND evidence_kind = 0") ", "
    COUNT_AND_ONE("refunding + refunded > paid_amount AND NOT EXISTS (SELECT 1 FROM refund_order r"
                  " JOIN incident i ON i.subject_id = r.id AND i.kind = 13 WHERE r.pay_id = page.id)") ", "
    COUNT_AND_ONE("settled = 1 AND (winner IS NULL OR winner <> id OR order_status NOT IN (2, 5))") ", "
    COUNT_AND_ONE("settled = 2 AND refunded < paid_amount AND " NO_INCIDENT("i.kind IN (1, 2)")) ", "
    COUNT_AND_ONE("settled = 3 AND evidence_kind <> 7") ", "
    COUNT_AND_ONE("quarantined = 1 AND " NO_INCIDENT("i.kind IN (3, 4, 5) AND i.state = 0")) ", "
    COUNT_AND_ONE("status < 2 AND quarantined = 0 AND next_query_time < forgotten_before") ", "
    COUNT_AND_ONE("refunding <> " REFUNDS("0, 1, 4") " OR refunded <> " REFUNDS("2"))
    " FROM (SELECT p.id, p.status, p.quarantined, p.settled, p.update_time, p.next_query_time, p.evidence_kind,"
    " p.refunding, p.refunded, p.paid_amount, o.pay_id AS winner, o.order_status,"
    " ? AS unsettled_before, ? AS unrepaired_before, ? AS forgotten_before"
    " FROM payment_order p LEFT JOIN order_info o ON o.id = p.order_id"
    " WHERE p.id > ? ORDER BY p.id LIMIT ?) page");

SQL(invariant_orders,
    "SELECT count(*), coalesce(max(id), 0), "
    COUNT_AND_ONE("order_status IN (2, 5) AND NOT EXISTS (SELECT 1 FROM payment_order p WHERE p.id = page.pay_id"
                  " AND p.order_id = page.id AND p.status = 2 AND p.settled = 1 AND p.paid_amount = page.pay_amount)") ", "
    COUNT_AND_ONE("order_status = 4 AND EXISTS (SELECT 1 FROM payment_order p WHERE p.order_id = page.id"
                  " AND p.status = 2 AND p.late = 0 AND p.settled IN (0, 1, 2))")
    " FROM (SELECT id, order_status, pay_id, pay_amount FROM order_info WHERE id > ? ORDER BY id LIMIT ?) page");

SQL(invariant_refunds,
    "SELECT count(*), coalesce(max(id), 0), "
    COUNT_AND_ONE("status >= 2 AND evidence_kind = 0") ", "
    COUNT_AND_ONE("status IN (0, 1, 4) AND NOT EXISTS (SELECT 1 FROM refund_due d WHERE d.due = page.next_time"
                  " AND d.id = page.id)")
    " FROM (SELECT id, status, evidence_kind, next_time FROM refund_order WHERE id > ? ORDER BY id LIMIT ?) page");
/* clang-format on */

SQL(invariant_order_heads, "SELECT id, slot, order_status, journal_id, journal_seq, journal_hash"
                           " FROM order_info WHERE id > ? ORDER BY id LIMIT ?");
SQL(invariant_payment_heads, "SELECT id, slot, status, journal_id, journal_seq, journal_hash"
                             " FROM payment_order WHERE id > ? ORDER BY id LIMIT ?");

SQL(invariant_refund_heads, "SELECT id, slot, status, journal_id, journal_seq, journal_hash"
                            " FROM refund_order WHERE id > ? ORDER BY id LIMIT ?");

SQL(invariant_open_incidents, "SELECT kind, count(*), min(create_time), sum(policy = 3)"
                              " FROM incident WHERE state = 0 GROUP BY kind LIMIT 64");

/* The pairs of COUNT_AND_ONE from `column` on belong to the rules from `first` on. */
static void add(struct query *q, int column, struct invariant_pass *sum, enum invariant first,
                enum invariant last, enum number_kind kind)
{
    for (int i = (int)first; i <= (int)last; i++, column += 2) {
        int64_t n = col_int(q, column);
        if (n && !sum->broken[i])
            sum->example[i] = (struct number) { .kind = kind, .id = col_int(q, column + 1) };
        sum->broken[i] += n;
    }
}

enum err invariant_sql_payments(struct tx *tx, int64_t after, size_t limit,
                                struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                                struct err_info *info)
{
    int64_t now = tx_now_ms(tx);
    struct query *q = tx_select(
        tx, &invariant_payments,
        BINDS(bind_int(now - UNSETTLED_AFTER_MS), bind_int(now - UNREPAIRED_AFTER_MS),
              bind_int(now - FORGOTTEN_AFTER_MS), bind_int(after), bind_int((int64_t)limit)));

    if (!query_row(q))
        return query_none(q, info, ERR_INTERNAL, "a count without a row");
    *ret_n = (size_t)col_int(q, 0);
    *ret_last = col_int(q, 1);
    sum->open += col_int(q, 2);
    sum->quarantined += col_int(q, 3);
    sum->unsettled += col_int(q, 4);
    add(q, 5, sum, BROKEN_UNSETTLED, BROKEN_SUMS, NUMBER_PAYMENT);
    return query_end(q, info);
}

/* The rest of a page's columns is the caller's. */
static struct query *page(struct tx *tx, const struct sql *sql, int64_t after, size_t limit,
                          int64_t *ret_last, size_t *ret_n)
{
    struct query *q = tx_select(tx, sql, BINDS(bind_int(after), bind_int((int64_t)limit)));

    *ret_n = 0;
    if (query_row(q)) {
        *ret_n = (size_t)col_int(q, 0);
        *ret_last = col_int(q, 1);
    }
    return q;
}

enum err invariant_sql_orders(struct tx *tx, int64_t after, size_t limit,
                              struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                              struct err_info *info)
{
    struct query *q = page(tx, &invariant_orders, after, limit, ret_last, ret_n);

    if (*ret_n)
        add(q, 2, sum, BROKEN_PAID, BROKEN_CANCELLED, NUMBER_ORDER);
    return query_end(q, info);
}

enum err invariant_sql_refunds(struct tx *tx, int64_t after, size_t limit,
                               struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                               struct err_info *info)
{
    struct query *q = page(tx, &invariant_refunds, after, limit, ret_last, ret_n);

    if (*ret_n) {
        add(q, 2, sum, BROKEN_NO_EVIDENCE, BROKEN_NO_EVIDENCE, NUMBER_REFUND);
        add(q, 4, sum, BROKEN_FORGOTTEN, BROKEN_FORGOTTEN, NUMBER_REFUND);
    }
    return query_end(q, info);
}

enum err invariant_sql_heads(struct tx *tx, enum number_kind kind, int64_t after, size_t limit,
                             struct invariant_head *ret, size_t *ret_n, struct err_info *info)
{
    const struct sql *sql = kind == NUMBER_ORDER     ? &invariant_order_heads
                            : kind == NUMBER_PAYMENT ? &invariant_payment_heads
                                                     : &invariant_refund_heads;
    struct query *q = tx_select(tx, sql, BINDS(bind_int(after), bind_int((int64_t)limit)));
    size_t n = 0;

    for (; n < limit && query_row(q); n++) {
        struct str hash = col_blob(q, 5);
        ret[n] = (struct invariant_head) {
            .no = number_make(kind, (unsigned)col_int(q, 1), col_int(q, 0)),
            .status = (int)col_int(q, 2),
            .head = { .id = col_int(q, 3), .seq = col_int(q, 4) },
        };
        if (hash.n == sizeof ret[n].head.hash.b)
            memcpy(ret[n].head.hash.b, hash.p, hash.n);
    }
    return query_end_n(q, n, ret_n, info);
}

enum err invariant_sql_incidents(struct tx *tx, struct invariant_incidents *ret,
                                 struct err_info *info)
{
    struct query *q = tx_select(tx, &invariant_open_incidents, NO_BINDS);

    *ret = (struct invariant_incidents) { .braked = 0 };
    while (query_row(q)) {
        int64_t kind = col_int(q, 0);
        if (kind <= 0 || kind >= INCIDENT_KINDS_END)
            continue;
        ret->open[kind] = col_int(q, 1);
        ret->oldest_ms[kind] = col_int(q, 2);
        ret->braked += col_int(q, 3);
    }
    return query_end(q, info);
}
