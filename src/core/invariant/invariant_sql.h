/* invariant_sql.h -- the counting statements. Only invariant.c includes it. */
#ifndef FENPAY_INVARIANT_SQL_H
#define FENPAY_INVARIANT_SQL_H

#include "core/invariant/invariant.h"
#include "core/journal/journal.h"

/* Each: the rows behind `after`, up to `limit`, added up into *sum; *ret_last the last of them,
 * *ret_n how many there were. */
enum err invariant_sql_payments(struct tx *tx, int64_t after, size_t limit,
                                struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                                struct err_info *info);
enum err invariant_sql_orders(struct tx *tx, int64_t after, size_t limit,
                              struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                              struct err_info *info);
enum err invariant_sql_refunds(struct tx *tx, int64_t after, size_t limit,
                               struct invariant_pass *sum, int64_t *ret_last, size_t *ret_n,
                               struct err_info *info);

/* Where a journal should end. */
struct invariant_head {
    struct number no;
    int status;
    struct journal_head head;
};
enum err invariant_sql_heads(struct tx *tx, enum number_kind kind, int64_t after, size_t limit,
                             struct invariant_head *ret, size_t *ret_n, struct err_info *info);

enum err invariant_sql_incidents(struct tx *tx, struct invariant_incidents *ret,
                                 struct err_info *info);

#endif
