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
    return tx_exec(tx, &channel_key_insert,
                   BINDS(bind_text(account), bind_text(key->serial), bind_text(key->origin),
                         bind_blob(key->pem), bind_int(key->not_before_ms),
                         bind_int(key->not_after_ms), bind_int(tx_now_ms(tx)),
                         bind_int(tx_now_ms(tx))),
                   NULL, info);
}

static enum err replace(struct tx *tx, struct str account, const struct learnt_key *key,
                        struct err_info *info)
{
    return tx_exec(tx, &channel_key_replace,
                   BINDS(bind_text(key->origin), bind_blob(key->pem), bind_int(key->not_before_ms),
                         bind_int(key->not_after_ms), bind_int(tx_now_ms(tx)), bind_text(account),
                         bind_text(key->serial), bind_text(key->origin)),
                   NULL, info);
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
    size_t n = 0;

    struct query *q =
        tx_select(tx, &channel_key_of, BINDS(bind_text(account), bind_int(LEARNT_KEYS_MAX)));
    while (n < LEARNT_KEYS_MAX && query_row(q))
        ret->items[n++] = (struct learnt_key) {
            .serial = col_text(q, 0),
            .origin = col_text(q, 1),
            .pem = col_blob(q, 2),
            .not_before_ms = col_int(q, 3),
            .not_after_ms = col_int(q, 4),
        };
    return query_end_n(q, n, &ret->count, info);
}
