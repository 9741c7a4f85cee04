/* due.h -- a narrow table of what a job has to look at and when: rows (due, id) and nothing else.
 *
 * The times are hints: whoever reads a row looks at the thing itself. Rows are therefore never
 * moved, only added and lazily removed, and one too many is an extra look. */
#ifndef FENPAY_DUE_H
#define FENPAY_DUE_H

#include "store/store.h"

struct due_table {
    struct sql insert, delete;
};
/* In an aggregate's _sql.c, like SQL; its header says `extern const struct due_table ident`. */
#define DUE_TABLE(ident)                                                                           \
    const struct due_table ident = {                                                               \
        { #ident "_insert", "INSERT INTO " #ident " (due, id) VALUES (?, ?)" },                    \
        { #ident "_delete", "DELETE FROM " #ident " WHERE due = ? AND id = ?" },                   \
    }

/* Twice is fine. */
enum err due_insert(struct tx *tx, const struct due_table *table, int64_t due_ms, int64_t id,
                    struct err_info *info);
enum err due_delete(struct tx *tx, const struct due_table *table, int64_t due_ms, int64_t id,
                    struct err_info *info);

#endif
