/* seed.h -- the statements behind the bench's prepared database (seed_sql.c). */
#ifndef FENPAY_SEED_H
#define FENPAY_SEED_H

#include "bench/bench.h"

struct seed {
    struct number model_order, model_payment;
    struct number order, payment; /* the clone's */
    int64_t due_ms;
};
enum err seed_clone(struct tx *tx, const struct seed *s, struct err_info *info);
/* Every payment's next query is due by then. */
enum err seed_make_due(struct tx *tx, int64_t now_ms, struct err_info *info);
/* *ret_left: 1 while one is still due by then; *ret_paid: payments in SUCCESS. */
enum err seed_count_due(struct tx *tx, int64_t now_ms, int64_t *ret_left, int64_t *ret_paid,
                        struct err_info *info);
enum err seed_count(struct tx *tx, void *counts,
                    struct err_info *info); /* a store_rule; struct bench_counts */
enum err seed_pending(struct tx *tx, void *pending,
                      struct err_info *info); /* a store_rule; int64_t: 0 or 1 */

#endif
