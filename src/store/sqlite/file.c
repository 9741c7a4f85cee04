/* file.c -- the database file as a file: who owns it, on what kind of file system it lies, how much
 * room is left. */
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/arena.h"

/* Those of linux/magic.h and those it lacks. FUSE is here because sshfs, s3fs, glusterfs and shared
 * folders of virtual machines come as FUSE, and mapped memory over them is not shared. */
static const struct {
    unsigned long magic;
    const char *name;
} network_systems[] = {
    { NFS_SUPER_MAGIC, "nfs" }, { SMB_SUPER_MAGIC, "smb" },   { 0xff534d42, "cifs" },
    { 0xfe534d42, "smb2" },     { V9FS_MAGIC, "9p" },         { 0x00c36400, "ceph" },
    { AFS_SUPER_MAGIC, "afs" }, { CODA_SUPER_MAGIC, "coda" }, { 0x0bd00bd0, "lustre" },
    { 0x47504653, "gpfs" },     { 0x01161970, "gfs2" },       { 0x65735546, "fuse" },
};

enum err sqlite_check_file_system(const char *path, struct err_info *info)
{
    char *copy = strdup(path);
    if (!copy)
        abort();
    struct statfs s;
    int rc = statfs(dirname(copy), &s);
    free(copy);
    if (rc != 0)
        return err_set(info, ERR_NOT_FOUND, "the folder of %s: %s", path, strerror(errno));
    for (size_t i = 0; i < sizeof network_systems / sizeof network_systems[0]; i++)
        if ((unsigned long)s.f_type == network_systems[i].magic)
            return err_set(
                info, ERR_DENIED,
                "%s lies on %s: a SQLite database needs a local disk (locks and shared memory)",
                path, network_systems[i].name);
    return ERR_OK;
}

int64_t sqlite_free_bytes(struct str path)
{
    ARENA_AUTO a = arena_new(512);
    struct statvfs s;
    if (statvfs(str_cstr(a, path), &s) != 0)
        return 0;
    return (int64_t)s.f_bavail * (int64_t)s.f_frsize;
}

/* flock, not a pid file: it ends with the process, however that ends. The pid inside is for people
 * only. */
enum err sqlite_owner_lock(struct str path, int *ret_fd, struct err_info *info)
{
    ARENA_AUTO a = arena_new(512);
    const char *name = str_cstr(a, str_printf(a, STR_FMT ".owner", STR_ARG(path)));
    int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(info, ERR_IO, "cannot open %s: %s", name, strerror(errno));

    char text[32] = "";
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int why = errno;
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        close(fd);
        if (why != EWOULDBLOCK)
            return err_set(info, ERR_IO, "cannot lock %s: %s", name, strerror(why));
        return err_set(info, ERR_CONFLICT, "the database is in use by process %.*s (%s)",
                       n > 0 ? (int)strcspn(text, "\n") : 1, n > 0 ? text : "?", name);
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        close(fd);
        return err_set(info, ERR_IO, "cannot write %s", name);
    }
    *ret_fd = fd;
    return ERR_OK;
}
