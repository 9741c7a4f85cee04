/* peers.c -- how many connections each address holds: one host must not take them all. Shared by a
 * listener's loops; touched only when a connection comes or goes. */
#include "net/server_int.h"

#include <assert.h>
#include <stdlib.h>

#define BUCKETS 1024

struct peer {
    struct peer *next;
    struct in6_addr address;
    unsigned count;
};

struct peers {
    pthread_mutex_t lock;
    unsigned max;
    struct peer *bucket[BUCKETS];
};

struct peers *peers_new(unsigned max)
{
    struct peers *p = calloc(1, sizeof(*p));
    if (!p)
        abort();
    pthread_mutex_init(&p->lock, NULL);
    p->max = max;
    return p;
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        assert(!p->bucket[i]);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* The link that points to the address's entry, or the end of its bucket. */
static struct peer **find(struct peers *p, const struct in6_addr *address)
{
    uint32_t h = str_crc32c(0, (struct str) { (const char *)address, sizeof(*address) });
    struct peer **link = &p->bucket[h % BUCKETS];
    while (*link && memcmp(&(*link)->address, address, sizeof(*address)) != 0)
        link = &(*link)->next;
    return link;
}

bool peers_enter(struct peers *p, const struct in6_addr *address)
{
    pthread_mutex_lock(&p->lock);
    struct peer **link = find(p, address);
    if (!*link) {
        *link = calloc(1, sizeof(**link));
        if (!*link)
            abort();
        (*link)->address = *address;
    }
    bool room = (*link)->count < p->max;
    if (room)
        (*link)->count++;
    pthread_mutex_unlock(&p->lock);
    return room;
}

void peers_leave(struct peers *p, const struct in6_addr *address)
{
    pthread_mutex_lock(&p->lock);
    struct peer **link = find(p, address);
    struct peer *peer = *link;
    assert(peer && peer->count > 0);
    if (--peer->count == 0) {
        *link = peer->next;
        free(peer);
    }
    pthread_mutex_unlock(&p->lock);
}
