/* open.c -- opening and closing a store, and what is wrong with it. */
#include "store/internal.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

#define RULE_ARENA 65536
#define RULE_US    50 /* the first guess of what a rule takes */

static const struct store_driver *const drivers[] = { &sqlite_driver };

static const struct {
    const char *name, *labels;
} metric_series[STORE_METRICS] = {
    [M_BATCHES] = { "fenpay_store_batches_total", NULL },
    [M_RULES] = { "fenpay_store_batch_rules_total", NULL },
    [M_CONFLICTS] = { "fenpay_store_retries_total", "conflict" },
    [M_BROKEN_BATCHES] = { "fenpay_store_retries_total", "batch" },
    [M_COMMIT] = { "fenpay_store_commit_seconds", NULL },
    [M_WAL_FRAMES] = { "fenpay_store_wal_frames", NULL },
    [M_WAL_LIMIT] = { "fenpay_store_wal_limit_total", NULL },
    [M_QUEUE_CALLBACK] = { "fenpay_store_queue_length", "callback" },
    [M_QUEUE_API] = { "fenpay_store_queue_length", "api" },
    [M_QUEUE_BACKGROUND] = { "fenpay_store_queue_length", "background" },
};

/* ---- trouble ---- */

void store_fail(struct store *s, const struct err_info *info)
{
    if (!atomic_exchange(&s->failed, true))
        LOG(s->env->log, LOG_ERROR, "store.failed", log_cstr("why", info->text));
}

void store_set_full(struct store *s, bool full)
{
    if (atomic_exchange(&s->full, full) == full)
        return;
    if (full)
        store_probe_later(s);
    LOG(s->env->log, LOG_ERROR, full ? "store.full" : "store.room_again");
}

bool store_failed(struct store *s)
{
    return s->failed;
}

bool store_refuses(struct store *s, struct err_info *info)
{
    if (s->failed)
        err_set(info, ERR_BUSY,
                "the database failed in an unclear way; the process must start again");
    else if (s->full)
        err_set(info, ERR_BUSY, "the disk of the database is full");
    else
        return false;
    return true;
}

struct str store_trouble(struct store *s, struct arena *a)
{
    struct err_info info = { 0 };
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    if (!store_refuses(s, &info) && stopping)
        err_set(&info, ERR_BUSY, "the store is stopping");
    return str_dup(a, str_of(info.text));
}

void store_stats(struct store *s, struct store_stats *ret)
{
    *ret = (struct store_stats) {
        .batches = s->batches, .rules = s->rules, .retries = s->retries, .wal_frames = s->log_frames
    };
    pthread_mutex_lock(&s->lock);
    for (int c = 0; c < STORE_CLASSES; c++)
        ret->queue[c] = s->queued[c];
    pthread_mutex_unlock(&s->lock);
}

void store_set_wake(struct store *s, store_on_wake *fn, void *ctx)
{
    s->wake_ctx = ctx;
    s->wake = fn;
}

/* ---- opening ---- */

static enum err choose_driver(struct store *s, const struct store_options *o, struct err_info *info)
{
    struct str path = o->url, scheme = str_cut(&path, ':');
    s->driver = o->driver;
    for (size_t i = 0; !s->driver && i < sizeof drivers / sizeof drivers[0]; i++)
        if (str_eq(scheme, str_of(drivers[i]->name)))
            s->driver = drivers[i];
    if (!s->driver || path.n == 0)
        return err_field(info, ERR_INVALID, "url",
                         "\"" STR_FMT "\" is no database, e.g. sqlite:/var/lib/fenpay/fenpay.db",
                         STR_ARG(o->url));
    s->path = strndup(path.p, path.n);
    if (!s->path)
        abort();
    s->o.url = STR_NONE;
    return ERR_OK;
}

static void init_locks(struct store *s)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &monotonic);
    pthread_cond_init(&s->idle, NULL);
    pthread_cond_init(&s->log_work, NULL);
    pthread_cond_init(&s->log_done, &monotonic);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->log_lock, NULL);
    pthread_mutex_init(&s->log_copying, NULL);
    pthread_mutex_init(&s->direct, NULL);
    pthread_condattr_destroy(&monotonic);
}

static struct store *store_new(const struct store_options *o)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s || !(s->batch = calloc(1, sizeof *s->batch)))
        abort();
    s->o = *o;
    s->env = o->env;
    s->owner_fd = -1;
    s->threads = !o->inline_mode && !o->second_writer;
    for (int c = 0; c < STORE_CLASSES; c++) {
        list_init(&s->queue[c]);
        s->rule_us[c] = RULE_US;
    }
    init_locks(s);
    readers_init(s);
    for (int i = 0; i < STORE_METRICS; i++)
        s->metrics[i] =
            metrics_get(o->env->metrics, metric_series[i].name, metric_series[i].labels);
    return s;
}

/* Everything but the threads. */
static void store_end(struct store *s, bool clean)
{
    readers_done(s, clean);
    if (s->log_conn)
        s->driver->close(s->log_conn, clean);
    if (s->writer)
        s->driver->close(s->writer, clean);
    if (s->owner_fd >= 0)
        close(s->owner_fd);
    arena_free(s->batch->tx.arena);
    free(s->batch->tx.wakes);
    free(s->batch);
    free(s->path);
    free(s);
}

/* Signals are for the main thread. */
static enum err start_threads(struct store *s, struct err_info *info)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->writer_thread, NULL, store_writer_main, s);
    if (rc == 0 && pthread_create(&s->checkpoint_thread, NULL, store_checkpoint_main, s) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? ERR_OK : err_set(info, ERR_IO, "cannot start the store's thread");
}

static enum err store_begin(struct store *s, bool owner, struct err_info *info)
{
    const struct store_driver *d = s->driver;
    struct str path = str_of(s->path);
    enum err e = ERR_OK;
    if (owner && d->owner_lock && !s->o.staging)
        e = d->owner_lock(path, &s->owner_fd, info);
    if (!e)
        e = d->open(&s->o, path, s->o.second_writer ? CONN_SECOND_WRITER : CONN_WRITER, &s->writer,
                    info);
    if (!e && s->threads && d->group_commit)
        e = d->open(&s->o, path, CONN_CHECKPOINT, &s->log_conn, info);
    if (e)
        return e;
    s->batch->tx = (struct tx) {
        .store = s, .driver = d, .conn = s->writer, .arena = arena_new(RULE_ARENA), .write = true
    };
    return ERR_OK;
}

enum err store_open(const struct store_options *o, struct store **ret, struct err_info *info)
{
    struct store *s = store_new(o);
    enum err e = choose_driver(s, o, info);
    if (!e)
        e = store_begin(s, s->threads, info);
    if (!e)
        e = schema_check(s, info);
    if (!e && s->threads)
        e = start_threads(s, info);
    if (e)
        store_end(s, false);
    else
        *ret = s;
    return e;
}

enum err store_migrate(const struct store_options *o, int *ret_applied, struct err_info *info)
{
    struct store *s = store_new(o);
    s->threads = false;
    enum err e = choose_driver(s, o, info);
    if (!e)
        e = store_begin(s, true, info);
    if (!e)
        e = schema_upgrade(s, ret_applied, info);
    store_end(s, e == ERR_OK);
    return e;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    store_drain(s);
    if (s->threads) {
        pthread_mutex_lock(&s->lock);
        s->stop_threads = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&s->log_lock);
        s->log_stop = true;
        pthread_cond_signal(&s->log_work);
        pthread_mutex_unlock(&s->log_lock);
        pthread_join(s->writer_thread, NULL);
        pthread_join(s->checkpoint_thread, NULL);
    }
    store_end(s, !s->failed);
}

void store_drop(struct store *s)
{
    assert(s->o.inline_mode);
    store_end(s, false);
}
