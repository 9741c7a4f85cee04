/* invariants.c -- counts what must be zero, and tells the metrics.
 *
 * A pass goes over what was made within three days, some thousand rows a run; the figures change
 * when a pass is over. What is older was looked at while it was young and moves no more on its own.
 */
#include "base/log.h"
#include "base/metrics.h"
#include "core/refund/refund.h"
#include "job/jobs.h"

#define PASS_MS (3LL * 24 * 60 * 60 * 1000)

static enum err step_rule(struct tx *tx, void *pass, struct err_info *info)
{
    return invariant_step(tx, pass, info);
}

struct figures {
    struct metrics *m;
    struct env *env;
};

static void set(struct figures *f, const char *family, const char *label, int64_t value)
{
    metric_set(metrics_get(f->m, family, label), value);
}

static enum err incidents(struct tx *tx, struct figures *f, struct err_info *info)
{
    struct invariant_incidents i;
    enum err e = invariant_incidents(tx, &i, info);

    if (e)
        return e;
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k < INCIDENT_KINDS_END; k++) {
        const char *kind = incident_kind_name((enum incident_kind)k);
        int64_t age_ms = i.oldest_ms[k] ? tx_now_ms(tx) - i.oldest_ms[k] : 0;
        set(f, "fenpay_incidents_open", kind, i.open[k]);
        set(f, "fenpay_incidents_oldest_seconds", kind, age_ms > 0 ? age_ms / 1000 : 0);
    }
    set(f, "fenpay_incidents_braked", NULL, i.braked);
    return ERR_OK;
}

static enum err refunds(struct tx *tx, struct figures *f, struct err_info *info)
{
    struct refund_figures r;
    enum err e = refund_figures(tx, &r, info);

    if (e)
        return e;
    int64_t age_ms = r.oldest_ms ? tx_now_ms(tx) - r.oldest_ms : 0;
    set(f, "fenpay_refunds_open", NULL, r.open);
    set(f, "fenpay_refunds_held", NULL, r.held);
    set(f, "fenpay_refunds_oldest_seconds", NULL, age_ms > 0 ? age_ms / 1000 : 0);
    return ERR_OK;
}

/* Dead deliveries by target, the outbox, refunds, incidents: cheap enough for every run. */
static enum err figures_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct figures *f = arg;
    struct bus_stats bus;
    int64_t dead;
    struct str target = STR("");
    enum err e;

    if ((e = bus_stats(tx, &bus, info)) || (e = refunds(tx, f, info)) ||
        (e = incidents(tx, f, info)))
        return e;
    set(f, "fenpay_outbox_backlog", NULL, bus.pending);
    while (!(e = bus_dead_next(tx, target, &target, &dead, info)))
        set(f, "fenpay_deliveries_dead", str_cstr(tx_arena(tx), target), dead);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static void publish(struct env *env, const struct invariant_pass *p)
{
    struct figures f = { .m = env->metrics, .env = env };

    set(&f, "fenpay_open_attempts", NULL, p->open);
    set(&f, "fenpay_quarantined", NULL, p->quarantined);
    set(&f, "fenpay_paid_unsettled", NULL, p->unsettled);
    set(&f, "fenpay_terminal_without_evidence", NULL, p->broken[BROKEN_NO_EVIDENCE]);
    for (int i = 0; i < INVARIANTS; i++) {
        const char *name = invariant_name((enum invariant)i);
        struct number_text example = number_text(p->example[i]);
        set(&f, "fenpay_invariant_violations", name, p->broken[i]);
        if (p->broken[i])
            LOG(env->log, LOG_ERROR, "job.invariant_broken", log_cstr("which", name),
                log_int("rows", p->broken[i]), log_cstr("example", example.s));
    }
}

enum err job_invariants(struct job_context *ctx, size_t max, size_t *ret_done,
                        struct err_info *info)
{
    struct centre *c = ctx->centre;
    struct job_memory *m = ctx->memory;
    struct figures f = { .m = c->env->metrics, .env = c->env };
    enum err e = store_read(c->store, 0, "invariant.figures", figures_rule, &f, info);

    *ret_done = 0;
    if (!e && !m->invariants_run)
        m->invariants = (struct invariant_pass) { .since_ms = env_now_ms(c->env) - PASS_MS };
    for (size_t i = 0; i < max && !e && !m->invariants.over && !shift_over(c); i++) {
        m->invariants_run = true;
        e = store_read(c->store, 0, "invariant.page", step_rule, &m->invariants, info);
        if (m->invariants.after_id) /* more of this table */
            env_sleep_ms(c->env, STORE_READ_PAUSE_MS);
    }
    if (m->invariants_run && m->invariants.over) {
        m->invariants_run = false;
        publish(c->env, &m->invariants);
    }
    return e;
}
