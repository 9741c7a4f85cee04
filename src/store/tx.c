/* tx.c -- what a rule calls: its time and ids, statements, wakes.
 *
 * After an error of the database other than a taken key nothing more reaches the database in this
 * try: SQLite may have rolled back the whole transaction silently, and the next statement would
 * then commit by itself (systems.md F1). */
#include "store/internal.h"

#include <assert.h>
#include <stdlib.h>

struct query {
    struct tx *tx;
    const struct sql *sql;
    struct stmt *stmt; /* NULL: there was trouble before it */
    int bound;
    bool started, finished;
    struct query *next; /* open ones */
};

void tx_start(struct tx *tx, struct store_job *job, int64_t now_ms)
{
    assert(!tx->open);
    arena_reset(tx->arena);
    tx->job = job;
    tx->now_ms = now_ms;
    tx->ids_used = 0;
    tx->trouble = ERR_OK;
    tx->trouble_info.err = ERR_OK;
}

enum err tx_finish(struct tx *tx, enum err result, struct err_info *info)
{
    while (tx->open)
        query_end(tx->open);
    if (!tx->trouble || result == tx->trouble)
        return result;
    *info = tx->trouble_info;
    return tx->trouble;
}

struct arena *tx_arena(struct tx *tx)
{
    return tx->arena;
}

struct env *tx_env(struct tx *tx)
{
    return tx->store->env;
}

int64_t tx_now_ms(const struct tx *tx)
{
    return tx->now_ms;
}

int64_t tx_new_id(struct tx *tx)
{
    if (!tx->job || tx->ids_used >= tx->job->ids_count)
        return 0;
    return tx->job->first_id + tx->ids_used++;
}

void tx_after_commit(struct tx *tx, enum store_wake wake, int64_t id)
{
    assert(tx->write);
    if (tx->wakes_n == tx->wakes_cap) {
        tx->wakes_cap = tx->wakes_cap ? tx->wakes_cap * 2 : 64;
        tx->wakes = reallocarray(tx->wakes, tx->wakes_cap, sizeof *tx->wakes);
        if (!tx->wakes)
            abort();
    }
    tx->wakes[tx->wakes_n++] = (struct store_waked) { .wake = wake, .id = id };
}

static enum err trouble(struct tx *tx, enum err e, const struct err_info *info)
{
    if (!tx->trouble) {
        tx->trouble = e;
        tx->trouble_info = *info;
    }
    return e;
}

struct query *tx_query(struct tx *tx, const struct sql *sql)
{
    struct query *q = arena_one(tx->arena, struct query);
    q->tx = tx;
    q->sql = sql;
    if (tx->trouble)
        return q;
    for (struct query *other = tx->open; other; other = other->next)
        if (other->sql == sql) {
            struct err_info info = { 0 };
            trouble(tx, err_internal(&info, "%s is still being read", sql->name), &info);
            return q;
        }
    struct err_info info = { 0 };
    q->stmt = tx->driver->prepare(tx->conn, sql, &info);
    if (!q->stmt) {
        trouble(tx, info.err, &info);
        return q;
    }
    q->next = tx->open;
    tx->open = q;
    return q;
}

/* The place of the next parameter; -1 when there is nothing to bind to. */
static int next_param(struct query *q)
{
    int i = q->bound++;
    return q->stmt && !q->started && i < q->tx->driver->params(q->stmt) ? i : -1;
}

void query_int(struct query *q, int64_t v)
{
    int i = next_param(q);
    if (i >= 0)
        q->tx->driver->bind_int(q->stmt, i, v);
}

void query_text(struct query *q, struct str s)
{
    int i = next_param(q);
    if (i >= 0 && s.p)
        q->tx->driver->bind_text(q->stmt, i, s);
    else if (i >= 0)
        q->tx->driver->bind_null(q->stmt, i);
}

void query_blob(struct query *q, struct str s)
{
    int i = next_param(q);
    if (i >= 0 && s.p)
        q->tx->driver->bind_blob(q->stmt, i, s);
    else if (i >= 0)
        q->tx->driver->bind_null(q->stmt, i);
}

void query_null(struct query *q)
{
    int i = next_param(q);
    if (i >= 0)
        q->tx->driver->bind_null(q->stmt, i);
}

void query_end(struct query *q)
{
    if (!q->stmt || q->finished)
        return;
    q->finished = true;
    q->tx->driver->reset(q->stmt);
    for (struct query **at = &q->tx->open; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
}

static enum err query_step(struct query *q, bool *ret_row, struct err_info *info)
{
    struct tx *tx = q->tx;
    struct err_info mine = { 0 };
    enum err e;
    if (tx->trouble) {
        if (info)
            *info = tx->trouble_info;
        return tx->trouble;
    }
    if (q->finished)
        e = err_internal(&mine, "%s is stepped after its end", q->sql->name);
    else if (!q->started && q->bound != tx->driver->params(q->stmt))
        e = err_internal(&mine, "%s has %d parameters, %d were bound", q->sql->name,
                         tx->driver->params(q->stmt), q->bound);
    else {
        q->started = true;
        e = tx->driver->step(q->stmt, ret_row, &mine);
    }
    if (!e)
        return ERR_OK;
    query_end(q);
    if (info)
        *info = mine;
    /* After a taken key the rule goes on, if the engine does. */
    if (e == ERR_EXISTS && tx->driver->in_transaction(tx->conn))
        return e;
    return trouble(tx, e, &mine);
}

enum err query_next(struct query *q, bool *ret_row, struct err_info *info)
{
    enum err e = query_step(q, ret_row, info);
    if (!e && !*ret_row)
        query_end(q);
    return e;
}

enum err query_run(struct query *q, int64_t *ret_changed, struct err_info *info)
{
    if (!q->tx->write && !q->tx->trouble) {
        struct err_info mine = { 0 };
        trouble(q->tx, err_internal(&mine, "%s writes in a read", q->sql->name), &mine);
    }
    bool row = true;
    enum err e = ERR_OK;
    while (!e && row)
        e = query_step(q, &row, info);
    if (e)
        return e;
    if (ret_changed)
        *ret_changed = q->tx->driver->changed(q->tx->conn);
    query_end(q);
    return ERR_OK;
}

int64_t col_int(struct query *q, int column)
{
    return q->tx->driver->col_int(q->stmt, column);
}

bool col_is_null(struct query *q, int column)
{
    return q->tx->driver->col_null(q->stmt, column);
}

struct str col_text(struct query *q, int column)
{
    if (q->tx->driver->col_null(q->stmt, column))
        return STR_NONE;
    return str_dup(q->tx->arena, q->tx->driver->col_bytes(q->stmt, column));
}

struct str col_blob(struct query *q, int column)
{
    return col_text(q, column);
}
