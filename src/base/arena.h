/* arena.h -- memory that lives as long as one request, job step or transaction try, and is let go
 * at once.
 *
 * Allocation never fails (out of memory aborts: there is nothing sensible left to do) and returns
 * zeroed memory aligned to 16. Not thread-safe: one owner at a time. */
#ifndef FENPAY_ARENA_H
#define FENPAY_ARENA_H

#include <stddef.h>

struct arena;

/* `chunk` is the size of the first block; later blocks grow as needed. */
struct arena *arena_new(size_t chunk);
void arena_free(struct arena *a);  /* NULL is fine */
void arena_reset(struct arena *a); /* empties it, keeps the first block for the next round */

void *arena_alloc(struct arena *a, size_t n); /* zeroed */
void *arena_raw(struct arena *a, size_t n);   /* not: for what is written over at once */
/* Checks count * size for overflow. */
void *arena_array(struct arena *a, size_t count, size_t size);
void *arena_copy(struct arena *a, const void *p, size_t n);

#define arena_one(a, type) ((type *)arena_alloc(a, sizeof(type)))

size_t arena_used(const struct arena *a);

/* Secrets: wipes every block before letting go or resetting, from now on. */
void arena_mark_secret(struct arena *a);

static inline void arena_cleanup(struct arena **a)
{
    arena_free(*a);
}
#define ARENA_AUTO __attribute__((cleanup(arena_cleanup))) struct arena *

#endif
