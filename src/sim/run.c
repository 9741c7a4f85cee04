/* run.c -- one seed: what it is like, its beginning, its middle, its end. */
#include "sim/inner.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

#define ACTORS_MS         (20 * 60000LL) /* then nothing goes wrong any more */
#define REST_MS           (30 * 3600000LL)
#define REST_DEAD_MS      (150 * 3600000LL) /* each event is tried for a day, one after the other */
#define STEPS_MAX         200000
#define STEPS_PAYMENT_MAX 10000
#define LOOK_EVERY        64

/* One seed in so many signs with keys of full length. */
#define REAL_KEYS_EVERY 50

static void choose_troubles(struct sim *s, struct sim_temper *t)
{
    t->typing = sim_chance(s, 40);
    t->liars = sim_chance(s, 60);
    t->portal = !t->liars && sim_chance(s, 50) ? 20 : 0;
    t->skew_max_ms = sim_chance(s, 30) ? 4000 : 0;
    t->faults_percent = (int)sim_below(s, 40);
    t->wire_percent = sim_chance(s, 60) ? (int)sim_below(s, 60) : 0;
    t->wire_max_ms = sim_chance(s, 50) ? 2000 : 40000;
    t->dawdle = sim_chance(s, 30);
    t->outages = sim_chance(s, 30);
    t->attacker = sim_chance(s, 30);
    t->commits = (enum sim_commits)sim_below(s, 3);
    t->commit_permille = 1 + (int)sim_below(s, t->commits == COMMITS_FAIL_STOP ? 10 : 60);
    t->deaths = (int)sim_below(s, 5);
    t->power_percent = sim_chance(s, 40) ? 50 : 0;
    t->leaseless = sim_chance(s, 30);
    t->rule_permille = sim_chance(s, 25) ? 100 : 0;
    t->consumer_permille = sim_chance(s, 25) ? 100 : 0;
    t->hook_percent = (int)sim_below(s, 60);
    t->dead_hook = t->webhook && sim_chance(s, 15);
    t->operators = sim_chance(s, 50);
}

static void choose_temper(struct sim *s)
{
    static const int64_t jumps[] = { 5, 50, 500, 3000 };
    static const size_t batches[] = { 1, 2, 8, 64 };
    static const int paces[] = { 1, 5, 30, 100 };
    static const int64_t bus_paces[] = { 500, 500, 10000, 150000 };
    static const int64_t crowds[] = { 2, 5, 12, 30 };
    static const enum incident_policy policies[] = { POLICY_REFUND, POLICY_REFUND, POLICY_REVIVE,
                                                     POLICY_HOLD };
    struct sim_temper *t = &s->temper;

    t->nodes = 1 + sim_chance(s, 35);
    t->real_keys = s->seed % REAL_KEYS_EVERY == 0;
    t->clock_percent = (int)sim_below(s, 12);
    t->clock_max_ms = jumps[sim_below(s, 4)];
    t->batch_max = batches[sim_below(s, 4)];
    t->crowd = crowds[sim_below(s, 4)];
    t->job_workers = 1 + (unsigned)sim_below(s, 2);
    t->pace_percent = paces[sim_below(s, 4)];
    t->accounts = 1 + (int)sim_below(s, SIM_ACCOUNTS);
    t->bus_ms = bus_paces[sim_below(s, 4)];
    t->webhook = sim_chance(s, 40);
    t->reader = sim_chance(s, 30);
    t->invariants_job = sim_chance(s, 2);
    t->refunders = sim_chance(s, 70) ? 50 : 0;
    t->after_close = policies[sim_below(s, 4)];
    t->paid_twice = sim_chance(s, 70) ? POLICY_REFUND : POLICY_HOLD;
    t->auto_refunds = sim_chance(s, 30) ? 1 + sim_below(s, 3) : 0;
    t->second_person_fen = sim_chance(s, 40) ? 30000 : 0;
    t->stuck_ms = sim_chance(s, 50) ? 60000 : 30 * 60000;
    if (!sim_chance(s, 15)) /* else a good day */
        choose_troubles(s, t);
}

static void begin(struct sim *s, struct sim_stage *stage, uint64_t seed, int64_t payments,
                  bool loud)
{
    *s = (struct sim) { .stage = stage,
                        .seed = seed,
                        .trace = seed,
                        .now_ms = SIM_START_MS,
                        .loud = loud,
                        .payments_wanted = payments,
                        .steps_max = STEPS_MAX + STEPS_PAYMENT_MAX * (uint64_t)payments };
    s->arena = arena_new(1 << 20);
    rand_seed(&s->rand, seed);
    sim_tasks_open(s);
    sim_env_open(s, &s->outside, seed * 4 + 1);
    list_init(&s->acknowledged);
    list_init(&s->received);
    choose_temper(s);
    s->cast = sim_stage_cast(stage, s->temper.real_keys);
    s->log_fd = memfd_create("sim-log", MFD_CLOEXEC);
    s->log = log_new(s->log_fd, LOG_WARN, true);
    log_set_env(s->log, &s->outside.env);
    s->disk = store_disk_new(stage->empty);
    sim_channel_open(s);
    sim_watch_open(s);
    sim_nodes_open(s);
    sim_actors_start(s);
    sim_operators_start(s);
    sim_reader_start(s);
}

static void end(struct sim *s)
{
    sim_nodes_close(s);
    sim_tasks_close(s);
    sim_watch_close(s);
    sandbox_free(s->sandbox);
    store_disk_free(s->disk);
    log_free(s->log);
    close(s->log_fd);
    arena_free(s->arena);
}

static void heal(struct sim *s)
{
    s->healed = true;
    sandbox_clear_faults(s->sandbox);
    sandbox_refunds_go_on(s->sandbox);
    for (int i = 0; i < SIM_NODES; i++)
        s->nodes[i].up_ms = s->now_ms;
    sim_note(s, "healed", 0);
}

/* The story goes on until everybody has done what he came for; then all faults are healed, and the
 * clock moves until nothing is due. */
static void play(struct sim *s)
{
    while (!s->failed && s->actors && s->now_ms < SIM_START_MS + ACTORS_MS &&
           s->steps < s->steps_max) {
        sim_nodes_step(s);
        sim_step(s);
    }
    heal(s);
    int64_t until_ms = SIM_START_MS + (s->temper.dead_hook ? REST_DEAD_MS : REST_MS);
    while (!s->failed) {
        sim_nodes_step(s);
        sim_step(s);
        if (s->steps % LOOK_EVERY)
            continue;
        struct number about = { 0 };
        const char *unrest = sim_unrest(s, &about);
        if (!unrest)
            return;
        if (s->now_ms > until_ms || s->steps > 2 * s->steps_max)
            sim_fail(s, about, "it never comes to rest: %s", unrest);
    }
}

void sim_play(struct sim_stage *stage, uint64_t seed, int64_t payments, bool loud,
              struct sim_result *ret, struct buf *report)
{
    struct sim s;

    *ret = (struct sim_result) { .seed = seed };
    begin(&s, stage, seed, payments, loud);
    play(&s);
    if (!s.failed)
        sim_end(&s, ret);
    if (s.failed && report)
        sim_story(&s, report);
    ret->failed = s.failed;
    ret->trace = s.trace;
    ret->steps = (int64_t)s.steps;
    ret->virtual_ms = s.now_ms - SIM_START_MS;
    ret->payments = sim_payments_seen(&s);
    ret->faults = s.faults + sandbox_faults_happened(s.sandbox);
    ret->deaths = s.temper.deaths - s.deaths_left;
    ret->power_cuts = s.power_cuts;
    ret->resolved = s.resolved;
    ret->two_nodes = s.temper.nodes > 1;
    ret->long_keys = s.temper.real_keys;
    memcpy(ret->why, s.why, sizeof ret->why);
    end(&s);
}
