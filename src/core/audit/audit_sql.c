/* audit_sql.c -- the statements of the table audit_log. */
#include "core/audit/audit.h"

SQL(audit_row_insert,
    "INSERT INTO audit_log (id, who, act, subject, detail, create_time, update_time)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)");
SQL(audit_row_known, "SELECT 1 FROM audit_log WHERE id = ?");

enum err audit_insert(struct tx *tx, const struct audit *audit, struct err_info *info)
{
    int64_t now = tx_now_ms(tx);

    return tx_exec(tx, &audit_row_insert,
                   BINDS(bind_int(audit->id), bind_text(audit->who), bind_text(audit->act),
                         bind_text(audit->subject), bind_text(audit->detail), bind_int(now),
                         bind_int(now)),
                   NULL, info);
}

enum err audit_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info)
{
    int64_t there;
    enum err e = tx_select_int(tx, &audit_row_known, BINDS(bind_int(id)), &there, info);
    if (!e)
        *ret = there != 0;
    return e;
}
