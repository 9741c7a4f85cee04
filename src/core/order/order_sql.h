/* order_sql.h -- every statement on order_info, order_item and order_due. Only core/order includes
 * it.
 *
 * The moves are compare-and-sets on (status, version), one statement an edge; they return ERR_RETRY
 * when no row matched and leave the order as it now is. */
#ifndef FENPAY_ORDER_SQL_H
#define FENPAY_ORDER_SQL_H

#include "core/order/order.h"
#include "store/due.h"

/* ERR_EXISTS: the caller has an order of this key. */
enum err order_sql_insert(struct tx *tx, const struct order *o, struct str order_key,
                          struct err_info *info);
enum err order_sql_insert_item(struct tx *tx, int64_t order_id, const struct order_item *item,
                               struct err_info *info);

enum err order_sql_load(struct tx *tx, int64_t id, struct order *ret, struct err_info *info);
enum err order_sql_find(struct tx *tx, int64_t caller, struct str order_key, struct order *ret,
                        struct err_info *info);
enum err order_sql_items(struct tx *tx, struct order *o, struct err_info *info);
enum err order_sql_list(struct tx *tx, int64_t caller, const struct order_filter *f,
                        struct order *ret, size_t *ret_n, struct err_info *info);
/* STR_NONE when the caller brought no number. */
enum err order_sql_merchant_no(struct tx *tx, int64_t id, struct str *ret, struct err_info *info);

/* What an edge sets beside status, version, journal head and update_time. */
struct order_paid {
    struct number pay_no;
    int channel;
    struct str transaction_id;
    int64_t pay_ms;
};
enum err order_sql_attempt(struct tx *tx, struct order *o, const struct journal_head *head,
                           struct err_info *info);
enum err order_sql_paid(
    struct tx *tx, struct order *o, const struct journal_head *head, const struct order_paid *paid,
    struct err_info *info); /* also revived: from the status it has, without a winning payment */
enum err order_sql_status(struct tx *tx, struct order *o, const struct journal_head *head,
                          enum order_status to,
                          struct err_info *info); /* the edges that set nothing else */

/* No move: version + 1, once. */
enum err order_sql_request_cancel(struct tx *tx, struct order *o, enum order_cancel why,
                                  struct str reason, struct err_info *info);

/* Likewise. */
enum err order_sql_refunds(struct tx *tx, struct order *o, enum order_refunds now,
                           struct err_info *info);
enum err order_sql_item_refunded(struct tx *tx, int64_t order_id, const struct order_item *item,
                                 int64_t quantity, struct err_info *info);

extern const struct due_table order_due;
struct order_due {
    int64_t due_ms, id;
    unsigned slot;
};
enum err order_sql_due_page(struct tx *tx, int64_t until_ms, size_t max, struct order_due *ret,
                            size_t *ret_n, struct err_info *info);

#endif
