/* limiter.h -- token buckets by key, bounded in number (the least recently used one is forgotten
 * first). Thread-safe. */
#ifndef FENPAY_LIMITER_H
#define FENPAY_LIMITER_H

#include "base/env.h"
#include "base/str.h"

struct limiter;

struct limiter *limiter_new(struct env *env, size_t keys_max);
void limiter_free(struct limiter *l); /* NULL is fine */

/* Takes one token from `key`'s bucket of `burst` refilled with `per_s` a second. False: none left;
 * *ret_wait_ms (may be NULL) says when the next one comes. Both numbers are positive. */
bool limiter_take(struct limiter *l, struct str key, int64_t per_s, int64_t burst,
                  int64_t *ret_wait_ms);

/* Whether limiter_take would get one; takes none and remembers nothing. For limits on failures: ask
 * before the work, take when it failed. */
bool limiter_has(struct limiter *l, struct str key, int64_t per_s, int64_t burst);

#endif
