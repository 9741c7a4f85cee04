/* callback_sql.h -- every statement on callback_log, callback_due and callback_reject. Only
 * core/callback includes it. */
#ifndef FENPAY_CALLBACK_SQL_H
#define FENPAY_CALLBACK_SQL_H

#include "core/callback/callback.h"
#include "store/due.h"

struct callback_stored {
    struct callback_row row;
    int64_t subject_id, next_retry_ms;
    struct str event_key, body, headers, trace_id;
};

/* ERR_EXISTS: (subject, event key) is there already. */
enum err callback_sql_insert(struct tx *tx, const struct callback_input *in, int64_t id,
                             enum handle_result result, struct str reason, int64_t next_retry_ms,
                             struct err_info *info);
/* What there is under in's subject and event key: id, result, retry count and time only. */
enum err callback_sql_find(struct tx *tx, const struct callback_input *in,
                           struct callback_stored *ret, struct err_info *info);
enum err callback_sql_load(struct tx *tx, int64_t id, struct callback_stored *ret,
                           struct err_info *info);
enum err callback_sql_of(struct tx *tx, int64_t subject_id, struct callback_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info);

enum err callback_sql_count(struct tx *tx, int64_t id,
                            struct err_info *info); /* one delivery more, nothing else */
enum err callback_sql_bytes(struct tx *tx, int64_t id, const struct callback_input *in,
                            struct err_info *info); /* one more, with these bytes */
enum err callback_sql_result(struct tx *tx, int64_t id, enum handle_result result,
                             struct str reason, int64_t retry_count, int64_t next_retry_ms,
                             struct err_info *info);
/* An undecryptable row became readable: what it is about. Its event key stays. */
enum err callback_sql_read(struct tx *tx, int64_t id, const struct callback_input *in,
                           struct err_info *info);

struct callback_due {
    int64_t due, id;
};
extern const struct due_table callback_due;
enum err callback_due_sql_page(struct tx *tx, size_t max, struct callback_due *ret, size_t *ret_n,
                               struct err_info *info);

enum err callback_reject_sql_insert(struct tx *tx, int64_t id, const struct reject_sample *s,
                                    struct err_info *info);
/* The newest id that is too old when only `keep` may stay; 0: none. */
enum err callback_reject_sql_beyond(struct tx *tx, size_t keep, int64_t *ret_id,
                                    struct err_info *info);
enum err callback_reject_sql_delete(struct tx *tx, int64_t up_to_id, struct err_info *info);

#endif
