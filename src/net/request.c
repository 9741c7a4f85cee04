/* request.c -- one request from its first line to its end: the library's callbacks, what is refused
 * before anybody looks at it, and the way to the handler.
 *
 * The library calls request_begin with the request line, request_continue once when the headers are
 * there, for each piece of the body, and once at the end, and request_end when the answer has been
 * sent or the connection is lost. An answer given in the first of these calls makes the library end
 * the connection, which is what a request with doubtful framing deserves; harmless refusals of
 * requests without a body wait for the last call, so that the connection is kept. */
#include "net/server_int.h"

#include <assert.h>

#include "base/arena.h"

#define ARENA_CHUNK 8192
#define QUERY_MAX   64
#define TARGET_MAX  8000
/* A body sent in chunks may exceed its limit by so much before we hang up instead of answering. */
#define BODY_OVER_MAX (1024 * 1024)

/* ---- beginning and end ---- */

void *request_begin(void *arg, const char *target, struct MHD_Connection *mhd)
{
    struct loop *l = arg;
    struct conn *c =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct arena *a = l->spare_count > 0 ? l->spare[--l->spare_count] : arena_new(ARENA_CHUNK);
    struct http_request *req = arena_one(a, struct http_request);
    req->arena = a;
    req->conn = c;
    req->loop = l;
    req->server = l->server;
    req->mhd = mhd;
    req->began_us = env_mono_us(l->server->env);
    req->received_ms = env_now_ms(l->server->env);
    req->target = str_dup(a, str_of(target ? target : ""));
    list_init(&req->suspended_node);
    list_init(&req->deadline_node);
    l->active++;
    c->req = req;
    if (c->state != CONN_FRESH) /* there the limit counts from the accept */
        conn_move(c, CONN_HEAD, l->now_us);
    return req;
}

static void log_request(struct http_request *req, int status, int64_t took_us)
{
    struct http_server *s = req->server;
    const char *route = req->route ? req->route->http->path : "-";
    LOG(s->env->log, LOG_INFO, "http.request", log_cstr("listener", s->name),
        log_str("method", head_is_token(req->method) ? req->method : STR("-")),
        log_cstr("route", route), log_int("status", status),
        log_int("bytes", (int64_t)req->answer.n), log_int("ms", took_us / 1000),
        log_str("request_id", req->id), log_cstr("peer", req->conn->peer));
}

/* What the request ended with; 0 when it was lost before an answer. */
static int final_status(struct http_request *req, struct MHD_Connection *mhd)
{
    if (req->answered)
        return req->status;
    const union MHD_ConnectionInfo *own =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    return own ? (int)own->http_status : 0; /* refused by the library itself */
}

/* Gives up what the body holds of the listener's room. */
static void body_done(struct http_request *req)
{
    atomic_fetch_sub(&req->server->body_bytes, req->body.n);
    buf_done(&req->body);
}

void request_end(void *arg, struct MHD_Connection *mhd, void **context,
                 enum MHD_RequestTerminationCode code)
{
    struct loop *l = arg;
    struct http_request *req = *context;
    if (!req)
        return;
    *context = NULL;
    finish_forget(req);
    int64_t took_us = env_mono_us(l->server->env) - req->began_us;
    int status = final_status(req, mhd);
    server_metrics_request(l->server->metrics, req->route, status, took_us);
    log_request(req, status, took_us);

    bool sent = req->answered && !req->dropped && code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    for (struct request_done *d = req->done; d; d = d->next)
        d->fn(req, sent, d->arg);

    body_done(req);
    req->conn->req = NULL;
    if (req->conn->state != CONN_SHUT)
        conn_move(req->conn, CONN_IDLE, l->now_us);
    l->active--;
    struct arena *a = req->arena; /* the request lives in it */
    arena_reset(a);
    if (l->spare_count < sizeof(l->spare) / sizeof(l->spare[0]))
        l->spare[l->spare_count++] = a;
    else
        arena_free(a);
}

/* ---- refusing ---- */

static void take_identity(struct http_request *req)
{
    size_t times;
    struct str id = http_header_get(&req->head.headers, "X-Request-Id", &times);
    if (times == 1 && head_is_request_id(id)) {
        req->id = str_dup(req->arena, id);
    } else {
        uint64_t r = rand_next(&req->loop->rand);
        req->id = str_hex(req->arena, &r, sizeof(r));
    }
    struct str trace = http_header_get(&req->head.headers, "traceparent", &times);
    if (times == 1 && head_is_traceparent(trace))
        req->traceparent = trace;
}

void request_refuse(struct http_request *req, int status, const char *code, const char *text)
{
    struct http_server *s = req->server;
    if (status == 503)
        http_answer_retry_after(req, 1);
    if (s->o.refuse)
        s->o.refuse(req, status, code, text, s->o.service);
    if (!req->answered)
        http_answer(req, status, "application/json",
                    str_printf(req->arena,
                               "{\"code\":\"%s\",\"message\":\"%s\",\"request_id\":\"%s\"}", code,
                               text, req->id.p));
}

struct str request_time_out(struct http_request *req)
{
    if (!req->id.p)
        take_identity(req);
    request_refuse(req, 408, "TIMEOUT", "the request came too slowly");
    return str_printf(req->arena,
                      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nX-Request-Id: " STR_FMT
                      "\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
                      STR_ARG(req->id), req->content_type, req->answer.n, STR_ARG(req->answer));
}

static enum MHD_Result send_or_lose(struct http_request *req)
{
    return answer_send(req) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_now(struct http_request *req, int status, const char *code,
                                  const char *text)
{
    req->close_after = true;
    conn_move(req->conn, CONN_BUSY, req->loop->now_us);
    request_refuse(req, status, code, text);
    return send_or_lose(req);
}

/* ---- the headers ---- */

/* Reads the header block as it lies in the library's buffer: [method, method + header size). The
 * distances between the pieces that the library found must be what a clean request line gives.
 * Returns what is wrong, or NULL. */
static const char *read_head(struct http_request *req, const char *url, const char *method,
                             const char *version)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    req->method = str_dup(req->arena, str_of(method));
    if (!size || !head_is_token(req->method) || !head_is_target(req->target))
        return "the request line is malformed";
    size_t n = size->header_size;
    size_t line = req->method.n + 1 + req->target.n + 1 + strlen("HTTP/1.1") + 2;
    if (url != method + req->method.n + 1 || version != url + req->target.n + 1 || n < line + 2)
        return "the request line has superfluous characters";
    const char *block = arena_copy(req->arena, method, n);
    if (block[line - 1] != '\0' || block[line - 2] != '\0')
        return "the request line ends without CRLF";
    bool http_1_1 = version[7] != '0';
    const char *wrong = head_read(req->arena, block + line, n - line, http_1_1, &req->head);
    if (wrong)
        return wrong;
    /* A line that we see and the library does not was hidden behind a NUL. */
    int seen = MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, NULL, NULL);
    return (size_t)seen == req->head.headers.count ? NULL : "a header value has a NUL in it";
}

static const char *read_query(struct http_request *req, struct str text)
{
    while (text.p) {
        struct str value = str_cut(&text, '&');
        if (value.n == 0)
            continue;
        struct str key = str_cut(&value, '=');
        if (!value.p)
            value = STR("");
        if (str_unpercent(req->arena, key, true, &key) ||
            str_unpercent(req->arena, value, true, &value))
            return "the query is badly escaped";
        if (http_query(req, str_cstr(req->arena, key)).p)
            return "a query parameter stands there twice";
        if (req->query_count == QUERY_MAX)
            return "too many query parameters";
        if (!req->query)
            req->query = arena_array(req->arena, QUERY_MAX, sizeof(*req->query));
        req->query[req->query_count++] = (struct request_query) { key, value };
    }
    return NULL;
}

static struct refusal refusal_of(int status, const char *code, const char *text)
{
    return (struct refusal) { status, code, text };
}

/* Finds the route; what is refused here leaves the framing intact. */
static struct refusal find_route(struct http_request *req)
{
    struct str query = req->target, path = str_cut(&query, '?'), allow;
    enum err e = router_split(req->arena, path, &req->route_path);
    if (e == ERR_INVALID)
        return refusal_of(400, "BAD_PATH", "the path is badly escaped or has dot segments");
    if (!e)
        req->route =
            router_match(req->server->router, req->method, &req->route_path, req->arena, &allow);
    else
        allow = STR_NONE;
    if (!req->route && !allow.p)
        return refusal_of(404, "NOT_FOUND", "no such path");
    if (!req->route) {
        http_answer_header(req, STR("Allow"), allow);
        return refusal_of(405, "METHOD_NOT_ALLOWED", "this path has other methods");
    }
    if (req->route->http->flags & HTTP_RAW_PATH) {
        req->path = path;
        if (query.p || memchr(path.p, '%', path.n))
            return refusal_of(400, "BAD_PATH", "no escapes and no query are allowed here");
        return refusal_of(0, NULL, NULL);
    }
    if (str_unpercent(req->arena, path, false, &req->path))
        return refusal_of(400, "BAD_PATH", "the path is badly escaped");
    const char *wrong = read_query(req, query);
    return wrong ? refusal_of(400, "BAD_QUERY", wrong) : refusal_of(0, NULL, NULL);
}

static struct refusal check_body(struct http_request *req)
{
    size_t max = req->route->http->body_max;
    bool has_body = req->head.chunked || req->head.content_length > 0;
    if (!has_body)
        return refusal_of(0, NULL, NULL);
    if (max == 0 || (req->head.content_length > 0 && (uint64_t)req->head.content_length > max))
        return refusal_of(413, "BODY_TOO_LARGE", "the body is larger than this path allows");
    struct str coding = http_header_get(&req->head.headers, "Content-Encoding", NULL);
    if (coding.p && !str_eq_nocase(coding, STR("identity")))
        return refusal_of(415, "UNSUPPORTED_ENCODING", "compressed bodies are not accepted");
    return refusal_of(0, NULL, NULL);
}

static enum MHD_Result headers_complete(struct http_request *req, const char *url,
                                        const char *method, const char *version)
{
    const char *wrong = read_head(req, url, method, version);
    if (wrong)
        req->head = (struct head) { .content_length = -1 };
    take_identity(req);
    if (wrong)
        return refuse_now(req, 400, "BAD_REQUEST", wrong);
    if (req->target.n > TARGET_MAX)
        return refuse_now(req, 414, "URI_TOO_LONG", "the request target is too long");
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size->header_size > req->server->o.header_bytes_max)
        return refuse_now(req, 431, "HEADERS_TOO_LARGE", "the headers are too large");

    bool has_body = req->head.chunked || req->head.content_length > 0;
    struct refusal r = find_route(req);
    if (!r.status)
        r = check_body(req);
    if (r.status && has_body)
        return refuse_now(req, r.status, r.code, r.text);

    req->refusal = r;
    req->phase = REQUEST_BODY;
    /* What the library tolerates in chunk framing and trailers must not become a second request. */
    req->close_after = req->head.chunked;
    if (has_body)
        buf_init(&req->body, req->route->http->body_max);
    req->conn->body_bytes = req->conn->body_looks = 0;
    conn_move(req->conn, has_body ? CONN_BODY : CONN_BUSY, req->loop->now_us);
    return MHD_YES;
}

/* ---- body and handler ---- */

/* All bodies of a listener together stay within `body_bytes_max`: nobody has said yet who he is. */
static bool body_has_room(struct http_request *req, size_t n)
{
    struct http_server *s = req->server;
    if (atomic_fetch_add(&s->body_bytes, n) + n <= s->o.body_bytes_max)
        return true;
    atomic_fetch_sub(&s->body_bytes, n);
    return false;
}

static enum MHD_Result body_piece(struct http_request *req, const char *data, size_t *n)
{
    req->conn->body_bytes += *n;
    if (!req->refusal.status && req->body.n + *n > req->body.max)
        req->refusal =
            refusal_of(413, "BODY_TOO_LARGE", "the body is larger than this path allows");
    else if (!req->refusal.status && !body_has_room(req, *n))
        req->refusal = refusal_of(503, "BUSY", "too many bodies are being received");
    if (req->refusal.status) {
        body_done(req);
        req->body_over += *n;
        if (req->body_over > BODY_OVER_MAX)
            return MHD_NO;
    } else {
        buf_add(&req->body, data, *n);
    }
    *n = 0;
    return MHD_YES;
}

/* On the polling thread or on a worker. */
void request_run_handler(struct http_request *req)
{
    struct http_server *s = req->server;
    bool working = req->phase == REQUEST_WORKING;
    if (working && atomic_load(&s->stopping) &&
        env_mono_us(s->env) >= atomic_load(&s->stop_by_us)) {
        req->dropped = true;
        request_refuse(req, 503, "SHUTTING_DOWN", "the server is shutting down");
        return;
    }
    req->route->http->handler(req, s->o.service);
    if ((working || req->phase == REQUEST_HANDLING) && !req->answered && !req->cut) {
        LOG(s->env->log, LOG_ERROR, "http.unanswered", log_cstr("route", req->route->http->path),
            log_str("request_id", req->id));
        request_refuse(req, 500, "INTERNAL", "the request was not answered");
    }
}

static void hand_to_worker(struct http_request *req)
{
    if (!workers_reserve(req->server->workers)) {
        request_refuse(req, 503, "BUSY", "too many requests are waiting");
        return;
    }
    http_suspend(req);
    req->phase = REQUEST_WORKING;
    workers_submit(req->server->workers, req);
}

static enum MHD_Result request_complete(struct http_request *req)
{
    struct http_server *s = req->server;
    const struct http_route *route = req->route ? req->route->http : NULL;
    conn_move(req->conn, CONN_BUSY, req->loop->now_us);
    req->phase = REQUEST_HANDLING;
    loop_turn_begin(req->loop);

    if (req->refusal.status) {
        request_refuse(req, req->refusal.status, req->refusal.code, req->refusal.text);
    } else if (s->o.admit && !(route->flags & HTTP_OPEN) && !s->o.admit(req, route, s->o.service)) {
        if (!req->answered)
            request_refuse(req, 500, "INTERNAL", "the request was not answered");
    } else if (route->flags & HTTP_BLOCKING) {
        hand_to_worker(req);
    } else {
        request_run_handler(req);
    }
    if (req->phase == REQUEST_HANDLING && req->cut)
        return MHD_NO; /* the library closes without a word */
    /* In this order: `answered` is the worker's to write once it has the request. */
    return req->phase == REQUEST_HANDLING && req->answered ? send_or_lose(req) : MHD_YES;
}

enum MHD_Result request_continue(void *arg, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *n, void **context)
{
    (void)arg;
    (void)mhd;
    struct http_request *req = *context;
    if (!req || req->conn->state == CONN_SHUT) /* it may have had its answer: 408 */
        return MHD_NO;
    switch (req->phase) {
    case REQUEST_HEAD:
        return headers_complete(req, url, method, version);
    case REQUEST_BODY:
        return *n > 0 ? body_piece(req, data, n) : request_complete(req);
    case REQUEST_HANDLING:
    case REQUEST_SUSPENDED:
    case REQUEST_WORKING:
    case REQUEST_SENDING:
        break; /* the library did not take our answer */
    }
    return MHD_NO;
}

/* ---- what handlers ask ---- */

struct arena *http_arena(struct http_request *req)
{
    return req->arena;
}
struct env *http_env(struct http_request *req)
{
    return req->server->env;
}
struct str http_method(struct http_request *req)
{
    return req->method;
}
struct str http_path(struct http_request *req)
{
    return req->path;
}
struct str http_target(struct http_request *req)
{
    return req->target;
}
struct str http_param(struct http_request *req, const char *name)
{
    return req->route ? route_param(req->route, &req->route_path, name) : STR_NONE;
}
struct str http_query(struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->query_count; i++)
        if (str_eq(req->query[i].key, str_of(name)))
            return req->query[i].value;
    return STR_NONE;
}
struct str http_query_key(struct http_request *req, size_t i)
{
    return i < req->query_count ? req->query[i].key : STR_NONE;
}
const struct http_headers *http_headers(struct http_request *req)
{
    return &req->head.headers;
}
struct str http_body(struct http_request *req)
{
    return buf_str(&req->body);
}
struct str http_peer(struct http_request *req)
{
    return str_of(req->conn->peer);
}
struct str http_request_id(struct http_request *req)
{
    return req->id;
}
struct str http_traceparent(struct http_request *req)
{
    return req->traceparent;
}
void *http_service(struct http_request *req)
{
    return req->server->o.service;
}
void http_set_user(struct http_request *req, void *user)
{
    req->user = user;
}
void *http_user(struct http_request *req)
{
    return req->user;
}
int64_t http_received_ms(struct http_request *req)
{
    return req->received_ms;
}

void http_on_done(struct http_request *req,
                  void (*fn)(struct http_request *req, bool answered, void *arg), void *arg)
{
    struct request_done *d = arena_one(req->arena, struct request_done);
    d->fn = fn;
    d->arg = arg;
    d->next = req->done; /* the last one added runs first */
    req->done = d;
}
