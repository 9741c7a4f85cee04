/* net_testing.h -- raw-socket client for the server's tests: every wait has a deadline and nothing
 * sleeps. */
#ifndef FENPAY_NET_TESTING_H
#define FENPAY_NET_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/str.h"

#define WAIT_MS 5000

static inline int64_t test_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int test_connect_from(const char *from, int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct sockaddr_in a = { .sin_family = AF_INET };
    if (from) {
        assert_int_equal(inet_pton(AF_INET, from, &a.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    }
    a.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
        close(fd);
        return -1;
    }
    return fd;
}

static inline int test_connect(int port)
{
    int fd = test_connect_from(NULL, port);
    assert_true(fd >= 0);
    return fd;
}

static inline void test_send(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k < 0) {
            assert_true(errno == EPIPE ||
                        errno ==
                            ECONNRESET); /* refused meanwhile: the answer is there to be read */
            return;
        }
        at += k;
        n -= (size_t)k;
    }
}

static inline void test_puts(int fd, const char *text)
{
    test_send(fd, text, strlen(text));
}

/* What one answer on the wire is. */
struct test_answer {
    int status;  /* 0: none before the connection ended; -1: none in time */
    bool closed; /* the peer ended the connection behind it */
    char raw[65536];
    size_t n;
    char *body;
    size_t body_n;
};

static inline bool test_wait(int fd, int64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int64_t left = deadline - test_now_ms();
    return left > 0 && poll(&p, 1, (int)left) == 1;
}

static inline bool test_complete(struct test_answer *a)
{
    a->raw[a->n] = '\0';
    char *end = strstr(a->raw, "\r\n\r\n");
    if (!end)
        return false;
    const char *length = strcasestr(a->raw, "\r\nContent-Length:");
    a->body = end + 4;
    a->body_n = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    a->status = atoi(a->raw + 9);
    return a->n - (size_t)(a->body - a->raw) >= a->body_n;
}

/* Reads one answer; `to_end` also waits for the end of the connection. */
static inline void test_read(int fd, bool to_end, struct test_answer *ret)
{
    int64_t deadline = test_now_ms() + WAIT_MS;
    memset(ret, 0, sizeof(*ret));
    for (;;) {
        if (!to_end && test_complete(ret))
            return;
        if (!test_wait(fd, deadline)) {
            if (!test_complete(ret))
                ret->status = -1;
            return;
        }
        ssize_t k = recv(fd, ret->raw + ret->n, sizeof(ret->raw) - 1 - ret->n, 0);
        if (k <= 0) {
            test_complete(ret);
            ret->closed = true;
            return;
        }
        ret->n += (size_t)k;
    }
}

/* One connection, one request, to the end. */
static inline void test_exchange_n(int port, const void *request, size_t n, bool to_end,
                                   struct test_answer *ret)
{
    int fd = test_connect(port);
    test_send(fd, request, n);
    test_read(fd, to_end, ret);
    close(fd);
}

static inline int test_status(int port, const char *request)
{
    static struct test_answer a;
    test_exchange_n(port, request, strlen(request), false, &a);
    return a.status;
}

#endif
