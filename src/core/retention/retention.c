/* retention.c -- deletes by rising id: ids carry their time, so no index on times is needed. */
#include "core/retention/retention.h"

/* The last of the oldest RETENTION_ROWS. */
SQL(retention_calls_bound, "SELECT id FROM channel_call ORDER BY id LIMIT 1 OFFSET 99");
SQL(retention_calls_delete, "DELETE FROM channel_call WHERE id < ? AND id <= ?");

enum err retention_calls(struct tx *tx, int64_t before_ms, int64_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &retention_calls_bound);
    int64_t bound = INT64_MAX; /* fewer than that many are left */
    bool row;
    enum err e = query_next(q, &row, info);

    if (e)
        return e;
    if (row) {
        bound = col_int(q, 0);
        query_end(q);
    }
    q = tx_query(tx, &retention_calls_delete);
    query_int(q, number_first_id(before_ms));
    query_int(q, bound);
    return query_run(q, ret_n, info);
}
