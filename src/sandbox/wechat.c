/* wechat.c -- WeChat Pay v3 as a merchant meets it: the way of a call from its bytes to a signed
 * answer; trades are in wechat_trade.c, refunds in wechat_refund.c.
 *
 * A request goes through the table of calls, the faults, the Authorization check, its handler, and,
 * when the answer is 2xx, the signature. Refusals carry no signature; those of transactions no
 * Request-ID. */
#include "sandbox/internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "crypto/aead.h"

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
    sandbox_answer_set(r->answer, status, "application/json; charset=utf-8", buf_str(&b));
}

bool sandbox_v3_refuse(struct request *r, int status, const char *code, const char *message)
{
    refuse_detail(r, status, code, message, NULL, STR_NONE, NULL);
    return false;
}

bool sandbox_v3_refuse_field(struct request *r, const char *field, struct str value,
                             const char *issue)
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

bool sandbox_v3_text(struct wechat_call *c, const struct json *object, const char *field,
                     size_t min, size_t max, bool required, struct str *ret)
{
    const struct json *j = json_get(object, member_of(field));
    if (!j || j->type == JSON_NULL)
        return required ? sandbox_v3_refuse_field(c->r, field, STR_NONE, "必填") : true;
    if (j->type != JSON_STRING)
        return sandbox_v3_refuse_field(c->r, field, j->raw, "类型应为string");
    size_t n = str_utf8_count(j->text);
    if (n < min || n > max)
        return sandbox_v3_refuse_field(c->r, field, j->text, "长度不符合要求");
    *ret = j->text;
    return true;
}

bool sandbox_v3_number(struct wechat_call *c, const struct json *object, const char *field,
                       int64_t min, bool required, int64_t *ret)
{
    const struct json *j = json_get(object, member_of(field));
    int64_t v;
    if (!j || j->type == JSON_NULL)
        return required ? sandbox_v3_refuse_field(c->r, field, STR_NONE, "必填") : true;
    if (json_int(j, &v))
        return sandbox_v3_refuse_field(c->r, field, j->raw, "类型应为int");
    if (v < min || v > INT32_MAX)
        return sandbox_v3_refuse_field(c->r, field, j->raw, "数值不在范围内");
    *ret = v;
    return true;
}

/* The real one demands https and a public host; here callbacks stay at home. */
bool sandbox_v3_notify_url(struct wechat_call *c, size_t max, bool required, struct str *ret)
{
    struct url url;
    if (!sandbox_v3_text(c, c->body, "/notify_url", 1, max, required, ret))
        return false;
    if (ret->n && (url_parse(*ret, &url, NULL) || memchr(ret->p, '?', ret->n)))
        return sandbox_v3_refuse_field(c->r, "/notify_url", *ret, "格式错误，不能携带参数");
    return true;
}

bool sandbox_v3_is_number(struct str s, size_t min, size_t max, const char *extra)
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
        sandbox_v3_refuse(c->r, 404, "RESOURCE_NOT_EXISTS",
                          "无可用的平台证书，请在商户平台-API安全申请使用微信支付公钥");
    } else {
        json_begin_object(&o);
        json_key(&o, "data");
        json_begin_array(&o);
        for (size_t i = 0; i < c->account->platform_count; i++)
            print_certificate(c, &c->account->platform[i], &o);
        json_end_array(&o);
        json_end_object(&o);
        sandbox_answer_set(c->r->answer, 200, "application/json; charset=utf-8", buf_str(&b));
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
    { "POST", "/v3/pay/transactions/jsapi", "prepay", sandbox_v3_prepay, PRODUCT_JSAPI },
    { "POST", "/v3/pay/transactions/native", "prepay", sandbox_v3_prepay, PRODUCT_NATIVE },
    { "POST", "/v3/pay/transactions/app", "prepay", sandbox_v3_prepay, PRODUCT_APP },
    { "POST", "/v3/pay/transactions/h5", "prepay", sandbox_v3_prepay, PRODUCT_H5 },
    { "GET", "/v3/pay/transactions/out-trade-no/{}", "query", sandbox_v3_query, 0 },
    { "GET", "/v3/pay/transactions/id/{}", "query", sandbox_v3_query_id, 0 },
    { "POST", "/v3/pay/transactions/out-trade-no/{}/close", "close", sandbox_v3_close, 0 },
    { "POST", "/v3/refund/domestic/refunds", "refund", sandbox_v3_refund_create, 0 },
    { "GET", "/v3/refund/domestic/refunds/{}", "query_refund", sandbox_v3_refund_query, 0 },
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
    sandbox_answer_set(r->answer, path_known ? 405 : 404, NULL, STR_NONE);
    return NULL;
}

/* ---- faults of calls ---- */

/* Unverified: only chooses the rule. */
static struct str claimed_mchid(const struct request *r)
{
    struct str header = http_header_get(&r->headers, "Authorization", NULL);
    struct str rest = str_sub(header, sandbox_find(header, "mchid=\""), header.n);
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
    if (sandbox_faults_hit(f, FAULT_NOT_SENT, call, mchid, NULL)) {
        r->answer->outcome = ANSWER_NOT_REACHED;
    } else if (sandbox_faults_hit(f, FAULT_TIMEOUT, call, mchid, &rule)) {
        r->answer->outcome = ANSWER_NEVER_COMES;
        r->answer->hold_ms = rule.delay_ms;
    } else if (sandbox_faults_hit(f, FAULT_ERROR, call, mchid, &rule)) {
        const char *code = rule.code.n ? str_cstr(r->arena, rule.code) : "SYSTEM_ERROR";
        sandbox_v3_refuse(r, rule.status ? rule.status : 400, code, "sandbox: refused on demand");
    } else if (sandbox_faults_hit(f, FAULT_HTTP_500, call, mchid, NULL)) {
        sandbox_v3_refuse(r, 500, "SYSTEM_ERROR", "系统异常，请稍后重试");
    } else if (sandbox_faults_hit(f, FAULT_HTTP_429, call, mchid, NULL)) {
        sandbox_v3_refuse(r, 429, "FREQUENCY_LIMITED", "频率限制，请降低调用频率");
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
    if (sandbox_faults_hit(f, FAULT_ANSWER_LOST, call, mchid, &rule)) {
        r->answer->outcome = ANSWER_NEVER_COMES;
        r->answer->hold_ms = rule.delay_ms;
    } else if (sandbox_faults_hit(f, FAULT_HTTP_429_DONE, call, mchid, NULL)) {
        sandbox_v3_refuse(r, 429, "FREQUENCY_LIMITED", "频率限制，请降低调用频率");
    } else {
        if (sandbox_faults_hit(f, FAULT_GARBAGE, call, mchid, NULL))
            sandbox_answer_set(
                r->answer, 200, "application/json; charset=utf-8",
                r->answer->body.n ? str_sub(r->answer->body, 0, r->answer->body.n / 2) : STR("{"));
        ret.unsigned_answer = sandbox_faults_hit(f, FAULT_UNSIGNED, call, mchid, NULL);
        ret.bad_signature = sandbox_faults_hit(f, FAULT_BAD_SIGNATURE, call, mchid, NULL);
    }
    sandbox_unlock(r->s);
    return ret;
}

static void sign_answer(struct request *r, struct account *account, bool badly)
{
    struct arena *a = r->arena;
    struct str wanted = http_header_get(&r->headers, "Wechatpay-Serial", NULL);
    sandbox_lock(r->s);
    struct platform_key k = sandbox_v3_signer(account, wanted, a);
    sandbox_unlock(r->s);
    struct str timestamp = str_printf(a, "%lld", (long long)(env_now_ms(r->s->env) / 1000));
    struct str nonce = sandbox_random_text(r->s, a, 32);
    struct str what = badly ? STR("something else") : r->answer->body;
    struct str signature = sandbox_v3_signature(k.key, timestamp, nonce, what, a);
    rsa_unref(k.key);
    sandbox_answer_header(r->answer, "Wechatpay-Nonce", nonce);
    sandbox_answer_header(r->answer, "Wechatpay-Serial", k.serial);
    sandbox_answer_header(r->answer, "Wechatpay-Signature", signature);
    sandbox_answer_header(r->answer, "Wechatpay-Signature-Type", STR("WECHATPAY2-SHA256-RSA2048"));
    sandbox_answer_header(r->answer, "Wechatpay-Timestamp", timestamp);
}

static struct account *run(struct request *r, const struct wechat_route *route, struct str param)
{
    struct wechat_call c = {
        .r = r, .s = r->s, .arena = r->arena, .param = param, .product = route->product
    };
    c.account = sandbox_v3_authorize(r);
    if (!c.account)
        return NULL;
    if (str_eq(r->method, STR("POST")) &&
        (json_parse(r->arena, r->body, &c.body, NULL) || c.body->type != JSON_OBJECT)) {
        sandbox_v3_refuse(r, 400, "PARAM_ERROR", "请求体不是合法的JSON");
        return NULL;
    }
    route->handler(&c);
    return c.account;
}

void sandbox_v3_handle(struct request *r)
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
        sandbox_answer_header(
            r->answer, "Request-ID",
            str_printf(r->arena, STR_FMT "-0", STR_ARG(sandbox_random_text(r->s, r->arena, 32))));
}
