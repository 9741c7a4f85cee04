/* memory.c -- a disk that is only memory, as a VFS, for databases of the simulator.
 *
 * A file is one block of bytes and, beside it, what its writes since the last sync have
 * overwritten: the power can be cut, and what was not synced is gone. Locks and the log's shared
 * memory are kept here too, because the connections of one process are all there are. One thread.
 */
#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define FILES_MAX    4 /* database, log, journal */
#define NAME_BYTES   64
#define REGIONS_MAX  64
#define REGION_BYTES 32768
#define SECTOR_BYTES 4096

#define JULIAN_MS_2025 212602406400000LL

/* What a write has replaced; `n` < 0: the file was `at` bytes long. */
struct undo {
    struct undo *older;
    int64_t at;
    int64_t n;
    char bytes[];
};

struct memory_file {
    char name[NAME_BYTES]; /* "": free */
    char *bytes;
    int64_t n, room;
    struct undo *undo;
    /* locks of the database file */
    int shared;
    void *reserved, *pending, *exclusive; /* the handle that has it */
    /* the log's index */
    char *regions[REGIONS_MAX];
    int region_count, mapped;
    int shm_shared[SQLITE_SHM_NLOCK];
    void *shm_exclusive[SQLITE_SHM_NLOCK];
};

struct store_disk {
    struct list link;
    uint64_t number;
    struct memory_file files[FILES_MAX];
};

struct handle {
    sqlite3_file base;
    struct memory_file *file;
    bool temporary;
    int level; /* of the file's lock */
    bool mapped;
    uint16_t shm_shared;
};

static struct {
    struct list disks;
    uint64_t made;
    bool registered;
} all = { .disks = { &all.disks, &all.disks } };

static void *grown(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p)
        abort();
    return p;
}

static struct memory_file *file_of(sqlite3_file *f)
{
    return ((struct handle *)f)->file;
}

/* ---- bytes ---- */

static void remember(struct memory_file *f, int64_t at, int64_t n)
{
    struct undo *u = grown(NULL, sizeof *u + (size_t)(n > 0 ? n : 0));
    *u = (struct undo) { .older = f->undo, .at = at, .n = n };
    if (n > 0)
        memcpy(u->bytes, f->bytes + at, (size_t)n);
    f->undo = u;
}

static void forget(struct memory_file *f)
{
    while (f->undo) {
        struct undo *u = f->undo;
        f->undo = u->older;
        free(u);
    }
}

static void set_size(struct memory_file *f, int64_t n)
{
    if (n > f->room) {
        f->room = n * 2;
        f->bytes = grown(f->bytes, (size_t)f->room);
    }
    if (n > f->n)
        memset(f->bytes + f->n, 0, (size_t)(n - f->n));
    f->n = n;
}

static int x_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    struct memory_file *m = file_of(f);
    int64_t have = at < m->n ? m->n - at : 0;
    if (have >= n) {
        memcpy(to, m->bytes + at, (size_t)n);
        return SQLITE_OK;
    }
    if (have)
        memcpy(to, m->bytes + at, (size_t)have);
    memset((char *)to + have, 0, (size_t)(n - have));
    return SQLITE_IOERR_SHORT_READ;
}

static int x_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    struct memory_file *m = file_of(f);
    int64_t end = at + n, kept = at < m->n ? (end < m->n ? end : m->n) - at : 0;
    if (kept)
        remember(m, at, kept);
    if (end > m->n) {
        remember(m, m->n, -1);
        set_size(m, end);
    }
    memcpy(m->bytes + at, from, (size_t)n);
    return SQLITE_OK;
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    struct memory_file *m = file_of(f);
    if (n < m->n) {
        remember(m, n, m->n - n);
        set_size(m, n);
    }
    return SQLITE_OK;
}

static int x_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    forget(file_of(f));
    return SQLITE_OK;
}

static int x_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    *ret = file_of(f)->n;
    return SQLITE_OK;
}

static void undo_all(struct memory_file *f)
{
    while (f->undo) {
        struct undo *u = f->undo;
        if (u->n < 0) {
            set_size(f, u->at);
        } else {
            if (u->at + u->n > f->n)
                set_size(f, u->at + u->n);
            memcpy(f->bytes + u->at, u->bytes, (size_t)u->n);
        }
        f->undo = u->older;
        free(u);
    }
}

/* ---- locks of the database file ---- */

static bool mine(const void *owner, const struct handle *h)
{
    return !owner || owner == h;
}

static int x_lock(sqlite3_file *f, int level)
{
    struct handle *h = (struct handle *)f;
    struct memory_file *m = h->file;
    if (h->level >= level)
        return SQLITE_OK;
    if (!mine(m->exclusive, h) || (level == SQLITE_LOCK_SHARED && !mine(m->pending, h)))
        return SQLITE_BUSY;
    switch (level) {
    case SQLITE_LOCK_SHARED:
        m->shared++;
        break;
    case SQLITE_LOCK_RESERVED:
        if (!mine(m->reserved, h))
            return SQLITE_BUSY;
        m->reserved = h;
        break;
    default:
        if (!mine(m->reserved, h) || !mine(m->pending, h))
            return SQLITE_BUSY;
        m->reserved = m->pending = h;
        if (m->shared > 1) {
            h->level = SQLITE_LOCK_PENDING;
            return SQLITE_BUSY;
        }
        m->exclusive = h;
    }
    h->level = level;
    return SQLITE_OK;
}

static int x_unlock(sqlite3_file *f, int level)
{
    struct handle *h = (struct handle *)f;
    struct memory_file *m = h->file;
    if (h->level <= level)
        return SQLITE_OK;
    if (h->level > SQLITE_LOCK_SHARED) {
        m->reserved = m->reserved == h ? NULL : m->reserved;
        m->pending = m->pending == h ? NULL : m->pending;
        m->exclusive = m->exclusive == h ? NULL : m->exclusive;
    }
    if (level == SQLITE_LOCK_NONE)
        m->shared--;
    h->level = level;
    return SQLITE_OK;
}

static int x_reserved(sqlite3_file *f, int *ret)
{
    *ret = file_of(f)->reserved != NULL;
    return SQLITE_OK;
}

/* ---- the log's index ---- */

static int x_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **ret)
{
    struct handle *h = (struct handle *)f;
    struct memory_file *m = h->file;
    assert(size == REGION_BYTES && region < REGIONS_MAX);
    *ret = NULL;
    if (!h->mapped) {
        h->mapped = true;
        m->mapped++;
    }
    if (region >= m->region_count && !extend)
        return SQLITE_OK;
    while (m->region_count <= region) {
        m->regions[m->region_count] = grown(NULL, REGION_BYTES);
        memset(m->regions[m->region_count++], 0, REGION_BYTES);
    }
    *ret = m->regions[region];
    return SQLITE_OK;
}

static int shm_unlock(struct handle *h, int at, int n, bool shared)
{
    for (int i = at; i < at + n; i++) {
        if (shared && h->shm_shared >> i & 1) {
            h->shm_shared &= (uint16_t) ~(1u << i);
            h->file->shm_shared[i]--;
        } else if (!shared && h->file->shm_exclusive[i] == h) {
            h->file->shm_exclusive[i] = NULL;
        }
    }
    return SQLITE_OK;
}

static int x_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    struct handle *h = (struct handle *)f;
    struct memory_file *m = h->file;
    bool shared = flags & SQLITE_SHM_SHARED;
    if (flags & SQLITE_SHM_UNLOCK)
        return shm_unlock(h, at, n, shared);
    for (int i = at; i < at + n; i++) {
        int others = m->shm_shared[i] - (h->shm_shared >> i & 1);
        if (!mine(m->shm_exclusive[i], h) || (!shared && others > 0))
            return SQLITE_BUSY;
    }
    for (int i = at; i < at + n; i++) {
        if (!shared) {
            m->shm_exclusive[i] = h;
        } else if (!(h->shm_shared >> i & 1)) {
            h->shm_shared |= (uint16_t)(1u << i);
            m->shm_shared[i]++;
        }
    }
    return SQLITE_OK;
}

static void x_shm_barrier(sqlite3_file *f)
{
    (void)f;
}

static void drop_index(struct memory_file *m)
{
    while (m->region_count)
        free(m->regions[--m->region_count]);
}

/* The index goes with the last who has it, as shared memory does at a reboot. */
static int x_shm_unmap(sqlite3_file *f, int delete_it)
{
    struct handle *h = (struct handle *)f;
    (void)delete_it;
    if (!h->mapped)
        return SQLITE_OK;
    h->mapped = false;
    if (--h->file->mapped == 0)
        drop_index(h->file);
    return SQLITE_OK;
}

/* ---- the rest of a file ---- */

static int x_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int x_sector(sqlite3_file *f)
{
    (void)f;
    return SECTOR_BYTES;
}

static int x_characteristics(sqlite3_file *f)
{
    (void)f;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static void file_free(struct memory_file *m)
{
    forget(m);
    drop_index(m);
    free(m->bytes);
    *m = (struct memory_file) { .name = "" };
}

static int x_close(sqlite3_file *f)
{
    struct handle *h = (struct handle *)f;
    x_unlock(f, SQLITE_LOCK_NONE);
    if (h->temporary) {
        file_free(h->file);
        free(h->file);
    }
    return SQLITE_OK;
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

/* A path is "/memory-<disk>/<name>". */
static struct store_disk *disk_of(const char *path, const char **ret_name)
{
    unsigned long long number;
    int n = 0;
    if (sscanf(path, "/memory-%llu/%n", &number, &n) < 1 || !n)
        return NULL;
    *ret_name = path + n;
    list_each (node, &all.disks) {
        struct store_disk *d = container_of(node, struct store_disk, link);
        if (d->number == number)
            return d;
    }
    return NULL;
}

static struct memory_file *find(const char *path, bool make)
{
    const char *name;
    struct store_disk *d = disk_of(path, &name);
    struct memory_file *free_place = NULL;
    for (int i = 0; d && i < FILES_MAX; i++) {
        if (strcmp(d->files[i].name, name) == 0)
            return &d->files[i];
        if (!d->files[i].name[0] && !free_place)
            free_place = &d->files[i];
    }
    if (!make || !free_place || snprintf(free_place->name, NAME_BYTES, "%s", name) >= NAME_BYTES)
        return NULL;
    return free_place;
}

static int x_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *ret_flags)
{
    struct handle *h = (struct handle *)f;
    (void)vfs;
    *h = (struct handle) { .temporary = path == NULL };
    h->file = path ? find(path, flags & SQLITE_OPEN_CREATE) : grown(NULL, sizeof *h->file);
    if (!h->file)
        return SQLITE_CANTOPEN;
    if (h->temporary)
        *h->file = (struct memory_file) { .name = "temporary" };
    h->base.pMethods = &methods;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int x_delete(sqlite3_vfs *vfs, const char *path, int sync_folder)
{
    (void)vfs;
    (void)sync_folder;
    struct memory_file *m = find(path, false);
    if (m)
        file_free(m);
    return m ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

static int x_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret)
{
    (void)vfs;
    (void)flags;
    const struct memory_file *m = find(path, false);
    *ret = m && m->n > 0;
    return SQLITE_OK;
}

static int x_full_path(sqlite3_vfs *vfs, const char *path, int n, char *ret)
{
    (void)vfs;
    return snprintf(ret, (size_t)n, "%s", path) < n ? SQLITE_OK : SQLITE_CANTOPEN;
}

/* SQLite takes its randomness (salts of the log) from the default VFS; no statement of ours asks
 * for the time. */
static int x_random(sqlite3_vfs *vfs, int n, char *ret)
{
    (void)vfs;
    memset(ret, 0, (size_t)n);
    return n;
}

static int x_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int x_time(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
    (void)vfs;
    *ret = JULIAN_MS_2025;
    return SQLITE_OK;
}

const char *sqlite_memory_vfs(void)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .szOsFile = (int)sizeof(struct handle),
        .mxPathname = 256,
        .zName = "memory-disk",
        .xOpen = x_open,
        .xDelete = x_delete,
        .xAccess = x_access,
        .xFullPathname = x_full_path,
        .xRandomness = x_random,
        .xSleep = x_sleep,
        .xCurrentTimeInt64 = x_time,
    };
    if (!all.registered)
        sqlite3_vfs_register(&vfs, 0);
    all.registered = true;
    return vfs.zName;
}

/* ---- disks ---- */

struct store_disk *store_disk_new(const struct store_disk *like)
{
    struct store_disk *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->number = ++all.made;
    list_append(&all.disks, &d->link);
    for (int i = 0; like && i < FILES_MAX; i++) {
        const struct memory_file *from = &like->files[i];
        memcpy(d->files[i].name, from->name, sizeof from->name);
        set_size(&d->files[i], from->n);
        if (from->n)
            memcpy(d->files[i].bytes, from->bytes, (size_t)from->n);
    }
    return d;
}

void store_disk_free(struct store_disk *d)
{
    if (!d)
        return;
    list_remove(&d->link);
    for (int i = 0; i < FILES_MAX; i++)
        file_free(&d->files[i]);
    free(d);
}

void store_disk_cut_power(struct store_disk *d)
{
    for (int i = 0; i < FILES_MAX; i++)
        undo_all(&d->files[i]);
}

const char *sqlite_memory_path(const struct store_disk *d, struct str name, struct arena *a)
{
    return str_printf(a, "/memory-%llu/" STR_FMT, (unsigned long long)d->number, STR_ARG(name)).p;
}
