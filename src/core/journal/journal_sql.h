/* journal_sql.h -- every statement on state_journal. Only journal.c includes it. */
#ifndef FENPAY_JOURNAL_SQL_H
#define FENPAY_JOURNAL_SQL_H

#include "core/journal/journal.h"

/* More moves than that no aggregate makes; a damaged head must not make us allocate without bound.
 */
#define JOURNAL_ROWS_MAX 100000

enum err journal_sql_insert(struct tx *tx, const struct journal_row *row, struct err_info *info);
enum err journal_sql_load(struct tx *tx, int64_t id, struct journal_row *ret,
                          struct err_info *info);
enum err journal_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);

#endif
