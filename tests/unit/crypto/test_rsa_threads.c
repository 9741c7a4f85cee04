/* Kept contexts across threads: more keys than a thread keeps, used round robin, and keys that die
 * while other threads still keep contexts of them. Worth most under ASan and TSan. */
#include "crypto/rsa.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"

#define KEYS    40
#define THREADS 4
#define ROUNDS  3

static struct rsa_key *keys[KEYS], *publics[KEYS];
static struct str signatures[KEYS];
static struct arena *arena;
static atomic_int wrong;

static void expect(bool ok)
{
    if (!ok)
        atomic_fetch_add(&wrong, 1); /* cmocka asserts only in its own thread */
}

static int setup(void **state)
{
    (void)state;
    rsa_allow_short_keys();
    arena = arena_new(65536);
    for (int i = 0; i < KEYS; i++) {
        if (rsa_generate(512, &keys[i], NULL) ||
            rsa_sign(keys[i], STR("message"), arena, &signatures[i], NULL))
            return -1;
        publics[i] = rsa_public_of(keys[i]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++) {
        rsa_unref(keys[i]);
        rsa_unref(publics[i]);
    }
    arena_free(arena);
    return 0;
}

static void run_threads(void *(*fn)(void *))
{
    pthread_t threads[THREADS];
    atomic_store(&wrong, 0);
    for (intptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, fn, (void *)t), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void *use_all_keys(void *arg)
{
    int shift = (int)(intptr_t)arg;
    ARENA_AUTO a = arena_new(4096);
    for (int n = 0; n < KEYS * ROUNDS; n++) {
        int i = (n + 10 * shift) % KEYS, neighbour = (i + 1) % KEYS;
        struct str s;
        expect(rsa_verify(publics[i], STR("message"), signatures[i]) == ERR_OK);
        expect(rsa_verify(publics[i], STR("message"), signatures[neighbour]) == ERR_DENIED);
        expect(rsa_verify(publics[i], STR("other"), signatures[i]) == ERR_DENIED);
        expect(rsa_verify(publics[i], STR("message"), signatures[i]) == ERR_OK);
        expect(rsa_sign(keys[i], STR("message"), a, &s, NULL) == ERR_OK &&
               str_eq(s, signatures[i]));
        arena_reset(a);
    }
    return NULL;
}

static void many_keys_round_robin(void **state)
{
    (void)state;
    run_threads(use_all_keys);
}

/* Every thread verifies with the shared key, the last reference goes, and another key (often at the
 * same address) takes its place: the contexts kept for the old one must neither be used for it nor
 * hurt. */
static pthread_barrier_t barrier;
static struct rsa_key *shared;

static void *outlive_keys(void *arg)
{
    bool leader = !arg;
    ARENA_AUTO a = arena_new(4096);
    for (int i = 0; i < 30; i++) {
        if (leader)
            expect(!rsa_private_from_pem(rsa_private_pem(a, keys[i]), &shared, NULL));
        pthread_barrier_wait(&barrier);
        expect(rsa_verify(shared, STR("message"), signatures[i]) == ERR_OK);
        expect(rsa_verify(shared, STR("message"), signatures[i + 1]) == ERR_DENIED);
        pthread_barrier_wait(&barrier);
        if (leader)
            rsa_unref(shared);
    }
    return NULL;
}

static void keys_die_while_contexts_are_kept(void **state)
{
    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    run_threads(outlive_keys);
    pthread_barrier_destroy(&barrier);
}

/* The last reference may go on any thread, also one that never used the key. */
static void *hold_and_let_go(void *arg)
{
    for (int n = 0; n < 200; n++) {
        struct rsa_key *key = rsa_ref(shared);
        if (n % 50 == (int)(intptr_t)arg)
            expect(rsa_verify(key, STR("message"), signatures[0]) == ERR_OK);
        rsa_unref(key);
    }
    return NULL;
}

static void references_from_many_threads(void **state)
{
    (void)state;
    shared = publics[0];
    run_threads(hold_and_let_go);
    assert_int_equal(rsa_verify(publics[0], STR("message"), signatures[0]), ERR_OK);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_keys_round_robin),
        cmocka_unit_test(keys_die_while_contexts_are_kept),
        cmocka_unit_test(references_from_many_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
