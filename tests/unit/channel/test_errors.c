/* Every line of the error table (protocol sheet 9): code, HTTP status as documented, call, and what
 * follows from it. */
#include "channel_testing.h"

#include <stdio.h>

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

static const struct line {
    const char *code;
    int status;
    enum wechat_op op;
    struct wechat_verdict expected;
} lines[] = {
    { "", 202, WECHAT_PREPAY, RETRY },
    { "", 202, WECHAT_REFUND, UNKNOWN },
    { "USERPAYING", 202, WECHAT_CLOSE, QUERY },
    { "USER_PAYING", 202, WECHAT_PREPAY, QUERY },
    { "PARAM_ERROR", 400, WECHAT_PREPAY, FINAL },
    { "PARAM_ERROR", 400, WECHAT_REFUND, FINAL },
    { "PARAM_ERROR", 400, WECHAT_QUERY, PERSON },
    { "INVALID_REQUEST", 400, WECHAT_PREPAY, QUERY },
    { "INVALID_REQUEST", 400, WECHAT_CLOSE, QUERY },
    { "INVALID_REQUEST", 400, WECHAT_REFUND, QUERY },
    { "APPID_MCHID_NOT_MATCH", 400, WECHAT_PREPAY, ACCOUNT },
    { "MCH_NOT_EXISTS", 400, WECHAT_PREPAY, ACCOUNT },
    { "MCH_NOT_EXISTS", 404, WECHAT_REFUND, ACCOUNT },
    { "ORDER_CLOSED", 400, WECHAT_PREPAY, QUERY },
    { "ORDERPAID", 400, WECHAT_PREPAY, QUERY },
    { "ORDER_PAID", 400, WECHAT_CLOSE, QUERY },
    { "NO_STATEMENT_EXIST", 400, WECHAT_BILL, ABSENT },
    { "STATEMENT_CREATING", 400, WECHAT_BILL, RETRY },
    { "SIGN_ERROR", 401, WECHAT_PREPAY, ACCOUNT },
    { "SIGN_ERROR", 401, WECHAT_QUERY, ACCOUNT },
    { "SIGN_ERROR", 401, WECHAT_REFUND, ACCOUNT },
    { "NO_AUTH", 403, WECHAT_PREPAY, ACCOUNT },
    { "NOAUTH", 403, WECHAT_BILL, ACCOUNT },
    { "OUT_TRADE_NO_USED", 403, WECHAT_PREPAY, QUERY },
    { "RULE_LIMIT", 403, WECHAT_PREPAY, FINAL },
    { "RULELIMIT", 403, WECHAT_QUERY, PERSON },
    { "RULE_LIMIT", 403, WECHAT_CLOSE, PERSON },
    { "TRADE_ERROR", 403, WECHAT_QUERY, RETRY },
    { "TRADE_ERROR", 403, WECHAT_CLOSE, QUERY },
    { "TRADE_ERROR", 403, WECHAT_PREPAY, QUERY },
    { "ACCOUNT_ERROR", 403, WECHAT_CLOSE, FINAL },
    { "NOT_ENOUGH", 403, WECHAT_REFUND, PERSON },
    { "NOTENOUGH", 403, WECHAT_REFUND, PERSON },
    { "USER_ACCOUNT_ABNORMAL", 403, WECHAT_REFUND, PERSON },
    { "ORDER_NOT_EXIST", 404, WECHAT_QUERY, ABSENT },
    { "ORDERNOTEXIST", 404, WECHAT_QUERY, ABSENT },
    { "ORDER_NOT_EXIST", 404, WECHAT_CLOSE, QUERY },
    { "RESOURCE_NOT_EXISTS", 404, WECHAT_REFUND, FINAL },
    { "RESOURCE_NOT_EXISTS", 404, WECHAT_QUERY_REFUND, ABSENT },
    { "RESOURCE_NOT_EXISTS", 404, WECHAT_CERTIFICATES, ACCOUNT },
    { "", 404, WECHAT_QUERY, ACCOUNT }, /* a wrong path is not "no such order" */
    { "", 404, WECHAT_QUERY_REFUND, ACCOUNT },
    { "", 405, WECHAT_PREPAY, ACCOUNT },
    { "FREQUENCY_LIMITED", 429, WECHAT_PREPAY, RETRY },
    { "FREQUENCY_LIMIT_EXCEED", 429, WECHAT_QUERY, RETRY },
    { "RATELIMIT_EXCEEDED", 429, WECHAT_CLOSE, RETRY },
    { "FREQUENCY_LIMITED", 429, WECHAT_REFUND, UNKNOWN },
    { "INVALID_REQUEST", 429, WECHAT_REFUND, UNKNOWN },
    { "SYSTEM_ERROR", 500, WECHAT_PREPAY, UNKNOWN },
    { "SYSTEMERROR", 500, WECHAT_REFUND, UNKNOWN },
    { "BANK_ERROR", 500, WECHAT_CLOSE, UNKNOWN },
    { "OPENID_MISMATCH", 500, WECHAT_PREPAY, FINAL },
    { "INVALID_TRANSACTIONID", 500, WECHAT_QUERY, PERSON },
    { "SERVICE_UNAVAILABLE", 503, WECHAT_PREPAY, UNKNOWN },
    { "", 502, WECHAT_REFUND, UNKNOWN },
    { "", 504, WECHAT_PREPAY, UNKNOWN },
    { "TRADE_OVERDUE", 403, WECHAT_REFUND, PERSON },
    { "REFUND_FEE_MISMATCH", 400, WECHAT_REFUND, PERSON },
    { "BIZERR_NEED_RETRY", 500, WECHAT_REFUND, UNKNOWN },
    { "ERROR", 500, WECHAT_REFUND, UNKNOWN },
    { "INVALID_REQ_TOO_MUCH", 403, WECHAT_REFUND, UNKNOWN },
    /* What nobody documented. */
    { "SOMETHING_NEW", 400, WECHAT_PREPAY, QUERY },
    { "SOMETHING_NEW", 403, WECHAT_REFUND, QUERY },
    { "SOMETHING_NEW", 404, WECHAT_QUERY, RETRY },
    { "SOMETHING_NEW", 500, WECHAT_PREPAY, UNKNOWN },
    { "", 400, WECHAT_PREPAY, QUERY },
    { "", 401, WECHAT_QUERY, ACCOUNT },
    { "", 302, WECHAT_PREPAY, UNKNOWN },
    { "", 100, WECHAT_CLOSE, UNKNOWN },
    { "param_error", 400, WECHAT_PREPAY, FINAL },
    { "PARAM_ERROR_X", 400, WECHAT_PREPAY, QUERY },
    { "PARAM_ERRO", 400, WECHAT_PREPAY, QUERY },
};

static void every_line_of_the_sheet(void **state)
{
    (void)state;
    size_t n = sizeof lines / sizeof lines[0];
    for (size_t i = 0; i < n; i++) {
        struct wechat_verdict got =
            wechat_judge(lines[i].op, lines[i].status, str_of(lines[i].code));
        if (got.outcome != lines[i].expected.outcome || got.class != lines[i].expected.class ||
            got.not_exist != lines[i].expected.not_exist)
            fail_msg("%s %d op %d: outcome %d class %d", lines[i].code, lines[i].status,
                     (int)lines[i].op, (int)got.outcome, (int)got.class);
    }
    print_message("# %zu lines\n", n);
}

/* rules.md 6: a query is never told to query first, "not exist" is only a query's, and what refuses
 * a payment or a refund for good is never a guess from the status alone. */
static void no_verdict_is_a_programming_error(void **state)
{
    (void)state;
    for (int status = 100; status < 600; status++) {
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            struct str code = str_of(lines[i].code);
            for (enum wechat_op op = WECHAT_PREPAY; op <= WECHAT_BILL; op++) {
                struct wechat_verdict v = wechat_judge(op, status, code);
                bool asks = op == WECHAT_QUERY || op == WECHAT_QUERY_REFUND;
                assert_true(v.outcome != CHANNEL_DONE);
                assert_true((v.class == CLASS_NONE) == (v.outcome == CHANNEL_UNKNOWN));
                assert_false(asks && v.class == CLASS_QUERY);
                assert_false(asks && v.class == CLASS_FINAL && !v.not_exist);
                assert_false(v.not_exist && !asks && op != WECHAT_BILL);
                assert_false(code.n == 0 && v.class == CLASS_FINAL);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_the_sheet),
        cmocka_unit_test(no_verdict_is_a_programming_error),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
