/* runtime.h -- one running payment centre put together: configuration, store, channels, bus, jobs,
 * listeners; and taken apart again.
 *
 * `serve` runs all of it; commands open the parts below the listeners as a short second writer
 * beside a running server; demo and bench run it on a clock of their own. */
#ifndef FENPAY_RUNTIME_H
#define FENPAY_RUNTIME_H

#include "api/api.h"
#include "app/settings.h"
#include "base/log.h"
#include "job/job.h"
#include "notify/notify.h"
#include "store/lease.h"

enum role {
    ROLE_API = 1,
    ROLE_NOTIFY = 2,
    ROLE_RELAY = 4,
    ROLE_CONSUMER = 8,
    ROLE_JOB = 16,
    ROLE_ALL = 31
};

struct runtime {
    struct arena *arena;
    struct settings settings;
    struct str master_key; /* 32 raw bytes */
    struct env own_env;
    struct env *env; /* own_env, or what the caller brought */
    struct log *log;
    struct metrics *metrics;

    struct store *store;
    struct node_lease node;
    bool has_node;
    struct mint *mint;
    struct registry *registry;
    struct transport *transport, *own_transport;
    struct centre centre;
    struct bus *bus;
    struct job_context job_context;
    struct scheduler *scheduler;
    struct api_service *api;
    struct notify_service *notify;
    struct http_server *api_server, *notify_server, *ops_server;
    unsigned roles;
    bool manual;
};

struct runtime_options {
    const char *config_path; /* or `settings` given */
    const struct settings *settings;
    struct env *env;             /* NULL: the real one, with a log on standard error */
    struct transport *transport; /* NULL: curl */
    unsigned roles;              /* 0: none: a command */
    bool second_writer;
    bool migrate;          /* create or upgrade the schema first */
    const char *store_vfs; /* a registered SQLite VFS, for tests */
    bool manual;           /* no threads for bus and jobs: the caller turns them */
};

/* Opens everything below the listeners. On failure nothing stays open. */
enum err runtime_open(const struct runtime_options *options, struct runtime **ret,
                      struct err_info *info);
/* Opens the database of the settings; says what to do when there is none yet. */
enum err runtime_store_open(const struct settings *s, const struct store_options *options,
                            struct store **ret, struct err_info *info);
/* Starts bus, jobs and listeners, as the roles say. */
enum err runtime_start(struct runtime *r, struct err_info *info);
/* Reads the configuration again: accounts, log level. What is wrong leaves everything as it was. */
enum err runtime_reload(struct runtime *r, const char *config_path, struct err_info *info);
/* Stop accepting, answer long polls, drain the store, let the loops finish (5 s), stop, checkpoint.
 */
void runtime_close(struct runtime *r);

/* The caller named `name`, for commands acting for an operator: `act` is filled with actor
 * "operator:<login>". */
void runtime_operator(struct runtime *r, struct arena *a, struct act *ret);

#endif
