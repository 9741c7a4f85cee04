/* wechat_trade.c -- trades of WeChat Pay v3: prepay, query and close.
 *
 * A number that is not paid and not closed may be used again with the same bytes at the same
 * endpoint; anything else about it is refused. */
#include "sandbox/internal.h"

#include "base/clock.h"

#define EXPIRES_LEAST_MS MINUTE_MS
#define EXPIRES_MS       (7 * DAY_MS)

/* ---- prepay ---- */

static bool read_payer(struct wechat_call *c, struct trade *t)
{
    const struct json *payer = json_get(c->body, "payer"), *scene = json_get(c->body, "scene_info");
    struct str ignored;
    if (!sandbox_v3_text(c, payer, "/payer/openid", 1, 128, t->product == PRODUCT_JSAPI,
                         &t->openid) ||
        !sandbox_v3_text(c, scene, "/scene_info/device_id", 0, 32, false, &t->device_id))
        return false;
    if (t->product != PRODUCT_H5 && !scene)
        return true;
    return sandbox_v3_text(c, scene, "/scene_info/payer_client_ip", 1, 45, true, &ignored) &&
           (t->product != PRODUCT_H5 ||
            sandbox_v3_text(c, json_get(scene, "h5_info"), "/scene_info/h5_info/type", 1, 32, true,
                            &ignored));
}

static bool read_expiry(struct wechat_call *c, struct trade *t)
{
    struct str text = STR_NONE;
    int64_t given_ms;
    t->expire_ms = t->created_ms + EXPIRES_MS;
    if (!sandbox_v3_text(c, c->body, "/time_expire", 1, 64, false, &text))
        return false;
    if (!text.p)
        return true;
    if (clock_parse_rfc3339(text, &given_ms))
        return sandbox_v3_refuse_field(c->r, "/time_expire", text,
                                       "格式应为YYYY-MM-DDTHH:mm:ss+TIMEZONE");
    if (given_ms > t->expire_ms)
        return sandbox_v3_refuse_field(c->r, "/time_expire", text, "不能晚于下单后7天");
    t->expire_ms =
        given_ms < t->created_ms + EXPIRES_LEAST_MS ? t->created_ms + EXPIRES_LEAST_MS : given_ms;
    return true;
}

static bool read_prepay(struct wechat_call *c, struct trade *t)
{
    struct str appid, mchid, currency = STR("CNY");
    const struct json *amount = json_get(c->body, "amount");
    if (!sandbox_v3_text(c, c->body, "/appid", 1, 32, true, &appid) ||
        !sandbox_v3_text(c, c->body, "/mchid", 1, 32, true, &mchid) ||
        !sandbox_v3_text(c, c->body, "/description", 1, 127, true, &t->description) ||
        !sandbox_v3_text(c, c->body, "/out_trade_no", 6, 32, true, &t->out_trade_no) ||
        !sandbox_v3_text(c, c->body, "/attach", 0, 128, false, &t->attach) ||
        !sandbox_v3_notify_url(c, 255, true, &t->notify_url) ||
        !sandbox_v3_number(c, amount, "/amount/total", 1, true, &t->total_fen) ||
        !sandbox_v3_text(c, amount, "/amount/currency", 1, 16, false, &currency) ||
        !read_payer(c, t) || !read_expiry(c, t))
        return false;
    if (!sandbox_v3_is_number(t->out_trade_no, 6, 32, "_-|*"))
        return sandbox_v3_refuse_field(c->r, "/out_trade_no", t->out_trade_no,
                                       "只能是数字、大小写字母_-|*");
    if (!str_eq(currency, STR("CNY")))
        return sandbox_v3_refuse_field(c->r, "/amount/currency", currency, "仅支持CNY");
    if (!str_eq(mchid, c->account->mchid))
        return sandbox_v3_refuse(c->r, 400, "PARAM_ERROR",
                                 "http header中的mchid与post payload中的mchid不匹配");
    if (!str_eq(appid, c->account->appid))
        return sandbox_v3_refuse(c->r, 400, "APPID_MCHID_NOT_MATCH", "appid和mch_id不匹配");
    return true;
}

/* The trade that this call made or repeated; NULL: refused. Lock held. */
static struct trade *open_trade(struct wechat_call *c, const struct trade *like)
{
    struct trade *t = books_trade(&c->s->books, c->account, like->out_trade_no);
    if (!t) {
        t = books_add_trade(&c->s->books, like);
        sandbox_journal_trade(c->s, t);
    }
    books_age_trade(t, like->created_ms);
    bool refused = true;
    switch (t->state) {
    case TRADE_NOTPAY:
        refused = memcmp(&t->request, &like->request, sizeof t->request) != 0;
        if (refused)
            sandbox_v3_refuse(c->r, 403, "OUT_TRADE_NO_USED", "商户订单号重复");
        break;
    case TRADE_SUCCESS:
    case TRADE_REFUND:
        sandbox_v3_refuse(c->r, 400, "ORDERPAID", "该订单已支付");
        break;
    case TRADE_CLOSED:
        sandbox_v3_refuse(c->r, 400, "ORDER_CLOSED", "该订单已关闭");
        break;
    }
    t->prepays += !refused;
    return refused ? NULL : t;
}

static void answer_prepay(struct wechat_call *c, struct str out_trade_no)
{
    struct sandbox *s = c->s;
    struct arena *a = c->arena;
    struct str token = sandbox_random_text(s, a, 16), body = STR_NONE;
    struct str number = str_percent(a, out_trade_no);
    switch (c->product) {
    case PRODUCT_JSAPI:
    case PRODUCT_APP:
        body = str_printf(a, "{\"prepay_id\":\"wx%lld" STR_FMT "\"}", (long long)env_now_ms(s->env),
                          STR_ARG(token));
        break;
    case PRODUCT_NATIVE:
        if (s->public_url.n)
            body = str_printf(a, "{\"code_url\":\"" STR_FMT "/phone/" STR_FMT "?pr=" STR_FMT "\"}",
                              STR_ARG(s->public_url), STR_ARG(number), STR_ARG(token));
        else
            body = str_printf(a, "{\"code_url\":\"weixin://wxpay/bizpayurl?pr=" STR_FMT "\"}",
                              STR_ARG(token));
        break;
    case PRODUCT_H5:
        if (s->public_url.n)
            body =
                str_printf(a, "{\"h5_url\":\"" STR_FMT "/phone/" STR_FMT "?package=" STR_FMT "\"}",
                           STR_ARG(s->public_url), STR_ARG(number), STR_ARG(token));
        else
            body = str_printf(a,
                              "{\"h5_url\":\"https://wx.tenpay.com/cgi-bin/mmpayweb-bin/"
                              "checkmweb?prepay_id=wx" STR_FMT "&package=1\"}",
                              STR_ARG(token));
        break;
    }
    sandbox_answer_set(c->r->answer, 200, "application/json; charset=utf-8", body);
}

void sandbox_v3_prepay(struct wechat_call *c)
{
    struct trade like = { .account = c->account,
                          .product = c->product,
                          .created_ms = env_now_ms(c->s->env) };
    if (!read_prepay(c, &like))
        return;
    like.request = sha256_of((struct str[]) { c->r->path, c->r->body }, 2);
    sandbox_lock(c->s);
    struct trade *t = open_trade(c, &like);
    sandbox_unlock(c->s);
    if (t)
        answer_prepay(c, like.out_trade_no);
}

/* ---- query ---- */

static const char *const trade_types[] = { "JSAPI", "NATIVE", "APP", "MWEB" };
static const char *const state_texts[] = { "订单未支付", "支付成功", "转入退款", "订单已关闭" };

void sandbox_v3_print(const struct trade *t, enum trade_state state,
                      const struct transaction_lie *lie, struct arena *a, struct json_out *o)
{
    bool paid = state == TRADE_SUCCESS || state == TRADE_REFUND;
    int64_t amount = (paid ? t->taken_fen : t->total_fen) + (lie ? lie->amount_delta_fen : 0);
    json_begin_object(o);
    json_key(o, "amount");
    json_begin_object(o);
    json_kv_str(o, "currency", STR("CNY"));
    if (paid) {
        json_kv_str(o, "payer_currency", STR("CNY"));
        json_kv_int(o, "payer_total", amount);
    }
    json_kv_int(o, "total", amount);
    json_end_object(o);
    json_kv_str(o, "appid", t->account->appid);
    if (paid) {
        json_kv_str(o, "attach", t->attach.p ? t->attach : STR(""));
        json_kv_str(o, "bank_type", STR("OTHERS"));
    }
    json_kv_str(o, "mchid", lie && lie->mchid.n ? lie->mchid : t->account->mchid);
    json_kv_str(o, "out_trade_no", t->out_trade_no);
    json_key(o, "payer");
    json_begin_object(o);
    if (paid)
        json_kv_str(o, "openid", t->openid.p ? t->openid : STR("oSandboxPayer0000000000000001"));
    json_end_object(o);
    json_key(o, "promotion_detail");
    json_begin_array(o);
    json_end_array(o);
    if (t->device_id.n) {
        json_key(o, "scene_info");
        json_begin_object(o);
        json_kv_str(o, "device_id", t->device_id);
        json_end_object(o);
    }
    if (paid)
        json_kv_str(o, "success_time", clock_rfc3339(a, t->success_ms));
    json_kv_str(o, "trade_state", str_of(books_trade_state(state)));
    json_kv_str(o, "trade_state_desc", str_of(state_texts[state]));
    if (paid) {
        json_kv_str(o, "trade_type", str_of(trade_types[t->product]));
        json_kv_str(o, "transaction_id", t->transaction_id);
    }
    json_end_object(o);
}

static bool check_query_mchid(struct wechat_call *c)
{
    struct str mchid = sandbox_request_query(c->r, "mchid");
    if (!mchid.n)
        return sandbox_v3_refuse_field(c->r, "mchid", STR_NONE, "必填");
    if (!str_eq(mchid, c->account->mchid))
        return sandbox_v3_refuse(c->r, 400, "PARAM_ERROR",
                                 "http header中的mchid与query中的mchid不匹配");
    return true;
}

/* Lock held. */
static void answer_trade(struct wechat_call *c, struct trade *t)
{
    struct buf b;
    struct json_out o;
    books_age_trade(t, env_now_ms(c->s->env));
    t->queries++;
    buf_init_arena(&b, c->arena, 16384);
    json_out_init(&o, &b);
    sandbox_v3_print(t, t->state, NULL, c->arena, &o);
    sandbox_answer_set(c->r->answer, 200, "application/json; charset=utf-8", buf_str(&b));
}

void sandbox_v3_query(struct wechat_call *c)
{
    if (!check_query_mchid(c))
        return;
    sandbox_lock(c->s);
    struct trade *t = books_trade(&c->s->books, c->account, c->param);
    if (t)
        answer_trade(c, t);
    else
        sandbox_v3_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    sandbox_unlock(c->s);
}

void sandbox_v3_query_id(struct wechat_call *c)
{
    if (!check_query_mchid(c))
        return;
    sandbox_lock(c->s);
    struct trade *t = books_trade_by_id(&c->s->books, c->param);
    if (t && t->account == c->account && t->success_ms)
        answer_trade(c, t);
    else
        sandbox_v3_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    sandbox_unlock(c->s);
}

/* ---- close ---- */

void sandbox_v3_close(struct wechat_call *c)
{
    struct str mchid;
    if (!sandbox_v3_text(c, c->body, "/mchid", 1, 32, true, &mchid))
        return;
    if (!str_eq(mchid, c->account->mchid)) {
        sandbox_v3_refuse(c->r, 400, "PARAM_ERROR",
                          "http header中的mchid与post payload中的mchid不匹配");
        return;
    }
    sandbox_lock(c->s);
    struct trade *t = books_trade(&c->s->books, c->account, c->param);
    if (!t) {
        sandbox_v3_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    } else if (t->state == TRADE_SUCCESS || t->state == TRADE_REFUND) {
        sandbox_v3_refuse(c->r, 400, "ORDERPAID", "该订单已支付");
    } else {
        if (t->state == TRADE_NOTPAY)
            sandbox_journal_closed(c->s, t);
        t->state = TRADE_CLOSED;
        t->closes++;
        sandbox_answer_set(c->r->answer, 204, NULL, STR_NONE);
    }
    sandbox_unlock(c->s);
}
