/* notify.c -- a channel's callback, from bytes to answer.
 *
 * Runs on a polling thread and never blocks: everything before the store is computation on the
 * received bytes, everything after it is the answer. The order is the protocol's, not ours: verify
 * before reading, store before ok. The job and all that it points to live in the request's arena,
 * and the account's snapshot is referenced, until the request has ended. */
#include "notify/notify.h"

#include "base/buf.h"
#include "base/killpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "crypto/secret.h"
#include "notify/reject.h"

#include <stdio.h>
#include <stdlib.h>

#define BODY_MAX         65536
#define HEADERS_TEXT_MAX 12288
#define REJECTS_KEPT     1000
#define RETRY_AFTER_S    15

struct notify_service {
    struct centre *centre;
    struct rejects *rejects;
};

struct callback_job {
    struct store_job store;
    struct notify_service *svc;
    struct http_request *req;
    struct arena *arena;
    struct callback_input in;
    struct err_info info;
    enum notice_answer answer_when_stored;
    enum store_outcome outcome;
    bool keep_only;
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
    struct str account = job->in.account->config.name;
    snprintf(labels, sizeof labels, second ? STR_FMT ",%.60s" : STR_FMT "%s", STR_ARG(account),
             second ? second : "");
    return metrics_get(job->svc->centre->env->metrics, family, labels);
}

static void note_stored(const struct callback_job *job)
{
    const struct callback_input *in = &job->in;
    char kind[65];

    if (!job->keep_only)
        callback_tell(job->svc->centre, in);
    snprintf(kind, sizeof kind, STR_FMT, STR_ARG(in->notice.kind));
    metric_add(figure(job, "fenpay_callbacks_received_total", kind), 1);
    if (in->duplicate)
        metric_add(figure(job, "fenpay_callbacks_duplicate_total", NULL), 1);
    if (!in->repeated && in->notice.fact_count && in->notice.facts[0].time_ms)
        metric_observe_us(figure(job, "fenpay_callback_delay_seconds", NULL),
                          (job->store.now_ms - in->notice.facts[0].time_ms) * 1000);
}

/* ---- answering ---- */

static void answer_notice(const struct callback_job *job, enum notice_answer answer)
{
    struct notice_reply reply = { .status = 500 };

    job->in.account->info->driver->answer_notice(job->in.account, answer, &reply);
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
    struct callback_job *job = arg;
    (void)req;
    (void)answered;
    if (job->in.notice.plain.n)
        secret_wipe((void *)(uintptr_t)job->in.notice.plain.p, job->in.notice.plain.n);
    account_unref(job->in.account);
}

/* ---- before the store ---- */

/* What came with the body, for verifying it again one day; what only concerns the connection, or is
 * nobody's business, stays out. */
static struct str headers_text(struct arena *a, const struct http_headers *headers)
{
    static const char *const left_out[] = { "connection", "cookie",          "authorization",
                                            "accept",     "accept-encoding", "content-length",
                                            "host",       "expect" };
    struct buf text;

    buf_init_arena(&text, a, HEADERS_TEXT_MAX);
    for (size_t i = 0; i < headers->count; i++) {
        bool out = false;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out && !out; k++)
            out = str_eq_nocase(headers->items[i].name, str_of(left_out[k]));
        if (out)
            continue;
        buf_add_str(&text, headers->items[i].name);
        buf_add_str(&text, STR(": "));
        buf_add_str(&text, headers->items[i].value);
        buf_add_char(&text, '\n');
    }
    return buf_str(&text);
}

static struct callback_job *callback_job_new(struct arena *a, struct http_request *req,
                                             struct account *account, struct notify_service *svc)
{
    struct callback_job *job = arena_one(a, struct callback_job);
    struct str trace = http_traceparent(req);

    job->svc = svc;
    job->req = req;
    job->arena = a;
    job->start_us = env_mono_us(svc->centre->env);
    job->in.account = account;
    job->in.body = http_body(req);
    job->in.trace_id = trace.n ? trace : http_request_id(req);
    job->answer_when_stored = ANSWER_OK;
    return job;
}

static void prepare_store(struct callback_job *job, const char *name, store_rule *rule,
                          void (*done)(struct store_job *, enum store_outcome,
                                       const struct err_info *))
{
    struct centre *c = job->svc->centre;

    store_job_init(&job->store, c->env, c->mint, CALLBACK_IDS);
    job->store.name = name;
    job->store.class = STORE_CALLBACK;
    job->store.slot = job->in.subject.slot;
    job->store.rule = rule;
    job->store.arg = &job->in;
    job->store.bytes = 1024 + job->in.body.n + job->in.headers_text.n + job->in.notice.plain.n;
    job->store.done = done;
}

/* ---- after the store ---- */

static void callback_answer(struct http_request *req, void *arg);

/* On the store's thread, after the commit: only hands the outcome to the loop that owns the
 * request. */
static void callback_done(struct store_job *store_job, enum store_outcome outcome,
                          const struct err_info *info)
{
    struct callback_job *job = container_of(store_job, struct callback_job, store);

    job->outcome = outcome;
    if (info)
        job->info = *info;
    kill_point("callback.committed");
    http_finish_later(job->req, callback_answer, job);
}

/* On the polling thread again, the request still suspended. */
static void callback_answer(struct http_request *req, void *arg)
{
    struct callback_job *job = arg;
    struct env *env = job->svc->centre->env;
    (void)req;

    if (job->outcome == STORE_REFUSED && !job->keep_only) {
        /* Our bug: keep the bytes as failed, once, and settle it ourselves later. */
        LOG(env->log, LOG_ERROR, "callback.rule_failed", log_str("request_id", job->in.trace_id),
            log_str("subject", job->in.notice.subject_no), log_cstr("error", job->info.text));
        job->keep_only = true;
        job->in.reason = str_of(job->info.text);
        prepare_store(job, "callback.keep_failed", callback_rule_keep_failed, callback_done);
        if (store_reserve(job->svc->centre->store, &job->store)) {
            store_submit(job->svc->centre->store, &job->store);
            return;
        }
    }
    if (job->outcome == STORE_COMMITTED)
        note_stored(job);
    answer_notice(job, job->outcome == STORE_COMMITTED ? job->answer_when_stored : ANSWER_LATER);
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
    struct reject_sample sample = { .account = job->in.account->config.name,
                                    .detail = str_of(detail),
                                    .peer = http_peer(req),
                                    .body = job->in.body,
                                    .headers = headers_text(job->arena, http_headers(req)),
                                    .reason = job->in.notice.reason,
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

    struct notice_input input = { .body = job->in.body, .headers = http_headers(req) };
    enum notice_result result =
        account->info->driver->read_notice(account, c->env, &input, a, &job->in.notice, &job->info);
    if (result != NOTICE_OK) {
        const char *reason = notice_reason_name(job->in.notice.reason);
        metric_add(figure(job, "fenpay_callbacks_rejected_total", reason), 1);
        if (result != NOTICE_RAW_ONLY)
            say_refused(svc, req, account->config.name, reason, job->info.text);
    }
    switch (result) {
    case NOTICE_OK:
        break;
    case NOTICE_RAW_ONLY: /* verified, but we cannot decrypt it: keep the bytes, ask for another
                             delivery */
        LOG(c->env->log, LOG_ERROR, "callback.undecryptable",
            log_str("account", account->config.name), log_str("request_id", job->in.trace_id));
        job->in.raw_only = true;
        job->answer_when_stored = ANSWER_LATER;
        break;
    case NOTICE_LATER: /* a serial we do not hold yet */
        if (c->want_keys)
            c->want_keys(c->want_keys_ctx, account);
        answer_notice(job, ANSWER_LATER);
        return;
    case NOTICE_BAD:
        reject(job, job->info.text); /* memory only: a flood cannot fill the disk */
        answer_notice(job, ANSWER_BAD);
        return;
    }
    kill_point("callback.verified");

    job->in.headers_text = headers_text(a, http_headers(req));
    callback_prepare(&job->in, a);
    prepare_store(job, "callback", callback_rule, callback_done);
    if (!store_reserve(c->store, &job->store)) {
        answer_notice(job, ANSWER_LATER); /* 5xx: the channel keeps it for us */
        return;
    }
    http_suspend(req);
    store_submit(c->store, &job->store);
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
