/* read.c -- snapshots. Every thread that reads has its own connection, made at its first read and
 * closed with the thread or the store. A snapshot that is held long keeps the log from starting
 * again (systems.md F7), so old ones are reported. */
#include "store/internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

#define READ_ARENA 16384

static void reader_close(struct reader *r, bool clean)
{
    assert(!r->running);
    r->store->driver->rollback(r->conn);
    r->store->driver->close(r->conn, clean);
    arena_free(r->tx.arena);
    list_remove(&r->link);
    free(r);
}

static void on_thread_end(void *reader)
{
    struct reader *r = reader;
    struct store *s = r->store;
    pthread_mutex_lock(&s->readers_lock);
    reader_close(r, true);
    pthread_mutex_unlock(&s->readers_lock);
}

void readers_init(struct store *s)
{
    int rc = pthread_key_create(&s->reader_key, on_thread_end);
    assert(rc == 0);
    pthread_mutex_init(&s->readers_lock, NULL);
    list_init(&s->readers);
}

void readers_done(struct store *s, bool clean)
{
    pthread_key_delete(s->reader_key);
    list_each_safe (node, &s->readers)
        reader_close(container_of(node, struct reader, link), clean);
    pthread_mutex_destroy(&s->readers_lock);
}

static struct reader *my_reader(struct store *s, struct err_info *info)
{
    struct reader *r = pthread_getspecific(s->reader_key);
    if (r)
        return r;
    struct conn *conn;
    if (s->driver->open(&s->o, str_of(s->path), CONN_READER, &conn, info))
        return NULL;
    r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->store = s;
    r->conn = conn;
    r->tx = (struct tx) {
        .store = s, .driver = s->driver, .conn = conn, .arena = arena_new(READ_ARENA)
    };
    pthread_mutex_lock(&s->readers_lock);
    list_append(&s->readers, &r->link);
    pthread_mutex_unlock(&s->readers_lock);
    pthread_setspecific(s->reader_key, r);
    return r;
}

static void snapshot_end(struct reader *r, const char *name)
{
    struct store *s = r->store;
    s->driver->rollback(r->conn);
    r->begun = false;
    int64_t ms = (env_mono_us(s->env) - r->begun_us) / 1000;
    if (ms > STORE_READ_MS_MAX) {
        metric_add(metrics_get(s->env->metrics, "fenpay_store_slow_reads_total", name), 1);
        LOG(s->env->log, LOG_WARN, "store.slow_read", log_cstr("read", name), log_int("ms", ms));
    }
}

static enum err run_read(struct reader *r, store_rule *rule, void *arg, struct err_info *info)
{
    struct store *s = r->store;
    if (!r->begun) {
        enum err e = s->driver->begin(r->conn, false, info);
        if (e)
            return e;
        r->begun = true;
        r->begun_us = env_mono_us(s->env);
    }
    r->running = true;
    tx_start(&r->tx, NULL, env_now_ms(s->env));
    enum err e = tx_finish(&r->tx, rule(&r->tx, arg, info), info);
    r->running = false;
    return e;
}

enum err store_read(struct store *s, unsigned slot, const char *name, store_rule *rule, void *arg,
                    struct err_info *info)
{
    (void)slot; /* one database so far */
    struct err_info mine = { 0 };
    env_effect(s->env, EFFECT_STORE);
    struct reader *r = my_reader(s, &mine);
    enum err e;
    if (!r)
        e = mine.err;
    else if (r->running)
        e = err_internal(&mine, "read %s begins inside another read", name);
    else {
        e = run_read(r, rule, arg, &mine);
        if (r->begun && (!r->shared || r->tx.trouble))
            snapshot_end(r, name);
    }
    env_effect(s->env, EFFECT_STORED);
    if (e && info) {
        *info = mine;
        info->err = e;
    }
    return e;
}

/* In inline mode all flows share one thread and yield between their reads, so each read has its own
 * snapshot. */
void store_reads_begin(struct store *s)
{
    struct reader *r = s->o.inline_mode ? NULL : my_reader(s, NULL);
    if (r)
        r->shared = true;
}

void store_reads_end(struct store *s)
{
    struct reader *r = s->o.inline_mode ? NULL : pthread_getspecific(s->reader_key);
    if (!r)
        return;
    r->shared = false;
    if (r->begun)
        snapshot_end(r, "reads");
}
