/* node.c -- a machine and the centre's process on it, which can be dropped whole and made again
 * from the database: what it is made of, its death, COMMITs whose answer does not come, and calls
 * into it. */
#include "sim/inner.h"

#include "consumer/consumer.h"
#include "job/job.h"

#define DEATH_WITHIN 3000 /* steps */
#define DOWN_MAX_MS  30000
#define WAL_BYTES    (1 << 20) /* small, so that it starts again from the front within a seed */
#define CACHE_BYTES  (1 << 20)

/* ---- COMMITs ---- */

static enum commit_fate commit(void *ctx)
{
    struct sim *s = ((struct sim_node *)ctx)->sim;
    if (!s->in_batch || s->temper.commits == COMMITS_SURE ||
        !sim_mishap(s, s->temper.commit_permille))
        return COMMIT_ANSWERED;
    bool happened = sim_chance(s, 50);
    sim_note(s, "commit lost", happened);
    return happened ? COMMIT_UNHEARD : COMMIT_LOST;
}

static void on_row(void *ctx, const char *table, int64_t id)
{
    sim_watch_row(((struct sim_node *)ctx)->sim, table, id);
}

/* ---- birth ---- */

static struct store *open_store(struct sim_node *node)
{
    struct err_info info = { 0 };
    struct store *store;
    struct store_options o = { .url = STR("sqlite:db"),
                               .env = &node->env.env,
                               .inline_mode = true,
                               .cache_bytes = CACHE_BYTES,
                               .wal_bytes_max = WAL_BYTES,
                               .staging = &node->staging };
    sim_must(store_open(&o, &store, &info), "store", &info);
    return store;
}

/* Now and then an effect fails, as by a bug of ours, and is undone. */
static enum err consume(struct tx *tx, const struct event *event, void *ctx, struct err_info *info)
{
    struct sim_process *p = ctx;
    struct sim *s = p->sim;
    struct consumer real = order_consumer(&p->centre);
    enum err e = real.consume(tx, event, real.ctx, info);
    if (!e && sim_mishap(s, s->temper.consumer_permille))
        return err_set(info, ERR_INTERNAL, "planted");
    return e;
}

static void open_centre(struct sim_process *p)
{
    struct sim *s = p->sim;
    struct env *env = &p->node->env.env;

    p->centre = (struct centre) {
        .env = env, .store = open_store(p->node), .registry = registry_new(), .transport = &s->wire
    };
    centre_settings_defaults(&p->centre.settings);
    p->centre.settings.payment_expire_ms = 120000 + (int64_t)(s->seed % 4) * 60000;
    p->centre.settings.query_stuck_ms = s->temper.stuck_ms;
    p->centre.settings.paid_after_close = s->temper.after_close;
    p->centre.settings.paid_twice = s->temper.paid_twice;
    p->centre.settings.auto_refund_max_count = s->temper.auto_refunds;
    p->centre.settings.second_person_fen = s->temper.second_person_fen;
    env_random(env, &p->centre.process_id, sizeof p->centre.process_id);
    p->centre.process_id &= INT64_MAX;
    for (int i = 0; i < s->temper.accounts; i++)
        registry_put(p->centre.registry, account_ref(s->cast->account[i]));
}

static void open_bus(struct sim_process *p)
{
    struct sim *s = p->sim;
    struct consumer consumer = order_consumer(&p->centre);
    consumer.consume = consume;
    consumer.ctx = p;
    p->bus = bus_new(&(struct bus_options) { .env = p->centre.env,
                                             .store = p->centre.store,
                                             .mint = p->centre.mint,
                                             .consumers = &consumer,
                                             .consumer_count = 1,
                                             .source = STR("sim"),
                                             .transport = &s->hooks,
                                             .master_key = sim_master_key,
                                             .webhook_private = true,
                                             .on_dead = consumer_on_dead });
}

static void open_process(struct sim_node *node)
{
    struct sim *s = node->sim;
    struct sim_process *p = arena_one(s->arena, struct sim_process);
    struct err_info info = { 0 };
    static const struct str owners[SIM_NODES] = { { "sim/0", 5 }, { "sim/1", 5 } };

    node->env.env.log = s->log;
    p->sim = s;
    p->node = node;
    list_init(&p->calls);
    open_centre(p);
    p->jobs = arena_one(s->arena, struct job_context);
    p->jobs->node = arena_one(s->arena, struct node_lease);
    sim_must(node_lease_take(p->centre.store, p->centre.env, owners[node->index], p->jobs->node,
                             s->arena, &info),
             "node", &info);
    p->centre.mint = mint_new(p->centre.env, p->jobs->node->node);
    open_bus(p);
    p->jobs->centre = &p->centre;
    p->jobs->bus = p->bus;
    p->jobs->without = s->temper.invariants_job ? NULL : "invariants";
    p->scheduler = scheduler_new(p->jobs, 1);
    node->process = p;
    node->death_step = s->steps + 1 + (uint64_t)sim_below(s, DEATH_WITHIN);
    sim_jobs_start(p);
}

static enum err switch_hooks_on(struct tx *tx, void *arg, struct err_info *info)
{
    const struct sim_temper *t = arg;
    enum err e = t->webhook ? webhook_set(tx, 0, SIM_HOOK, true, info) : ERR_OK;
    return !e && t->dead_hook ? webhook_set(tx, 0, SIM_HOOK_DEAD, true, info) : e;
}

void sim_nodes_open(struct sim *s)
{
    s->deaths_left = s->temper.deaths;
    for (int i = 0; i < s->temper.nodes; i++) {
        struct sim_node *node = &s->nodes[i];
        *node = (struct sim_node) { .sim = s, .index = i };
        sim_env_open(s, &node->env, s->seed * 4 + 2 + (uint64_t)i);
        node->staging = (struct store_staging) {
            .ctx = node,
            .disk = s->disk,
            .commit = commit,
            .settles_unknown = s->temper.commits == COMMITS_LOSE_ANSWERS,
            .on_row = on_row,
        };
        list_init(&node->parked);
        open_process(node);
    }
    sim_run_rule(s->nodes[0].process->centre.store, &s->nodes[0].env.env, switch_hooks_on,
                 &s->temper);
}

/* ---- calls from outside ---- */

struct sim_call {
    struct list link;
    struct sim_process *process;
    sim_serve *serve;
    void *arg;
    struct sim_task *caller; /* NULL: has given up */
    bool answered, over;
};

static void serve(struct sim *s, void *arg)
{
    struct sim_call *k = arg;
    (void)s;
    k->serve(k->process, k->arg);
    k->answered = k->over = true;
    list_remove(&k->link);
    if (k->caller)
        sim_wake(k->caller);
}

/* Whichever node the balancer takes. */
static struct sim_process *any_process(struct sim *s)
{
    struct sim_process *found = NULL;
    for (int i = 0; i < s->temper.nodes; i++)
        if (s->nodes[i].process && (!found || sim_chance(s, 50)))
            found = s->nodes[i].process;
    return found;
}

bool sim_call(struct sim *s, const char *name, sim_serve *fn, void *arg, int64_t patience_ms)
{
    int64_t until = s->now_ms + patience_ms;

    env_effect(&s->outside.env, EFFECT_CHANNEL_SEND);
    struct sim_process *p = any_process(s);
    if (!p)
        return false;
    struct sim_call *k = arena_one(s->arena, struct sim_call);
    *k = (struct sim_call) { .process = p, .serve = fn, .arg = arg, .caller = s->running };
    list_append(&p->calls, &k->link);
    sim_spawn(s, name, p->node, serve, k);
    while (!k->over && s->now_ms < until)
        sim_wait(s, until);
    k->caller = NULL;
    sim_note(s, k->answered ? "answered" : "no answer", 0);
    return k->answered;
}

/* ---- death ---- */

/* What its tasks held is not released, as with a real death. */
static void kill_process(struct sim_node *node)
{
    struct sim_process *p = node->process;
    sim_kill_tasks(node->sim, node);
    list_each_safe (link, &p->calls) {
        struct sim_call *k = container_of(link, struct sim_call, link);
        list_remove(&k->link);
        k->over = true;
        if (k->caller)
            sim_wake(k->caller);
    }
    store_drop(p->centre.store);
    scheduler_free(p->scheduler);
    bus_free(p->bus);
    registry_free(p->centre.registry);
    mint_free(p->centre.mint);
    node->process = NULL;
}

static void die(struct sim *s, struct sim_node *node)
{
    kill_process(node);
    node->up_ms = s->now_ms + sim_below(s, DOWN_MAX_MS);
}

/* Everybody's: the database stands on the same socket. */
static void cut_power(struct sim *s)
{
    sim_note(s, "power", 0);
    s->power_cuts++;
    for (int i = 0; i < s->temper.nodes; i++)
        if (s->nodes[i].process)
            die(s, &s->nodes[i]);
    sim_watch_close(s);
    store_disk_cut_power(s->disk);
    sim_watch_open(s);
}

static void step_node(struct sim *s, struct sim_node *node)
{
    if (!node->process) {
        if (s->now_ms >= node->up_ms) {
            sim_note(s, "born", node->index);
            open_process(node);
        }
        return;
    }
    bool failed = store_failed(node->process->centre.store) && (s->healed || sim_chance(s, 3));
    bool chance = s->deaths_left > 0 && s->steps >= node->death_step && !s->healed;
    if (!failed && !chance)
        return;
    sim_note(s, "dies", failed);
    s->deaths_left -= chance;
    s->faults += chance;
    if (chance && sim_chance(s, s->temper.power_percent))
        cut_power(s);
    else
        die(s, node);
}

void sim_nodes_step(struct sim *s)
{
    for (int i = 0; i < s->temper.nodes; i++)
        step_node(s, &s->nodes[i]);
}

void sim_nodes_close(struct sim *s)
{
    for (int i = 0; i < s->temper.nodes; i++)
        if (s->nodes[i].process)
            kill_process(&s->nodes[i]);
}
