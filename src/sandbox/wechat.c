/* wechat.c -- WeChat Pay v3 as a merchant meets it: prepay, query, close and certificates; refunds
 * are in wechat_refund.c.
 *
 * A request goes through the table of calls, the faults, the Authorization check, its handler, and,
 * when the answer is 2xx, the signature. Refusals carry no signature; those of transactions no
 * Request-ID. */
#include "sandbox/internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "crypto/aead.h"

#define EXPIRES_LEAST_MS MINUTE_MS
#define EXPIRES_MS       (7 * DAY_MS)

/* ---- refusing ---- */

static void refuse_detail(struct request *r, int status, const char *code, const char *message,
                          const char *field, struct str value, const char *issue)
{
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, r->arena, 8192);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "code", str_of(code));
    if (field) {
        json_key(&o, "detail");
        json_begin_object(&o);
        json_kv_str(&o, "field", str_of(field));
        json_kv_str(&o, "issue", str_of(issue));
        json_kv_str(&o, "location", field[0] == '/' ? STR("body") : STR("query"));
        json_kv_str(&o, "value", value.p ? str_sub(value, 0, 1024) : STR(""));
        json_end_object(&o);
    }
    json_kv_str(&o, "message", str_of(message));
    json_end_object(&o);
    answer_set(r->answer, status, "application/json; charset=utf-8", buf_str(&b));
}

bool wechat_refuse(struct request *r, int status, const char *code, const char *message)
{
    refuse_detail(r, status, code, message, NULL, STR_NONE, NULL);
    return false;
}

bool wechat_refuse_field(struct request *r, const char *field, struct str value, const char *issue)
{
    refuse_detail(r, 400, "PARAM_ERROR", "参数错误", field, value, issue);
    return false;
}

/* ---- members of a body ---- */

static const char *member_of(const char *field)
{
    const char *last = strrchr(field, '/');
    return last ? last + 1 : field;
}

bool wechat_text(struct wechat_call *c, const struct json *object, const char *field, size_t min,
                 size_t max, bool required, struct str *ret)
{
    const struct json *j = json_get(object, member_of(field));
    if (!j || j->type == JSON_NULL)
        return required ? wechat_refuse_field(c->r, field, STR_NONE, "必填") : true;
    if (j->type != JSON_STRING)
        return wechat_refuse_field(c->r, field, j->raw, "类型应为string");
    size_t n = str_utf8_count(j->text);
    if (n < min || n > max)
        return wechat_refuse_field(c->r, field, j->text, "长度不符合要求");
    *ret = j->text;
    return true;
}

bool wechat_number(struct wechat_call *c, const struct json *object, const char *field, int64_t min,
                   bool required, int64_t *ret)
{
    const struct json *j = json_get(object, member_of(field));
    int64_t v;
    if (!j || j->type == JSON_NULL)
        return required ? wechat_refuse_field(c->r, field, STR_NONE, "必填") : true;
    if (json_int(j, &v))
        return wechat_refuse_field(c->r, field, j->raw, "类型应为int");
    if (v < min || v > INT32_MAX)
        return wechat_refuse_field(c->r, field, j->raw, "数值不在范围内");
    *ret = v;
    return true;
}

/* The real one demands https and a public host; here callbacks stay at home. */
bool wechat_notify_url(struct wechat_call *c, size_t max, bool required, struct str *ret)
{
    struct url url;
    if (!wechat_text(c, c->body, "/notify_url", 1, max, required, ret))
        return false;
    if (ret->n && (url_parse(*ret, &url, NULL) || memchr(ret->p, '?', ret->n)))
        return wechat_refuse_field(c->r, "/notify_url", *ret, "格式错误，不能携带参数");
    return true;
}

bool wechat_is_number(struct str s, size_t min, size_t max, const char *extra)
{
    if (s.n < min || s.n > max)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char ch = s.p[i];
        bool alnum =
            (ch >= '0' && ch <= '9') || (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z');
        if (!alnum && !strchr(extra, ch))
            return false;
    }
    return true;
}

/* ---- prepay ---- */

static bool read_payer(struct wechat_call *c, struct trade *t)
{
    const struct json *payer = json_get(c->body, "payer"), *scene = json_get(c->body, "scene_info");
    struct str ignored;
    if (!wechat_text(c, payer, "/payer/openid", 1, 128, t->product == PRODUCT_JSAPI, &t->openid) ||
        !wechat_text(c, scene, "/scene_info/device_id", 0, 32, false, &t->device_id))
        return false;
    if (t->product != PRODUCT_H5 && !scene)
        return true;
    return wechat_text(c, scene, "/scene_info/payer_client_ip", 1, 45, true, &ignored) &&
           (t->product != PRODUCT_H5 ||
            wechat_text(c, json_get(scene, "h5_info"), "/scene_info/h5_info/type", 1, 32, true,
                        &ignored));
}

static bool read_expiry(struct wechat_call *c, struct trade *t)
{
    struct str text = STR_NONE;
    int64_t given_ms;
    t->expire_ms = t->created_ms + EXPIRES_MS;
    if (!wechat_text(c, c->body, "/time_expire", 1, 64, false, &text))
        return false;
    if (!text.p)
        return true;
    if (clock_parse_rfc3339(text, &given_ms))
        return wechat_refuse_field(c->r, "/time_expire", text,
                                   "格式应为YYYY-MM-DDTHH:mm:ss+TIMEZONE");
    if (given_ms > t->expire_ms)
        return wechat_refuse_field(c->r, "/time_expire", text, "不能晚于下单后7天");
    t->expire_ms =
        given_ms < t->created_ms + EXPIRES_LEAST_MS ? t->created_ms + EXPIRES_LEAST_MS : given_ms;
    return true;
}

static bool read_prepay(struct wechat_call *c, struct trade *t)
{
    struct str appid, mchid, currency = STR("CNY");
    const struct json *amount = json_get(c->body, "amount");
    if (!wechat_text(c, c->body, "/appid", 1, 32, true, &appid) ||
        !wechat_text(c, c->body, "/mchid", 1, 32, true, &mchid) ||
        !wechat_text(c, c->body, "/description", 1, 127, true, &t->description) ||
        !wechat_text(c, c->body, "/out_trade_no", 6, 32, true, &t->out_trade_no) ||
        !wechat_text(c, c->body, "/attach", 0, 128, false, &t->attach) ||
        !wechat_notify_url(c, 255, true, &t->notify_url) ||
        !wechat_number(c, amount, "/amount/total", 1, true, &t->total_fen) ||
        !wechat_text(c, amount, "/amount/currency", 1, 16, false, &currency) || !read_payer(c, t) ||
        !read_expiry(c, t))
        return false;
    if (!wechat_is_number(t->out_trade_no, 6, 32, "_-|*"))
        return wechat_refuse_field(c->r, "/out_trade_no", t->out_trade_no,
                                   "只能是数字、大小写字母_-|*");
    if (!str_eq(currency, STR("CNY")))
        return wechat_refuse_field(c->r, "/amount/currency", currency, "仅支持CNY");
    if (!str_eq(mchid, c->account->mchid))
        return wechat_refuse(c->r, 400, "PARAM_ERROR",
                             "http header中的mchid与post payload中的mchid不匹配");
    if (!str_eq(appid, c->account->appid))
        return wechat_refuse(c->r, 400, "APPID_MCHID_NOT_MATCH", "appid和mch_id不匹配");
    return true;
}

/* The trade that this call made or repeated; NULL: refused. Lock held. */
static struct trade *open_trade(struct wechat_call *c, const struct trade *like)
{
    struct trade *t = books_trade(&c->s->books, c->account, like->out_trade_no);
    if (!t)
        t = books_add_trade(&c->s->books, like);
    trade_age(t, like->created_ms);
    bool refused = true;
    switch (t->state) {
    case TRADE_NOTPAY:
        refused = memcmp(&t->request, &like->request, sizeof t->request) != 0;
        if (refused)
            wechat_refuse(c->r, 403, "OUT_TRADE_NO_USED", "商户订单号重复");
        break;
    case TRADE_SUCCESS:
    case TRADE_REFUND:
        wechat_refuse(c->r, 400, "ORDERPAID", "该订单已支付");
        break;
    case TRADE_CLOSED:
        wechat_refuse(c->r, 400, "ORDER_CLOSED", "该订单已关闭");
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
    answer_set(c->r->answer, 200, "application/json; charset=utf-8", body);
}

static void prepay(struct wechat_call *c)
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

void transaction_print(const struct trade *t, enum trade_state state,
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
    json_kv_str(o, "trade_state", str_of(trade_state_name(state)));
    json_kv_str(o, "trade_state_desc", str_of(state_texts[state]));
    if (paid) {
        json_kv_str(o, "trade_type", str_of(trade_types[t->product]));
        json_kv_str(o, "transaction_id", t->transaction_id);
    }
    json_end_object(o);
}

static bool check_query_mchid(struct wechat_call *c)
{
    struct str mchid = request_query(c->r, "mchid");
    if (!mchid.n)
        return wechat_refuse_field(c->r, "mchid", STR_NONE, "必填");
    if (!str_eq(mchid, c->account->mchid))
        return wechat_refuse(c->r, 400, "PARAM_ERROR",
                             "http header中的mchid与query中的mchid不匹配");
    return true;
}

/* Lock held. */
static void answer_trade(struct wechat_call *c, struct trade *t)
{
    struct buf b;
    struct json_out o;
    trade_age(t, env_now_ms(c->s->env));
    t->queries++;
    buf_init_arena(&b, c->arena, 16384);
    json_out_init(&o, &b);
    transaction_print(t, t->state, NULL, c->arena, &o);
    answer_set(c->r->answer, 200, "application/json; charset=utf-8", buf_str(&b));
}

static void query_by_number(struct wechat_call *c)
{
    if (!check_query_mchid(c))
        return;
    sandbox_lock(c->s);
    struct trade *t = books_trade(&c->s->books, c->account, c->param);
    if (t)
        answer_trade(c, t);
    else
        wechat_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    sandbox_unlock(c->s);
}

static void query_by_id(struct wechat_call *c)
{
    if (!check_query_mchid(c))
        return;
    sandbox_lock(c->s);
    struct trade *t = books_trade_by_id(&c->s->books, c->param);
    if (t && t->account == c->account && t->success_ms)
        answer_trade(c, t);
    else
        wechat_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    sandbox_unlock(c->s);
}

/* ---- close ---- */

static void close_trade(struct wechat_call *c)
{
    struct str mchid;
    if (!wechat_text(c, c->body, "/mchid", 1, 32, true, &mchid))
        return;
    if (!str_eq(mchid, c->account->mchid)) {
        wechat_refuse(c->r, 400, "PARAM_ERROR",
                      "http header中的mchid与post payload中的mchid不匹配");
        return;
    }
    sandbox_lock(c->s);
    struct trade *t = books_trade(&c->s->books, c->account, c->param);
    if (!t) {
        wechat_refuse(c->r, 404, "ORDER_NOT_EXIST", "订单不存在");
    } else if (t->state == TRADE_SUCCESS || t->state == TRADE_REFUND) {
        wechat_refuse(c->r, 400, "ORDERPAID", "该订单已支付");
    } else {
        t->state = TRADE_CLOSED;
        t->closes++;
        answer_set(c->r->answer, 204, NULL, STR_NONE);
    }
    sandbox_unlock(c->s);
}

/* ---- certificates ---- */

/* Lock held. */
static void print_certificate(struct wechat_call *c, const struct platform_key *k,
                              struct json_out *o)
{
    struct str nonce = sandbox_random_text(c->s, c->arena, 12), cipher;
    if (aead_encrypt(c->account->apiv3_key, nonce, STR("certificate"), k->cert_pem, c->arena,
                     &cipher))
        abort(); /* the key's length was checked when the sandbox was made */
    json_begin_object(o);
    json_kv_str(o, "effective_time", clock_rfc3339(c->arena, k->not_before_ms));
    json_key(o, "encrypt_certificate");
    json_begin_object(o);
    json_kv_str(o, "algorithm", STR("AEAD_AES_256_GCM"));
    json_kv_str(o, "associated_data", STR("certificate"));
    json_kv_str(o, "ciphertext", str_base64(c->arena, cipher));
    json_kv_str(o, "nonce", nonce);
    json_end_object(o);
    json_kv_str(o, "expire_time", clock_rfc3339(c->arena, k->not_after_ms));
    json_kv_str(o, "serial_no", k->serial);
    json_end_object(o);
}

static void certificates(struct wechat_call *c)
{
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, c->arena, 1 << 20);
    json_out_init(&o, &b);
    sandbox_lock(c->s);
    if (!c->account->platform_count) {
        wechat_refuse(c->r, 404, "RESOURCE_NOT_EXISTS",
                      "无可用的平台证书，请在商户平台-API安全申请使用微信支付公钥");
    } else {
        json_begin_object(&o);
        json_key(&o, "data");
        json_begin_array(&o);
        for (size_t i = 0; i < c->account->platform_count; i++)
            print_certificate(c, &c->account->platform[i], &o);
        json_end_array(&o);
        json_end_object(&o);
        answer_set(c->r->answer, 200, "application/json; charset=utf-8", buf_str(&b));
    }
    sandbox_unlock(c->s);
}

/* ---- the table of calls ---- */

struct wechat_route {
    const char *method, *path; /* "{}" is the parameter */
    const char *name;          /* what fault rules call it */
    void (*handler)(struct wechat_call *c);
    enum trade_product product;
};

static const struct wechat_route routes[] = {
    { "POST", "/v3/pay/transactions/jsapi", "prepay", prepay, PRODUCT_JSAPI },
    { "POST", "/v3/pay/transactions/native", "prepay", prepay, PRODUCT_NATIVE },
    { "POST", "/v3/pay/transactions/app", "prepay", prepay, PRODUCT_APP },
    { "POST", "/v3/pay/transactions/h5", "prepay", prepay, PRODUCT_H5 },
    { "GET", "/v3/pay/transactions/out-trade-no/{}", "query", query_by_number, 0 },
    { "GET", "/v3/pay/transactions/id/{}", "query", query_by_id, 0 },
    { "POST", "/v3/pay/transactions/out-trade-no/{}/close", "close", close_trade, 0 },
    { "POST", "/v3/refund/domestic/refunds", "refund", wechat_refund_create, 0 },
    { "GET", "/v3/refund/domestic/refunds/{}", "query_refund", wechat_refund_query, 0 },
    { "GET", "/v3/certificates", "certificates", certificates, 0 },
};

static bool path_matches(const char *pattern, struct str path, struct str *ret_param)
{
    struct str want = str_of(pattern);
    while (want.p && path.p) {
        struct str w = str_cut(&want, '/'), got = str_cut(&path, '/');
        if (str_eq(w, STR("{}")) && got.n)
            *ret_param = got;
        else if (!str_eq(w, got))
            return false;
    }
    return !want.p && !path.p;
}

/* NULL: answered with 404 or 405, both without a body. */
static const struct wechat_route *find_route(struct request *r, struct str *ret_param)
{
    bool path_known = false;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        struct str param = STR_NONE;
        if (!path_matches(routes[i].path, r->path, &param))
            continue;
        path_known = true;
        if (!str_eq(r->method, str_of(routes[i].method)))
            continue;
        if (param.n && str_unpercent(r->arena, param, false, &param))
            break;
        *ret_param = param;
        return &routes[i];
    }
    answer_set(r->answer, path_known ? 405 : 404, NULL, STR_NONE);
    return NULL;
}

/* ---- faults of calls ---- */

/* Unverified: only chooses the rule. */
static struct str claimed_mchid(const struct request *r)
{
    struct str header = http_header_get(&r->headers, "Authorization", NULL);
    struct str rest = str_sub(header, text_find(header, "mchid=\""), header.n);
    str_cut(&rest, '"');
    return str_cut(&rest, '"');
}

/* What happens instead of the work. */
static bool fails_before(struct request *r, struct str call, struct str mchid)
{
    struct sandbox_fault_rule rule;
    struct faults *f = &r->s->faults;
    bool failed = true;
    sandbox_lock(r->s);
    if (faults_hit(f, FAULT_NOT_SENT, call, mchid, NULL)) {
        r->answer->outcome = ANSWER_NOT_REACHED;
    } else if (faults_hit(f, FAULT_TIMEOUT, call, mchid, &rule)) {
        r->answer->outcome = ANSWER_NEVER_COMES;
        r->answer->hold_ms = rule.delay_ms;
    } else if (faults_hit(f, FAULT_ERROR, call, mchid, &rule)) {
        const char *code = rule.code.n ? str_cstr(r->arena, rule.code) : "SYSTEM_ERROR";
        wechat_refuse(r, rule.status ? rule.status : 400, code, "sandbox: refused on demand");
    } else if (faults_hit(f, FAULT_HTTP_500, call, mchid, NULL)) {
        wechat_refuse(r, 500, "SYSTEM_ERROR", "系统异常，请稍后重试");
    } else if (faults_hit(f, FAULT_HTTP_429, call, mchid, NULL)) {
        wechat_refuse(r, 429, "FREQUENCY_LIMITED", "频率限制，请降低调用频率");
    } else {
        failed = false;
    }
    sandbox_unlock(r->s);
    return failed;
}

/* What happens to the answer of work that was done. */
struct answer_faults {
    bool unsigned_answer, bad_signature;
};

static struct answer_faults fails_after(struct request *r, struct str call, struct str mchid)
{
    struct sandbox_fault_rule rule;
    struct faults *f = &r->s->faults;
    struct answer_faults ret = { 0 };
    if (r->answer->status / 100 != 2)
        return ret;
    sandbox_lock(r->s);
    if (faults_hit(f, FAULT_ANSWER_LOST, call, mchid, &rule)) {
        r->answer->outcome = ANSWER_NEVER_COMES;
        r->answer->hold_ms = rule.delay_ms;
    } else if (faults_hit(f, FAULT_HTTP_429_DONE, call, mchid, NULL)) {
        wechat_refuse(r, 429, "FREQUENCY_LIMITED", "频率限制，请降低调用频率");
    } else {
        if (faults_hit(f, FAULT_GARBAGE, call, mchid, NULL))
            answer_set(r->answer, 200, "application/json; charset=utf-8",
                       r->answer->body.n ? str_sub(r->answer->body, 0, r->answer->body.n / 2)
                                         : STR("{"));
        ret.unsigned_answer = faults_hit(f, FAULT_UNSIGNED, call, mchid, NULL);
        ret.bad_signature = faults_hit(f, FAULT_BAD_SIGNATURE, call, mchid, NULL);
    }
    sandbox_unlock(r->s);
    return ret;
}

static void sign_answer(struct request *r, struct account *account, bool badly)
{
    struct arena *a = r->arena;
    struct str wanted = http_header_get(&r->headers, "Wechatpay-Serial", NULL);
    sandbox_lock(r->s);
    struct platform_key k = wechat_signer(account, wanted, a);
    sandbox_unlock(r->s);
    struct str timestamp = str_printf(a, "%lld", (long long)(env_now_ms(r->s->env) / 1000));
    struct str nonce = sandbox_random_text(r->s, a, 32);
    struct str what = badly ? STR("something else") : r->answer->body;
    struct str signature = wechat_signature(k.key, timestamp, nonce, what, a);
    rsa_unref(k.key);
    answer_header(r->answer, "Wechatpay-Nonce", nonce);
    answer_header(r->answer, "Wechatpay-Serial", k.serial);
    answer_header(r->answer, "Wechatpay-Signature", signature);
    answer_header(r->answer, "Wechatpay-Signature-Type", STR("WECHATPAY2-SHA256-RSA2048"));
    answer_header(r->answer, "Wechatpay-Timestamp", timestamp);
}

static struct account *run(struct request *r, const struct wechat_route *route, struct str param)
{
    struct wechat_call c = {
        .r = r, .s = r->s, .arena = r->arena, .param = param, .product = route->product
    };
    c.account = wechat_authorize(r);
    if (!c.account)
        return NULL;
    if (str_eq(r->method, STR("POST")) &&
        (json_parse(r->arena, r->body, &c.body, NULL) || c.body->type != JSON_OBJECT)) {
        wechat_refuse(r, 400, "PARAM_ERROR", "请求体不是合法的JSON");
        return NULL;
    }
    route->handler(&c);
    return c.account;
}

void wechat_handle(struct request *r)
{
    struct str param = STR_NONE;
    const struct wechat_route *route = find_route(r, &param);
    if (!route)
        return;
    struct str call = str_of(route->name), mchid = claimed_mchid(r);
    bool transactions = str_starts(r->path, STR("/v3/pay/transactions/"));
    if (!fails_before(r, call, mchid)) {
        struct account *account = run(r, route, param);
        struct answer_faults bad = fails_after(r, call, mchid);
        if (account && r->answer->outcome == ANSWER_COMPLETE && r->answer->status / 100 == 2 &&
            !bad.unsigned_answer)
            sign_answer(r, account, bad.bad_signature);
    }
    if (r->answer->status / 100 == 2 || !transactions)
        answer_header(
            r->answer, "Request-ID",
            str_printf(r->arena, STR_FMT "-0", STR_ARG(sandbox_random_text(r->s, r->arena, 32))));
}
