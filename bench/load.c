/* load.c -- a load generator: one thread, epoll, kept connections. */
#include "bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX 32768
#define NONE       SIZE_MAX

struct line {
    int fd;
    size_t request; /* index, NONE: idle */
    size_t sent;
    int64_t since_us;
    size_t got;
    char answer[ANSWER_MAX];
};

struct run {
    const struct load *load;
    struct line *lines;
    /* Idle lines in a ring, for the open loop: the one that rested longest goes first, because the
     * server closes those that are never used. */
    size_t *idle;
    size_t idle_first, idle_count;
    size_t next; /* request to send next */
    size_t done, good;
    int64_t start_us;
    uint32_t *latency_us;
    int epoll;
};

static int64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int open_line(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Requests are small against a socket buffer: a short write is a broken connection. */
static bool send_next(struct run *r, struct line *l, int64_t since_us)
{
    const struct str *q = &r->load->requests[r->next];
    l->request = r->next++;
    l->since_us = since_us;
    l->got = 0;
    return send(l->fd, q->p, q->n, MSG_NOSIGNAL) == (ssize_t)q->n;
}

/* Status when a whole answer stands in the buffer, 0 while it does not. */
static int complete(const struct line *l)
{
    const char *head_end = memmem(l->answer, l->got, "\r\n\r\n", 4);
    if (!head_end)
        return 0;
    size_t head = (size_t)(head_end - l->answer) + 4;
    long length = 0;
    const char *field = l->answer;
    while ((field = memmem(field, head - (size_t)(field - l->answer), "\n", 1)) &&
           ++field < l->answer + head)
        if (strncasecmp(field, "content-length:", 15) == 0)
            length = strtol(field + 15, NULL, 10);
    if (l->got < head + (size_t)length)
        return 0;
    return (int)strtol(l->answer + 9, NULL, 10);
}

static void put_idle(struct run *r, size_t line)
{
    r->idle[(r->idle_first + r->idle_count++) % r->load->connections] = line;
}

static size_t take_idle(struct run *r)
{
    size_t line = r->idle[r->idle_first];
    r->idle_first = (r->idle_first + 1) % r->load->connections;
    r->idle_count--;
    return line;
}

static void finish(struct run *r, struct line *l, int status)
{
    int64_t took = mono_us() - l->since_us;
    r->latency_us[r->done++] = (uint32_t)(took < UINT32_MAX ? took : UINT32_MAX);
    r->good += status >= 200 && status < 300;
    l->request = NONE;
}

static enum err readable(struct run *r, struct line *l, struct err_info *info)
{
    ssize_t n = recv(l->fd, l->answer + l->got, ANSWER_MAX - l->got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return ERR_OK;
    if (n <= 0)
        return err_set(info, ERR_IO, "the server closed a connection after %zu answers", r->done);
    l->got += (size_t)n;
    int status = complete(l);
    if (!status)
        return l->got == ANSWER_MAX ? err_set(info, ERR_LIMIT, "an answer is too large") : ERR_OK;
    finish(r, l, status);
    if (r->load->rate_per_s)
        put_idle(r, (size_t)(l - r->lines));
    else if (r->next < r->load->count && !send_next(r, l, mono_us()))
        return err_set(info, ERR_IO, "cannot send");
    return ERR_OK;
}

/* Open loop: everything due by now goes out on an idle line; what finds none waits, and its waiting
 * counts. Returns how long until the next is due. */
static int send_due(struct run *r)
{
    while (r->next < r->load->count) {
        int64_t due = r->start_us + (int64_t)r->next * 1000000 / r->load->rate_per_s;
        int64_t wait = due - mono_us();
        if (wait > 0)
            return wait > 1000 ? (int)(wait / 1000) : 0;
        if (r->idle_count == 0)
            return 1;
        send_next(r, &r->lines[take_idle(r)], due);
    }
    return 10;
}

static enum err loop(struct run *r, struct err_info *info)
{
    const struct load *load = r->load;
    int64_t limit_us = (load->limit_ms ? load->limit_ms : 300000) * 1000;
    struct epoll_event events[256];
    while (r->done < load->count) {
        int wait = load->rate_per_s ? send_due(r) : 1000;
        int n = epoll_wait(r->epoll, events, 256, wait);
        for (int i = 0; i < n; i++) {
            enum err e = readable(r, &r->lines[events[i].data.u32], info);
            if (e)
                return e;
        }
        if (mono_us() - r->start_us > limit_us)
            return err_set(info, ERR_UNKNOWN, "only %zu of %zu answers came in time", r->done,
                           load->count);
    }
    return ERR_OK;
}

static enum err open_lines(struct run *r, struct err_info *info)
{
    for (unsigned i = 0; i < r->load->connections; i++) {
        struct line *l = &r->lines[i];
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
        l->request = NONE;
        if ((l->fd = open_line(r->load->port)) < 0 ||
            epoll_ctl(r->epoll, EPOLL_CTL_ADD, l->fd, &event))
            return err_set(info, ERR_IO, "cannot open connection %u (%m)", i);
        put_idle(r, i);
    }
    r->start_us = mono_us();
    for (unsigned i = 0;
         !r->load->rate_per_s && i < r->load->connections && r->next < r->load->count; i++)
        send_next(r, &r->lines[i], mono_us());
    return ERR_OK;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sum_up(struct run *r, struct load_result *ret)
{
    size_t n = r->done;
    qsort(r->latency_us, n, sizeof *r->latency_us, by_value);
    *ret =
        (struct load_result) { .took_us = mono_us() - r->start_us, .answered = n, .good = r->good };
    ret->rate_per_s = (int64_t)n * 1000000 / ret->took_us;
    ret->p50_us = r->latency_us[n / 2];
    ret->p99_us = r->latency_us[n * 99 / 100];
    ret->p999_us = r->latency_us[n * 999 / 1000];
    ret->max_us = r->latency_us[n - 1];
}

enum err load_run(const struct load *load, struct load_result *ret, struct err_info *info)
{
    struct run r = { .load = load, .epoll = epoll_create1(EPOLL_CLOEXEC) };
    r.lines = calloc(load->connections, sizeof *r.lines);
    r.idle = calloc(load->connections, sizeof *r.idle);
    r.latency_us = calloc(load->count, sizeof *r.latency_us);
    if (!r.lines || !r.idle || !r.latency_us)
        abort();
    for (unsigned i = 0; i < load->connections; i++)
        r.lines[i].fd = -1;
    enum err e = open_lines(&r, info);
    if (!e)
        e = loop(&r, info);
    if (!e)
        sum_up(&r, ret);
    for (unsigned i = 0; i < load->connections; i++)
        if (r.lines[i].fd >= 0)
            close(r.lines[i].fd);
    close(r.epoll);
    free(r.lines);
    free(r.idle);
    free(r.latency_us);
    return e;
}
