/* fault_vfs.c -- see fault_vfs.h. Each file has a shadow: what is surely on the disk, and the
 * writes since. */
#include "fault_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"

#define SECTOR 512

struct pending {
    struct pending *next;
    sqlite3_int64 at;
    int n; /* -1: cut to `at` */
    char bytes[];
};

struct shadow {
    struct shadow *next;
    char *path;
    char *bytes; /* synced */
    sqlite3_int64 n, cap;
    struct pending *pending, **last;
    bool deleted;
};

struct file {
    sqlite3_file base;
    struct shadow *shadow; /* NULL: not watched */
    sqlite3_file *real;
};

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs *real;
    struct shadow *files;
    unsigned ops;
    int nth, fired;
    int counts[7];
    enum fault_kind kind;
    bool sticky, dead, careless;
} world = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- shadows; under the lock ---- */

static void *grown(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p)
        abort();
    return p;
}

static void settle_write(struct shadow *s, const char *p, sqlite3_int64 n, sqlite3_int64 at)
{
    if (at + n > s->cap) {
        s->cap = (at + n) * 2;
        s->bytes = grown(s->bytes, (size_t)s->cap);
    }
    if (at > s->n)
        memset(s->bytes + s->n, 0, (size_t)(at - s->n));
    memcpy(s->bytes + at, p, (size_t)n);
    if (at + n > s->n)
        s->n = at + n;
}

static void settle(struct shadow *s, const struct pending *p)
{
    if (p->n >= 0)
        settle_write(s, p->bytes, p->n, p->at);
    else if (p->at < s->n)
        s->n = p->at;
}

static void forget_pending(struct shadow *s)
{
    for (struct pending *p = s->pending, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    s->pending = NULL;
    s->last = &s->pending;
}

static void add_pending(struct shadow *s, sqlite3_int64 at, int n, const void *bytes)
{
    struct pending *p = grown(NULL, sizeof *p + (size_t)(n > 0 ? n : 0));
    *p = (struct pending) { .at = at, .n = n };
    if (n > 0)
        memcpy(p->bytes, bytes, (size_t)n);
    *s->last = p;
    s->last = &p->next;
}

static void load(struct shadow *s)
{
    FILE *f = fopen(s->path, "rb");
    char chunk[65536];
    s->n = 0;
    for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        settle_write(s, chunk, (sqlite3_int64)n, s->n);
    if (f)
        fclose(f);
}

static struct shadow *shadow_of(const char *path, bool make)
{
    for (struct shadow *s = world.files; s; s = s->next)
        if (strcmp(s->path, path) == 0)
            return s;
    if (!make)
        return NULL;
    struct shadow *s = grown(NULL, sizeof *s);
    *s = (struct shadow) { .path = strdup(path), .next = world.files };
    s->last = &s->pending;
    world.files = s;
    return s;
}

/* Counts an operation; the code it must fail with, or 0. */
static int meets_fault(enum fault_op op, int ioerr)
{
    int code = 0;
    pthread_mutex_lock(&world.lock);
    world.counts[__builtin_ctz(op)]++;
    bool hit = false;
    if (world.dead) {
        code = ioerr;
    } else if ((world.ops & op) && world.nth > 0) {
        hit = --world.nth == 0;
    } else if ((world.ops & op) && world.fired && world.sticky) {
        hit = true;
    }
    if (hit) {
        world.fired++;
        world.dead = world.kind == FAULT_POWER;
        code = world.kind == FAULT_FULL        ? SQLITE_FULL
               : world.kind == FAULT_READ_ONLY ? SQLITE_READONLY
                                               : ioerr;
    }
    pthread_mutex_unlock(&world.lock);
    return code;
}

/* ---- file methods ---- */

static sqlite3_file *real(sqlite3_file *f)
{
    return ((struct file *)f)->real;
}

static int x_close(sqlite3_file *f)
{
    return real(f)->pMethods ? real(f)->pMethods->xClose(real(f)) : SQLITE_OK;
}

static int x_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    int rc = meets_fault(FAULT_READ, SQLITE_IOERR_READ);
    return rc ? rc : real(f)->pMethods->xRead(real(f), p, n, at);
}

static int x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct file *file = (struct file *)f;
    int rc = meets_fault(FAULT_WRITE, SQLITE_IOERR_WRITE);
    if (rc)
        return rc;
    pthread_mutex_lock(&world.lock);
    if (file->shadow)
        add_pending(file->shadow, at, n, p);
    pthread_mutex_unlock(&world.lock);
    return real(f)->pMethods->xWrite(real(f), p, n, at);
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    struct file *file = (struct file *)f;
    int rc = meets_fault(FAULT_TRUNCATE, SQLITE_IOERR_TRUNCATE);
    if (rc)
        return rc;
    pthread_mutex_lock(&world.lock);
    if (file->shadow)
        add_pending(file->shadow, n, -1, NULL);
    pthread_mutex_unlock(&world.lock);
    return real(f)->pMethods->xTruncate(real(f), n);
}

/* The real sync is left out: what it would do is what the shadow says. */
static int x_sync(sqlite3_file *f, int flags)
{
    struct file *file = (struct file *)f;
    (void)flags;
    int rc = meets_fault(FAULT_SYNC, SQLITE_IOERR_FSYNC);
    if (rc)
        return rc;
    pthread_mutex_lock(&world.lock);
    if (file->shadow) {
        for (struct pending *p = file->shadow->pending; p; p = p->next)
            settle(file->shadow, p);
        forget_pending(file->shadow);
    }
    pthread_mutex_unlock(&world.lock);
    return SQLITE_OK;
}

static int x_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    int rc = meets_fault(FAULT_SIZE, SQLITE_IOERR_FSTAT);
    return rc ? rc : real(f)->pMethods->xFileSize(real(f), ret);
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
static int x_control(sqlite3_file *f, int op, void *arg)
{
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}
static int x_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}
static int x_characteristics(sqlite3_file *f)
{
    (void)f;
    return world.careless ? 0 : SQLITE_IOCAP_POWERSAFE_OVERWRITE;
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

static int x_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *ret_flags)
{
    struct file *file = (struct file *)f;
    (void)vfs;
    *file = (struct file) { .real = (sqlite3_file *)(file + 1) };
    int rc = meets_fault(FAULT_OPEN, SQLITE_CANTOPEN);
    if (rc)
        return rc;
    pthread_mutex_lock(&world.lock);
    if (path && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL))) {
        bool known = shadow_of(path, false) != NULL;
        file->shadow = shadow_of(path, true);
        if (!known)
            load(file->shadow);
        file->shadow->deleted = false;
    }
    pthread_mutex_unlock(&world.lock);
    rc = world.real->xOpen(world.real, path, file->real, flags, ret_flags);
    if (file->real->pMethods)
        file->base.pMethods = &methods;
    return rc;
}

static int x_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    (void)vfs;
    int rc = meets_fault(FAULT_DELETE, SQLITE_IOERR_DELETE);
    if (rc)
        return rc;
    pthread_mutex_lock(&world.lock);
    struct shadow *s = shadow_of(path, false);
    if (s) {
        forget_pending(s);
        s->n = 0;
        s->deleted = true;
    }
    pthread_mutex_unlock(&world.lock);
    return world.real->xDelete(world.real, path, sync_folder);
}

void fault_vfs_register(void)
{
    static sqlite3_vfs vfs;
    if (world.real)
        return;
    world.real = sqlite3_vfs_find(NULL);
    vfs = *world.real; /* what is not replaced here does not look at its first argument */
    vfs.pNext = NULL;
    vfs.zName = FAULT_VFS;
    vfs.szOsFile = (int)sizeof(struct file) + world.real->szOsFile;
    vfs.xOpen = x_open;
    vfs.xDelete = x_delete;
    sqlite3_vfs_register(&vfs, 0);
}

/* ---- plans ---- */

void fault_disarm(void)
{
    pthread_mutex_lock(&world.lock);
    world.ops = 0;
    world.nth = world.fired = 0;
    world.dead = false;
    memset(world.counts, 0, sizeof world.counts);
    pthread_mutex_unlock(&world.lock);
}

void fault_arm(unsigned ops, int nth, enum fault_kind kind, bool sticky)
{
    fault_disarm();
    pthread_mutex_lock(&world.lock);
    world.ops = ops;
    world.nth = nth;
    world.kind = kind;
    world.sticky = sticky;
    pthread_mutex_unlock(&world.lock);
}

void fault_careless_disk(bool careless)
{
    world.careless = careless;
}

void fault_reset(void)
{
    fault_disarm();
    for (struct shadow *s = world.files, *next; s; s = next) {
        next = s->next;
        forget_pending(s);
        free(s->bytes);
        free(s->path);
        free(s);
    }
    world.files = NULL;
}

int fault_fired(void)
{
    pthread_mutex_lock(&world.lock);
    int n = world.fired;
    pthread_mutex_unlock(&world.lock);
    return n;
}

int fault_count(unsigned ops)
{
    int n = 0;
    pthread_mutex_lock(&world.lock);
    for (unsigned i = 0; i < 7; i++)
        if (ops & (1u << i))
            n += world.counts[i];
    pthread_mutex_unlock(&world.lock);
    return n;
}

/* ---- power ---- */

/* A write of which some sectors reached the disk. */
static void settle_sectors(struct shadow *s, const struct pending *p, struct rand *r)
{
    for (int from = 0; from < p->n;) {
        int n = SECTOR - (int)((p->at + from) % SECTOR);
        if (n > p->n - from)
            n = p->n - from;
        if (rand_below(r, 2))
            settle_write(s, p->bytes + from, n, p->at + from);
        from += n;
    }
    if (p->n < 0 && rand_below(r, 2))
        settle(s, p);
}

static void settle_prefix(struct shadow *s, struct rand *r)
{
    uint64_t count = 0;
    for (struct pending *p = s->pending; p; p = p->next)
        count++;
    uint64_t whole = rand_below(r, count + 1);
    for (struct pending *p = s->pending; p; p = p->next, whole--) {
        if (whole == 0) {
            if (p->n > 0)
                settle_write(s, p->bytes, (sqlite3_int64)rand_below(r, (uint64_t)p->n), p->at);
            return;
        }
        settle(s, p);
    }
}

static void write_back(const struct shadow *s)
{
    char shm[512];
    snprintf(shm, sizeof shm, "%s-shm", s->path);
    unlink(shm); /* shared memory does not outlive the power */
    if (s->deleted) {
        unlink(s->path);
        return;
    }
    FILE *f = fopen(s->path, "wb");
    if (!f || (s->n > 0 && fwrite(s->bytes, 1, (size_t)s->n, f) != (size_t)s->n) || fclose(f) != 0)
        abort();
}

void fault_power_restore(enum power_loss loss, uint64_t seed)
{
    struct rand r;
    rand_seed(&r, seed);
    for (struct shadow *s = world.files; s; s = s->next) {
        switch (loss) {
        case POWER_DROP:
            break;
        case POWER_SOME:
            for (struct pending *p = s->pending; p; p = p->next)
                settle_sectors(s, p, &r);
            break;
        case POWER_TORN:
            settle_prefix(s, &r);
            break;
        }
        write_back(s);
    }
    fault_reset();
}
