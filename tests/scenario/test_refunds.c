/* Refunds against the stand-in that speaks WeChat Pay's real bytes, with its real rules (a minute
 * between two refunds, three seconds until one is done, its own books), the jobs run by hand. At
 * the end of each story our books and the channel's agree to the fen. */
#include "../unit/world.h"

#include "channel/registry.h"
#include "core/order/order.h"
#include "core/payment/flow.h"
#include "core/refund/refund.h"
#include "crypto/x509.h"
#include "notify/intake.h"
#include "sandbox/sandbox.h"

#define MCHID  "1900000109"
#define FEN    8800
#define SECOND 1000
#define MINUTE 60000
#define DAY    86400000LL

struct site {
    struct transport callbacks; /* first: the sandbox's way to us */
    struct world world;
    struct centre c;
    struct act act;
    struct sandbox *sandbox;
    struct account *account;
    bool deaf; /* callbacks get lost */
    struct payment p;
};

/* ---- the site ---- */

static void take_callback(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct site *s = (struct site *)t;
    struct intake k = { .centre = &s->c,
                        .in = { .account = s->account,
                                .body = str_dup(s->world.arena, call->body),
                                .trace_id = STR("trace") } };
    enum notice_result result;
    struct err_info info = { 0 };
    (void)env;
    (void)a;
    *ret = (struct http_reply) { .outcome = HTTP_UNKNOWN };
    if (s->deaf)
        return;
    bool to_store = intake_read(&k, &call->headers, s->world.arena, &result);
    while (to_store)
        to_store = intake_stored(&k, store_run(s->world.store, &k.store, &info), &info);
    *ret = (struct http_reply) { .outcome = HTTP_ANSWERED,
                                 .status = k.answer == ANSWER_OK ? 200 : 500 };
}

static void open_channel(struct site *s)
{
    struct arena *a = s->world.arena;
    struct rsa_key *merchant, *platform;
    struct str cert;
    struct err_info info = { 0 };
    assert_ok(rsa_generate(1024, &merchant, NULL));
    assert_ok(rsa_generate(1024, &platform, NULL));
    assert_ok(certificate_make(platform, STR("Tenpay.com"), STR("5157F09EFDC096DE"),
                               WORLD_NOW_MS - DAY, WORLD_NOW_MS + 365 * DAY, a, &cert, NULL));
    struct account_config config = {
        .name = STR("wx"),
        .environment = ENVIRONMENT_DEV,
        .amount_max_fen = 99999999,
        .api_url = STR("http://channel.test"),
        .notify_url = STR("https://pay.example.com/notify/wx"),
        .wechat = { .mchid = STR(MCHID),
                    .appid = STR("wxd678efh567hg6787"),
                    .merchant_key = rsa_private_pem(a, merchant),
                    .merchant_serial = STR("0C4AEF34B893"),
                    .apiv3_key = STR("0123456789abcdefABCDEF9876543210"),
                    .platform_certs = { &cert, 1 } },
    };
    struct sandbox_options options = {
        .env = s->world.env,
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
    if (account_open(&config, STR_NONE, s->world.env, &s->account, &info) ||
        sandbox_new(&options, &s->sandbox, &info))
        fail_msg("%s: %s", info.field, info.text);
    rsa_unref(merchant);
    rsa_unref(platform);
    registry_put(s->c.registry, account_ref(s->account));
    s->c.transport = sandbox_transport(s->sandbox);
}

static void advance(struct site *s, int64_t ms)
{
    env_test_advance(&s->world.test, ms);
    sandbox_turn(s->sandbox);
}

static void turn(struct site *s)
{
    struct err_info info = { 0 };
    size_t done;
    assert_ok(refund_due_turn(&s->c, 100, &done, &info));
}

/* The jobs and the channel's callbacks, minute by minute. */
static void minutes(struct site *s, int n)
{
    for (int i = 0; i < n * 4; i++) {
        turn(s);
        advance(s, 15 * SECOND);
    }
}

static void pay(struct site *s)
{
    struct order_new o = { .merchant_order_no = STR("o1"),
                           .user_id = STR("u1"),
                           .subject = STR("tea"),
                           .has_amount = true,
                           .amount_fen = FEN,
                           .currency = STR("CNY") };
    struct payment_new n = { .inline_order = &o, .user_id = STR("u1"), .method = STR("native") };
    enum payment_started how;
    struct refusal r = { 0 };
    struct err_info info = { 0 };
    assert_int_equal(payment_start(&s->c, &s->act, &n, &s->p, &how, &r), CODE_OK);
    assert_ok(sandbox_pay(s->sandbox, number_str(s->world.arena, s->p.no), &info));
    advance(s, SECOND);
    assert_int_equal(payment_get(&s->c, &s->act, s->p.no, &s->p, &r), CODE_OK);
    assert_int_equal(s->p.status, PAYMENT_SUCCESS);
}

static int set_up(void **state)
{
    static struct site site;
    struct site *s = *state = &site;
    memset(s, 0, sizeof *s);
    s->callbacks.exchange = take_callback;
    world_open(&s->world, false);
    s->c = (struct centre) { .env = s->world.env,
                             .store = s->world.store,
                             .mint = s->world.mint,
                             .registry = registry_new(),
                             .process_id = 1 };
    centre_settings_defaults(&s->c.settings);
    s->c.settings.environment = ENVIRONMENT_DEV;
    s->act = (struct act) { .caller = { 1, STR("shop") },
                            .actor = STR("caller:shop"),
                            .trace_id = STR("trace"),
                            .arena = s->world.arena };
    open_channel(s);
    pay(s);
    return 0;
}

static int tear_down(void **state)
{
    struct site *s = *state;
    struct sandbox_trade t;
    assert_ok(
        sandbox_trade_get(s->sandbox, number_str(s->world.arena, s->p.no), s->world.arena, &t));
    /* what is abnormal has left the merchant and not reached the payer */
    assert_int_equal(
        ASK(&s->world, "SELECT coalesce(sum(amount), 0) FROM refund_order WHERE status IN (2, 4)"),
        t.refunded_fen);
    assert_int_equal(
        ASK(&s->world, "SELECT coalesce(sum(amount), 0) FROM refund_order WHERE status = 2"),
        ASK(&s->world, "SELECT refunded FROM payment_order"));
    sandbox_free(s->sandbox);
    account_unref(s->account);
    registry_free(s->c.registry);
    world_close(&s->world);
    return 0;
}

static struct refund refund(struct site *s, const char *request_id, int64_t fen)
{
    struct refund_new n = { .pay_no = s->p.no,
                            .request_id = str_of(request_id),
                            .has_amount = true,
                            .amount_fen = fen,
                            .reason = STR("退货") };
    struct refund r = { 0 };
    struct refusal refusal = { 0 };
    bool created;
    assert_int_equal(refund_create(&s->c, &s->act, &n, &r, &created, &refusal), CODE_OK);
    return r;
}

static struct refund now(struct site *s, const struct refund *r)
{
    struct refund got = { 0 };
    struct refusal refusal = { 0 };
    assert_int_equal(refund_get(&s->c, &s->act, r->no, &got, &refusal), CODE_OK);
    return got;
}

static void fault(struct site *s, enum sandbox_fault fault, const char *call)
{
    sandbox_fault(s->sandbox, &(struct sandbox_fault_rule) {
                                  .fault = fault, .call = str_of(call), .times = 1 });
}

static void assert_status(struct site *s, const struct refund *r, enum refund_status status)
{
    assert_string_equal(refund_status_name(now(s, r).status), refund_status_name(status));
}

/* ---- the stories ---- */

static void three_parts_one_after_the_other(void **state)
{
    struct site *s = *state;
    struct refund a = refund(s, "a", 3000), b = refund(s, "b", 3000), c = refund(s, "c", 2800);
    turn(s);
    assert_status(s, &a, REFUND_PROCESSING);
    assert_status(s, &b, REFUND_INIT);
    advance(s, 5 * SECOND);
    assert_status(s, &a, REFUND_SUCCESS);
    assert_int_equal(now(s, &a).evidence_kind, EVIDENCE_CALLBACK);
    minutes(s, 3);
    assert_status(s, &b, REFUND_SUCCESS);
    assert_status(s, &c, REFUND_SUCCESS);
    assert_int_equal(ASK(&s->world, "SELECT count(*) FROM incident"), 0);
    assert_int_equal(ASK(&s->world, "SELECT sum(calls) FROM refund_order"), 3);
}

static void callbacks_get_lost(void **state)
{
    struct site *s = *state;
    struct refund r = refund(s, "a", FEN);
    s->deaf = true;
    minutes(s, 2);
    assert_status(s, &r, REFUND_SUCCESS);
    assert_int_equal(now(s, &r).evidence_kind, EVIDENCE_QUERY);
}

/* Whatever happens to the request and its answer, the money goes back once. */
static void answers_get_lost(void **state)
{
    static const enum sandbox_fault faults[] = {
        FAULT_ANSWER_LOST,   FAULT_TIMEOUT,  FAULT_NOT_SENT,      FAULT_HTTP_500, FAULT_HTTP_429,
        FAULT_HTTP_429_DONE, FAULT_UNSIGNED, FAULT_BAD_SIGNATURE, FAULT_GARBAGE
    };
    struct site *s = *state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        s->deaf = i % 2;
        fault(s, faults[i], "refund");
        struct refund r = refund(s, str_printf(s->world.arena, "r%zu", i).p, 100);
        minutes(s, 8);
        check_row(now(s, &r).status == REFUND_SUCCESS, now(s, &r).request_id.p);
        advance(s, 2 * MINUTE);
    }
    assert_int_equal(ASK(&s->world, "SELECT count(*) FROM incident"), 0);
}

static void the_channel_ends_it_badly(void **state)
{
    struct site *s = *state;
    fault(s, FAULT_REFUND_CLOSED, "");
    struct refund closed = refund(s, "closed", 1000);
    minutes(s, 2);
    assert_status(s, &closed, REFUND_FAILED);
    fault(s, FAULT_REFUND_ABNORMAL, "");
    struct refund abnormal = refund(s, "abnormal", 1000);
    minutes(s, 2);
    assert_status(s, &abnormal, REFUND_ABNORMAL);
    assert_int_equal(ASK(&s->world, "SELECT kind FROM incident"), INCIDENT_REFUND_ABNORMAL);
    struct refund again = refund(s, "again", FEN - 1000); /* the failed one gave its amount back */
    minutes(s, 2);
    assert_status(s, &again, REFUND_SUCCESS);
}

/* At the merchant portal, under a number that is not ours. */
static void at_the_portal(struct site *s, int64_t fen)
{
    struct channel_ctx ctx = { .env = s->world.env,
                               .transport = s->c.transport,
                               .arena = s->world.arena };
    struct refund_request request = { .pay_no = number_str(s->world.arena, s->p.no),
                                      .refund_no = STR("portal-1") };
    struct channel_request built;
    struct channel_answer answer;
    assert_ok(money_of(fen, STR("CNY"), &request.amount));
    assert_ok(money_of(FEN, STR("CNY"), &request.total));
    const struct channel_driver *driver = s->account->info->driver;
    assert_ok(driver->refund_build(s->account, &request, s->world.arena, &built, NULL));
    driver->refund(s->account, &ctx, &built, &answer);
    assert_int_equal(answer.outcome, CHANNEL_DONE);
}

static void made_at_the_portal(void **state)
{
    struct site *s = *state;
    at_the_portal(s, 2000);
    advance(s, 5 * SECOND);
    assert_int_equal(ASK(&s->world, "SELECT origin FROM refund_order"), REFUND_BY_CHANNEL);
    assert_int_equal(ASK(&s->world, "SELECT refunded FROM payment_order"), 2000);
    struct refund rest = refund(s, "rest", FEN - 2000);
    minutes(s, 3);
    assert_status(s, &rest, REFUND_SUCCESS);
}

/* Ours was stored first, the portal was quicker, and there is no more to give: the channel says so
 * twice and does not know ours, which fails, and nothing is reserved any more. */
static void the_portal_was_quicker(void **state)
{
    struct site *s = *state;
    struct refund r = refund(s, "all", FEN);
    at_the_portal(s, 5000);
    minutes(s, 10);
    assert_status(s, &r, REFUND_FAILED);
    assert_int_equal(ASK(&s->world, "SELECT refunding FROM payment_order"), 0);
    assert_int_equal(ASK(&s->world, "SELECT refunded FROM payment_order"), 5000);
    struct refund rest = refund(s, "rest", FEN - 5000);
    minutes(s, 2);
    assert_status(s, &rest, REFUND_SUCCESS);
}

/* The merchant has taken its money out, and puts it back a day later. */
static void not_enough(void **state)
{
    struct site *s = *state;
    sandbox_fault(s->sandbox, &(struct sandbox_fault_rule) { .fault = FAULT_ERROR,
                                                             .call = STR("refund"),
                                                             .code = STR("NOT_ENOUGH"),
                                                             .status = 403 });
    struct refund r = refund(s, "a", FEN);
    minutes(s, 150);
    assert_status(s, &r, REFUND_INIT);
    assert_true(now(s, &r).held);
    assert_int_equal(now(s, &r).calls, 3);
    sandbox_clear_faults(s->sandbox);
    minutes(s, 70);
    assert_status(s, &r, REFUND_SUCCESS);
    assert_int_equal(ASK(&s->world, "SELECT count(*) FROM incident WHERE kind = 11 AND state = 1"),
                     1);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(three_parts_one_after_the_other),
        STORY(callbacks_get_lost),
        STORY(answers_get_lost),
        STORY(the_channel_ends_it_badly),
        STORY(made_at_the_portal),
        STORY(the_portal_was_quicker),
        STORY(not_enough),
    };
    return RUN_TESTS(tests);
}
