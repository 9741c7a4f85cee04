/* limiter.c -- token buckets in a hash table of fixed size, with a list from the least to the most
 * recently used.
 *
 * A key is known by a seeded SHA-256 of it, cut to 16 bytes: places have one size whatever a
 * stranger sends, and nobody can choose keys that fall into one chain. Levels count millionths of a
 * token, so that refilling `per_s` tokens a second is exactly `per_s` millionths a microsecond and
 * nothing is ever rounded away. A forgotten key starts with a full bucket: `keys_max` is to be
 * larger than the number of keys that deserve remembering. */
#include "net/limiter.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "crypto/digest.h"

#define TOKEN 1000000LL
#define MOST  1000000000000LL /* for rates and bursts: keeps levels within 64 bits */

struct key_id {
    uint8_t b[16];
};

struct bucket {
    struct list used;
    struct bucket *next; /* in its chain */
    struct key_id id;
    int64_t level; /* in millionths of a token, at `at_us` */
    int64_t at_us;
};

struct limiter {
    struct env *env;
    uint8_t seed[16];
    pthread_mutex_t lock; /* for all below */
    struct list used;     /* least recently used first */
    size_t count, max, mask;
    struct bucket **chains;
    struct bucket *buckets; /* `max` places, the first `count` in use */
};

struct limiter *limiter_new(struct env *env, size_t keys_max)
{
    assert(keys_max > 0);
    size_t chains = 1;
    while (chains < keys_max)
        chains *= 2;

    struct limiter *l = calloc(1, sizeof *l);
    if (!l || !(l->buckets = calloc(keys_max, sizeof *l->buckets)) ||
        !(l->chains = calloc(chains, sizeof *l->chains)))
        abort();
    l->env = env;
    l->max = keys_max;
    l->mask = chains - 1;
    list_init(&l->used);
    pthread_mutex_init(&l->lock, NULL);
    env_random(env, l->seed, sizeof l->seed);
    return l;
}

void limiter_free(struct limiter *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->lock);
    free(l->chains);
    free(l->buckets);
    free(l);
}

static struct key_id key_id(const struct limiter *l, struct str key)
{
    const struct str parts[] = { { (const char *)l->seed, sizeof l->seed }, key };
    struct sha256 d = sha256_of(parts, 2);
    struct key_id id;
    memcpy(&id, d.b, sizeof id);
    return id;
}

static struct bucket **chain_of(struct limiter *l, const struct key_id *id)
{
    size_t h;
    memcpy(&h, id, sizeof h);
    return &l->chains[h & l->mask];
}

static struct bucket *find(struct limiter *l, const struct key_id *id)
{
    struct bucket *b = *chain_of(l, id);
    while (b && memcmp(&b->id, id, sizeof *id) != 0)
        b = b->next;
    return b;
}

/* A place that is in no chain and on no list: a fresh one, else that of the least recently used
 * key. */
static struct bucket *take_place(struct limiter *l)
{
    if (l->count < l->max)
        return &l->buckets[l->count++];
    struct bucket *oldest = container_of(list_take_first(&l->used), struct bucket, used);
    struct bucket **link = chain_of(l, &oldest->id);
    while (*link != oldest)
        link = &(*link)->next;
    *link = oldest->next;
    return oldest;
}

static struct bucket *add(struct limiter *l, const struct key_id *id, int64_t burst, int64_t now_us)
{
    struct bucket *b = take_place(l);
    struct bucket **chain = chain_of(l, id);
    *b = (struct bucket) { .next = *chain, .id = *id, .level = burst * TOKEN, .at_us = now_us };
    *chain = b;
    list_append(&l->used, &b->used);
    return b;
}

static int64_t level_at(const struct bucket *b, int64_t per_s, int64_t burst, int64_t now_us)
{
    int64_t full = burst * TOKEN, elapsed_us = now_us - b->at_us;
    if (b->level >= full || elapsed_us > (full - b->level) / per_s)
        return full;
    return b->level + elapsed_us * per_s;
}

bool limiter_take(struct limiter *l, struct str key, int64_t per_s, int64_t burst,
                  int64_t *ret_wait_ms)
{
    assert(per_s > 0 && per_s <= MOST);
    assert(burst > 0 && burst <= MOST);
    struct key_id id = key_id(l, key);

    pthread_mutex_lock(&l->lock);
    int64_t now_us = env_mono_us(l->env);
    struct bucket *b = find(l, &id);
    if (b) {
        list_remove(&b->used);
        list_append(&l->used, &b->used);
    } else
        b = add(l, &id, burst, now_us);

    int64_t level = level_at(b, per_s, burst, now_us);
    bool taken = level >= TOKEN;
    b->level = taken ? level - TOKEN : level;
    b->at_us = now_us;
    pthread_mutex_unlock(&l->lock);

    if (!taken && ret_wait_ms) {
        int64_t wait_us = (TOKEN - level + per_s - 1) / per_s;
        *ret_wait_ms = (wait_us + 999) / 1000;
    }
    return taken;
}

bool limiter_has(struct limiter *l, struct str key, int64_t per_s, int64_t burst)
{
    assert(per_s > 0 && per_s <= MOST);
    assert(burst > 0 && burst <= MOST);
    struct key_id id = key_id(l, key);

    pthread_mutex_lock(&l->lock);
    struct bucket *b = find(l, &id);
    bool has = !b || level_at(b, per_s, burst, env_mono_us(l->env)) >= TOKEN;
    pthread_mutex_unlock(&l->lock);
    return has;
}
