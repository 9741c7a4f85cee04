/* Fibres: who runs when, what survives a switch, what is dropped, and the guard below the stack. */
#include "../check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fibre.h"

struct trace {
    char text[64];
    size_t n;
};

struct walker {
    struct trace *trace;
    char name;
    int steps;
};

static void walk(void *arg)
{
    struct walker *w = arg;
    assert_non_null(fibre_current());
    for (int i = 0; i < w->steps; i++) {
        w->trace->text[w->trace->n++] = w->name;
        fibre_yield();
    }
    w->trace->text[w->trace->n++] = (char)(w->name - 'a' + 'A');
}

static void test_interleaving(void **state)
{
    (void)state;
    struct trace trace = { "" };
    struct walker wa = { &trace, 'a', 2 }, wb = { &trace, 'b', 1 };
    struct fibre *a = fibre_new(walk, &wa, 64 << 10), *b = fibre_new(walk, &wb, 64 << 10);
    assert_null(fibre_current());
    assert_true(fibre_resume(a));
    assert_true(fibre_resume(b));
    assert_true(fibre_resume(a));
    assert_false(fibre_resume(b));
    assert_false(fibre_resume(a));
    assert_false(fibre_resume(a)); /* stays ended */
    assert_null(fibre_current());
    assert_string_equal(trace.text, "abaBA");
    fibre_free(a);
    fibre_free(b);
    fibre_free(NULL);
}

/* Locals and a deep stack live through many switches; a scheduler takes whichever comes. */
static void sum_slowly(void *arg)
{
    int64_t *ret = arg;
    volatile char filler[4096];
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof(filler); i++)
        filler[i] = (char)(i % 100);
    for (int i = 0; i < 20; i++) {
        fibre_yield();
        for (size_t j = 0; j < sizeof(filler); j++)
            sum += filler[j];
    }
    *ret = sum;
}

static void test_many(void **state)
{
    (void)state;
    static struct fibre *f[500];
    static int64_t sums[COUNT(f)];
    for (size_t i = 0; i < COUNT(f); i++)
        f[i] = fibre_new(sum_slowly, &sums[i], 64 << 10);
    bool any = true;
    while (any) {
        any = false;
        for (size_t i = COUNT(f); i-- > 0;)
            any |= fibre_resume(f[i]);
    }
    int64_t expected = 0;
    for (size_t i = 0; i < 4096; i++)
        expected += (int64_t)(i % 100);
    for (size_t i = 0; i < COUNT(f); i++) {
        assert_int_equal(sums[i], expected * 20);
        fibre_free(f[i]);
    }
}

/* Dropped in the middle, as a process that died; the next fibre may get the same memory. */
static void test_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct trace trace = { "" };
        struct walker w = { &trace, 'x', 10 };
        struct fibre *f = fibre_new(walk, &w, 64 << 10);
        if (i % 3)
            assert_true(fibre_resume(f));
        if (i % 3 == 2)
            assert_true(fibre_resume(f));
        fibre_free(f);
        assert_int_equal(trace.n, i % 3);
    }
}

/* The address handed down keeps the compiler from making a loop of it. */
static int dive(int depth, volatile char *above)
{
    volatile char page[4096];
    page[0] = above ? above[0] : 1;
    return depth ? dive(depth - 1, page) + page[0] : 0;
}

static void too_deep(void *arg)
{
    *(int *)arg = dive(1000, NULL);
}

static void test_guard_page(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int result;
        signal(SIGSEGV, SIG_DFL);
        close(STDERR_FILENO);
        fibre_resume(fibre_new(too_deep, &result, 64 << 10));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) &&
                 WEXITSTATUS(status) == 0); /* a signal, or a sanitizer's report */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleaving),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_guard_page),
    };
    return RUN_TESTS(tests);
}
