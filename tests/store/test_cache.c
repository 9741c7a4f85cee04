/* The wrapped page cache drops exactly what SQLite's own would drop, moments of a swap included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/sqlite/sqlite.h"

#define AWAY 524289 /* where a page waits while two swap their numbers */

static sqlite3_pcache_methods2 m;

static sqlite3_pcache *cache_of(unsigned pages)
{
    sqlite3_pcache *c = m.xCreate(2048, 200, 1);
    m.xCachesize(c, 1000);
    for (unsigned i = 1; i <= pages; i++)
        assert_non_null(m.xFetch(c, i, 2));
    return c;
}

static void swap(sqlite3_pcache *c, unsigned a, unsigned b)
{
    sqlite3_pcache_page *first = m.xFetch(c, a, 0), *second = m.xFetch(c, b, 0);
    m.xRekey(c, first, a, AWAY);
    m.xRekey(c, second, b, a);
    m.xRekey(c, first, AWAY, b);
}

static void drops_what_is_beyond(void **state)
{
    (void)state;
    sqlite3_pcache *c = cache_of(10);
    m.xTruncate(c, 11);
    assert_int_equal(m.xPagecount(c), 10);
    m.xTruncate(c, 6);
    assert_int_equal(m.xPagecount(c), 5);
    assert_null(m.xFetch(c, 6, 0));
    assert_non_null(m.xFetch(c, 8, 2)); /* it grows again, and shrinks again */
    m.xTruncate(c, 6);
    assert_int_equal(m.xPagecount(c), 5);
    m.xDestroy(c);
}

static void swaps_change_nothing(void **state)
{
    (void)state;
    sqlite3_pcache *c = cache_of(10);
    swap(c, 3, 7);
    swap(c, 10, 1);
    m.xTruncate(c, 11);
    assert_int_equal(m.xPagecount(c), 10);
    m.xTruncate(c, 10);
    assert_int_equal(m.xPagecount(c), 9);
    m.xDestroy(c);
}

static void a_page_left_away_is_dropped(void **state)
{
    (void)state;
    sqlite3_pcache *c = cache_of(10);
    m.xRekey(c, m.xFetch(c, 4, 0), 4, AWAY);
    m.xRekey(c, m.xFetch(c, 5, 0), 5, AWAY + 1);
    m.xTruncate(c, 11);
    assert_int_equal(m.xPagecount(c), 8);
    m.xDestroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_what_is_beyond),
        cmocka_unit_test(swaps_change_nothing),
        cmocka_unit_test(a_page_left_away_is_dropped),
    };
    sqlite_cache_configure();
    if (sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &m) || sqlite3_initialize())
        return 1;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
