/* caller_sql.c -- see caller_sql.h. */
#include "api/caller_sql.h"

SQL(caller_insert, "INSERT INTO caller (id, name, permissions, rate_class, state, version, "
                   "create_time, update_time)"
                   " VALUES (?, ?, ?, ?, 0, 1, ?, ?)");
SQL(caller_by_name,
    "SELECT id, name, permissions, rate_class, state, version FROM caller WHERE name = ?");
SQL(caller_by_id,
    "SELECT id, name, permissions, rate_class, state, version FROM caller WHERE id = ?");
SQL(caller_touch,
    "UPDATE caller SET state = ?, version = ?, update_time = ? WHERE id = ? AND version = ?");
SQL(caller_select_all, "SELECT id, name, permissions, state,"
                       " (SELECT COUNT(*) FROM caller_key k WHERE k.caller = c.id AND k.state = 0)"
                       " FROM caller c ORDER BY id LIMIT ?");

SQL(key_insert, "INSERT INTO caller_key (id, caller, kind, key_id, hash, secret, state, "
                "create_time, update_time)"
                " VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)");
SQL(key_find,
    "SELECT id, caller, kind, key_id, hash, secret, state FROM caller_key WHERE key_id = ?");
SQL(key_list, "SELECT key_id, kind, state, create_time FROM caller_key WHERE caller = ?"
              " ORDER BY id LIMIT ?");
SQL(key_revoke, "UPDATE caller_key SET state = 1, update_time = ? WHERE key_id = ? AND state = 0");
SQL(key_count, "SELECT COUNT(*) FROM caller_key WHERE caller = ? AND kind = ? AND state = 0");

SQL(nonce_insert, "INSERT INTO caller_nonce (caller, nonce, until_time) VALUES (?, ?, ?)");
SQL(nonce_until, "SELECT until_time FROM caller_nonce WHERE caller = ? AND nonce = ?");
SQL(nonce_over,
    "SELECT caller, nonce FROM caller_nonce WHERE until_time < ? ORDER BY until_time LIMIT ?");
SQL(nonce_delete, "DELETE FROM caller_nonce WHERE caller = ? AND nonce = ?");

SQL(audit_insert, "INSERT INTO audit_log (id, who, act, subject, detail, create_time, update_time)"
                  " VALUES (?, ?, ?, ?, ?, ?, ?)");

static void query_now_twice(struct query *q, struct tx *tx)
{
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
}

/* One row or ERR_NOT_FOUND; the query stays open for reading its columns. */
static enum err one_row(struct query *q, const char *what, struct err_info *info)
{
    bool row;
    enum err e = query_next(q, &row, info);
    if (!e && !row)
        e = err_set(info, ERR_NOT_FOUND, "no such %s", what);
    return e;
}

enum err caller_sql_insert(struct tx *tx, const struct caller_record *c, struct err_info *info)
{
    struct query *q = tx_query(tx, &caller_insert);
    query_int(q, c->id);
    query_text(q, c->name);
    query_int(q, c->permissions);
    query_int(q, c->rate_class);
    query_now_twice(q, tx);
    return query_run(q, NULL, info);
}

static enum err caller_row_read(struct query *q, struct caller_record *ret, struct err_info *info)
{
    enum err e = one_row(q, "caller", info);
    if (e)
        return e;
    *ret = (struct caller_record) {
        .id = col_int(q, 0),
        .name = col_text(q, 1),
        .permissions = (unsigned)col_int(q, 2),
        .rate_class = (int)col_int(q, 3),
        .on = col_int(q, 4) == 0,
        .version = col_int(q, 5),
    };
    query_end(q);
    return ERR_OK;
}

enum err caller_sql_by_name(struct tx *tx, struct str name, struct caller_record *ret,
                            struct err_info *info)
{
    struct query *q = tx_query(tx, &caller_by_name);
    query_text(q, name);
    return caller_row_read(q, ret, info);
}

enum err caller_sql_by_id(struct tx *tx, int64_t id, struct caller_record *ret,
                          struct err_info *info)
{
    struct query *q = tx_query(tx, &caller_by_id);
    query_int(q, id);
    return caller_row_read(q, ret, info);
}

enum err caller_sql_touch(struct tx *tx, const struct caller_record *c, bool on,
                          struct err_info *info)
{
    int64_t changed;
    struct query *q = tx_query(tx, &caller_touch);
    query_int(q, on ? 0 : 1);
    query_int(q, c->version + 1);
    query_int(q, tx_now_ms(tx));
    query_int(q, c->id);
    query_int(q, c->version);
    enum err e = query_run(q, &changed, info);
    if (!e && changed == 0)
        e = err_set(info, ERR_RETRY, "the caller was changed by somebody else");
    return e;
}

enum err caller_sql_list(struct tx *tx, struct caller_row *ret, size_t max, size_t *ret_n,
                         struct err_info *info)
{
    bool row;
    size_t n = 0;
    enum err e;
    struct query *q = tx_query(tx, &caller_select_all);

    query_int(q, (int64_t)max);
    while (!(e = query_next(q, &row, info)) && row) {
        ret[n++] = (struct caller_row) {
            .id = col_int(q, 0),
            .name = col_text(q, 1),
            .permissions = (unsigned)col_int(q, 2),
            .on = col_int(q, 3) == 0,
            .keys = (size_t)col_int(q, 4),
        };
    }
    if (!e)
        *ret_n = n;
    return e;
}

enum err key_sql_insert(struct tx *tx, const struct key_record *k, struct err_info *info)
{
    struct query *q = tx_query(tx, &key_insert);
    query_int(q, k->id);
    query_int(q, k->caller);
    query_int(q, k->kind);
    query_text(q, k->key_id);
    query_blob(q, k->hash);
    query_text(q, k->secret);
    query_now_twice(q, tx);
    return query_run(q, NULL, info);
}

enum err key_sql_find(struct tx *tx, struct str key_id, struct key_record *ret,
                      struct err_info *info)
{
    struct query *q = tx_query(tx, &key_find);
    query_text(q, key_id);
    enum err e = one_row(q, "key", info);
    if (e)
        return e;
    *ret = (struct key_record) {
        .id = col_int(q, 0),
        .caller = col_int(q, 1),
        .kind = (enum key_kind)col_int(q, 2),
        .key_id = col_text(q, 3),
        .hash = col_blob(q, 4),
        .secret = col_text(q, 5),
        .on = col_int(q, 6) == 0,
    };
    query_end(q);
    return ERR_OK;
}

enum err key_sql_list(struct tx *tx, int64_t caller, struct caller_key_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info)
{
    bool row;
    size_t n = 0;
    enum err e;
    struct query *q = tx_query(tx, &key_list);

    query_int(q, caller);
    query_int(q, (int64_t)max);
    while (!(e = query_next(q, &row, info)) && row) {
        ret[n++] = (struct caller_key_row) {
            .key_id = col_text(q, 0),
            .hmac = col_int(q, 1) == KEY_HMAC,
            .on = col_int(q, 2) == 0,
            .create_ms = col_int(q, 3),
        };
    }
    if (!e)
        *ret_n = n;
    return e;
}

enum err key_sql_revoke(struct tx *tx, struct str key_id, int64_t *ret_changed,
                        struct err_info *info)
{
    struct query *q = tx_query(tx, &key_revoke);
    query_int(q, tx_now_ms(tx));
    query_text(q, key_id);
    return query_run(q, ret_changed, info);
}

enum err key_sql_count(struct tx *tx, int64_t caller, enum key_kind kind, int64_t *ret,
                       struct err_info *info)
{
    struct query *q = tx_query(tx, &key_count);
    query_int(q, caller);
    query_int(q, kind);
    enum err e = one_row(q, "count", info);
    if (e)
        return e;
    *ret = col_int(q, 0);
    query_end(q);
    return ERR_OK;
}

enum err nonce_sql_insert(struct tx *tx, int64_t caller, struct str nonce, int64_t until_ms,
                          struct err_info *info)
{
    struct query *q = tx_query(tx, &nonce_insert);
    query_int(q, caller);
    query_text(q, nonce);
    query_int(q, until_ms);
    return query_run(q, NULL, info);
}

enum err nonce_sql_until(struct tx *tx, int64_t caller, struct str nonce, int64_t *ret_until_ms,
                         struct err_info *info)
{
    struct query *q = tx_query(tx, &nonce_until);
    query_int(q, caller);
    query_text(q, nonce);
    enum err e = one_row(q, "nonce", info);
    if (e)
        return e;
    *ret_until_ms = col_int(q, 0);
    query_end(q);
    return ERR_OK;
}

enum err nonce_sql_clear(struct tx *tx, size_t max, struct err_info *info)
{
    struct {
        int64_t caller;
        struct str nonce;
    } over[8];
    size_t n = 0;
    bool row;
    enum err e;
    struct query *q = tx_query(tx, &nonce_over);

    query_int(q, tx_now_ms(tx));
    query_int(q, (int64_t)(max < 8 ? max : 8));
    while (!(e = query_next(q, &row, info)) && row) {
        over[n].caller = col_int(q, 0);
        over[n++].nonce = col_text(q, 1);
    }
    for (size_t i = 0; i < n && !e; i++) {
        q = tx_query(tx, &nonce_delete);
        query_int(q, over[i].caller);
        query_text(q, over[i].nonce);
        e = query_run(q, NULL, info);
    }
    return e;
}

enum err audit_sql_insert(struct tx *tx, int64_t id, struct str who, struct str act,
                          struct str subject, struct str detail, struct err_info *info)
{
    struct query *q = tx_query(tx, &audit_insert);
    query_int(q, id);
    query_text(q, who);
    query_text(q, act);
    query_text(q, subject);
    query_text(q, detail);
    query_now_twice(q, tx);
    return query_run(q, NULL, info);
}
