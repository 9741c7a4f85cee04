/* sim.h -- the whole centre, its channel and everybody who uses it in one thread, played from one
 * seed: users, merchants, networks, crashes and clocks in any order, and the books of the channel
 * as the truth about money.
 *
 * The same seed makes the same run, bit for bit; `trace` is a hash of everything that was decided,
 * sent and answered in it. Processor time is what limits a run: seeds are played by several
 * processes, each for itself. */
#ifndef FENPAY_SIM_H
#define FENPAY_SIM_H

#include "base/buf.h"
#include "base/err.h"

#define SIM_PAYMENTS 40 /* of one seed, unless somebody says otherwise */

struct sim_result {
    uint64_t seed, trace;
    bool failed;
    char why[512];
    int64_t payments, faults; /* attempts to pay; what went wrong on purpose */
    int64_t succeeded, late, surplus, quarantined, resolved; /* incidents, by operators */
    int64_t refunds, refunded;                               /* of them, those that arrived */
    int64_t deaths, power_cuts, two_nodes, long_keys;
    int64_t steps, virtual_ms;
};

/* ---- one seed, in this process ---- */

struct sim_stage; /* what all seeds share: keys, the channel's accounts, an empty database */

void sim_stage_open(struct sim_stage **ret);
void sim_stage_close(struct sim_stage *stage);
/* Plays one seed to its end. What fails is told in ret->why, and as a story in `report` (NULL: not
 * wanted). `loud`: every decision on standard output. */
void sim_play(struct sim_stage *stage, uint64_t seed, int64_t payments, bool loud,
              struct sim_result *ret, struct buf *report);

/* ---- many, by several processes ---- */

struct sim_seeds {
    uint64_t from, to; /* both included */
    int64_t payments;
    unsigned workers; /* 0: one a processor */
    bool stop_at_first;
    /* A seed was played, in no particular order; its story when it failed. */
    void (*played)(void *ctx, const struct sim_result *result, struct str story);
    void *ctx;
};
struct sim_sum {
    uint64_t seeds, violations, trace; /* the trace does not depend on the order of playing */
    struct sim_result all;             /* everything added up */
    int64_t took_us;
};
/* A process that ends within a seed is that seed's violation. */
enum err sim_play_seeds(const struct sim_seeds *seeds, struct sim_sum *ret, struct err_info *info);

#endif
