/* channel_key_sql.c -- the statements of channel_key. */
#include "core/channel_key/channel_key.h"

SQL(channel_key_insert, "INSERT INTO channel_key (account, serial, origin, pem, not_before, "
                        "not_after, create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
SQL(channel_key_replace, "UPDATE channel_key SET origin = ?, pem = ?, not_before = ?, not_after = "
                         "?, update_time = ? WHERE account = ? AND serial = ? AND origin <> ?");
SQL(channel_key_of, "SELECT serial, origin, pem, not_before, not_after FROM channel_key WHERE "
                    "account = ? ORDER BY not_after DESC, serial LIMIT ?");

static enum err insert(struct tx *tx, struct str account, const struct learnt_key *key,
                       struct err_info *info)
{
    struct query *q = tx_query(tx, &channel_key_insert);

    query_text(q, account);
    query_text(q, key->serial);
    query_text(q, key->origin);
    query_blob(q, key->pem);
    query_int(q, key->not_before_ms);
    query_int(q, key->not_after_ms);
    query_int(q, tx_now_ms(tx));
    query_int(q, tx_now_ms(tx));
    return query_run(q, NULL, info);
}

static enum err replace(struct tx *tx, struct str account, const struct learnt_key *key,
                        struct err_info *info)
{
    struct query *q = tx_query(tx, &channel_key_replace);

    query_text(q, key->origin);
    query_blob(q, key->pem);
    query_int(q, key->not_before_ms);
    query_int(q, key->not_after_ms);
    query_int(q, tx_now_ms(tx));
    query_text(q, account);
    query_text(q, key->serial);
    query_text(q, key->origin);
    return query_run(q, NULL, info);
}

enum err channel_keys_keep(struct tx *tx, struct str account, const struct learnt_keys *keys,
                           struct err_info *info)
{
    enum err e = ERR_OK;

    for (size_t i = 0; i < keys->count && !e; i++)
        if ((e = insert(tx, account, &keys->items[i], info)) == ERR_EXISTS)
            e = replace(tx, account, &keys->items[i], info);
    return e;
}

enum err channel_keys_of(struct tx *tx, struct str account, struct learnt_keys *ret,
                         struct err_info *info)
{
    struct query *q = tx_query(tx, &channel_key_of);
    size_t n = 0;

    query_text(q, account);
    query_int(q, LEARNT_KEYS_MAX);
    for (;;) {
        bool row;
        enum err e = query_next(q, &row, info);
        if (e)
            return e;
        if (!row)
            break;
        ret->items[n++] = (struct learnt_key) {
            .serial = col_text(q, 0),
            .origin = col_text(q, 1),
            .pem = col_blob(q, 2),
            .not_before_ms = col_int(q, 3),
            .not_after_ms = col_int(q, 4),
        };
    }
    ret->count = n;
    return ERR_OK;
}
