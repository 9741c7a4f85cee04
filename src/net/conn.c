/* conn.c -- connections: whom we let in, and when we stop waiting.
 *
 * libmicrohttpd's own timeout is an inactivity timer (a header dripped a byte a second lives for
 * ever) and at its limit it lets new connections wait unanswered. So we accept ourselves, keep one
 * list per state in order of entry, which makes every deadline the head of a list, and end what is
 * overdue with shutdown(), which the library then notices as a closed peer. */
#include "net/server_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 64
/* A slow reader must take this much in idle_ms to keep its connection. */
#define SENDING_PROGRESS 32768
/* A body is looked at after each quarter of body_ms, and must have come at this rate so far: who
 * drips does not keep his connection for all of body_ms. */
#define BODY_LOOKS       4
#define BODY_BYTES_PER_S 1024

/* Answers before the library could: best effort, on plain sockets only. */
static void say(struct http_server *s, int fd, struct str text)
{
    if (!s->cert)
        (void)!send(fd, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void conn_tear(struct conn *c)
{
    say(c->loop->server, c->fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"));
}

void conn_move(struct conn *c, enum conn_state state, int64_t now_us)
{
    list_remove(&c->node);
    c->state = state;
    c->since_us = now_us;
    c->acked = 0;
    list_append(&c->loop->conns[state], &c->node);
}

static void cut(struct conn *c)
{
    if (c->req && (c->state == CONN_HEAD || c->state == CONN_BODY))
        say(c->loop->server, c->fd, request_time_out(c->req));
    if (c->state == CONN_SENDING) { /* what the peer does not take must not stay in the kernel */
        struct linger reset = { .l_onoff = 1, .l_linger = 0 };
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    shutdown(c->fd, SHUT_RDWR);
    atomic_fetch_sub(&c->loop->server->connections, 1);
    conn_move(c, CONN_SHUT, c->loop->now_us);
}

static bool takes_its_answer(struct conn *c)
{
    struct tcp_info ti = { 0 };
    socklen_t n = sizeof(ti);
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &ti, &n))
        return false;
    if (ti.tcpi_bytes_acked < c->acked + SENDING_PROGRESS)
        return false;
    conn_move(c, CONN_SENDING, c->loop->now_us);
    c->acked = ti.tcpi_bytes_acked;
    return true;
}

static bool body_comes(struct conn *c)
{
    int64_t due_ms = ++c->body_looks * c->loop->server->o.body_ms / BODY_LOOKS;
    if (c->body_looks == BODY_LOOKS || (int64_t)c->body_bytes < due_ms * BODY_BYTES_PER_S / 1000)
        return false;
    conn_move(c, CONN_BODY, c->loop->now_us);
    return true;
}

static bool has_more_time(struct conn *c)
{
    return c->state == CONN_SENDING ? takes_its_answer(c) : c->state == CONN_BODY && body_comes(c);
}

static int64_t limit_us(const struct http_server_options *o, enum conn_state state)
{
    switch (state) {
    case CONN_FRESH:
    case CONN_HEAD:
        return o->header_ms * 1000;
    case CONN_BODY:
        return o->body_ms * 1000 / BODY_LOOKS;
    case CONN_IDLE:
    case CONN_SENDING:
        return o->idle_ms * 1000;
    case CONN_BUSY:
    case CONN_SHUT:
        break;
    }
    return INT64_MAX;
}

int64_t conn_sweep(struct loop *l)
{
    int64_t next = INT64_MAX;
    for (unsigned state = 0; state < CONN_STATES; state++) {
        int64_t limit = limit_us(&l->server->o, (enum conn_state)state);
        if (limit == INT64_MAX)
            continue;
        while (!list_empty(&l->conns[state])) {
            struct conn *c = container_of(l->conns[state].next, struct conn, node);
            int64_t due = c->since_us + limit;
            if (due > l->now_us) {
                next = due < next ? due : next;
                break;
            }
            if (!has_more_time(c))
                cut(c);
        }
    }
    return next;
}

void conn_cut_all(struct loop *l, enum conn_state state)
{
    while (!list_empty(&l->conns[state]))
        cut(container_of(l->conns[state].next, struct conn, node));
}

/* Makes room by ending the connection that has been without a request for longest. */
static bool shed(struct loop *l)
{
    static const enum conn_state order[] = { CONN_IDLE, CONN_FRESH };
    for (size_t i = 0; i < 2; i++) {
        if (list_empty(&l->conns[order[i]]))
            continue;
        cut(container_of(l->conns[order[i]].next, struct conn, node));
        server_metrics_refused(l->server->metrics, "oldest idle");
        return true;
    }
    return false;
}

static void read_peer(struct conn *c, const struct sockaddr_storage *from)
{
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        c->address.s6_addr[10] = c->address.s6_addr[11] = 0xff;
        memcpy(&c->address.s6_addr[12], &v4->sin_addr, 4);
        inet_ntop(AF_INET, &v4->sin_addr, c->peer, sizeof(c->peer));
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
        c->address = v6->sin6_addr;
        inet_ntop(AF_INET6, &v6->sin6_addr, c->peer, sizeof(c->peer));
    }
}

static void refuse(struct conn *c, const char *why)
{
    struct http_server *s = c->loop->server;
    say(s, c->fd,
        STR("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
            "Content-Length: 0\r\n\r\n"));
    close(c->fd);
    LOG(s->env->log, LOG_DEBUG, "http.connection_refused", log_cstr("listener", s->name),
        log_cstr("peer", c->peer), log_cstr("why", why));
    server_metrics_refused(s->metrics, why);
    free(c);
}

static void admit(struct loop *l, int fd, const struct sockaddr_storage *from, socklen_t n)
{
    struct http_server *s = l->server;
    struct conn *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    list_init(&c->node);
    c->loop = l;
    c->fd = fd;
    read_peer(c, from);

    if (atomic_load(&s->connections) >= s->o.connections_max && !shed(l))
        return refuse(c, "full");
    if (s->peers && !peers_enter(s->peers, &c->address))
        return refuse(c, "address");

    atomic_fetch_add(&s->connections, 1);
    server_metrics_connections(s->metrics, 1);
    conn_move(c, CONN_FRESH, l->now_us);
    l->arriving = c;
    MHD_add_connection(l->mhd, fd, (const struct sockaddr *)from, n);
    if (l->arriving) { /* it failed before the library told us about it; the socket is closed */
        l->arriving = NULL;
        conn_closed(c);
    }
}

void conn_accept(struct loop *l)
{
    l->now_us = env_mono_us(l->server->env); /* the turn may have begun long before the wait */
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof(from);
        int fd = accept4(l->listen_fd, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(l, fd, &from, n);
            continue;
        }
        int error = errno;
        if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
            LOG(l->server->env->log, LOG_WARN, "http.accept", log_cstr("listener", l->server->name),
                log_cstr("error", "out of descriptors or memory"));
            shed(l);
            l->accept_after_us = l->now_us + 100 * 1000;
        }
        if (error != EINTR && error != ECONNABORTED)
            return;
    }
}

void conn_closed(struct conn *c)
{
    struct http_server *s = c->loop->server;
    list_remove(&c->node);
    if (s->peers)
        peers_leave(s->peers, &c->address);
    if (c->state != CONN_SHUT)
        atomic_fetch_sub(&s->connections, 1);
    server_metrics_connections(s->metrics, -1);
    free(c);
}
