/* sqlite.h -- what the files of the SQLite driver share. sqlite3.h is included in this folder only.
 */
#ifndef FENPAY_SQLITE_H
#define FENPAY_SQLITE_H

#include <sqlite3.h>

#include "store/driver.h"

/* Half of what is usual: a payment touches five pages in five random places, and each goes whole
 * through the log, its checksum, the disk and the checkpoint. Against 4,096, three times each in
 * turn, callbacks with their consumers: 26 instead of 46 KB written, +18 % rate, p99 -40 %. */
#define SQLITE_PAGE_BYTES 2048

/* The name of a VFS that stands on `base` (NULL: the default one), gathers the writes to the log
 * and starts the write-back of checkpointed pages early (vfs.c). Registered on first use and kept
 * for ever. NULL: no such base. */
const char *sqlite_vfs(const char *base);

/* Puts the page cache of cache.c in place; before the library starts, later it does nothing. */
void sqlite_cache_configure(void);
/* The VFS of disks that are memory (memory.c), and the path of a file of such a disk there. */
const char *sqlite_memory_vfs(void);
const char *sqlite_memory_path(const struct store_disk *disk, struct str name, struct arena *a);

/* ERR_DENIED when `path` lies on a network file system, where neither locks nor shared memory can
 * be trusted. */
enum err sqlite_check_file_system(const char *path, struct err_info *info);

enum err sqlite_owner_lock(struct str path, int *ret_fd, struct err_info *info);
int64_t sqlite_free_bytes(struct str path);

#endif
