/* call.c -- the names of what stands in channel_call, and what people are told of a call. */
#include "core/call/call.h"

#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>

#define LABEL_MAX 160

static_assert(CALL_PREPAY == 1 && CALL_QUERY == 2 && CALL_CLOSE == 3 && CALL_REFUND == 4 &&
                  CALL_QUERY_REFUND == 5,
              "call_kind is persisted");
static_assert(CHANNEL_DONE == 0 && CHANNEL_REFUSED == 1 && CHANNEL_UNKNOWN == 2,
              "channel_outcome is persisted");
static_assert(CLASS_NONE == 0 && CLASS_RETRY == 1 && CLASS_QUERY == 2 && CLASS_FINAL == 3 &&
                  CLASS_ACCOUNT == 4 && CLASS_PERSON == 5,
              "channel_class is persisted");

const char *call_kind_name(enum call_kind kind)
{
    switch (kind) {
    case CALL_PREPAY:
        return "prepay";
    case CALL_QUERY:
        return "query";
    case CALL_CLOSE:
        return "close";
    case CALL_REFUND:
        return "refund";
    case CALL_QUERY_REFUND:
        return "query_refund";
    }
    return "unknown";
}

const char *channel_outcome_name(enum channel_outcome o)
{
    switch (o) {
    case CHANNEL_DONE:
        return "done";
    case CHANNEL_REFUSED:
        return "refused";
    case CHANNEL_UNKNOWN:
        return "unknown";
    }
    return "unknown";
}

const char *channel_class_name(enum channel_class class)
{
    switch (class) {
    case CLASS_NONE:
        return "";
    case CLASS_RETRY:
        return "retry";
    case CLASS_QUERY:
        return "query";
    case CLASS_FINAL:
        return "final";
    case CLASS_ACCOUNT:
        return "account";
    case CLASS_PERSON:
        return "person";
    }
    return "";
}

void call_tell(struct env *env, enum call_kind kind, struct number subject, struct str account,
               const struct channel_answer *answer, struct str trace_id)
{
    struct number_text no = number_text(subject);
    bool alarm = answer->outcome == CHANNEL_REFUSED && answer->class == CLASS_ACCOUNT;
    char labels[LABEL_MAX];

    snprintf(labels, sizeof labels, STR_FMT ",%s,%s", STR_ARG(account), call_kind_name(kind),
             channel_outcome_name(answer->outcome));
    metric_add(metrics_get(env->metrics, "fenpay_channel_calls_total", labels), 1);
    snprintf(labels, sizeof labels, STR_FMT ",%s", STR_ARG(account), call_kind_name(kind));
    metric_observe_us(metrics_get(env->metrics, "fenpay_channel_call_seconds", labels),
                      answer->took_us);
    if (answer->outcome != CHANNEL_DONE) {
        snprintf(labels, sizeof labels, STR_FMT ",%s,%s", STR_ARG(account), call_kind_name(kind),
                 answer->outcome == CHANNEL_UNKNOWN ? "unknown"
                                                    : channel_class_name(answer->class));
        metric_add(metrics_get(env->metrics, "fenpay_channel_failures_total", labels), 1);
    }
    LOG(env->log,
        alarm                             ? LOG_ERROR
        : answer->outcome == CHANNEL_DONE ? LOG_DEBUG
                                          : LOG_WARN,
        alarm ? "channel.account_broken" : "channel.call", log_cstr("call", call_kind_name(kind)),
        log_cstr("subject", no.s), log_str("account", account),
        log_cstr("outcome", channel_outcome_name(answer->outcome)),
        log_cstr("class", channel_class_name(answer->class)), log_str("code", answer->code),
        log_str("message", answer->message), log_int("took_us", answer->took_us),
        log_str("trace_id", trace_id));
}

void call_normalise(struct env *env, enum call_kind kind, struct str account,
                    struct channel_answer *answer)
{
    bool query = kind == CALL_QUERY || kind == CALL_QUERY_REFUND;
    bool refused = answer->outcome == CHANNEL_REFUSED;

    if (refused == (answer->class != CLASS_NONE) &&
        !(query && refused && answer->class == CLASS_QUERY))
        return;
    LOG(env->log, LOG_ERROR, "channel.answer_impossible", log_cstr("call", call_kind_name(kind)),
        log_str("account", account), log_cstr("outcome", channel_outcome_name(answer->outcome)),
        log_cstr("class", channel_class_name(answer->class)));
    answer->outcome = CHANNEL_UNKNOWN;
    answer->class = CLASS_NONE;
    answer->not_exist = false;
    answer->fact_count = 0;
}
