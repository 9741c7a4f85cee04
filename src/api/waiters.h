/* waiters.h -- long polls: suspended requests that wait for a payment to change.
 *
 * At most WAITERS_MAX at a time. A waiter is answered exactly once: woken by the store after a
 * commit that touched its payment, at its deadline, or at the stop; whoever takes it out of the
 * table first does it. The answer runs on the request's polling thread. */
#ifndef FENPAY_API_WAITERS_H
#define FENPAY_API_WAITERS_H

#include "base/list.h"
#include "net/server.h"
#include "store/store.h"

#define WAITERS_MAX 2000

struct waiters;

struct waiter { /* in the request's arena; zeroed */
    struct list link;
    struct waiters *owner;
    int64_t payment;
    enum { WAITER_OUT, WAITER_IN, WAITER_SUSPENDED } state; /* OUT after IN: woken */
    struct http_request *req;
    http_finish *answer;
    void *arg;
};

struct waiters *waiters_new(void);
void waiters_free(struct waiters *w); /* nobody waits any more; NULL is fine */

/* Enters the table, before the payment is read, so that no change in between is missed. False: no
 * room, or stopping. */
bool waiters_enter(struct waiters *w, struct waiter *waiter);
void waiters_leave(struct waiter *waiter); /* out again without having waited */
/* The request (of http_suspend already) waits to be woken, or for `wait_ms`; woken since it
 * entered: is answered at once. */
void waiters_wait(struct waiter *waiter, int64_t wait_ms);

void waiters_wake(struct waiters *w, const struct store_waked *wakes, size_t n);
void waiters_release(struct waiters *w); /* wakes all, and lets nobody in from now on */
size_t waiters_count(struct waiters *w);

#endif
