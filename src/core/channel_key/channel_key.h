/* channel_key.h -- keys of channels learnt at run time, kept so that a process that starts while
 * the channel is down verifies with the last good set.
 *
 * A row belongs to one account by name and to one contract by its origin; what it is worth is the
 * adapter's judgement (keys_add), every time it is read. Expired keys stay: they verify what was
 * signed in their time. */
#ifndef FENPAY_CHANNEL_KEY_H
#define FENPAY_CHANNEL_KEY_H

#include "channel/channel.h"
#include "store/store.h"

/* Each key's row as it is now; a row of another origin under the same serial is replaced. May run
 * again. */
enum err channel_keys_keep(struct tx *tx, struct str account, const struct learnt_keys *keys,
                           struct err_info *info);
/* The account's rows, those that last longest first, LEARNT_KEYS_MAX at most; texts in tx_arena. */
enum err channel_keys_of(struct tx *tx, struct str account, struct learnt_keys *ret,
                         struct err_info *info);

/* Puts a snapshot that also holds the stored keys in the place of `*account`, which nobody else may
 * have seen yet (its reference is given up). Nothing stored: nothing happens. */
enum err channel_keys_load(struct store *store, struct env *env, struct account **account,
                           struct err_info *info);

#endif
