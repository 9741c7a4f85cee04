/* Both worlds: the real clocks run, the test's stand. Lists, being header only, are looked at here
 * as well. */
#include "../check.h"

#include "base/env.h"
#include "base/list.h"

static void test_real(void **state)
{
    (void)state;
    struct env env;
    env_init_real(&env, NULL, NULL);
    assert_true(env_now_ms(&env) > 1735689600000); /* 2025 */
    int64_t before = env_mono_us(&env);
    env_sleep_ms(&env, 2);
    env_sleep_ms(&env, 0);
    env_sleep_ms(&env, -5);
    assert_true(env_mono_us(&env) - before >= 2000);

    unsigned char a[33] = { 0 }, b[33] = { 0 };
    env_random(&env, a, 32);
    env_random(&env, b, 32);
    assert_memory_not_equal(a, b, 32);
    assert_int_equal(a[32], 0);
    env_effect(&env, EFFECT_STORE);
}

static void test_test(void **state)
{
    (void)state;
    struct env_test t, same;
    env_init_test(&t, 1000, 7);
    env_init_test(&same, 1000, 7);
    struct env *env = &t.env;
    assert_int_equal(env_now_ms(env), 1000);
    env_sleep_ms(env, 250);
    env_test_advance(&t, 50);
    assert_int_equal(env_now_ms(env), 1300);
    assert_int_equal(env_mono_us(env), 300000);
    env_test_advance(&t, -1000);
    assert_int_equal(env_now_ms(env), 300);
    assert_int_equal(env_mono_us(env), 300000);

    char a[13], b[13];
    env_random(&t.env, a, sizeof(a));
    env_random(&same.env, b, sizeof(b));
    assert_memory_equal(a, b, sizeof(a));
    env_random(&t.env, b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
}

struct item {
    int number;
    struct list node;
};

static void test_list(void **state)
{
    (void)state;
    struct list l;
    struct item items[4];
    list_init(&l);
    assert_true(list_empty(&l));
    assert_null(list_take_first(&l));
    for (int i = 0; i < 4; i++) {
        items[i].number = i;
        list_append(&l, &items[i].node);
    }
    list_remove(&items[1].node);
    list_remove(&items[1].node);
    int sum = 0;
    list_each (node, &l)
        sum = sum * 10 + container_of(node, struct item, node)->number;
    assert_int_equal(sum, 23); /* 0, 2, 3 */
    list_each_safe (node, &l)
        if (container_of(node, struct item, node)->number == 2)
            list_remove(node);
    assert_int_equal(container_of(list_take_first(&l), struct item, node)->number, 0);
    assert_int_equal(container_of(list_take_first(&l), struct item, node)->number, 3);
    assert_true(list_empty(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_test),
        cmocka_unit_test(test_list),
    };
    return RUN_TESTS(tests);
}
