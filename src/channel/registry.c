/* registry.c -- which channels are built in, and which accounts are configured.
 *
 * Accounts are few and looked up on every callback: one short lock around a scan. Whoever takes an
 * account holds a reference, so a swap never pulls a snapshot from under a running request. A
 * suspension belongs to the name, not to the snapshot: it outlives a key refresh. */
#include "channel/registry.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* Persisted. */
static_assert(CHANNEL_WECHAT == 1 && CHANNEL_ALIPAY == 2 && CHANNEL_APPLE == 3,
              "channel ids stand in rows");
static_assert(METHOD_NATIVE == 1 && METHOD_JSAPI == 2 && METHOD_APP == 3 && METHOD_H5 == 4,
              "methods stand in rows");
static_assert(ENVIRONMENT_DEV == 0 && ENVIRONMENT_TEST == 1 && ENVIRONMENT_PRODUCTION == 2,
              "environments stand in rows");

static const struct channel_info *const channels[] = { &wechat_info };

const struct channel_info *channel_by_id(enum channel_id id)
{
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        if (channels[i]->id == id)
            return channels[i];
    }
    return NULL;
}

const struct channel_info *channel_by_name(struct str name)
{
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        if (str_eq(str_of(channels[i]->name), name))
            return channels[i];
    }
    return NULL;
}

const struct method_info *channel_method(const struct channel_info *info, enum pay_method method)
{
    for (size_t i = 0; i < info->method_count; i++) {
        if (info->methods[i].method == method)
            return &info->methods[i];
    }
    return NULL;
}

const struct method_info *channel_method_by_name(const struct channel_info *info, struct str name)
{
    for (size_t i = 0; i < info->method_count; i++) {
        if (str_eq(str_of(info->methods[i].name), name))
            return &info->methods[i];
    }
    return NULL;
}

const char *notice_reason_name(enum notice_reason reason)
{
    static const char *const names[] = {
        [NOTICE_REASON_NONE] = "none",   [NOTICE_REASON_HEADERS] = "headers",
        [NOTICE_REASON_STALE] = "stale", [NOTICE_REASON_SERIAL] = "unknown_serial",
        [NOTICE_REASON_PROBE] = "probe", [NOTICE_REASON_SIGNATURE] = "bad_signature",
        [NOTICE_REASON_BODY] = "body",   [NOTICE_REASON_DECRYPT] = "decrypt",
    };
    return names[reason];
}

/* ---- accounts ---- */

struct entry {
    struct account *account;
    int64_t suspended_until_ms;
};

struct registry {
    pthread_mutex_t lock;
    struct entry *entries; /* in order of configuration */
    size_t count;
};

struct registry *registry_new(void)
{
    struct registry *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        account_unref(r->entries[i].account);
    free(r->entries);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct entry *find(struct registry *r, struct str name)
{
    for (size_t i = 0; i < r->count; i++) {
        if (str_eq(r->entries[i].account->config.name, name))
            return &r->entries[i];
    }
    return NULL;
}

void registry_put(struct registry *r, struct account *account)
{
    struct account *old = NULL;
    pthread_mutex_lock(&r->lock);
    struct entry *entry = find(r, account->config.name);
    if (entry) {
        old = entry->account;
        if (account->generation <= old->generation)
            account->generation =
                old->generation + 1; /* a reload starts anew; nobody else can see it yet */
    } else {
        r->entries = reallocarray(r->entries, r->count + 1, sizeof r->entries[0]);
        if (!r->entries)
            abort();
        entry = &r->entries[r->count++];
        *entry = (struct entry) { 0 };
    }
    entry->account = account;
    pthread_mutex_unlock(&r->lock);
    account_unref(old);
}

bool registry_swap(struct registry *r, const struct account *old, struct account *fresh)
{
    struct account *replaced = NULL;
    pthread_mutex_lock(&r->lock);
    struct entry *entry = find(r, old->config.name);
    if (entry && entry->account == old) {
        replaced = entry->account;
        entry->account = fresh;
    }
    pthread_mutex_unlock(&r->lock);
    account_unref(replaced);
    return replaced != NULL;
}

struct account *registry_ref(struct registry *r, struct str name)
{
    pthread_mutex_lock(&r->lock);
    struct entry *entry = find(r, name);
    struct account *account = entry ? account_ref(entry->account) : NULL;
    pthread_mutex_unlock(&r->lock);
    return account;
}

struct account *registry_at(struct registry *r, size_t i)
{
    pthread_mutex_lock(&r->lock);
    struct account *account = i < r->count ? account_ref(r->entries[i].account) : NULL;
    pthread_mutex_unlock(&r->lock);
    return account;
}

void registry_suspend(struct registry *r, struct str name, int64_t until_ms)
{
    pthread_mutex_lock(&r->lock);
    struct entry *entry = find(r, name);
    if (entry)
        entry->suspended_until_ms = until_ms;
    pthread_mutex_unlock(&r->lock);
}

bool registry_suspended(struct registry *r, struct str name, int64_t now_ms)
{
    pthread_mutex_lock(&r->lock);
    struct entry *entry = find(r, name);
    bool suspended = entry && entry->suspended_until_ms > now_ms;
    pthread_mutex_unlock(&r->lock);
    return suspended;
}

/* ---- routing ---- */

static bool is_named(struct str list, struct str name)
{
    while (list.p) {
        if (str_eq(str_trim(str_cut(&list, ',')), name))
            return true;
    }
    return false;
}

static bool takes(const struct account *account, enum channel_id channel, enum pay_method method,
                  enum environment environment, struct money amount)
{
    const struct account_config *config = &account->config;
    return (channel == 0 || account->info->id == channel) && (account->methods & 1u << method) &&
           !config->retired && config->environment == (int)environment &&
           money_fen(amount) <= config->amount_max_fen &&
           str_eq(money_currency(&amount), str_of(account->info->currency));
}

struct account *registry_route(struct registry *r, enum channel_id channel, enum pay_method method,
                               enum environment environment, struct money amount,
                               struct str not_these, int64_t now_ms)
{
    struct account *found = NULL;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->count && !found; i++) {
        const struct entry *entry = &r->entries[i];
        if (entry->suspended_until_ms <= now_ms &&
            takes(entry->account, channel, method, environment, amount) &&
            !is_named(not_these, entry->account->config.name))
            found = account_ref(entry->account);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}
