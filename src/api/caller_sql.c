/* caller_sql.c -- see caller_sql.h. */
#include "api/caller_sql.h"

SQL(caller_insert, "INSERT INTO caller (id, name, permissions, rate_class, state, version, "
                   "create_time, update_time)"
                   " VALUES (?, ?, ?, ?, 0, 1, ?, ?)");
SQL(caller_by_name,
    "SELECT id, name, permissions, rate_class, state, version FROM caller WHERE name = ?");
SQL(caller_by_id,
    "SELECT id, name, permissions, rate_class, state, version FROM caller WHERE id = ?");
SQL(caller_change,
    "UPDATE caller SET state = ?, rate_class = ?, version = ?, update_time = ? WHERE "
    "id = ? AND version = ?");
SQL(caller_select_all, "SELECT id, name, permissions, rate_class, state,"
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

enum err caller_sql_insert(struct tx *tx, const struct caller_record *c, struct err_info *info)
{
    return tx_exec(tx, &caller_insert,
                   BINDS(bind_int(c->id), bind_text(c->name), bind_int(c->permissions),
                         bind_int(c->rate), bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
                   NULL, info);
}

static enum err caller_row_read(struct query *q, struct caller_record *ret, struct err_info *info)
{
    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such caller");
    *ret = (struct caller_record) {
        .id = col_int(q, 0),
        .name = col_text(q, 1),
        .permissions = (unsigned)col_int(q, 2),
        .rate = (enum caller_rate)col_int(q, 3),
        .on = col_int(q, 4) == 0,
        .version = col_int(q, 5),
    };
    return query_end(q, info);
}

enum err caller_sql_by_name(struct tx *tx, struct str name, struct caller_record *ret,
                            struct err_info *info)
{
    return caller_row_read(tx_select(tx, &caller_by_name, BINDS(bind_text(name))), ret, info);
}

enum err caller_sql_by_id(struct tx *tx, int64_t id, struct caller_record *ret,
                          struct err_info *info)
{
    return caller_row_read(tx_select(tx, &caller_by_id, BINDS(bind_int(id))), ret, info);
}

enum err caller_sql_change(struct tx *tx, const struct caller_record *c, struct err_info *info)
{
    return tx_exec_one(tx, &caller_change,
                       BINDS(bind_int(c->on ? 0 : 1), bind_int(c->rate), bind_int(c->version + 1),
                             bind_int(tx_now_ms(tx)), bind_int(c->id), bind_int(c->version)),
                       "the caller was changed by somebody else", info);
}

enum err caller_sql_list(struct tx *tx, struct caller_row *ret, size_t max, size_t *ret_n,
                         struct err_info *info)
{
    struct query *q = tx_select(tx, &caller_select_all, BINDS(bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = (struct caller_row) {
            .id = col_int(q, 0),
            .name = col_text(q, 1),
            .permissions = (unsigned)col_int(q, 2),
            .rate = (enum caller_rate)col_int(q, 3),
            .on = col_int(q, 4) == 0,
            .keys = (size_t)col_int(q, 5),
        };
    return query_end_n(q, n, ret_n, info);
}

enum err key_sql_insert(struct tx *tx, const struct key_record *k, struct err_info *info)
{
    return tx_exec(tx, &key_insert,
                   BINDS(bind_int(k->id), bind_int(k->caller), bind_int(k->kind),
                         bind_text(k->key_id), bind_blob(k->hash), bind_text(k->secret),
                         bind_int(tx_now_ms(tx)), bind_int(tx_now_ms(tx))),
                   NULL, info);
}

enum err key_sql_find(struct tx *tx, struct str key_id, struct key_record *ret,
                      struct err_info *info)
{
    struct query *q = tx_select(tx, &key_find, BINDS(bind_text(key_id)));

    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such key");
    *ret = (struct key_record) {
        .id = col_int(q, 0),
        .caller = col_int(q, 1),
        .kind = (enum key_kind)col_int(q, 2),
        .key_id = col_text(q, 3),
        .hash = col_blob(q, 4),
        .secret = col_text(q, 5),
        .on = col_int(q, 6) == 0,
    };
    return query_end(q, info);
}

enum err key_sql_list(struct tx *tx, int64_t caller, struct caller_key_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info)
{
    struct query *q = tx_select(tx, &key_list, BINDS(bind_int(caller), bind_int((int64_t)max)));
    size_t n = 0;

    while (n < max && query_row(q))
        ret[n++] = (struct caller_key_row) {
            .key_id = col_text(q, 0),
            .hmac = col_int(q, 1) == KEY_HMAC,
            .on = col_int(q, 2) == 0,
            .create_ms = col_int(q, 3),
        };
    return query_end_n(q, n, ret_n, info);
}

enum err key_sql_revoke(struct tx *tx, struct str key_id, int64_t *ret_changed,
                        struct err_info *info)
{
    return tx_exec(tx, &key_revoke, BINDS(bind_int(tx_now_ms(tx)), bind_text(key_id)), ret_changed,
                   info);
}

enum err key_sql_count(struct tx *tx, int64_t caller, enum key_kind kind, int64_t *ret,
                       struct err_info *info)
{
    return tx_select_int(tx, &key_count, BINDS(bind_int(caller), bind_int(kind)), ret, info);
}

enum err nonce_sql_insert(struct tx *tx, int64_t caller, struct str nonce, int64_t until_ms,
                          struct err_info *info)
{
    return tx_exec(tx, &nonce_insert, BINDS(bind_int(caller), bind_text(nonce), bind_int(until_ms)),
                   NULL, info);
}

enum err nonce_sql_until(struct tx *tx, int64_t caller, struct str nonce, int64_t *ret_until_ms,
                         struct err_info *info)
{
    struct query *q = tx_select(tx, &nonce_until, BINDS(bind_int(caller), bind_text(nonce)));

    if (!query_row(q))
        return query_none(q, info, ERR_NOT_FOUND, "no such nonce");
    *ret_until_ms = col_int(q, 0);
    return query_end(q, info);
}

enum err nonce_sql_clear(struct tx *tx, size_t max, struct err_info *info)
{
    struct {
        int64_t caller;
        struct str nonce;
    } over[8];
    size_t room = max < 8 ? max : 8, n = 0;
    struct query *q =
        tx_select(tx, &nonce_over, BINDS(bind_int(tx_now_ms(tx)), bind_int((int64_t)room)));

    for (; n < room && query_row(q); n++) {
        over[n].caller = col_int(q, 0);
        over[n].nonce = col_text(q, 1);
    }
    enum err e = query_end(q, info);
    for (size_t i = 0; i < n && !e; i++)
        e = tx_exec(tx, &nonce_delete, BINDS(bind_int(over[i].caller), bind_text(over[i].nonce)),
                    NULL, info);
    return e;
}
