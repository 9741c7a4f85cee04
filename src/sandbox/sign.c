/* sign.c -- WeChat Pay's signatures as the other side makes and checks them: who called, and with
 * which key an answer or a callback is signed.
 *
 * Written from the protocol, apart from the adapter's code, so that a mistake in one of them shows.
 */
#include "sandbox/internal.h"

#include <stdlib.h>

#define CLOCK_SKEW_S 300

struct authorization {
    struct str mchid, nonce, timestamp, serial, signature;
};

/* Exactly the five items, in any order, without blanks. */
static bool read_authorization(struct str header, struct authorization *ret)
{
    const struct str scheme = STR("WECHATPAY2-SHA256-RSA2048 ");
    struct {
        struct str name;
        struct str *to;
    } items[] = {
        { STR("mchid"), &ret->mchid },         { STR("nonce_str"), &ret->nonce },
        { STR("timestamp"), &ret->timestamp }, { STR("serial_no"), &ret->serial },
        { STR("signature"), &ret->signature },
    };
    size_t found = 0;
    *ret = (struct authorization) { 0 };
    if (!str_starts(header, scheme))
        return false;
    struct str rest = str_sub(header, scheme.n, header.n);
    while (rest.p) {
        struct str value = str_cut(&rest, ','), name = str_cut(&value, '=');
        if (value.n < 3 || value.p[0] != '"' || value.p[value.n - 1] != '"')
            return false;
        value = str_sub(value, 1, value.n - 2);
        size_t i = 0;
        while (i < 5 && !str_eq(items[i].name, name))
            i++;
        if (i == 5 || items[i].to->p || memchr(value.p, '"', value.n))
            return false;
        *items[i].to = value;
        found++;
    }
    return found == 5;
}

/* Queries, prepays and closes answer another text when nothing stands there. */
static bool refuse_missing(struct request *r)
{
    bool transactions = str_starts(r->path, STR("/v3/pay/transactions/"));
    return sandbox_v3_refuse(
        r, 401, "SIGN_ERROR",
        transactions ? "签名信息错误，验签失败"
                     : "Http头Authorization值格式错误，请参考《微信支付商户REST API签名规则》");
}

static bool check_plain_headers(struct request *r)
{
    struct str agent = http_header_get(&r->headers, "User-Agent", NULL);
    struct str accept = http_header_get(&r->headers, "Accept", NULL);
    bool json = sandbox_find(accept, "application/json") < accept.n ||
                sandbox_find(accept, "*/*") < accept.n;
    if (!agent.n || !json)
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST", "Http头缺少Accept或User-Agent");
    struct str type = http_header_get(&r->headers, "Content-Type", NULL);
    if (r->body.n && !str_starts(type, STR("application/json")))
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST",
                                 "Http头Content-Type应为application/json");
    return true;
}

struct account *sandbox_v3_authorize(struct request *r)
{
    struct sandbox *s = r->s;
    struct authorization auth;
    size_t times;
    int64_t timestamp_s, now_s = env_now_ms(s->env) / 1000;
    struct str signature;

    if (!check_plain_headers(r))
        return NULL;
    struct str header = http_header_get(&r->headers, "Authorization", &times);
    if (times != 1 || !read_authorization(header, &auth) ||
        str_int64(auth.timestamp, &timestamp_s)) {
        refuse_missing(r);
        return NULL;
    }
    if (timestamp_s < now_s - CLOCK_SKEW_S || timestamp_s > now_s + CLOCK_SKEW_S) {
        sandbox_v3_refuse(r, 401, "SIGN_ERROR",
                          "Http头Authorization中的timestamp与发起请求的时间不得超过5分钟");
        return NULL;
    }
    struct account *account = sandbox_account(s, auth.mchid);
    if (!account) {
        sandbox_v3_refuse(r, 400, "MCH_NOT_EXISTS", "商户号不存在");
        return NULL;
    }
    if (!str_eq_nocase(auth.serial, account->merchant_serial)) {
        sandbox_v3_refuse(r, 401, "SIGN_ERROR",
                          "商户证书序列号有误，请使用签名私钥匹配的证书序列号");
        return NULL;
    }
    const struct str parts[] = { r->method, STR("\n"),  r->target, STR("\n"), auth.timestamp,
                                 STR("\n"), auth.nonce, STR("\n"), r->body,   STR("\n") };
    if (str_unbase64(r->arena, auth.signature, &signature) ||
        rsa_verify_parts(account->merchant, parts, sizeof parts / sizeof parts[0], signature)) {
        sandbox_v3_refuse(r, 401, "SIGN_ERROR", "签名错误，请检查后再试");
        return NULL;
    }
    return account;
}

struct platform_key sandbox_v3_signer(struct account *account, struct str wanted, struct arena *a)
{
    const struct platform_key *found = NULL;
    for (size_t i = 0; i < account->platform_count; i++)
        if (str_eq_nocase(account->platform[i].serial, wanted))
            found = &account->platform[i];
    if (account->public_key.key && str_eq(account->public_key.serial, wanted))
        found = &account->public_key;
    if (!found && account->platform_count && !account->sign_with_public_key)
        found = &account->platform[account->platform_count - 1];
    if (!found)
        found = &account->public_key;
    struct platform_key k = *found;
    k.serial = str_dup(a, found->serial);
    k.key = rsa_ref(found->key);
    return k;
}

struct str sandbox_v3_signature(struct rsa_key *key, struct str timestamp, struct str nonce,
                                struct str body, struct arena *a)
{
    struct str raw;
    struct str message = str_printf(a, STR_FMT "\n" STR_FMT "\n" STR_FMT "\n", STR_ARG(timestamp),
                                    STR_ARG(nonce), STR_ARG(body));
    /* Our own key, checked when the sandbox was made: a failure would be a mistake of ours. */
    if (rsa_sign(key, message, a, &raw, NULL))
        abort();
    return str_base64(a, raw);
}
