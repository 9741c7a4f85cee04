/* waiters.c -- see waiters.h. A waiter leaves its list under the lock, and only who took it out
 * answers it: the wake, the deadline, or the end of a connection that was dropped. */
#include "api/waiters.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 512

struct waiters {
    pthread_mutex_t lock;
    struct list buckets[BUCKETS];
    size_t count;
    bool closed;
};

struct waiters *waiters_new(void)
{
    struct waiters *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    pthread_mutex_init(&w->lock, NULL);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&w->buckets[i]);
    return w;
}

void waiters_free(struct waiters *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Snowflakes of one millisecond differ in their lowest bits, those of different ones above bit 19.
 */
static struct list *bucket_of(struct waiters *w, int64_t payment)
{
    uint64_t id = (uint64_t)payment;
    return &w->buckets[(id ^ id >> 19) % BUCKETS];
}

static void take_out(struct waiter *waiter)
{
    list_remove(&waiter->link);
    waiter->state = WAITER_OUT;
    waiter->owner->count--;
}

bool waiters_enter(struct waiters *w, struct waiter *waiter)
{
    pthread_mutex_lock(&w->lock);
    bool room = !w->closed && w->count < WAITERS_MAX;
    if (room) {
        waiter->owner = w;
        waiter->state = WAITER_IN;
        list_append(bucket_of(w, waiter->payment), &waiter->link);
        w->count++;
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

/* True: it was still in the table, and the caller answers it. */
static bool claim(struct waiter *waiter)
{
    struct waiters *w = waiter->owner;

    pthread_mutex_lock(&w->lock);
    bool ours = waiter->state != WAITER_OUT;
    if (ours)
        take_out(waiter);
    pthread_mutex_unlock(&w->lock);
    return ours;
}

void waiters_leave(struct waiter *waiter)
{
    (void)claim(waiter);
}

static void at_deadline(struct http_request *req, void *arg)
{
    struct waiter *waiter = arg;
    if (claim(waiter))
        waiter->answer(req, waiter->arg);
}

static void at_end(struct http_request *req, bool answered, void *arg)
{
    (void)req;
    (void)answered;
    (void)claim(arg);
}

void waiters_wait(struct waiter *waiter, int64_t wait_ms)
{
    struct waiters *w = waiter->owner;

    http_on_done(waiter->req, at_end, waiter);
    http_deadline(waiter->req, wait_ms, at_deadline, waiter);

    pthread_mutex_lock(&w->lock);
    bool woken = waiter->state == WAITER_OUT;
    if (!woken)
        waiter->state = WAITER_SUSPENDED;
    pthread_mutex_unlock(&w->lock);
    if (woken)
        http_finish_later(waiter->req, waiter->answer, waiter->arg);
}

/* Under the lock. One that is not suspended yet sees in waiters_wait that it is out. */
static void wake_one(struct waiter *waiter)
{
    bool suspended = waiter->state == WAITER_SUSPENDED;
    take_out(waiter);
    if (suspended)
        http_finish_later(waiter->req, waiter->answer, waiter->arg);
}

void waiters_wake(struct waiters *w, const struct store_waked *wakes, size_t n)
{
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < n && w->count; i++) {
        if (wakes[i].wake != WAKE_PAYMENT)
            continue;
        list_each_safe (node, bucket_of(w, wakes[i].id)) {
            struct waiter *waiter = container_of(node, struct waiter, link);
            if (waiter->payment == wakes[i].id)
                wake_one(waiter);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

void waiters_release(struct waiters *w)
{
    pthread_mutex_lock(&w->lock);
    w->closed = true;
    for (size_t i = 0; i < BUCKETS; i++)
        list_each_safe (node, &w->buckets[i])
            wake_one(container_of(node, struct waiter, link));
    pthread_mutex_unlock(&w->lock);
}

size_t waiters_count(struct waiters *w)
{
    pthread_mutex_lock(&w->lock);
    size_t n = w->count;
    pthread_mutex_unlock(&w->lock);
    return n;
}
