/* sandbox_testing.h -- a sandbox on a clock of its own, and a merchant that signs its requests by
 * hand.
 *
 * The merchant here is written from the protocol once more, so that neither the adapter nor the
 * sandbox's own code proves itself. Callbacks go into a box. */
#ifndef FENPAY_SANDBOX_TESTING_H
#define FENPAY_SANDBOX_TESTING_H

#include "../check.h"

#include "base/arena.h"
#include "base/json.h"
#include "crypto/aead.h"
#include "crypto/x509.h"
#include "sandbox/sandbox.h"

#define NOW_MS         1767225600000LL /* 2026-01-01T00:00:00Z */
#define MCHID          "1900000001"
#define APPID          "wxtest0000000001"
#define APIV3          "0123456789abcdef0123456789ABCDEF"
#define KEY_ID         "PUB_KEY_ID_0119000000012026010100000000000001"
#define NOTIFY         "http://127.0.0.1:1/notify/wx"
#define CALLBACKS_KEPT 64

struct callback_box {
    struct transport transport;
    struct arena *arena;
    int answer; /* HTTP status; 0: no answer comes */
    size_t count;
    struct http_call got[CALLBACKS_KEPT];
    int64_t at_ms[CALLBACKS_KEPT];
};

static struct env_test world;
static struct arena *arena; /* of one test */
static struct sandbox *sandbox;
static struct callback_box box;
static struct transport *carrier; /* NULL: in process */
static struct str base_url;
static struct rsa_key *merchant_key, *platform_key;
static struct str merchant_pem, platform_pem, platform_cert, serial_m = STR_INIT("4D5E6F");
static struct arena *keys_arena;

static void box_exchange(struct transport *t, struct env *env, const struct http_call *call,
                         struct arena *a, struct http_reply *ret)
{
    struct callback_box *b = (struct callback_box *)(void *)t;
    (void)a;
    *ret = (struct http_reply) { .outcome = b->answer ? HTTP_ANSWERED : HTTP_UNKNOWN,
                                 .status = b->answer };
    assert_true(b->count < CALLBACKS_KEPT);
    struct http_call *kept = &b->got[b->count];
    b->at_ms[b->count++] = env_now_ms(env);
    *kept = *call;
    kept->url = str_dup(b->arena, call->url);
    kept->body = str_dup(b->arena, call->body);
    struct http_header *h = arena_array(b->arena, call->headers.count, sizeof *h);
    for (size_t i = 0; i < call->headers.count; i++)
        h[i] = (struct http_header) { str_dup(b->arena, call->headers.items[i].name),
                                      str_dup(b->arena, call->headers.items[i].value) };
    kept->headers.items = h;
}

static inline void make_keys(void)
{
    if (keys_arena)
        return;
    keys_arena = arena_new(16384);
    assert_ok(rsa_generate(1024, &merchant_key, NULL));
    assert_ok(rsa_generate(1024, &platform_key, NULL));
    struct rsa_key *public = rsa_public_of(merchant_key);
    merchant_pem = rsa_public_pem(keys_arena, public);
    rsa_unref(public);
    platform_pem = rsa_private_pem(keys_arena, platform_key);
    assert_ok(certificate_make(platform_key, STR("platform"), STR("5A00112233445566778899"),
                               NOW_MS - 1000, NOW_MS + 1000000000, keys_arena, &platform_cert,
                               NULL));
}

static inline struct sandbox_wechat test_account(void)
{
    return (struct sandbox_wechat) { .mchid = STR(MCHID),
                                     .appid = STR(APPID),
                                     .merchant_public_pem = merchant_pem,
                                     .merchant_serial = serial_m,
                                     .apiv3_key = STR(APIV3),
                                     .platform_key_pem = platform_pem,
                                     .platform_cert_pem = platform_cert,
                                     .public_key_id = STR(KEY_ID) };
}

static inline int begin(void **state)
{
    (void)state;
    make_keys();
    arena = arena_new(65536);
    env_init_test(&world, NOW_MS, 7);
    carrier = NULL;
    base_url = STR("https://api.mch.weixin.qq.com");
    box = (struct callback_box) { .transport = { box_exchange }, .arena = arena, .answer = 204 };
    struct sandbox_options o = {
        .env = &world.env, .wechat_count = 2, .callbacks = &box.transport, .manual = true, .seed = 1
    };
    o.wechat[0] = o.wechat[1] = test_account();
    o.wechat[1].mchid = STR("1900000002");
    assert_ok(sandbox_new(&o, &sandbox, NULL));
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    sandbox_free(sandbox);
    arena_free(arena);
    return 0;
}

static inline struct str text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline struct str text(const char *format, ...)
{
    char buffer[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof buffer);
    return str_dup(arena, (struct str) { buffer, (size_t)n });
}

/* What the merchant puts into a request; tests spoil a member and see it refused. */
struct merchant_call {
    const char *method;
    struct str target, body;
    struct str mchid, serial, nonce, timestamp, signature; /* signature empty: the right one */
    struct str wechatpay_serial, agent, accept, authorization;
};

static inline struct merchant_call merchant_call(const char *method, const char *target,
                                                 const char *body)
{
    return (struct merchant_call) {
        .method = method,
        .target = str_dup(arena, str_of(target)),
        .body = str_dup(arena, str_of(body)),
        .mchid = STR(MCHID),
        .serial = serial_m,
        .nonce = STR("NONCE0123456789"),
        .timestamp = text("%lld", (long long)(env_now_ms(&world.env) / 1000)),
        .agent = STR("test/1"),
        .accept = STR("application/json"),
    };
}

static inline struct str merchant_message(const struct merchant_call *c)
{
    return text("%s\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", c->method,
                STR_ARG(c->target), STR_ARG(c->timestamp), STR_ARG(c->nonce), STR_ARG(c->body));
}

static inline struct str merchant_authorization(const struct merchant_call *c)
{
    struct str raw, signature = c->signature;
    if (!signature.n) {
        assert_ok(rsa_sign(merchant_key, merchant_message(c), arena, &raw, NULL));
        signature = str_base64(arena, raw);
    }
    return text("WECHATPAY2-SHA256-RSA2048 mchid=\"" STR_FMT "\",nonce_str=\"" STR_FMT
                "\",timestamp=\"" STR_FMT "\",serial_no=\"" STR_FMT "\",signature=\"" STR_FMT "\"",
                STR_ARG(c->mchid), STR_ARG(c->nonce), STR_ARG(c->timestamp), STR_ARG(c->serial),
                STR_ARG(signature));
}

static inline struct http_reply exchange_call(const struct merchant_call *c)
{
    struct http_header h[6];
    size_t n = 0;
    struct str authorization = c->authorization.p ? c->authorization : merchant_authorization(c);
    if (authorization.n)
        h[n++] = (struct http_header) { STR("authorization"), authorization };
    if (c->agent.n)
        h[n++] = (struct http_header) { STR("User-Agent"), c->agent };
    if (c->accept.n)
        h[n++] = (struct http_header) { STR("Accept"), c->accept };
    if (c->wechatpay_serial.n)
        h[n++] = (struct http_header) { STR("Wechatpay-Serial"), c->wechatpay_serial };
    if (c->body.n)
        h[n++] = (struct http_header) { STR("Content-Type"), STR("application/json") };
    struct http_call call = { .method = c->method,
                              .url = text(STR_FMT STR_FMT, STR_ARG(base_url), STR_ARG(c->target)),
                              .headers = { h, n },
                              .body = c->body };
    struct http_reply reply;
    transport_exchange(carrier ? carrier : sandbox_transport(sandbox), &world.env, &call, arena,
                       &reply);
    return reply;
}

/* A call without a signature: control and phone. */
static inline struct http_reply plain_call(const char *method, const char *target, const char *body,
                                           const char *language)
{
    struct http_header h[] = { { STR("Content-Type"), STR("application/json") },
                               { STR("Accept-Language"), str_of(language) } };
    struct http_call call = { .method = method,
                              .url = text(STR_FMT "%s", STR_ARG(base_url), target),
                              .headers = { h, language ? 2 : 1 },
                              .body = body ? str_of(body) : STR_NONE };
    struct http_reply reply;
    transport_exchange(carrier ? carrier : sandbox_transport(sandbox), &world.env, &call, arena,
                       &reply);
    return reply;
}

static inline struct http_reply call(const char *method, const char *target, const char *body)
{
    struct merchant_call c = merchant_call(method, target, body);
    return exchange_call(&c);
}

static inline struct str prepay_body(const char *out_trade_no, int total)
{
    return text("{\"appid\":\"" APPID "\",\"mchid\":\"" MCHID "\",\"description\":\"茶\","
                "\"out_trade_no\":\"%s\",\"notify_url\":\"" NOTIFY "\",\"attach\":\"a/b\","
                "\"amount\":{\"total\":%d,\"currency\":\"CNY\"}}",
                out_trade_no, total);
}

static inline struct http_reply prepay(const char *out_trade_no, int total)
{
    return call("POST", "/v3/pay/transactions/native", prepay_body(out_trade_no, total).p);
}

static inline struct http_reply query(const char *out_trade_no)
{
    return call("GET", text("/v3/pay/transactions/out-trade-no/%s?mchid=" MCHID, out_trade_no).p,
                "");
}

static inline struct http_reply close_call(const char *out_trade_no)
{
    return call("POST", text("/v3/pay/transactions/out-trade-no/%s/close", out_trade_no).p,
                "{\"mchid\":\"" MCHID "\"}");
}

static inline struct str header(const struct http_headers *h, const char *name)
{
    return http_header_get(h, name, NULL);
}

/* "amount.total" of a JSON text, as text; "" when absent. */
static inline struct str member(struct str json, const char *path)
{
    const struct json *j;
    struct str rest = str_of(path);
    assert_ok(json_parse(arena, json, &j, NULL));
    while (j && rest.p)
        j = json_get(j, str_cstr(arena, str_cut(&rest, '.')));
    return !j ? STR("") : j->type == JSON_STRING ? j->text : j->raw;
}

/* Signed with `key`, under `serial`? By the four headers and the bytes alone. */
static inline bool is_signed_by(const struct http_headers *h, struct str body, struct rsa_key *key)
{
    struct str signature = header(h, "Wechatpay-Signature"), raw;
    struct str message =
        text(STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", STR_ARG(header(h, "Wechatpay-Timestamp")),
             STR_ARG(header(h, "Wechatpay-Nonce")), STR_ARG(body));
    return signature.n && !str_unbase64(arena, signature, &raw) && !rsa_verify(key, message, raw);
}

static inline void assert_answer(struct http_reply r, int status, const char *code)
{
    assert_int_equal(r.outcome, HTTP_ANSWERED);
    if (r.status != status)
        print_error("answer: %d " STR_FMT "\n", r.status, STR_ARG(r.body));
    assert_int_equal(r.status, status);
    if (code)
        assert_str(member(r.body, "code"), code);
    if (status / 100 != 2)
        assert_null(header(&r.headers, "Wechatpay-Signature").p);
    else
        assert_true(is_signed_by(&r.headers, r.body, platform_key));
}

/* The decrypted resource of the i-th callback. */
static inline struct str opened(size_t i)
{
    struct str cipher, plain;
    assert_true(i < box.count);
    struct str body = box.got[i].body;
    assert_ok(str_unbase64(arena, member(body, "resource.ciphertext"), &cipher));
    assert_ok(aead_decrypt(STR(APIV3), member(body, "resource.nonce"),
                           member(body, "resource.associated_data"), cipher, arena, &plain));
    return plain;
}

static inline struct sandbox_trade trade(const char *out_trade_no)
{
    struct sandbox_trade t;
    assert_ok(sandbox_trade_get(sandbox, str_of(out_trade_no), arena, &t));
    return t;
}

static inline void pay(const char *out_trade_no)
{
    assert_ok(sandbox_pay(sandbox, str_of(out_trade_no), NULL));
}

static inline void fault(struct sandbox_fault_rule rule)
{
    sandbox_fault(sandbox, &rule);
}

#endif
