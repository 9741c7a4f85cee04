/* invariants.c -- counts what must be zero, and tells the metrics.
 *
 * A pass goes over the payments of three days, some thousands a run and 500 a snapshot; the figures
 * change when a pass is over. What is older was looked at while it was young and moves no more on
 * its own. */
#include "base/log.h"
#include "base/metrics.h"
#include "job/jobs.h"

#include <string.h>

#define PASS_MS   (3LL * 24 * 60 * 60 * 1000)
#define PAGE_ROWS 500

struct page {
    struct job_memory *m;
    int64_t n;
};

static enum err page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct page *p = arg;
    int64_t after = p->m->invariants_after;
    struct invariants sum = p->m->invariants;
    enum err e = invariant_page(tx, &after, PAGE_ROWS, &sum, &p->n, info);

    if (!e) {
        p->m->invariants_after = after;
        p->m->invariants = sum;
    }
    return e;
}

struct figures {
    struct metrics *m;
    struct env *env;
};

/* Dead deliveries by target, the outbox, incidents: cheap enough for every run. */
static enum err figures_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct figures *f = arg;
    struct bus_stats bus;
    int64_t incidents[INCIDENT_KINDS], dead;
    struct str target = STR("");
    enum err e;

    if ((e = bus_stats(tx, &bus, info)) || (e = invariant_incidents(tx, incidents, info)))
        return e;
    metric_set(metrics_get(f->m, "fenpay_outbox_backlog", NULL), bus.pending);
    metric_set(metrics_get(f->m, "fenpay_outbox_oldest_seconds", NULL), bus.oldest_ms / 1000);
    for (int k = INCIDENT_PAID_AFTER_CLOSE; k <= INCIDENT_LEDGER_IMBALANCE; k++)
        metric_set(
            metrics_get(f->m, "fenpay_incidents_open", incident_kind_name((enum incident_kind)k)),
            incidents[k]);
    while (!(e = bus_dead_next(tx, target, &target, &dead, info)))
        metric_set(metrics_get(f->m, "fenpay_deliveries_dead", str_cstr(tx_arena(tx), target)),
                   dead);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static void publish(struct env *env, const struct invariants *s)
{
    const struct {
        const char *family, *label;
        int64_t value;
        bool must_be_zero;
    } rows[] = {
        { "fenpay_open_attempts", NULL, s->open, false },
        { "fenpay_quarantined", NULL, s->quarantined, false },
        { "fenpay_paid_unsettled", NULL, s->unsettled, true },
        { "fenpay_terminal_without_evidence", NULL, s->no_evidence, true },
        { "fenpay_invariant_violations", "overdrawn", s->overdrawn, true },
        { "fenpay_invariant_violations", "winner", s->winner, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        metric_set(metrics_get(env->metrics, rows[i].family, rows[i].label), rows[i].value);
        if (rows[i].must_be_zero && rows[i].value)
            LOG(env->log, LOG_ERROR, "job.invariant_broken",
                log_cstr("which", rows[i].label ? rows[i].label : rows[i].family),
                log_int("rows", rows[i].value));
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
    if (!e && !m->invariants_after) {
        memset(&m->invariants, 0, sizeof m->invariants);
        m->invariants_after = number_first_id(env_now_ms(c->env) - PASS_MS) - 1;
    }
    for (size_t i = 0; i < max && !e; i++) {
        struct page p = { .m = m };
        e = store_read(c->store, 0, "invariant.payments", page_rule, &p, info);
        if (!e && p.n < PAGE_ROWS) {
            publish(c->env, &m->invariants);
            m->invariants_after = 0;
            break;
        }
        env_sleep_ms(c->env, STORE_READ_PAUSE_MS);
    }
    return e;
}
