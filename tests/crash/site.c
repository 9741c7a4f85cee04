/* site.c -- delivering callbacks and counting what was lost. */
#include "site.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/callback/callback.h"
#include "core/payment/payment.h"

#define CONNECTIONS 8

/* True when the server answered 200; *ret_gone when it answered nothing any more. */
static bool deliver_one(int fd, struct str request, bool *ret_gone)
{
    char answer[4096];
    size_t got = 0;
    *ret_gone = send(fd, request.p, request.n, MSG_NOSIGNAL) != (ssize_t)request.n;
    while (!*ret_gone && got < sizeof answer - 1) {
        ssize_t n = recv(fd, answer + got, sizeof answer - 1 - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
        answer[got] = 0;
        const char *end = strstr(answer, "\r\n\r\n"),
                   *length = strcasestr(answer, "content-length:");
        if (end && length && got >= (size_t)(end + 4 - answer) + strtoul(length + 15, NULL, 10))
            return strncmp(answer, "HTTP/1.1 200", 12) == 0;
    }
    *ret_gone = true;
    return false;
}

static void *worker(void *arg)
{
    struct barrage *d = arg;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)d->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval limit = { .tv_sec = 20 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool gone = fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    size_t i;
    while (!gone && (i = d->next++) < d->count)
        if (deliver_one(fd, d->requests[i], &gone)) {
            bool again = atomic_exchange(&d->acknowledged[i], true);
            if (!again && ++d->acked == d->stop_after)
                kill(d->kill_pid, SIGKILL);
        }
    close(fd);
    return NULL;
}

void deliver(struct barrage *d)
{
    pthread_t threads[CONNECTIONS];
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (pthread_create(&threads[i], NULL, worker, d))
            abort();
    for (size_t i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
}

struct look {
    int64_t pay_id;
    bool there;
};

static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct look *l = arg;
    struct payment p;
    struct callback_row rows[4];
    size_t n = 0;
    enum err e = payment_load(tx, l->pay_id, &p, info);
    if (!e)
        e = callbacks_of(tx, l->pay_id, rows, 4, &n, info);
    l->there = !e && p.status == PAYMENT_SUCCESS && p.evidence_kind == EVIDENCE_CALLBACK &&
               n == 1 && rows[0].result == HANDLE_DONE;
    return e;
}

size_t lost(const struct bench_site *b, struct str url, const struct barrage *d)
{
    struct env env;
    struct store *store;
    struct err_info info = { 0 };
    struct store_options so = { .url = url, .env = &env, .second_writer = true };
    size_t n = 0;
    env_init_real(&env, NULL, NULL);
    if (store_open(&so, &store, &info)) {
        fprintf(stderr, "the database does not open again: %s\n", info.text);
        return SIZE_MAX;
    }
    for (size_t i = 0; i < d->count; i++) {
        struct look l = { .pay_id = b->payments[i].id };
        if (d->acknowledged[i] &&
            (store_read(store, b->payments[i].slot, "look", look_rule, &l, &info) || !l.there))
            n++;
    }
    store_close(store);
    return n;
}
