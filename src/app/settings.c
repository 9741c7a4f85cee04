/* settings.c -- the table of settings, and the checks that need more than one of them. */
#include "app/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "channel/registry.h"
#include "crypto/secret.h"

#define AT(type, member) offsetof(struct type, member)

static const struct cfg_key store_table[] = {
    { .name = "url",
      .type = CFG_STR,
      .offset = offsetof(struct settings, store.url) - offsetof(struct settings, store),
      .fallback = "sqlite:data/fenpay.db",
      .help = "Where everything is kept: sqlite:PATH" },
    { .name = "cache",
      .type = CFG_BYTES,
      .offset = offsetof(struct settings, store.cache_bytes) - offsetof(struct settings, store),
      .fallback = "12MB",
      .min = 1 << 20,
      .max = 1 << 30,
      .help = "Page cache of the writer" },
    { .name = "wal_max",
      .type = CFG_BYTES,
      .offset = offsetof(struct settings, store.wal_bytes_max) - offsetof(struct settings, store),
      .fallback = "64MB",
      .min = 4 << 20,
      .max = 1LL << 32,
      .help = "The write-ahead log never grows beyond this; the writer then checkpoints itself" },
    { 0 },
};

/* The three listeners differ in their defaults only. */
#define LISTENER_KEYS(address, loop_count, worker_count)                                           \
    { .name = "listen",                                                                            \
      .type = CFG_STR,                                                                             \
      .offset = AT(listener_settings, listen),                                                     \
      .fallback = address,                                                                         \
      .help = "Address and port; empty switches the listener off" },                               \
        { .name = "loops",                                                                         \
          .type = CFG_INT,                                                                         \
          .offset = AT(listener_settings, loops),                                                  \
          .fallback = loop_count,                                                                  \
          .min = 1,                                                                                \
          .max = 64,                                                                               \
          .help = "Polling threads" },                                                             \
        { .name = "workers",                                                                       \
          .type = CFG_INT,                                                                         \
          .offset = AT(listener_settings, workers),                                                \
          .fallback = worker_count,                                                                \
          .min = 1,                                                                                \
          .max = 1024,                                                                             \
          .help = "Threads for requests that call a channel or wait for the store" },              \
        { .name = "connections_max",                                                               \
          .type = CFG_INT,                                                                         \
          .offset = AT(listener_settings, connections_max),                                        \
          .fallback = "2000",                                                                      \
          .min = 1,                                                                                \
          .max = 100000,                                                                           \
          .help = "When full, the connection idle longest is closed" },                            \
        { .name = "per_address_max",                                                               \
          .type = CFG_INT,                                                                         \
          .offset = AT(listener_settings, per_address_max),                                        \
          .fallback = "64",                                                                        \
          .max = 100000,                                                                           \
          .help = "Connections from one address; 0 or behind_proxy: no limit" },                   \
        { .name = "header_timeout",                                                                \
          .type = CFG_MS,                                                                          \
          .offset = AT(listener_settings, header_ms),                                              \
          .fallback = "5s",                                                                        \
          .help = "Until the headers are complete" },                                              \
        { .name = "body_timeout",                                                                  \
          .type = CFG_MS,                                                                          \
          .offset = AT(listener_settings, body_ms),                                                \
          .fallback = "10s",                                                                       \
          .help = "Until the body is complete; from a quarter of it on it must come at 1 KB/s" },  \
        { .name = "idle_timeout",                                                                  \
          .type = CFG_MS,                                                                          \
          .offset = AT(listener_settings, idle_ms),                                                \
          .fallback = "30s",                                                                       \
          .help = "A kept connection without a request" },                                         \
        { .name = "behind_proxy",                                                                  \
          .type = CFG_BOOL,                                                                        \
          .offset = AT(listener_settings, behind_proxy),                                           \
          .fallback = "false",                                                                     \
          .help = "A TLS proxy stands in front: plain HTTP on a public address is meant" },        \
        { .name = "tls_cert",                                                                      \
          .type = CFG_STR,                                                                         \
          .offset = AT(listener_settings, tls_cert),                                               \
          .flags = CFG_SECRET | CFG_PUBLIC,                                                        \
          .help = "Certificate chain, PEM, usually file:" },                                       \
    {                                                                                              \
        .name = "tls_key", .type = CFG_STR, .offset = AT(listener_settings, tls_key),              \
        .flags = CFG_SECRET, .help = "Its private key"                                             \
    }

static const struct cfg_key api_table[] = { LISTENER_KEYS("127.0.0.1:8080", "2", "32"), { 0 } };
static const struct cfg_key ops_table[] = { LISTENER_KEYS("127.0.0.1:9090", "1", "2"), { 0 } };
static const struct cfg_key notify_table[] = {
    LISTENER_KEYS("127.0.0.1:8443", "2", "1"),
    { .name = "public_url",
      .type = CFG_STR,
      .offset = AT(listener_settings, public_url),
      .help = "What channels call, without the account's name: https://pay.example.com/notify" },
    { 0 },
};

#define IN(section, member)                                                                        \
    offsetof(struct settings, section.member) - offsetof(struct settings, section)

static const struct cfg_key log_table[] = {
    { .name = "level",
      .type = CFG_ENUM,
      .offset = IN(log, level),
      .choices = "debug|info|warn|error",
      .fallback = "info",
      .flags = CFG_RELOADABLE,
      .help = "The least level that is written" },
    { .name = "json",
      .type = CFG_BOOL,
      .offset = IN(log, json),
      .fallback = "true",
      .help = "JSON lines; else text for people" },
    { 0 },
};
static const struct cfg_key payment_table[] = {
    { .name = "expire",
      .type = CFG_MS,
      .offset = IN(payment, expire_ms),
      .fallback = "15m",
      .min = 60000,
      .max = 604800000,
      .help = "How long one attempt can be paid" },
    { .name = "expiring",
      .type = CFG_MS,
      .offset = IN(payment, expiring_ms),
      .fallback = "90s",
      .min = 60000,
      .max = 3600000,
      .help = "An order with less time left starts no attempt" },
    { .name = "query_stuck",
      .type = CFG_MS,
      .offset = IN(payment, query_stuck_ms),
      .fallback = "30m",
      .help = "Past expiry without an answer: an incident for a person" },
    { .name = "amount_max",
      .type = CFG_FEN,
      .offset = IN(payment, amount_max_fen),
      .fallback = "99999999",
      .min = 1,
      .max = MONEY_FEN_MAX,
      .help = "Largest order, in fen" },
    { 0 },
};
static const struct cfg_key incident_table[] = {
    { .name = "paid_after_close",
      .type = CFG_ENUM,
      .offset = IN(incident, paid_after_close),
      .choices = "refund|hold|revive",
      .fallback = "refund",
      .help = "Money for a cancelled order: goes back, waits for a person, or pays the order after "
              "all" },
    { .name = "paid_twice",
      .type = CFG_ENUM,
      .offset = IN(incident, paid_twice),
      .choices = "refund|hold",
      .fallback = "refund",
      .help = "Money for an order that has been paid already: goes back, or waits for a person" },
    { .name = "auto_refund_max_count",
      .type = CFG_INT,
      .offset = IN(incident, auto_refund_max_count),
      .fallback = "100",
      .max = 1000000,
      .help = "More within an hour and account wait for a person; 0: no limit" },
    { .name = "auto_refund_max_fen",
      .type = CFG_FEN,
      .offset = IN(incident, auto_refund_max_fen),
      .fallback = "5000000",
      .max = MONEY_FEN_MAX,
      .help = "The same for their sum, in fen; 0: no limit" },
    { .name = "second_person",
      .type = CFG_FEN,
      .offset = IN(incident, second_person_fen),
      .fallback = "1000000",
      .max = MONEY_FEN_MAX,
      .help = "Acts about more money, in fen, need two persons; 0: never" },
    { 0 },
};
static const struct cfg_key webhook_table[] = {
    { .name = "workers",
      .type = CFG_INT,
      .offset = IN(webhook, workers),
      .fallback = "4",
      .min = 1,
      .max = 256,
      .help = "Deliveries at a time" },
    { .name = "private_addresses",
      .type = CFG_BOOL,
      .offset = IN(webhook, private_addresses),
      .fallback = "false",
      .help = "Allow webhooks to loopback and private networks" },
    { 0 },
};
static const struct cfg_key limits_table[] = {
    { .name = "rate_per_s",
      .type = CFG_INT,
      .offset = IN(limits, rate_per_s),
      .fallback = "1000",
      .min = 1,
      .max = 10000000,
      .help = "Requests a second and caller; reads are counted a tenth" },
    { .name = "rate_burst",
      .type = CFG_INT,
      .offset = IN(limits, rate_burst),
      .fallback = "2000",
      .min = 1,
      .max = 10000000,
      .help = "How many may come at once" },
    { 0 },
};
static const struct cfg_key job_table[] = {
    { .name = "workers",
      .type = CFG_INT,
      .offset = IN(job, workers),
      .fallback = "4",
      .min = 1,
      .max = 64,
      .help = "Jobs running at a time" },
    { 0 },
};

#define SECTION(section_name, table, help_text)                                                    \
    {                                                                                              \
        .name = #section_name, .type = CFG_SECTION,                                                \
        .offset = offsetof(struct settings, section_name), .section = table, .help = help_text     \
    }

const struct cfg_key settings_table[] = {
    { .name = "environment",
      .type = CFG_ENUM,
      .offset = AT(settings, environment),
      .choices = "dev|test|production",
      .flags = CFG_MANDATORY,
      .help = "Stamped on every payment; an account of another environment is refused" },
    { .name = "name",
      .type = CFG_STR,
      .offset = AT(settings, name),
      .fallback = "fenpay",
      .help = "Name of this installation: the source of its events" },
    { .name = "master_key",
      .type = CFG_STR,
      .offset = AT(settings, master_key),
      .flags = CFG_MANDATORY | CFG_SECRET,
      .help = "64 hex digits (fenpay secret new); encrypts secrets in the database" },
    SECTION(store, store_table, "The database"),
    SECTION(api, api_table, "Listener of the merchant API"),
    SECTION(notify, notify_table, "Listener of the channels' callbacks"),
    SECTION(ops, ops_table, "Listener of /healthz, /readyz, /metrics"),
    SECTION(log, log_table, "The log, on standard error"),
    SECTION(payment, payment_table, "Payments"),
    SECTION(incident, incident_table, "What needs policy or a person"),
    SECTION(webhook, webhook_table, "Outgoing webhooks"),
    SECTION(limits, limits_table, "Limits of callers"),
    SECTION(job, job_table, "Background jobs"),
    { .name = "accounts",
      .type = CFG_LIST,
      .offset = AT(settings, accounts),
      .section = account_config_table,
      .element_size = sizeof(struct account_config),
      .flags = CFG_RELOADABLE,
      .help = "Channel accounts; the order is the order of routing" },
    { 0 },
};

/* What is wrong with the settings, with its place in the file. */
static enum err blame(const struct settings *s, const char *prefix, enum err e,
                      struct err_info *info)
{
    cfg_blame(&s->marks, prefix, info);
    return e;
}

static enum err check_listener(const struct settings *s, const char *name,
                               const struct listener_settings *l, struct err_info *info)
{
    struct str rest = l->listen;
    bool loopback = str_starts(rest, STR("127.")) || str_starts(rest, STR("[::1]")) ||
                    str_starts(rest, STR("localhost:"));
    if (l->listen.n && !loopback && !l->tls_cert.n && !l->behind_proxy)
        return blame(s, name,
                     err_field(info, ERR_INVALID, "listen",
                               STR_FMT " is not loopback: give tls_cert and tls_key, or say "
                                       "behind_proxy: true",
                               STR_ARG(l->listen)),
                     info);
    if (!l->tls_cert.n != !l->tls_key.n)
        return blame(s, name,
                     err_field(info, ERR_INVALID, l->tls_cert.n ? "tls_key" : "tls_cert",
                               "tls_cert and tls_key belong together"),
                     info);
    return ERR_OK;
}

static enum err blame_account(const struct settings *s, size_t i, enum err e, struct err_info *info)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "accounts[%zu]", i);
    return blame(s, prefix, e, info);
}

static enum err check_accounts(const struct settings *s, struct err_info *info)
{
    const struct account_config *accounts = s->accounts.items;
    for (size_t i = 0; i < s->accounts.count; i++) {
        if (accounts[i].environment != s->environment)
            return blame_account(s, i,
                                 err_field(info, ERR_INVALID, "environment",
                                           "account " STR_FMT
                                           " is of another environment than the process: test "
                                           "money must never meet the books",
                                           STR_ARG(accounts[i].name)),
                                 info);
        for (size_t j = 0; j < i; j++)
            if (str_eq(accounts[i].name, accounts[j].name))
                return blame_account(s, i,
                                     err_field(info, ERR_INVALID, "name",
                                               "two accounts are named " STR_FMT,
                                               STR_ARG(accounts[i].name)),
                                     info);
    }
    return ERR_OK;
}

static enum err check_master_key(struct arena *a, const struct settings *s, struct err_info *info)
{
    struct str raw;
    if (s->master_key.n != 64 || str_unhex(a, s->master_key, &raw))
        return blame(s, "",
                     err_field(info, ERR_INVALID, "master_key",
                               "64 hex digits are wanted (make one with fenpay secret new)"),
                     info);
    return ERR_OK;
}

/* enc: values name no key of their own: the master key of the environment FENPAY_MASTER_KEY opens
 * them. */
static enum err decrypt_value(void *ctx, struct arena *a, struct str enc, struct str *ret,
                              struct err_info *info)
{
    (void)ctx;
    struct str raw;
    struct str hex = str_of(getenv("FENPAY_MASTER_KEY"));
    if (hex.n != 64 || str_unhex(a, hex, &raw))
        return err_set(info, ERR_INVALID,
                       "an enc: value needs the master key in FENPAY_MASTER_KEY");
    return secret_decrypt(raw, STR("config"), enc, a, ret, info);
}

enum err settings_parse(struct arena *a, struct str name, struct str text, struct str base_dir,
                        struct settings *ret, struct err_info *info)
{
    struct cfg_marks marks;
    struct cfg_source source = {
        .name = name, .text = text, .base_dir = base_dir, .decrypt = decrypt_value, .marks = &marks
    };
    struct settings s;
    enum err e;

    if ((e = cfg_read(a, &source, settings_table, &s, sizeof s, info)))
        return e;
    s.marks = marks;
    if ((e = check_listener(&s, "api", &s.api, info)) ||
        (e = check_listener(&s, "notify", &s.notify, info)) ||
        (e = check_listener(&s, "ops", &s.ops, info)) || (e = check_accounts(&s, info)) ||
        (e = check_master_key(a, &s, info)))
        return e;
    *ret = s;
    return ERR_OK;
}

enum err settings_read(struct arena *a, const char *path, struct settings *ret,
                       struct err_info *info)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(info, ERR_NOT_FOUND, "%s: cannot be read (%m)", path);
    BUF_AUTO text = { 0 };
    buf_init(&text, 1 << 20);
    char piece[4096];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        buf_add(&text, piece, n);
    fclose(f);
    if (!buf_ok(&text))
        return err_set(info, ERR_LIMIT, "%s: larger than 1 MB", path);

    struct str dir = str_of(path);
    const char *slash = strrchr(path, '/');
    dir = slash ? str_sub(dir, 0, (size_t)(slash - path)) : STR(".");
    return settings_parse(a, str_of(path), str_dup(a, buf_str(&text)), dir, ret, info);
}

enum err settings_account_open(const struct settings *s, size_t i, struct env *env,
                               struct account **ret, struct err_info *info)
{
    const struct account_config *config = (const struct account_config *)s->accounts.items + i;
    struct err_info why = { 0 };
    enum err e = account_open(config, s->notify.public_url, env, ret, &why);
    if (!e)
        return ERR_OK;
    bool made = !config->notify_url.n && s->notify.public_url.n &&
                str_eq(str_of(why.field), STR("notify_url"));
    if (made) {
        struct err_info text = why;
        err_fill(&why, e, "public_url", "the callback address made of it %s", text.text);
        blame(s, "notify", e, &why);
    } else
        blame_account(s, i, e, &why);
    if (info)
        *info = why;
    return e;
}

bool settings_open_secret(const struct settings *s, struct arena *a, size_t *at, struct str *ret)
{
    while (*at < s->marks.count) {
        const struct cfg_mark *m = &s->marks.items[(*at)++];
        if (!m->open_mode)
            continue;
        *ret = str_printf(a, STR_FMT ":%zu: " STR_FMT, STR_ARG(s->marks.name), m->line,
                          STR_ARG(m->path));
        return true;
    }
    return false;
}

struct str settings_database_path(const struct settings *s)
{
    struct str path = s->store.url, scheme = str_cut(&path, ':');
    return str_eq(scheme, STR("sqlite")) ? path : STR_NONE;
}

enum err settings_make_folder(const struct settings *s, struct err_info *info)
{
    ARENA_AUTO a = arena_new(1024);
    struct str path = settings_database_path(s);
    for (size_t i = 1; i < path.n; i++) {
        if (path.p[i] != '/')
            continue;
        const char *folder = str_cstr(a, str_sub(path, 0, i));
        if (mkdir(folder, 0700) && errno != EEXIST)
            return blame(
                s, "store",
                err_field(info, ERR_IO, "url", "the folder %s cannot be made (%m)", folder), info);
    }
    return ERR_OK;
}
