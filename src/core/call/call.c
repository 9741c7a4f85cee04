/* call.c -- the names of what stands in channel_call. */
#include "core/call/call.h"

#include <assert.h>

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
