/* finish.c -- suspended requests: how they come back to their loop, their deadlines, and their end
 * when we stop.
 *
 * Anybody may push a finished request on the loop's stack; only the push that finds it empty writes
 * the eventfd, so a commit that finishes a hundred requests wakes the loop once. */
#include "net/server_int.h"

#include <assert.h>
#include <sched.h>

void http_suspend(struct http_request *req)
{
    assert(req->phase == REQUEST_HANDLING && !req->answered);
    req->phase = REQUEST_SUSPENDED;
    list_append(&req->loop->suspended, &req->suspended_node);
    MHD_suspend_connection(req->mhd);
}

void http_finish_later(struct http_request *req, http_finish *fn, void *arg)
{
    /* Once pushed the request may end at any moment: nothing of it is read after that. */
    struct loop *l = req->loop;
    struct http_server *s = l->server;
    atomic_fetch_add(&s->posting, 1);
    req->finish_fn = fn;
    req->finish_arg = arg;
    atomic_store(&req->finish_queued, true);
    struct http_request *first = atomic_load(&l->finished);
    do
        req->next_finished = first;
    while (!atomic_compare_exchange_weak(&l->finished, &first, req));
    if (!first)
        loop_wake(l);
    atomic_fetch_sub(&s->posting, 1);
}

void http_deadline(struct http_request *req, int64_t in_ms, http_finish *fn, void *arg)
{
    struct loop *l = req->loop;
    assert(req->phase == REQUEST_HANDLING || req->phase == REQUEST_SUSPENDED);
    req->deadline_us = env_mono_us(req->server->env) + in_ms * 1000;
    req->deadline_fn = fn;
    req->deadline_arg = arg;
    list_remove(&req->deadline_node);
    list_append(&l->deadlines, &req->deadline_node);
    if (req->deadline_us < l->deadline_us)
        l->deadline_us = req->deadline_us;
}

void finish_forget(struct http_request *req)
{
    list_remove(&req->suspended_node);
    list_remove(&req->deadline_node);
}

/* The answer goes to the library while the connection is still suspended, then it is let go.
 * Nothing of the request may be touched after the next MHD_run. */
void finish_send_suspended(struct http_request *req)
{
    finish_forget(req);
    answer_send(req);
    MHD_resume_connection(req->mhd);
}

static void call(struct http_request *req, http_finish *fn, void *arg)
{
    loop_turn_begin(req->loop);
    fn(req, arg);
    if (req->answered) {
        finish_send_suspended(req);
    } else if (req->cut) { /* the library asks request_continue once more, which says no */
        finish_forget(req);
        MHD_resume_connection(req->mhd);
    }
}

void finish_run(struct loop *l)
{
    struct http_request *stack = atomic_exchange(&l->finished, NULL), *first = NULL;
    while (stack) { /* the stack holds the last one first */
        struct http_request *next = stack->next_finished;
        stack->next_finished = first;
        first = stack;
        stack = next;
    }
    while (first) {
        struct http_request *req = first;
        first = req->next_finished; /* before `fn`, which may arrange the next push */
        atomic_store(&req->finish_queued, false);
        call(req, req->finish_fn, req->finish_arg);
    }
}

void finish_deadlines(struct loop *l)
{
    if (l->now_us < l->deadline_us)
        return;
    struct list due;
    list_init(&due);
    int64_t next_us = INT64_MAX;
    list_each_safe (node, &l->deadlines) {
        struct http_request *req = container_of(node, struct http_request, deadline_node);
        if (req->deadline_us <= l->now_us && !atomic_load(&req->finish_queued)) {
            list_remove(node);
            list_append(&due, node);
        } else if (req->deadline_us < next_us) {
            next_us = req->deadline_us;
        }
    }
    l->deadline_us = next_us; /* `fn` may bring it forward again */
    struct list *node;
    while ((node = list_take_first(&due))) {
        struct http_request *req = container_of(node, struct http_request, deadline_node);
        call(req, req->deadline_fn, req->deadline_arg);
    }
}

void finish_drop(struct loop *l)
{
    list_each_safe (node, &l->suspended) {
        struct http_request *req = container_of(node, struct http_request, suspended_node);
        if (req->phase == REQUEST_WORKING || atomic_load(&req->finish_queued))
            continue; /* it comes back by itself */
        req->dropped = true;
        request_refuse(req, 503, "SHUTTING_DOWN", "the server is shutting down");
        finish_send_suspended(req);
    }
}
