/* params.c -- what the client needs to let the shopper pay: the credential of the prepay, signed
 * anew for JSAPI and APP.
 *
 * JSAPI signs "prepay_id=<id>", APP the bare id: mixing them up is the classic "paySign
 * verification failed". Seconds, not milliseconds; signType itself is not signed (protocol sheet
 * 7). */
#include "channel/wechat/wechat.h"

const char *wechat_credential_key(enum pay_method method)
{
    switch (method) {
    case METHOD_NATIVE:
        return "code_url";
    case METHOD_H5:
        return "h5_url";
    case METHOD_JSAPI:
    case METHOD_APP:
        break;
    }
    return "prepay_id";
}

static enum err jsapi_params(struct account *account, struct env *env, struct str prepay_id,
                             struct arena *a, struct json_out *out, struct err_info *info)
{
    struct str appid = account->config.wechat.appid;
    struct str timestamp = wechat_timestamp(env, a), nonce = wechat_nonce(env, a);
    struct str package = str_printf(a, "prepay_id=" STR_FMT, STR_ARG(prepay_id));
    struct str sign;
    enum err e = wechat_client_sign(wechat_keys_of(account), appid, timestamp, nonce, package, a,
                                    &sign, info);
    if (e)
        return e;
    json_kv_str(out, "appId", appid);
    json_kv_str(out, "timeStamp", timestamp);
    json_kv_str(out, "nonceStr", nonce);
    json_kv_str(out, "package", package);
    json_kv_str(out, "signType", STR("RSA"));
    json_kv_str(out, "paySign", sign);
    return ERR_OK;
}

static enum err app_params(struct account *account, struct env *env, struct str prepay_id,
                           struct arena *a, struct json_out *out, struct err_info *info)
{
    struct str appid = account->config.wechat.appid;
    struct str timestamp = wechat_timestamp(env, a), nonce = wechat_nonce(env, a);
    struct str sign;
    enum err e = wechat_client_sign(wechat_keys_of(account), appid, timestamp, nonce, prepay_id, a,
                                    &sign, info);
    if (e)
        return e;
    json_kv_str(out, "appid", appid);
    json_kv_str(out, "partnerid", account->config.wechat.mchid);
    json_kv_str(out, "prepayid", prepay_id);
    json_kv_str(out, "package", STR("Sign=WXPay"));
    json_kv_str(out, "noncestr", nonce);
    json_kv_str(out, "timestamp", timestamp);
    json_kv_str(out, "sign", sign);
    return ERR_OK;
}

enum err wechat_client_params(struct account *account, struct env *env, enum pay_method method,
                              struct str credentials, struct arena *a, struct json_out *out,
                              struct err_info *info)
{
    const struct json *json;
    struct str value;
    const char *key = wechat_credential_key(method);
    if (json_parse(a, credentials, &json, info) || json_get_str(json, key, &value, info))
        return err_internal(info, "the stored credentials hold no %s", key);
    switch (method) {
    case METHOD_JSAPI:
        return jsapi_params(account, env, value, a, out, info);
    case METHOD_APP:
        return app_params(account, env, value, a, out, info);
    case METHOD_NATIVE:
    case METHOD_H5:
        break;
    }
    json_kv_str(out, key, value);
    return ERR_OK;
}
