/* sandbox.c -- the stand-in for the channels as a process of its own, for the keys of a dev site.
 */
#include "sandbox/sandbox.h"

#include <signal.h>
#include <stdio.h>

#include "app/commands.h"
#include "app/dev.h"
#include "app/words.h"

int command_sandbox(const struct command *self, int argc, char **argv)
{
    struct str listen = STR("127.0.0.1:8088"), data = STR("data");
    int exit_code;
    struct option options[] = {
        { "listen", OPTION_TEXT, &listen, "ADDRESS", "Address and port (default 127.0.0.1:8088)" },
        { "data", OPTION_TEXT, &data, "DIR",
          "Folder of the dev site whose keys are used, made when missing (default data)" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    ARENA_AUTO a = arena_new(16384);
    struct err_info info = { 0 };
    struct env env;
    struct dev_site site;
    struct sandbox *sandbox = NULL;
    struct http_server *server = NULL;
    struct transport *callbacks = client_new(&info);
    struct str url = str_printf(a, "http://" STR_FMT, STR_ARG(listen));
    env_init_real(&env, NULL, NULL);
    enum err e = dev_site_make(str_cstr(a, data), url, STR("http://127.0.0.1:8443/notify"), &env, a,
                               &site, &info);
    if (!e) {
        struct sandbox_options so = { .env = &env,
                                      .wechat_count = 1,
                                      .callbacks = callbacks,
                                      .public_url = url,
                                      .path = str_printf(a, STR_FMT "/" DEV_SANDBOX_BOOKS,
                                                         STR_ARG(data)) };
        so.wechat[0] = site.wechat;
        e = sandbox_new(&so, &sandbox, &info);
    }
    if (!e) {
        struct http_server_options ho = { .name = "sandbox",
                                          .listen = listen,
                                          .loops = 2,
                                          .workers = 1,
                                          .routes = sandbox_routes,
                                          .service = sandbox };
        e = http_server_start(&env, &ho, &server, &info);
    }
    if (e)
        exit_code = complain(self, e, &info);
    else {
        int got;
        printf(word("sandbox ready on port %d; phone page at /phone/"), http_server_port(server));
        putchar('\n');
        fflush(stdout);
        sigwait(&signals, &got);
        exit_code = EXIT_FINE;
        http_server_stop(server, 1000);
    }
    if (sandbox)
        sandbox_free(sandbox);
    client_free(callbacks);
    return exit_code;
}
