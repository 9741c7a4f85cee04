/* request.c -- the bodies we send, built once and stored: what is stored is what is signed and
 * sent, on every try.
 *
 * A field the channel would refuse is ERR_INVALID here, named, before anything is stored. Only
 * texts for people (description, reason) are bent to what the channel takes instead of refused: no
 * payment fails over an emoji. */
#include "channel/wechat/wechat.h"

#include "base/clock.h"

/* The documents say "string(127)" and leave open whether bytes or characters: bytes satisfy both
 * readings. */
#define DESCRIPTION_MAX 127
#define REASON_MAX      80
#define BODY_MAX        8192

static const char number_set[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-|*";
static const char refund_set[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-|*@";

static size_t utf8_length(unsigned char lead)
{
    return lead < 0x80   ? 1
           : lead < 0xc2 ? 0
           : lead < 0xe0 ? 2
           : lead < 0xf0 ? 3
           : lead < 0xf5 ? 4
                         : 0;
}

/* U+FE0F and U+200D, which would be left over where an emoji was taken out. */
static bool is_emoji_glue(struct str c)
{
    return str_eq(c, STR("\xef\xb8\x8f")) || str_eq(c, STR("\xe2\x80\x8d"));
}

struct str wechat_clean_text(struct arena *a, struct str text, size_t max)
{
    struct buf out;
    buf_init_arena(&out, a, max);
    for (size_t i = 0; i < text.n;) {
        struct str c = str_sub(text, i, utf8_length((unsigned char)text.p[i]));
        bool valid = c.n && str_is_utf8(c);
        i += valid ? c.n : 1;
        if (!valid || c.n == 4 || is_emoji_glue(c))
            continue;
        if (c.n == 1 && ((unsigned char)c.p[0] < 0x20 || c.p[0] == 0x7f))
            c = STR(" ");
        if (out.n + c.n > max)
            break;
        buf_add_str(&out, c);
    }
    return str_trim(buf_str(&out));
}

static enum err check_number(struct str no, const char *field, const char *set, size_t min,
                             size_t max, struct err_info *info)
{
    if (no.n < min || no.n > max || !str_all_of(no, set))
        return err_field(info, ERR_INVALID, field,
                         "WeChat takes %zu to %zu characters of letters, digits, _-|*", min, max);
    return ERR_OK;
}

static enum err check_amount(const struct account *account, struct money amount,
                             struct err_info *info)
{
    if (!str_eq(money_currency(&amount), str_of(account->info->currency)) ||
        money_sign(amount) <= 0)
        return err_field(info, ERR_INVALID, "amount", "WeChat takes positive amounts in CNY only");
    return ERR_OK;
}

static enum err check_prepay(const struct account *account, const struct prepay *p,
                             struct err_info *info)
{
    enum err e = check_number(p->pay_no, "pay_no", number_set, 6, 32, info);
    if (e || (e = check_amount(account, p->amount, info)))
        return e;
    if (!(account->methods & 1u << p->method))
        return err_field(info, ERR_INVALID, "method", "the account does not offer this method");
    if (p->method == METHOD_JSAPI && (p->payer.n == 0 || p->payer.n > 128))
        return err_field(info, ERR_INVALID, "payer",
                         "JSAPI needs the payer's openid under this account's appid");
    if (p->method == METHOD_H5 && (p->client_ip.n == 0 || p->client_ip.n > 45))
        return err_field(info, ERR_INVALID, "client_ip", "H5 needs the payer's IP address");
    return ERR_OK;
}

/* The stored body, and its path. */
static enum err finish(struct buf *body, const char *path, struct arena *a,
                       struct channel_request *ret, struct err_info *info)
{
    if (!buf_ok(body))
        return err_set(info, ERR_INVALID, "the request is larger than %d bytes", BODY_MAX);
    *ret = (struct channel_request) { .endpoint = str_dup(a, str_of(path)), .body = buf_str(body) };
    return ERR_OK;
}

static void put_amount(struct json_out *o, const char *key, struct money amount)
{
    json_kv_int(o, key, money_fen(amount));
}

static void put_scene(struct json_out *o, struct str client_ip)
{
    json_key(o, "scene_info");
    json_begin_object(o);
    json_kv_str(o, "payer_client_ip", client_ip);
    json_key(o, "h5_info");
    json_begin_object(o);
    json_kv_str(o, "type", STR("Wap"));
    json_end_object(o);
    json_end_object(o);
}

static const char *prepay_path(enum pay_method method)
{
    switch (method) {
    case METHOD_NATIVE:
        return "/v3/pay/transactions/native";
    case METHOD_JSAPI:
        return "/v3/pay/transactions/jsapi";
    case METHOD_APP:
        return "/v3/pay/transactions/app";
    case METHOD_H5:
        break;
    }
    return "/v3/pay/transactions/h5";
}

enum err wechat_prepay_build(const struct account *account, const struct prepay *p, struct arena *a,
                             struct channel_request *ret, struct err_info *info)
{
    const struct wechat_config *config = &account->config.wechat;
    enum err e = check_prepay(account, p, info);
    if (e)
        return e;
    struct str description = wechat_clean_text(a, p->description, DESCRIPTION_MAX);

    struct buf body;
    struct json_out o;
    buf_init_arena(&body, a, BODY_MAX);
    json_out_init(&o, &body);
    json_begin_object(&o);
    json_kv_str(&o, "appid", config->appid);
    json_kv_str(&o, "mchid", config->mchid);
    json_kv_str(&o, "description", description.n ? description : p->pay_no);
    json_kv_str(&o, "out_trade_no", p->pay_no);
    if (p->expire_ms > 0)
        json_kv_str(&o, "time_expire", clock_rfc3339(a, p->expire_ms));
    json_kv_str(&o, "notify_url", account->config.notify_url);
    json_key(&o, "amount");
    json_begin_object(&o);
    put_amount(&o, "total", p->amount);
    json_kv_str(&o, "currency", money_currency(&p->amount));
    json_end_object(&o);
    if (p->method == METHOD_JSAPI) {
        json_key(&o, "payer");
        json_begin_object(&o);
        json_kv_str(&o, "openid", p->payer);
        json_end_object(&o);
    }
    if (p->method == METHOD_H5)
        put_scene(&o, p->client_ip);
    json_end_object(&o);
    return finish(&body, prepay_path(p->method), a, ret, info);
}

static enum err check_refund(const struct account *account, const struct refund_request *r,
                             struct err_info *info)
{
    enum err e = r->transaction_id.n
                     ? check_number(r->transaction_id, "transaction_id", number_set, 1, 32, info)
                     : check_number(r->pay_no, "pay_no", number_set, 6, 32, info);
    if (e || (e = check_number(r->refund_no, "refund_no", refund_set, 1, 64, info)) ||
        (e = check_amount(account, r->amount, info)) || (e = check_amount(account, r->total, info)))
        return e;
    int order;
    if ((e = money_cmp(r->amount, r->total, &order)) || order > 0)
        return err_field(info, ERR_INVALID, "amount", "more than the payment");
    return ERR_OK;
}

enum err wechat_refund_build(const struct account *account, const struct refund_request *r,
                             struct arena *a, struct channel_request *ret, struct err_info *info)
{
    enum err e = check_refund(account, r, info);
    if (e)
        return e;
    struct str reason = wechat_clean_text(a, r->reason, REASON_MAX);

    struct buf body;
    struct json_out o;
    buf_init_arena(&body, a, BODY_MAX);
    json_out_init(&o, &body);
    json_begin_object(&o);
    if (r->transaction_id.n)
        json_kv_str(&o, "transaction_id", r->transaction_id);
    else
        json_kv_str(&o, "out_trade_no", r->pay_no);
    json_kv_str(&o, "out_refund_no", r->refund_no);
    if (reason.n)
        json_kv_str(&o, "reason", reason);
    /* Always: without it the callback comes in v2 XML, or not at all. */
    json_kv_str(&o, "notify_url", account->config.notify_url);
    json_key(&o, "amount");
    json_begin_object(&o);
    put_amount(&o, "refund", r->amount);
    put_amount(&o, "total", r->total);
    json_kv_str(&o, "currency", money_currency(&r->total));
    json_end_object(&o);
    json_end_object(&o);
    return finish(&body, "/v3/refund/domestic/refunds", a, ret, info);
}
