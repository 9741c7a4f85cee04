/* inner.h -- the simulation as its own files see it.
 *
 * Tasks are fibres. Those inside are a node's: requests being served, jobs, the bus; they die with
 * its process. Those outside are the world's: shoppers, merchants, the channel's senders, what is
 * on the wire; they live on. Every outside effect of either yields to the scheduler, which picks by
 * the seed what happens next: a task, a batch of a store, a step of the clock, the end of a
 * process.
 *
 * tasks.c fibres, clock, scheduler · run.c one seed · stage.c what seeds share · node.c a centre's
 * process, calls into it · jobs.c what runs in it · channel.c wire, callbacks, webhooks, faults ·
 * actors.c, refunds.c, operators.c, reader.c who does what · watch.c what must hold at every moment
 * · end.c what must have come true · story.c how a failure is told · seeds.c many processes */
#ifndef FENPAY_SIM_INNER_H
#define FENPAY_SIM_INNER_H

#include "base/env.h"
#include "base/list.h"
#include "base/rand.h"
#include "core/centre.h"
#include "sandbox/sandbox.h"
#include "sim/sim.h"

#define SIM_START_MS 1780000000000LL
#define SIM_ACCOUNTS 2
#define SIM_NODES    2
#define SIM_CALLER   1
#define SIM_NOTIFY   "http://fenpay.sim/notify"

#define SIM_PAUSE_MAX_MS 300000 /* of loops that find nothing to do */

struct sim;
struct sim_task;
typedef void sim_fn(struct sim *s, void *arg);

/* Trouble of the stage, not of the play. */
void sim_must(enum err e, const char *what, const struct err_info *info);

/* ---- stage.c ---- */

/* The channel's accounts under one size of keys. */
struct sim_cast {
    struct account *account[SIM_ACCOUNTS];
    struct sandbox_wechat wechat[SIM_ACCOUNTS];
};
struct sim_stage {
    struct arena *arena;
    struct sim_cast quick, real; /* 512 bits: signing costs nothing; 2048 bits, made when wanted */
    struct store_disk *empty;    /* a database that is ready */
};
const struct sim_cast *sim_stage_cast(struct sim_stage *stage, bool real);
extern const struct str sim_master_key;
/* Both webhooks stand in the empty database, switched off. */
#define SIM_HOOK      1
#define SIM_HOOK_DEAD 2

/* ---- one run ---- */

enum sim_commits {
    COMMITS_SURE,
    COMMITS_FAIL_STOP,   /* one that fails proves nothing, and the process ends: SQLite */
    COMMITS_LOSE_ANSWERS /* the rule is run again at once: a database server */
};

/* What a seed is like. */
struct sim_temper {
    int nodes;
    bool real_keys;
    int clock_percent;    /* how often the clock moves although somebody could run */
    int64_t clock_max_ms; /* and how far, as a rule */
    size_t batch_max;
    int64_t crowd;      /* orders at a time */
    int pace_percent;   /* people: 100 spread over minutes, less: all at once */
    int accounts;       /* more than one: another takes over where one is broken */
    int faults_percent; /* of calls and callbacks; 0: a good day */
    bool liars;         /* callbacks that say what is not so, under a right signature */
    bool typing;        /* what was closed is sometimes paid all the same */
    int wire_percent;   /* calls that take a while on their way */
    int64_t wire_max_ms;
    bool dawdle;   /* refunds that arrive after a query has said that it does not know them */
    bool outages;  /* an account, or the whole channel, is away for minutes */
    bool attacker; /* forges callbacks and sends old ones again */
    enum sim_commits commits;
    int commit_permille;
    int deaths, power_percent; /* how many of them take everything that was not synced along */
    unsigned job_workers;
    bool invariants_job; /* what it counts is checked at rest; it costs as much as all the rest */
    bool leaseless;      /* the jobs' work also without their leases: nothing may hang on them */
    int64_t bus_ms; /* the pace of the bus: what it has not told yet must be seen all the same */
    int rule_permille, consumer_permille; /* rules of callbacks, effects of consumers that fail */
    int64_t stuck_ms;                     /* query_stuck_ms */
    enum incident_policy after_close, paid_twice; /* what becomes of money that no order wants */
    int64_t auto_refunds;                         /* of an account and hour; 0: no brake */
    int64_t second_person_fen;
    int64_t skew_max_ms;     /* how far a node's clock stands from the channel's, and steps */
    bool webhook, dead_hook; /* a subscriber; another one that never answers */
    int hook_percent;        /* how often the first fails */
    bool operators, reader;  /* of the feed */
    int refunders, portal;   /* percent of the orders: money goes back, by us or behind our back */
};

struct sim_env {
    struct env env;
    struct sim *sim;
    struct rand rand;
    int64_t skew_ms; /* so much later than the world's clock */
};

struct sim_process;

/* One of the machines that a centre runs on. */
struct sim_node {
    struct sim *sim;
    int index;
    struct sim_env env;
    struct store_staging staging;
    struct sim_process *process; /* NULL: down */
    uint64_t death_step;
    int64_t up_ms;      /* down until then */
    struct list parked; /* tasks that wait for its store's next batch */
};

struct sim {
    struct sim_stage *stage;
    const struct sim_cast *cast;
    uint64_t seed, trace, steps, steps_max;
    int64_t payments_wanted;
    bool loud;
    struct arena *arena; /* everything lives as long as the run */
    struct rand rand;
    int64_t now_ms; /* outside; never steps back */
    struct sim_env outside;
    struct sim_temper temper;

    struct list tasks;
    uint64_t tasks_made;
    struct sim_task *running;
    struct sim_tasks *order;  /* who can run, who waits until when */
    size_t actors, operators; /* that have not ended */
    bool healed;              /* nothing goes wrong any more */
    int64_t faults;           /* that happened, but for the channel's own */

    struct sandbox *sandbox;
    struct sim_channel *channel;
    struct transport wire, callbacks, hooks;

    struct store_disk *disk;
    struct sim_node nodes[SIM_NODES];
    int deaths_left, power_cuts;
    int64_t resolved; /* incidents, by operators */
    bool in_batch;
    struct log *log;
    int log_fd;

    struct list acknowledged; /* struct sim_ack: callbacks that were told "ok" */
    struct list received;     /* struct sim_ack: events at the webhook */
    int64_t fed, fed_seq;     /* events read from the feed so far, and the last one's number */
    struct sim_watch *watch;

    bool failed;
    char why[512];
    struct number about; /* whose story explains it */
};

/* The first failure ends the run. */
void sim_fail(struct sim *s, struct number about, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Into the trace. */
void sim_note(struct sim *s, const char *what, int64_t value);
void sim_note_text(struct sim *s, const char *what, struct str text);

static inline int64_t sim_below(struct sim *s, int64_t n)
{
    return (int64_t)rand_below(&s->rand, (uint64_t)n);
}
static inline bool sim_chance(struct sim *s, int percent)
{
    return sim_below(s, 100) < percent;
}
/* Something goes wrong on purpose, so often in a thousand. */
static inline bool sim_mishap(struct sim *s, int permille)
{
    bool yes = !s->healed && permille && sim_below(s, 1000) < permille;
    s->faults += yes;
    return yes;
}

/* ---- tasks.c ---- */

/* `node` NULL: of the world outside. */
struct sim_task *sim_spawn(struct sim *s, const char *name, struct sim_node *node, sim_fn *fn,
                           void *arg);
/* From a task: until woken or until that moment, whichever is first. */
void sim_wait(struct sim *s, int64_t until_ms);
static inline void sim_sleep(struct sim *s, int64_t ms)
{
    sim_wait(s, s->now_ms + ms);
}
void sim_wake(struct sim_task *t);
void sim_kill_tasks(struct sim *s, const struct sim_node *node); /* NULL: everybody's */
/* One decision. */
void sim_step(struct sim *s);
void sim_tasks_open(struct sim *s);
void sim_tasks_close(struct sim *s);
void sim_env_open(struct sim *s, struct sim_env *e, uint64_t seed);

/* ---- node.c, jobs.c ---- */

struct sim_process {
    struct sim *sim;
    struct sim_node *node;
    struct centre centre;
    struct bus *bus;
    struct job_context *jobs;
    struct scheduler *scheduler;
    struct list calls; /* struct sim_call, in flight */
};
void sim_nodes_open(struct sim *s);
void sim_nodes_close(struct sim *s);
/* Deaths, births, and what a failed store asks for: before each decision. */
void sim_nodes_step(struct sim *s);
void sim_jobs_start(struct sim_process *p);
/* A rule in a store of this stage's own making. */
void sim_run_rule(struct store *store, struct env *env, store_rule *rule, void *arg);

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
void sim_channel_open(struct sim *s);

/* ---- actors.c, operators.c, reader.c ---- */

void sim_actors_start(struct sim *s);
void sim_operators_start(struct sim *s);
void sim_reader_start(struct sim *s);
/* A failure of ours, unless the store could not say whether it wrote. */
void sim_expect_sane(struct sim_process *p, enum code code, const char *what, struct number no);

/* ---- watch.c ---- */

void sim_watch_open(struct sim *s);
void sim_watch_close(struct sim *s);
void sim_watch_row(void *sim, const char *table, int64_t id); /* was written */
/* After each batch: what must hold at every moment. */
void sim_watch_batch(struct sim *s);
void sim_watch_all(struct sim *s);
/* The database as it is now, without any process of the centre. */
struct store *sim_watch_store(struct sim *s);
enum err sim_read(struct sim *s, store_rule *rule, void *arg);
int64_t sim_count(struct sim *s, const struct sql *sql); /* the first column of the first row */
/* The number of a row that was seen, with its slot. */
struct number sim_number(const struct sim *s, enum number_kind kind, int64_t id);
int64_t sim_payments_seen(const struct sim *s);
/* An order or payment that there is, by chance; none: id 0. */
struct number sim_any(struct sim *s, enum number_kind kind);

/* What is known of a row. */
struct sim_seen {
    int64_t id;
    enum number_kind kind;
    uint16_t slot;
    int status, settled;
    int64_t ended_ms; /* first seen FAILED or CLOSED; 0: never */
};
const struct sim_seen *sim_seen_at(const struct sim *s, size_t i); /* NULL: past the end */

/* ---- end.c, story.c ---- */

/* What is still due, at the centre or at the channel; NULL: nothing. */
const char *sim_unrest(struct sim *s, struct number *ret_about);
/* At rest: what must have come true. */
void sim_end(struct sim *s, struct sim_result *ret);
void sim_story(struct sim *s, struct buf *out);
struct str sim_log_text(struct sim *s); /* what the processes have logged so far */

#endif
