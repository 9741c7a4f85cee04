/* jobs.c -- a day's backlog for the query job: so many payments due at once, all known to the
 * in-process sandbox, each asked about with real signatures both ways.
 *
 * The jobs run on the caller, one turn after the other, so a turn's time bounds that of the longest
 * run in it. One in PAID_SHARE was paid and its callback lost: those settle their orders. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/seed.h"

#define PAID_SHARE 10

struct due {
    int64_t now_ms, left, paid;
};

static enum err due_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due *d = arg;
    return seed_make_due(tx, d->now_ms, info);
}

static enum err left_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due *d = arg;
    return seed_count_due(tx, d->now_ms, &d->left, &d->paid, info);
}

/* The channel's side of what the template holds. */
static enum err make_trades(const struct bench_site *b, struct runtime *r, struct sandbox *sandbox,
                            struct err_info *info)
{
    struct account *account = registry_ref(r->registry, STR(DEV_ACCOUNT));
    const struct channel_driver *driver = account->info->driver;
    enum err e = ERR_OK;
    for (size_t i = 0; i < b->payment_count && !e; i++) {
        ARENA_AUTO a = arena_new(16384);
        struct channel_ctx ctx = { .env = r->env,
                                   .transport = sandbox_transport(sandbox),
                                   .arena = a,
                                   .trace_id = STR("bench") };
        struct channel_request request;
        struct channel_answer answer = { 0 };
        struct prepay prepay = { .method = METHOD_NATIVE,
                                 .pay_no = number_str(a, b->payments[i]),
                                 .description = STR("tea"),
                                 .expire_ms = env_now_ms(r->env) / 1000 * 1000 + 86400000 };
        if ((e = money_of(8800, STR("CNY"), &prepay.amount)) ||
            (e = driver->prepay_build(account, &prepay, a, &request, info)))
            break;
        driver->prepay(account, &ctx, METHOD_NATIVE, &request, &answer);
        if (answer.outcome != CHANNEL_DONE)
            e = err_set(info, ERR_INTERNAL, "the sandbox took no prepay");
        else if (i % PAID_SHARE == 0)
            e = sandbox_pay(sandbox, prepay.pay_no, info);
    }
    account_unref(account);
    return e;
}

static enum err turns(struct runtime *r, struct due *d, struct bench_jobs *ret,
                      struct err_info *info)
{
    int64_t start_us = env_mono_us(r->env), before_us = start_us;
    enum err e = ERR_OK;
    do {
        size_t done;
        e = scheduler_turn(r->scheduler, &done, info);
        int64_t now_us = env_mono_us(r->env);
        ret->turns++;
        if (now_us - before_us > ret->longest_turn_us)
            ret->longest_turn_us = now_us - before_us;
        before_us = now_us;
        if (!e && ret->turns % 10 == 0)
            e = store_read(r->store, 0, "bench.left", left_rule, d, info);
    } while (!e && d->left);
    ret->took_us = env_mono_us(r->env) - start_us;
    ret->paid = d->paid;
    return e;
}

enum err bench_jobs_run(const struct bench_site *b, struct bench_jobs *ret, struct err_info *info)
{
    struct env env;
    struct sandbox *sandbox = NULL;
    struct runtime *r = NULL;
    env_init_real(&env, NULL, NULL);
    struct sandbox_options so = { .env = &env, .wechat_count = 1, .manual = true };
    so.wechat[0] = b->site.wechat;
    enum err e = sandbox_new(&so, &sandbox, info);
    if (!e)
        e = bench_site_reset(b, info);

    struct settings s = b->site.settings;
    struct runtime_options ro = { .settings = &s,
                                  .env = &env,
                                  .transport = sandbox ? sandbox_transport(sandbox) : NULL,
                                  .roles = ROLE_JOB | ROLE_CONSUMER,
                                  .manual = true };
    s.store.url = str_printf(b->arena, "sqlite:%s/run.db", b->dir);
    *ret = (struct bench_jobs) { 0 };
    if (!e)
        e = runtime_open(&ro, &r, info);
    if (!e)
        e = make_trades(b, r, sandbox, info);
    struct due d = { .now_ms = env_now_ms(&env), .left = 1 };
    struct refusal refusal = { 0 };
    if (!e && centre_run(&r->centre, "bench.due", STORE_BACKGROUND, 0, due_rule, &d, 0, &refusal))
        e = err_set(info, ERR_INTERNAL, "the backlog was not made");
    if (!e)
        e = turns(r, &d, ret, info);
    if (!e && ret->paid != (int64_t)((b->payment_count + PAID_SHARE - 1) / PAID_SHARE))
        e = err_set(info, ERR_INTERNAL, "%lld payments were found to be paid",
                    (long long)ret->paid);
    if (r)
        runtime_close(r);
    sandbox_free(sandbox);
    return e;
}
