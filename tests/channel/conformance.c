/* conformance.c -- what every channel adapter owes the core, played against its stand-in: a life of
 * payments, the same number twice, every broken answer, every kind of callback. Nothing here knows
 * a channel's words; an adapter joins by an entry in `channels`.
 *
 * The invariant behind all of it: an adapter may say "unknown" too often, but never "done" or
 * "refused for good" when the channel's books say otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "channel/registry.h"
#include "crypto/x509.h"
#include "sandbox/sandbox.h"

#define NOW_MS 1700000000000LL
#define DAY_MS 86400000LL
#define FEN    8800

struct stand {
    struct transport callbacks; /* first: the sandbox's way to us */
    struct arena *arena;
    struct env_test env;
    struct sandbox *sandbox;
    struct account *account;
    int number; /* of payments so far */
    /* the last callback */
    int notices;
    enum notice_result result;
    struct notice notice;
};

static struct stand stand;

/* ---- WeChat Pay ---- */

static void open_wechat(struct stand *s)
{
    struct arena *a = s->arena;
    struct rsa_key *merchant, *platform;
    struct str cert;
    struct err_info info = { 0 };
    assert_int_equal(rsa_generate(1024, &merchant, NULL), ERR_OK);
    assert_int_equal(rsa_generate(1024, &platform, NULL), ERR_OK);
    assert_int_equal(certificate_make(platform, STR("Tenpay.com"), STR("5157F09EFDC096DE"),
                                      NOW_MS - DAY_MS, NOW_MS + 365 * DAY_MS, a, &cert, NULL),
                     ERR_OK);
    struct account_config config = {
        .name = STR("wx"),
        .environment = ENVIRONMENT_TEST,
        .api_url = STR("http://channel.test"),
        .notify_url = STR("https://pay.example.com/notify/wx"),
        .wechat = { .mchid = STR("1900000109"),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = rsa_private_pem(a, merchant),
                    .merchant_serial = STR("0C4AEF34B893"),
                    .apiv3_key = STR("0123456789abcdefABCDEF9876543210"),
                    .platform_certs = { &cert, 1 },
                    .download_certs = true },
    };
    struct sandbox_options options = {
        .env = &s->env.env,
        .wechat = { { .mchid = config.wechat.mchid,
                      .appid = config.wechat.appid,
                      .merchant_public_pem = rsa_public_pem(a, merchant),
                      .merchant_serial = config.wechat.merchant_serial,
                      .apiv3_key = config.wechat.apiv3_key,
                      .platform_key_pem = rsa_private_pem(a, platform),
                      .platform_cert_pem = cert,
                      .platform_serial = STR("5157F09EFDC096DE") } },
        .wechat_count = 1,
        .callbacks = &s->callbacks,
        .manual = true,
        .seed = 1,
    };
    if (account_open(&config, STR_NONE, &s->env.env, &s->account, &info) ||
        sandbox_new(&options, &s->sandbox, &info))
        fail_msg("%s: %s", info.field, info.text);
    rsa_unref(merchant);
    rsa_unref(platform);
}

static const struct {
    const char *name;
    void (*open)(struct stand *s);
} channels[] = {
    { "wechat", open_wechat },
};

/* ---- the stand ---- */

/* A callback on its way to us: read at once, answered as the service would. */
static void take_callback(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct stand *s = (struct stand *)t;
    struct err_info info = { 0 };
    struct notice_reply reply;
    const struct channel_driver *driver = s->account->info->driver;
    struct str body = str_dup(s->arena, call->body);
    struct notice_input in = { .body = body, .headers = &call->headers };
    (void)a;
    s->notices++;
    s->result = driver->read_notice(s->account, env, &in, s->arena, &s->notice, &info);
    driver->answer_notice(s->account,
                          s->result == NOTICE_OK    ? ANSWER_OK
                          : s->result == NOTICE_BAD ? ANSWER_BAD
                                                    : ANSWER_LATER,
                          &reply);
    *ret = (struct http_reply) { .outcome = HTTP_ANSWERED,
                                 .status = reply.status,
                                 .body = reply.body };
}

static int setup(void **state)
{
    size_t *which = *state;
    stand = (struct stand) { .callbacks = { take_callback }, .arena = arena_new(1 << 18) };
    env_init_test(&stand.env, NOW_MS, 3);
    channels[*which].open(&stand);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sandbox_free(stand.sandbox);
    account_unref(stand.account);
    arena_free(stand.arena);
    return 0;
}

static const struct channel_driver *driver(void)
{
    return stand.account->info->driver;
}

static struct channel_ctx ctx(void)
{
    return (struct channel_ctx) { .env = &stand.env.env,
                                  .transport = sandbox_transport(stand.sandbox),
                                  .arena = stand.arena };
}

static struct money fen(int64_t n)
{
    struct money m;
    assert_int_equal(money_of(n, str_of(stand.account->info->currency), &m), ERR_OK);
    return m;
}

static struct str new_number(void)
{
    return str_printf(stand.arena, "P202311150000000000%04d", ++stand.number);
}

static struct channel_request build(enum pay_method method, struct str no, int64_t amount_fen)
{
    struct prepay p = {
        .method = method,
        .pay_no = no,
        .amount = fen(amount_fen),
        .description = STR("保温杯"),
        .payer = STR("oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"),
        .client_ip = STR("203.0.113.7"),
        .expire_ms = env_now_ms(&stand.env.env) + 15 * 60000,
    };
    struct channel_request request;
    struct err_info info = { 0 };
    if (driver()->prepay_build(stand.account, &p, stand.arena, &request, &info))
        fail_msg("%s: %s", info.field, info.text);
    return request;
}

static struct channel_answer send_prepay(enum pay_method method,
                                         const struct channel_request *request)
{
    struct channel_ctx c = ctx();
    struct channel_answer answer;
    driver()->prepay(stand.account, &c, method, request, &answer);
    return answer;
}

static struct channel_answer ask(struct str no)
{
    struct channel_ctx c = ctx();
    struct channel_answer answer;
    driver()->query(stand.account, &c, no, &answer);
    return answer;
}

static struct channel_answer shut(struct str no)
{
    struct channel_ctx c = ctx();
    struct channel_answer answer;
    driver()->close(stand.account, &c, no, &answer);
    return answer;
}

static void expect_done(struct channel_answer answer, enum fact_kind kind)
{
    if (answer.outcome != CHANNEL_DONE || answer.fact_count == 0 || answer.facts[0].kind != kind)
        fail_msg("outcome %d class %d fact %d: " STR_FMT " " STR_FMT, (int)answer.outcome,
                 (int)answer.class, (int)answer.facts[0].kind, STR_ARG(answer.code),
                 STR_ARG(answer.message));
}

static void expect(struct channel_answer answer, enum channel_outcome outcome,
                   enum channel_class class)
{
    if (answer.outcome != outcome || answer.class != class || answer.fact_count)
        fail_msg("outcome %d class %d, not %d %d: " STR_FMT " " STR_FMT, (int)answer.outcome,
                 (int)answer.class, (int)outcome, (int)class, STR_ARG(answer.code),
                 STR_ARG(answer.message));
}

/* An open payment of the channel's first method; its number. */
static struct str open_payment(void)
{
    struct str no = new_number();
    enum pay_method method = stand.account->info->methods[0].method;
    struct channel_request request = build(method, no, FEN);
    expect_done(send_prepay(method, &request), FACT_ACCEPTED);
    return no;
}

static void pay(struct str no)
{
    struct err_info info = { 0 };
    if (sandbox_pay(stand.sandbox, no, &info))
        fail_msg("%s", info.text);
}

static struct str pay_one(void)
{
    struct str no = open_payment();
    pay(no);
    return no;
}

/* ---- the suite ---- */

static void every_method_opens_and_gives_the_client_something(void **state)
{
    (void)state;
    const struct channel_info *info = stand.account->info;
    for (size_t i = 0; i < info->method_count; i++) {
        enum pay_method method = info->methods[i].method;
        struct str no = new_number();
        struct channel_request request = build(method, no, FEN);
        struct channel_answer answer = send_prepay(method, &request);
        expect_done(answer, FACT_ACCEPTED);
        assert_true(answer.credential_expire_ms > env_now_ms(&stand.env.env));
        expect_done(ask(no), FACT_NOTHING);

        struct buf out;
        struct json_out o;
        const struct json *json;
        buf_init_arena(&out, stand.arena, 8192);
        json_out_init(&o, &out);
        json_begin_object(&o);
        assert_int_equal(driver()->client_params(stand.account, &stand.env.env, method,
                                                 answer.credentials, stand.arena, &o, NULL),
                         ERR_OK);
        json_end_object(&o);
        assert_int_equal(json_parse(stand.arena, buf_str(&out), &json, NULL), ERR_OK);
        assert_true(json->count > 0);
    }
}

static void the_same_number_twice(void **state)
{
    (void)state;
    enum pay_method method = stand.account->info->methods[0].method;
    struct str no = new_number();
    struct channel_request request = build(method, no, FEN), other = build(method, no, FEN + 1);
    expect_done(send_prepay(method, &request), FACT_ACCEPTED);
    expect_done(send_prepay(method, &request), FACT_ACCEPTED);
    expect(send_prepay(method, &other), CHANNEL_REFUSED, CLASS_QUERY);
    expect_done(ask(no), FACT_NOTHING);
}

static void unknown_numbers_do_not_exist(void **state)
{
    (void)state;
    struct channel_answer answer = ask(new_number());
    expect(answer, CHANNEL_REFUSED, CLASS_FINAL);
    assert_true(answer.not_exist);
}

static void paid(void **state)
{
    (void)state;
    struct str no = pay_one();
    struct channel_answer answer = ask(no);
    expect_done(answer, FACT_PAID);
    const struct fact *fact = &answer.facts[0];
    assert_true(fact->ours && str_eq(fact->pay_no, no) && fact->transaction_id.n && fact->time_ms);
    assert_true(driver()->paid_equal(stand.account, fact, fen(FEN)));
    assert_false(driver()->paid_equal(stand.account, fact, fen(FEN - 1)));

    assert_int_equal(sandbox_turn(stand.sandbox), 1);
    assert_int_equal(stand.result, NOTICE_OK);
    const struct fact *told = &stand.notice.facts[0];
    assert_int_equal(told->kind, FACT_PAID);
    assert_true(str_eq(stand.notice.subject_no, no));
    assert_true(str_eq(told->transaction_id, fact->transaction_id));
    assert_true(driver()->paid_equal(stand.account, told, fen(FEN)));
    assert_true(stand.notice.event_key.n && stand.notice.transport_id.n);

    /* What is paid can neither be opened nor closed, and neither refusal is final. */
    enum pay_method method = stand.account->info->methods[0].method;
    struct channel_request request = build(method, no, FEN);
    expect(send_prepay(method, &request), CHANNEL_REFUSED, CLASS_QUERY);
    if (stand.account->info->capabilities & CHANNEL_CAN_CLOSE)
        expect(shut(no), CHANNEL_REFUSED, CLASS_QUERY);
    expect_done(ask(no), FACT_PAID);
}

static void closed(void **state)
{
    (void)state;
    if (!(stand.account->info->capabilities & CHANNEL_CAN_CLOSE))
        return;
    struct str no = open_payment();
    expect_done(shut(no), FACT_SHUT);
    expect_done(shut(no), FACT_SHUT);
    expect_done(ask(no), FACT_SHUT);
    enum pay_method method = stand.account->info->methods[0].method;
    struct channel_request request = build(method, no, FEN);
    expect(send_prepay(method, &request), CHANNEL_REFUSED, CLASS_QUERY);
}

static void fault_once(enum sandbox_fault fault, const char *call)
{
    sandbox_clear_faults(stand.sandbox);
    sandbox_fault(
        stand.sandbox,
        &(struct sandbox_fault_rule) {
            .fault = fault, .call = str_of(call), .mchid = STR("*"), .times = 1, .percent = 100 });
}

static const struct broken {
    enum sandbox_fault fault;
    enum channel_outcome outcome;
    enum channel_class class;
} broken[] = {
    { FAULT_TIMEOUT, CHANNEL_UNKNOWN, CLASS_NONE },
    { FAULT_ANSWER_LOST, CHANNEL_UNKNOWN, CLASS_NONE },
    { FAULT_NOT_SENT, CHANNEL_REFUSED, CLASS_RETRY },
    { FAULT_HTTP_500, CHANNEL_UNKNOWN, CLASS_NONE },
    { FAULT_HTTP_429, CHANNEL_REFUSED, CLASS_RETRY },
    { FAULT_UNSIGNED, CHANNEL_UNKNOWN, CLASS_NONE },
    { FAULT_BAD_SIGNATURE, CHANNEL_UNKNOWN, CLASS_NONE },
    { FAULT_GARBAGE, CHANNEL_UNKNOWN, CLASS_NONE },
};
#define BROKEN (sizeof(broken) / sizeof(broken[0]))

static void broken_answers_are_never_believed(void **state)
{
    (void)state;
    enum pay_method method = stand.account->info->methods[0].method;
    for (size_t i = 0; i < BROKEN; i++) {
        struct str no = new_number();
        struct channel_request request = build(method, no, FEN);
        fault_once(broken[i].fault, "prepay");
        expect(send_prepay(method, &request), broken[i].outcome, broken[i].class);
        expect_done(send_prepay(method, &request), FACT_ACCEPTED); /* the same bytes settle it */
        fault_once(broken[i].fault, "query");
        expect(ask(no), broken[i].outcome, broken[i].class);
        expect_done(ask(no), FACT_NOTHING);
        if (stand.account->info->capabilities & CHANNEL_CAN_CLOSE) {
            fault_once(broken[i].fault, "close");
            expect(shut(no), broken[i].outcome, broken[i].class);
            expect_done(shut(no), FACT_SHUT);
        }
    }
}

static void broken_callbacks(void **state)
{
    (void)state;
    static const struct {
        enum sandbox_fault fault;
        enum notice_result result;
        enum notice_reason reason;
    } cases[] = {
        { FAULT_CALLBACK_BAD_SIGNATURE, NOTICE_BAD, NOTICE_REASON_SIGNATURE },
        { FAULT_CALLBACK_CORRUPT, NOTICE_RAW_ONLY,
          NOTICE_REASON_DECRYPT }, /* broken before it was signed */
        { FAULT_CALLBACK_PROBE, NOTICE_BAD, NOTICE_REASON_PROBE },
        { FAULT_CALLBACK_UNKNOWN_SERIAL, NOTICE_LATER, NOTICE_REASON_SERIAL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fault_once(cases[i].fault, "callback");
        struct str no = pay_one();
        assert_int_equal(sandbox_turn(stand.sandbox), 1);
        assert_int_equal(stand.result, cases[i].result);
        assert_int_equal(stand.notice.reason, cases[i].reason);
        assert_int_equal(stand.notice.fact_count, 0);
        env_test_advance(&stand.env, 15000); /* sent again, and good */
        assert_int_equal(sandbox_turn(stand.sandbox), 1);
        assert_int_equal(stand.result, NOTICE_OK);
        assert_true(str_eq(stand.notice.subject_no, no));
    }
}

static void true_callbacks_of_wrong_money(void **state)
{
    (void)state;
    sandbox_clear_faults(stand.sandbox);
    sandbox_fault(stand.sandbox,
                  &(struct sandbox_fault_rule) { .fault = FAULT_CALLBACK_WRONG_AMOUNT,
                                                 .call = STR("callback"),
                                                 .mchid = STR("*"),
                                                 .amount_delta_fen = -1,
                                                 .times = 1,
                                                 .percent = 100 });
    pay_one();
    assert_int_equal(sandbox_turn(stand.sandbox), 1);
    assert_int_equal(stand.result, NOTICE_OK);
    assert_int_equal(stand.notice.facts[0].kind, FACT_PAID);
    assert_false(driver()->paid_equal(stand.account, &stand.notice.facts[0], fen(FEN)));

    fault_once(FAULT_CALLBACK_WRONG_MERCHANT, "callback");
    pay_one();
    assert_int_equal(sandbox_turn(stand.sandbox), 1);
    assert_int_equal(stand.result, NOTICE_OK);
    assert_false(stand.notice.facts[0].ours);
    assert_false(driver()->paid_equal(stand.account, &stand.notice.facts[0], fen(FEN)));
}

static struct channel_answer send_refund(const struct channel_request *request)
{
    struct channel_ctx c = ctx();
    struct channel_answer answer;
    driver()->refund(stand.account, &c, request, &answer);
    return answer;
}

static struct channel_answer ask_refund(struct str no)
{
    struct channel_ctx c = ctx();
    struct channel_answer answer;
    driver()->query_refund(stand.account, &c, no, &answer);
    return answer;
}

static bool refund_goes_on(const struct channel_answer *answer)
{
    return answer->outcome == CHANNEL_DONE && (answer->facts[0].kind == FACT_REFUND_ACCEPTED ||
                                               answer->facts[0].kind == FACT_REFUND_DONE);
}

static void refunds(void **state)
{
    (void)state;
    if (!(stand.account->info->capabilities & CHANNEL_CAN_REFUND))
        return;
    struct str no = pay_one(), refund_no = STR("R20231115000000000001");
    struct channel_request request;
    struct refund_request refund = { .pay_no = no,
                                     .refund_no = refund_no,
                                     .amount = fen(1500),
                                     .total = fen(FEN),
                                     .reason = STR("退货") };
    assert_int_equal(driver()->refund_build(stand.account, &refund, stand.arena, &request, NULL),
                     ERR_OK);
    struct channel_answer answer = ask_refund(refund_no);
    expect(answer, CHANNEL_REFUSED, CLASS_FINAL);
    assert_true(answer.not_exist);

    /* Lost on the way back, then the same bytes twice: money moves once. */
    fault_once(FAULT_ANSWER_LOST, "refund");
    expect(send_refund(&request), CHANNEL_UNKNOWN, CLASS_NONE);
    for (int i = 0; i < 2; i++) {
        answer = send_refund(&request);
        assert_true(refund_goes_on(&answer));
        assert_true(str_eq(answer.facts[0].refund_no, refund_no));
        assert_int_equal(money_fen(answer.facts[0].amount), 1500);
    }
    env_test_advance(&stand.env, 5 * 60000);
    (void)sandbox_turn(stand.sandbox);
    answer = ask_refund(refund_no);
    assert_true(refund_goes_on(&answer));
    struct sandbox_trade trade;
    assert_int_equal(sandbox_trade_get(stand.sandbox, no, stand.arena, &trade), ERR_OK);
    assert_int_equal(trade.refunded_fen, 1500);
    expect_done(ask(no), FACT_PAID); /* refunded is still "was paid" */
}

static struct account *refreshed(struct learnt_keys *ret_learnt)
{
    struct account *renewed = NULL;
    struct channel_ctx c = ctx();
    struct err_info info = { 0 };
    size_t refused = 0;
    if (driver()->refresh_keys(stand.account, &c, ret_learnt, &info) ||
        driver()->keys_add(stand.account, ret_learnt, &renewed, &refused, &info))
        fail_msg("%s: %s", info.field, info.text);
    assert_int_equal(refused, 0);
    return renewed;
}

/* A rotation is followed by one refresh, and callbacks of both ages verify: also those that come to
 * a process that started later and has the learnt keys from its database only. */
static void keys_rotate(void **state)
{
    (void)state;
    if (!(stand.account->info->capabilities & CHANNEL_REFRESHES_KEYS))
        return;
    struct learnt_keys learnt = { .count = 0 };
    struct err_info info = { 0 };
    size_t refused = 0;
    assert_null(refreshed(&learnt));
    assert_int_equal(learnt.count, 1); /* held already, and worth storing all the same */
    if (sandbox_rotate_certificate(stand.sandbox, STR("1900000109"), stand.arena, &info))
        fail_msg("%s", info.text);
    struct account *renewed = refreshed(&learnt), *restarted = NULL;
    assert_non_null(renewed);
    assert_int_equal(driver()->keys_add(stand.account, &learnt, &restarted, &refused, &info),
                     ERR_OK);
    assert_non_null(restarted);
    account_unref(stand.account);
    stand.account = renewed;
    pay_one();
    assert_int_equal(sandbox_turn(stand.sandbox), 1);
    assert_int_equal(stand.result, NOTICE_OK);
    account_unref(stand.account);
    stand.account = restarted;
    pay_one();
    assert_int_equal(sandbox_turn(stand.sandbox), 1);
    assert_int_equal(stand.result, NOTICE_OK);
}

#define SUITE_TEST(name) cmocka_unit_test_prestate_setup_teardown(name, setup, teardown, &which)

int main(void)
{
    int failed = 0;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    for (size_t which = 0; which < sizeof(channels) / sizeof(channels[0]); which++) {
        const struct CMUnitTest tests[] = {
            SUITE_TEST(every_method_opens_and_gives_the_client_something),
            SUITE_TEST(the_same_number_twice),
            SUITE_TEST(unknown_numbers_do_not_exist),
            SUITE_TEST(paid),
            SUITE_TEST(closed),
            SUITE_TEST(broken_answers_are_never_believed),
            SUITE_TEST(broken_callbacks),
            SUITE_TEST(true_callbacks_of_wrong_money),
            SUITE_TEST(refunds),
            SUITE_TEST(keys_rotate),
        };
        failed += cmocka_run_group_tests_name(channels[which].name, tests, NULL, NULL);
    }
    return failed;
}
