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

int command_serve(const struct command *self, int argc, char **argv)
{
    struct str config = STR("fenpay.yaml"), data = STR("data"), roles_text = STR_NONE;
    bool dev = false;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "config", OPTION_TEXT, &config, "FILE", "Configuration (default fenpay.yaml)" },
        { "role", OPTION_TEXT, &roles_text, "LIST",
          "api,notify,relay,consumer,job (default: all)" },
        { "dev", OPTION_FLAG, &dev, "",
          "No configuration: makes keys, database and a sandbox under --data and says where to "
          "click" },
        { "data", OPTION_TEXT, &data, "DIR", "With --dev (default data)" },
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
    if (e)
        return complain(self, e, &info);
    if (dev)
        return dev_serve(self, str_cstr(a, data), &signals);

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
