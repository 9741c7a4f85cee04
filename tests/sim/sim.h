/* sim.h -- the whole centre, its channel and everybody who uses it in one thread, played from one
 * seed.
 *
 * Tasks are fibres. Those inside are the centre's: requests being served, jobs, the bus; they die
 * with its process. Those outside are the world's: shoppers, merchants, the channel's senders, what
 * is on the wire; they live on. Every outside effect of either yields to the scheduler, which picks
 * by the seed what happens next: a task, a batch of the store, a step of the clock, the end of the
 * process. The same seed makes the same run; `trace` is a hash of all decisions and results.
 *
 * sim.c tasks, clock, scheduler · process.c the centre's process, its database, calls into it ·
 * channel.c wire, callbacks, webhook, faults · actors.c who does what · watch.c what must hold */
#ifndef FENPAY_SIM_H
#define FENPAY_SIM_H

#include "base/env.h"
#include "base/list.h"
#include "base/rand.h"
#include "bus/bus.h"
#include "core/centre.h"
#include "sandbox/sandbox.h"
#include "store/lease.h"

#define SIM_START_MS 1780000000000LL
#define SIM_ACCOUNTS 2
#define SIM_CALLER   1
#define SIM_NOTIFY   "http://fenpay.sim/notify"

#define SIM_PAUSE_MAX_MS 300000 /* of loops that find nothing to do */

struct sim;
struct sim_task;
typedef void sim_fn(struct sim *s, void *arg);

/* ---- what is made once and shared by all seeds ---- */

struct sim_base {
    struct arena *arena;
    struct account *account[SIM_ACCOUNTS];
    struct sandbox_wechat wechat[SIM_ACCOUNTS];
    char folder[64]; /* in memory where there is such a place */
    char empty_db[96];
};
void sim_base_open(struct sim_base *b);
void sim_base_close(struct sim_base *b);
void sim_remove_db(const char *path);
/* Trouble of the stage, not of the play. */
void sim_must(enum err e, const char *what, const struct err_info *info);

/* ---- one run ---- */

enum sim_commits {
    COMMITS_SURE,
    COMMITS_FAIL_STOP,   /* one that fails proves nothing, and the process ends: SQLite */
    COMMITS_LOSE_ANSWERS /* the rule is run again at once: a database server */
};

/* What a seed is like. */
struct sim_temper {
    int clock_percent;    /* how often the clock moves although somebody could run */
    int64_t clock_max_ms; /* and how far, as a rule */
    size_t batch_max;
    int pace_percent;   /* people: 100 spread over minutes, less: all at once */
    int accounts;       /* more than one: another takes over where one is broken */
    int faults_percent; /* of calls and callbacks; 0: a good day */
    bool typing;        /* what was closed is sometimes paid all the same */
    int wire_percent;   /* calls that take a while on their way */
    int64_t wire_max_ms;
    enum sim_commits commits;
    int commit_permille;
    int deaths;
    unsigned jobs; /* loops of each job: more than one as with two processes */
    int64_t
        bus_slow_ms;  /* the pace of the bus: what it has not told yet must be seen all the same */
    int64_t stuck_ms; /* query_stuck_ms */
    int64_t skew_max_ms; /* how far our clock stands from the channel's, either way, and steps */
    bool webhook;        /* a subscriber, */
    int hook_percent;    /* which fails so often */
};

struct sim_env {
    struct env env;
    struct sim *sim;
    struct rand rand;
};

struct sim_process;

struct sim {
    const struct sim_base *base;
    uint64_t seed, trace, steps;
    bool loud;
    struct arena *arena; /* everything lives as long as the run */
    struct rand rand;
    int64_t now_ms;  /* outside; never steps back */
    int64_t skew_ms; /* inside it is so much later */
    struct sim_env outside, inside;
    struct sim_temper temper;
    char db_path[128];

    struct list tasks;
    uint64_t tasks_made;
    struct sim_task *running;
    size_t actors; /* that have not ended */
    bool healed;   /* nothing goes wrong any more */

    struct sandbox *sandbox;
    struct transport wire, callbacks, hooks;
    struct sim_process *process; /* NULL: down */
    int deaths_left;
    uint64_t death_step;
    int64_t up_ms; /* down until then */
    bool in_batch;
    struct log *log;
    int log_fd;

    struct list acknowledged; /* struct sim_ack: callbacks that were told "ok" */
    struct list received;     /* struct sim_ack: events at the webhook */
    struct sim_watch *watch;

    bool failed;
    char why[512];
    struct number about; /* whose story explains it */
};

struct sim_result {
    bool failed;
    uint64_t trace, steps;
    int64_t virtual_ms;
    int64_t payments, succeeded, late, surplus, quarantined, deaths;
    char why[512];
};
/* Plays one seed to its end. `report`: prints what went wrong with the payment's story. */
void sim_run(const struct sim_base *base, uint64_t seed, bool report, struct sim_result *ret);

/* The first failure ends the run. */
void sim_fail(struct sim *s, struct number about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Into the trace. */
void sim_note(struct sim *s, const char *what, int64_t value);

static inline int64_t sim_below(struct sim *s, int64_t n)
{
    return (int64_t)rand_below(&s->rand, (uint64_t)n);
}
static inline bool sim_chance(struct sim *s, int percent)
{
    return sim_below(s, 100) < percent;
}

/* ---- tasks (sim.c) ---- */

enum sim_place { SIM_OUTSIDE, SIM_INSIDE };
struct sim_task *sim_spawn(struct sim *s, const char *name, enum sim_place place, sim_fn *fn,
                           void *arg);
/* From a task: until woken or until that moment, whichever is first. */
void sim_wait(struct sim *s, int64_t until_ms);
static inline void sim_sleep(struct sim *s, int64_t ms)
{
    sim_wait(s, s->now_ms + ms);
}
void sim_wake(struct sim_task *t);
void sim_kill_inside(struct sim *s);
/* One decision. */
void sim_step(struct sim *s);

/* ---- the process (process.c) ---- */

struct sim_process {
    struct sim *sim;
    struct centre centre;
    struct bus *bus;
    struct node_lease node;
    struct list calls; /* struct sim_call, in flight */
};
void sim_process_open(struct sim *s);
void sim_process_kill(struct sim *s);
/* Death, rebirth, and what a failed store asks for: before each decision. */
void sim_process_step(struct sim *s);
enum err sim_read(struct sim *s, store_rule *rule, void *arg);

/* A call from outside, served by a task inside. `arg` lives in the run's arena, because the server
 * may go on when the caller has given up. False: no answer. */
typedef void sim_serve(struct sim_process *p, void *arg);
bool sim_call(struct sim *s, const char *name, sim_serve *serve, void *arg, int64_t patience_ms);

struct sim_ack {
    struct list link;
    struct number subject;
};

/* ---- channel.c ---- */

/* The channel with this seed's faults, and what carries to and from it. */
void sim_wire_open(struct sim *s);

/* ---- actors.c ---- */

void sim_actors_start(struct sim *s);

/* ---- watch.c ---- */

void sim_watch_open(struct sim *s);
/* After each batch: what must hold at every moment. */
void sim_watch_batch(struct sim *s);
/* What is still due, at the centre or at the channel; NULL: nothing. */
const char *sim_unrest(struct sim *s);
/* At rest: what must have come true. */
void sim_watch_end(struct sim *s, struct sim_result *ret);
void sim_report(struct sim *s);

#endif
