/* account.c -- one merchant contract as an immutable snapshot: its settings, checked, and its keys.
 *
 * A snapshot is never changed once others can see it; reload and key refresh make another and swap
 * it in the registry. Its texts are copied along the settings table, so that a setting added there
 * is never forgotten here. Secrets are among them: the arena is wiped when the last reference goes.
 */
#include "channel/registry.h"

#include <stdatomic.h>

#define OFFSET(member)        offsetof(struct account_config, member)
#define WECHAT_OFFSET(member) offsetof(struct wechat_config, member)
#define AMOUNT_MAX_FEN        99999999
#define API_URL               "https://api.mch.weixin.qq.com"
#define NOTIFY_URL_MAX        255

static const struct cfg_key wechat_table[] = {
    { "mchid", CFG_STR, WECHAT_OFFSET(mchid), .flags = CFG_MANDATORY, .help = "merchant number" },
    { "appid", CFG_STR, WECHAT_OFFSET(appid), .flags = CFG_MANDATORY,
      .help = "application bound to the merchant" },
    { "merchant_key", CFG_STR, WECHAT_OFFSET(merchant_key), .flags = CFG_MANDATORY | CFG_SECRET,
      .help = "apiclient_key.pem, as file:PATH" },
    { "merchant_cert", CFG_STR, WECHAT_OFFSET(merchant_cert), .flags = CFG_SECRET | CFG_PUBLIC,
      .help = "apiclient_cert.pem, as file:PATH; gives the serial" },
    { "merchant_serial", CFG_STR, WECHAT_OFFSET(merchant_serial),
      .help = "hex; only without merchant_cert" },
    { "apiv3_key", CFG_STR, WECHAT_OFFSET(apiv3_key), .flags = CFG_MANDATORY | CFG_SECRET,
      .help = "32 characters" },
    { "apiv3_key_previous", CFG_STR, WECHAT_OFFSET(apiv3_key_previous), .flags = CFG_SECRET,
      .help = "the one before, while it is being replaced" },
    { "public_key_id", CFG_STR, WECHAT_OFFSET(public_key_id),
      .help = "PUB_KEY_ID_…, with public_key" },
    { "public_key", CFG_STR, WECHAT_OFFSET(public_key), .flags = CFG_SECRET | CFG_PUBLIC,
      .help = "pub_key.pem, as file:PATH" },
    { "platform_certs", CFG_STR_LIST, WECHAT_OFFSET(platform_certs),
      .flags = CFG_SECRET | CFG_PUBLIC,
      .help = "platform certificates known from the start, each as file:PATH" },
    { "download_certs", CFG_BOOL, WECHAT_OFFSET(download_certs), "false",
      .help = "certificate mode: fetch and refresh platform certificates" },
    { NULL },
};

const struct cfg_key account_config_table[] = {
    { "name", CFG_STR, OFFSET(name), .flags = CFG_MANDATORY,
      .help = "a-z, 0-9 and -; stands in URLs and rows" },
    { "channel", CFG_ENUM, OFFSET(channel), "wechat", .choices = "wechat|alipay|apple",
      .help = "which channel" },
    { "environment", CFG_ENUM, OFFSET(environment), "production", .choices = "dev|test|production",
      .help = "http and private addresses are for dev only" },
    { "retired", CFG_BOOL, OFFSET(retired), "false", .flags = CFG_RELOADABLE,
      .help = "no new payments; callbacks, queries and refunds go on" },
    { "amount_max_fen", CFG_FEN, OFFSET(amount_max_fen), "99999999", .min = 1, .max = MONEY_FEN_MAX,
      .flags = CFG_RELOADABLE, .help = "largest payment" },
    { "methods", CFG_STR_LIST, OFFSET(methods), .flags = CFG_RELOADABLE,
      .help = "native, jsapi, app, h5; none: all" },
    { "api_url", CFG_STR, OFFSET(api_url), API_URL, .flags = CFG_RELOADABLE,
      .help = "where the channel answers" },
    { "notify_url", CFG_STR, OFFSET(notify_url), .flags = CFG_RELOADABLE,
      .help = "public address of our callbacks; none: made of notify.public_url and the name" },
    /* A call lease is 15 s (core/centre.c): a call that lasted longer would lose it on its way. */
    { "connect_ms", CFG_MS, OFFSET(connect_ms), "5s", .min = 100, .max = 12000,
      .flags = CFG_RELOADABLE, .help = "time to connect" },
    { "total_ms", CFG_MS, OFFSET(total_ms), "10s", .min = 500, .max = 12000,
      .flags = CFG_RELOADABLE, .help = "time for a whole call" },
    { "ca_file", CFG_STR, OFFSET(ca_file), .help = "trusted certificates; none: the system's" },
    { "wechat", CFG_SECTION, OFFSET(wechat), .section = wechat_table, .help = "WeChat Pay" },
    { NULL },
};

/* ---- checks ---- */

static enum err check_name(struct str name, struct err_info *info)
{
    if (name.n == 0 || name.n > 32 || !str_all_of(name, "abcdefghijklmnopqrstuvwxyz0123456789-"))
        return err_field(info, ERR_INVALID, "name",
                         "must have 1 to 32 characters of a-z, 0-9 and -");
    return ERR_OK;
}

static bool is_address(struct str host)
{
    return str_all_of(host, "0123456789.") || memchr(host.p, ':', host.n) || host.p[0] == '[';
}

/* A name that others can resolve: what the channel would refuse, or never reach, is said now. */
static bool is_public_name(struct str host)
{
    static const struct str private_ends[] = { STR_INIT(".local"), STR_INIT(".localhost"),
                                               STR_INIT(".internal"), STR_INIT(".lan") };
    if (host.n == 0 || is_address(host) || !memchr(host.p, '.', host.n))
        return false;
    for (size_t i = 0; i < sizeof private_ends / sizeof private_ends[0]; i++) {
        if (host.n >= private_ends[i].n &&
            str_eq_nocase(str_sub(host, host.n - private_ends[i].n, private_ends[i].n),
                          private_ends[i]))
            return false;
    }
    return true;
}

static enum err check_notify_url(struct str text, enum environment environment,
                                 struct err_info *info)
{
    struct url url;
    if (text.n == 0)
        return err_field(info, ERR_INVALID, "notify_url", "give notify.public_url or notify_url");
    if (text.n > NOTIFY_URL_MAX || url_parse(text, &url, info))
        return err_field(info, ERR_INVALID, "notify_url",
                         "must be an address of at most %d characters", NOTIFY_URL_MAX);
    if (memchr(text.p, '?', text.n) || memchr(text.p, '#', text.n))
        return err_field(info, ERR_INVALID, "notify_url",
                         "must not have a query: the channel refuses it");
    if (url.path_query.n < 2)
        return err_field(info, ERR_INVALID, "notify_url", "must have a path");
    if (environment == ENVIRONMENT_DEV)
        return ERR_OK;
    if (!str_eq_nocase(url.scheme, STR("https")))
        return err_field(info, ERR_INVALID, "notify_url", "must be https");
    if (!is_public_name(url.host))
        return err_field(info, ERR_INVALID, "notify_url", "must be a public name, no IP address");
    return ERR_OK;
}

/* Paths are signed as we build them, so the address must not add one. */
static enum err check_api_url(struct str text, enum environment environment, struct err_info *info)
{
    struct url url;
    if (url_parse(text, &url, info))
        return err_field(info, ERR_INVALID, "api_url", "not an address");
    if (url.path_query.n > 1 || str_ends(text, STR("/")))
        return err_field(info, ERR_INVALID, "api_url", "must end with the host name or port");
    if (environment == ENVIRONMENT_PRODUCTION && !str_eq_nocase(url.scheme, STR("https")))
        return err_field(info, ERR_INVALID, "api_url", "must be https");
    return ERR_OK;
}

static enum err read_methods(struct account *account, struct err_info *info)
{
    const struct channel_info *channel = account->info;
    const struct cfg_str_list *names = &account->config.methods;
    for (size_t i = 0; i < channel->method_count && names->count == 0; i++)
        account->methods |= 1u << channel->methods[i].method;
    for (size_t i = 0; i < names->count; i++) {
        const struct method_info *method = channel_method_by_name(channel, names->items[i]);
        if (!method)
            return err_field(info, ERR_INVALID, "methods", "%s has no method " STR_FMT,
                             channel->name, STR_ARG(names->items[i]));
        account->methods |= 1u << method->method;
    }
    return ERR_OK;
}

/* ---- making ---- */

static void own_texts(struct arena *a, const struct cfg_key table[], void *base)
{
    for (const struct cfg_key *key = table; key->name; key++) {
        void *field = (char *)base + key->offset;
        switch (key->type) {
        case CFG_STR: {
            struct str *s = field;
            if (s->p)
                *s = str_dup(a, *s);
            break;
        }
        case CFG_STR_LIST: {
            struct cfg_str_list *list = field;
            struct str *items = arena_array(a, list->count, sizeof items[0]);
            for (size_t i = 0; i < list->count; i++)
                items[i] = str_dup(a, list->items[i]);
            list->items = items;
            break;
        }
        case CFG_SECTION:
            own_texts(a, key->section, field);
            break;
        case CFG_INT:
        case CFG_BOOL:
        case CFG_MS:
        case CFG_BYTES:
        case CFG_FEN:
        case CFG_ENUM:
        case CFG_LIST:
            break;
        }
    }
}

static struct account *new_snapshot(const struct channel_info *info,
                                    const struct account_config *config)
{
    struct arena *a = arena_new(8192);
    arena_mark_secret(a);
    struct account *account = arena_one(a, struct account);
    account->info = info;
    account->config = *config;
    account->arena = a;
    account->generation = 1;
    own_texts(a, account_config_table, &account->config);
    atomic_init(&account->refs, 1);
    return account;
}

/* What a configuration made without the table (tests, demo) may leave out. */
static void fill_defaults(struct account *account, struct str public_notify_url)
{
    struct account_config *config = &account->config;
    if (config->api_url.n == 0)
        config->api_url = STR(API_URL);
    if (config->amount_max_fen == 0)
        config->amount_max_fen = AMOUNT_MAX_FEN;
    if (config->notify_url.n == 0 && public_notify_url.n) {
        const char *slash = str_ends(public_notify_url, STR("/")) ? "" : "/";
        config->notify_url = str_printf(account->arena, STR_FMT "%s" STR_FMT,
                                        STR_ARG(public_notify_url), slash, STR_ARG(config->name));
    }
}

static enum err check_and_open(struct account *account, struct env *env, struct err_info *info)
{
    const struct account_config *config = &account->config;
    enum environment environment = (enum environment)config->environment;
    enum err e;
    if ((e = check_name(config->name, info)) ||
        (e = check_api_url(config->api_url, environment, info)) ||
        (e = check_notify_url(config->notify_url, environment, info)) ||
        (e = read_methods(account, info)))
        return e;
    return account->info->driver->keys_open(account, env, info);
}

enum err account_open(const struct account_config *config, struct str public_notify_url,
                      struct env *env, struct account **ret, struct err_info *info)
{
    const struct channel_info *channel = channel_by_id((enum channel_id)(config->channel + 1));
    if (!channel)
        return err_field(info, ERR_INVALID, "channel", "this channel is not built in");
    struct account *account = new_snapshot(channel, config);
    fill_defaults(account, public_notify_url);
    enum err e = check_and_open(account, env, info);
    if (e) {
        arena_free(account->arena);
        return e;
    }
    *ret = account;
    return ERR_OK;
}

enum err account_renew(const struct account *old, void *keys, struct account **ret)
{
    struct account *account = new_snapshot(old->info, &old->config);
    account->methods = old->methods;
    account->keys = keys;
    account->generation = old->generation + 1;
    *ret = account;
    return ERR_OK;
}

struct account *account_ref(struct account *a)
{
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void account_unref(struct account *a)
{
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) > 1)
        return;
    a->info->driver->keys_close(a);
    arena_free(a->arena);
}
