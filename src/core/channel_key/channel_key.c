/* channel_key.c -- from the stored rows to an account that verifies with them. */
#include "core/channel_key/channel_key.h"

#include "base/log.h"

struct load {
    struct store *store;
    struct env *env;
    struct account *account, *fresh;
    size_t refused;
};

static enum err load_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct load *l = arg;
    struct learnt_keys keys = { .count = 0 };
    enum err e = channel_keys_of(tx, l->account->config.name, &keys, info);

    account_unref(l->fresh); /* of an earlier try */
    l->fresh = NULL;
    return e ? e
             : l->account->info->driver->keys_add(l->account, &keys, &l->fresh, &l->refused, info);
}

enum err channel_keys_load(struct store *store, struct env *env, struct account **account,
                           struct err_info *info)
{
    struct load l = { .store = store, .env = env, .account = *account };

    if (!(l.account->info->capabilities & CHANNEL_REFRESHES_KEYS))
        return ERR_OK;
    enum err e = store_read(store, 0, "channel_key.load", load_rule, &l, info);
    if (e) {
        account_unref(l.fresh);
        return e;
    }
    if (l.refused)
        LOG(env->log, LOG_WARN, "channel.stored_keys_refused",
            log_str("account", l.account->config.name), log_int("keys", (int64_t)l.refused));
    if (l.fresh) {
        account_unref(l.account);
        *account = l.fresh;
    }
    return ERR_OK;
}
