/* fixture.c -- see fixture.h. */
#include "fixture.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct migration fixture_schema[] = {
    { "0001-pair", "CREATE TABLE pair_a (\n    id {id},\n    body {blob}\n) {table_end};\n"
                   "CREATE TABLE pair_b (\n    id {id},\n    key_no {no} NOT NULL\n) {table_end};\n"
                   "CREATE UNIQUE INDEX pair_b_u ON pair_b (key_no);\n" },
    { "0002-counter",
      "CREATE TABLE counter (\n    id {id},\n    amount {fen} NOT NULL,\n    name {text(8)},\n"
      "    version {int} NOT NULL\n) {table_end};\n" },
    { "0003-lease", "CREATE TABLE lease (\n    name {text(64)} NOT NULL,\n    owner {text(64)} NOT "
                    "NULL,\n    fence {int} NOT NULL,\n"
                    "    until_time {ms} NOT NULL,\n    create_time {ms} NOT NULL,\n    "
                    "update_time {ms} NOT NULL,\n"
                    "    PRIMARY KEY (name)\n) {table_end};\n" },
    { NULL, NULL },
};

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

void fixture_init(struct fixture *f)
{
    *f = (struct fixture) { 0 };
    env_init_real(&f->real, NULL, NULL);
    env_init_test(&f->test, 1767225600000, 1);
    f->mint = mint_new(&f->real, 1);
    const char *url = getenv("FENPAY_TEST_STORE_URL");
    /* In memory where possible: what a disk may forget is the fault VFS's business. */
    snprintf(f->folder, sizeof f->folder, "%s/fenpay-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    if (url)
        snprintf(f->url, sizeof f->url, "%s", url);
    else
        snprintf(f->url, sizeof f->url, "sqlite:%s/t.db", f->folder);
    f->options = (struct store_options) { .url = str_of(f->url),
                                          .env = &f->real,
                                          .migrations = fixture_schema };

    struct err_info info = { 0 };
    int applied = 0;
    if (store_migrate(&f->options, &applied, &info))
        fail_msg("migrate: %s", info.text);
    assert_int_equal(applied, 3);
}

const char *fixture_path(const struct fixture *f)
{
    return strchr(f->url, ':') + 1;
}

void fixture_open(struct fixture *f)
{
    struct err_info info = { 0 };
    if (store_open(&f->options, &f->store, &info))
        fail_msg("open: %s", info.text);
}

void fixture_close(struct fixture *f)
{
    store_close(f->store);
    f->store = NULL;
}

void fixture_done(struct fixture *f)
{
    fixture_close(f);
    mint_free(f->mint);
    remove_folder(f->folder);
}

/* ---- rules ---- */

SQL(insert_a, "INSERT INTO pair_a (id, body) VALUES (?, ?)");
SQL(insert_b, "INSERT INTO pair_b (id, key_no) VALUES (?, ?)");
SQL(count_a, "SELECT count(*) FROM pair_a WHERE id = ?");
SQL(count_b, "SELECT count(*) FROM pair_b WHERE key_no = ?");
SQL(count_all, "SELECT (SELECT count(*) FROM pair_a) + (SELECT count(*) FROM pair_b)");

enum err act_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct act *act = arg;
    enum act_end end = act->end;
    act->exists = false;
    if (act->until_try && ++act->tries >= act->until_try)
        end = ACT_OK;
    else if (!act->until_try)
        act->tries++;
    if (end == ACT_REFUSE_FIRST)
        return err_set(info, ERR_CONFLICT, "refused before writing");
    if (end == ACT_RETRY_FIRST)
        return err_set(info, ERR_RETRY, "again before writing");

    char *body = arena_alloc(tx_arena(tx), (size_t)act->pad + 1);
    enum err e =
        tx_exec(tx, &insert_a,
                BINDS(bind_int(act->id), bind_blob((struct str) { body, (size_t)act->pad + 1 })),
                NULL, info);
    if (e == ERR_EXISTS) {
        act->exists = true;
        return ERR_OK;
    }
    if (e)
        return e;
    if (end == ACT_REFUSE_LAST)
        return err_set(info, ERR_CONFLICT, "refused after writing");
    if (end == ACT_RETRY_LAST)
        return err_set(info, ERR_RETRY, "again after writing");
    return tx_exec(tx, &insert_b, BINDS(bind_int(act->id + 1000000), bind_int(act->id)), NULL,
                   info);
}

/* As statements of many rows do it: a taken key fails them all, and nobody knows whose it was. */
void act_batch(struct tx *tx, void *const arg[], enum err ret_result[], size_t n)
{
    bool exists = false;
    for (size_t i = 0; i < n; i++) {
        struct act *act = arg[i];
        act->together = n;
        tx_item(tx, i);
        act->right_item = act->right_item && tx_now_ms(tx) == act->job.now_ms &&
                          tx_new_id(tx) == act->job.first_id && tx_new_id(tx) == 0;
        ret_result[i] = act_rule(tx, act, NULL);
        exists = exists || act->exists;
    }
    for (size_t i = 0; i < n && n > 1 && exists; i++)
        ret_result[i] = ERR_EXISTS;
}

static void act_done(struct store_job *job, enum store_outcome outcome, const struct err_info *info)
{
    struct act *act = job->arg;
    (void)info;
    act->outcome = outcome;
    act->told++;
}

static void act_prepare(struct fixture *f, struct act *act)
{
    enum store_class class = act->job.class;
    store_batch *batch = act->job.batch;
    store_job_init(&act->job, &f->real, f->mint, 1);
    act->job.class = class;
    act->job.name = "act";
    act->job.rule = batch ? NULL : act_rule;
    act->job.batch = batch;
    act->job.arg = act;
    act->job.bytes = (size_t)act->pad + 100;
    act->told = 0;
}

enum store_outcome act_run(struct fixture *f, struct act *act)
{
    act_prepare(f, act);
    act->outcome = store_run(f->store, &act->job, NULL);
    return act->outcome;
}

void act_try_submit(struct fixture *f, struct act *act)
{
    act_prepare(f, act);
    act->job.done = act_done;
    act->accepted = store_reserve(f->store, &act->job);
    if (act->accepted)
        store_submit(f->store, &act->job);
}

void act_submit(struct fixture *f, struct act *act)
{
    act_try_submit(f, act);
    assert_true(act->accepted);
}

void act_wait(struct act *act)
{
    while (!act->told)
        sched_yield();
}

struct count {
    int64_t id, a, b;
};

static enum err count_one(struct tx *tx, const struct sql *sql, int64_t id, int64_t *ret,
                          struct err_info *info)
{
    return tx_select_int(tx, sql, binds_skip(BINDS(bind_int(id)), sql == &count_all), ret, info);
}

static enum err count_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct count *c = arg;
    if (c->id < 0)
        return count_one(tx, &count_all, 0, &c->a, info);
    enum err e = count_one(tx, &count_a, c->id, &c->a, info);
    return e ? e : count_one(tx, &count_b, c->id, &c->b, info);
}

static int64_t count(struct fixture *f, int64_t id)
{
    struct count c = { .id = id };
    struct err_info info = { 0 };
    if (store_read(f->store, 0, "count", count_rule, &c, &info))
        fail_msg("read: %s", info.text);
    return c.a + c.b;
}

int rows_of(struct fixture *f, int64_t id)
{
    return (int)count(f, id);
}

int64_t rows_in_all(struct fixture *f)
{
    return count(f, -1);
}
