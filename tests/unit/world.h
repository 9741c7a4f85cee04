/* world.h -- a small world for tests that need the real database: a migrated SQLite file in a
 * temporary folder (in memory where possible: a busy disk must not slow them), a clock that stands,
 * a generator of numbers. `threads` false: everything runs on the caller, in order. */
#ifndef FENPAY_TEST_WORLD_H
#define FENPAY_TEST_WORLD_H

#include "check.h"

#include "base/env.h"
#include "base/number.h"
#include "store/store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORLD_NOW_MS 1780000000000LL

struct world {
    struct env_test test;
    struct env *env;
    struct arena *arena;
    struct mint *mint;
    struct store *store;
    char folder[64], url[128];
};

static inline struct store_options world_options(struct world *w, bool threads)
{
    return (struct store_options) { .url = str_of(w->url), .env = w->env, .inline_mode = !threads };
}

static inline void world_open(struct world *w, bool threads)
{
    struct err_info info = { .err = ERR_OK };
    int applied;

    *w = (struct world) { .arena = NULL };
    snprintf(w->folder, sizeof w->folder, "%s/fenpay-test-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->url, sizeof w->url, "sqlite:%s/fenpay.db", w->folder);
    env_init_test(&w->test, WORLD_NOW_MS, 7);
    w->env = &w->test.env;
    w->arena = arena_new(4096);
    w->mint = mint_new(w->env, 1);
    struct store_options o = world_options(w, threads);
    if (store_migrate(&o, &applied, &info) || store_open(&o, &w->store, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
}

static inline int world_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void world_close(struct world *w)
{
    store_close(w->store);
    mint_free(w->mint);
    arena_free(w->arena);
    nftw(w->folder, world_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Runs a rule with as many ids as it may ever want. */
static inline enum store_outcome world_try(struct world *w, store_rule *rule, void *arg,
                                           struct err_info *info)
{
    struct store_job job;
    store_job_init(&job, w->env, w->mint, 64);
    job.name = "test";
    job.rule = rule;
    job.arg = arg;
    return store_run(w->store, &job, info);
}

static inline void world_run(struct world *w, store_rule *rule, void *arg)
{
    struct err_info info = { .err = ERR_OK };
    if (world_try(w, rule, arg, &info) != STORE_COMMITTED) {
        print_error("%s\n", info.text);
        fail();
    }
}

static inline void world_read(struct world *w, store_rule *rule, void *arg)
{
    struct err_info info = { .err = ERR_OK };
    if (store_read(w->store, 0, "test", rule, arg, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
}

struct world_ask {
    const struct sql *sql;
    int64_t value;
};

static inline enum err world_ask_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct world_ask *ask = arg;
    return tx_select_int(tx, ask->sql, NO_BINDS, &ask->value, info);
}

static inline int64_t world_ask(struct world *w, const struct sql *sql)
{
    struct world_ask ask = { .sql = sql };
    world_read(w, world_ask_rule, &ask);
    return ask.value;
}

/* The first column of the first row of a SELECT written in place. */
#define ASK(w, text)                                                                               \
    __extension__({                                                                                \
        SQL(ask_, text);                                                                           \
        world_ask((w), &ask_);                                                                     \
    })

static inline enum err world_exec_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return tx_exec(tx, arg, NO_BINDS, NULL, info);
}

static inline void world_exec(struct world *w, const struct sql *sql)
{
    world_run(w, world_exec_rule, (void *)(uintptr_t)sql);
}

/* A writing statement, likewise. */
#define EXEC(w, text)                                                                              \
    do {                                                                                           \
        SQL(exec_, text);                                                                          \
        world_exec((w), &exec_);                                                                   \
    } while (0)

#endif
