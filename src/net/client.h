/* client.h -- HTTP calls to channels and webhooks.
 *
 * A transport is whatever carries a call: curl in production, the in-process sandbox in the
 * simulator. One blocking exchange at a time per calling thread; connections are kept and reused.
 * Peer and host names are verified, redirects are not followed, answers are capped. What is known
 * of a failed call decides what may be done next, hence three outcomes. */
#ifndef FENPAY_CLIENT_H
#define FENPAY_CLIENT_H

#include "base/env.h"
#include "base/err.h"
#include "net/http.h"

enum http_outcome {
    HTTP_ANSWERED, /* a complete answer, whatever its status */
    HTTP_NOT_SENT, /* nothing reached the peer: safe to repeat (name, connect, TLS handshake failed)
                    */
    HTTP_UNKNOWN,  /* sent, and no complete answer: it may have happened */
};

struct http_call {
    const char *method;
    struct str url;
    struct http_headers headers;
    struct str body;              /* p NULL: none */
    int64_t connect_ms, total_ms; /* 0: 5 s, 10 s */
    size_t answer_max;            /* 0: 1 MB */
    struct str ca_file;           /* empty: the system's */
    struct str pin_address; /* connect to this IP while keeping the URL's host name (webhooks);
                               empty: resolve */
    bool fresh_connection; /* never a kept one: libcurl silently re-sends on a kept one that died */
};

struct http_reply {
    enum http_outcome outcome;
    int status; /* when ANSWERED */
    struct http_headers headers;
    struct str body;
    int64_t took_us;
    struct str trouble; /* text for the log when not ANSWERED */
};

struct transport {
    void (*exchange)(struct transport *t, struct env *env, const struct http_call *call,
                     struct arena *a, struct http_reply *ret);
};

static inline void transport_exchange(struct transport *t, struct env *env,
                                      const struct http_call *call, struct arena *a,
                                      struct http_reply *ret)
{
    env_effect(env, EFFECT_CHANNEL_SEND);
    t->exchange(t, env, call, a, ret);
    env_effect(env, EFFECT_CHANNEL_ANSWER);
}

/* curl; thread-safe: handles are kept in a pool inside. */
struct transport *client_new(struct err_info *info);
void client_free(struct transport *t);

struct url {
    struct str scheme, host, path_query; /* path_query starts with '/', never contains '#' */
    int port;
};
/* Absolute http(s) URLs only; user info, control characters and blanks are ERR_INVALID. Views into
 * `text`. */
enum err url_parse(struct str text, struct url *ret, struct err_info *info);

/* Resolves `host` and picks an address. With `public_only` loopback, private, link-local,
 * multicast, CGNAT and other special ranges (v4, v6, v4 in v6) are ERR_DENIED, if any address of
 * the name is one. Blocking. */
enum err resolve_public(struct str host, bool public_only, struct arena *a, struct str *ret_address,
                        struct err_info *info);

#endif
