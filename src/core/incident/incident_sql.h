/* incident_sql.h -- every statement on the table incident. Only incident.c includes it. */
#ifndef FENPAY_INCIDENT_SQL_H
#define FENPAY_INCIDENT_SQL_H

#include "core/incident/incident.h"

/* ERR_EXISTS: there is one of this kind, subject and discriminator. */
enum err incident_sql_insert(struct tx *tx, struct number no, const struct incident *incident,
                             struct err_info *info);
enum err incident_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);
enum err incident_sql_id(struct tx *tx, const struct incident *incident, int64_t *ret_id,
                         struct err_info *info);
/* One more, unless `report` is the one that was counted last. */
enum err incident_sql_count(struct tx *tx, int64_t id, int64_t report, struct err_info *info);

/* Rows with an id below `before`, newest first. `caller` 0: all; `state` -1: any. */
enum err incident_sql_list(struct tx *tx, int64_t caller, int state, int64_t before, size_t limit,
                           struct incident_row *ret, size_t *ret_n, struct err_info *info);
enum err incident_sql_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info);

#endif
