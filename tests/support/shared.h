/* shared.h -- reads files, and known-answer material that lies beside the repository (never copied
 * into it).
 *
 * The folder is $FENPAY_SHARED, else ../shared beside the source root. Tests that use it print how
 * many cases they ran and pass without it. */
#ifndef FENPAY_TESTS_SHARED_H
#define FENPAY_TESTS_SHARED_H

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/str.h"

/* The whole file in the arena, NUL-terminated; STR_NONE when it cannot be opened. */
static inline struct str file_read(struct arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return STR_NONE;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *p = arena_alloc(a, (size_t)size + 1);
    size_t n = fread(p, 1, (size_t)size, f);
    fclose(f);
    return (struct str) { p, n };
}

/* `path` below the shared folder, e.g. "vectors/wechatpay/vectors.json". */
static inline struct str shared_read(struct arena *a, const char *path)
{
    const char *root = getenv("FENPAY_SHARED");
    struct str full = root ? str_printf(a, "%s/%s", root, path)
                           : str_printf(a, "%s/../shared/%s", FENPAY_SOURCE_ROOT, path);
    return file_read(a, full.p);
}

#endif
