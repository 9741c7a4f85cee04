/* registry.h -- which channels and accounts there are. Accounts are swapped whole and atomically
 * (reload, key refresh). */
#ifndef FENPAY_REGISTRY_H
#define FENPAY_REGISTRY_H

#include "channel/channel.h"

struct registry;

struct registry *registry_new(void);
void registry_free(struct registry *r);

const struct channel_info *channel_by_id(enum channel_id id);
const struct channel_info *channel_by_name(struct str name);
const struct method_info *channel_method(const struct channel_info *info, enum pay_method method);
const struct method_info *channel_method_by_name(const struct channel_info *info, struct str name);

/* A new snapshot with one reference: checks the configuration, opens the keys. `public_notify_url`
 * is the base for accounts without a notify_url of their own ("https://pay.example.com/notify/" +
 * name). The address is checked: https (http only in dev), public name, full path, no query, <=
 * 255. */
enum err account_open(const struct account_config *config, struct str public_notify_url,
                      struct env *env, struct account **ret, struct err_info *info);
/* The same configuration with other keys: for refresh. */
enum err account_renew(const struct account *old, void *keys, struct account **ret);

/* Adds, or replaces the account of that name. Takes the reference. */
void registry_put(struct registry *r, struct account *account);
/* Puts `fresh` (and takes its reference) where `old` stands. False, and nothing happened: `old` was
 * replaced meanwhile, a reload must not be undone by what was begun before it. */
bool registry_swap(struct registry *r, const struct account *old, struct account *fresh);
struct account *registry_ref(struct registry *r, struct str name); /* NULL: no such account */
/* The i-th account in order of configuration, referenced; NULL past the end. */
struct account *registry_at(struct registry *r, size_t i);
/* Out of routing until the time (an ACCOUNT answer), and the question. */
void registry_suspend(struct registry *r, struct str name, int64_t until_ms);
bool registry_suspended(struct registry *r, struct str name, int64_t now_ms);

/* The account for a new attempt: of that channel (0: any), able to do the method, of the
 * environment, not retired, not suspended, amount within its maximum, not named in `not_these`
 * (comma-separated, may be empty). First in order of configuration. NULL: none. */
struct account *registry_route(struct registry *r, enum channel_id channel, enum pay_method method,
                               enum environment environment, struct money amount,
                               struct str not_these, int64_t now_ms);

#endif
