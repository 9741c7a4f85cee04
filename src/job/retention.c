/* retention.c -- lets go of what is kept for days only. */
#include "core/call/call.h"
#include "job/jobs.h"

#define CALLS_KEPT_MS (30LL * 24 * 60 * 60 * 1000)

struct calls {
    int64_t before_ms, n;
};

static enum err calls_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct calls *c = arg;
    return calls_retire(tx, c->before_ms, &c->n, info);
}

enum err job_retention(struct job_context *ctx, size_t max, size_t *ret_done, struct err_info *info)
{
    struct centre *c = ctx->centre;
    struct calls calls = { .before_ms =
                               env_now_ms(c->env) -
                               (ctx->call_retention_ms ? ctx->call_retention_ms : CALLS_KEPT_MS) };
    size_t n = 0;

    do {
        struct store_job job;
        store_job_init(&job, c->env, c->mint, 0);
        job.name = "retention.calls";
        job.class = STORE_BACKGROUND;
        job.rule = calls_rule;
        job.arg = &calls;
        if (store_run(c->store, &job, info) != STORE_COMMITTED)
            return ERR_BUSY;
        n += (size_t)calls.n;
    } while (calls.n == CALLS_RETIRE_ROWS && n < max && !shift_over(c));
    *ret_done = n;
    return ERR_OK;
}
