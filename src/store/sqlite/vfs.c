#include "store/sqlite/sqlite.h"

const char *sqlite_vfs(const char *base)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(base);
    return vfs ? vfs->zName : NULL;
}
