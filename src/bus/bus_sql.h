/* bus_sql.h -- every statement on outbox, outbox_due, event_feed, event_delivery, delivery_due,
 * consumed_event and webhook, one function each. Inside bus/ only. Texts that come out live in
 * tx_arena. */
#ifndef FENPAY_BUS_SQL_H
#define FENPAY_BUS_SQL_H

#include "bus/bus.h"
#include "store/due.h"

#define EVENT_DATA_MAX 65536

bool event_type_known(int64_t type);

/* ---- the outbox ---- */
struct pending {
    int64_t due;
    bool readable; /* false: a type this program does not know; only event.no is set */
    int64_t type;
    struct event event;
};
enum err outbox_sql_insert(struct tx *tx, const struct event *e, struct err_info *info);
enum err outbox_sql_pending(struct tx *tx, size_t max, struct pending *ret, size_t *ret_n,
                            struct err_info *info);
enum err outbox_sql_read(struct tx *tx, int64_t id, struct event *ret, struct err_info *info);
enum err outbox_sql_of(struct tx *tx, int64_t subject_id, int64_t first_id, int64_t last_id,
                       struct event *ret, size_t max, size_t *ret_n, struct err_info *info);
enum err outbox_sql_park(struct tx *tx, int64_t id, struct str reason, struct err_info *info);
extern const struct due_table outbox_due;
enum err outbox_due_sql_stats(struct tx *tx, int64_t *ret_count, int64_t *ret_oldest,
                              struct err_info *info);

/* ---- the feed ---- */
enum err feed_sql_last(struct tx *tx, int64_t *ret_seq, struct err_info *info);
enum err feed_sql_insert(struct tx *tx, int64_t seq, const struct event *e, struct err_info *info);
enum err feed_sql_read(struct tx *tx, int64_t caller, int64_t after, size_t limit,
                       struct event *ret, int64_t *ret_seqs, size_t *ret_n, struct err_info *info);

/* ---- consumers ---- */
enum err consumed_sql_insert(struct tx *tx, const char *consumer, int64_t event_id,
                             struct err_info *info); /* ERR_EXISTS: has been */

/* ---- deliveries ---- */

enum err delivery_sql_insert(struct tx *tx, const struct delivery *d,
                             struct err_info *info); /* ERR_EXISTS */
enum err delivery_sql_load(struct tx *tx, int64_t event_id, struct str target, struct delivery *ret,
                           struct err_info *info);
enum err delivery_sql_of(struct tx *tx, int64_t event_id, struct delivery *ret, size_t max,
                         size_t *ret_n, struct err_info *info);
/* Writes state, tries, next, lease and error if the row still has d->version; *ret_changed says
 * whether it had. d->version moves on. */
enum err delivery_sql_update(struct tx *tx, struct delivery *d, bool *ret_changed,
                             struct err_info *info);

/* A dead delivery keeps its due row at the end of time: that is the dead-letter list, without an
 * index on states. */
#define DUE_NEVER INT64_MAX
enum err delivery_due_sql_insert(struct tx *tx, struct str target, int64_t due, int64_t event_id,
                                 struct err_info *info); /* twice is fine */
/* Dead ones of the target, by event. */
enum err delivery_due_sql_dead_of(struct tx *tx, struct str target, size_t max, int64_t *ret,
                                  size_t *ret_n, struct err_info *info);
enum err delivery_due_sql_delete(struct tx *tx, struct str target, int64_t due, int64_t event_id,
                                 struct err_info *info);
/* The first target behind `after`, in order of text, that has any row; ERR_NOT_FOUND: none. */
enum err delivery_due_sql_target(struct tx *tx, struct str after, struct str *ret,
                                 struct err_info *info);
struct delivery_due {
    int64_t due, event_id;
};
enum err delivery_due_sql_of(struct tx *tx, struct str target, int64_t until, size_t max,
                             struct delivery_due *ret, size_t *ret_n, struct err_info *info);
enum err delivery_due_sql_stats(struct tx *tx, int64_t *ret_pending, int64_t *ret_dead,
                                struct err_info *info);

enum err delivery_due_sql_dead(struct tx *tx, struct str target, int64_t *ret,
                               struct err_info *info);

/* ---- subscribers ---- */
#define WEBHOOKS_MAX 1000 /* of the installation: each publishing rule reads them all */

struct webhook_row {
    struct webhook webhook;
    struct str secret, secret_old; /* encrypted */
};
enum err webhook_sql_insert(struct tx *tx, const struct webhook *w, struct str secret_enc,
                            struct err_info *info);
enum err webhook_sql_count(struct tx *tx, int64_t *ret, struct err_info *info);
enum err webhook_sql_load(struct tx *tx, int64_t id, struct webhook_row *ret,
                          struct err_info *info);
enum err webhook_sql_list(struct tx *tx, int64_t caller, size_t max, struct webhook *ret,
                          size_t *ret_n, struct err_info *info);
enum err webhook_sql_on(struct tx *tx, struct webhook *ret, size_t *ret_n,
                        struct err_info *info); /* up to WEBHOOKS_MAX */
enum err webhook_sql_set(struct tx *tx, int64_t caller, int64_t id, bool on,
                         struct err_info *info); /* ERR_NOT_FOUND */
enum err webhook_sql_rotate(struct tx *tx, int64_t caller, int64_t id, struct str secret_enc,
                            struct err_info *info);

#endif
