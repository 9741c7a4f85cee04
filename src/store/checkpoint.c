/* checkpoint.c -- copying the log into the database file without stalling commits (systems.md F7).
 *
 * A thread of its own copies while much is left; the small rest is copied by the writer between two
 * batches, because only then nothing new stands behind it and the next commit starts the log from
 * the front again. It begins late, because a page that is written ten times between two passes is
 * copied once, and random pages are what copying costs. While it copies, the writer rests after
 * each commit, the longer the nearer the log is to its limit: under the fullest load the log would
 * otherwise grow as fast as it is copied, and end in one long stop. A log that still outgrows its
 * limit (a reader that never ends, a slow disk) is checkpointed by the writer, and a metric says
 * so.
 */
#include "store/internal.h"

#include <errno.h>
#include <time.h>

#include "base/log.h"

#define FRAME_BYTES   (2048 + 24)
#define LOG_BYTES_MAX (64 << 20)
#define LOG_INLINE    1000 /* frames, in inline mode, where nobody waits */
#define REST_US_MAX   20000

/* All in frames, as parts of the limit; with 64 MB about 16,200, 650, 25,900 and 800. */
static int64_t limit_of(const struct store *s)
{
    return (s->o.wal_bytes_max ? s->o.wal_bytes_max : LOG_BYTES_MAX) / FRAME_BYTES;
}
static int64_t worth_a_pass(const struct store *s)
{
    return limit_of(s) / 2;
}
static int64_t small_rest(const struct store *s)
{
    return limit_of(s) / 50;
}
static int64_t rests_from(int64_t limit)
{
    return limit / 10 * 8;
}
static int64_t between_inline_tries(const struct store *s)
{
    return limit_of(s) / 40;
}

static bool copy(struct store *s, struct conn *c, bool inline_now, int64_t *ret_copied)
{
    struct err_info info = { 0 };
    pthread_mutex_lock(&s->log_copying);
    enum err e = s->driver->checkpoint(c, inline_now, ret_copied, &info);
    pthread_mutex_unlock(&s->log_copying);
    if (e == ERR_LIMIT)
        store_set_full(s, true);
    else if (e && e != ERR_RETRY)
        store_fail(s, &info);
    return e == ERR_OK;
}

int64_t store_log_rest_us(int64_t frames, int64_t limit)
{
    int64_t from = rests_from(limit);
    if (frames <= from)
        return 0;
    return frames < limit ? REST_US_MAX * (frames - from) / (limit - from) : REST_US_MAX;
}

/* Writer: makes room for the thread that copies, until it is done at the latest. */
static void rest(struct store *s, int64_t us)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += us * 1000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_mutex_lock(&s->log_lock);
    while (s->log_busy && pthread_cond_timedwait(&s->log_done, &s->log_lock, &t) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&s->log_lock);
}

void store_log_after_commit(struct store *s)
{
    if (!s->driver->group_commit || s->o.second_writer || s->failed)
        return;
    int64_t copied, frames = s->driver->wal_frames(s->writer);
    int64_t limit = limit_of(s);
    s->log_frames = frames;
    metric_set(s->metrics[M_WAL_FRAMES], frames);
    if (frames < s->log_tried)
        s->log_tried = 0; /* started from the front again */
    if (!s->threads && limit > LOG_INLINE)
        limit = LOG_INLINE;
    if (frames > limit) {
        if (s->log_tried && frames < s->log_tried + between_inline_tries(s))
            return;
        s->log_tried = frames;
        if (s->threads) {
            metric_add(s->metrics[M_WAL_LIMIT], 1);
            LOG(s->env->log, LOG_WARN, "store.wal_limit", log_int("frames", frames));
        }
        s->log_yield = true; /* the thread ends its pass, then it is our turn */
        copy(s, s->writer, true, &copied);
        s->log_yield = false;
    } else if (s->log_finish) {
        s->log_finish = false;
        copy(s, s->writer, true, &copied);
    } else if (frames > worth_a_pass(s)) {
        pthread_mutex_lock(&s->log_lock);
        s->log_news = true;
        pthread_cond_signal(&s->log_work);
        pthread_mutex_unlock(&s->log_lock);
        int64_t us = store_log_rest_us(frames, limit);
        if (us > 0)
            rest(s, us);
    }
}

/* A pass copies what stood in the log when it began; what was written meanwhile is left. */
static void copy_most(struct store *s)
{
    int64_t copied = 0, before, left;
    do {
        before = copied;
        if (!copy(s, s->log_conn, false, &copied))
            return;
        left = s->log_frames - copied;
    } while (left >= small_rest(s) && copied > before && !s->log_yield && !s->log_stop);
    if (left > 0 && left < small_rest(s))
        s->log_finish = true;
}

void *store_checkpoint_main(void *arg)
{
    struct store *s = arg;
    pthread_setname_np(pthread_self(), "store-log");
    pthread_mutex_lock(&s->log_lock);
    while (!s->log_stop) {
        if (!s->log_news) {
            pthread_cond_wait(&s->log_work, &s->log_lock);
            continue;
        }
        s->log_news = false;
        s->log_busy = true;
        pthread_mutex_unlock(&s->log_lock);
        if (!s->failed)
            copy_most(s);
        pthread_mutex_lock(&s->log_lock);
        s->log_busy = false;
        pthread_cond_signal(&s->log_done);
    }
    pthread_mutex_unlock(&s->log_lock);
    return NULL;
}
