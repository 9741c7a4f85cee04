/* due.c -- see due.h. */
#include "store/due.h"

enum err due_insert(struct tx *tx, const struct due_table *table, int64_t due_ms, int64_t id,
                    struct err_info *info)
{
    enum err e = tx_exec(tx, &table->insert, BINDS(bind_int(due_ms), bind_int(id)), NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

enum err due_delete(struct tx *tx, const struct due_table *table, int64_t due_ms, int64_t id,
                    struct err_info *info)
{
    return tx_exec(tx, &table->delete, BINDS(bind_int(due_ms), bind_int(id)), NULL, info);
}
