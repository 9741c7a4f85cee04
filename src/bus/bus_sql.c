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
    struct query *q = tx_query(tx, &outbox_insert);
    query_int(q, e->no.id);
    query_int(q, e->subject.slot);
    query_int(q, e->type);
    query_int(q, e->subject.kind);
    query_int(q, e->subject.id);
    query_int(q, e->caller);
    query_int(q, e->sequence);
    query_blob(q, e->data.n ? e->data : STR("{}"));
    query_text(q, e->trace_id);
    query_int(q, e->time_ms);
    query_int(q, e->time_ms);
    return query_run(q, NULL, info);
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
    bool row;

    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        if (event_type_known(col_int(q, 2)))
            ret[n++] = event_from(q, 0);
        if (n == max) {
            query_end(q);
            break;
        }
    }
    *ret_n = n;
    return ERR_OK;
}

SQL(outbox_pending, "SELECT d.due, " EVENT_COLUMNS " FROM outbox_due d JOIN outbox o ON o.id = d.id"
                    " WHERE d.due <= ? ORDER BY d.due, d.id LIMIT ?");

enum err outbox_sql_pending(struct tx *tx, size_t max, struct pending *ret, size_t *ret_n,
                            struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_pending);
    size_t n = 0;
    bool row;

    query_int(q, tx_now_ms(tx));
    query_int(q, (int64_t)max);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        struct pending *p = &ret[n++];
        p->due = col_int(q, 0);
        p->type = col_int(q, 3);
        p->readable = event_type_known(p->type);
        p->event = event_from(q, 1);
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(outbox_read, "SELECT " EVENT_COLUMNS " FROM outbox o WHERE o.id = ?");

enum err outbox_sql_read(struct tx *tx, int64_t id, struct event *ret, struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_read);
    size_t n;

    query_int(q, id);
    enum err e = events_from(q, ret, 1, &n, info);
    if (e)
        return e;
    return n ? ERR_OK : err_set(info, ERR_NOT_FOUND, "no such event");
}

SQL(outbox_of,
    "SELECT " EVENT_COLUMNS
    " FROM outbox o WHERE o.id >= ? AND o.id <= ? AND o.subject_id = ? ORDER BY o.id LIMIT ?");

enum err outbox_sql_of(struct tx *tx, int64_t subject_id, int64_t first_id, int64_t last_id,
                       struct event *ret, size_t max, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_of);
    query_int(q, first_id);
    query_int(q, last_id);
    query_int(q, subject_id);
    query_int(q, (int64_t)max);
    return events_from(q, ret, max, ret_n, info);
}

SQL(outbox_park, "UPDATE outbox SET parked = ?, update_time = ? WHERE id = ?");

enum err outbox_sql_park(struct tx *tx, int64_t id, struct str reason, struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_park);
    query_text(q, reason);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(outbox_due_insert, "INSERT INTO outbox_due (due, id) VALUES (?, ?)");

enum err outbox_due_sql_insert(struct tx *tx, int64_t due, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_due_insert);
    query_int(q, due);
    query_int(q, id);
    return query_run(q, NULL, info);
}

SQL(outbox_due_delete, "DELETE FROM outbox_due WHERE due = ? AND id = ?");

enum err outbox_due_sql_delete(struct tx *tx, int64_t due, int64_t id, struct err_info *info)
{
    struct query *q = tx_query(tx, &outbox_due_delete);
    query_int(q, due);
    query_int(q, id);
    return query_run(q, NULL, info);
}

/* One row of integers, zero where there is none. */
static enum err read_ints(struct query *q, int64_t *ret_a, int64_t *ret_b, struct err_info *info)
{
    bool row;
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    *ret_a = row ? col_int(q, 0) : 0;
    if (ret_b)
        *ret_b = row ? col_int(q, 1) : 0;
    if (row)
        query_end(q);
    return ERR_OK;
}

/* A backlog above this is shown as this: the figure must not cost what it warns of. */
#define COUNT_MAX "100000"

SQL(outbox_due_stats,
    "SELECT count(*), min(due) FROM (SELECT due FROM outbox_due ORDER BY due, id LIMIT " COUNT_MAX
    ") d");

enum err outbox_due_sql_stats(struct tx *tx, int64_t *ret_count, int64_t *ret_oldest,
                              struct err_info *info)
{
    return read_ints(tx_query(tx, &outbox_due_stats), ret_count, ret_oldest, info);
}

/* ---- the feed ---- */

SQL(feed_last, "SELECT seq FROM event_feed ORDER BY seq DESC LIMIT 1");

enum err feed_sql_last(struct tx *tx, int64_t *ret_seq, struct err_info *info)
{
    return read_ints(tx_query(tx, &feed_last), ret_seq, NULL, info);
}

SQL(feed_insert, "INSERT INTO event_feed (seq, caller, event_id, create_time, update_time) VALUES "
                 "(?, ?, ?, ?, ?)");

enum err feed_sql_insert(struct tx *tx, int64_t seq, const struct event *e, struct err_info *info)
{
    struct query *q = tx_query(tx, &feed_insert);
    query_int(q, seq);
    query_int(q, e->caller);
    query_int(q, e->no.id);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

SQL(feed_all, "SELECT " EVENT_COLUMNS ", f.seq FROM event_feed f JOIN outbox o ON o.id = f.event_id"
              " WHERE f.seq > ? ORDER BY f.seq LIMIT ?");
SQL(feed_caller,
    "SELECT " EVENT_COLUMNS ", f.seq FROM event_feed f JOIN outbox o ON o.id = f.event_id"
    " WHERE f.caller = ? AND f.seq > ? ORDER BY f.seq LIMIT ?");

enum err feed_sql_read(struct tx *tx, int64_t caller, int64_t after, size_t limit,
                       struct event *ret, int64_t *ret_seqs, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, caller ? &feed_caller : &feed_all);
    size_t n = 0;
    bool row;

    if (caller)
        query_int(q, caller);
    query_int(q, after);
    query_int(q, (int64_t)limit);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == limit)
            break;
        ret[n] = event_from(q, 0);
        ret_seqs[n++] = col_int(q, 10);
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

/* ---- consumers ---- */

SQL(consumed_insert, "INSERT INTO consumed_event (consumer, event_id, create_time, update_time) "
                     "VALUES (?, ?, ?, ?)");

enum err consumed_sql_insert(struct tx *tx, const char *consumer, int64_t event_id,
                             struct err_info *info)
{
    struct query *q = tx_query(tx, &consumed_insert);
    query_text(q, str_of(consumer));
    query_int(q, event_id);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

/* ---- deliveries ---- */

SQL(delivery_insert, "INSERT INTO event_delivery (event_id, target, state, tries, next_time, "
                     "lease_until, last_error, version,"
                     " create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)");

enum err delivery_sql_insert(struct tx *tx, const struct delivery *d, struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_insert);
    query_int(q, d->event_id);
    query_text(q, d->target);
    query_int(q, d->state);
    query_int(q, d->tries);
    query_int(q, d->next_ms);
    query_int(q, d->lease_until_ms);
    query_text(q, d->last_error);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
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
    struct query *q = tx_query(tx, &delivery_load);
    bool row;

    query_int(q, event_id);
    query_text(q, target);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return ERR_NOT_FOUND;
    *ret = delivery_from(q);
    query_end(q);
    return ERR_OK;
}

SQL(delivery_of,
    "SELECT " DELIVERY_COLUMNS " FROM event_delivery WHERE event_id = ? ORDER BY target LIMIT ?");

enum err delivery_sql_of(struct tx *tx, int64_t event_id, struct delivery *ret, size_t max,
                         size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_of);
    size_t n = 0;
    bool row;

    query_int(q, event_id);
    query_int(q, (int64_t)max);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        ret[n++] = delivery_from(q);
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(delivery_update,
    "UPDATE event_delivery SET state = ?, tries = ?, next_time = ?, lease_until = ?, last_error = "
    "?,"
    " version = version + 1, update_time = ? WHERE event_id = ? AND target = ? AND version = ?");

enum err delivery_sql_update(struct tx *tx, struct delivery *d, bool *ret_changed,
                             struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_update);
    int64_t changed;

    query_int(q, d->state);
    query_int(q, d->tries);
    query_int(q, d->next_ms);
    query_int(q, d->lease_until_ms);
    query_text(q, d->last_error);
    query_int(q, tx_now_ms(tx));
    query_int(q, d->event_id);
    query_text(q, d->target);
    query_int(q, d->version);
    enum err e = query_run(q, &changed, info);
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
    struct query *q = tx_query(tx, &delivery_due_insert);
    query_text(q, target);
    query_int(q, due);
    query_int(q, event_id);
    enum err e = query_run(q, NULL, info);
    return e == ERR_EXISTS ? ERR_OK : e;
}

SQL(delivery_due_delete, "DELETE FROM delivery_due WHERE target = ? AND due = ? AND event_id = ?");

enum err delivery_due_sql_delete(struct tx *tx, struct str target, int64_t due, int64_t event_id,
                                 struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_due_delete);
    query_text(q, target);
    query_int(q, due);
    query_int(q, event_id);
    return query_run(q, NULL, info);
}

SQL(delivery_due_target,
    "SELECT target FROM delivery_due WHERE target > ? ORDER BY target LIMIT 1");

enum err delivery_due_sql_target(struct tx *tx, struct str after, struct str *ret,
                                 struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_due_target);
    bool row;

    query_text(q, after.p ? after : STR(""));
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return ERR_NOT_FOUND;
    *ret = col_text(q, 0);
    query_end(q);
    return ERR_OK;
}

SQL(delivery_due_of, "SELECT due, event_id FROM delivery_due WHERE target = ? AND due <= ? ORDER "
                     "BY due, event_id LIMIT ?");

enum err delivery_due_sql_of(struct tx *tx, struct str target, int64_t until, size_t max,
                             struct delivery_due *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &delivery_due_of);
    size_t n = 0;
    bool row;

    query_text(q, target);
    query_int(q, until);
    query_int(q, (int64_t)max);
    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        ret[n++] = (struct delivery_due) { .due = col_int(q, 0), .event_id = col_int(q, 1) };
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(delivery_due_stats, "SELECT count(*), sum(due = 9223372036854775807) FROM (SELECT due FROM "
                        "delivery_due LIMIT " COUNT_MAX ") d");

enum err delivery_due_sql_stats(struct tx *tx, int64_t *ret_pending, int64_t *ret_dead,
                                struct err_info *info)
{
    int64_t all = 0, dead = 0;
    enum err e = read_ints(tx_query(tx, &delivery_due_stats), &all, &dead, info);
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
    struct query *q = tx_query(tx, &delivery_due_dead);
    query_text(q, target);
    return read_ints(q, ret, NULL, info);
}

/* ---- subscribers ---- */

SQL(webhook_add, "INSERT INTO webhook (id, caller, url, secret, secret_old, types, state, version, "
                 "create_time, update_time)"
                 " VALUES (?, ?, ?, ?, NULL, ?, ?, 1, ?, ?)");

enum err webhook_sql_insert(struct tx *tx, const struct webhook *w, struct str secret_enc,
                            struct err_info *info)
{
    struct query *q = tx_query(tx, &webhook_add);
    query_int(q, w->id);
    query_int(q, w->caller);
    query_text(q, w->url);
    query_text(q, secret_enc);
    query_int(q, w->types);
    query_int(q, w->on ? 0 : 1);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

SQL(webhook_count, "SELECT count(*) FROM webhook");

enum err webhook_sql_count(struct tx *tx, int64_t *ret, struct err_info *info)
{
    return read_ints(tx_query(tx, &webhook_count), ret, NULL, info);
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
    struct query *q = tx_query(tx, &webhook_load);
    bool row;

    query_int(q, id);
    enum err e = query_next(q, &row, info);
    if (e)
        return e;
    if (!row)
        return err_set(info, ERR_NOT_FOUND, "no such webhook");
    *ret = (struct webhook_row) { .webhook = webhook_from(q),
                                  .secret = col_text(q, 5),
                                  .secret_old = col_text(q, 6) };
    query_end(q);
    return ERR_OK;
}

static enum err webhooks_from(struct query *q, size_t max, struct webhook *ret, size_t *ret_n,
                              struct err_info *info)
{
    size_t n = 0;
    bool row;

    for (;;) {
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row || n == max)
            break;
        ret[n++] = webhook_from(q);
    }
    if (row)
        query_end(q);
    *ret_n = n;
    return ERR_OK;
}

SQL(webhook_list_all, "SELECT " WEBHOOK_COLUMNS " FROM webhook ORDER BY id LIMIT ?");
SQL(webhook_list_caller,
    "SELECT " WEBHOOK_COLUMNS " FROM webhook WHERE caller = ? ORDER BY id LIMIT ?");

enum err webhook_sql_list(struct tx *tx, int64_t caller, size_t max, struct webhook *ret,
                          size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, caller ? &webhook_list_caller : &webhook_list_all);
    if (caller)
        query_int(q, caller);
    query_int(q, (int64_t)max);
    return webhooks_from(q, max, ret, ret_n, info);
}

SQL(webhook_list_on, "SELECT " WEBHOOK_COLUMNS " FROM webhook WHERE state = 0 ORDER BY id LIMIT ?");

enum err webhook_sql_on(struct tx *tx, struct webhook *ret, size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_query(tx, &webhook_list_on);
    query_int(q, WEBHOOKS_MAX);
    return webhooks_from(q, WEBHOOKS_MAX, ret, ret_n, info);
}

static enum err run_one(struct query *q, struct err_info *info)
{
    int64_t changed;
    enum err e = query_run(q, &changed, info);
    if (e)
        return e;
    return changed ? ERR_OK : err_set(info, ERR_NOT_FOUND, "no such webhook");
}

SQL(webhook_switch, "UPDATE webhook SET state = ?, version = version + 1, update_time = ? WHERE id "
                    "= ? AND (caller = ? OR ? = 0)");

enum err webhook_sql_set(struct tx *tx, int64_t caller, int64_t id, bool on, struct err_info *info)
{
    struct query *q = tx_query(tx, &webhook_switch);
    query_int(q, on ? 0 : 1);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    query_int(q, caller);
    query_int(q, caller);
    return run_one(q, info);
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

    struct query *q = tx_query(tx, &webhook_resecret);
    query_text(q, row.secret);
    query_text(q, secret_enc);
    query_int(q, tx_now_ms(tx));
    query_int(q, id);
    return run_one(q, info);
}
