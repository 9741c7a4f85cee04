/* server.h -- HTTP listeners: our own loop around libmicrohttpd, a route table, and everything
 * handlers must not forget.
 *
 * A listener has `loops` polling threads (address reuse), each with its own MHD daemon without
 * internal thread; see server.c for why. For every request the dispatcher does, in this order: the
 * refusals (what could smuggle a request), the limits, the route, the caller's admission hook
 * (authentication, permission, rate), the handler, the access log and metrics. Handlers see struct
 * http_request only.
 *
 * A handler answers with http_answer (or http_suspend and later http_finish_later). Non-blocking
 * handlers run on the polling thread and must not wait for anything; blocking ones run on the
 * listener's bounded worker pool (full: 503 with Retry-After at once).
 *
 * Lifetimes: everything in http_arena(req) lives until the request has been answered and its
 * completion hook has run. */
#ifndef FENPAY_SERVER_H
#define FENPAY_SERVER_H

#include "base/env.h"
#include "base/err.h"
#include "net/http.h"

struct http_server;
struct http_request;

typedef void http_handler(struct http_request *req, void *service);

enum http_route_flags {
    HTTP_BLOCKING = 1, /* runs on the worker pool */
    HTTP_RAW_PATH = 2, /* any '%' in the path and any query string are refused (400): callbacks */
    HTTP_OPEN = 4,     /* no admission */
};

struct http_route {
    const char *method; /* NULL ends a table */
    const char *path;   /* "/v1/orders/{order_no}/cancel"; a segment in braces is a parameter */
    unsigned flags;
    int permission;  /* handed to the admission hook */
    int rate_class;  /* likewise */
    size_t body_max; /* bytes; 0: no body allowed */
    http_handler *handler;
};

struct http_server_options {
    const char *name; /* "api", "notify", "ops": in logs and metrics */
    struct str
        listen; /* "127.0.0.1:8080", "[::1]:0", "unix" is not supported; port 0 picks a free one */
    unsigned loops, workers;
    unsigned worker_queue;    /* requests that may wait for a worker; default 2 * workers */
    unsigned connections_max; /* 2,000 */
    unsigned per_address_max; /* 64; 0: off (behind a proxy) */
    /* 5 s; 10 s, and 1 KB/s from a quarter of it on; 30 s */
    int64_t header_ms, body_ms, idle_ms;
    size_t header_bytes_max;              /* 12 KB */
    size_t body_bytes_max;                /* of all bodies together: 32 MB */
    struct str tls_cert_pem, tls_key_pem; /* both set: TLS */
    const struct http_route *routes;
    void *service; /* handed to handlers and hooks */
    /* Called on the polling thread before a handler whose route is not HTTP_OPEN, body already
     * complete. Answers the request itself and returns false to refuse. NULL: everything is
     * admitted. */
    bool (*admit)(struct http_request *req, const struct http_route *route, void *service);
    /* Prints the server's own refusals (400, 404, 405, 408, 413, 414, 415, 431, 503): `code` is a
     * stable word. NULL: a small JSON. */
    void (*refuse)(struct http_request *req, int status, const char *code, const char *text,
                   void *service);
    /* Optional: called once at the start and once at the end of every loop turn in which requests
     * were handled (to share one read transaction). */
    void (*turn_begin)(void *service);
    void (*turn_end)(void *service);
};

enum err http_server_start(struct env *env, const struct http_server_options *options,
                           struct http_server **ret, struct err_info *info);
int http_server_port(const struct http_server *s);
/* Stop in two steps, because what is suspended must be answered in between: first no new
 * connections and every answer carries "Connection: close"; then waits up to `grace_ms` for what is
 * under way, and stops (requests still suspended are dropped). */
void http_server_quiesce(struct http_server *s);
void http_server_stop(struct http_server *s, int64_t grace_ms);

/* ---- of a request; valid until it is answered ---- */
struct arena *http_arena(struct http_request *req);
struct env *http_env(struct http_request *req);
struct str http_method(struct http_request *req);
struct str http_path(struct http_request *req); /* decoded unless HTTP_RAW_PATH */
struct str http_target(
    struct http_request *req); /* path and query exactly as received: what signatures cover */
struct str http_param(struct http_request *req, const char *name); /* path parameter */
struct str http_query(
    struct http_request *req,
    const char *name); /* decoded; STR_NONE when absent; a repeated key was refused with 400 */
/* The i-th query key, STR_NONE past the end: for refusing unknown ones. */
struct str http_query_key(struct http_request *req, size_t i);
const struct http_headers *http_headers(struct http_request *req);
struct str http_body(struct http_request *req);
struct str http_peer(struct http_request *req); /* address without port */
struct str http_request_id(
    struct http_request *req); /* X-Request-Id when it is sane, else minted (16 hex) */
struct str http_traceparent(
    struct http_request *req); /* as received when well-formed, else STR_NONE */
void *http_service(struct http_request *req);
void http_set_user(struct http_request *req,
                   void *user); /* the admission hook leaves the caller here */
void *http_user(struct http_request *req);
int64_t http_received_ms(struct http_request *req);

/* ---- answering: exactly once ---- */
void http_answer_header(struct http_request *req, struct str name,
                        struct str value); /* before http_answer */
void http_answer(struct http_request *req, int status, const char *content_type,
                 struct str body); /* body is copied */
/* For 5xx and 429: adds Retry-After. */
void http_answer_retry_after(struct http_request *req, int seconds);
/* The handler returns without an answer; somebody calls http_finish_later. On the request's own
 * polling thread only (non-blocking handlers). */
void http_suspend(struct http_request *req);
/* From any thread, once per suspend: `fn` runs on the request's polling thread, the request still
 * suspended; it answers, or suspends again by doing nothing and having arranged another
 * http_finish_later. One wake per loop per batch: cheap to call many times. */
typedef void http_finish(struct http_request *req, void *arg);
void http_finish_later(struct http_request *req, http_finish *fn, void *arg);
/* A deadline for a suspended request: `fn` runs as above at that time unless the request was
 * answered before. */
void http_deadline(struct http_request *req, int64_t in_ms, http_finish *fn, void *arg);
/* Instead of an answer: half of one, then the connection is cut, so that the caller cannot know
 * what happened (fault injection). Without a byte a client that kept the connection may silently
 * send the request again. Where http_answer may be called on the request's polling thread: in a
 * non-blocking handler, in a finish function, in a deadline. */
void http_drop(struct http_request *req);
/* Runs on the polling thread after the request has been answered or dropped (`answered` false),
 * before its arena ends. */
void http_on_done(struct http_request *req,
                  void (*fn)(struct http_request *req, bool answered, void *arg), void *arg);

#endif
