/* serve.c -- runs the payment centre until SIGTERM or SIGINT; SIGHUP reads the configuration again.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/dev.h"
#include "app/runtime.h"

static const struct {
    const char *name;
    enum role role;
} role_names[] = {
    { "api", ROLE_API },           { "notify", ROLE_NOTIFY }, { "relay", ROLE_RELAY },
    { "consumer", ROLE_CONSUMER }, { "job", ROLE_JOB },
};

static enum err parse_roles(struct str text, unsigned *ret, struct err_info *info)
{
    unsigned roles = 0;
    while (text.p) {
        struct str word = str_cut(&text, ',');
        unsigned found = 0;
        for (size_t i = 0; i < sizeof role_names / sizeof *role_names; i++)
            if (str_eq(word, str_of(role_names[i].name)))
                found = role_names[i].role;
        if (!found)
            return err_set(info, ERR_INVALID,
                           "no role named '" STR_FMT "' (api, notify, relay, consumer, job)",
                           STR_ARG(word));
        roles |= found;
    }
    *ret = roles;
    return ERR_OK;
}

static void say_ready(struct runtime *r, int64_t started_us)
{
    LOG(r->env->log, LOG_INFO, "serve.ready",
        log_int("took_ms", (env_mono_us(r->env) - started_us) / 1000),
        log_int("api_port", r->api_server ? http_server_port(r->api_server) : 0),
        log_int("notify_port", r->notify_server ? http_server_port(r->notify_server) : 0),
        log_int("ops_port", r->ops_server ? http_server_port(r->ops_server) : 0));
    log_flush(r->env->log);
}

/* Sleeps until something is to be done. A store that failed a COMMIT in a way that proves nothing
 * ends the process: only a restart can tell what is on the disk. */
int serve_watch(struct runtime *r, const sigset_t *signals, const char *config_path)
{
    for (;;) {
        struct timespec wait = { .tv_nsec = 200000000 };
        int got = sigtimedwait(signals, NULL, &wait);
        if (got == SIGTERM || got == SIGINT)
            return EXIT_FINE;
        if (got == SIGHUP && config_path) {
            struct err_info info = { 0 };
            if (runtime_reload(r, config_path, &info))
                LOG(r->env->log, LOG_ERROR, "serve.reload_refused", log_cstr("reason", info.text));
            else
                LOG(r->env->log, LOG_INFO, "serve.reloaded");
        }
        if (store_failed(r->store)) {
            LOG(r->env->log, LOG_ERROR, "serve.store_failed",
                log_cstr("reason", "a commit ended without an answer; restart to recover"));
            return EXIT_TEMP;
        }
    }
}

/* -1: not given. */
static enum err choose_ports(bool dev, int64_t base, const struct dev_ports *given,
                             struct dev_ports *ret, struct err_info *info)
{
    struct dev_ports ports = DEV_PORTS;
    if (base >= 0)
        ports = (struct dev_ports) { base, base + 1, base + 2, base + 3 };
    const int64_t wanted[] = { given->api, given->notify, given->ops, given->sandbox };
    int64_t *const chosen[] = { &ports.api, &ports.notify, &ports.ops, &ports.sandbox };
    bool any = base >= 0;
    for (size_t i = 0; i < 4; i++) {
        any = any || wanted[i] >= 0;
        if (wanted[i] >= 0)
            *chosen[i] = wanted[i];
        if (*chosen[i] < 1 || *chosen[i] > 65535)
            return err_set(info, ERR_INVALID, "%lld is no port (1 to 65535)",
                           (long long)*chosen[i]);
    }
    if (any && !dev)
        return err_set(info, ERR_INVALID,
                       "ports are chosen with --dev; a configuration says them "
                       "itself (api.listen)");
    *ret = ports;
    return ERR_OK;
}

int command_serve(const struct command *self, int argc, char **argv)
{
    struct str config = STR("fenpay.yaml"), data = STR("data"), roles_text = STR_NONE;
    struct dev_ports given = { -1, -1, -1, -1 }, ports;
    int64_t base = -1;
    bool dev = false;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "config", OPTION_TEXT, &config, "FILE", "Configuration (default fenpay.yaml)" },
        { "role", OPTION_TEXT, &roles_text, "LIST",
          "api,notify,relay,consumer,job (default: all; one process a SQLite file, so a split "
          "over processes is for later, with MySQL)" },
        { "dev", OPTION_FLAG, &dev, "",
          "No configuration: makes keys, database and a sandbox under --data and says where to "
          "click" },
        { "data", OPTION_TEXT, &data, "DIR", "With --dev (default data)" },
        { "port-base", OPTION_INT, &base, "N",
          "With --dev: merchant API N, callbacks N+1, ops N+2, sandbox N+3" },
        { "api-port", OPTION_INT, &given.api, "N", "With --dev (default 8080)" },
        { "notify-port", OPTION_INT, &given.notify, "N", "With --dev (default 8443)" },
        { "ops-port", OPTION_INT, &given.ops, "N", "With --dev (default 9090)" },
        { "sandbox-port", OPTION_INT, &given.sandbox, "N", "With --dev (default 8088)" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    /* Blocked before any thread starts, so that only sigtimedwait gets them. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    struct err_info info = { 0 };
    ARENA_AUTO a = arena_new(4096);
    struct runtime_options ro = { .config_path = str_cstr(a, config), .roles = ROLE_ALL };
    enum err e = roles_text.p ? parse_roles(roles_text, &ro.roles, &info) : ERR_OK;
    if (!e)
        e = choose_ports(dev, base, &given, &ports, &info);
    if (e)
        return complain(self, e, &info);
    if (dev)
        return dev_serve(self, str_cstr(a, data), &ports, &signals);

    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct runtime *r = NULL;
    if ((e = runtime_open(&ro, &r, &info)))
        return complain(self, e, &info);
    if ((e = runtime_start(r, &info)))
        exit_code = complain(self, e, &info);
    else {
        say_ready(r, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
        exit_code = serve_watch(r, &signals, ro.config_path);
    }
    runtime_close(r);
    return exit_code;
}
