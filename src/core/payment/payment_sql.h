/* payment_sql.h -- every statement on payment_order and payment_due. Only core/payment includes it.
 *
 * Writes that change what a payment is (status, flags, close request) are compare-and-sets on
 * version, one statement an edge; they return ERR_RETRY when no row matched and leave the payment
 * as it now is. Leases and schedules have columns of their own and their own guards. The UPDATE of
 * a success does not name `live` (an index entry would be rewritten). */
#ifndef FENPAY_PAYMENT_SQL_H
#define FENPAY_PAYMENT_SQL_H

#include "core/payment/payment.h"
#include "store/due.h"

enum err payment_sql_insert(
    struct tx *tx, const struct payment *p,
    struct err_info *info); /* ERR_EXISTS: number, request id or open place taken */
enum err payment_sql_order_id(struct tx *tx, int64_t id, int64_t *ret, struct err_info *info);
enum err payment_sql_load(struct tx *tx, int64_t id, struct payment *ret, struct err_info *info);
enum err payment_sql_load_request(struct tx *tx, struct payment *p,
                                  struct err_info *info); /* the bytes to send */
enum err payment_sql_of_order(struct tx *tx, int64_t order_id, struct payment **ret, size_t *ret_n,
                              struct err_info *info);
enum err payment_sql_brief(struct tx *tx, int64_t order_id, struct payment_brief **ret,
                           size_t *ret_n, struct err_info *info);
/* 0: none */
enum err payment_sql_by_request(struct tx *tx, int64_t order_id, struct str request_id,
                                int64_t *ret_id, struct err_info *info);
enum err payment_sql_live(struct tx *tx, int64_t order_id, enum channel_id channel, int64_t *ret_id,
                          struct err_info *info);
enum err payment_sql_by_transaction(struct tx *tx, struct str account, struct str transaction_id,
                                    int64_t *ret_id, struct err_info *info);

/* ---- the edges ---- */
enum err payment_sql_accepted(struct tx *tx, struct payment *p, const struct journal_head *head,
                              const struct evidence *evidence, struct err_info *info);
/* ERR_EXISTS: the transaction id belongs to another payment of this account. */
enum err payment_sql_success(struct tx *tx, struct payment *p, const struct journal_head *head,
                             const struct evidence *evidence, bool late, struct err_info *info);
enum err payment_sql_ended(struct tx *tx, struct payment *p, const struct journal_head *head,
                           const struct evidence *evidence, enum payment_status to,
                           struct err_info *info);

/* ---- no edge, but version + 1 ---- */
enum err payment_sql_quarantine(struct tx *tx, struct payment *p, const struct evidence *evidence,
                                struct err_info *info);
/* What was stated of its money is forgotten. */
enum err payment_sql_release(struct tx *tx, struct payment *p, struct err_info *info);
enum err payment_sql_close_requested(struct tx *tx, struct payment *p, enum payment_close why,
                                     struct err_info *info);
enum err payment_sql_settled(struct tx *tx, struct payment *p, enum payment_settled settled,
                             struct err_info *info);
enum err payment_sql_aside(struct tx *tx, struct payment *p, struct err_info *info);
/* Frees the open place and the caller's request id for an attempt through another account; its
 * close is requested. */
enum err payment_sql_supersede(struct tx *tx, struct payment *p, struct err_info *info);

/* Both take the new sums. */
enum err payment_sql_refund_reserve(struct tx *tx, struct payment *p, struct money amount,
                                    struct money refunding, struct err_info *info);
enum err payment_sql_refund_sums(struct tx *tx, struct payment *p, struct money refunding,
                                 struct money refunded, struct err_info *info);

/* ---- the call lease ---- */
/* From exactly the owner and time in *p (0 or expired) to the new ones; `lost` prepay calls of the
 * owner before, which nobody heard of, count as unknown. */
enum err payment_sql_lease_take(struct tx *tx, struct payment *p, int64_t owner, int64_t until_ms,
                                int64_t lost, struct err_info *info);
enum err payment_sql_lease_release(struct tx *tx, struct payment *p, int64_t owner,
                                   struct err_info *info); /* nothing when it is another's */
/* A prepay call came to an end. `credentials` STR_NONE: leaves what there is. */
enum err payment_sql_called(struct tx *tx, struct payment *p, int64_t unknown,
                            struct err_info *info);
enum err payment_sql_credentials(struct tx *tx, struct payment *p, struct str credentials,
                                 int64_t expire_ms, struct err_info *info);

/* ---- the due table ---- */
extern const struct due_table payment_due;
/* next_query_time, query_count and the due row of that time. */
enum err payment_sql_schedule(struct tx *tx, struct payment *p, int64_t next_ms,
                              int64_t query_count, struct err_info *info);
/* Rows due by `until_ms`, the newest or the oldest first. */
enum err payment_sql_due_page(struct tx *tx, int64_t until_ms, bool newest, size_t max,
                              struct payment_due *ret, size_t *ret_n, struct err_info *info);
/* All of them, page by page. */
enum err payment_sql_due_after(struct tx *tx, const struct payment_due *after,
                               int64_t older_than_ms, size_t max, struct payment_due *ret,
                               size_t *ret_n, struct err_info *info);

#endif
