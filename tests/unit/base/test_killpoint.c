/* Kill points in children that die of them. */
#include "../check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/killpoint.h"

#ifdef FENPAY_TEST_HOOKS

/* Passes "a" and "b" `passes` times each in a child; the signal it died of, or minus its exit code.
 */
static int child(const char *kill_at, const char *mutation, int passes)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("FENPAY_KILL_AT", kill_at, 1);
        setenv("FENPAY_MUTATION", mutation, 1);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        for (int i = 0; i < passes; i++) {
            kill_point("a");
            kill_point("b");
        }
        _exit(mutation_on(MUTATION_SYNC_OFF) ? 7 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void test_environment(void **state)
{
    (void)state;
    static const struct {
        const char *kill_at, *mutation;
        int passes, result;
    } rows[] = {
        { "", "", 3, 0 },
        { "a", "", 1, SIGKILL },
        { "b", "", 1, SIGKILL },
        { "c", "", 3, 0 },
        { "b:3", "", 2, 0 },
        { "b:3", "", 3, SIGKILL },
        { "", "sync_off", 1, -7 },
        { "", "none", 1, 0 },
        { "a:x", "", 1, SIGABRT },
        { "a:0", "", 1, SIGABRT },
        { "", "no_such", 1, SIGABRT },
        { "", "answer_before_commit", 1, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int result = child(rows[i].kill_at, rows[i].mutation, rows[i].passes);
        check_row(result == rows[i].result, rows[i].kill_at);
    }
}

/* Whoever writes to the file moves the clock of a process that runs. */
static void test_clock(void **state)
{
    (void)state;
    const int64_t hour = 3600000;
    char path[] = "/tmp/fenpay-clock-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && pwrite(fd, &(int64_t) { 0 }, 8, 0) == 8);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct env env;
        env_init_real(&env, NULL, NULL);
        setenv("FENPAY_CLOCK", path, 1);
        int64_t before = env_now_ms(&env);
        if (pwrite(fd, &hour, 8, 0) != 8)
            _exit(1);
        int64_t moved = env_now_ms(&env) - before;
        _exit(moved >= hour && moved < hour + 60000 ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd);
    unlink(path);
}

static void test_set(void **state)
{
    (void)state;
    assert_false(mutation_on(MUTATION_NONE));
    assert_false(mutation_on(MUTATION_ANSWER_BEFORE_COMMIT));
    mutation_set(MUTATION_ANSWER_BEFORE_COMMIT);
    assert_true(mutation_on(MUTATION_ANSWER_BEFORE_COMMIT));
    assert_false(mutation_on(MUTATION_SYNC_OFF));
    assert_false(mutation_on(MUTATION_NONE));
    mutation_set(MUTATION_NONE);
    assert_false(mutation_on(MUTATION_ANSWER_BEFORE_COMMIT));
}

#else

static void test_environment(void **state)
{
    (void)state;
    setenv("FENPAY_KILL_AT", "a", 1);
    kill_point("a");
}

static void test_set(void **state)
{
    (void)state;
    setenv("FENPAY_MUTATION", "sync_off", 1);
    assert_false(mutation_on(MUTATION_SYNC_OFF));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_clock), /* before this process has read its environment */
        cmocka_unit_test(test_set),
    };
    return RUN_TESTS(tests);
}
