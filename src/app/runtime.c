/* runtime.c -- one running payment centre put together and taken apart. The order matters in both
 * directions: what is opened later may use what was opened before it. */
#include "app/runtime.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/gauges.h"
#include "base/metrics.h"
#include "consumer/consumer.h"
#include "core/account_contract/account_contract.h"
#include "core/channel_key/channel_key.h"

static enum err open_settings(struct runtime *r, const struct runtime_options *o,
                              struct err_info *info)
{
    if (o->settings)
        r->settings = *o->settings;
    else {
        enum err e = settings_read(r->arena, o->config_path, &r->settings, info);
        if (e)
            return e;
    }
    return str_unhex(r->arena, r->settings.master_key, &r->master_key)
               ? err_internal(info, "master key")
               : ERR_OK;
}

static void open_env(struct runtime *r, struct env *given)
{
    r->metrics = metrics_new(metrics_table, metrics_table_count);
    if (given) {
        r->env = given;
        r->log = NULL;
    } else {
        bool quiet = r->roles == 0; /* a command: people read its output, not our log */
        r->log = log_new(STDERR_FILENO, quiet ? LOG_ERROR : (enum log_level)r->settings.log.level,
                         r->settings.log.json);
        env_init_real(&r->own_env, r->log, r->metrics);
        r->env = &r->own_env;
    }
    r->env->metrics = r->metrics;
    log_secret(r->env->log, r->settings.master_key);
}

enum err runtime_store_open(const struct settings *s, const struct store_options *o,
                            struct store **ret, struct err_info *info)
{
    ARENA_AUTO a = arena_new(1024);
    struct str path = settings_database_path(s);
    if (path.n && !o->vfs && access(str_cstr(a, path), F_OK) && errno == ENOENT)
        return err_set(info, ERR_CONFLICT, "run fenpay migrate: there is no " STR_FMT " yet",
                       STR_ARG(path));
    struct err_info why = { 0 };
    enum err e = store_open(o, ret, &why);
    if (e && why.field[0])
        cfg_blame(&s->marks, "store", &why);
    if (e && info)
        *info = why;
    return e;
}

static enum err open_store(struct runtime *r, const struct runtime_options *o,
                           struct err_info *info)
{
    struct store_options so = {
        .url = r->settings.store.url,
        .env = r->env,
        .second_writer = o->second_writer,
        .vfs = o->store_vfs,
        .cache_bytes = r->settings.store.cache_bytes,
        .wal_bytes_max = r->settings.store.wal_bytes_max,
    };
    enum err e;
    int applied;
    if (o->migrate && ((e = settings_make_folder(&r->settings, info)) ||
                       (e = store_migrate(&so, &applied, info))))
        return e;
    if ((e = runtime_store_open(&r->settings, &so, &r->store, info)))
        return e;

    char host[64] = "";
    gethostname(host, sizeof host - 1);
    struct str owner = str_printf(r->arena, "%s:%d", host, (int)getpid());
    if ((e = node_lease_take(r->store, r->env, owner, &r->node, r->arena, info)))
        return e;
    r->has_node = true;
    r->mint = mint_new(r->env, r->node.node);
    return ERR_OK;
}

/* Secrets that must never be printed, whole or in part of another text. */
static void register_secrets(struct runtime *r, const struct account_config *c)
{
    const struct str secrets[] = { c->wechat.apiv3_key, c->wechat.apiv3_key_previous,
                                   c->wechat.merchant_key };
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (secrets[i].n >= 8)
            log_secret(r->env->log, secrets[i]);
}

static enum err open_accounts(struct runtime *r, const struct settings *s, struct registry *into,
                              struct err_info *info)
{
    const struct account_config *configs = s->accounts.items;
    for (size_t i = 0; i < s->accounts.count; i++) {
        struct account *account;
        register_secrets(r, &configs[i]);
        enum err e = settings_account_open(s, i, r->env, &account, info);
        if (e)
            return e;
        if ((e = channel_keys_load(r->store, r->env, &account, info))) {
            account_unref(account);
            return e;
        }
        registry_put(into, account);
    }
    return ERR_OK;
}

static void want_keys(void *ctx, struct account *account)
{
    struct runtime *r = ctx;
    if (r->scheduler)
        scheduler_want_keys(r->scheduler, account);
}

static void open_centre(struct runtime *r)
{
    uint64_t random;
    env_random(r->env, &random, sizeof random);
    r->centre = (struct centre) {
        .env = r->env,
        .store = r->store,
        .mint = r->mint,
        .registry = r->registry,
        .transport = r->transport,
        .process_id = (int64_t)(random >> 2 | 1),
        .want_keys = want_keys,
        .want_keys_ctx = r,
    };
    struct centre_settings *cs = &r->centre.settings;
    centre_settings_defaults(cs);
    cs->environment = (enum environment)r->settings.environment;
    cs->payment_expire_ms = r->settings.payment.expire_ms;
    cs->expiring_ms = r->settings.payment.expiring_ms;
    cs->query_stuck_ms = r->settings.payment.query_stuck_ms;
    cs->order_amount_max_fen = r->settings.payment.amount_max_fen;
    static const enum incident_policy policies[] = { POLICY_REFUND, POLICY_HOLD, POLICY_REVIVE };
    cs->paid_after_close = policies[r->settings.incident.paid_after_close];
    cs->paid_twice = policies[r->settings.incident.paid_twice];
    cs->auto_refund_max_count = r->settings.incident.auto_refund_max_count;
    cs->auto_refund_max_fen = r->settings.incident.auto_refund_max_fen;
    cs->second_person_fen = r->settings.incident.second_person_fen;
}

static enum err flush_rejects(void *notify, struct err_info *info)
{
    return notify_flush_rejects(notify, info);
}

static enum err open_services(struct runtime *r, struct err_info *info)
{
    const struct consumer consumers[] = { order_consumer(&r->centre) };
    struct bus_options bo = {
        .env = r->env,
        .store = r->store,
        .mint = r->mint,
        .transport = r->transport,
        .consumers = consumers,
        .consumer_count = r->roles & ROLE_CONSUMER ? 1 : 0,
        .on_dead = consumer_on_dead,
        .source = r->settings.name,
        .master_key = r->master_key,
        .webhook_private = r->settings.webhook.private_addresses,
        .webhook_workers = (unsigned)r->settings.webhook.workers,
    };
    r->bus = bus_new(&bo);
    r->notify = notify_new(&r->centre, r->settings.notify.behind_proxy);
    r->job_context = (struct job_context) {
        .centre = &r->centre,
        .bus = r->bus,
        .node = &r->node,
        .flush_rejects = flush_rejects,
        .flush_rejects_ctx = r->notify,
    };
    r->scheduler = scheduler_new(&r->job_context, (unsigned)r->settings.job.workers);

    struct api_options ao = {
        .centre = &r->centre,
        .bus = r->bus,
        .source = r->settings.name,
        .master_key = r->master_key,
        .rate_per_s = r->settings.limits.rate_per_s,
        .rate_burst = r->settings.limits.rate_burst,
        .webhook_private = r->settings.webhook.private_addresses,
    };
    return api_new(&ao, &r->api, info);
}

enum err runtime_open(const struct runtime_options *o, struct runtime **ret, struct err_info *info)
{
    struct runtime *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->arena = arena_new(16384);
    r->roles = o->roles;
    r->manual = o->manual;

    enum err e = open_settings(r, o, info);
    if (!e) {
        open_env(r, o->env);
        e = open_store(r, o, info);
    }
    if (!e) {
        r->registry = registry_new();
        e = open_accounts(r, &r->settings, r->registry, info);
    }
    if (!e && r->roles) /* a command may look at what a server must not run with */
        e = account_contracts_keep(r->store, r->env, r->registry, false, info);
    if (!e && !o->transport && !(r->own_transport = client_new(info)))
        e = ERR_INTERNAL;
    if (!e) {
        r->transport = o->transport ? o->transport : r->own_transport;
        open_centre(r);
        e = open_services(r, info);
    }
    if (e) {
        runtime_close(r);
        return e;
    }
    *ret = r;
    return ERR_OK;
}

/* On the store's thread, once per batch. */
static void on_wake(void *ctx, const struct store_waked *wakes, size_t n)
{
    struct runtime *r = ctx;
    bus_wake(r->bus);
    api_wake(r->api, wakes, n);
}

static enum err listen(struct runtime *r, const char *name, const struct listener_settings *l,
                       const struct http_route *routes, void *service, bool admit,
                       struct http_server **ret, struct err_info *info)
{
    if (!l->listen.n)
        return ERR_OK;
    struct http_server_options options = {
        .name = name,
        .listen = l->listen,
        .loops = (unsigned)l->loops,
        .workers = (unsigned)l->workers,
        .connections_max = (unsigned)l->connections_max,
        .per_address_max = l->behind_proxy ? 0 : (unsigned)l->per_address_max,
        .header_ms = l->header_ms,
        .body_ms = l->body_ms,
        .idle_ms = l->idle_ms,
        .tls_cert_pem = l->tls_cert,
        .tls_key_pem = l->tls_key,
        .routes = routes,
        .service = service,
    };
    if (admit) {
        options.admit = api_admit;
        options.refuse = api_refuse;
        options.turn_begin = api_turn_begin;
        options.turn_end = api_turn_end;
    }
    struct err_info why = { 0 };
    enum err e = http_server_start(r->env, &options, ret, &why);
    if (e && why.field[0])
        cfg_blame(&r->settings.marks, name, &why);
    if (e && info)
        *info = why;
    return e;
}

/* The file of the database: where free space matters. */
static const char *database_path(struct runtime *r)
{
    struct str path = settings_database_path(&r->settings);
    return path.n ? str_cstr(r->arena, path) : NULL;
}

enum err runtime_start(struct runtime *r, struct err_info *info)
{
    /* Thousands of connections, and nothing gained by a lower limit. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    metrics_on_scrape(r->metrics, gauges_update, r);
    metrics_watch_process(r->metrics, database_path(r));
    store_set_wake(r->store, on_wake, r);

    enum err e = ERR_OK;
    if (!r->manual && (r->roles & (ROLE_RELAY | ROLE_CONSUMER)))
        e = bus_start(r->bus, info);
    if (!e && !r->manual && (r->roles & ROLE_JOB))
        e = scheduler_start(r->scheduler, info);
    if (!e && (r->roles & ROLE_NOTIFY))
        e = listen(r, "notify", &r->settings.notify, notify_routes, r->notify, false,
                   &r->notify_server, info);
    if (!e && (r->roles & ROLE_API))
        e = listen(r, "api", &r->settings.api, api_routes, r->api, true, &r->api_server, info);
    if (!e)
        e = listen(r, "ops", &r->settings.ops, ops_routes, r->api, true, &r->ops_server, info);
    return e;
}

/* What the file says now and this process goes on without: the keys that no reload takes over, and
 * accounts that are gone from it. */
static void print_not_taken(struct runtime *r, const struct settings *fresh, struct buf *out)
{
    struct account *account;
    cfg_print_fixed_changes(settings_table, &r->settings, fresh, out);
    for (size_t i = 0; (account = registry_at(r->registry, i)); i++) {
        const struct account_config *configs = fresh->accounts.items;
        bool there = false;
        for (size_t j = 0; j < fresh->accounts.count; j++)
            there = there || str_eq(configs[j].name, account->config.name);
        if (!there)
            buf_printf(out, "%saccounts[" STR_FMT "]", out->n ? ", " : "",
                       STR_ARG(account->config.name));
        account_unref(account);
    }
}

enum err runtime_reload(struct runtime *r, const char *config_path, struct err_info *info)
{
    struct settings fresh;
    ARENA_AUTO a = arena_new(16384); /* accounts own their texts, the log its secrets */
    arena_mark_secret(a);
    struct registry *check = registry_new(); /* everything must open before anything is swapped */
    enum err e = settings_read(a, config_path, &fresh, info);
    if (!e)
        e = open_accounts(r, &fresh, check, info);
    if (!e)
        e = account_contracts_keep(r->store, r->env, check, true, info);
    if (!e) {
        struct account *account;
        for (size_t i = 0; (account = registry_at(check, i)); i++) {
            registry_put(r->registry, account_ref(account));
            registry_suspend(r->registry, account->config.name, 0); /* it may have been mended */
            account_unref(account);
        }
        log_set_level(r->env->log, (enum log_level)fresh.log.level);
        BUF_AUTO keys = { 0 };
        buf_init(&keys, 4096);
        print_not_taken(r, &fresh, &keys);
        if (keys.n)
            LOG(r->env->log, LOG_WARN, "serve.needs_restart", log_str("keys", buf_str(&keys)));
    }
    registry_free(check);
    return e;
}

void runtime_close(struct runtime *r)
{
    struct http_server *servers[] = { r->notify_server, r->api_server, r->ops_server };
    for (size_t i = 0; i < 3; i++)
        if (servers[i])
            http_server_quiesce(servers[i]);
    if (r->api)
        api_release_waiters(r->api);
    if (r->scheduler)
        scheduler_stop(r->scheduler);
    if (r->bus)
        bus_stop(r->bus);
    if (r->has_node)
        node_lease_release(r->store, r->env, &r->node, NULL);
    if (r->store)
        store_drain(r->store);
    for (size_t i = 0; i < 3; i++)
        if (servers[i])
            http_server_stop(servers[i], 5000);
    if (r->api)
        api_free(r->api);
    if (r->notify)
        notify_free(r->notify);
    if (r->scheduler)
        scheduler_free(r->scheduler);
    if (r->bus)
        bus_free(r->bus);
    if (r->store)
        store_close(r->store);
    if (r->mint)
        mint_free(r->mint);
    if (r->registry)
        registry_free(r->registry);
    if (r->own_transport)
        client_free(r->own_transport);
    if (r->log)
        log_free(r->log);
    if (r->metrics)
        metrics_free(r->metrics);
    arena_free(r->arena);
    free(r);
}

/* Who logged in, also behind sudo; the kernel's word, not the environment's: above an amount two
 * persons have to be two. */
static uid_t login_uid(void)
{
    unsigned uid;
    FILE *f = fopen("/proc/self/loginuid", "re");
    bool known = f && fscanf(f, "%u", &uid) == 1 && uid != (unsigned)-1;
    if (f)
        fclose(f);
    return known ? (uid_t)uid : getuid();
}

void runtime_operator(struct runtime *r, struct arena *a, struct act *ret)
{
    (void)r;
    struct passwd entry, *found = NULL;
    char texts[1024];
    uid_t uid = login_uid();
    if (getpwuid_r(uid, &entry, texts, sizeof texts, &found))
        found = NULL;
    struct str name = found ? str_dup(a, str_of(found->pw_name)) : str_printf(a, "uid %u", uid);
    *ret = (struct act) {
        .actor = str_printf(a, "operator:" STR_FMT, STR_ARG(str_sub(name, 0, 48))),
        .trace_id = STR_NONE,
        .arena = a,
    };
}
