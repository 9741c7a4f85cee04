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
    bool finished;
    struct query *next; /* open ones */
};

void tx_start(struct tx *tx, struct store_job *job, int64_t now_ms)
{
    assert(!tx->open);
    arena_reset(tx->arena);
    tx->job = job;
    tx->items_n = 0;
    tx->now_ms = now_ms;
    if (job)
        job->ids_used = 0;
    tx->trouble = ERR_OK;
    tx->trouble_info.err = ERR_OK;
}

enum err tx_finish(struct tx *tx, enum err result, struct err_info *info)
{
    while (tx->open)
        query_end(tx->open, NULL);
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
    if (!tx->job || tx->job->ids_used >= tx->job->ids_count)
        return 0;
    return tx->job->first_id + tx->job->ids_used++;
}

void tx_item(struct tx *tx, size_t i)
{
    assert(i < tx->items_n);
    tx->job = tx->items[i]->job;
    tx->now_ms = tx->job->now_ms;
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

/* Its words stand in trouble_info already. */
static enum err trouble(struct tx *tx, enum err e)
{
    tx->trouble = e;
    return e;
}

static enum err told(const struct tx *tx, enum err e, struct err_info *info)
{
    if (e && info)
        *info = tx->trouble_info;
    return e;
}

/* Ready to be stepped; NULL: trouble. */
static struct stmt *prepare(struct tx *tx, const struct sql *sql, struct binds binds)
{
    struct err_info *info = &tx->trouble_info;

    if (tx->trouble)
        return NULL;
    for (struct query *q = tx->open; q; q = q->next)
        if (q->sql == sql) {
            trouble(tx, err_internal(info, "%s is still being read", sql->name));
            return NULL;
        }
    struct stmt *stmt = tx->driver->prepare(tx->conn, sql, info);
    if (!stmt) {
        trouble(tx, info->err);
        return NULL;
    }
    int params = tx->driver->params(stmt);
    if (binds.n != (size_t)params) {
        trouble(tx, err_internal(info, "%s has %d parameters, %zu were bound", sql->name, params,
                                 binds.n));
        return NULL;
    }
    for (int i = 0; i < params; i++)
        tx->driver->bind(stmt, i, &binds.at[i]);
    return stmt;
}

/* After an error the statement is reset. */
static enum err step(struct tx *tx, struct stmt *stmt, bool *ret_row)
{
    enum err e = tx->driver->step(stmt, ret_row, &tx->trouble_info);
    if (!e)
        return ERR_OK;
    tx->driver->reset(stmt);
    /* After a taken key the rule goes on, if the engine does. */
    if (e == ERR_EXISTS && tx->driver->in_transaction(tx->conn))
        return e;
    return trouble(tx, e);
}

enum err tx_exec(struct tx *tx, const struct sql *sql, struct binds binds, int64_t *ret_changed,
                 struct err_info *info)
{
    bool row = true;
    enum err e = ERR_OK;

    if (!tx->write && !tx->trouble)
        trouble(tx, err_internal(&tx->trouble_info, "%s writes in a read", sql->name));
    struct stmt *stmt = prepare(tx, sql, binds);
    if (!stmt)
        return told(tx, tx->trouble, info);
    while (!e && row)
        e = step(tx, stmt, &row);
    if (e)
        return told(tx, e, info);
    if (ret_changed)
        *ret_changed = tx->driver->changed(tx->conn);
    tx->driver->reset(stmt);
    return ERR_OK;
}

enum err tx_exec_one(struct tx *tx, const struct sql *sql, struct binds binds, const char *lost,
                     struct err_info *info)
{
    int64_t changed;
    enum err e = tx_exec(tx, sql, binds, &changed, info);
    return e || changed == 1 ? e : err_set(info, ERR_RETRY, "%s", lost);
}

struct query *tx_select(struct tx *tx, const struct sql *sql, struct binds binds)
{
    struct query *q = arena_one(tx->arena, struct query);
    q->tx = tx;
    q->sql = sql;
    q->stmt = prepare(tx, sql, binds);
    if (q->stmt) {
        q->next = tx->open;
        tx->open = q;
    }
    return q;
}

/* Off the list of open ones. */
static void finish(struct query *q)
{
    q->finished = true;
    for (struct query **at = &q->tx->open; *at; at = &(*at)->next)
        if (*at == q) {
            *at = q->next;
            break;
        }
}

bool query_row(struct query *q)
{
    struct tx *tx = q->tx;
    bool row = false;

    if (tx->trouble)
        return false;
    if (q->finished)
        trouble(tx, err_internal(&tx->trouble_info, "%s is stepped after its end", q->sql->name));
    else if (step(tx, q->stmt, &row))
        finish(q);
    else if (!row)
        query_end(q, NULL);
    return row;
}

enum err query_end(struct query *q, struct err_info *info)
{
    if (q->stmt && !q->finished) {
        q->tx->driver->reset(q->stmt);
        finish(q);
    }
    return told(q->tx, q->tx->trouble, info);
}

enum err query_end_n(struct query *q, size_t n, size_t *ret_n, struct err_info *info)
{
    enum err e = query_end(q, info);
    if (!e)
        *ret_n = n;
    return e;
}

enum err tx_select_int(struct tx *tx, const struct sql *sql, struct binds binds, int64_t *ret,
                       struct err_info *info)
{
    struct query *q = tx_select(tx, sql, binds);
    int64_t v = query_row(q) ? col_int(q, 0) : 0;
    enum err e = query_end(q, info);
    if (!e)
        *ret = v;
    return e;
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
