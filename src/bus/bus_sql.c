/* bus_sql.c -- every statement on the bus's tables. The row layout of an event is read in one place
 * (event_from). */
#include "bus/bus_sql.h"

#include <assert.h>

static_assert(DELIVERY_PENDING == 0 && DELIVERY_DONE == 1 && DELIVERY_DEAD == 2, "persisted");

/* ---- the outbox ---- */

SQL(outbox_insert, "INSERT INTO outbox (id, slot, type, subject_kind, subject_id, caller, "
                   "sequence, data, trace_id, parked,"
                   " create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)");

enum err outbox_sql_insert(struct tx *tx, const struct event *e, struct err_info *info)
{
    return tx_exec(tx, &outbox_insert,
                   BINDS(bind_int(e->no.id), bind_int(e->subject.slot), bind_int(e->type),
                         bind_int(e->subject.kind), bind_int(e->subject.id), bind_int(e->caller),
                         bind_int(e->sequence), bind_blob(e->data.n ? e->data : STR("{}")),
                         bind_text(e->trace_id), bind_int(e->time_ms), bind_int(e->time_ms)),
                   NULL, info);
}

/* The event in columns `from` and on: id, slot, type, subject_kind, subject_id, caller, sequence,
 * data, trace_id, create_time. */
#define EVENT_COLUMNS                                                                              \
    "o.id, o.slot, o.type, o.subject_kind, o.subject_id, o.caller, o.sequence, o.data, "           \
    "o.trace_id, o.create_time"

static struct event event_from(struct query *q, int from)
{
    unsigned slot = (unsigned)col_int(q, from + 1);
    return (struct event) {
        .no = number_make(NUMBER_EVENT, slot, col_int(q, from)),
        .type = (enum event_type)col_int(q, from + 2),
        .subject = { .id = col_int(q, from + 4),
                     .slot = (uint16_t)slot,
                     .kind = (enum number_kind)col_int(q, from + 3) },
        .caller = col_int(q, from + 5),
        .sequence = col_int(q, from + 6),
        .data = col_blob(q, from + 7),
        .trace_id = col_text(q, from + 8),
        .time_ms = col_int(q, from + 9),
    };
}

/* Rows of one query into an array; the query has its parameters. */
static enum err events_from(struct query *q, struct event *ret, size_t max, size_t *ret_n,
                            struct err_info *info)
{
    size_t n = 0;

    while (n < max && query_row(q))
        if (event_type_known(col_int(q, 2)))
            ret[n++] = event_from(q, 0);
    return query_end_n(q, n, ret_n, info);
}

SQL(outbox_pending, "SELECT d.due, " EVENT_COLUMNS " FROM outbox_due d JOIN outbox o ON o.id = d.id"
                    " WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");

enum err outbox_sql_pending(struct tx *tx, size_t max, struct pending *ret, size_t *ret_n,
                            struct err_info *info)
{
    size_t n = 0;

    struct query *q =
        tx_select(tx, &outbox_pending, BINDS(bind_int(tx_now_ms(tx)), bind_int((int64_t)max)));
    while (n < max && query_row(q))
        ret[n++] = (struct pending) {
            .due = col_int(q, 0),
            .type = col_int(q, 3),
            .readable = event_type_known(col_int(q, 3)),
            .event = event_from(q, 1),
        };
    return query_end_n(q, n, ret_n, info);
}

SQL(outbox_read, "SELECT " EVENT_COLUMNS " FROM outbox o WHERE o.id = ?");

enum err outbox_sql_read(struct tx *tx, int64_t id, struct event *ret, struct err_info *info)
{
    size_t n;
    enum err e = events_from(tx_select(tx, &outbox_read, BINDS(bind_int(id))), ret, 1, &n, info);

    return e || n ? e : err_set(info, ERR_NOT_FOUND, "no such event");
}

SQL(outbox_of,
    "SELECT " EVENT_COLUMNS
    " FROM outbox o WHERE o.id >= ? AND o.id <= ? AND o.subject_id = ? ORDER BY o.id LIMIT ?");

enum err outbox_sql_of(struct tx *tx, int64_t subject_id, int64_t first_id, int64_t last_id,
                       struct event *ret, size_t max, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(
        tx, &outbox_of,
        BINDS(bind_int(first_id), bind_int(last_id), bind_int(subject_id), bind_int((int64_t)max)));

    return events_from(q, ret, max, ret_n, info);
}

SQL(outbox_park, "UPDATE outbox SET parked = ?, update_time = ? WHERE id = ?");

enum err outbox_sql_park(struct tx *tx, int64_t id, struct str reason, struct err_info *info)
{
    return tx_exec(tx, &outbox_park,
                   BINDS(bind_text(reason), bind_int(tx_now_ms(tx)), bind_int(id)), NULL, info);
}

DUE_TABLE(outbox_due);

/* Two numbers of one row that is always there. */
static enum err read_two(struct query *q, int64_t *ret_a, int64_t *ret_b, struct err_info *info)
{
    if (query_row(q)) {
        *ret_a = col_int(q, 0);
        *ret_b = col_int(q, 1);
    }
    return query_end(q, info);
}

/* A backlog above this is shown as this: the figure must not cost what it warns of. */
#define COUNT_MAX "100000"

SQL(outbox_due_stats,
    "SELECT count(*), min(due) FROM (SELECT due FROM outbox_due ORDER BY due, id LIMIT " COUNT_MAX
    ") d");

enum err outbox_due_sql_stats(struct tx *tx, int64_t *ret_count, int64_t *ret_oldest,
                              struct err_info *info)
{
    return read_two(tx_select(tx, &outbox_due_stats, NO_BINDS), ret_count, ret_oldest, info);
}

/* ---- the feed ---- */

SQL(feed_last, "SELECT seq FROM event_feed ORDER BY seq DESC LIMIT 1");

enum err feed_sql_last(struct tx *tx, int64_t *ret_seq, struct err_info *info)
{
    return tx_select_int(tx, &feed_last, NO_BINDS, ret_seq, info);
}

SQL(feed_insert, "INSERT INTO event_feed (seq, caller, event_id, create_time, update_time) VALUES "
                 "(?, ?, ?, ?, ?)");

enum err feed_sql_insert(struct tx *tx, int64_t seq, const struct event *e, struct err_info *info)
{
    return tx_exec(tx, &feed_insert,
                   BINDS(bind_int(seq), bind_int(e->caller), bind_int(e->no.id),
                         bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
                   NULL, info);
}

SQL(feed_all, "SELECT " EVENT_COLUMNS ", f.seq FROM event_feed f JOIN outbox o ON o.id = f.event_id"
              " WHERE f.seq > ? ORDER BY f.seq LIMIT ?");
SQL(feed_caller,
    "SELECT " EVENT_COLUMNS ", f.seq FROM event_feed f JOIN outbox o ON o.id = f.event_id"
    " WHERE f.caller = ? AND f.seq > ? ORDER BY f.seq LIMIT ?");

enum err feed_sql_read(struct tx *tx, int64_t caller, int64_t after, size_t limit,
                       struct event *ret, int64_t *ret_seqs, size_t *ret_n, struct err_info *info)
{
    struct binds binds = BINDS(bind_int(caller), bind_int(after), bind_int((int64_t)limit));
    struct query *q = caller ? tx_select(tx, &feed_caller, binds)
                             : tx_select(tx, &feed_all, binds_skip(binds, 1));
    size_t n = 0;

    for (; n < limit && query_row(q); n++) {
        ret[n] = event_from(q, 0);
        ret_seqs[n] = col_int(q, 10);
    }
    return query_end_n(q, n, ret_n, info);
}

/* ---- consumers ---- */

SQL(consumed_insert, "INSERT INTO consumed_event (consumer, event_id, create_time, update_time) "
                     "VALUES (?, ?, ?, ?)");

enum err consumed_sql_insert(struct tx *tx, const char *consumer, int64_t event_id,
                             struct err_info *info)
{
    return tx_exec(tx, &consumed_insert,
                   BINDS(bind_text(str_of(consumer)), bind_int(event_id), bind_int(tx_now_ms(tx)),
                         bind_int(tx_now_ms(tx))),
                   NULL, info);
}

/* ---- deliveries ---- */

SQL(delivery_insert, "INSERT INTO event_delivery (event_id, target, state, tries, next_time, "
                     "lease_until, last_error, version,"
                     " create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)");

enum err delivery_sql_insert(struct tx *tx, const struct delivery *d, struct err_info *info)
{
    return tx_exec(tx, &delivery_insert,
                   BINDS(bind_int(d->event_id), bind_text(d->target), bind_int(d->state),
                         bind_int(d->tries), bind_int(d->next_ms), bind_int(d->lease_until_ms),
                         bind_text(d->last_error), bind_int(tx_now_ms(tx)),
                         bind_int(tx_now_ms(tx))),
                   NULL, info);
}

#define DELIVERY_COLUMNS                                                                           \
    "event_id, target, state, tries, next_time, lease_until, last_error, version, create_time, "   \
    "update_time"

static struct delivery delivery_from(struct query *q)
{
    return (struct delivery) {
        .event_id = col_int(q, 0),
        .target = col_text(q, 1),
        .state = (enum delivery_state)col_int(q, 2),
        .tries = col_int(q, 3),
        .next_ms = col_int(q, 4),
        .lease_until_ms = col_int(q, 5),
        .last_error = col_text(q, 6),
        .version = col_int(q, 7),
        .create_ms = col_int(q, 8),
        .update_ms = col_int(q, 9),
    };
}

SQL(delivery_load,
    "SELECT " DELIVERY_COLUMNS " FROM event_delivery WHERE event_id = ? AND target = ?");

enum err delivery_sql_load(struct tx *tx, int64_t event_id, struct str target, struct delivery *ret,
                           struct err_info *info)
{
    struct query *q = tx_select(tx, &delivery_load, BINDS(bind_int(event_id), bind_text(target)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such delivery");
    *ret = delivery_from(q);
    return query_end(q, info);
}

SQL(delivery_of,
    "SELECT " DELIVERY_COLUMNS " FROM event_delivery WHERE event_id = ? ORDER BY target LIMIT ?");

enum err delivery_sql_of(struct tx *tx, int64_t event_id, struct delivery *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    struct query *q =
        tx_select(tx, &delivery_of, BINDS(bind_int(event_id), bind_int((int64_t)max)));
    while (n < max && query_row(q))
        ret[n++] = delivery_from(q);
    return query_end_n(q, n, ret_n, info);
}

SQL(delivery_update,
    "UPDATE event_delivery SET state = ?, tries = ?, next_time = ?, lease_until = ?, last_error = "
    "?,"
    " version = version + 1, update_time = ? WHERE event_id = ? AND target = ? AND version = ?");

enum err delivery_sql_update(struct tx *tx, struct delivery *d, bool *ret_changed,
                             struct err_info *info)
{
    int64_t changed;

    enum err e = tx_exec(tx, &delivery_update,
                         BINDS(bind_int(d->state), bind_int(d->tries), bind_int(d->next_ms),
                               bind_int(d->lease_until_ms), bind_text(d->last_error),
                               bind_int(tx_now_ms(tx)), bind_int(d->event_id), bind_text(d->target),
                               bind_int(d->version)),
                         &changed, info);
    if (e)
        return e;
    *ret_changed = changed == 1;
    if (*ret_changed)
        d->version++;
    return ERR_OK;
}

SQL(delivery_due_insert, "INSERT INTO delivery_due (target, due, event_id) VALUES (?, ?, ?)");

enum err delivery_due_sql_insert(struct tx *tx, struct str target, int64_t due, int64_t event_id,
                                 struct err_info *info)
{
    enum err e = tx_exec(tx, &delivery_due_insert,
                         BINDS(bind_text(target), bind_int(due), bind_int(event_id)), NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

SQL(delivery_due_delete, "DELETE FROM delivery_due WHERE target = ? AND due = ? AND event_id = ?");

enum err delivery_due_sql_delete(struct tx *tx, struct str target, int64_t due, int64_t event_id,
                                 struct err_info *info)
{
    return tx_exec(tx, &delivery_due_delete,
                   BINDS(bind_text(target), bind_int(due), bind_int(event_id)), NULL, info);
}

SQL(delivery_due_target,
    "SELECT target FROM delivery_due WHERE target > ? ORDER BY target LIMIT 1");

enum err delivery_due_sql_target(struct tx *tx, struct str after, struct str *ret,
                                 struct err_info *info)
{
    struct query *q =
        tx_select(tx, &delivery_due_target, BINDS(bind_text(after.p ? after : STR(""))));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no further target");
    *ret = col_text(q, 0);
    return query_end(q, info);
}

SQL(delivery_due_of, "SELECT due, event_id FROM delivery_due WHERE target = ? AND due <= ? ORDER "
                     "BY due, event_id LIMIT ?");

enum err delivery_due_sql_of(struct tx *tx, struct str target, int64_t until, size_t max,
                             struct delivery_due *ret, size_t *ret_n, struct err_info *info)
{
    size_t n = 0;

    struct query *q = tx_select(tx, &delivery_due_of,
                                BINDS(bind_text(target), bind_int(until), bind_int((int64_t)max)));
    while (n < max && query_row(q))
        ret[n++] = (struct delivery_due) { .due = col_int(q, 0), .event_id = col_int(q, 1) };
    return query_end_n(q, n, ret_n, info);
}

SQL(delivery_due_dead_of, "SELECT event_id FROM delivery_due WHERE target = ? AND due = "
                          "9223372036854775807 ORDER BY event_id LIMIT ?");

enum err delivery_due_sql_dead_of(struct tx *tx, struct str target, size_t max, int64_t *ret,
                                  size_t *ret_n, struct err_info *info)
{
    struct query *q =
        tx_select(tx, &delivery_due_dead_of, BINDS(bind_text(target), bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = col_int(q, 0);
    return query_end_n(q, n, ret_n, info);
}

SQL(delivery_due_stats, "SELECT count(*), sum(due = 9223372036854775807) FROM (SELECT due FROM "
                        "delivery_due LIMIT " COUNT_MAX ") d");

enum err delivery_due_sql_stats(struct tx *tx, int64_t *ret_pending, int64_t *ret_dead,
                                struct err_info *info)
{
    int64_t all = 0, dead = 0;
    enum err e = read_two(tx_select(tx, &delivery_due_stats, NO_BINDS), &all, &dead, info);
    if (e)
        return e;
    *ret_pending = all - dead;
    *ret_dead = dead;
    return ERR_OK;
}

SQL(delivery_due_dead,
    "SELECT count(*) FROM delivery_due WHERE target = ? AND due = 9223372036854775807");

enum err delivery_due_sql_dead(struct tx *tx, struct str target, int64_t *ret,
                               struct err_info *info)
{
    return tx_select_int(tx, &delivery_due_dead, BINDS(bind_text(target)), ret, info);
}

/* ---- subscribers ---- */

SQL(webhook_add, "INSERT INTO webhook (id, caller, url, secret, secret_old, types, state, version, "
                 "create_time, update_time)"
                 " VALUES (?, ?, ?, ?, NULL, ?, ?, 1, ?, ?)");

enum err webhook_sql_insert(struct tx *tx, const struct webhook *w, struct str secret_enc,
                            struct err_info *info)
{
    return tx_exec(tx, &webhook_add,
                   BINDS(bind_int(w->id), bind_int(w->caller), bind_text(w->url),
                         bind_text(secret_enc), bind_int(w->types), bind_int(w->on ? 0 : 1),
                         bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
                   NULL, info);
}

SQL(webhook_count, "SELECT count(*) FROM webhook");

enum err webhook_sql_count(struct tx *tx, int64_t *ret, struct err_info *info)
{
    return tx_select_int(tx, &webhook_count, NO_BINDS, ret, info);
}

#define WEBHOOK_COLUMNS "id, caller, url, types, state"

static struct webhook webhook_from(struct query *q)
{
    return (struct webhook) {
        .id = col_int(q, 0),
        .caller = col_int(q, 1),
        .url = col_text(q, 2),
        .types = (unsigned)col_int(q, 3),
        .on = col_int(q, 4) == 0,
    };
}

SQL(webhook_load, "SELECT " WEBHOOK_COLUMNS ", secret, secret_old FROM webhook WHERE id = ?");

enum err webhook_sql_load(struct tx *tx, int64_t id, struct webhook_row *ret, struct err_info *info)
{
    struct query *q = tx_select(tx, &webhook_load, BINDS(bind_int(id)));
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such webhook");
    *ret = (struct webhook_row) { .webhook = webhook_from(q),
                                  .secret = col_text(q, 5),
                                  .secret_old = col_text(q, 6) };
    return query_end(q, info);
}

static enum err webhooks_from(struct query *q, size_t max, struct webhook *ret, size_t *ret_n,
                              struct err_info *info)
{
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = webhook_from(q);
    return query_end_n(q, n, ret_n, info);
}

SQL(webhook_list_all, "SELECT " WEBHOOK_COLUMNS " FROM webhook ORDER BY id LIMIT ?");
SQL(webhook_list_caller,
    "SELECT " WEBHOOK_COLUMNS " FROM webhook WHERE caller = ? ORDER BY id LIMIT ?");

enum err webhook_sql_list(struct tx *tx, int64_t caller, size_t max, struct webhook *ret,
                          size_t *ret_n, struct err_info *info)
{
    struct binds binds = BINDS(bind_int(caller), bind_int((int64_t)max));
    struct query *q = caller ? tx_select(tx, &webhook_list_caller, binds)
                             : tx_select(tx, &webhook_list_all, binds_skip(binds, 1));

    return webhooks_from(q, max, ret, ret_n, info);
}

SQL(webhook_list_on, "SELECT " WEBHOOK_COLUMNS " FROM webhook WHERE state = 0 ORDER BY id LIMIT ?");

enum err webhook_sql_on(struct tx *tx, struct webhook *ret, size_t *ret_n, struct err_info *info)
{
    return webhooks_from(tx_select(tx, &webhook_list_on, BINDS(bind_int(WEBHOOKS_MAX))),
                         WEBHOOKS_MAX, ret, ret_n, info);
}

static enum err change_webhook(struct tx *tx, const struct sql *sql, struct binds binds,
                               struct err_info *info)
{
    int64_t changed;
    enum err e = tx_exec(tx, sql, binds, &changed, info);
    return e || changed ? e : err_set(info, ERR_NOT_FOUND, "no such webhook");
}

SQL(webhook_switch, "UPDATE webhook SET state = ?, version = version + 1, update_time = ? WHERE id "
                    "= ? AND (caller = ? OR ? = 0)");

enum err webhook_sql_set(struct tx *tx, int64_t caller, int64_t id, bool on, struct err_info *info)
{
    return change_webhook(tx, &webhook_switch,
                          BINDS(bind_int(on ? 0 : 1), bind_int(tx_now_ms(tx)), bind_int(id),
                                bind_int(caller), bind_int(caller)),
                          info);
}

/* The old one goes on signing beside the new until the next rotation. It is read first: MySQL would
 * see a column's new value. */
SQL(webhook_resecret, "UPDATE webhook SET secret_old = ?, secret = ?, version = version + 1, "
                      "update_time = ? WHERE id = ?");

enum err webhook_sql_rotate(struct tx *tx, int64_t caller, int64_t id, struct str secret_enc,
                            struct err_info *info)
{
    struct webhook_row row;
    enum err e = webhook_sql_load(tx, id, &row, info);
    if (e)
        return e;
    if (caller && row.webhook.caller != caller)
        return err_set(info, ERR_NOT_FOUND, "no such webhook");
    if (str_eq(row.secret, secret_enc))
        return ERR_OK; /* the same rule again */

    return change_webhook(
        tx, &webhook_resecret,
        BINDS(bind_text(row.secret), bind_text(secret_enc), bind_int(tx_now_ms(tx)), bind_int(id)),
        info);
}
