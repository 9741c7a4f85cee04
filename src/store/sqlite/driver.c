/* driver.c -- SQLite as a store: WAL, synchronous=FULL, one writer connection per file, readers
 * beside it.
 *
 * The settings are measured (study/systems.md): temp_store=MEMORY because statement journals on
 * disk cost a fifth and fail with the temp folder (F27); cache_spill=OFF so that nothing is written
 * before COMMIT (F1); automatic checkpoints off because they stall commits (F7). Connections are
 * NOMUTEX: each belongs to one thread at a time. */
#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/killpoint.h"

#define BUSY_STEP_NS                                                                               \
    500000 /* SQLite's own handler sleeps up to 100 ms and starves one side (F23) */
#define BUSY_TRIES      4000 /* 2 s */
#define CACHE_BYTES     (12 << 20)
#define CACHE_READER_KB 1024

struct stmt {
    sqlite3_stmt *s;
    const struct sql *sql;
    struct conn *conn;
};

/* Statements the connection itself needs. */
enum own {
    OWN_BEGIN_WRITE,
    OWN_BEGIN_READ,
    OWN_COMMIT,
    OWN_ROLLBACK,
    OWN_SAVEPOINT,
    OWN_UNDO,
    OWN_KEEP,
    OWNS
};
static const struct sql own_sql[OWNS] = {
    [OWN_BEGIN_WRITE] = { "begin", "BEGIN IMMEDIATE" },
    [OWN_BEGIN_READ] = { "begin_read", "BEGIN" },
    [OWN_COMMIT] = { "commit", "COMMIT" },
    [OWN_ROLLBACK] = { "rollback", "ROLLBACK" },
    [OWN_SAVEPOINT] = { "savepoint", "SAVEPOINT rule" },
    [OWN_UNDO] = { "savepoint_undo", "ROLLBACK TO rule" },
    [OWN_KEEP] = { "savepoint_keep", "RELEASE rule" },
};

struct conn {
    sqlite3 *db;
    enum conn_use use;
    int64_t wal_frames;
    struct stmt *own[OWNS];
    struct stmt *
        *kept; /* open addressing by the address of the struct sql; capacity is a power of two */
    size_t kept_cap, kept_n;
};

static enum err error_of(int rc)
{
    switch (rc) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return ERR_EXISTS;
    }
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_RETRY;
    case SQLITE_FULL:
        return ERR_LIMIT;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
        return ERR_IO;
    default: /* constraints that rules must not meet, wrong SQL, writing in a read, misuse */
        return ERR_INTERNAL;
    }
}

static enum err fail(struct conn *c, int rc, const char *what, struct err_info *info)
{
    return err_set(info, error_of(rc), "sqlite: %s: %s (%d)", what, sqlite3_errmsg(c->db), rc);
}

/* ---- opening ---- */

static int on_busy(void *arg, int count)
{
    (void)arg;
    if (count >= BUSY_TRIES)
        return 0;
    nanosleep(&(struct timespec) { .tv_nsec = BUSY_STEP_NS }, NULL);
    return 1;
}

static int on_wal(void *arg, sqlite3 *db, const char *schema, int frames)
{
    (void)db;
    (void)schema;
    ((struct conn *)arg)->wal_frames = frames;
    return SQLITE_OK;
}

static void on_row(void *arg, int what, const char *schema, const char *table, sqlite3_int64 id)
{
    const struct store_staging *staging = arg;
    (void)what;
    (void)schema;
    staging->on_row(staging->ctx, table, id);
}

static void configure_library(void)
{
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite_cache_configure();
}

static enum err script(struct conn *c, struct str sql, struct err_info *info)
{
    const char *rest = sql.p;
    while (rest && rest < sql.p + sql.n) {
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(c->db, rest, (int)(sql.p + sql.n - rest), &s, &rest);
        if (rc == SQLITE_OK && s)
            while ((rc = sqlite3_step(s)) == SQLITE_ROW)
                ;
        enum err e = rc == SQLITE_OK || rc == SQLITE_DONE ? ERR_OK : fail(c, rc, "script", info);
        sqlite3_finalize(s);
        if (e)
            return e;
    }
    return ERR_OK;
}

/* Made by us so that only our user may read it; SQLite gives its companion files the same mode. */
static void make_private(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

static enum err set_up(struct conn *c, const struct store_options *o, struct err_info *info)
{
    sqlite3_extended_result_codes(c->db, 1);
    sqlite3_busy_handler(c->db, on_busy, NULL);
    if (c->use != CONN_WRITER)
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);

    int64_t cache = o->cache_bytes ? o->cache_bytes : CACHE_BYTES;
    char text[512];
    snprintf(text, sizeof text,
             "PRAGMA page_size=%d; PRAGMA journal_mode=WAL; PRAGMA synchronous=%s; PRAGMA "
             "temp_store=MEMORY;"
             "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-%lld; PRAGMA cache_spill=OFF;"
             "PRAGMA trusted_schema=OFF; PRAGMA query_only=%s; SELECT count(*) FROM sqlite_schema;",
             SQLITE_PAGE_BYTES, mutation_on(MUTATION_SYNC_OFF) ? "OFF" : "FULL",
             (long long)(c->use == CONN_WRITER ? cache / 1024 : CACHE_READER_KB),
             c->use == CONN_READER ? "ON" : "OFF");
    /* The SELECT opens the log: a connection that has never read checkpoints nothing and says OK
     * (F7). */
    enum err e = script(c, str_of(text), info);
    /* After the pragmas: setting wal_autocheckpoint replaces the hook. */
    sqlite3_wal_hook(c->db, on_wal, c);
    if (o->staging && o->staging->on_row && c->use == CONN_WRITER)
        sqlite3_update_hook(c->db, on_row, (void *)(uintptr_t)o->staging);
    return e;
}

static void conn_close(struct conn *c, bool clean)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->kept_cap; i++)
        if (c->kept[i]) {
            sqlite3_finalize(c->kept[i]->s);
            free(c->kept[i]);
        }
    free(c->kept);
    if (c->db && !clean)
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int rc = sqlite3_close(c->db);
    assert(rc == SQLITE_OK);
    free(c);
}

static enum err conn_open(const struct store_options *o, struct str path, enum conn_use use,
                          struct conn **ret, struct err_info *info)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, configure_library);

    ARENA_AUTO a = arena_new(512);
    const struct store_disk *disk = o->staging ? o->staging->disk : NULL;
    const char *name = disk ? sqlite_memory_path(disk, path, a) : str_cstr(a, path);
    enum err e = disk ? ERR_OK : sqlite_check_file_system(name, info);
    if (e)
        return e;
    if (!disk && use == CONN_WRITER)
        make_private(name);
    const char *vfs = sqlite_vfs(disk ? sqlite_memory_vfs() : o->vfs);
    if (!vfs)
        return err_internal(info, "sqlite: no VFS named %s", o->vfs ? o->vfs : "(default)");

    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->use = use;
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (use == CONN_WRITER ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(name, &c->db, flags, vfs);
    if (rc == SQLITE_OK)
        e = set_up(c, o, info);
    else
        e = err_set(info, error_of(rc), "sqlite: cannot open %s: %s", name,
                    c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
    if (e)
        conn_close(c, false);
    else
        *ret = c;
    return e;
}

/* ---- statements ---- */

static size_t place_of(const struct conn *c, const struct sql *sql)
{
    size_t i = (((uintptr_t)sql >> 4) * 0x9e3779b97f4a7c15u) >> 20;
    for (;; i++) {
        i &= c->kept_cap - 1;
        if (!c->kept[i] || c->kept[i]->sql == sql)
            return i;
    }
}

static void grow(struct conn *c)
{
    struct stmt **old = c->kept;
    size_t old_cap = c->kept_cap;
    c->kept_cap = old_cap ? old_cap * 2 : 64;
    c->kept = calloc(c->kept_cap, sizeof *c->kept);
    if (!c->kept)
        abort();
    for (size_t i = 0; i < old_cap; i++)
        if (old[i])
            c->kept[place_of(c, old[i]->sql)] = old[i];
    free(old);
}

static struct stmt *prepare(struct conn *c, const struct sql *sql, struct err_info *info)
{
    if (c->kept_n * 2 >= c->kept_cap)
        grow(c);
    size_t i = place_of(c, sql);
    if (c->kept[i])
        return c->kept[i];

    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v3(c->db, sql->text, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    if (rc != SQLITE_OK) {
        fail(c, rc, sql->name, info);
        return NULL;
    }
    struct stmt *stmt = malloc(sizeof *stmt);
    if (!stmt)
        abort();
    *stmt = (struct stmt) { .s = s, .sql = sql, .conn = c };
    c->kept[i] = stmt;
    c->kept_n++;
    return stmt;
}

static int params(struct stmt *s)
{
    return sqlite3_bind_parameter_count(s->s);
}

/* Can only fail by our own mistake (a wrong index, a statement that is still running). */
static void bind_param(struct stmt *s, int i, const struct bind *b)
{
    int rc = SQLITE_MISUSE;

    switch (b->kind) {
    case BIND_INT:
        rc = sqlite3_bind_int64(s->s, i + 1, b->v);
        break;
    case BIND_TEXT: /* NULL where p is */
        rc = sqlite3_bind_text64(s->s, i + 1, b->s.p, b->s.n, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case BIND_BLOB:
        rc = sqlite3_bind_blob64(s->s, i + 1, b->s.p, b->s.n, SQLITE_STATIC);
        break;
    }
    assert(rc == SQLITE_OK);
}

static void reset(struct stmt *s)
{
    sqlite3_reset(s->s); /* repeats the error of the last step, which was reported then */
}

static enum err step(struct stmt *s, bool *ret_row, struct err_info *info)
{
    int rc = sqlite3_step(s->s);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        *ret_row = rc == SQLITE_ROW;
        return ERR_OK;
    }
    return fail(s->conn, rc, s->sql->name, info);
}

static int64_t changed(struct conn *c)
{
    return sqlite3_changes64(c->db);
}
static int64_t column_int(struct stmt *s, int i)
{
    return sqlite3_column_int64(s->s, i);
}
static bool column_null(struct stmt *s, int i)
{
    return sqlite3_column_type(s->s, i) == SQLITE_NULL;
}
static struct str column_bytes(struct stmt *s, int i)
{
    const char *p = sqlite3_column_blob(s->s, i);
    return (struct str) { p ? p : "", (size_t)sqlite3_column_bytes(s->s, i) };
}

/* ---- transactions ---- */

static enum err own_step(struct conn *c, enum own which, struct err_info *info)
{
    if (!c->own[which]) {
        struct err_info why = { 0 };
        c->own[which] = prepare(c, &own_sql[which], &why);
        if (!c->own[which])
            return err_set(info, why.err, "%s", why.text);
    }
    bool row;
    enum err e = step(c->own[which], &row, info);
    reset(c->own[which]);
    return e;
}

static bool in_transaction(struct conn *c)
{
    return sqlite3_get_autocommit(c->db) == 0;
}

static enum err begin(struct conn *c, bool write, struct err_info *info)
{
    assert(!in_transaction(c));
    return own_step(c, write ? OWN_BEGIN_WRITE : OWN_BEGIN_READ, info);
}

static enum err commit(struct conn *c, struct err_info *info)
{
    if (!in_transaction(c))
        return err_internal(info, "sqlite: the transaction was gone before COMMIT");
    enum err e = own_step(c, OWN_COMMIT, info);
    if (!e && in_transaction(c))
        return err_internal(info, "sqlite: still in a transaction after COMMIT");
    return e;
}

static void rollback(struct conn *c)
{
    if (in_transaction(c))
        own_step(c, OWN_ROLLBACK, NULL); /* every snapshot ends with it */
}

static int64_t total_changes(struct conn *c)
{
    return sqlite3_total_changes64(c->db);
}
static enum err savepoint(struct conn *c, struct err_info *info)
{
    return own_step(c, OWN_SAVEPOINT, info);
}
static enum err savepoint_undo(struct conn *c, struct err_info *info)
{
    enum err e = own_step(c, OWN_UNDO, info);
    return e ? e : own_step(c, OWN_KEEP, info);
}
static enum err savepoint_keep(struct conn *c, struct err_info *info)
{
    return own_step(c, OWN_KEEP, info);
}

/* ---- the log ---- */

static int64_t wal_frames(struct conn *c)
{
    return c->wal_frames;
}

/* PASSIVE in both cases: it never waits for readers. When nothing is left and no reader holds the
 * log, the next commit starts it from the front again; it is never truncated in operation, because
 * appending syncs cost twice (F7). */
static enum err checkpoint(struct conn *c, bool inline_now, int64_t *ret_copied,
                           struct err_info *info)
{
    (void)inline_now;
    int frames = 0, copied = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &copied);
    if (rc != SQLITE_OK)
        return fail(c, rc, "checkpoint", info);
    *ret_copied = copied;
    return ERR_OK;
}

/* STRICT refuses BIGINT and would be the only guard against '12abc' in a number; an INTEGER PRIMARY
 * KEY is the row itself. Amounts are bounded so that refunding + refunded + ? cannot overflow
 * (F24). */
static const char *const types[] = {
    "id",          "INTEGER PRIMARY KEY",
    "int",         "INTEGER",
    "no",          "INTEGER",
    "ms",          "INTEGER",
    "fen",         "INTEGER CHECK (@ BETWEEN -10000000000000 AND 10000000000000)",
    "text",        "TEXT CHECK (length(@) <= #)",
    "blob",        "BLOB",
    "table_end",   "STRICT",
    "narrow_end",  "STRICT, WITHOUT ROWID",
    "partial",     "", /* an engine without partial indexes comments the condition out */
    "partial_end", "",
    NULL,
};

const struct store_driver sqlite_driver = {
    .name = "sqlite",
    .group_commit = true,
    .types = types,
    .open = conn_open,
    .close = conn_close,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .in_transaction = in_transaction,
    .total_changes = total_changes,
    .savepoint = savepoint,
    .savepoint_undo = savepoint_undo,
    .savepoint_keep = savepoint_keep,
    .prepare = prepare,
    .params = params,
    .bind = bind_param,
    .step = step,
    .changed = changed,
    .reset = reset,
    .col_int = column_int,
    .col_null = column_null,
    .col_bytes = column_bytes,
    .script = script,
    .owner_lock = sqlite_owner_lock,
    .checkpoint = checkpoint,
    .wal_frames = wal_frames,
    .free_bytes = sqlite_free_bytes,
};
