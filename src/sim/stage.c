/* stage.c -- what all seeds share: the channel's accounts with keys of two sizes, and a database
 * that is ready but empty. The keys are made when the stage is; nothing that is decided, sent in a
 * body or compared depends on them. */
#include "sim/inner.h"

#include <stdio.h>
#include <stdlib.h>

#include "bus/bus.h"
#include "crypto/rsa.h"
#include "crypto/secret.h"

#define API_URL   "http://channel.sim"
#define KEY_QUICK 512
#define KEY_REAL  2048

const struct str sim_master_key = { "0123456789abcdef0123456789abcdef", 32 };

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

/* ---- accounts ---- */

static struct rsa_key *make_key(int bits)
{
    struct err_info info = { 0 };
    struct rsa_key *key;
    sim_must(rsa_generate(bits, &key, &info), "key", &info);
    return key;
}

static struct str public_half(struct arena *a, struct rsa_key *key)
{
    struct rsa_key *half = rsa_public_of(key);
    struct str pem = rsa_public_pem(a, half);
    rsa_unref(half);
    return pem;
}

static void open_account(struct arena *a, struct sim_cast *cast, int i, struct rsa_key *merchant,
                         struct rsa_key *platform)
{
    static const char *const names[SIM_ACCOUNTS] = { "sim", "other" };
    struct err_info info = { 0 };
    struct env_test env;
    struct sandbox_wechat *w = &cast->wechat[i];

    *w = (struct sandbox_wechat) {
        .mchid = str_printf(a, "190000000%d", i + 1),
        .appid = STR("wxsim00000000001"),
        .merchant_public_pem = public_half(a, merchant),
        .merchant_serial = STR("4D5E6F"),
        .apiv3_key = str_printf(a, "0123456789abcdef0123456789ABCDE%d", i),
        .platform_key_pem = rsa_private_pem(a, platform),
        .public_key_id = STR("PUB_KEY_ID_0119000000012026010100000000000001"),
        .sign_with_public_key = true,
    };
    struct account_config config = {
        .name = str_of(names[i]),
        .environment = ENVIRONMENT_DEV,
        .amount_max_fen = 99999999,
        .api_url = STR(API_URL),
        .connect_ms = 5000,
        .total_ms = 10000,
        .wechat = { .mchid = w->mchid,
                    .appid = w->appid,
                    .merchant_key = rsa_private_pem(a, merchant),
                    .merchant_serial = w->merchant_serial,
                    .apiv3_key = w->apiv3_key,
                    .public_key_id = w->public_key_id,
                    .public_key = public_half(a, platform) },
    };
    env_init_test(&env, SIM_START_MS, 1);
    sim_must(account_open(&config, STR(SIM_NOTIFY), &env.env, &cast->account[i], &info), "account",
             &info);
}

static void cast_open(struct arena *a, struct sim_cast *cast, int bits)
{
    struct rsa_key *merchant = make_key(bits), *platform = make_key(bits);
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        open_account(a, cast, i, merchant, platform);
    rsa_unref(merchant);
    rsa_unref(platform);
}

static void cast_close(struct sim_cast *cast)
{
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        account_unref(cast->account[i]);
}

const struct sim_cast *sim_stage_cast(struct sim_stage *stage, bool real)
{
    if (!real)
        return &stage->quick;
    if (!stage->real.account[0])
        cast_open(stage->arena, &stage->real, KEY_REAL);
    return &stage->real;
}

/* ---- the database ---- */

static enum err insert_hook(struct tx *tx, int64_t id, const char *url, unsigned types,
                            struct err_info *info)
{
    struct webhook w = { .id = id, .url = str_of(url), .types = types, .on = true };
    struct str name = str_printf(tx_arena(tx), "webhook:%lld", (long long)id), secret;
    enum err e = secret_encrypt(tx_env(tx), sim_master_key, name, STR("whsec_c2ltdWxhdGVk"),
                                tx_arena(tx), &secret);
    if (!e)
        e = webhook_insert(tx, &w, secret, info);
    return e ? e : webhook_set(tx, 0, id, false, info);
}

/* The one that never answers wants little: each of its events is tried for a day. */
static enum err insert_hooks(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    enum err e = insert_hook(tx, SIM_HOOK, "http://127.0.0.1:1/hook", 0, info);
    return e ? e
             : insert_hook(tx, SIM_HOOK_DEAD, "http://127.0.0.1:1/dead",
                           EVENT_BIT(EVENT_ORDER_PAID) | EVENT_BIT(EVENT_PAYMENT_FAILED), info);
}

void sim_run_rule(struct store *store, struct env *env, store_rule *rule, void *arg)
{
    struct err_info info = { 0 };
    struct store_job job;
    store_job_init(&job, env, NULL, 0);
    job.name = "sim";
    job.rule = rule;
    job.arg = arg;
    if (store_run(store, &job, &info) != STORE_COMMITTED)
        give_up("a rule of the stage", &info);
}

static struct store_disk *make_database(void)
{
    struct store *store;
    struct err_info info = { 0 };
    struct env_test env;
    struct store_staging staging = { .disk = store_disk_new(NULL) };
    struct store_options o = {
        .url = STR("sqlite:db"), .env = &env.env, .inline_mode = true, .staging = &staging
    };
    int applied;

    env_init_test(&env, SIM_START_MS, 1);
    sim_must(store_migrate(&o, &applied, &info), "migrate", &info);
    sim_must(store_open(&o, &store, &info), "store", &info);
    sim_run_rule(store, &env.env, insert_hooks, NULL);
    store_close(store);
    return staging.disk;
}

void sim_stage_open(struct sim_stage **ret)
{
    struct arena *a = arena_new(16384);
    struct sim_stage *stage = arena_one(a, struct sim_stage);
    stage->arena = a;
    rsa_allow_short_keys();
    cast_open(a, &stage->quick, KEY_QUICK);
    stage->empty = make_database();
    *ret = stage;
}

void sim_stage_close(struct sim_stage *stage)
{
    cast_close(&stage->quick);
    if (stage->real.account[0])
        cast_close(&stage->real);
    store_disk_free(stage->empty);
    arena_free(stage->arena);
}
