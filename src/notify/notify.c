/* notify.c -- the listener for callbacks: a request in, an answer out; what happens between is
 * intake.c's.
 *
 * Runs on a polling thread and never blocks: everything before the store is computation on the
 * received bytes, everything after it is the answer. The job and all that it points to live in the
 * request's arena, and the account's snapshot is referenced, until the request has ended. */
#include "notify/notify.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "crypto/secret.h"
#include "notify/intake.h"
#include "notify/reject.h"

#include <stdio.h>
#include <stdlib.h>

#define BODY_MAX      65536
#define REJECTS_KEPT  1000
#define RETRY_AFTER_S 15

struct notify_service {
    struct centre *centre;
    struct rejects *rejects;
};

struct callback_job {
    struct intake intake;
    struct notify_service *svc;
    struct http_request *req;
    struct arena *arena;
    enum store_outcome outcome;
    struct err_info info; /* beside the outcome */
    int64_t start_us;
};

struct notify_service *notify_new(struct centre *centre, bool behind_proxy)
{
    struct notify_service *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->centre = centre;
    s->rejects = rejects_new(centre->env, !behind_proxy);
    return s;
}

void notify_free(struct notify_service *s)
{
    if (!s)
        return;
    rejects_free(s->rejects);
    free(s);
}

/* ---- figures ---- */

static struct metric *figure(const struct callback_job *job, const char *family, const char *second)
{
    char labels[128];
    struct str account = job->intake.in.account->config.name;
    snprintf(labels, sizeof labels, second ? STR_FMT ",%.60s" : STR_FMT "%s", STR_ARG(account),
             second ? second : "");
    return metrics_get(job->svc->centre->env->metrics, family, labels);
}

static void note_stored(const struct callback_job *job)
{
    const struct callback_input *in = &job->intake.in;
    char kind[65];

    snprintf(kind, sizeof kind, STR_FMT, STR_ARG(in->notice.kind));
    metric_add(figure(job, "fenpay_callbacks_received_total", kind), 1);
    if (in->duplicate)
        metric_add(figure(job, "fenpay_callbacks_duplicate_total", NULL), 1);
    if (!in->repeated && in->notice.fact_count && in->notice.facts[0].time_ms)
        metric_observe_us(figure(job, "fenpay_callback_delay_seconds", NULL),
                          (job->intake.store.now_ms - in->notice.facts[0].time_ms) * 1000);
}

/* ---- answering ---- */

static void answer_notice(const struct callback_job *job, enum notice_answer answer)
{
    const struct account *account = job->intake.in.account;
    struct notice_reply reply = { .status = 500 };

    account->info->driver->answer_notice(account, answer, &reply);
    if (answer == ANSWER_LATER)
        http_answer_retry_after(job->req, RETRY_AFTER_S);
    http_answer(job->req, reply.status, reply.content_type, reply.body);
    metric_observe_us(figure(job, "fenpay_callback_seconds", NULL),
                      env_mono_us(http_env(job->req)) - job->start_us);
    kill_point("callback.answered");
}

/* The request has ended: what was decrypted is wiped before the arena goes. */
static void callback_over(struct http_request *req, bool answered, void *arg)
{
    struct callback_input *in = &((struct callback_job *)arg)->intake.in;
    (void)req;
    (void)answered;
    if (in->notice.plain.n)
        secret_wipe((void *)(uintptr_t)in->notice.plain.p, in->notice.plain.n);
    account_unref(in->account);
}

/* ---- after the store ---- */

/* On the polling thread again, the request still suspended. */
static void callback_answer(struct http_request *req, void *arg)
{
    struct callback_job *job = arg;
    struct intake *k = &job->intake;
    struct store *store = job->svc->centre->store;
    (void)req;

    if (intake_stored(k, job->outcome, &job->info) && store_reserve(store, &k->store)) {
        store_submit(store, &k->store);
        return;
    }
    if (job->outcome == STORE_COMMITTED)
        note_stored(job);
    answer_notice(job, job->outcome == STORE_COMMITTED ? k->answer : ANSWER_LATER);
}

/* On the store's thread, after the commit: only hands the outcome to the loop that owns the
 * request. */
static void callback_done(struct store_job *store_job, enum store_outcome outcome,
                          const struct err_info *info)
{
    struct callback_job *job = container_of(store_job, struct callback_job, intake.store);

    job->outcome = outcome;
    if (info)
        job->info = *info;
    kill_point("callback.committed");
    http_finish_later(job->req, callback_answer, job);
}

/* ---- before the store ---- */

static struct callback_job *callback_job_new(struct arena *a, struct http_request *req,
                                             struct account *account, struct notify_service *svc)
{
    struct callback_job *job = arena_one(a, struct callback_job);
    struct str trace = http_traceparent(req);

    job->svc = svc;
    job->req = req;
    job->arena = a;
    job->start_us = env_mono_us(svc->centre->env);
    job->intake.centre = svc->centre;
    job->intake.in.account = account;
    job->intake.in.body = http_body(req);
    job->intake.in.trace_id = trace.n ? trace : http_request_id(req);
    job->intake.store.done = callback_done;
    return job;
}

/* ---- the way in ---- */

/* The figures count every one; the lines are for finding out who and why. */
static void say_refused(struct notify_service *svc, struct http_request *req, struct str account,
                        const char *reason, const char *detail)
{
    int64_t unsaid;
    if (!rejects_say(svc->rejects, account, reason, &unsaid))
        return;
    LOG(svc->centre->env->log, LOG_WARN, "callback.refused", log_str("account", account),
        log_cstr("reason", reason), log_cstr("detail", detail), log_str("peer", http_peer(req)),
        log_str("request_id", http_request_id(req)), log_int("suppressed", unsaid));
}

static void reject(struct callback_job *job, const char *detail)
{
    struct http_request *req = job->req;
    const struct callback_input *in = &job->intake.in;
    struct reject_sample sample = { .account = in->account->config.name,
                                    .detail = str_of(detail),
                                    .peer = http_peer(req),
                                    .body = in->body,
                                    .headers = intake_headers_text(job->arena, http_headers(req)),
                                    .reason = in->notice.reason,
                                    .time_ms = http_received_ms(req) };
    rejects_note(job->svc->rejects, &sample);
}

static void notify_handle(struct http_request *req, void *service)
{
    struct notify_service *svc = service;
    struct centre *c = svc->centre;
    struct account *account = registry_ref(c->registry, http_param(req, "account"));
    if (!account) { /* the name is anybody's: it makes no line of its own */
        say_refused(svc, req, STR_NONE, "unknown_account",
                    str_cstr(http_arena(req), str_sub(http_param(req, "account"), 0, 64)));
        http_answer(req, 404, "application/json",
                    STR("{\"code\":\"UNKNOWN_ACCOUNT\",\"message\":\"no such account\"}"));
        return;
    }

    struct arena *a = http_arena(req);
    struct callback_job *job = callback_job_new(a, req, account, svc);
    http_on_done(req, callback_over, job);

    if (rejects_refuses(svc->rejects, http_peer(req))) {
        metric_add(figure(job, "fenpay_callbacks_rejected_total", "limited"), 1);
        say_refused(svc, req, account->config.name, "limited",
                    "too many forged signatures from this address lately");
        answer_notice(job, ANSWER_LATER);
        return;
    }

    struct intake *k = &job->intake;
    enum notice_result result;
    bool to_store = intake_read(k, http_headers(req), a, &result);
    if (result != NOTICE_OK) {
        const char *reason = notice_reason_name(k->in.notice.reason);
        metric_add(figure(job, "fenpay_callbacks_rejected_total", reason), 1);
        if (result != NOTICE_RAW_ONLY)
            say_refused(svc, req, account->config.name, reason, k->info.text);
    }
    if (result == NOTICE_BAD)
        reject(job, k->info.text); /* memory only: a flood cannot fill the disk */
    if (!to_store) {
        answer_notice(job, k->answer);
        return;
    }
    if (!store_reserve(c->store, &k->store)) {
        answer_notice(job, ANSWER_LATER); /* 5xx: the channel keeps it for us */
        return;
    }
    http_suspend(req);
    store_submit(c->store, &k->store);
    kill_point("callback.submitted"); /* nothing of the request may be touched here */
}

const struct http_route notify_routes[] = {
    { .method = "POST",
      .path = "/notify/{account}",
      .flags = HTTP_RAW_PATH | HTTP_OPEN,
      .body_max = BODY_MAX,
      .handler = notify_handle },
    { .method = NULL },
};

/* ---- samples to disk ---- */

struct flush {
    struct reject_sample samples[REJECT_SAMPLES];
    size_t n;
};

static enum err flush_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct flush *f = arg;
    enum err e = ERR_OK;
    for (size_t i = 0; i < f->n && !e; i++)
        e = callback_reject_insert(tx, &f->samples[i], REJECTS_KEPT, info);
    return e;
}

enum err notify_flush_rejects(struct notify_service *s, struct err_info *info)
{
    ARENA_AUTO a = arena_new(65536);
    struct flush *f = arena_one(a, struct flush);
    struct store_job job;

    f->n = rejects_take(s->rejects, a, f->samples, REJECT_SAMPLES);
    if (!f->n)
        return ERR_OK;
    store_job_init(&job, s->centre->env, s->centre->mint, (unsigned)f->n);
    job.name = "callback.rejects";
    job.class = STORE_BACKGROUND;
    job.rule = flush_rule;
    job.arg = f;
    return store_run(s->centre->store, &job, info) == STORE_COMMITTED ? ERR_OK : ERR_BUSY;
}
