/* test_sim.c -- the centre simulated: seeds that must hold, the same seeds that must make the same
 * run wherever things lie in memory, and planted bugs that must be found.
 *
 * argv[1] is the fenpay of this build. */
#include "../unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/killpoint.h"
#include "sim/sim.h"

#define SEEDS_TO    200
#define FIND_WITHIN 1000

static const char *fenpay;
static uint64_t seeds_trace; /* of the seeds above, once played */

static void print_story(void *ctx, const struct sim_result *r, struct str story)
{
    (void)ctx;
    if (r->failed)
        printf("# " STR_FMT "#   fenpay sim --seed %llu\n", STR_ARG(story),
               (unsigned long long)r->seed);
}

static struct sim_sum play(uint64_t from, uint64_t to, int64_t payments)
{
    struct sim_seeds seeds = {
        .from = from, .to = to, .payments = payments, .played = print_story
    };
    struct sim_sum sum;
    struct err_info info = { 0 };
    assert_int_equal(sim_play_seeds(&seeds, &sum, &info), ERR_OK);
    return sum;
}

static void seeds_hold(void **state)
{
    struct sim_sum sum = play(1, SEEDS_TO, SIM_PAYMENTS);
    const struct sim_result *all = &sum.all;
    (void)state;
    printf("# ran %lld simulated payments of %llu seeds, %lld faults, %lld payments/s\n",
           (long long)all->payments, (unsigned long long)sum.seeds, (long long)all->faults,
           (long long)(all->payments * 1000000 / sum.took_us));
    assert_int_equal(sum.violations, 0);
    assert_int_equal(sum.seeds, SEEDS_TO);
    assert_true(all->payments >= SEEDS_TO * SIM_PAYMENTS * 9 / 10 && all->faults > all->payments);
    /* A simulation in which nothing of this happens any more finds nothing. */
    assert_true(all->succeeded && all->late && all->surplus && all->quarantined && all->resolved);
    assert_true(all->refunded && all->refunds > all->refunded);
    assert_true(all->deaths && all->power_cuts && all->two_nodes && all->long_keys);
    seeds_trace = sum.trace;
}

/* What `fenpay sim --seeds 1..200` prints as its trace, in a process whose addresses are not chosen
 * by chance. */
static uint64_t trace_at_fixed_addresses(void)
{
    char range[32], text[65536];
    size_t n = 0;
    ssize_t got;
    int ends[2], status;
    unsigned long long trace;

    snprintf(range, sizeof range, "1..%d", SEEDS_TO);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (personality(ADDR_NO_RANDOMIZE) < 0 || dup2(ends[1], STDOUT_FILENO) < 0)
            _exit(99);
        execl(fenpay, fenpay, "sim", "--json", "--seeds", range, (char *)NULL);
        _exit(98);
    }
    close(ends[1]);
    while (n < sizeof text - 1 && (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const char *at = strstr(text, "\"trace\":\"");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"trace\":\"%llx\"", &trace), 1);
    return trace;
}

static void the_same_seeds_are_the_same_run(void **state)
{
    (void)state;
    assert_true(seeds_trace != 0);
    assert_true(trace_at_fixed_addresses() == seeds_trace);
}

struct trace_of {
    uint64_t seed, trace;
};

static void keep_trace(void *ctx, const struct sim_result *r, struct str story)
{
    struct trace_of *t = ctx;
    (void)story;
    if (r->seed == t->seed)
        t->trace = r->trace;
}

/* Nothing that an earlier seed left in the process is seen by a later one. */
static void a_seed_alone_is_the_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 7; seed < 30; seed += 5) {
        struct trace_of among = { .seed = seed }, alone = among;
        struct sim_seeds seeds = { .from = seed - 6,
                                   .to = seed,
                                   .payments = 10,
                                   .workers = 1,
                                   .played = keep_trace,
                                   .ctx = &among };
        struct sim_sum sum;
        assert_int_equal(sim_play_seeds(&seeds, &sum, NULL), ERR_OK);
        seeds.from = seed;
        seeds.ctx = &alone;
        assert_int_equal(sim_play_seeds(&seeds, &sum, NULL), ERR_OK);
        assert_true(among.trace != 0 && among.trace == alone.trace);
    }
}

/* ---- planted bugs ---- */

static void keep_why(void *ctx, const struct sim_result *r, struct str story)
{
    struct sim_result *found = ctx;
    (void)story;
    if (r->failed && !found->failed)
        *found = *r;
}

/* Each of these is a bug that somebody could write, and a check that somebody could delete. */
static void planted_bugs_are_found(void **state)
{
    (void)state;
    for (int m = MUTATION_NONE + 1; m < MUTATIONS; m++) {
        struct sim_result found = { .failed = false };
        struct sim_seeds seeds = { .from = 1,
                                   .to = FIND_WITHIN,
                                   .payments = SIM_PAYMENTS,
                                   .stop_at_first = true,
                                   .played = keep_why,
                                   .ctx = &found };
        struct sim_sum sum;
        mutation_set((enum mutation)m);
        assert_int_equal(sim_play_seeds(&seeds, &sum, NULL), ERR_OK);
        mutation_set(MUTATION_NONE);
        printf("# %s: %llu seeds, seed %llu: %s\n", mutation_name((enum mutation)m),
               (unsigned long long)sum.seeds, (unsigned long long)found.seed, found.why);
        check_row(found.failed, mutation_name((enum mutation)m));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_hold),
        cmocka_unit_test(the_same_seeds_are_the_same_run),
        cmocka_unit_test(a_seed_alone_is_the_same_run),
        cmocka_unit_test(planted_bugs_are_found),
    };
    assert_int_equal(argc, 2);
    fenpay = argv[1];
    return RUN_TESTS(tests);
}
