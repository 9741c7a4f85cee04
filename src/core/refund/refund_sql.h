/* refund_sql.h -- every statement on refund_order, refund_item and refund_due. Only core/refund
 * includes it.
 *
 * A move is a compare-and-set on (version, status). Everything else that changes about a refund
 * (its turns, sendings and answers) goes through refund_sql_keep, a compare-and-set on what two
 * turns could both want to change. Both return ERR_RETRY when no row matched. */
#ifndef FENPAY_REFUND_SQL_H
#define FENPAY_REFUND_SQL_H

#include "core/refund/refund.h"
#include "store/due.h"

enum err refund_sql_insert(struct tx *tx, const struct refund *r,
                           struct err_info *info); /* ERR_EXISTS
                                                    */
enum err refund_sql_insert_line(struct tx *tx, int64_t refund_id, const struct refund_line *line,
                                struct err_info *info);

enum err refund_sql_load(struct tx *tx, int64_t id, struct refund *ret, struct err_info *info);
enum err refund_sql_find(struct tx *tx, int64_t pay_id, enum refund_origin origin,
                         struct str request_id, struct refund *ret, struct err_info *info);
enum err refund_sql_of(struct tx *tx, int64_t pay_id, struct refund **ret, size_t *ret_n,
                       struct err_info *info);
enum err refund_sql_lines(struct tx *tx, struct refund *r, struct err_info *info);
/* Nothing stored yet: both STR_NONE. */
enum err refund_sql_request(struct tx *tx, int64_t id, struct channel_request *ret,
                            struct err_info *info);

/* By line, over the refunds of the payment that succeeded, or (not `done`) that also hold
 * something.
 */
enum err refund_sql_line_sums(struct tx *tx, int64_t pay_id, bool done, struct money like,
                              struct refund_line *ret, size_t max, size_t *ret_n,
                              struct err_info *info);
enum err refund_sql_sum_done(struct tx *tx, int64_t pay_id, int64_t *ret_fen,
                             struct err_info *info);
/* How many count against the channel's number: all but those it never took. */
enum err refund_sql_count(struct tx *tx, int64_t pay_id, int64_t *ret, struct err_info *info);
/* When another refund of the payment was last sent; 0: never. */
enum err refund_sql_last_sent(struct tx *tx, int64_t pay_id, int64_t except_id, int64_t *ret_ms,
                              struct err_info *info);

/* `r` becomes `to`: its new status, evidence, head, lateness, channel_refund_id, done_ms, next_ms
 * and version are written where the row still has r's status and version. */
enum err refund_sql_move(struct tx *tx, struct refund *r, const struct refund *to,
                         struct err_info *info);
/* What is kept of turns, sendings, answers: from `r` to `to`, with the due row of its next_ms. */
enum err refund_sql_keep(struct tx *tx, struct refund *r, const struct refund *to,
                         struct err_info *info);
/* Once: ERR_RETRY where there is one. */
enum err refund_sql_set_request(struct tx *tx, int64_t id, const struct channel_request *request,
                                struct err_info *info);

extern const struct due_table refund_due; /* (next_ms, id); removed by the turn */
struct refund_turn {
    int64_t due_ms, id;
    unsigned slot;
};
enum err refund_sql_due_page(struct tx *tx, int64_t until_ms, size_t max, struct refund_turn *ret,
                             size_t *ret_n, struct err_info *info);

enum err refund_sql_open_page(struct tx *tx, const struct refund_turn_at *after, size_t max,
                              struct refund_turn_at *ret, size_t *ret_n, struct err_info *info);
enum err refund_sql_figures(struct tx *tx, struct refund_figures *ret, struct err_info *info);

#endif
