/* doctor.c -- is this installation fit to run? One line and one verdict a question; exit 1 when
 * anything is wrong. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "channel/registry.h"
#include "core/channel_key/channel_key.h"
#include "core/invariant/invariant.h"

enum verdict { FINE, WARN, BAD };

struct findings {
    bool json;
    int bad;
    struct arena *arena;
};

/* What there is to look at, as far as it can be opened: one trouble must not hide the others. */
struct site {
    struct settings settings;
    struct env env;
    struct metrics *metrics;
    struct store *store; /* NULL: none that can be read */
    struct transport *client;
    struct mint *mint;
};

static void say(struct findings *f, enum verdict v, const char *what, struct str text)
{
    static const char *const words[] = { [FINE] = "ok", [WARN] = "warn", [BAD] = "BAD" };
    f->bad += v == BAD;
    if (f->json)
        command_print(true,
                      (const struct printed[]) { { "check", str_of(what) },
                                                 { "verdict", str_of(words[v]) },
                                                 { "text", text } },
                      3);
    else
        printf("%-5s %-22s " STR_FMT "\n", word(words[v]), word(what), STR_ARG(text));
}

static void check_keys(struct findings *f, struct account *account, int64_t now_ms)
{
    struct key_note notes[16];
    size_t n = account->info->driver->keys_notes(account, f->arena, notes, 16);
    if (n == 0)
        say(f, BAD, "keys",
            str_printf(f->arena, STR_FMT ": %s", STR_ARG(account->config.name),
                       word("no key to verify callbacks with")));
    for (size_t i = 0; i < n; i++) {
        if (!notes[i].not_after_ms || notes[i].replaced) {
            say(f, FINE, "keys",
                str_printf(f->arena, STR_FMT ": " STR_FMT "%s%s", STR_ARG(account->config.name),
                           STR_ARG(said(f->arena, notes[i].what)), notes[i].replaced ? ", " : "",
                           notes[i].replaced ? word("replaced by one that lasts longer") : ""));
            continue;
        }
        int64_t days = (notes[i].not_after_ms - now_ms) / 86400000;
        enum verdict v = days < 1 ? BAD : days < 30 ? WARN : FINE;
        say(f, v, "keys",
            str_printf(f->arena, STR_FMT ": " STR_FMT ", " STR_FMT, STR_ARG(account->config.name),
                       STR_ARG(said(f->arena, notes[i].what)),
                       STR_ARG(str_printf(f->arena, word("%lld days left"), (long long)days))));
    }
}

/* The channel's clock, read from any answer it signs: more than five minutes apart and every
 * request is refused. */
static void check_channel(struct findings *f, struct site *site, struct account *account)
{
    struct channel_ctx ctx = { .env = &site->env, .transport = site->client, .arena = f->arena };
    struct channel_answer answer = { 0 };
    struct number nobody = number_make(NUMBER_PAYMENT, 0, mint_ids(site->mint, 1));
    account->info->driver->query(account, &ctx, number_str(f->arena, nobody), &answer);
    bool reached = answer.not_exist || answer.outcome == CHANNEL_DONE;
    say(f, reached ? FINE : BAD, "channel",
        reached ? str_printf(f->arena, word("a signed question was answered in %lld ms"),
                             (long long)(answer.took_us / 1000))
                : str_printf(f->arena, STR_FMT ": HTTP %d " STR_FMT " " STR_FMT,
                             STR_ARG(account->config.name), answer.http_status,
                             STR_ARG(answer.code), STR_ARG(said(f->arena, answer.message))));
}

static void check_account(struct findings *f, struct site *site, size_t i, bool offline)
{
    struct account *account;
    struct err_info info = { 0 };
    if (settings_account_open(&site->settings, i, &site->env, &account, &info)) {
        say(f, BAD, "keys", said(f->arena, str_dup(f->arena, str_of(info.text))));
        return;
    }
    if (site->store && channel_keys_load(site->store, &site->env, &account, &info))
        say(f, BAD, "keys", said(f->arena, str_dup(f->arena, str_of(info.text))));
    check_keys(f, account, env_now_ms(&site->env));
    if (!offline && site->client)
        check_channel(f, site, account);
    account_unref(account);
}

static void check_configuration(struct findings *f, const struct settings *s)
{
    struct str where;
    size_t n = s->accounts.count;
    say(f, FINE, "configuration",
        str_printf(f->arena, word(n == 1 ? "%zu account" : "%zu accounts"), n));
    if (n == 0)
        say(f, WARN, "accounts", str_of(word("none configured: nothing can be paid")));
    for (size_t at = 0; settings_open_secret(s, f->arena, &at, &where);)
        say(f, WARN, "secrets",
            str_printf(f->arena, STR_FMT ": %s", STR_ARG(where),
                       word("others may read or change the file of this secret: chmod 600, or 640 "
                            "for the group of the service")));
}

static void check_machine(struct findings *f)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    say(f, files.rlim_max >= 8192 ? FINE : WARN, "open files",
        str_printf(f->arena, word("limit %llu (8192 or more is wanted)"),
                   (unsigned long long)files.rlim_max));

    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    bool sane = t.tv_sec > 1735689600; /* 2025-01-01: the epoch of our numbers */
    say(f, sane ? FINE : BAD, "clock", clock_rfc3339(f->arena, (int64_t)t.tv_sec * 1000));
}

/* The nearest folder that exists: the database, and its folder, may not be there yet. */
static void check_disk(struct findings *f, const struct settings *s)
{
    struct str path = settings_database_path(s);
    struct statvfs disk;
    while (path.n && statvfs(str_cstr(f->arena, path), &disk)) {
        do
            path.n--;
        while (path.n && path.p[path.n - 1] != '/');
    }
    if (!path.n && statvfs(".", &disk))
        return;
    unsigned long long mb = (unsigned long long)disk.f_bavail * disk.f_frsize >> 20;
    say(f,
        mb < 1024    ? BAD
        : mb < 10240 ? WARN
                     : FINE,
        "disk", str_printf(f->arena, word("%llu MB free beside the database"), mb));
}

#define DAY_MS    86400000
#define PAGES_MAX 1000 /* some seconds: a busy day may be longer */

struct counts {
    struct bus_stats bus;
    int64_t incidents;
};

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct counts *c = arg;
    struct invariant_incidents incidents;
    enum err e;

    if ((e = bus_stats(tx, &c->bus, info)) || (e = invariant_incidents(tx, &incidents, info)))
        return e;
    c->incidents = 0;
    for (int kind = 0; kind < INCIDENT_KINDS_END; kind++)
        c->incidents += incidents.open[kind];
    return ERR_OK;
}

static enum err invariants_rule(struct tx *tx, void *pass, struct err_info *info)
{
    return invariant_step(tx, pass, info);
}

/* The same that the job counts, over what was made within a day. */
static void check_invariants(struct findings *f, struct site *site)
{
    struct invariant_pass p = { .since_ms = env_now_ms(&site->env) - DAY_MS };
    struct err_info info = { 0 };
    bool broken = false;
    for (int i = 0; i < PAGES_MAX && !p.over; i++) {
        if (store_read(site->store, 0, "doctor", invariants_rule, &p, &info)) {
            say(f, BAD, "rules", str_dup(f->arena, str_of(info.text)));
            return;
        }
        if (p.after_id) /* more of this table */
            env_sleep_ms(&site->env, STORE_READ_PAUSE_MS);
    }
    for (int i = 0; i < INVARIANTS; i++) {
        if (!p.broken[i])
            continue;
        broken = true;
        say(f, BAD, "rules",
            str_printf(f->arena, word("%s: %lld, for example %s"),
                       word(invariant_text((enum invariant)i)), (long long)p.broken[i],
                       number_text(p.example[i]).s));
    }
    if (!broken)
        say(f, FINE, "rules",
            str_printf(f->arena, word("%lld rows looked at, every rule holds"), (long long)p.rows));
}

static void check_store(struct findings *f, struct site *site)
{
    struct counts c = { 0 };
    struct err_info info = { 0 };
    if (store_read(site->store, 0, "doctor", count_rule, &c, &info)) {
        say(f, BAD, "database", said(f->arena, str_dup(f->arena, str_of(info.text))));
        return;
    }
    say(f, FINE, "database", site->settings.store.url);
    say(f, c.bus.pending > 10000 ? WARN : FINE, "events",
        str_printf(f->arena, word("%lld waiting, %lld deliveries waiting, %lld dead"),
                   (long long)c.bus.pending, (long long)c.bus.deliveries_pending,
                   (long long)c.bus.dead));
    say(f, c.incidents ? WARN : FINE, "incidents",
        str_printf(f->arena, word("%lld open"), (long long)c.incidents));
    check_invariants(f, site);
}

static void open_database(struct findings *f, struct site *site)
{
    struct err_info info = { 0 };
    struct store_options so = { .url = site->settings.store.url,
                                .env = &site->env,
                                .second_writer = true,
                                .cache_bytes = site->settings.store.cache_bytes,
                                .wal_bytes_max = site->settings.store.wal_bytes_max };
    if (runtime_store_open(&site->settings, &so, &site->store, &info)) {
        site->store = NULL;
        say(f, BAD, "database", said(f->arena, str_dup(f->arena, str_of(info.text))));
    } else
        check_store(f, site);
}

int command_doctor(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    bool offline = false;
    int exit_code = EXIT_FINE;
    struct option options[] = { OPEN_OPTIONS(open),
                                { "offline", OPTION_FLAG, &offline, "",
                                  "Do not call the channels" },
                                { 0 } };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(65536);
    struct err_info info = { 0 };
    struct findings f = { .json = open.json, .arena = a };
    struct site site = { .metrics = metrics_new(metrics_table, metrics_table_count) };
    env_init_real(&site.env, NULL, site.metrics);
    if (command_settings(&open, a, &site.settings, &info))
        say(&f, BAD, "configuration", said(a, str_dup(a, str_of(info.text))));
    else {
        check_configuration(&f, &site.settings);
        open_database(&f, &site);
        site.client = client_new(&info);
        site.mint = mint_new(&site.env, 0); /* only for a number that nobody has */
        for (size_t i = 0; i < site.settings.accounts.count; i++)
            check_account(&f, &site, i, offline);
        check_disk(&f, &site.settings);
        mint_free(site.mint);
        client_free(site.client);
        store_close(site.store);
    }
    check_machine(&f);
    metrics_free(site.metrics);
    return f.bad ? EXIT_FOUND : EXIT_FINE;
}
