/* centre.c -- how flows run rules: one place that turns the store's outcomes into what a merchant
 * can be told.
 *
 * A rule that returns an error is our own mistake (business results are data beside ERR_OK), so it
 * is logged here with its name, and the caller hears INTERNAL or BUSY and repeats with the same
 * request id. */
#include "core/centre.h"

#include "base/log.h"

#define MINUTE_MS 60000

void centre_settings_defaults(struct centre_settings *s)
{
    *s = (struct centre_settings) {
        .environment = ENVIRONMENT_DEV,
        .payment_expire_ms = 15 * MINUTE_MS,
        .expiring_ms = 90 * 1000,
        .call_lease_ms = 15 * 1000,
        .order_amount_max_fen = 99999999,
        .query_stuck_ms = 30 * MINUTE_MS,
        .settle_sweep_ms = MINUTE_MS,
        .refund_age_ms = 3LL * 24 * 60 * 60 * 1000,
        .account_suspend_ms = 5 * MINUTE_MS,
        .paid_after_close = POLICY_REFUND,
        .paid_twice = POLICY_REFUND,
        .auto_refund_max_count = 100,
        .auto_refund_max_fen = 5000000,
        .second_person_fen = 1000000,
    };
}

struct str str_keep(struct arena *a, struct str s)
{
    return s.p ? str_dup(a, s) : STR_NONE;
}

enum code refuse(struct refusal *r, enum code code)
{
    *r = (struct refusal) { .code = code };
    return code;
}

enum code refuse_field(struct refusal *r, enum code code, const char *field, struct str detail)
{
    *r = (struct refusal) { .code = code, .field = str_of(field), .detail = detail };
    return code;
}

enum code refuse_later(struct refusal *r, enum code code, int retry_after_s)
{
    *r = (struct refusal) { .code = code, .retry_after_s = retry_after_s };
    return code;
}

static enum code refuse_internal(struct centre *c, const char *name, const struct err_info *info,
                                 struct refusal *r)
{
    LOG(c->env->log, LOG_ERROR, "rule.failed", log_cstr("rule", name),
        log_cstr("error", err_name(info->err)), log_cstr("field", info->field),
        log_cstr("text", info->text));
    return refuse(r, CODE_INTERNAL);
}

enum code centre_run(struct centre *c, const char *name, enum store_class class, unsigned slot,
                     store_rule *rule, void *arg, unsigned ids, struct refusal *refusal)
{
    struct store_job job;
    struct err_info info = { 0 };

    store_job_init(&job, c->env, c->mint, ids);
    job.name = name;
    job.class = class;
    job.slot = slot;
    job.rule = rule;
    job.arg = arg;
    switch (store_run(c->store, &job, &info)) {
    case STORE_COMMITTED:
        return CODE_OK;
    case STORE_BUSY:
        return refuse_later(refusal, CODE_BUSY, 1);
    case STORE_REFUSED:
    case STORE_UNKNOWN:
        break;
    }
    return refuse_internal(c, name, &info, refusal);
}

enum code centre_read(struct centre *c, const char *name, unsigned slot, store_rule *rule,
                      void *arg, struct refusal *refusal)
{
    struct err_info info = { 0 };

    enum err e = store_read(c->store, slot, name, rule, arg, &info);
    if (!e)
        return CODE_OK;
    if (e == ERR_BUSY || e == ERR_RETRY)
        return refuse_later(refusal, CODE_BUSY, 1);
    return refuse_internal(c, name, &info, refusal);
}

enum err shift_check(const struct centre *c, struct tx *tx, bool *ret_lost, struct err_info *info)
{
    bool ours = true;
    enum err e =
        c->shift && c->shift->lease.name.n ? lease_ours(tx, &c->shift->lease, &ours, info) : ERR_OK;

    *ret_lost = !e && !ours;
    return e;
}

enum code shift_lost(struct refusal *refusal)
{
    return refuse_later(refusal, CODE_BUSY, 1);
}

bool shift_over(const struct centre *c)
{
    return c->shift && env_mono_us(c->env) >= c->shift->until_us;
}
