/* process.c -- the centre as a process that can be dropped whole and made again from its database:
 * what it is made of, its jobs, calls into it, and COMMITs whose answer does not come. */
#include "sim.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "consumer/consumer.h"
#include "core/callback/callback.h"
#include "core/order/order.h"
#include "core/payment/flow.h"
#include "crypto/rsa.h"
#include "crypto/secret.h"
#include "store/driver.h"

#define API_URL      "http://channel.sim"
#define MASTER_KEY   "0123456789abcdef0123456789abcdef"
#define DEATH_WITHIN 1500 /* steps */
#define DOWN_MAX_MS  30000

/* ---- what all seeds share ---- */

/* 512 bits: signing costs nothing, and the keys are worth nothing. */
static const char merchant_key[] =
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIBOQIBAAJBALVTTSyz82WOwKlC24a3wHXhidVXsPk+AWLWK76y+8w7rpVFw8E2\n"
    "RqGhPVKyozJunuqu4PJpwb0vFF/TKU8zrj8CAwEAAQJATdWoNxw3ysxwXzfXzAhs\n"
    "kS1zYST3TsYTCj4tIPrro0rxxwbVu1bYka2WzCa/MjlDNkQ2nqmTkwGocAlTlY05\n"
    "YQIhAOb+BZcmXc7F0gAkewFAF43K1lbjDgHSU6YatDpFmKkdAiEAyPTBmum4ABky\n"
    "R1H7+q47WoK/2iZcfmR1ME1UxcUz8gsCIGppVUv3Wbm6ue5k3+GIlBE3AxzNxpMi\n"
    "QHTB0osRqq0lAiAu7gHctKI0262DPGE1PMU9sPUu8/B7z+gSPK0EdrZX2wIgZzUd\n"
    "JT1ukAPAJ+nP5gfbd6USrnFxzHvaenWTvoWuotM=\n"
    "-----END RSA PRIVATE KEY-----\n";
static const char platform_key[] =
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIBOwIBAAJBAO2Ar73z00NUy30SaDYc/UxHqXcddAFqwUJnbleniMj7PvBtVOPD\n"
    "9rswwoIXz8gRPgvmGfmykQ4QF4LuH7FZFK8CAwEAAQJBAIQCcixnuTaEjDJxp8Dk\n"
    "LhpW/qe5lEAxYUgSi29nLI1gnum/aXlL3leoVXbEaJx3Zg1w47vRlsSIuODn/IeX\n"
    "3WECIQD93xNubhNqWPUOOq8aHWChkgEsqiL2AJjhGqn0d4TDnwIhAO9+edGYq+Cg\n"
    "9UygOgdUg/egk04wv7+qlOxH+YYlm5TxAiAFBjIrQFBwDVykMHMgsC4mZG5ThPZ2\n"
    "KeLcqZttdCQTfwIhALG3sL4QBLtTtbN+0pDN7n+68JR9KE0aUBhl8IvTLHiBAiBF\n"
    "fMEIHwL60MnV8shw997fs+4L2g1371ut7J7mm8+3jg==\n"
    "-----END RSA PRIVATE KEY-----\n";

/* Trouble of the stage, not of the play. */
static _Noreturn void give_up(const char *what, const struct err_info *info)
{
    fprintf(stderr, "sim: %s: %s\n", what, info->text);
    abort();
}

void sim_must(enum err e, const char *what, const struct err_info *info)
{
    if (e)
        give_up(what, info);
}

static struct str public_half(struct arena *a, const char *pem)
{
    struct err_info info = { 0 };
    struct rsa_key *key, *half;
    sim_must(rsa_private_from_pem(str_of(pem), &key, &info), "key", &info);
    half = rsa_public_of(key);
    struct str ret = rsa_public_pem(a, half);
    rsa_unref(half);
    rsa_unref(key);
    return ret;
}

static const char *const account_names[SIM_ACCOUNTS] = { "sim", "other" };

static void open_account(struct sim_base *b, int i, struct env *env)
{
    struct err_info info = { 0 };
    b->wechat[i] = (struct sandbox_wechat) {
        .mchid = str_printf(b->arena, "190000000%d", i + 1),
        .appid = STR("wxsim00000000001"),
        .merchant_public_pem = public_half(b->arena, merchant_key),
        .merchant_serial = STR("4D5E6F"),
        .apiv3_key = STR("0123456789abcdef0123456789ABCDEF"),
        .platform_key_pem = str_of(platform_key),
        .public_key_id = STR("PUB_KEY_ID_0119000000012026010100000000000001"),
        .sign_with_public_key = true,
    };
    const struct sandbox_wechat *w = &b->wechat[i];
    struct account_config config = {
        .name = str_of(account_names[i]),
        .environment = ENVIRONMENT_DEV,
        .amount_max_fen = 99999999,
        .api_url = STR(API_URL),
        .connect_ms = 5000,
        .total_ms = 10000,
        .wechat = { .mchid = w->mchid,
                    .appid = w->appid,
                    .merchant_key = str_of(merchant_key),
                    .merchant_serial = w->merchant_serial,
                    .apiv3_key = w->apiv3_key,
                    .public_key_id = w->public_key_id,
                    .public_key = public_half(b->arena, platform_key) },
    };
    sim_must(account_open(&config, STR(SIM_NOTIFY), env, &b->account[i], &info), "account", &info);
}

/* One subscriber of everything, switched off: a seed may switch it on. */
static enum err insert_webhook(struct tx *tx, void *arg, struct err_info *info)
{
    struct env *env = tx_env(tx);
    struct webhook w = { .id = 1, .url = STR("http://127.0.0.1:1/hook"), .on = true };
    struct str secret;
    (void)arg;
    enum err e = secret_encrypt(env, STR(MASTER_KEY), STR("webhook:1"), STR("whsec_c2ltdWxhdGVk"),
                                tx_arena(tx), &secret);
    if (!e)
        e = webhook_insert(tx, &w, secret, info);
    return e ? e : webhook_set(tx, 0, 1, false, info);
}

static enum err switch_webhook_on(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    return webhook_set(tx, 0, 1, true, info);
}

static void run_rule(struct store *store, struct env *env, store_rule *rule)
{
    struct err_info info = { 0 };
    struct store_job job;
    store_job_init(&job, env, NULL, 0);
    job.name = "sim";
    job.rule = rule;
    if (store_run(store, &job, &info) != STORE_COMMITTED)
        give_up("webhook", &info);
}

void sim_base_open(struct sim_base *b)
{
    struct store *store;
    struct err_info info = { 0 };
    struct env_test env;
    int applied;

    *b = (struct sim_base) { .arena = arena_new(16384) };
    env_init_test(&env, SIM_START_MS, 1);
    rsa_allow_short_keys();
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        open_account(b, i, &env.env);
    snprintf(b->folder, sizeof b->folder, "%s/fenpay-sim-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(b->folder))
        give_up("no temporary folder", &info);
    snprintf(b->empty_db, sizeof b->empty_db, "%s/empty.db", b->folder);
    struct store_options o = { .url = str_printf(b->arena, "sqlite:%s", b->empty_db),
                               .env = &env.env,
                               .inline_mode = true };
    sim_must(store_migrate(&o, &applied, &info), "migrate", &info);
    sim_must(store_open(&o, &store, &info), "store", &info);
    run_rule(store, &env.env, insert_webhook);
    store_close(store);
}

void sim_remove_db(const char *path)
{
    static const char *const tails[] = { "", "-wal", "-shm", ".lock" };
    char name[160];
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        snprintf(name, sizeof name, "%s%s", path, tails[i]);
        unlink(name);
    }
}

static int remove_any(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* With what seeds left behind that ended too early to clean up. */
void sim_base_close(struct sim_base *b)
{
    nftw(b->folder, remove_any, 8, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        account_unref(b->account[i]);
    arena_free(b->arena);
}

static void copy_db(struct sim *s)
{
    struct err_info info = { .text = "cannot be copied" };
    struct stat st;
    int from = open(s->base->empty_db, O_RDONLY | O_CLOEXEC);
    int to = open(s->db_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (from < 0 || to < 0 || fstat(from, &st) ||
        copy_file_range(from, NULL, to, NULL, (size_t)st.st_size, 0) != st.st_size)
        give_up("database", &info);
    close(from);
    close(to);
}

/* ---- COMMITs without an answer ---- */

/* A driver's commit has no context; one run at a time. */
static struct sim *commit_sim;

static enum err commit(struct conn *c, struct err_info *info)
{
    struct sim *s = commit_sim;
    if (!s->in_batch || s->healed || s->temper.commits == COMMITS_SURE ||
        sim_below(s, 1000) >= s->temper.commit_permille)
        return sqlite_driver.commit(c, info);
    bool happened = sim_chance(s, 50);
    sim_note(s, "commit lost", happened);
    if (happened && sqlite_driver.commit(c, info))
        give_up("commit", info);
    if (!happened)
        sqlite_driver.rollback(c);
    return err_set(info, ERR_IO, "the answer got lost");
}

static struct store *open_store(struct sim *s)
{
    static struct store_driver driver;
    struct err_info info = { 0 };
    struct store *store;

    commit_sim = s;
    driver = sqlite_driver;
    driver.commit = commit;
    driver.settles_unknown = s->temper.commits == COMMITS_LOSE_ANSWERS;
    struct store_options o = { .url = str_printf(s->arena, "sqlite:%s", s->db_path),
                               .env = &s->inside.env,
                               .inline_mode = true,
                               .cache_bytes = 1 << 20,
                               .driver = &driver };
    sim_must(store_open(&o, &store, &info), "store", &info);
    return store;
}

/* ---- jobs ---- */

typedef enum err turn_fn(struct sim_process *p, size_t *ret_done, struct err_info *info);

struct loop {
    turn_fn *turn;
    const char *name;
    int64_t every_ms;
};

static enum err turn_bus(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return bus_turn(p->bus, ret_done, info);
}
static enum err turn_deliveries(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return bus_deliver_turn(p->bus, ret_done, info);
}
static enum err turn_payments(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return payment_due_turn(&p->centre, 100, ret_done, info);
}
static enum err turn_orders(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return order_due_turn(&p->centre, 500, ret_done, info);
}
static enum err turn_callbacks(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return callback_due_turn(&p->centre, 64, ret_done, info);
}
static enum err turn_settle(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return order_settle_sweep(&p->centre, 500, ret_done, info);
}

static const struct loop loops[] = {
    { turn_bus, "bus", 500 },         { turn_payments, "payments", 2000 },
    { turn_orders, "orders", 5000 },  { turn_callbacks, "callbacks", 10000 },
    { turn_settle, "settle", 60000 }, { turn_deliveries, "deliveries", 10000 },
};

/* Around its pace; once all is well, ever more slowly while there is nothing to do. */
static void loop_main(struct sim *s, void *arg)
{
    const struct loop *loop = arg;
    int64_t pause = loop->every_ms;
    for (;;) {
        struct err_info info = { 0 };
        size_t done = 0;
        if (loop->turn == turn_bus && !s->healed)
            pause = s->temper.bus_slow_ms;
        sim_sleep(s, 1 + sim_below(s, 2 * pause));
        enum err e = loop->turn(s->process, &done, &info);
        if (e && e != ERR_BUSY && !store_failed(s->process->centre.store))
            sim_fail(s, (struct number) { 0 }, "job %s: %s %s", loop->name, err_name(e), info.text);
        if (done)
            sim_note(s, "done", (int64_t)done);
        pause = s->healed && !done && pause < SIM_PAUSE_MAX_MS ? pause * 2 : loop->every_ms;
        if (pause > SIM_PAUSE_MAX_MS)
            pause = SIM_PAUSE_MAX_MS;
    }
}

/* ---- life and death ---- */

void sim_process_open(struct sim *s)
{
    struct sim_process *p = arena_one(s->arena, struct sim_process);
    struct env *env = &s->inside.env;
    struct err_info info = { 0 };
    bool first = false;

    if (!s->db_path[0]) {
        snprintf(s->db_path, sizeof s->db_path, "%s/%llu-%d.db", s->base->folder,
                 (unsigned long long)s->seed, (int)getpid());
        copy_db(s);
        s->log_fd = memfd_create("sim-log", MFD_CLOEXEC);
        s->log = log_new(s->log_fd, LOG_WARN, true);
        log_set_env(s->log, env);
        s->deaths_left = s->temper.deaths;
        first = true;
    }
    env->log = s->log;
    p->sim = s;
    list_init(&p->calls);
    p->centre = (struct centre) {
        .env = env, .store = open_store(s), .registry = registry_new(), .transport = &s->wire
    };
    centre_settings_defaults(&p->centre.settings);
    p->centre.settings.payment_expire_ms = 120000 + (int64_t)(s->seed % 4) * 60000;
    p->centre.settings.query_stuck_ms = s->temper.stuck_ms;
    env_random(env, &p->centre.process_id, sizeof p->centre.process_id);
    p->centre.process_id &= INT64_MAX;
    sim_must(node_lease_take(p->centre.store, env, STR("sim"), &p->node, s->arena, &info), "node",
             &info);
    p->centre.mint = mint_new(env, p->node.node);
    if (first && s->temper.webhook)
        run_rule(p->centre.store, env, switch_webhook_on);
    for (int i = 0; i < s->temper.accounts; i++)
        registry_put(p->centre.registry, account_ref(s->base->account[i]));
    const struct consumer in_the_box[] = { order_consumer(&p->centre) };
    p->bus = bus_new(&(struct bus_options) { .env = env,
                                             .store = p->centre.store,
                                             .mint = p->centre.mint,
                                             .consumers = in_the_box,
                                             .consumer_count = 1,
                                             .source = STR("sim"),
                                             .transport = &s->hooks,
                                             .master_key = STR(MASTER_KEY),
                                             .webhook_private = true,
                                             .on_dead = consumer_on_dead });
    s->process = p;
    s->death_step = s->steps + 1 + (uint64_t)sim_below(s, DEATH_WITHIN);
    for (unsigned n = 0; n < s->temper.jobs; n++)
        for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
            sim_spawn(s, loops[i].name, SIM_INSIDE, loop_main, (void *)(uintptr_t)&loops[i]);
}

struct sim_call {
    struct list link;
    sim_serve *serve;
    void *arg;
    struct sim_task *caller; /* NULL: has given up */
    bool answered, over;
};

/* What its tasks held is not released, as with a real death. */
void sim_process_kill(struct sim *s)
{
    struct sim_process *p = s->process;
    sim_kill_inside(s);
    list_each_safe (node, &p->calls) {
        struct sim_call *k = container_of(node, struct sim_call, link);
        list_remove(&k->link);
        k->over = true;
        if (k->caller)
            sim_wake(k->caller);
    }
    store_drop(p->centre.store);
    bus_free(p->bus);
    registry_free(p->centre.registry);
    mint_free(p->centre.mint);
    s->process = NULL;
}

void sim_process_step(struct sim *s)
{
    if (!s->process) {
        if (s->now_ms >= s->up_ms) {
            sim_note(s, "born", 0);
            sim_process_open(s);
        }
        return;
    }
    bool failed = store_failed(s->process->centre.store) && (s->healed || sim_chance(s, 3));
    bool chance = s->deaths_left > 0 && s->steps >= s->death_step && !s->healed;
    if (!failed && !chance)
        return;
    sim_note(s, "dies", failed);
    s->deaths_left -= !failed;
    sim_process_kill(s);
    s->up_ms = s->now_ms + sim_below(s, DOWN_MAX_MS);
}

enum err sim_read(struct sim *s, store_rule *rule, void *arg)
{
    struct err_info info = { 0 };
    enum err e = store_read(s->process->centre.store, 0, "sim", rule, arg, &info);
    if (e)
        sim_fail(s, (struct number) { 0 }, "cannot read: %s", info.text);
    return e;
}

/* ---- calls from outside ---- */

static void serve(struct sim *s, void *arg)
{
    struct sim_call *k = arg;
    k->serve(s->process, k->arg);
    k->answered = k->over = true;
    list_remove(&k->link);
    if (k->caller)
        sim_wake(k->caller);
}

bool sim_call(struct sim *s, const char *name, sim_serve *fn, void *arg, int64_t patience_ms)
{
    int64_t until = s->now_ms + patience_ms;

    env_effect(&s->outside.env, EFFECT_CHANNEL_SEND);
    if (!s->process)
        return false;
    struct sim_call *k = arena_one(s->arena, struct sim_call);
    *k = (struct sim_call) { .serve = fn, .arg = arg, .caller = s->running };
    list_append(&s->process->calls, &k->link);
    sim_spawn(s, name, SIM_INSIDE, serve, k);
    while (!k->over && s->now_ms < until)
        sim_wait(s, until);
    k->caller = NULL;
    sim_note(s, k->answered ? "answered" : "no answer", 0);
    return k->answered;
}
