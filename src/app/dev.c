/* dev.c -- a complete site made from nothing. Everything made here is for trying out: keys lie
 * unprotected under one folder. */
#include "app/dev.h"

#include "app/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crypto/x509.h"

#define YEAR_MS (365LL * 86400 * 1000)

static enum err write_file(const char *path, struct str text, struct err_info *info)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(info, ERR_IO, "%s: cannot be made (%m)", path);
    bool fine = write(fd, text.p, text.n) == (ssize_t)text.n;
    fine = close(fd) == 0 && fine;
    return fine ? ERR_OK : err_set(info, ERR_IO, "%s: cannot be written (%m)", path);
}

static enum err read_file(const char *path, struct arena *a, struct str *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    char *text = arena_alloc(a, 16384);
    ssize_t n = read(fd, text, 16384);
    close(fd);
    if (n <= 0 || n == 16384)
        return ERR_IO;
    *ret = (struct str) { text, (size_t)n };
    return ERR_OK;
}

struct maker {
    const char *dir;
    struct env *env;
    struct arena *arena;
    struct err_info *info;
};

typedef enum err make_text(struct maker *m, struct str *ret);

/* The file's text, making it first when it is not there. */
static enum err kept(struct maker *m, const char *name, make_text *make, struct str *ret)
{
    const char *path = str_cstr(m->arena, str_printf(m->arena, "%s/%s", m->dir, name));
    enum err e = read_file(path, m->arena, ret);
    if (e != ERR_NOT_FOUND)
        return e ? err_set(m->info, e, "%s: cannot be read", path) : ERR_OK;
    if ((e = make(m, ret)))
        return e;
    return write_file(path, *ret, m->info);
}

static enum err make_rsa(struct maker *m, struct str *ret)
{
    struct rsa_key *key;
    enum err e = rsa_generate(2048, &key, m->info);
    if (e)
        return e;
    *ret = rsa_private_pem(m->arena, key);
    rsa_unref(key);
    return ERR_OK;
}

static enum err make_hex32(struct maker *m, struct str *ret)
{
    char bytes[32];
    env_random(m->env, bytes, sizeof bytes);
    *ret = str_hex(m->arena, bytes, sizeof bytes);
    return ERR_OK;
}

static enum err make_apiv3(struct maker *m, struct str *ret)
{
    enum err e = make_hex32(m, ret);
    ret->n = 32; /* an APIv3 key is 32 characters */
    return e;
}

static enum err make_certificate(struct maker *m, struct str key_pem, const char *name,
                                 struct str *ret)
{
    struct rsa_key *key;
    enum err e = rsa_private_from_pem(key_pem, &key, m->info);
    if (e)
        return e;
    uint8_t bytes[20];
    BUF_AUTO serial = { 0 };
    env_random(m->env, bytes, sizeof bytes);
    bytes[0] = (uint8_t)((bytes[0] & 0x3f) | 0x40); /* 40 digits, and positive */
    buf_init(&serial, 64);
    for (size_t i = 0; i < sizeof bytes; i++)
        buf_printf(&serial, "%02X", bytes[i]);
    int64_t now = env_now_ms(m->env);
    e = certificate_make(key, str_of(name), buf_str(&serial), now - 86400000, now + 5 * YEAR_MS,
                         m->arena, ret, m->info);
    rsa_unref(key);
    return e;
}

static enum err kept_certificate(struct maker *m, const char *file, struct str key_pem,
                                 const char *name, struct str *ret)
{
    const char *path = str_cstr(m->arena, str_printf(m->arena, "%s/%s", m->dir, file));
    enum err e = read_file(path, m->arena, ret);
    if (e != ERR_NOT_FOUND)
        return e ? err_set(m->info, e, "%s: cannot be read", path) : ERR_OK;
    if ((e = make_certificate(m, key_pem, name, ret)))
        return e;
    return write_file(path, *ret, m->info);
}

struct dev_keys {
    struct str master, merchant_key, merchant_cert, platform_key, platform_cert, apiv3;
};

static enum err make_keys(struct maker *m, struct dev_keys *k)
{
    enum err e;
    if ((mkdir(m->dir, 0700) && errno != EEXIST))
        return err_set(m->info, ERR_IO, "%s: cannot be made (%m)", m->dir);
    if ((e = kept(m, "master.key", make_hex32, &k->master)) ||
        (e = kept(m, "merchant.key.pem", make_rsa, &k->merchant_key)) ||
        (e = kept_certificate(m, "merchant.cert.pem", k->merchant_key, "Fenpay dev merchant",
                              &k->merchant_cert)) ||
        (e = kept(m, "platform.key.pem", make_rsa, &k->platform_key)) ||
        (e = kept_certificate(m, "platform.cert.pem", k->platform_key, "Fenpay sandbox platform",
                              &k->platform_cert)))
        return e;
    return kept(m, "apiv3.key", make_apiv3, &k->apiv3);
}

static void fill_account(const struct dev_keys *k, struct str sandbox_url, struct arena *a,
                         struct account_config *ret)
{
    struct str *certs = arena_one(a, struct str);
    *certs = k->platform_cert;
    *ret = (struct account_config) {
        .name = STR(DEV_ACCOUNT),
        .environment = ENVIRONMENT_DEV,
        .amount_max_fen = 99999999,
        .api_url = sandbox_url,
        .connect_ms = 5000,
        .total_ms = 10000,
        .wechat = { .mchid = STR(DEV_MCHID),
                    .appid = STR(DEV_APPID),
                    .merchant_key = k->merchant_key,
                    .merchant_cert = k->merchant_cert,
                    .apiv3_key = k->apiv3,
                    .platform_certs = { certs, 1 },
                    .download_certs = true },
    };
}

enum err dev_site_make(const char *dir, struct str sandbox_url, struct str notify_base,
                       struct env *env, struct arena *a, struct dev_site *ret,
                       struct err_info *info)
{
    struct maker m = { .dir = dir, .env = env, .arena = a, .info = info };
    struct dev_keys k;
    enum err e = make_keys(&m, &k);
    if (e)
        return e;

    struct account_config *account = arena_one(a, struct account_config);
    struct settings s;
    struct certificate merchant = { 0 }, platform = { 0 };
    fill_account(&k, sandbox_url, a, account);
    if ((e = cfg_defaults(a, settings_table, &s, sizeof s, info)) ||
        (e = certificate_from_pem(k.merchant_cert, a, &merchant, info)) ||
        (e = certificate_from_pem(k.platform_cert, a, &platform, info)))
        return e;
    s.environment = ENVIRONMENT_DEV;
    s.name = STR("fenpay-dev");
    s.master_key = k.master;
    s.store.url = str_printf(a, "sqlite:%s/fenpay.db", dir);
    s.notify.public_url = notify_base;
    s.webhook.private_addresses = true;
    s.log.json = false;
    s.accounts = (struct cfg_list) { account, 1 };

    *ret = (struct dev_site) {
        .arena = a,
        .settings = s,
        .wechat = { .mchid = STR(DEV_MCHID),
                    .appid = STR(DEV_APPID),
                    .merchant_public_pem = rsa_public_pem(a, merchant.key),
                    .merchant_serial = merchant.serial,
                    .apiv3_key = k.apiv3,
                    .platform_key_pem = k.platform_key,
                    .platform_cert_pem = k.platform_cert,
                    .platform_serial = platform.serial },
    };
    certificate_done(&merchant);
    certificate_done(&platform);
    return ERR_OK;
}

static void write_listener(FILE *f, const char *name, const struct listener_settings *l)
{
    fprintf(f, "%s:\n  listen: '" STR_FMT "'\n  per_address_max: %lld\n", name, STR_ARG(l->listen),
            (long long)l->per_address_max);
    if (l->public_url.n)
        fprintf(f, "  public_url: '" STR_FMT "'\n", STR_ARG(l->public_url));
}

static void write_account(FILE *f, const struct account_config *c, const char *keys)
{
    fprintf(f,
            "  - name: " STR_FMT
            "\n    channel: wechat\n    environment: dev\n    api_url: '" STR_FMT
            "'\n    wechat:\n      mchid: '" STR_FMT "'\n      appid: " STR_FMT
            "\n      merchant_key: file:%s/merchant.key.pem\n      merchant_cert: "
            "file:%s/merchant.cert.pem\n      apiv3_key: file:%s/apiv3.key\n"
            "      platform_certs: [ 'file:%s/platform.cert.pem' ]\n      download_certs: true\n",
            STR_ARG(c->name), STR_ARG(c->api_url), STR_ARG(c->wechat.mchid),
            STR_ARG(c->wechat.appid), keys, keys, keys, keys);
}

enum err dev_write_config(const struct settings *s, const char *keys_dir, const char *path,
                          struct err_info *info)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return err_set(info, ERR_IO, "%s: cannot be written (%m)", path);
    char full[4096];
    const char *keys = realpath(keys_dir, full) ? full : keys_dir;
    fprintf(f,
            "environment: dev\nname: " STR_FMT
            "\nmaster_key: file:%s/master.key\nstore:\n  url: '" STR_FMT "'\n",
            STR_ARG(s->name), keys, STR_ARG(s->store.url));
    write_listener(f, "api", &s->api);
    write_listener(f, "notify", &s->notify);
    write_listener(f, "ops", &s->ops);
    fprintf(f,
            "limits:\n  rate_per_s: %lld\n  rate_burst: %lld\nwebhook:\n  private_addresses: "
            "true\naccounts:\n",
            (long long)s->limits.rate_per_s, (long long)s->limits.rate_burst);
    const struct account_config *accounts = s->accounts.items;
    for (size_t i = 0; i < s->accounts.count; i++)
        write_account(f, &accounts[i], keys);
    bool fine = !ferror(f);
    return fclose(f) == 0 && fine ? ERR_OK
                                  : err_set(info, ERR_IO, "%s: cannot be written (%m)", path);
}

struct redirect {
    struct transport transport;
    struct transport *inner;
    struct str from;
    int port;
};

static void redirect_exchange(struct transport *t, struct env *env, const struct http_call *call,
                              struct arena *a, struct http_reply *ret)
{
    struct redirect *r = container_of(t, struct redirect, transport);
    struct http_call moved = *call;
    if (str_starts(call->url, r->from)) {
        struct str path = str_sub(call->url, r->from.n, call->url.n);
        moved.url = str_printf(a, "http://127.0.0.1:%d" STR_FMT, r->port, STR_ARG(path));
    }
    r->inner->exchange(r->inner, env, &moved, a, ret);
}

struct transport *redirect_new(struct transport *inner, struct str from, int port)
{
    struct redirect *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    *r = (struct redirect) {
        .transport = { redirect_exchange }, .inner = inner, .from = from, .port = port
    };
    return &r->transport;
}

/* The caller "dev" with every permission; its key is made once and kept beside the others. */
static enum err dev_caller(struct runtime *r, const char *dir, struct arena *a,
                           struct str *ret_bearer, struct err_info *info)
{
    const char *path = str_cstr(a, str_printf(a, "%s/dev.bearer", dir));
    if (!read_file(path, a, ret_bearer))
        return ERR_OK;
    int64_t id;
    unsigned all = PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY | PERMISSION_REFUND |
                   PERMISSION_INCIDENT | PERMISSION_ADMIN;
    enum err e = caller_create(&r->centre, STR("dev"), all, a, &id, ret_bearer, info);
    return e ? e : write_file(path, *ret_bearer, info);
}

static void say_where(struct runtime *r, struct str bearer, int sandbox_port)
{
    int api = r->api_server ? http_server_port(r->api_server) : 0;
    int ops = r->ops_server ? http_server_port(r->ops_server) : 0;
    printf("\n  %s\n\n",
           word("Fenpay is ready (development: sandbox channel, keys and database in one folder)"));
    printf("  %-14s http://127.0.0.1:%d/v1/orders\n", word("merchant API"), api);
    printf("  %-14s Authorization: Bearer " STR_FMT "\n", word("your key"), STR_ARG(bearer));
    printf("  %-14s http://127.0.0.1:%d/phone/  %s\n", word("phone"), sandbox_port,
           word("(pay there what you ordered here)"));
    printf("  %-14s http://127.0.0.1:%d/metrics\n\n  %s\n", word("metrics"), ops, word("Try:"));
    printf("    curl -s http://127.0.0.1:%d/v1/payments -H 'Authorization: Bearer " STR_FMT
           "' -H 'Content-Type: application/json' \\\n"
           "      -d '{\"merchant_order_no\":\"A-1\",\"user_id\":\"u1\",\"subject\":\"Tea\","
           "\"amount\":990,\"currency\":\"CNY\",\"channel\":\"wechat\",\"method\":\"native\"}'\n\n",
           api, STR_ARG(bearer));
    fflush(stdout);
}

struct str dev_url(struct arena *a, int64_t port, const char *path)
{
    return str_printf(a, "http://127.0.0.1:%lld%s", (long long)port, path);
}

/* A port that somebody else has is the usual trouble: says which option chooses another one. */
static int complain_listen(const struct command *self, enum err e, const struct err_info *info)
{
    static const char *const names[] = { "api", "notify", "ops", "sandbox" };
    int exit_code = complain(self, e, info);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char field[24];
        snprintf(field, sizeof field, "%s.listen", names[i]);
        if (strcmp(info->field, field) == 0) {
            fprintf(stderr,
                    word("another port is chosen with --%s-port N, or all four with "
                         "--port-base N"),
                    names[i]);
            fputc('\n', stderr);
        }
    }
    return exit_code;
}

static enum err start_sandbox(struct env *env, struct sandbox *sandbox, struct str listen,
                              struct http_server **ret, struct err_info *info)
{
    struct http_server_options ho = { .name = "sandbox",
                                      .listen = listen,
                                      .loops = 2,
                                      .workers = 1,
                                      .routes = sandbox_routes,
                                      .service = sandbox };
    enum err e = http_server_start(env, &ho, ret, info);
    if (e && info->field[0])
        cfg_blame(&(struct cfg_marks) { 0 }, "sandbox", info);
    return e;
}

int dev_serve(const struct command *self, const char *dir, const struct dev_ports *ports,
              const sigset_t *signals)
{
    struct err_info info = { 0 };
    ARENA_AUTO a = arena_new(16384);
    struct env env;
    struct dev_site site;
    struct sandbox *sandbox = NULL;
    struct http_server *sandbox_server = NULL;
    struct runtime *r = NULL;
    struct transport *callbacks = client_new(&info);
    struct str sandbox_url = dev_url(a, ports->sandbox, "");
    struct str listen[4];
    const int64_t numbers[] = { ports->api, ports->notify, ports->ops, ports->sandbox };
    for (size_t i = 0; i < 4; i++)
        listen[i] = str_printf(a, "127.0.0.1:%lld", (long long)numbers[i]);

    env_init_real(&env, NULL, NULL);
    enum err e = dev_site_make(dir, sandbox_url, dev_url(a, ports->notify, "/notify"), &env, a,
                               &site, &info);
    if (!e) {
        site.settings.api.listen = listen[0];
        site.settings.notify.listen = listen[1];
        site.settings.ops.listen = listen[2];
        struct sandbox_options so = { .env = &env,
                                      .wechat_count = 1,
                                      .public_url = sandbox_url,
                                      .path = str_printf(a, "%s/" DEV_SANDBOX_BOOKS, dir) };
        so.wechat[0] = site.wechat;
        e = sandbox_new(&so, &sandbox, &info);
    }
    if (!e)
        e = start_sandbox(&env, sandbox, listen[3], &sandbox_server, &info);
    struct str bearer;
    struct runtime_options ro = { .settings = &site.settings, .roles = ROLE_ALL, .migrate = true };
    if (!e && !(e = runtime_open(&ro, &r, &info)) && !(e = runtime_start(r, &info)))
        e = dev_caller(r, dir, a, &bearer, &info);
    if (!e) /* not before somebody listens: a try that fails can cost six hours */
        sandbox_set_callbacks(sandbox, callbacks);

    int exit_code = EXIT_FINE;
    if (e)
        exit_code = complain_listen(self, e, &info);
    else {
        say_where(r, bearer, http_server_port(sandbox_server));
        exit_code = serve_watch(r, signals, NULL);
    }
    if (r)
        runtime_close(r);
    if (sandbox_server)
        http_server_stop(sandbox_server, 1000);
    if (sandbox)
        sandbox_free(sandbox);
    client_free(callbacks);
    return exit_code;
}
