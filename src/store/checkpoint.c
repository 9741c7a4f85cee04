/* checkpoint.c -- copying the log into the database file without stalling commits (systems.md F7).
 *
 * A thread of its own copies while much is left; the small rest is copied by the writer between two
 * batches, because only then nothing new stands behind it and the next commit starts the log from
 * the front again. A log that still outgrows its limit (a reader that never ends, a slow disk) is
 * checkpointed by the writer, and a metric says so. */
#include "store/internal.h"

#include "base/log.h"

#define LOG_FRAMES    4000 /* worth a pass */
#define LOG_REST      800  /* few enough for the writer */
#define LOG_STEP      400  /* between two inline tries at the limit */
#define LOG_INLINE    1000 /* in inline mode, where nobody waits */
#define FRAME_BYTES   (4096 + 24)
#define LOG_BYTES_MAX (64 << 20)

static bool copy(struct store *s, struct conn *c, bool inline_now, int64_t *ret_left)
{
    struct err_info info = { 0 };
    enum err e = s->driver->checkpoint(c, inline_now, ret_left, &info);
    if (e == ERR_LIMIT)
        store_set_full(s, true);
    else if (e && e != ERR_RETRY)
        store_fail(s, &info);
    return e == ERR_OK;
}

void store_log_after_commit(struct store *s)
{
    if (!s->driver->group_commit || s->o.second_writer || s->failed)
        return;
    int64_t left, frames = s->driver->wal_frames(s->writer);
    int64_t limit = (s->o.wal_bytes_max ? s->o.wal_bytes_max : LOG_BYTES_MAX) / FRAME_BYTES;
    s->log_frames = frames;
    metric_set(s->metrics[M_WAL_FRAMES], frames);
    if (frames < s->log_tried)
        s->log_tried = 0; /* started from the front again */
    if (!s->threads && limit > LOG_INLINE)
        limit = LOG_INLINE;
    if (frames > limit) {
        if (s->log_tried && frames < s->log_tried + LOG_STEP)
            return;
        s->log_tried = frames;
        if (s->threads) {
            metric_add(s->metrics[M_WAL_LIMIT], 1);
            LOG(s->env->log, LOG_WARN, "store.wal_limit", log_int("frames", frames));
        }
        copy(s, s->writer, true, &left);
    } else if (s->log_finish) {
        s->log_finish = false;
        copy(s, s->writer, true, &left);
    } else if (frames > LOG_FRAMES) {
        pthread_mutex_lock(&s->log_lock);
        s->log_news = true;
        pthread_cond_signal(&s->log_work);
        pthread_mutex_unlock(&s->log_lock);
    }
}

static void copy_most(struct store *s)
{
    int64_t left = 0, before;
    do {
        before = left;
        if (!copy(s, s->log_conn, false, &left))
            return;
    } while (left >= LOG_REST && left != before && !s->log_stop);
    if (left > 0 && left < LOG_REST)
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
        pthread_mutex_unlock(&s->log_lock);
        if (!s->failed)
            copy_most(s);
        pthread_mutex_lock(&s->log_lock);
    }
    pthread_mutex_unlock(&s->log_lock);
    return NULL;
}
