/* wait.c -- long polls: a request that is answered when what it asks about is final, is touched, or
 * its time is over. */
#include "api/call.h"
#include "api/waiters.h"

/* From here on a read sees everything committed before: the turn's shared snapshot may be older
 * than the wake. */
static void renew_snapshot(struct api_call *call)
{
    store_reads_end(call->centre->store);
    store_reads_begin(call->centre->store);
}

static void answer_waiter(struct http_request *req, void *arg)
{
    struct api_call *call = arg;
    (void)req;

    renew_snapshot(call);
    call->show(call, true);
}

void call_wait(struct api_call *call, int64_t pay_id, int64_t wait_ms, api_show *show)
{
    struct waiter *w = arena_one(call->arena, struct waiter);

    call->show = show;
    *w = (struct waiter) {
        .payment = pay_id, .req = call->req, .answer = answer_waiter, .arg = call
    };
    bool entered = waiters_enter(call->service->waiters, w);
    renew_snapshot(call);
    if (show(call, !entered)) {
        if (entered)
            waiters_leave(w);
        return;
    }
    if (!call->suspended)
        http_suspend(call->req);
    waiters_wait(w, wait_ms);
}
