/* error.c -- every refusal of the merchant API, in one form:
 *
 *   {"code":"ORDER_NOT_PAYABLE","message":"…","field":"…","request_id":"…"}
 *
 * The message is the registry's (core/code.h), Chinese or English by Accept-Language, with the
 * detail behind it. CHANNEL_REFUSED also carries the channel's own words. */
#include "api/call.h"

#include "base/log.h"

#define ERROR_BYTES_MAX 16384

/* The weight of `q` in thousandths: "", "1", "0.8". */
static int quality_of(struct str params)
{
    while (params.p) {
        struct str param = str_trim(str_cut(&params, ';'));
        if (!str_starts(param, STR("q=")) || param.n < 3)
            continue;
        int value = param.p[2] == '1' ? 1000 : 0;
        int unit = 100;
        for (size_t i = 4; i < param.n && param.p[i] >= '0' && param.p[i] <= '9' && unit;
             i++, unit /= 10)
            value += (param.p[i] - '0') * unit;
        return value > 1000 ? 1000 : value;
    }
    return 1000;
}

enum language error_language(struct http_request *req)
{
    struct str accept_language = http_header_get(http_headers(req), "Accept-Language", NULL);
    int best_zh = 0, best_en = 0;

    while (accept_language.p) {
        struct str params = str_trim(str_cut(&accept_language, ','));
        struct str tag = str_trim(str_cut(&params, ';'));
        struct str language = str_cut(&tag, '-');
        int *best = str_eq_nocase(language, STR("zh"))   ? &best_zh
                    : str_eq_nocase(language, STR("en")) ? &best_en
                                                         : NULL;
        int q = quality_of(params);
        if (best && q > *best)
            *best = q;
    }
    return best_zh > best_en ? LANGUAGE_CHINESE : LANGUAGE_ENGLISH;
}

struct str error_said(struct http_request *req, struct str en)
{
    return words_said(http_arena(req), error_language(req), en);
}

static struct str message_of(struct arena *a, const struct refusal *refusal, enum language language)
{
    const struct code_info *info = code_info(refusal->code);
    bool chinese = language == LANGUAGE_CHINESE;
    struct str text = str_of(chinese ? info->zh : info->en);

    if (!refusal->detail.n)
        return text;
    return str_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(text), chinese ? "：" : ": ",
                      STR_ARG(words_said(a, language, refusal->detail)));
}

/* After how many seconds, when the refusal does not say. */
static int retry_after_of(const struct refusal *refusal, int status)
{
    if (refusal->retry_after_s > 0)
        return refusal->retry_after_s;
    return status == 503 || status == 429 ? 1 : 0;
}

static void answer(struct http_request *req, const struct refusal *refusal, int retry_after_s)
{
    const struct code_info *info = code_info(refusal->code);
    struct arena *a = http_arena(req);
    enum language language = error_language(req);
    struct buf buf;
    struct json_out out;

    buf_init_arena(&buf, a, ERROR_BYTES_MAX);
    json_out_init(&out, &buf);
    json_begin_object(&out);
    json_kv_str(&out, "code", str_of(info->name));
    json_kv_str(&out, "message", message_of(a, refusal, language));
    if (refusal->field.n)
        json_kv_str(&out, "field", refusal->field);
    if (refusal->code == CODE_CHANNEL_REFUSED) {
        json_kv_str(&out, "channel_class", refusal->channel_class);
        json_kv_str(&out, "channel_code", refusal->channel_code);
        json_kv_str(&out, "channel_message", refusal->channel_message);
    }
    json_kv_str(&out, "request_id", http_request_id(req));
    json_end_object(&out);

    if (retry_after_s)
        http_answer_retry_after(req, retry_after_s);
    if (info->status == 401)
        http_answer_header(req, STR("WWW-Authenticate"), STR("Bearer realm=\"fenpay\""));
    http_answer_header(req, STR("Content-Language"),
                       language == LANGUAGE_CHINESE ? STR("zh-CN") : STR("en"));
    http_answer(req, info->status, "application/json; charset=utf-8",
                buf_ok(&buf) ? buf_str(&buf) : STR("{\"code\":\"INTERNAL\"}"));
}

void error_answer(struct http_request *req, const struct refusal *refusal)
{
    answer(req, refusal, retry_after_of(refusal, code_info(refusal->code)->status));
}

/* The server has set its own headers already. */
void api_refuse(struct http_request *req, int status, const char *code, const char *text,
                void *service)
{
    (void)service;
    answer(
        req,
        &(struct refusal) { .code = error_code_of(str_of(code), status), .detail = str_of(text) },
        0);
}

enum code error_code_of(struct str word, int status)
{
    for (int code = CODE_BAD_JSON; code <= CODE_CHANNEL_BUSY; code++)
        if (str_eq(word, str_of(code_info((enum code)code)->name)))
            return (enum code)code;

    switch (status) {
    case 401:
        return CODE_UNAUTHENTICATED;
    case 403:
        return CODE_FORBIDDEN;
    case 404:
        return CODE_NOT_FOUND;
    case 405:
        return CODE_METHOD_NOT_ALLOWED;
    case 408:
        return CODE_TIMEOUT;
    case 413:
        return CODE_TOO_LARGE;
    case 414:
        return CODE_URI_TOO_LONG;
    case 415:
        return CODE_UNSUPPORTED_MEDIA;
    case 429:
        return CODE_RATE_LIMITED;
    case 431:
        return CODE_HEADERS_TOO_LARGE;
    case 503:
        return CODE_BUSY;
    default:
        return status >= 500 ? CODE_INTERNAL : CODE_BAD_REQUEST;
    }
}

void call_refuse(struct api_call *call, const struct refusal *refusal)
{
    error_answer(call->req, refusal);
}

void call_refuse_code(struct api_call *call, enum code code)
{
    error_answer(call->req, &(struct refusal) { .code = code });
}

void call_refuse_field(struct api_call *call, enum code code, const char *field, struct str detail)
{
    error_answer(call->req,
                 &(struct refusal) { .code = code, .field = str_of(field), .detail = detail });
}

void call_refuse_err(struct api_call *call, enum err e, const struct err_info *info)
{
    enum code code = CODE_INTERNAL;

    if (e == ERR_NOT_FOUND)
        code = CODE_NOT_FOUND;
    else if (e == ERR_INVALID || e == ERR_DENIED || e == ERR_LIMIT)
        code = CODE_BAD_FIELD;
    else if (e == ERR_EXISTS)
        code = CODE_ALREADY_EXISTS;
    else if (e == ERR_BUSY || e == ERR_RETRY || e == ERR_UNKNOWN)
        code = CODE_BUSY;

    if (code == CODE_INTERNAL) {
        LOG(call->centre->env->log, LOG_ERROR, "api.internal",
            log_str("request_id", http_request_id(call->req)), log_cstr("err", err_name(e)),
            log_cstr("why", info->text));
        call_refuse_code(call, code);
        return;
    }
    error_answer(call->req,
                 &(struct refusal) { .code = code,
                                     .field = str_of(info->field[0] ? info->field : NULL),
                                     .detail = code == CODE_BUSY ? STR_NONE : str_of(info->text) });
}
