/* server_metrics.c -- what a listener counts: requests by route and code, their time by route,
 * connections. A series is looked up when it is first needed and kept: the table is written by any
 * loop, always with the same value. */
#include "net/server_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

/* Codes that get a series of their own; others share the last column. */
static const int codes[] = { 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409,
                             410, 413, 415, 422, 429, 431, 500, 502, 503, 504, 0 };
#define CODES (sizeof(codes) / sizeof(codes[0]) + 1)

struct route_metrics {
    _Atomic(struct metric *) requests[CODES];
    _Atomic(struct metric *) seconds;
};

struct server_metrics {
    struct http_server *server;
    struct metric *connections;
    size_t routes;
    struct route_metrics
        *route; /* by the route's place in the caller's table; the last one: none fits */
};

struct server_metrics *server_metrics_new(struct http_server *s)
{
    struct server_metrics *m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->server = s;
    m->routes = router_count(s->router);
    m->route = calloc(m->routes + 1, sizeof(*m->route));
    if (!m->route)
        abort();
    m->connections = metrics_get(s->env->metrics, "fenpay_http_connections", s->name);
    return m;
}

void server_metrics_free(struct server_metrics *m)
{
    if (!m)
        return;
    free(m->route);
    free(m);
}

static size_t column(int status)
{
    size_t i = 0;
    while (i < CODES - 1 && codes[i] != status)
        i++;
    return i;
}

static struct metric *series(struct server_metrics *m, _Atomic(struct metric *) *kept,
                             const char *family, const struct route *route, const char *code)
{
    struct metric *found = atomic_load_explicit(kept, memory_order_acquire);
    if (found || !m->server->env->metrics)
        return found;
    ARENA_AUTO a = arena_new(256);
    struct str labels = route ? str_printf(a, "%s,%s %s%s", m->server->name, route->http->method,
                                           route->http->path, code)
                              : str_printf(a, "%s,none%s", m->server->name, code);
    found = metrics_get(m->server->env->metrics, family, labels.p);
    atomic_store_explicit(kept, found, memory_order_release);
    return found;
}

void server_metrics_request(struct server_metrics *m, const struct route *route, int status,
                            int64_t took_us)
{
    struct route_metrics *r = &m->route[route ? route->index : m->routes];
    size_t c = column(status);
    char code[16] = ",other";
    if (c < CODES - 1)
        snprintf(code, sizeof(code), ",%s", codes[c] ? "" : "lost");
    if (c < CODES - 1 && codes[c])
        snprintf(code, sizeof(code), ",%d", codes[c]);
    metric_add(series(m, &r->requests[c], "fenpay_http_requests_total", route, code), 1);
    metric_observe_us(series(m, &r->seconds, "fenpay_http_request_seconds", route, ""), took_us);
}

void server_metrics_connections(struct server_metrics *m, int change)
{
    metric_add(m->connections, change);
}

/* Rare, hence looked up each time. */
void server_metrics_refused(struct server_metrics *m, const char *reason)
{
    ARENA_AUTO a = arena_new(256);
    struct str labels = str_printf(a, "%s,%s", m->server->name, reason);
    metric_add(metrics_get(m->server->env->metrics, "fenpay_http_refused_total", labels.p), 1);
}
