/* workers.c -- the bounded pool that runs blocking handlers.
 *
 * A place is reserved before the request is suspended, so that after the suspension there is one
 * way out only. */
#include "net/server_int.h"

#include <assert.h>
#include <stdlib.h>

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    bool closing;
    unsigned threads, places; /* places: running and waiting together */
    unsigned taken;
    struct http_request **queue; /* ring of `places` */
    unsigned first, count;
    pthread_t *thread;
};

static void came_back(struct http_request *req, void *arg)
{
    (void)arg;
    assert(req->answered);
    req->phase = REQUEST_SUSPENDED;
}

static void *work(void *arg)
{
    struct workers *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->count == 0 && !w->closing)
            pthread_cond_wait(&w->more, &w->lock);
        if (w->count == 0)
            break;
        struct http_request *req = w->queue[w->first];
        w->first = (w->first + 1) % w->places;
        w->count--;
        pthread_mutex_unlock(&w->lock);

        request_run_handler(req);
        http_finish_later(req, came_back, NULL);

        pthread_mutex_lock(&w->lock);
        w->taken--;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct workers *workers_new(const char *name, unsigned threads, unsigned queue_max)
{
    struct workers *w = calloc(1, sizeof(*w));
    if (!w)
        abort();
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->places = threads + queue_max;
    w->queue = calloc(w->places, sizeof(struct http_request *));
    w->thread = calloc(threads, sizeof(*w->thread));
    if (!w->queue || !w->thread)
        abort();
    for (; w->threads < threads; w->threads++) {
        if (pthread_create(&w->thread[w->threads], NULL, work, w)) {
            workers_free(w);
            return NULL;
        }
        pthread_setname_np(w->thread[w->threads], name);
    }
    return w;
}

bool workers_reserve(struct workers *w)
{
    pthread_mutex_lock(&w->lock);
    bool room = w->taken < w->places;
    if (room)
        w->taken++;
    pthread_mutex_unlock(&w->lock);
    return room;
}

void workers_submit(struct workers *w, struct http_request *req)
{
    pthread_mutex_lock(&w->lock);
    assert(w->count < w->places);
    w->queue[(w->first + w->count++) % w->places] = req;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    assert(w->count == 0);
    w->closing = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->threads; i++)
        pthread_join(w->thread[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w->queue);
    free(w->thread);
    free(w);
}
