/* arena.c -- a chain of blocks, filled from the newest.
 *
 * Blocks are not zeroed as a whole but piece by piece when handed out, so an arena costs what is
 * used of it. Under ASan what was not handed out is poisoned, so that running over the end of an
 * allocation is seen. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"

#if SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ALIGNMENT 16
#define GAP       (SANITIZE_ADDRESS ? 1 : 0) /* poisoned bytes between neighbours, at least */
#define CHUNK_MIN 256
#define BLOCK_MAX                                                                                  \
    ((size_t)1 << 20) /* blocks double up to here; a single larger piece gets a block of its own   \
                       */

struct block {
    struct block *older;
    size_t size, used;
    _Alignas(ALIGNMENT) char bytes[];
};

struct arena {
    struct block *newest;
    size_t used;
    bool secret;
};

static _Noreturn void out_of_memory(void)
{
    fputs("out of memory\n", stderr);
    abort();
}

static struct block *block_new(size_t size, struct block *older)
{
    struct block *b = malloc(sizeof(*b) + size);
    if (!b)
        out_of_memory();
    *b = (struct block) { .older = older, .size = size };
    ASAN_POISON_MEMORY_REGION(b->bytes, size);
    return b;
}

/* Makes the block empty, wiping what was handed out if it may be secret. */
static void block_empty(struct block *b, bool secret)
{
    if (secret) {
        ASAN_UNPOISON_MEMORY_REGION(b->bytes, b->used);
        explicit_bzero(b->bytes, b->used);
    }
    b->used = 0;
    ASAN_POISON_MEMORY_REGION(b->bytes, b->size);
}

static void block_free(struct block *b, bool secret)
{
    block_empty(b, secret);
    ASAN_UNPOISON_MEMORY_REGION(b->bytes, b->size);
    free(b);
}

struct arena *arena_new(size_t chunk)
{
    struct arena *a = calloc(1, sizeof(*a));
    if (!a)
        out_of_memory();
    a->newest = block_new(chunk < CHUNK_MIN ? CHUNK_MIN : chunk, NULL);
    return a;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    arena_reset(a);
    block_free(a->newest, a->secret);
    free(a);
}

void arena_reset(struct arena *a)
{
    while (a->newest->older) {
        struct block *older = a->newest->older;
        block_free(a->newest, a->secret);
        a->newest = older;
    }
    block_empty(a->newest, a->secret);
    a->used = 0;
}

static struct block *grow(struct arena *a, size_t n)
{
    size_t size = a->newest->size * 2;
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (size < n)
        size = n;
    return a->newest = block_new(size, a->newest);
}

void *arena_raw(struct arena *a, size_t n)
{
    if (n > SIZE_MAX / 4)
        out_of_memory();
    size_t padded = (n + GAP + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct block *b = a->newest;
    if (padded > b->size - b->used)
        b = grow(a, padded);

    void *p = b->bytes + b->used;
    b->used += padded;
    a->used += padded;
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
    return memset(arena_raw(a, n), 0, n);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        out_of_memory();
    return arena_alloc(a, n);
}

void *arena_copy(struct arena *a, const void *p, size_t n)
{
    void *copy = arena_raw(a, n);
    if (n)
        memcpy(copy, p, n);
    return copy;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

void arena_mark_secret(struct arena *a)
{
    a->secret = true;
}
