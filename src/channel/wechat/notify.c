/* notify.c -- WeChat's callbacks: from received bytes to facts, and the answer.
 *
 * Runs on a polling thread more than 15,000 times a second, and computes only: verify the raw
 * bytes, then read the envelope, decrypt, read the object. Everything that verified is worth
 * keeping: when it cannot be decrypted or understood it is RAW_ONLY (stored as it came, asked for
 * again), never BAD. Verified events that are none of ours are OK and state nothing, so that the
 * channel stops sending them. */
#include "channel/wechat/wechat.h"

#include "crypto/aead.h"
#include "crypto/digest.h"

struct envelope {
    struct str id, kind;
    struct str original_type, algorithm, nonce, aad, cipher;
};

static enum notice_result bad(struct notice *ret, enum notice_reason reason)
{
    *ret = (struct notice) { .reason = reason };
    return reason == NOTICE_REASON_SERIAL ? NOTICE_LATER : NOTICE_BAD;
}

static enum notice_result raw_only(const struct notice_input *in, struct arena *a,
                                   const struct envelope *envelope, enum notice_reason reason,
                                   struct notice *ret)
{
    struct str id = envelope->id.n ? envelope->id : sha256_hex(a, in->body);
    *ret = (struct notice) {
        .reason = reason,
        .kind = envelope->kind,
        .transport_id = envelope->id,
        .event_key = str_printf(a, "raw:" STR_FMT, STR_ARG(id)),
    };
    return NOTICE_RAW_ONLY;
}

/* Reads as far as it goes, so that a broken one still names itself. */
static bool read_envelope(struct str body, struct arena *a, struct envelope *ret,
                          struct err_info *info)
{
    *ret = (struct envelope) { 0 };
    const struct json *json;
    if (json_parse(a, body, &json, info))
        return false;
    (void)json_get_str(json, "id", &ret->id, NULL);
    (void)json_get_str(json, "event_type", &ret->kind, NULL);
    const struct json *resource = json_get(json, "resource");
    (void)json_get_str(resource, "original_type", &ret->original_type, NULL);
    (void)json_get_str(resource, "algorithm", &ret->algorithm, NULL);
    (void)json_get_str(resource, "nonce", &ret->nonce, NULL);
    (void)json_get_str(resource, "associated_data", &ret->aad, NULL);
    (void)json_get_str(resource, "ciphertext", &ret->cipher, NULL);
    if (!ret->id.n || !ret->kind.n || !ret->cipher.n) {
        err_set(info, ERR_INVALID, "the envelope lacks id, event_type or ciphertext");
        return false;
    }
    return true;
}

/* Under the current APIv3 key, then the previous one: a reset takes effect at once. */
static bool decrypt(const struct wechat_keys *keys, const struct envelope *envelope,
                    struct arena *a, struct str *ret, struct err_info *info)
{
    struct str cipher;
    if (!str_eq(envelope->algorithm, STR("AEAD_AES_256_GCM")) ||
        str_unbase64(a, envelope->cipher, &cipher)) {
        err_set(info, ERR_INVALID, "the resource is not Base64 under AEAD_AES_256_GCM");
        return false;
    }
    for (size_t i = 0; i < keys->apiv3_count; i++) {
        if (!aead_decrypt(keys->apiv3[i], envelope->nonce, envelope->aad, cipher, a, ret))
            return true;
    }
    err_set(info, ERR_DENIED, "the resource does not decrypt: check the APIv3 key");
    return false;
}

/* "TRANSACTION.SUCCESS" is also sent with original_type "profitsharing". Documents' old samples
 * leave the type out. */
static bool is_kind(const struct envelope *envelope, struct str prefix, struct str original_type)
{
    return str_starts(envelope->kind, prefix) &&
           (envelope->original_type.n == 0 || str_eq(envelope->original_type, original_type));
}

static enum err read_transaction(const struct account *account, const struct json *json,
                                 struct arena *a, struct notice *ret, struct err_info *info)
{
    struct str state;
    enum err e = wechat_transaction_fact(account, json, &ret->facts[0], &state, info);
    if (e)
        return e;
    const struct fact *fact = &ret->facts[0];
    ret->fact_count = 1;
    ret->subject_no = fact->pay_no;
    ret->event_key = str_printf(a, STR_FMT ":" STR_FMT ":" STR_FMT, STR_ARG(ret->kind),
                                STR_ARG(fact->transaction_id), STR_ARG(state));
    return ERR_OK;
}

static enum err read_refund(const struct account *account, const struct json *json, struct arena *a,
                            struct notice *ret, struct err_info *info)
{
    struct str state;
    enum err e = wechat_refund_fact(account, json, true, &ret->facts[0], &state, info);
    if (e)
        return e;
    const struct fact *fact = &ret->facts[0];
    ret->fact_count = 1;
    ret->subject_no = fact->pay_no;
    ret->event_key =
        str_printf(a, STR_FMT ":" STR_FMT ":" STR_FMT ":" STR_FMT, STR_ARG(ret->kind),
                   STR_ARG(fact->transaction_id), STR_ARG(state), STR_ARG(fact->channel_refund_id));
    return ERR_OK;
}

/* An event of another product (coupons, pay score, profit sharing): recorded, states nothing. */
static void read_other(const struct envelope *envelope, struct arena *a, struct notice *ret)
{
    ret->facts[0] = (struct fact) { .kind = FACT_NOTHING };
    ret->fact_count = 1;
    ret->event_key =
        str_printf(a, STR_FMT ":" STR_FMT, STR_ARG(envelope->kind), STR_ARG(envelope->id));
}

enum notice_result wechat_read_notice(struct account *account, struct env *env,
                                      const struct notice_input *in, struct arena *a,
                                      struct notice *ret, struct err_info *info)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    struct str start = str_trim(str_sub(in->body, 0, 64));
    if (start.n && start.p[0] == '<') {
        err_set(
            info, ERR_INVALID,
            "an XML body: a v2 callback, check the notify setting of refunds at the merchant site");
        return bad(ret, NOTICE_REASON_BODY);
    }
    enum notice_reason reason = wechat_verify(keys->table, keys->count, in->headers, in->body,
                                              env_now_ms(env), in->stored, a, info);
    if (reason)
        return bad(ret, reason);

    struct envelope envelope;
    if (!read_envelope(in->body, a, &envelope, info))
        return raw_only(in, a, &envelope, NOTICE_REASON_BODY, ret);
    struct notice notice = { .kind = envelope.kind, .transport_id = envelope.id };
    if (!decrypt(keys, &envelope, a, &notice.plain, info))
        return raw_only(in, a, &envelope, NOTICE_REASON_DECRYPT, ret);

    bool transaction = is_kind(&envelope, STR("TRANSACTION."), STR("transaction"));
    bool refund = is_kind(&envelope, STR("REFUND."), STR("refund"));
    if (transaction || refund) {
        const struct json *json;
        if (json_parse(a, notice.plain, &json, info) ||
            (refund ? read_refund : read_transaction)(account, json, a, &notice, info))
            return raw_only(in, a, &envelope, NOTICE_REASON_BODY, ret);
    } else {
        read_other(&envelope, a, &notice);
    }
    *ret = notice;
    return NOTICE_OK;
}

/* The status decides: 200 with any body is never sent again, 4xx and 5xx are. */
void wechat_answer_notice(const struct account *account, enum notice_answer answer,
                          struct notice_reply *ret)
{
    (void)account;
    static const struct notice_reply replies[] = {
        [ANSWER_OK] = { 200, "application/json",
                        STR_INIT("{\"code\":\"SUCCESS\",\"message\":\"成功\"}") },
        [ANSWER_LATER] = { 503, "application/json",
                           STR_INIT("{\"code\":\"FAIL\",\"message\":\"稍后重试\"}") },
        [ANSWER_BAD] = { 401, "application/json",
                         STR_INIT("{\"code\":\"FAIL\",\"message\":\"验签失败\"}") },
    };
    *ret = replies[answer];
}
