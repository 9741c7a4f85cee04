/* sign.c -- messages and signatures of WeChat Pay v3: our requests, the parameters of JSAPI and
 * APP, and the check of whatever claims to come from the channel.
 *
 * Every line of a message ends with one LF, the last one too, and the body line is the raw bytes
 * (protocol sheet 1.1, 2, 7). The check runs before anything of the body is parsed; its cheap parts
 * (headers, window, probe, length) stand before the expensive one. */
#include "channel/wechat/wechat.h"

#include "base/buf.h"

struct str wechat_request_message(struct arena *a, const char *method, struct str path_query,
                                  struct str timestamp, struct str nonce, struct str body)
{
    const struct str lines[] = { str_of(method), path_query, timestamp, nonce, body };
    size_t n = 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        n += lines[i].n + 1;
    struct buf out;
    buf_init_arena(&out, a, n);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        buf_add_str(&out, lines[i]);
        buf_add_char(&out, '\n');
    }
    return buf_str(&out);
}

static enum err sign_base64(const struct wechat_keys *keys, struct str message, struct arena *a,
                            struct str *ret, struct err_info *info)
{
    struct str signature;
    enum err e = rsa_sign(keys->merchant, message, a, &signature, info);
    if (!e)
        *ret = str_base64(a, signature);
    return e;
}

enum err wechat_authorization(const struct wechat_keys *keys, struct str mchid, struct str message,
                              struct str timestamp, struct str nonce, struct arena *a,
                              struct str *ret, struct err_info *info)
{
    struct str signature;
    enum err e = sign_base64(keys, message, a, &signature, info);
    if (e)
        return e;
    *ret = str_printf(a,
                      "WECHATPAY2-SHA256-RSA2048 mchid=\"" STR_FMT "\",nonce_str=\"" STR_FMT
                      "\",timestamp=\"" STR_FMT "\",serial_no=\"" STR_FMT "\",signature=\"" STR_FMT
                      "\"",
                      STR_ARG(mchid), STR_ARG(nonce), STR_ARG(timestamp),
                      STR_ARG(keys->merchant_serial), STR_ARG(signature));
    return ERR_OK;
}

enum err wechat_client_sign(const struct wechat_keys *keys, struct str appid, struct str timestamp,
                            struct str nonce, struct str fourth, struct arena *a, struct str *ret,
                            struct err_info *info)
{
    struct str message =
        str_printf(a, STR_FMT "\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", STR_ARG(appid),
                   STR_ARG(timestamp), STR_ARG(nonce), STR_ARG(fourth));
    return sign_base64(keys, message, a, ret, info);
}

struct str wechat_nonce(struct env *env, struct arena *a)
{
    unsigned char bytes[16];
    env_random(env, bytes, sizeof bytes);
    return str_hex(a, bytes, sizeof bytes);
}

struct str wechat_timestamp(struct env *env, struct arena *a)
{
    return str_printf(a, "%lld", (long long)(env_now_ms(env) / 1000));
}

/* ---- verification ---- */

enum { TIMESTAMP, NONCE, SERIAL, SIGNATURE, HEADERS };
static const struct str header_names[HEADERS] = {
    [TIMESTAMP] = STR_INIT("Wechatpay-Timestamp"),
    [NONCE] = STR_INIT("Wechatpay-Nonce"),
    [SERIAL] = STR_INIT("Wechatpay-Serial"),
    [SIGNATURE] = STR_INIT("Wechatpay-Signature"),
};
#define HEADER_VALUE_MAX 1024 /* a 4096-bit signature takes 684 */

/* All four exactly once, none empty. */
static bool read_headers(const struct http_headers *headers, struct str ret[HEADERS],
                         struct err_info *info)
{
    for (size_t i = 0; i < HEADERS; i++)
        ret[i] = STR_NONE;
    for (size_t i = 0; i < headers->count; i++) {
        const struct http_header *h = &headers->items[i];
        if (h->name.n == 0 || (h->name.p[0] | 0x20) != 'w')
            continue;
        for (size_t k = 0; k < HEADERS; k++) {
            if (!str_eq_nocase(h->name, header_names[k]))
                continue;
            if (ret[k].p) {
                err_field(info, ERR_INVALID, header_names[k].p, "the header stands there twice");
                return false;
            }
            if (h->value.n > HEADER_VALUE_MAX) {
                err_field(info, ERR_INVALID, header_names[k].p, "the header is too long");
                return false;
            }
            ret[k] = h->value;
        }
    }
    for (size_t k = 0; k < HEADERS; k++) {
        if (ret[k].n == 0) {
            err_field(info, ERR_INVALID, header_names[k].p, "the header is missing");
            return false;
        }
    }
    return true;
}

static enum notice_reason check_window(struct str timestamp, int64_t now_ms, bool any_time,
                                       struct err_info *info)
{
    int64_t at_s;
    if (str_int64(timestamp, &at_s) || at_s < 0 || at_s > INT64_MAX / 2000) {
        err_field(info, ERR_INVALID, "Wechatpay-Timestamp", "not a time: " STR_FMT,
                  STR_ARG(timestamp));
        return NOTICE_REASON_HEADERS;
    }
    int64_t apart_s = now_ms / 1000 - at_s;
    if (!any_time && (apart_s > WECHAT_WINDOW_S || apart_s < -WECHAT_WINDOW_S)) {
        err_set(info, ERR_DENIED, "signed %lld s away from our clock", (long long)apart_s);
        return NOTICE_REASON_STALE;
    }
    return NOTICE_REASON_NONE;
}

enum notice_reason wechat_verify(const struct wechat_key table[], size_t n,
                                 const struct http_headers *headers, struct str body,
                                 int64_t now_ms, bool any_time, struct arena *a,
                                 struct err_info *info)
{
    struct str h[HEADERS];
    if (!read_headers(headers, h, info))
        return NOTICE_REASON_HEADERS;
    enum notice_reason reason = check_window(h[TIMESTAMP], now_ms, any_time, info);
    if (reason)
        return reason;
    if (str_starts(h[SIGNATURE], STR("WECHATPAY/SIGNTEST/"))) {
        err_set(info, ERR_DENIED, "a signature probe");
        return NOTICE_REASON_PROBE;
    }
    const struct wechat_key *key = wechat_key_find(table, n, h[SERIAL]);
    if (!key) {
        err_set(info, ERR_NOT_FOUND, "no key with serial " STR_FMT, STR_ARG(h[SERIAL]));
        return NOTICE_REASON_SERIAL;
    }

    size_t bytes = ((size_t)rsa_bits(key->key) + 7) / 8;
    struct str signature;
    if (h[SIGNATURE].n != (bytes + 2) / 3 * 4 || str_unbase64(a, h[SIGNATURE], &signature)) {
        err_set(info, ERR_DENIED, "the signature is not Base64 of %zu bytes", bytes);
        return NOTICE_REASON_SIGNATURE;
    }
    const struct str message[] = { h[TIMESTAMP], STR("\n"), h[NONCE], STR("\n"), body, STR("\n") };
    if (rsa_verify_parts(key->key, message, sizeof message / sizeof message[0], signature)) {
        err_set(info, ERR_DENIED, "the signature does not verify with key " STR_FMT,
                STR_ARG(h[SERIAL]));
        return NOTICE_REASON_SIGNATURE;
    }
    return NOTICE_REASON_NONE;
}
