/* cache.c -- SQLite's own page cache, less one habit: at the end of every transaction it drops the
 * pages beyond the end of the file, and looks through all of its buckets for them.
 *
 * It does so whenever a page number beyond the end was ever used, and rebalancing a tree uses one
 * (the page at 1 GB, for a moment, while two pages swap numbers). From then on each COMMIT walked
 * the whole cache: 3 % of the writer, and more with a larger cache. Here the highest number in use
 * is kept without those moments, so the walk happens only when there is something to drop. */
#include "store/sqlite/sqlite.h"

#include <stdlib.h>

static sqlite3_pcache_methods2 inner; /* set once, before the library starts */

struct cache {
    sqlite3_pcache *pages;
    unsigned highest; /* no page has a higher number, `away` aside */
    unsigned away;    /* 0, or the number a page has for a moment */
};

static struct cache *cache(sqlite3_pcache *c)
{
    return (struct cache *)c;
}

static int x_init(void *arg)
{
    (void)arg;
    return inner.xInit(inner.pArg);
}

static void x_shutdown(void *arg)
{
    (void)arg;
    inner.xShutdown(inner.pArg);
}

static sqlite3_pcache *x_create(int page_bytes, int extra_bytes, int purgeable)
{
    struct cache *c = calloc(1, sizeof *c);
    if (c && !(c->pages = inner.xCreate(page_bytes, extra_bytes, purgeable))) {
        free(c);
        c = NULL;
    }
    return (sqlite3_pcache *)c;
}

static void x_size(sqlite3_pcache *c, int pages)
{
    inner.xCachesize(cache(c)->pages, pages);
}

static int x_count(sqlite3_pcache *c)
{
    return inner.xPagecount(cache(c)->pages);
}

static sqlite3_pcache_page *x_fetch(sqlite3_pcache *c, unsigned number, int create)
{
    if (create && number > cache(c)->highest)
        cache(c)->highest = number;
    return inner.xFetch(cache(c)->pages, number, create);
}

static void x_unpin(sqlite3_pcache *c, sqlite3_pcache_page *page, int discard)
{
    inner.xUnpin(cache(c)->pages, page, discard);
}

static void x_rekey(sqlite3_pcache *pcache, sqlite3_pcache_page *page, unsigned from, unsigned to)
{
    struct cache *c = cache(pcache);
    if (from == c->away)
        c->away = 0;
    if (to > c->highest) {
        if (c->away) /* two at a time: not the moment we know */
            c->highest = to;
        else
            c->away = to;
    }
    inner.xRekey(c->pages, page, from, to);
}

static void x_truncate(sqlite3_pcache *pcache, unsigned limit)
{
    struct cache *c = cache(pcache);
    if (limit > c->highest && limit > c->away)
        return;
    inner.xTruncate(c->pages, limit);
    c->away = 0;
    c->highest = limit ? limit - 1 : 0;
}

static void x_destroy(sqlite3_pcache *c)
{
    inner.xDestroy(cache(c)->pages);
    free(c);
}

static void x_shrink(sqlite3_pcache *c)
{
    inner.xShrink(cache(c)->pages);
}

void sqlite_cache_configure(void)
{
    static const sqlite3_pcache_methods2 methods = {
        .iVersion = 1,
        .xInit = x_init,
        .xShutdown = x_shutdown,
        .xCreate = x_create,
        .xCachesize = x_size,
        .xPagecount = x_count,
        .xFetch = x_fetch,
        .xUnpin = x_unpin,
        .xRekey = x_rekey,
        .xTruncate = x_truncate,
        .xDestroy = x_destroy,
        .xShrink = x_shrink,
    };
    if (sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &inner) == SQLITE_OK)
        sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods);
}
