/* intake.c -- a callback from its bytes to the answer. The order is the protocol's, not ours:
 * verify before reading, store before ok. When our own rule fails, the bytes are stored without it,
 * and the answer is success: from then on it is ours to settle. */
#include "notify/intake.h"

#include "base/buf.h"
#include "base/killpoint.h"
#include "base/log.h"

#define HEADERS_TEXT_MAX 12288

/* What only concerns the connection, or is nobody's business, stays out. */
struct str intake_headers_text(struct arena *a, const struct http_headers *headers)
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

static void prepare_store(struct intake *k, const char *name, store_rule *rule)
{
    void (*done)(struct store_job *, enum store_outcome, const struct err_info *) = k->store.done;

    store_job_init(&k->store, k->centre->env, k->centre->mint, CALLBACK_IDS);
    k->store.name = name;
    k->store.class = STORE_CALLBACK;
    k->store.slot = k->in.subject.slot;
    k->store.rule = rule;
    k->store.arg = &k->in;
    k->store.bytes = 1024 + k->in.body.n + k->in.headers_text.n + k->in.notice.plain.n;
    k->store.done = done;
}

bool intake_read(struct intake *k, const struct http_headers *headers, struct arena *a,
                 enum notice_result *ret)
{
    struct centre *c = k->centre;
    struct account *account = k->in.account;
    struct notice_input input = { .body = k->in.body, .headers = headers };

    *ret = account->info->driver->read_notice(account, c->env, &input, a, &k->in.notice, &k->info);
    switch (*ret) {
    case NOTICE_OK:
        k->answer = ANSWER_OK;
        break;
    case NOTICE_RAW_ONLY: /* verified, but we cannot decrypt it: keep the bytes, ask for another
                             delivery */
        LOG(c->env->log, LOG_ERROR, "callback.undecryptable",
            log_str("account", account->config.name), log_str("request_id", k->in.trace_id));
        k->in.raw_only = true;
        k->answer = ANSWER_LATER;
        break;
    case NOTICE_LATER: /* a serial we do not hold yet */
        if (c->want_keys)
            c->want_keys(c->want_keys_ctx, account);
        k->answer = ANSWER_LATER;
        return false;
    case NOTICE_BAD:
        k->answer = ANSWER_BAD;
        return false;
    }
    kill_point("callback.verified");
    k->in.headers_text = intake_headers_text(a, headers);
    callback_prepare(&k->in, a);
    prepare_store(k, "callback", callback_rule);
    return true;
}

bool intake_stored(struct intake *k, enum store_outcome outcome, const struct err_info *info)
{
    if (outcome == STORE_REFUSED && mutation_on(MUTATION_BYTES_LOST))
        return false;
    if (outcome == STORE_REFUSED && !k->keep_only) {
        k->info = *info;
        LOG(k->centre->env->log, LOG_ERROR, "callback.rule_failed",
            log_str("request_id", k->in.trace_id), log_str("subject", k->in.notice.subject_no),
            log_cstr("error", k->info.text));
        k->keep_only = true;
        k->in.reason = str_of(k->info.text);
        prepare_store(k, "callback.keep_failed", callback_rule_keep_failed);
        return true;
    }
    if (outcome == STORE_COMMITTED && !k->keep_only)
        callback_tell(k->centre, &k->in);
    if (outcome != STORE_COMMITTED)
        k->answer = ANSWER_LATER;
    return false;
}
