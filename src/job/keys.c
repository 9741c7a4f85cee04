/* keys.c -- every hour: fetches fresh keys where a channel has them, keeps them for the next start,
 * and looks how long those we hold will last. At 30, 7 and 1 days before the end an incident is
 * opened, one for each; not for a key whose successor is there already. */
#include "base/log.h"
#include "base/metrics.h"
#include "core/channel_key/channel_key.h"
#include "job/jobs.h"

#include <assert.h>
#include <stdio.h>

#define DAY_MS    (24LL * 60 * 60 * 1000)
#define NOTES_MAX 32
#define SWAPS_MAX 8 /* lost against as many reloads in a row */

/* Into whatever snapshot is current: a reload may have made another while the call was out. */
static enum err adopt(struct job_context *ctx, struct str name, const struct learnt_keys *learnt,
                      struct err_info *info)
{
    struct registry *registry = ctx->centre->registry;

    for (int i = 0; i < SWAPS_MAX; i++) {
        struct account *now = registry_ref(registry, name), *fresh = NULL;
        size_t refused = 0;
        assert(now); /* accounts come and are replaced, they never go */
        enum err e = now->info->driver->keys_add(now, learnt, &fresh, &refused, info);
        bool in_place = !e && fresh && registry_swap(registry, now, fresh);

        account_unref(now);
        if (e || !fresh)
            return e;
        if (in_place) {
            LOG(ctx->centre->env->log, LOG_INFO, "job.keys_refreshed", log_str("account", name));
            return ERR_OK;
        }
        account_unref(fresh);
    }
    return err_set(info, ERR_BUSY, "the account keeps being reloaded");
}

struct keep {
    struct str account;
    const struct learnt_keys *learnt;
};

static enum err keep_rule(struct tx *tx, void *arg, struct err_info *info)
{
    const struct keep *k = arg;
    return channel_keys_keep(tx, k->account, k->learnt, info);
}

static enum err keep(struct job_context *ctx, struct str name, const struct learnt_keys *learnt,
                     struct err_info *info)
{
    struct keep k = { name, learnt };
    struct store_job job;
    store_job_init(&job, ctx->centre->env, ctx->centre->mint, 0);
    job.name = "keys.keep";
    job.class = STORE_BACKGROUND;
    job.rule = keep_rule;
    job.arg = &k;
    return store_run(ctx->centre->store, &job, info) == STORE_COMMITTED ? ERR_OK : ERR_BUSY;
}

/* What a store in trouble cannot keep verifies all the same, and is kept at the next refresh. */
enum err keys_refresh(struct job_context *ctx, struct account *account, struct err_info *info)
{
    if (!(account->info->capabilities & CHANNEL_REFRESHES_KEYS))
        return ERR_OK;
    ARENA_AUTO a = arena_new(16384);
    struct learnt_keys learnt = { .count = 0 };
    struct channel_ctx channel = { .env = ctx->centre->env,
                                   .transport = ctx->centre->transport,
                                   .arena = a,
                                   .trace_id = STR("job:keys") };
    enum err e = account->info->driver->refresh_keys(account, &channel, &learnt, info);

    if (e || learnt.count == 0)
        return e;
    struct err_info store_info = { .err = ERR_OK };
    e = adopt(ctx, account->config.name, &learnt, info);
    enum err kept = keep(ctx, account->config.name, &learnt, &store_info);
    return e      ? e
           : kept ? err_set(info, kept, "fetched keys are not stored: %s", store_info.text)
                  : ERR_OK;
}

static enum err expiry_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return incident_open(tx, arg, NULL, info);
}

/* The threshold that has been passed: 30, 7 or 1 days; 0: none yet. */
static int threshold(int64_t days)
{
    return days <= 1 ? 1 : days <= 7 ? 7 : days <= 30 ? 30 : 0;
}

static enum err look_at(struct job_context *ctx, const struct account *account,
                        const struct key_note *note, struct arena *a, struct err_info *info)
{
    struct env *env = ctx->centre->env;
    int64_t days = (note->not_after_ms - env_now_ms(env)) / DAY_MS;
    struct str key =
        str_printf(a, STR_FMT "," STR_FMT, STR_ARG(account->config.name), STR_ARG(note->what));

    metric_set(metrics_get(env->metrics, "fenpay_key_days_left", key.p), days);
    int passed = threshold(days);
    if (!passed || note->replaced)
        return ERR_OK;

    struct incident incident = {
        .kind = INCIDENT_KEY_EXPIRING,
        .subject = { .kind = NUMBER_INCIDENT }, /* about none of our numbers */
        .discriminator = str_sub(str_printf(a, "%d days: " STR_FMT, passed, STR_ARG(key)), 0, 128),
        .detail = str_printf(a, "account " STR_FMT ": " STR_FMT " expires in %lld days",
                             STR_ARG(account->config.name), STR_ARG(note->what), (long long)days),
    };
    struct store_job job;
    store_job_init(&job, env, ctx->centre->mint, 2);
    job.name = "keys.expiring";
    job.class = STORE_BACKGROUND;
    job.rule = expiry_rule;
    job.arg = &incident;
    return store_run(ctx->centre->store, &job, info) == STORE_COMMITTED ? ERR_OK : ERR_BUSY;
}

static enum err look_at_all(struct job_context *ctx, const struct account *account,
                            struct err_info *info)
{
    ARENA_AUTO a = arena_new(4096);
    struct key_note notes[NOTES_MAX];
    enum err e = ERR_OK;

    if (!account->info->driver->keys_notes)
        return ERR_OK;
    size_t n = account->info->driver->keys_notes(account, a, notes, NOTES_MAX);
    for (size_t i = 0; i < n && !e; i++)
        if (notes[i].not_after_ms)
            e = look_at(ctx, account, &notes[i], a, info);
    return e;
}

/* One account's trouble does not keep the others from their turn. */
enum err job_keys(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    struct registry *registry = ctx->centre->registry;
    enum err first = ERR_OK;
    struct account *account;

    (void)max;
    *ret_done = 0;
    for (size_t i = 0; (account = registry_at(registry, i)); i++) {
        struct err_info why = { .err = ERR_OK };
        enum err e = keys_refresh(ctx, account, &why);
        struct account *now = registry_ref(registry, account->config.name);
        if (now) {
            enum err looked = look_at_all(ctx, now, e ? NULL : &why);
            e = e ? e : looked;
            account_unref(now);
        }
        if (e && !first) {
            first = e;
            err_set(info, e, "account " STR_FMT ": %s", STR_ARG(account->config.name), why.text);
        }
        account_unref(account);
    }
    return first;
}
