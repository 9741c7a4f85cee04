/* certificates.c -- platform certificates learnt at run time (certificate mode): fetched by GET
 * /v3/certificates and decrypted, or stored by an earlier process, and merged into a new set.
 *
 * The answer is verified with the keys we hold. Only when we hold none that is still valid (the
 * first start, or after a long sleep) is it believed on its own word: its entries decrypt under the
 * APIv3 key, and its signature must verify with a certificate among them. Checking it never causes
 * another refresh (bug list E28). One bad entry spoils nothing.
 *
 * A learnt certificate belongs to one merchant at one address of the channel: what the sandbox
 * taught an account must not verify anything once the same name stands for the real thing. */
#include "channel/channel.h"
#include "channel/registry.h"
#include "channel/wechat/wechat.h"

#include "crypto/aead.h"
#include "crypto/digest.h"

#include <assert.h>

static enum err open_entry(const struct wechat_keys *keys, const struct json *entry,
                           struct arena *a, struct wechat_key *ret, struct str *ret_pem,
                           struct err_info *info)
{
    const struct json *box = json_get(entry, "encrypt_certificate");
    struct str nonce, cipher_text, cipher, aad = STR_NONE;
    enum err e;
    if ((e = json_get_str(box, "nonce", &nonce, info)) ||
        (e = json_get_str(box, "ciphertext", &cipher_text, info)) ||
        (e = str_unbase64(a, cipher_text, &cipher)))
        return err_set(info, ERR_INVALID, "an entry without nonce or ciphertext");
    (void)json_get_str(box, "associated_data", &aad, NULL);
    e = ERR_DENIED;
    for (size_t i = 0; e && i < keys->apiv3_count; i++)
        e = aead_decrypt(keys->apiv3[i], nonce, aad, cipher, a, ret_pem);
    if (e)
        return err_set(info, ERR_DENIED, "a certificate does not decrypt: check the APIv3 key");
    return wechat_key_of_certificate(*ret_pem, a, ret, info);
}

enum err wechat_certificates_read(const struct wechat_keys *keys, const struct json *answer,
                                  struct arena *a, struct wechat_key ret[], struct str ret_pem[],
                                  size_t max, size_t *ret_n, struct err_info *info)
{
    const struct json *data = json_get(answer, "data");
    size_t n = 0;
    enum err e = ERR_NOT_FOUND;
    for (const struct json *entry = data ? data->first : NULL; entry && n < max;
         entry = entry->next) {
        enum err failed = open_entry(keys, entry, a, &ret[n], &ret_pem[n], info);
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

static struct str origin_of(const struct account *account, struct arena *a)
{
    const struct account_config *config = &account->config;
    return sha256_hex(a, str_printf(a, STR_FMT "\n" STR_FMT "\n%d", STR_ARG(config->wechat.mchid),
                                    STR_ARG(config->api_url), config->environment));
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
                             struct learnt_keys *ret, struct err_info *info)
{
    static const struct wechat_call call = {
        WECHAT_CERTIFICATES, "GET", STR_INIT("/v3/certificates"), { NULL, 0 }
    };
    const struct wechat_keys *keys = wechat_keys_of(account);
    struct channel_answer answer;
    struct http_reply reply;
    struct wechat_key fetched[LEARNT_KEYS_MAX];
    struct str pem[LEARNT_KEYS_MAX];
    size_t n = 0;
    const struct json *json;

    if (!account->config.wechat.download_certs) {
        ret->count = 0;
        return ERR_OK;
    }
    if (!wechat_send(account, ctx, &call, &answer, &reply))
        return no_answer(&answer, info);
    enum err e = json_parse(ctx->arena, reply.body, &json, info);
    if (!e && !(e = wechat_certificates_read(keys, json, ctx->arena, fetched, pem, LEARNT_KEYS_MAX,
                                             &n, info)))
        e = check_signature(keys, fetched, n, &reply, env_now_ms(ctx->env), ctx->arena, info);
    for (size_t i = 0; i < n && !e; i++)
        ret->items[i] = (struct learnt_key) { .serial = fetched[i].id,
                                              .origin = origin_of(account, ctx->arena),
                                              .pem = pem[i],
                                              .not_before_ms = fetched[i].not_before_ms,
                                              .not_after_ms = fetched[i].not_after_ms };
    if (!e)
        ret->count = n;
    for (size_t i = 0; i < n; i++)
        rsa_unref(fetched[i].key);
    return e;
}

/* What the certificate itself says counts, not what stands beside it. */
static bool read_learnt(const struct account *account, const struct learnt_key *learnt,
                        struct arena *a, struct wechat_key *ret)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    if (!str_eq(learnt->origin, origin_of(account, a)) ||
        wechat_key_of_certificate(learnt->pem, a, ret, NULL))
        return false;
    if (str_eq(ret->id, learnt->serial) && !rsa_same_public(keys->merchant, ret->key))
        return true;
    rsa_unref(ret->key);
    return false;
}

enum err wechat_keys_add(struct account *account, const struct learnt_keys *learnt,
                         struct account **ret, size_t *ret_refused, struct err_info *info)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    ARENA_AUTO a = arena_new(16384);
    struct wechat_key more[LEARNT_KEYS_MAX];
    size_t n = 0, refused = 0;
    enum err e = ERR_OK;

    (void)info;
    assert(learnt->count <= LEARNT_KEYS_MAX);
    for (size_t i = 0; i < learnt->count && account->config.wechat.download_certs; i++) {
        if (wechat_key_find(keys->table, keys->count, learnt->items[i].serial))
            continue;
        if (read_learnt(account, &learnt->items[i], a, &more[n]))
            n++;
        else
            refused++;
    }
    *ret = NULL;
    *ret_refused = refused;
    if (n) {
        struct wechat_keys *merged = wechat_keys_with(keys, more, n);
        if ((e = account_renew(account, merged, ret)))
            wechat_keys_free(merged);
    }
    for (size_t i = 0; i < n; i++)
        rsa_unref(more[i].key);
    return e;
}
