/* certificates.c -- fetching the platform certificates (certificate mode): GET /v3/certificates,
 * decrypt, merge.
 *
 * The answer is verified with the keys we hold. Only when we hold none that is still valid (the
 * first start, or after a long sleep) is it believed on its own word: its entries decrypt under the
 * APIv3 key, and its signature must verify with a certificate among them. Checking it never causes
 * another refresh (bug list E28). One bad entry spoils nothing. */
#include "channel/channel.h"
#include "channel/registry.h"
#include "channel/wechat/wechat.h"

#include "crypto/aead.h"

#define CERTIFICATES_MAX 16

static enum err open_entry(const struct wechat_keys *keys, const struct json *entry,
                           struct arena *a, struct wechat_key *ret, struct err_info *info)
{
    const struct json *box = json_get(entry, "encrypt_certificate");
    struct str nonce, cipher_text, cipher, pem, aad = STR_NONE;
    enum err e;
    if ((e = json_get_str(box, "nonce", &nonce, info)) ||
        (e = json_get_str(box, "ciphertext", &cipher_text, info)) ||
        (e = str_unbase64(a, cipher_text, &cipher)))
        return err_set(info, ERR_INVALID, "an entry without nonce or ciphertext");
    (void)json_get_str(box, "associated_data", &aad, NULL);
    e = ERR_DENIED;
    for (size_t i = 0; e && i < keys->apiv3_count; i++)
        e = aead_decrypt(keys->apiv3[i], nonce, aad, cipher, a, &pem);
    if (e)
        return err_set(info, ERR_DENIED, "a certificate does not decrypt: check the APIv3 key");
    return wechat_key_of_certificate(pem, a, ret, info);
}

enum err wechat_certificates_read(const struct wechat_keys *keys, const struct json *answer,
                                  struct arena *a, struct wechat_key ret[], size_t max,
                                  size_t *ret_n, struct err_info *info)
{
    const struct json *data = json_get(answer, "data");
    size_t n = 0;
    enum err e = ERR_NOT_FOUND;
    for (const struct json *entry = data ? data->first : NULL; entry && n < max;
         entry = entry->next) {
        enum err failed = open_entry(keys, entry, a, &ret[n], info);
        if (failed)
            e = failed;
        else
            n++;
    }
    if (n == 0)
        return e == ERR_NOT_FOUND ? err_set(info, ERR_INVALID, "the answer holds no certificates")
                                  : e;
    *ret_n = n;
    return ERR_OK;
}

static bool can_verify_now(const struct wechat_keys *keys, int64_t now_ms)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->table[i].not_after_ms == 0 || keys->table[i].not_after_ms > now_ms)
            return true;
    }
    return false;
}

static enum err check_signature(const struct wechat_keys *keys, const struct wechat_key fetched[],
                                size_t n, const struct http_reply *reply, int64_t now_ms,
                                struct arena *a, struct err_info *info)
{
    enum notice_reason reason = wechat_verify(keys->table, keys->count, &reply->headers,
                                              reply->body, now_ms, false, a, info);
    if (reason == NOTICE_REASON_SERIAL && !can_verify_now(keys, now_ms))
        reason = wechat_verify(fetched, n, &reply->headers, reply->body, now_ms, false, a, info);
    return reason ? ERR_DENIED : ERR_OK;
}

static enum err merge(struct account *account, const struct wechat_key fetched[], size_t n,
                      int64_t now_ms, struct account **ret)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    bool news = false;
    for (size_t i = 0; i < n; i++)
        news |= !wechat_key_find(keys->table, keys->count, fetched[i].id);
    if (!news) {
        *ret = NULL;
        return ERR_OK;
    }
    struct wechat_keys *merged = wechat_keys_with(keys, fetched, n, now_ms);
    enum err e = account_renew(account, merged, ret);
    if (e)
        wechat_keys_free(merged);
    return e;
}

/* Why the call itself brought nothing. */
static enum err no_answer(const struct channel_answer *answer, struct err_info *info)
{
    if (answer->http_status == 404)
        return err_field(
            info, ERR_NOT_FOUND, "download_certs",
            "the channel has no certificates for this merchant (public-key mode): set it to false");
    return err_set(info,
                   answer->outcome == CHANNEL_UNKNOWN || answer->class == CLASS_RETRY ? ERR_BUSY
                                                                                      : ERR_DENIED,
                   "GET /v3/certificates: " STR_FMT " " STR_FMT, STR_ARG(answer->code),
                   STR_ARG(answer->message));
}

enum err wechat_refresh_keys(struct account *account, const struct channel_ctx *ctx,
                             struct account **ret, struct err_info *info)
{
    static const struct wechat_call call = {
        WECHAT_CERTIFICATES, "GET", STR_INIT("/v3/certificates"), { NULL, 0 }
    };
    const struct wechat_keys *keys = wechat_keys_of(account);
    struct channel_answer answer;
    struct http_reply reply;
    struct wechat_key fetched[CERTIFICATES_MAX];
    size_t n = 0;
    const struct json *json;

    if (!account->config.wechat.download_certs) {
        *ret = NULL;
        return ERR_OK;
    }
    if (!wechat_send(account, ctx, &call, &answer, &reply))
        return no_answer(&answer, info);
    int64_t now_ms = env_now_ms(ctx->env);
    enum err e = json_parse(ctx->arena, reply.body, &json, info);
    if (!e &&
        !(e = wechat_certificates_read(keys, json, ctx->arena, fetched, CERTIFICATES_MAX, &n,
                                       info)) &&
        !(e = check_signature(keys, fetched, n, &reply, now_ms, ctx->arena, info)))
        e = merge(account, fetched, n, now_ms, ret);
    for (size_t i = 0; i < n; i++)
        rsa_unref(fetched[i].key);
    return e;
}
