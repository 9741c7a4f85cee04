/* dev.h -- a complete site made from nothing: keys, settings, a sandbox. For `serve --dev`, demo
 * and bench; never for production. */
#ifndef FENPAY_DEV_H
#define FENPAY_DEV_H

#include <signal.h>

#include "app/args.h"
#include "app/runtime.h"
#include "sandbox/sandbox.h"

#define DEV_ACCOUNT "wx-dev"
#define DEV_MCHID   "1900000001"
#define DEV_APPID   "wxdev0000000000001"

#define DEV_SANDBOX_BOOKS "sandbox.jsonl" /* under the site's folder */

struct dev_site {
    struct arena *arena;
    struct settings settings; /* environment dev; account DEV_ACCOUNT pointing at `sandbox_url` */
    struct sandbox_wechat wechat; /* the same merchant as the sandbox knows it */
};

/* Makes what is missing under `dir` (keys are kept from run to run; the database is dir/fenpay.db).
 * `sandbox_url` is where the account sends its calls, `notify_base` what it gives as callback
 * address ("…/notify"). Texts live in the arena. */
enum err dev_site_make(const char *dir, struct str sandbox_url, struct str notify_base,
                       struct env *env, struct arena *a, struct dev_site *ret,
                       struct err_info *info);

/* The configuration of such a site as a user would write it, keys as file: references into
 * `keys_dir`. Replaces the file. */
enum err dev_write_config(const struct settings *s, const char *keys_dir, const char *path,
                          struct err_info *info);

/* Where the listeners of such a site stand, all on 127.0.0.1. */
struct dev_ports {
    int64_t api, notify, ops, sandbox;
};
#define DEV_PORTS                                                                                  \
    {                                                                                              \
        .api = 8080, .notify = 8443, .ops = 9090, .sandbox = 8088                                  \
    }
/* "http://127.0.0.1:8088" and the path. */
struct str dev_url(struct arena *a, int64_t port, const char *path);

/* serve --dev, whole: returns the exit code. */
int dev_serve(const struct command *self, const char *dir, const struct dev_ports *ports,
              const sigset_t *signals);

/* A transport that carries calls for `from` ("http://fenpay.local") to http://127.0.0.1:`port`
 * through `inner`. The caller frees it with free(). */
struct transport *redirect_new(struct transport *inner, struct str from, int port);

/* Until SIGTERM or SIGINT (exit 0), or until the store failed. `config_path` NULL: SIGHUP does
 * nothing. (serve.c) */
int serve_watch(struct runtime *r, const sigset_t *signals, const char *config_path);

#endif
