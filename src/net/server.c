/* server.c -- a listener as a whole: its options, sockets, loops and pool, and its end in two
 * steps. What happens on a loop is in loop.c, on a connection in conn.c, in a request in request.c,
 * finish.c and answer.c. */
#include "net/server_int.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"

#define BACKLOG 1024

static void fill_defaults(struct http_server_options *o)
{
    if (o->loops == 0)
        o->loops = 1;
    if (o->worker_queue == 0)
        o->worker_queue = 2 * o->workers;
    if (o->connections_max == 0)
        o->connections_max = 2000;
    if (o->header_ms == 0)
        o->header_ms = 5000;
    if (o->body_ms == 0)
        o->body_ms = 10000;
    if (o->idle_ms == 0)
        o->idle_ms = 30000;
    if (o->body_bytes_max == 0)
        o->body_bytes_max = 32 << 20;
    if (o->header_bytes_max == 0)
        o->header_bytes_max = 12 * 1024;
}

static char *cstr_copy(struct str s)
{
    char *copy = strndup(s.n > 0 ? s.p : "", s.n);
    if (!copy)
        abort();
    return copy;
}

/* "127.0.0.1:8080", "[::1]:0". */
static enum err read_address(struct str listen, struct sockaddr_storage *ret, socklen_t *ret_n,
                             struct err_info *info)
{
    ARENA_AUTO a = arena_new(256);
    size_t colon = listen.n;
    while (colon > 0 && listen.p[colon - 1] != ':')
        colon--;
    struct str host = str_sub(listen, 0, colon > 0 ? colon - 1 : 0);
    struct str port = str_sub(listen, colon, listen.n);
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_sub(host, 1, host.n - 2);
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *found;
    if (host.n == 0 || port.n == 0 ||
        getaddrinfo(str_cstr(a, host), str_cstr(a, port), &hints, &found))
        return err_field(info, ERR_INVALID, "listen",
                         "\"" STR_FMT "\" is not an address and port such as 127.0.0.1:8080",
                         STR_ARG(listen));
    memcpy(ret, found->ai_addr, found->ai_addrlen);
    *ret_n = found->ai_addrlen;
    freeaddrinfo(found);
    return ERR_OK;
}

static int port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}

/* One socket a loop on the same port. The first is bound without SO_REUSEPORT, so that a second
 * server on that port is an error and not a silent sharing of its traffic. */
static enum err open_sockets(struct http_server *s, struct err_info *info)
{
    struct sockaddr_storage address = { 0 };
    socklen_t n = 0;
    enum err e = read_address(s->o.listen, &address, &n, info);
    if (e)
        return e;
    int one = 1;
    for (unsigned i = 0; i < s->loop_count; i++) {
        int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        s->loops[i].listen_fd = fd;
        bool ok = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (ok && address.ss_family == AF_INET6)
            ok = !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        if (ok && i > 0)
            ok = !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
        ok = ok && !bind(fd, (struct sockaddr *)&address, n);
        if (ok && i == 0) {
            ok = !getsockname(fd, (struct sockaddr *)&address, &n);
            if (ok && s->loop_count > 1)
                ok = !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
        }
        if (!ok)
            return err_field(info, ERR_IO, "listen", "listener %s: " STR_FMT ": %m", s->name,
                             STR_ARG(s->o.listen));
    }
    for (unsigned i = 0; i < s->loop_count; i++)
        if (listen(s->loops[i].listen_fd, BACKLOG))
            return err_field(info, ERR_IO, "listen", "listener %s: " STR_FMT ": %m", s->name,
                             STR_ARG(s->o.listen));
    s->port = port_of(&address);
    return ERR_OK;
}

static void init_loop(struct http_server *s, unsigned i)
{
    struct loop *l = &s->loops[i];
    l->server = s;
    l->index = i;
    l->listen_fd = l->wake_fd = l->mhd_fd = -1;
    l->deadline_us = INT64_MAX;
    for (unsigned state = 0; state < CONN_STATES; state++)
        list_init(&l->conns[state]);
    list_init(&l->suspended);
    list_init(&l->deadlines);
}

static bool has_blocking(const struct http_route *routes)
{
    for (; routes->method; routes++)
        if (routes->flags & HTTP_BLOCKING)
            return true;
    return false;
}

static void server_free(struct http_server *s)
{
    for (unsigned i = 0; i < s->loop_count; i++)
        if (s->loops[i].started)
            pthread_join(s->loops[i].thread, NULL);
    workers_free(s->workers);
    while (atomic_load(&s->posting) > 0)
        sched_yield(); /* somebody is between his push and his wake-up */
    for (unsigned i = 0; i < s->loop_count; i++)
        loop_free(&s->loops[i]);
    peers_free(s->peers);
    server_metrics_free(s->metrics);
    router_free(s->router);
    if (s->key)
        explicit_bzero(s->key, strlen(s->key));
    free(s->key);
    free(s->cert);
    free(s->name);
    free(s->loops);
    free(s);
}

static enum err start(struct http_server *s, struct err_info *info)
{
    enum err e = router_new(s->o.routes, &s->router, info);
    if (e)
        return e;
    s->metrics = server_metrics_new(s);
    if (s->o.per_address_max > 0)
        s->peers = peers_new(s->o.per_address_max);
    if (has_blocking(s->o.routes)) {
        if (s->o.workers == 0)
            return err_set(info, ERR_INVALID, "listener %s: blocking routes without workers",
                           s->name);
        s->workers = workers_new("http-worker", s->o.workers, s->o.worker_queue);
        if (!s->workers)
            return err_set(info, ERR_IO, "listener %s: no threads", s->name);
    }
    if ((e = open_sockets(s, info)))
        return e;
    for (unsigned i = 0; i < s->loop_count; i++)
        if ((e = loop_start(&s->loops[i], info)))
            return e;
    return ERR_OK;
}

enum err http_server_start(struct env *env, const struct http_server_options *options,
                           struct http_server **ret, struct err_info *info)
{
    struct http_server *s = calloc(1, sizeof(*s));
    if (!s)
        abort();
    s->env = env;
    s->o = *options;
    fill_defaults(&s->o);
    s->name = cstr_copy(str_of(options->name));
    if (options->tls_cert_pem.n > 0 && options->tls_key_pem.n > 0) {
        s->cert = cstr_copy(options->tls_cert_pem);
        s->key = cstr_copy(options->tls_key_pem);
    }
    s->loop_count = s->o.loops;
    s->loops = calloc(s->loop_count, sizeof(*s->loops));
    if (!s->loops)
        abort();
    for (unsigned i = 0; i < s->loop_count; i++)
        init_loop(s, i);
    enum err e = start(s, info);
    if (e) {
        http_server_stop(s, 0);
        return e;
    }
    LOG(env->log, LOG_INFO, "http.listening", log_cstr("listener", s->name),
        log_str("address", s->o.listen), log_int("port", s->port));
    *ret = s;
    return ERR_OK;
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

static void wake_all(struct http_server *s)
{
    for (unsigned i = 0; i < s->loop_count; i++)
        if (s->loops[i].started)
            loop_wake(&s->loops[i]);
}

void http_server_quiesce(struct http_server *s)
{
    atomic_store(&s->quiescing, true);
    wake_all(s);
}

void http_server_stop(struct http_server *s, int64_t grace_ms)
{
    atomic_store(&s->stop_by_us, env_mono_us(s->env) + grace_ms * 1000);
    atomic_store(&s->stopping, true);
    atomic_store(&s->quiescing, true);
    wake_all(s);
    server_free(s);
}
