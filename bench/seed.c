/* seed.c -- the site under test: keys, a configuration as a user writes it, and a template database
 * with many payments waiting to be paid. */
#include "bench/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/payment/flow.h"

#define CLONES_A_RULE 128

/* One payment through the whole way: order, prepay request, the sandbox's signed answer. */
static enum err make_model(struct runtime *r, int64_t caller, struct arena *a, struct payment *ret,
                           struct err_info *info)
{
    struct act act = { .caller = { caller, STR("bench") },
                       .actor = STR("caller:bench"),
                       .trace_id = STR("bench"),
                       .arena = a };
    struct order_new order = { .merchant_order_no = STR("model"),
                               .user_id = STR("u-1"),
                               .subject = STR("龙井茶 250g"),
                               .has_amount = true,
                               .amount_fen = 8800,
                               .currency = STR("CNY"),
                               .inline_order = true };
    struct payment_new n = { .inline_order = &order,
                             .merchant_order_no = order.merchant_order_no,
                             .user_id = order.user_id,
                             .channel = CHANNEL_WECHAT,
                             .method = STR("native") };
    enum payment_started how;
    struct refusal refusal = { 0 };
    enum code code = payment_start(&r->centre, &act, &n, ret, &how, &refusal);
    if (code || how != PAYMENT_STARTED)
        return err_set(info, ERR_INTERNAL, "the model payment was not made: %s " STR_FMT,
                       code_info(code)->name, STR_ARG(refusal.detail));
    return ERR_OK;
}

struct clones {
    struct seed seeds[CLONES_A_RULE];
    size_t n;
};

static enum err clone_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct clones *c = arg;
    enum err e = ERR_OK;
    for (size_t i = 0; i < c->n && !e; i++)
        e = seed_clone(tx, &c->seeds[i], info);
    return e;
}

static enum err clone_all(struct runtime *r, const struct payment *model, struct bench_site *b,
                          struct err_info *info)
{
    struct clones *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    enum err e = ERR_OK;
    for (size_t done = 0; done < b->payment_count && !e; done += c->n) {
        c->n = b->payment_count - done < CLONES_A_RULE ? b->payment_count - done : CLONES_A_RULE;
        int64_t first = mint_ids(r->mint, CLONES_A_RULE * 2);
        for (size_t i = 0; i < c->n; i++) {
            struct number order = number_make(NUMBER_ORDER, model->no.slot, first + (int64_t)i * 2);
            struct number payment =
                number_make(NUMBER_PAYMENT, model->no.slot, first + (int64_t)i * 2 + 1);
            c->seeds[i] =
                (struct seed) { model->order_no, model->no, order, payment, model->expire_ms };
            b->payments[done + i] = payment;
        }
        struct refusal refusal = { 0 };
        if (centre_run(&r->centre, "bench_seed", STORE_BACKGROUND, model->no.slot, clone_rule, c, 0,
                       &refusal))
            e = err_set(info, ERR_INTERNAL, "cloning failed: " STR_FMT, STR_ARG(refusal.detail));
    }
    free(c);
    return e;
}

static enum err make_template(struct bench_site *b, struct err_info *info)
{
    struct env env;
    struct sandbox *sandbox = NULL;
    struct runtime *r = NULL;
    env_init_real(&env, NULL, NULL);
    struct sandbox_options so = { .env = &env, .wechat_count = 1, .manual = true };
    so.wechat[0] = b->site.wechat;
    enum err e = sandbox_new(&so, &sandbox, info);
    if (e)
        return e;

    struct settings s = b->site.settings;
    struct payment model;
    int64_t caller;
    struct runtime_options ro = { .settings = &s,
                                  .env = &env,
                                  .transport = sandbox_transport(sandbox),
                                  .roles = ROLE_API,
                                  .migrate = true,
                                  .manual = true };
    s.store.url = str_printf(b->arena, "sqlite:%s/template.db", b->dir);
    s.payment.expire_ms = 86400000; /* nothing falls due during a run */
    e = runtime_open(&ro, &r, info);
    if (!e)
        e = caller_create(&r->centre, STR("bench"),
                          PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY, b->arena, &caller,
                          &b->bearer, info);
    if (!e)
        e = make_model(r, caller, b->arena, &model, info);
    if (!e)
        e = clone_all(r, &model, b, info);
    if (r)
        runtime_close(r);
    sandbox_free(sandbox);
    return e;
}

static void remove_database(const struct bench_site *b, const char *name)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        unlink(str_cstr(b->arena, str_printf(b->arena, "%s/%s.db%s", b->dir, name, suffixes[i])));
}

enum err bench_site_make(const char *dir, size_t payments, struct arena *a, struct bench_site *ret,
                         struct err_info *info)
{
    struct bench_site b = { .arena = a, .dir = dir, .payment_count = payments };
    struct env env;
    env_init_real(&env, NULL, NULL);
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_set(info, ERR_IO, "%s: cannot be made (%m)", dir);
    b.payments = calloc(payments, sizeof *b.payments);
    if (!b.payments)
        abort();
    remove_database(&b, "template"); /* of an earlier bench */
    const char *keys = str_cstr(a, str_printf(a, "%s/keys", dir));
    enum err e = dev_site_make(keys, STR("http://127.0.0.1:8088"),
                               STR("http://127.0.0.1:8443/notify"), &env, a, &b.site, info);
    if (!e)
        e = make_template(&b, info);
    if (e)
        return e;
    *ret = b;
    return ERR_OK;
}

static enum err copy_file(const char *from, const char *to, struct err_info *info)
{
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    enum err e =
        in < 0 || out < 0 ? err_set(info, ERR_IO, "%s: cannot be copied (%m)", from) : ERR_OK;
    /* A page at a time: a bulk copy leaves folios of megabytes in the page cache, and then each 4
     * KB that the server writes costs a walk over all the blocks of one. */
    char page[4096];
    for (ssize_t n; !e && (n = read(in, page, sizeof page)) != 0;)
        if (n < 0 || write(out, page, (size_t)n) != n)
            e = err_set(info, ERR_IO, "%s: cannot be copied (%m)", from);
    if (!e && fsync(out))
        e = err_set(info, ERR_IO, "%s: cannot be synced (%m)", to);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return e;
}

enum err bench_site_reset(const struct bench_site *b, struct err_info *info)
{
    remove_database(b, "run");
    struct settings s = b->site.settings;
    s.store.url = str_printf(b->arena, "sqlite:%s/run.db", b->dir);
    s.api.listen = s.notify.listen = s.ops.listen = STR("127.0.0.1:0");
    s.api.per_address_max = s.notify.per_address_max = 0; /* the generator is one address */
    s.limits.rate_per_s = s.limits.rate_burst = 10000000;
    s.log.level = LOG_INFO;
    enum err e = copy_file(str_cstr(b->arena, str_printf(b->arena, "%s/template.db", b->dir)),
                           str_cstr(b->arena, str_printf(b->arena, "%s/run.db", b->dir)), info);
    if (e)
        return e;
    return dev_write_config(&s, str_cstr(b->arena, str_printf(b->arena, "%s/keys", b->dir)),
                            str_cstr(b->arena, str_printf(b->arena, "%s/fenpay.yaml", b->dir)),
                            info);
}

static enum err read_counts(const struct bench_site *b, store_rule *rule, void *ret,
                            struct err_info *info)
{
    struct env env;
    struct store *store;
    struct store_options so = { .url = str_printf(b->arena, "sqlite:%s/run.db", b->dir),
                                .env = &env,
                                .second_writer = true };
    env_init_real(&env, NULL, NULL);
    enum err e = store_open(&so, &store, info);
    if (e)
        return e;
    e = store_read(store, 0, "bench_count", rule, ret, info);
    store_close(store);
    return e;
}

enum err bench_site_count(const struct bench_site *b, struct bench_counts *ret,
                          struct err_info *info)
{
    return read_counts(b, seed_count, ret, info);
}

enum err bench_site_pending(const struct bench_site *b, int64_t *ret, struct err_info *info)
{
    return read_counts(b, seed_pending, ret, info);
}
