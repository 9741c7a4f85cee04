/* Numbers: vectors computed independently (discrete logarithms in GF(32), Python's datetime,
 * bitwise CRC), what the check character catches, and the generator under threads and clocks that
 * step back. */
#include "../check.h"

#include <pthread.h>

#include "base/arena.h"
#include "base/number.h"
#include "base/rand.h"

static const struct {
    const char *text;
    enum number_kind kind;
    unsigned slot;
    int64_t id;
} vectors[] = {
    { "O20250101000000000000011", NUMBER_ORDER, 0, 1 },
    { "P20250101ZZ000000FM00004", NUMBER_PAYMENT, 1023, 524288000 },
    { "R20251231G10ENFSPZZG102V", NUMBER_REFUND, 513, 16518846873076738 },
    { "E20260101G20ENFSQ000102Q", NUMBER_EVENT, 514, 16518846873601026 },
    { "I202607080Z0P8EME52FZZZ0", NUMBER_INCIDENT, 31, 25067368487583743 },
    { "C20280229101EDWK8242D05K", NUMBER_CALLBACK, 32, 52280240373838853 },
    { "J20940907Z8ZZZZZZZZZZZZ5", NUMBER_JOURNAL, 1000, 1152921504606846975 },
};

static void test_vectors(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(0);
    for (size_t i = 0; i < COUNT(vectors); i++) {
        struct number n = number_make(vectors[i].kind, vectors[i].slot, vectors[i].id);
        assert_true(number_is(n));
        assert_string_equal(number_text(n).s, vectors[i].text);
        assert_str(number_str(a, n), vectors[i].text);

        for (int any = 0; any < 2; any++) {
            struct number back = { 0 };
            assert_ok(number_parse(str_of(vectors[i].text),
                                   any ? (enum number_kind)0 : vectors[i].kind, &back));
            assert_int_equal(back.id, vectors[i].id);
            assert_int_equal(back.slot, vectors[i].slot);
            assert_int_equal(back.kind, vectors[i].kind);
        }
    }
    struct number none = number_make(NUMBER_ORDER, 3, 0);
    assert_false(number_is(none));
    assert_null(number_str(a, none).p);
    assert_string_equal(number_text(none).s, "");
    struct number n;
    assert_int_equal(number_parse(str_of(vectors[0].text), NUMBER_PAYMENT, &n), ERR_INVALID);
}

/* Every single wrong character and every swap of two neighbours. */
static void test_check_catches(void **state)
{
    (void)state;
    struct number n = { .id = 99 };
    int tried = 0;
    for (size_t v = 0; v < COUNT(vectors); v++) {
        for (size_t at = 0; at < NUMBER_TEXT; at++) {
            char text[NUMBER_TEXT + 1];
            for (int c = 0; c < 256; c++) {
                memcpy(text, vectors[v].text, sizeof(text));
                if ((char)c == text[at])
                    continue;
                text[at] = (char)c;
                check_row(number_parse((struct str) { text, NUMBER_TEXT }, 0, &n) == ERR_INVALID,
                          text);
                tried++;
            }
            memcpy(text, vectors[v].text, sizeof(text));
            if (at + 1 < NUMBER_TEXT && text[at] != text[at + 1]) {
                text[at] = vectors[v].text[at + 1];
                text[at + 1] = vectors[v].text[at];
                check_row(number_parse((struct str) { text, NUMBER_TEXT }, 0, &n) == ERR_INVALID,
                          text);
            }
        }
        assert_int_equal(number_parse((struct str) { vectors[v].text, NUMBER_TEXT - 1 }, 0, &n),
                         ERR_INVALID);
        assert_int_equal(number_parse((struct str) { vectors[v].text, NUMBER_TEXT + 1 }, 0, &n),
                         ERR_INVALID);
    }
    assert_int_equal(tried, COUNT(vectors) * NUMBER_TEXT * 255);
    assert_int_equal(number_parse(STR_NONE, 0, &n), ERR_INVALID);
    assert_int_equal(n.id, 99);
}

/* The date is only a copy of the id's: another one is wrong even when the check character fits it.
 */
static void test_date_must_agree(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    struct number n;
    char text[] = "O20250102000000000000010";
    for (int c = 0; c < 32; c++) {
        text[23] = alphabet[c];
        assert_int_equal(number_parse(str_of(text), 0, &n), ERR_INVALID);
    }
}

static void test_time(void **state)
{
    (void)state;
    int64_t moment = 1767234896123;
    int64_t first = number_first_id(moment);
    assert_int_equal(number_ms(first), moment);
    assert_int_equal(number_ms(first - 1), moment - 1);
    assert_int_equal(number_first_id(0), 1);
    assert_int_equal(number_first_id(INT64_MAX / 2), 1LL << 60);
}

static void test_slot(void **state)
{
    (void)state;
    static const struct {
        const char *caller, *key;
        unsigned slot;
    } rows[] = {
        { "shop", "M20260101-0001", 483 }, { "shop", "", 966 },       { "", "shop", 746 },
        { "mall", "u-42", 734 },           { "商城", "订单-7", 385 },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(number_slot(str_of(rows[i].caller), str_of(rows[i].key)), rows[i].slot);
    assert_int_equal(number_slot_of_text(STR_NONE), 0);
    assert_int_equal(number_slot_of_text(STR("4200001234202601011234567890")), 957);
    assert_int_equal(number_slot_of_text(STR("P2026")), 626);
}

#define NOW 1767234896000

static void test_mint_layout(void **state)
{
    (void)state;
    struct env_test t;
    env_init_test(&t, NOW, 1);
    struct mint *m = mint_new(&t.env, 511);
    int64_t first = mint_ids(m, 1);
    assert_int_equal(number_ms(first), NOW);
    assert_int_equal(first, number_first_id(NOW) + (511 << 10));
    assert_int_equal(mint_ids(m, 3), first + 1);
    assert_int_equal(mint_ids(m, 1), first + 4);

    int64_t next = mint_ids(m, 1024); /* does not fit this millisecond any more: borrows the next */
    assert_int_equal(number_ms(next), NOW + 1);
    assert_int_equal(number_ms(next + 1023), NOW + 1);
    assert_int_equal(number_ms(mint_ids(m, 1)), NOW + 2);
    env_test_advance(&t, 5);
    assert_int_equal(mint_ids(m, 1), number_first_id(NOW + 5) + (511 << 10));
    mint_free(m);
}

static void test_mint_steps_back(void **state)
{
    (void)state;
    struct env_test t;
    env_init_test(&t, NOW, 1);
    struct mint *m = mint_new(&t.env, 3);
    int64_t last = mint_ids(m, 1);

    env_test_advance(&t, -1000); /* borrows, without waiting */
    assert_int_equal(mint_ids(m, 1), last + 1);
    assert_int_equal(env_now_ms(&t.env), NOW - 1000);

    env_test_advance(&t, -9000); /* ten seconds behind: waits until two are left */
    assert_int_equal(mint_ids(m, 1), last + 2);
    assert_int_equal(env_now_ms(&t.env), NOW - 2000);
    mint_free(m);
}

/* Faster than a millisecond's 1,024 for long: runs ahead two seconds and then goes with the clock.
 */
static void test_mint_ahead(void **state)
{
    (void)state;
    struct env_test t;
    env_init_test(&t, NOW, 1);
    struct mint *m = mint_new(&t.env, 3);
    int64_t last = 0;
    for (int i = 0; i < 3000; i++) {
        int64_t id = mint_ids(m, 1024);
        assert_true(id > last);
        assert_true(number_ms(id) - env_now_ms(&t.env) <= 2000);
        last = id;
    }
    assert_int_equal(env_now_ms(&t.env), NOW + 999);
    mint_free(m);
}

#define THREADS    4
#define PER_THREAD 20000

struct minter {
    struct mint *mint;
    uint64_t seed;
    int64_t ids[PER_THREAD];
};

static void *mint_many(void *arg)
{
    struct minter *w = arg;
    struct rand r;
    rand_seed(&r, w->seed);
    for (size_t n = 0; n < PER_THREAD;) {
        unsigned count = 1 + (unsigned)rand_below(&r, 4);
        if (count > PER_THREAD - n)
            count = (unsigned)(PER_THREAD - n);
        int64_t first = mint_ids(w->mint, count);
        for (unsigned i = 0; i < count; i++)
            w->ids[n++] = first + i;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_mint_threads(void **state)
{
    (void)state;
    struct env_test t;
    env_init_test(&t, NOW, 1);
    struct mint *m = mint_new(&t.env, 9);
    static struct minter w[THREADS];
    static int64_t all[THREADS * PER_THREAD];
    pthread_t thread[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        w[i].mint = m;
        w[i].seed = i;
        assert_int_equal(pthread_create(&thread[i], NULL, mint_many, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        memcpy(all + i * PER_THREAD, w[i].ids, sizeof(w[i].ids));
    }
    qsort(all, COUNT(all), sizeof(all[0]), by_value);
    for (size_t i = 1; i < COUNT(all); i++)
        assert_true(all[i] > all[i - 1]);
    mint_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_check_catches),
        cmocka_unit_test(test_date_must_agree),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_slot),
        cmocka_unit_test(test_mint_layout),
        cmocka_unit_test(test_mint_steps_back),
        cmocka_unit_test(test_mint_ahead),
        cmocka_unit_test(test_mint_threads),
    };
    return RUN_TESTS(tests);
}
