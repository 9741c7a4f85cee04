/* vfs.c -- a thin VFS over the real one, for two costs that SQLite leaves on the table (systems.md
 * F28, F7):
 *
 *   - the log is written in two small pieces a frame. They are gathered and written in blocks when
 * the log is synced, read, measured or cut: a quarter of the writer. Sound because with
 * synchronous=FULL a commit is published to other connections only after the sync; where that is
 * not so (no syncs, or padding behind the sync on a disk without powersafe overwrite) nothing is
 * gathered;
 *   - a checkpoint dirties thousands of pages that its one fsync then writes at once, while commits
 * wait behind it. Their write-back is started every 128 pages. */
#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/killpoint.h"

#define GATHER_BYTES (64 << 10) /* unixWrite masks the size of one write to 17 bits */
#define RANGE_BYTES  (128 * SQLITE_PAGE_BYTES)

/* A descriptor of our own for sync_file_range; SQLite does not give its away. Closing any
 * descriptor of a file drops all locks the process has on it, so there is one per file, closed when
 * the last connection is. */
struct side {
    struct side *next;
    char *path;
    int fd;
    int users;
};

struct shim {
    sqlite3_file base;
    sqlite3_file *real;
    char *gathered; /* NULL: not gathering */
    int gathered_n;
    sqlite3_int64 gathered_at;
    struct side *side; /* of a database file */
    sqlite3_int64 from, to, dirty;
};

static struct {
    pthread_mutex_t lock;
    struct side *sides;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- early write-back ---- */

static struct side *side_open(const char *path)
{
    pthread_mutex_lock(&all.lock);
    struct side *side = all.sides;
    while (side && strcmp(side->path, path) != 0)
        side = side->next;
    if (!side) {
        side = calloc(1, sizeof *side);
        if (!side || !(side->path = strdup(path)))
            abort();
        side->fd = open(path, O_RDONLY | O_CLOEXEC);
        side->next = all.sides;
        all.sides = side;
    }
    side->users++;
    pthread_mutex_unlock(&all.lock);
    return side;
}

static void side_close(struct side *side)
{
    pthread_mutex_lock(&all.lock);
    if (--side->users == 0) {
        struct side **at = &all.sides;
        while (*at != side)
            at = &(*at)->next;
        *at = side->next;
        if (side->fd >= 0)
            close(side->fd);
        free(side->path);
        free(side);
    }
    pthread_mutex_unlock(&all.lock);
}

/* Only a hint: the sync that counts comes later, and is checked. */
static void start_write_back(struct shim *f, sqlite3_int64 at, int n)
{
    if (f->dirty == 0 || at < f->from)
        f->from = at;
    if (f->dirty == 0 || at + n > f->to)
        f->to = at + n;
    f->dirty += n;
    if (f->dirty < RANGE_BYTES)
        return;
    sync_file_range(f->side->fd, f->from, f->to - f->from, SYNC_FILE_RANGE_WRITE);
    f->dirty = 0;
}

/* ---- gathering ---- */

static struct shim *shim(sqlite3_file *f)
{
    return (struct shim *)f;
}
static sqlite3_file *real(sqlite3_file *f)
{
    return shim(f)->real;
}

static int flush(sqlite3_file *f)
{
    struct shim *s = shim(f);
    if (s->gathered_n == 0)
        return SQLITE_OK;
    int n = s->gathered_n;
    s->gathered_n =
        0; /* also when it fails: the commit fails with it and its frames will never be looked at */
    return real(f)->pMethods->xWrite(real(f), s->gathered, n, s->gathered_at);
}

static int gather(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct shim *s = shim(f);
    if (s->gathered_n > 0 &&
        (at != s->gathered_at + s->gathered_n || s->gathered_n + n > GATHER_BYTES)) {
        int rc = flush(f);
        if (rc)
            return rc;
    }
    if (n > GATHER_BYTES)
        return real(f)->pMethods->xWrite(real(f), p, n, at);
    if (s->gathered_n == 0)
        s->gathered_at = at;
    memcpy(s->gathered + s->gathered_n, p, (size_t)n);
    s->gathered_n += n;
    return SQLITE_OK;
}

/* ---- file methods ---- */

static int x_close(sqlite3_file *f)
{
    struct shim *s = shim(f);
    flush(f); /* nothing that anybody was promised */
    int rc = real(f)->pMethods->xClose(real(f));
    free(s->gathered);
    if (s->side)
        side_close(s->side);
    return rc;
}

static int x_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    int rc = flush(f);
    return rc ? rc : real(f)->pMethods->xRead(real(f), p, n, at);
}

static int x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    if (shim(f)->gathered)
        return gather(f, p, n, at);
    int rc = real(f)->pMethods->xWrite(real(f), p, n, at);
    if (rc == SQLITE_OK && shim(f)->side)
        start_write_back(shim(f), at, n);
    return rc;
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    int rc = flush(f);
    return rc ? rc : real(f)->pMethods->xTruncate(real(f), n);
}

static int x_sync(sqlite3_file *f, int flags)
{
    int rc = flush(f);
    return rc ? rc : real(f)->pMethods->xSync(real(f), flags);
}

static int x_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    int rc = flush(f);
    return rc ? rc : real(f)->pMethods->xFileSize(real(f), ret);
}

static int x_control(sqlite3_file *f, int op, void *arg)
{
    int rc = flush(f);
    return rc ? rc : real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int x_lock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xLock(real(f), level);
}
static int x_unlock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xUnlock(real(f), level);
}
static int x_reserved(sqlite3_file *f, int *ret)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}
static int x_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}
static int x_characteristics(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}
static int x_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **ret)
{
    return real(f)->pMethods->xShmMap(real(f), region, size, extend, ret);
}
static int x_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}
static void x_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}
static int x_shm_unmap(sqlite3_file *f, int delete_it)
{
    return real(f)->pMethods->xShmUnmap(real(f), delete_it);
}

/* Version 2: no memory-mapped reads, which would not see what is gathered. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = x_close,
    .xRead = x_read,
    .xWrite = x_write,
    .xTruncate = x_truncate,
    .xSync = x_sync,
    .xFileSize = x_size,
    .xLock = x_lock,
    .xUnlock = x_unlock,
    .xCheckReservedLock = x_reserved,
    .xFileControl = x_control,
    .xSectorSize = x_sector,
    .xDeviceCharacteristics = x_characteristics,
    .xShmMap = x_shm_map,
    .xShmLock = x_shm_lock,
    .xShmBarrier = x_shm_barrier,
    .xShmUnmap = x_shm_unmap,
};

/* ---- the VFS ---- */

static bool may_gather(sqlite3_file *log)
{
    return (log->pMethods->xDeviceCharacteristics(log) & SQLITE_IOCAP_POWERSAFE_OVERWRITE) &&
           !mutation_on(MUTATION_SYNC_OFF);
}

static int x_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *ret_flags)
{
    struct shim *s = shim(f);
    sqlite3_vfs *base = vfs->pAppData;
    *s = (struct shim) { .real = (sqlite3_file *)(s + 1) };
    int rc = base->xOpen(base, path, s->real, flags, ret_flags);
    if (!s->real->pMethods)
        return rc;
    s->base.pMethods = &methods;
    if (rc != SQLITE_OK)
        return rc;
    if ((flags & SQLITE_OPEN_WAL) && may_gather(s->real)) {
        s->gathered = malloc(GATHER_BYTES);
        if (!s->gathered)
            abort();
    } else if (path && (flags & SQLITE_OPEN_MAIN_DB)) {
        s->side = side_open(path);
    }
    return SQLITE_OK;
}

/* The other methods come with the copy of the base and are called with it. */
static int x_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    sqlite3_vfs *base = vfs->pAppData;
    return base->xDelete(base, path, sync_folder);
}
static int x_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret)
{
    sqlite3_vfs *base = vfs->pAppData;
    return base->xAccess(base, path, flags, ret);
}
static int x_full_path(sqlite3_vfs *vfs, const char *path, int n, char *ret)
{
    sqlite3_vfs *base = vfs->pAppData;
    return base->xFullPathname(base, path, n, ret);
}

static sqlite3_vfs *make(sqlite3_vfs *base, const char *name)
{
    sqlite3_vfs *vfs = malloc(sizeof *vfs);
    if (!vfs)
        abort();
    *vfs = *base;
    vfs->pNext = NULL;
    vfs->zName = strdup(name);
    vfs->pAppData = base;
    vfs->szOsFile = (int)sizeof(struct shim) + base->szOsFile;
    vfs->xOpen = x_open;
    vfs->xDelete = x_delete;
    vfs->xAccess = x_access;
    vfs->xFullPathname = x_full_path;
    return vfs;
}

const char *sqlite_vfs(const char *base)
{
    char name[64] = "fenpay";
    if (base && snprintf(name, sizeof name, "fenpay-%s", base) >= (int)sizeof name)
        return NULL;
    pthread_mutex_lock(&all.lock);
    sqlite3_vfs *vfs = sqlite3_vfs_find(name), *under = sqlite3_vfs_find(base);
    if (!vfs && under) {
        vfs = make(under, name);
        sqlite3_vfs_register(vfs, 0);
    }
    pthread_mutex_unlock(&all.lock);
    return vfs ? vfs->zName : NULL;
}
