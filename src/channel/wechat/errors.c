/* errors.c -- what an answer that is no success means, per call: one table, code by code (protocol
 * sheet 9).
 *
 * Codes are compared without underscores, in any case: documents and services use both spellings.
 * The code decides, the status is the fallback, except for 202 and 429 where the status is the
 * message. What is not known for certain to have changed nothing is asked about (QUERY) or UNKNOWN,
 * never FINAL: a wrong FINAL loses a payment, a needless query costs one call. A query cannot be
 * answered with "query first", so there the ladder simply goes on (RETRY), and only "does not
 * exist" is FINAL. */
#include "channel/wechat/wechat.h"

#define RETRY                                                                                      \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_RETRY                                                               \
    }
#define QUERY                                                                                      \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_QUERY                                                               \
    }
#define FINAL                                                                                      \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_FINAL                                                               \
    }
#define ACCOUNT                                                                                    \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_ACCOUNT                                                             \
    }
#define PERSON                                                                                     \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_PERSON                                                              \
    }
#define UNKNOWN                                                                                    \
    {                                                                                              \
        CHANNEL_UNKNOWN, CLASS_NONE                                                                \
    }
#define ABSENT                                                                                     \
    {                                                                                              \
        CHANNEL_REFUSED, CLASS_FINAL, true                                                         \
    }

static const struct row {
    const char *code; /* without underscores */
    struct wechat_verdict by_op[WECHAT_OPS];
} rows[] = {
    /* clang-format off */
    /*                          prepay   query    close    refund   q.refund certs.   bill */
    { "USERPAYING",           { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "PARAMERROR",           { FINAL,   PERSON,  PERSON,  FINAL,   PERSON,  ACCOUNT, PERSON } },
    { "INVALIDREQUEST",       { QUERY,   PERSON,  QUERY,   QUERY,   PERSON,  ACCOUNT, RETRY } },
    { "APPIDMCHIDNOTMATCH",   { ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT } },
    { "MCHNOTEXISTS",         { ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT } },
    { "ORDERCLOSED",          { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "ORDERPAID",            { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "NOSTATEMENTEXIST",     { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   ABSENT } },
    { "STATEMENTCREATING",    { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "SIGNERROR",            { ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT } },
    { "NOAUTH",               { ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT } },
    { "OUTTRADENOUSED",       { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "RULELIMIT",            { FINAL,   PERSON,  PERSON,  PERSON,  PERSON,  PERSON,  PERSON } },
    { "TRADEERROR",           { QUERY,   RETRY,   QUERY,   QUERY,   RETRY,   RETRY,   RETRY } },
    { "ACCOUNTERROR",         { FINAL,   PERSON,  FINAL,   PERSON,  PERSON,  PERSON,  PERSON } },
    { "NOTENOUGH",            { QUERY,   RETRY,   QUERY,   PERSON,  RETRY,   RETRY,   RETRY } },
    { "USERACCOUNTABNORMAL",  { QUERY,   RETRY,   QUERY,   PERSON,  RETRY,   RETRY,   RETRY } },
    { "ORDERNOTEXIST",        { QUERY,   ABSENT,  QUERY,   FINAL,   RETRY,   RETRY,   RETRY } },
    { "RESOURCENOTEXISTS",    { QUERY,   ABSENT,  QUERY,   FINAL,   ABSENT,  ACCOUNT, RETRY } },
    { "SYSTEMERROR",          { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN } },
    { "BANKERROR",            { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN } },
    { "OPENIDMISMATCH",       { FINAL,   PERSON,  PERSON,  FINAL,   PERSON,  PERSON,  PERSON } },
    { "INVALIDTRANSACTIONID", { FINAL,   PERSON,  PERSON,  FINAL,   PERSON,  PERSON,  PERSON } },
    { "SERVICEUNAVAILABLE",   { UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN } },
    { "TRADEOVERDUE",         { QUERY,   RETRY,   QUERY,   PERSON,  RETRY,   RETRY,   RETRY } },
    { "REFUNDFEEMISMATCH",    { QUERY,   RETRY,   QUERY,   PERSON,  RETRY,   RETRY,   RETRY } },
    { "BIZERRNEEDRETRY",      { QUERY,   RETRY,   QUERY,   UNKNOWN, RETRY,   RETRY,   RETRY } },
    { "ERROR",                { QUERY,   RETRY,   QUERY,   UNKNOWN, RETRY,   RETRY,   RETRY } },
    { "INVALIDREQTOOMUCH",    { RETRY,   RETRY,   RETRY,   UNKNOWN, RETRY,   RETRY,   RETRY } },
    /* clang-format on */
};

/* Where the code says nothing. 202 and 429 on a refund are no refusal: it may be accepted all the
 * same. */
static const struct wechat_verdict busy[WECHAT_OPS] = { RETRY, RETRY, RETRY, UNKNOWN,
                                                        RETRY, RETRY, RETRY };
static const struct wechat_verdict account_broken = ACCOUNT;
static const struct wechat_verdict unknown = UNKNOWN;
static const struct wechat_verdict unlisted[WECHAT_OPS] = { QUERY, RETRY, QUERY, QUERY,
                                                            RETRY, RETRY, RETRY };

/* `code` with its underscores left out equals `normal`, in any case. */
static bool same_code(struct str code, const char *normal)
{
    for (size_t i = 0; i < code.n; i++) {
        char c = code.p[i];
        if (c == '_')
            continue;
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        if (c != *normal || !*normal)
            return false;
        normal++;
    }
    return !*normal;
}

static const struct row *find_row(struct str code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (same_code(code, rows[i].code))
            return &rows[i];
    }
    return NULL;
}

struct wechat_verdict wechat_judge(enum wechat_op op, int status, struct str code)
{
    if (status == 429)
        return busy[op];
    const struct row *row = find_row(code);
    if (row)
        return row->by_op[op];
    if (status == 202)
        return busy[op];
    /* A wrong path, method or host: what answers there is not the API (a 404 without a code is not
     * "no such order"). */
    if (status == 401 || ((status == 404 || status == 405) && code.n == 0))
        return account_broken;
    if (status >= 400 && status < 500)
        return unlisted[op];
    return unknown;
}
