/* channel_testing.c -- see channel_testing.h. The channel's signing is written out here once more:
 * it must not share a mistake with the adapter. */
#include "channel_testing.h"

#include <stdio.h>

#include "crypto/aead.h"
#include "crypto/x509.h"

#define DAY_MS 86400000LL

void world_open(struct world *w)
{
    *w = (struct world) { .arena = arena_new(65536) };
    env_init_test(&w->env, NOW_MS, 7);
    assert_int_equal(rsa_generate(1024, &w->merchant, NULL), ERR_OK);
    assert_int_equal(rsa_generate(1024, &w->platform, NULL), ERR_OK);
    w->merchant_pem = rsa_private_pem(w->arena, w->merchant);
    assert_int_equal(certificate_make(w->merchant, STR("merchant"), STR("0C4AEF34B893"),
                                      NOW_MS - DAY_MS, NOW_MS + 365 * DAY_MS, w->arena,
                                      &w->merchant_cert, NULL),
                     ERR_OK);
    assert_int_equal(certificate_make(w->platform, STR("Tenpay.com"), STR(SERIAL), NOW_MS - DAY_MS,
                                      NOW_MS + 365 * DAY_MS, w->arena, &w->platform_cert, NULL),
                     ERR_OK);
    struct account_config config = world_config(w);
    struct err_info info = { 0 };
    if (account_open(&config, STR_NONE, &w->env.env, &w->account, &info))
        fail_msg("%s: %s", info.field, info.text);
}

void world_close(struct world *w)
{
    account_unref(w->account);
    rsa_unref(w->merchant);
    rsa_unref(w->platform);
    arena_free(w->arena);
}

struct account_config world_config(struct world *w)
{
    struct account_config config = {
        .name = STR("wx-main"),
        .environment = ENVIRONMENT_PRODUCTION,
        .notify_url = STR("https://pay.example.com/notify/wx-main"),
        .wechat = {
            .mchid = STR("1900000109"),
            .appid = STR("wxd678efh567hg6787"),
            .merchant_key = w->merchant_pem,
            .merchant_cert = w->merchant_cert,
            .apiv3_key = STR(APIV3),
            .platform_certs = { &w->platform_cert, 1 },
        },
    };
    return config;
}

struct http_headers world_sign(struct world *w, struct arena *a, struct str body,
                               enum sign_mode mode)
{
    if (mode == SIGN_NONE)
        return (struct http_headers) { 0 };
    int64_t at_s = env_now_ms(&w->env.env) / 1000 - (mode == SIGN_STALE ? 301 : 0);
    struct str message =
        str_printf(a, "%lld\nnonce-of-the-channel\n" STR_FMT "\n", (long long)at_s, STR_ARG(body));
    struct str signature;
    assert_int_equal(rsa_sign(w->platform, message, a, &signature, NULL), ERR_OK);
    struct str text = str_base64(a, signature);
    if (mode == SIGN_WRONG)
        text = str_printf(a, "%c" STR_FMT, text.p[0] == 'A' ? 'B' : 'A',
                          STR_ARG(str_sub(text, 1, text.n)));
    if (mode == SIGN_PROBE)
        text = str_printf(a, "WECHATPAY/SIGNTEST/" STR_FMT, STR_ARG(str_sub(text, 19, text.n)));
    struct http_header *items = arena_array(a, 6, sizeof items[0]);
    items[0] = (struct http_header) { STR("Content-Type"), STR("application/json") };
    items[1] = (struct http_header) { STR("wechatpay-nonce"), STR("nonce-of-the-channel") };
    items[2] =
        (struct http_header) { STR("Wechatpay-Timestamp"), str_printf(a, "%lld", (long long)at_s) };
    items[3] = (struct http_header) { STR("Wechatpay-Serial"),
                                      mode == SIGN_UNKNOWN_SERIAL ? STR("0FF0") : STR(SERIAL) };
    items[4] = (struct http_header) { STR("WECHATPAY-SIGNATURE"), text };
    items[5] = (struct http_header) { STR("Request-ID"), STR("08F78BB5AF06-268512771") };
    return (struct http_headers) { items, 6 };
}

struct http_headers world_with(struct arena *a, struct http_headers h, const char *name,
                               struct str value)
{
    struct http_header *items = arena_array(a, h.count + 1, sizeof items[0]);
    size_t n = 0;
    for (size_t i = 0; i < h.count; i++) {
        if (!str_eq_nocase(h.items[i].name, str_of(name)))
            items[n++] = h.items[i];
    }
    if (value.p)
        items[n++] = (struct http_header) { str_of(name), value };
    return (struct http_headers) { items, n };
}

struct str world_envelope(struct arena *a, const char *event_type, const char *original_type,
                          struct str plain, const char *key)
{
    struct str cipher;
    assert_int_equal(
        aead_encrypt(str_of(key), STR("nonce1234567"), str_of(original_type), plain, a, &cipher),
        ERR_OK);
    struct str text = str_base64(a, cipher);
    return str_printf(a,
                      "{\"id\":\"EV-1\",\"create_time\":\"2023-11-15T06:13:19+08:00\",\"resource_"
                      "type\":\"encrypt-"
                      "resource\",\"event_type\":\"%s\",\"summary\":\"支付成功\",\"resource\":{"
                      "\"original_type\":\"%s\","
                      "\"algorithm\":\"AEAD_AES_256_GCM\",\"ciphertext\":\"" STR_FMT
                      "\",\"associated_data\":\"%s\",\"nonce\":\"nonce1234567\"}}",
                      event_type, original_type, STR_ARG(text), original_type);
}

static void exchange(struct transport *t, struct env *env, const struct http_call *call,
                     struct arena *a, struct http_reply *ret)
{
    (void)env;
    struct scripted *s = (struct scripted *)t;
    struct http_header *headers =
        arena_copy(a, call->headers.items, call->headers.count * sizeof headers[0]);
    s->call = *call;
    s->call.headers.items = headers;
    s->calls++;
    *ret = (struct http_reply) { .outcome = s->outcome,
                                 .took_us = 1234,
                                 .trouble = STR("the wire broke") };
    if (s->outcome != HTTP_ANSWERED)
        return;
    ret->status = s->status;
    ret->body = s->body;
    ret->headers = world_sign(s->world, a, s->body, s->mode);
}

void scripted_answer(struct scripted *s, struct world *w, int status, const char *body,
                     enum sign_mode mode)
{
    *s = (struct scripted) {
        .transport = { exchange },
        .world = w,
        .outcome = HTTP_ANSWERED,
        .status = status,
        .body = str_of(body),
        .mode = mode,
    };
}
