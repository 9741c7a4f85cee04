/* transport.c -- one handler behind two carriers: the HTTP routes, and a transport that answers in
 * process.
 *
 * An answer that never comes is a torn one over HTTP, and HTTP_UNKNOWN in process. A call
 * that never arrived is HTTP_NOT_SENT in process; over HTTP the best that can be done is to cut it
 * with nothing done. */
#include "sandbox/internal.h"

#define BODY_MAX (64 * 1024)

void sandbox_answer_header(struct answer *a, const char *name, struct str value)
{
    if (a->header_count < sizeof a->headers / sizeof a->headers[0])
        a->headers[a->header_count++] = (struct http_header) { str_of(name), value };
}

void sandbox_answer_set(struct answer *a, int status, const char *content_type, struct str body)
{
    a->status = status;
    a->content_type = content_type;
    a->body = body;
}

size_t sandbox_find(struct str s, const char *what)
{
    size_t at = 0;
    while (at < s.n && !str_starts(str_sub(s, at, s.n), str_of(what)))
        at++;
    return at;
}

struct str sandbox_request_query(struct request *r, const char *key)
{
    struct str rest = r->query;
    while (rest.p) {
        struct str value = str_cut(&rest, '&'), name = str_cut(&value, '=');
        if (str_eq(name, str_of(key)))
            return str_unpercent(r->arena, value, true, &value) ? STR_NONE : value;
    }
    return STR_NONE;
}

static bool below(struct str path, const char *top)
{
    struct str t = str_of(top);
    return str_starts(path, t) && (path.n == t.n || path.p[t.n] == '/');
}

void sandbox_handle(struct request *r)
{
    r->query = r->target;
    r->path = str_cut(&r->query, '?');
    if (below(r->path, "/v3"))
        sandbox_v3_handle(r);
    else if (below(r->path, "/sandbox/v1"))
        sandbox_control_handle(r);
    else if (below(r->path, "/phone"))
        sandbox_phone_handle(r);
    else
        sandbox_answer_set(r->answer, 404, NULL, STR_NONE);
}

/* ---- HTTP ---- */

static void drop(struct http_request *req, void *arg)
{
    (void)arg;
    http_drop(req);
}

/* On the polling thread: the work is computation on memory, and only such a request can be cut. */
static void handle_http(struct http_request *req, void *service)
{
    struct answer answer = { 0 };
    struct request r = {
        .s = service,
        .arena = http_arena(req),
        .method = http_method(req),
        .target = http_target(req),
        .headers = *http_headers(req),
        .body = http_body(req),
        .answer = &answer,
    };
    sandbox_handle(&r);
    if (answer.outcome != ANSWER_COMPLETE) {
        if (answer.hold_ms <= 0) {
            http_drop(req);
            return;
        }
        http_suspend(req);
        http_deadline(req, answer.hold_ms, drop, NULL);
        return;
    }
    for (size_t i = 0; i < answer.header_count; i++)
        http_answer_header(req, answer.headers[i].name, answer.headers[i].value);
    http_answer(req, answer.status, answer.content_type, answer.body);
}

#define GET_(path_)                                                                                \
    {                                                                                              \
        .method = "GET", .path = path_, .flags = HTTP_OPEN, .handler = handle_http                 \
    }
#define POST_(path_)                                                                               \
    {                                                                                              \
        .method = "POST", .path = path_, .flags = HTTP_OPEN, .body_max = BODY_MAX,                 \
        .handler = handle_http                                                                     \
    }

/* Any depth: what is below is routed by the files themselves, the same for both carriers. */
const struct http_route sandbox_routes[] = {
    GET_("/v3/{a}"),
    POST_("/v3/{a}"),
    GET_("/v3/{a}/{b}"),
    POST_("/v3/{a}/{b}"),
    GET_("/v3/{a}/{b}/{c}"),
    POST_("/v3/{a}/{b}/{c}"),
    GET_("/v3/{a}/{b}/{c}/{d}"),
    POST_("/v3/{a}/{b}/{c}/{d}"),
    GET_("/v3/{a}/{b}/{c}/{d}/{e}"),
    POST_("/v3/{a}/{b}/{c}/{d}/{e}"),
    GET_("/v3/{a}/{b}/{c}/{d}/{e}/{f}"),
    POST_("/v3/{a}/{b}/{c}/{d}/{e}/{f}"),
    GET_("/sandbox/v1/{a}"),
    POST_("/sandbox/v1/{a}"),
    GET_("/sandbox/v1/{a}/{b}"),
    GET_("/phone"),
    GET_("/phone/"),
    GET_("/phone/{no}"),
    POST_("/phone/pay/{no}"),
    { 0 },
};

/* ---- in process ---- */

static void exchange(struct transport *t, struct env *env, const struct http_call *call,
                     struct arena *a, struct http_reply *ret)
{
    struct sandbox *s = container_of(t, struct sandbox, transport);
    struct answer answer = { 0 };
    struct url url;
    struct err_info info = { 0 };
    int64_t began_us = env_mono_us(env);

    *ret = (struct http_reply) { .outcome = HTTP_NOT_SENT };
    if (url_parse(call->url, &url, &info)) {
        ret->trouble = str_dup(a, str_of(info.text));
        return;
    }
    struct request r = {
        .s = s,
        .arena = a,
        .method = str_of(call->method),
        .target = url.path_query,
        .headers = call->headers,
        .body = call->body,
        .answer = &answer,
    };
    sandbox_handle(&r);
    switch (answer.outcome) {
    case ANSWER_NOT_REACHED:
        ret->trouble = STR("sandbox: could not connect");
        break;
    case ANSWER_NEVER_COMES:
        if (answer.hold_ms > 0)
            env_sleep_ms(env, answer.hold_ms);
        ret->outcome = HTTP_UNKNOWN;
        ret->trouble = STR("sandbox: no answer");
        break;
    case ANSWER_COMPLETE: {
        struct http_header *headers = arena_array(a, answer.header_count + 1, sizeof *headers);
        size_t n = answer.header_count;
        for (size_t i = 0; i < n; i++)
            headers[i] = answer.headers[i];
        if (answer.content_type)
            headers[n++] =
                (struct http_header) { STR("Content-Type"), str_of(answer.content_type) };
        ret->outcome = HTTP_ANSWERED;
        ret->status = answer.status;
        ret->headers = (struct http_headers) { headers, n };
        ret->body = answer.body;
        break;
    }
    }
    ret->took_us = env_mono_us(env) - began_us;
}

struct transport *sandbox_transport(struct sandbox *s)
{
    s->transport.exchange = exchange;
    return &s->transport;
}
