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

enum verdict { FINE, WARN, BAD };

struct findings {
    bool json;
    int bad;
    struct arena *arena;
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
                           STR_ARG(notes[i].what), notes[i].replaced ? ", " : "",
                           notes[i].replaced ? word("replaced by one that lasts longer") : ""));
            continue;
        }
        int64_t days = (notes[i].not_after_ms - now_ms) / 86400000;
        enum verdict v = days < 1 ? BAD : days < 30 ? WARN : FINE;
        say(f, v, "keys",
            str_printf(f->arena, STR_FMT ": " STR_FMT ", " STR_FMT, STR_ARG(account->config.name),
                       STR_ARG(notes[i].what),
                       STR_ARG(str_printf(f->arena, word("%lld days left"), (long long)days))));
    }
}

/* The channel's clock, read from any answer it signs: more than five minutes apart and every
 * request is refused. */
static void check_channel(struct findings *f, struct runtime *r, struct account *account)
{
    struct channel_ctx ctx = { .env = r->env, .transport = r->transport, .arena = f->arena };
    struct channel_answer answer = { 0 };
    struct number nobody = number_make(NUMBER_PAYMENT, 0, mint_ids(r->mint, 1));
    account->info->driver->query(account, &ctx, number_str(f->arena, nobody), &answer);
    bool reached = answer.not_exist || answer.outcome == CHANNEL_DONE;
    say(f, reached ? FINE : BAD, "channel",
        reached ? str_printf(f->arena, word("a signed question was answered in %lld ms"),
                             (long long)(answer.took_us / 1000))
                : str_printf(f->arena, STR_FMT ": HTTP %d " STR_FMT " " STR_FMT,
                             STR_ARG(account->config.name), answer.http_status,
                             STR_ARG(answer.code), STR_ARG(answer.message)));
}

static void check_machine(struct findings *f, struct runtime *r)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    say(f, files.rlim_max >= 8192 ? FINE : WARN, "open files",
        str_printf(f->arena, word("limit %llu (8192 or more is wanted)"),
                   (unsigned long long)files.rlim_max));

    struct str path = str_sub(r->settings.store.url, sizeof "sqlite:" - 1, r->settings.store.url.n);
    struct statvfs disk;
    if (statvfs(str_cstr(f->arena, path), &disk) == 0) {
        unsigned long long mb = (unsigned long long)disk.f_bavail * disk.f_frsize >> 20;
        say(f,
            mb < 1024    ? BAD
            : mb < 10240 ? WARN
                         : FINE,
            "disk", str_printf(f->arena, word("%llu MB free beside the database"), mb));
    }

    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    bool sane = t.tv_sec > 1735689600; /* 2025-01-01: the epoch of our numbers */
    say(f, sane ? FINE : BAD, "clock", clock_rfc3339(f->arena, (int64_t)t.tv_sec * 1000));
}

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return bus_stats(tx, arg, info);
}

static void check_store(struct findings *f, struct runtime *r)
{
    struct bus_stats stats = { 0 };
    struct refusal refusal;
    enum code code = centre_read(&r->centre, "doctor", 0, count_rule, &stats, &refusal);
    say(f, code ? BAD : FINE, "database",
        code ? str_of(word("cannot be read")) : str_dup(f->arena, r->settings.store.url));
    if (code)
        return;
    say(f, stats.pending > 10000 ? WARN : FINE, "events",
        str_printf(f->arena, word("%lld waiting, %lld deliveries waiting, %lld dead"),
                   (long long)stats.pending, (long long)stats.deliveries_pending,
                   (long long)stats.dead));
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
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    struct findings f = { .json = open.json, .arena = a };
    struct account *account;
    say(&f, FINE, "configuration", str_printf(a, word("%zu accounts"), r->settings.accounts.count));
    if (r->settings.accounts.count == 0)
        say(&f, WARN, "accounts", str_of(word("none configured: nothing can be paid")));
    for (size_t i = 0; (account = registry_at(r->registry, i)); i++) {
        check_keys(&f, account, env_now_ms(r->env));
        if (!offline)
            check_channel(&f, r, account);
        account_unref(account);
    }
    check_store(&f, r);
    check_machine(&f, r);
    runtime_close(r);
    return f.bad ? EXIT_FOUND : EXIT_FINE;
}
