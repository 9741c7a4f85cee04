/* test_interleave.c -- the centre simulated: seeds that must hold, seeds that must repeat, and
 * planted bugs that must be found.
 *
 * Each seed is played in a process of its own, so that a failed assertion is a failed seed and what
 * a dropped process held is let go. FENPAY_SIM_SEEDS=A..B plays others, FENPAY_SIM_TRACE=1 tells
 * every decision. */
#include "../unit/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/killpoint.h"
#include "sim.h"

#define SEEDS_FROM  1
#define SEEDS_TO    60
#define FIND_WITHIN 500

static struct sim_base base;

static struct sim_result play_apart(uint64_t seed, enum mutation mutation, bool report)
{
    struct sim_result r = { .failed = true, .why = "the process ended" };
    int pipe_fd[2], status;

    assert_int_equal(pipe(pipe_fd), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mutation_set(mutation);
        sim_run(&base, seed, report, &r);
        fflush(stdout);
        _exit(write(pipe_fd[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    close(pipe_fd[1]);
    ssize_t n = read(pipe_fd[0], &r, sizeof r);
    close(pipe_fd[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (n != (ssize_t)sizeof r || status != 0) {
        r = (struct sim_result) { .failed = true };
        snprintf(r.why, sizeof r.why, "the process ended with status %x", (unsigned)status);
        if (report)
            printf("# seed %llu: %s\n", (unsigned long long)seed, r.why);
    }
    return r;
}

static void wanted_seeds(uint64_t *from, uint64_t *to)
{
    unsigned long long a = SEEDS_FROM, b = SEEDS_TO;
    const char *text = getenv("FENPAY_SIM_SEEDS");
    if (text && *text) {
        int n = sscanf(text, "%llu..%llu", &a, &b);
        assert_in_range(n, 1, 2);
        if (n == 1)
            b = a;
    }
    *from = a;
    *to = b;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_seeds(void **state)
{
    struct sim_result sum = { 0 };
    uint64_t from, to, failed = 0;
    double start = seconds();
    (void)state;

    wanted_seeds(&from, &to);
    for (uint64_t seed = from; seed <= to; seed++) {
        struct sim_result r = play_apart(seed, MUTATION_NONE, true);
        failed += r.failed;
        sum.steps += r.steps;
        sum.payments += r.payments;
        sum.succeeded += r.succeeded;
        sum.late += r.late;
        sum.surplus += r.surplus;
        sum.quarantined += r.quarantined;
        sum.deaths += r.deaths;
        sum.virtual_ms += r.virtual_ms;
    }
    double took = seconds() - start;
    printf("# seeds %llu..%llu: %llu failed; %.1f seeds/s, %llu steps, %lld payments (%lld "
           "succeeded, %lld late, %lld surplus, %lld held), %lld deaths, %lld hours\n",
           (unsigned long long)from, (unsigned long long)to, (unsigned long long)failed,
           (double)(to - from + 1) / took, (unsigned long long)sum.steps, (long long)sum.payments,
           (long long)sum.succeeded, (long long)sum.late, (long long)sum.surplus,
           (long long)sum.quarantined, (long long)sum.deaths,
           (long long)(sum.virtual_ms / 3600000));
    assert_int_equal(failed, 0);
    assert_true(to - from < 20 ||
                (sum.succeeded && sum.late && sum.surplus && sum.quarantined && sum.deaths));
}

static void test_same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sim_result a = play_apart(seed, MUTATION_NONE, false),
                          b = play_apart(seed, MUTATION_NONE, false);
        assert_int_equal(a.steps, b.steps);
        assert_true(a.trace == b.trace);
    }
    assert_true(play_apart(1, MUTATION_NONE, false).trace !=
                play_apart(2, MUTATION_NONE, false).trace);
}

/* Each of these is a bug that somebody could write, and a check that somebody could delete. */
static void test_planted_bugs_are_found(void **state)
{
    static const struct {
        enum mutation mutation;
        const char *name;
    } planted[] = {
        { MUTATION_ANSWER_BEFORE_COMMIT, "answer before commit" },
        { MUTATION_CANCEL_UNSETTLED, "cancel unsettled" },
        { MUTATION_NOT_EXIST_AT_ONCE, "not exist at once" },
        { MUTATION_UNKNOWN_FORGOTTEN, "unknown forgotten" },
        { MUTATION_CLOSE_UNHEARD, "close unheard" },
        { MUTATION_SURPLUS_UNTOLD, "surplus untold" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(planted); i++) {
        struct sim_result r = { 0 };
        uint64_t seed = 0;
        while (!r.failed && seed < FIND_WITHIN)
            r = play_apart(++seed, planted[i].mutation, false);
        printf("# %s: seed %llu: %s\n", planted[i].name, (unsigned long long)seed, r.why);
        check_row(r.failed, planted[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_same_seed_same_run),
        cmocka_unit_test(test_planted_bugs_are_found),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    sim_base_open(&base);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_base_close(&base);
    return failed;
}
