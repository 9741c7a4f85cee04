/* api.c -- calls to WeChat Pay v3 and what their answers mean.
 *
 * Status first: what is not 2xx is never verified (4xx carry no signature) and goes through the
 * error table. A 2xx counts only when its signature verifies; otherwise the outcome is unknown, as
 * is a verified answer that does not say what it should, or speaks of another number. The bytes
 * signed are the bytes sent: one buffer. */
#include "channel/wechat/wechat.h"

#define ANSWER_MAX       (1 << 20)
#define COPY_MAX         16384 /* of an answer, for channel_call */
#define PREPAY_EXPIRE_MS (2 * 3600 * 1000LL)
#define H5_EXPIRE_MS     (5 * 60 * 1000LL)

/* ---- copies for channel_call ---- */

static const struct str masked_keys[] = {
    STR_INIT("\"openid\""),
    STR_INIT("\"payer_client_ip\""),
    STR_INIT("\"user_received_account\""),
};

/* Where the text value of the member whose key begins at `at` starts, behind its quote; 0: no such
 * member there. */
static size_t masked_value_at(struct str body, size_t at)
{
    for (size_t k = 0; k < sizeof masked_keys / sizeof masked_keys[0]; k++) {
        if (!str_eq(str_sub(body, at, masked_keys[k].n), masked_keys[k]))
            continue;
        size_t i = at + masked_keys[k].n;
        while (i < body.n && (body.p[i] == ' ' || body.p[i] == '\t' || body.p[i] == ':' ||
                              body.p[i] == '\r' || body.p[i] == '\n'))
            i++;
        return i < body.n && body.p[i] == '"' ? i + 1 : 0;
    }
    return 0;
}

/* Works on the text, not on a tree: broken bodies are kept too, and must not leak either. */
struct str wechat_masked_body(struct arena *a, struct str body)
{
    body = str_sub(body, 0, COPY_MAX);
    struct buf out;
    buf_init_arena(&out, a, 4 * COPY_MAX);
    for (size_t i = 0; i < body.n;) {
        size_t value = body.p[i] == '"' ? masked_value_at(body, i) : 0;
        if (!value) {
            buf_add_char(&out, body.p[i++]);
            continue;
        }
        buf_add_str(&out, str_sub(body, i, value - i));
        buf_add_str(&out, STR("***"));
        for (i = value; i < body.n && body.p[i] != '"'; i++)
            i += body.p[i] == '\\';
    }
    return buf_str(&out);
}

static struct str copy_request(struct arena *a, const struct wechat_call *call,
                               struct str timestamp, struct str nonce, struct str serial)
{
    struct str body = wechat_masked_body(a, call->body);
    return str_printf(a,
                      "%s " STR_FMT "\nAuthorization: timestamp=" STR_FMT ",nonce_str=" STR_FMT
                      ",serial_no=" STR_FMT ",signature=***\n\n" STR_FMT,
                      call->method, STR_ARG(call->endpoint), STR_ARG(timestamp), STR_ARG(nonce),
                      STR_ARG(serial), STR_ARG(body));
}

static struct str copy_answer(struct arena *a, const struct http_reply *reply)
{
    const struct http_headers *h = &reply->headers;
    struct str body = wechat_masked_body(a, reply->body);
    struct str timestamp = http_header_get(h, "Wechatpay-Timestamp", NULL);
    struct str nonce = http_header_get(h, "Wechatpay-Nonce", NULL);
    struct str serial = http_header_get(h, "Wechatpay-Serial", NULL);
    return str_printf(a,
                      "%d\nWechatpay-Timestamp: " STR_FMT "\nWechatpay-Nonce: " STR_FMT
                      "\nWechatpay-Serial: " STR_FMT "\n\n" STR_FMT,
                      reply->status, STR_ARG(timestamp), STR_ARG(nonce), STR_ARG(serial),
                      STR_ARG(body));
}

/* ---- one exchange ---- */

static void refuse(struct channel_answer *ret, enum channel_class class, struct str message)
{
    ret->outcome = CHANNEL_REFUSED;
    ret->class = class;
    ret->message = message;
}

static void unknown(struct channel_answer *ret, struct str message)
{
    ret->outcome = CHANNEL_UNKNOWN;
    ret->class = CLASS_NONE;
    ret->message = message;
}

/* {code, message, detail}, an empty body, or a proxy's HTML. */
static void read_refusal(struct arena *a, enum wechat_op op, const struct http_reply *reply,
                         struct channel_answer *ret)
{
    const struct json *json = NULL;
    (void)json_parse(a, reply->body, &json, NULL);
    (void)json_get_str(json, "code", &ret->code, NULL);
    (void)json_get_str(json, "message", &ret->message, NULL);
    struct str field;
    if (!json_get_str(json_get(json, "detail"), "field", &field, NULL))
        ret->message =
            str_printf(a, STR_FMT " (" STR_FMT ")", STR_ARG(ret->message), STR_ARG(field));
    if (!ret->message.n)
        ret->message = str_printf(a, "HTTP %d", reply->status);

    struct wechat_verdict verdict = wechat_judge(op, reply->status, ret->code);
    ret->outcome = verdict.outcome;
    ret->class = verdict.class;
    ret->not_exist = verdict.not_exist;
}

static bool take_reply(const struct channel_ctx *ctx, const struct wechat_call *call,
                       const struct http_reply *reply, struct channel_answer *ret)
{
    ret->took_us = reply->took_us;
    switch (reply->outcome) {
    case HTTP_NOT_SENT:
        refuse(ret, CLASS_RETRY, reply->trouble);
        return false;
    case HTTP_UNKNOWN:
        unknown(ret, reply->trouble);
        return false;
    case HTTP_ANSWERED:
        break;
    }
    ret->http_status = reply->status;
    ret->channel_request_id = http_header_get(&reply->headers, "Request-ID", NULL);
    ret->answer = copy_answer(ctx->arena, reply);
    if (reply->status >= 200 && reply->status < 300 && reply->status != 202)
        return true;
    read_refusal(ctx->arena, call->op, reply, ret);
    return false;
}

bool wechat_send(struct account *account, const struct channel_ctx *ctx,
                 const struct wechat_call *call, struct channel_answer *ret,
                 struct http_reply *ret_reply)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    struct arena *a = ctx->arena;
    struct str timestamp = wechat_timestamp(ctx->env, a), nonce = wechat_nonce(ctx->env, a);
    struct str message =
        wechat_request_message(a, call->method, call->endpoint, timestamp, nonce, call->body);
    struct str authorization;
    struct err_info info = { 0 };

    *ret = (struct channel_answer) { .request = copy_request(a, call, timestamp, nonce,
                                                             keys->merchant_serial) };
    if (wechat_authorization(keys, account->config.wechat.mchid, message, timestamp, nonce, a,
                             &authorization, &info)) {
        refuse(ret, CLASS_ACCOUNT, str_dup(a, str_of(info.text)));
        return false;
    }

    struct http_header headers[5] = {
        { STR("Accept"), STR("application/json") },
        { STR("User-Agent"), STR("fenpay/" FENPAY_VERSION) },
        { STR("Authorization"), authorization },
    };
    size_t n = 3;
    const struct wechat_key *key = wechat_key_preferred(keys, env_now_ms(ctx->env));
    if (key)
        headers[n++] = (struct http_header) { STR("Wechatpay-Serial"), key->id };
    if (call->body.p)
        headers[n++] = (struct http_header) { STR("Content-Type"), STR("application/json") };
    struct http_call http = {
        .method = call->method,
        .url = str_printf(a, STR_FMT STR_FMT, STR_ARG(account->config.api_url),
                          STR_ARG(call->endpoint)),
        .headers = { headers, n },
        .body = call->body,
        .connect_ms = account->config.connect_ms,
        .total_ms = account->config.total_ms,
        .answer_max = ANSWER_MAX,
        .ca_file = account->config.ca_file,
    };
    *ret_reply = (struct http_reply) { 0 };
    transport_exchange(ctx->transport, ctx->env, &http, a, ret_reply);
    return take_reply(ctx, call, ret_reply, ret);
}

/* A verified success, its JSON in `*ret_json` (NULL: an empty body). Otherwise `*ret` says what it
 * was. */
static bool succeed(struct account *account, const struct channel_ctx *ctx,
                    const struct wechat_call *call, struct channel_answer *ret,
                    const struct json **ret_json)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    struct http_reply reply;
    struct err_info info = { 0 };

    *ret_json = NULL;
    if (!wechat_send(account, ctx, call, ret, &reply))
        return false;
    enum notice_reason reason = wechat_verify(keys->table, keys->count, &reply.headers, reply.body,
                                              env_now_ms(ctx->env), false, ctx->arena, &info);
    if (!reason && (reply.body.n == 0 || !json_parse(ctx->arena, reply.body, ret_json, &info)))
        return true;
    ret->unknown_key = reason == NOTICE_REASON_SERIAL;
    unknown(ret, str_printf(ctx->arena, "not a verified answer: %s", info.text));
    return false;
}

static void done(struct channel_answer *ret, const struct fact *fact)
{
    ret->outcome = CHANNEL_DONE;
    ret->class = CLASS_NONE;
    ret->facts[0] = *fact;
    ret->fact_count = 1;
}

/* ---- the calls ---- */

void wechat_prepay(struct account *account, const struct channel_ctx *ctx, enum pay_method method,
                   const struct channel_request *request, struct channel_answer *ret)
{
    const struct wechat_call call = { WECHAT_PREPAY, "POST", request->endpoint, request->body };
    int64_t asked_ms = env_now_ms(ctx->env);
    const char *key = wechat_credential_key(method);
    const struct json *json;
    struct str value;
    if (!succeed(account, ctx, &call, ret, &json))
        return;
    if (json_get_str(json, key, &value, NULL) || value.n == 0) {
        unknown(ret, str_printf(ctx->arena, "the answer holds no %s", key));
        return;
    }
    struct buf credentials;
    struct json_out o;
    buf_init_arena(&credentials, ctx->arena, 6 * value.n + 64);
    json_out_init(&o, &credentials);
    json_begin_object(&o);
    json_kv_str(&o, key, value);
    json_end_object(&o);
    ret->credentials = buf_str(&credentials);
    ret->credential_expire_ms = asked_ms + (method == METHOD_H5 ? H5_EXPIRE_MS : PREPAY_EXPIRE_MS);
    done(ret, &(struct fact) { .kind = FACT_ACCEPTED, .ours = true });
}

static struct str trade_path(struct account *account, const struct channel_ctx *ctx,
                             struct str pay_no, bool close)
{
    struct str no = str_percent(ctx->arena, pay_no);
    if (close)
        return str_printf(ctx->arena, "/v3/pay/transactions/out-trade-no/" STR_FMT "/close",
                          STR_ARG(no));
    return str_printf(ctx->arena, "/v3/pay/transactions/out-trade-no/" STR_FMT "?mchid=" STR_FMT,
                      STR_ARG(no), STR_ARG(account->config.wechat.mchid));
}

void wechat_query(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret)
{
    const struct wechat_call call = { WECHAT_QUERY, "GET", trade_path(account, ctx, pay_no, false),
                                      STR_NONE };
    const struct json *json;
    struct fact fact;
    struct str state;
    struct err_info info = { 0 };
    if (!succeed(account, ctx, &call, ret, &json))
        return;
    if (wechat_transaction_fact(account, json, &fact, &state, &info)) {
        unknown(ret,
                str_printf(ctx->arena, "an unreadable transaction: %s: %s", info.field, info.text));
        return;
    }
    if (!str_eq(fact.pay_no, pay_no)) {
        unknown(ret, str_printf(ctx->arena, "the answer speaks of " STR_FMT, STR_ARG(fact.pay_no)));
        return;
    }
    ret->code = state;
    (void)json_get_str(json, "trade_state_desc", &ret->message, NULL);
    done(ret, &fact);
}

void wechat_close(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                  struct channel_answer *ret)
{
    struct str body = str_printf(ctx->arena, "{\"mchid\":\"" STR_FMT "\"}",
                                 STR_ARG(account->config.wechat.mchid));
    const struct wechat_call call = { WECHAT_CLOSE, "POST", trade_path(account, ctx, pay_no, true),
                                      body };
    const struct json *json;
    if (!succeed(account, ctx, &call, ret, &json))
        return;
    done(ret, &(struct fact) { .kind = FACT_SHUT, .pay_no = pay_no, .ours = true });
}

/* "200" on create is "accepted": the status, when it says more, is taken at its word. */
static void take_refund(struct account *account, const struct channel_ctx *ctx,
                        struct str refund_no, bool created, const struct json *json,
                        struct channel_answer *ret)
{
    struct fact fact;
    struct str state;
    struct err_info info = { 0 };
    if (wechat_refund_fact(account, json, false, &fact, &state, &info)) {
        unknown(ret, str_printf(ctx->arena, "an unreadable refund: %s: %s", info.field, info.text));
        return;
    }
    if (!str_eq(fact.refund_no, refund_no)) {
        unknown(ret,
                str_printf(ctx->arena, "the answer speaks of " STR_FMT, STR_ARG(fact.refund_no)));
        return;
    }
    if (created && fact.kind == FACT_NOTHING)
        fact.kind = FACT_REFUND_ACCEPTED;
    ret->code = state;
    done(ret, &fact);
}

void wechat_refund(struct account *account, const struct channel_ctx *ctx,
                   const struct channel_request *request, struct channel_answer *ret)
{
    const struct wechat_call call = { WECHAT_REFUND, "POST", request->endpoint, request->body };
    const struct json *json, *sent;
    struct str refund_no;
    if (json_parse(ctx->arena, request->body, &sent, NULL) ||
        json_get_str(sent, "out_refund_no", &refund_no, NULL)) {
        *ret = (struct channel_answer) { 0 };
        refuse(ret, CLASS_PERSON, STR("the stored request is not one of ours"));
        return;
    }
    if (succeed(account, ctx, &call, ret, &json))
        take_refund(account, ctx, refund_no, true, json, ret);
}

void wechat_query_refund(struct account *account, const struct channel_ctx *ctx,
                         struct str refund_no, struct channel_answer *ret)
{
    struct str no = str_percent(ctx->arena, refund_no);
    struct str path = str_printf(ctx->arena, "/v3/refund/domestic/refunds/" STR_FMT, STR_ARG(no));
    const struct wechat_call call = { WECHAT_QUERY_REFUND, "GET", path, STR_NONE };
    const struct json *json;
    if (succeed(account, ctx, &call, ret, &json))
        take_refund(account, ctx, refund_no, false, json, ret);
}
