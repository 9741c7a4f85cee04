/* incident_sql.h -- every statement on the tables incident and incident_proposal. Only incident.c
 * includes it. */
#ifndef FENPAY_INCIDENT_SQL_H
#define FENPAY_INCIDENT_SQL_H

#include "core/incident/incident.h"

/* ERR_EXISTS: there is one of this kind, subject and discriminator. */
enum err incident_sql_insert(struct tx *tx, struct number no, const struct incident *incident,
                             struct err_info *info);
enum err incident_sql_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);
enum err incident_sql_load(struct tx *tx, int64_t id, struct incident_row *ret,
                           struct err_info *info);
enum err incident_sql_find(struct tx *tx, const struct incident *incident, struct incident_row *ret,
                           struct err_info *info);
/* One more, unless `report` is the one that was counted last. */
enum err incident_sql_count(struct tx *tx, int64_t id, int64_t report, struct err_info *info);
/* The same on a resolved one, which is open again with what is reported now. *ret_done false: this
 * report did so before. */
enum err incident_sql_reopen(struct tx *tx, struct incident_row *row, const struct incident *in,
                             int64_t report, bool *ret_done, struct err_info *info);

enum err incident_sql_list(struct tx *tx, const struct incident_filter *f, struct incident_row *ret,
                           size_t *ret_n, struct err_info *info);
enum err incident_sql_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                         size_t *ret_n, struct err_info *info);

enum err incident_sql_resolve(struct tx *tx, struct incident_row *row,
                              const struct incident_end *end, struct err_info *info);
enum err incident_sql_policy(struct tx *tx, struct incident_row *row, struct err_info *info);

enum err incident_sql_proposal(struct tx *tx, int64_t incident_id, struct incident_proposal *ret,
                               struct err_info *info);
enum err incident_sql_propose(struct tx *tx, int64_t incident_id, const struct incident_proposal *p,
                              struct err_info *info);
enum err incident_sql_proposal_drop(struct tx *tx, int64_t incident_id, struct err_info *info);

#endif
