/* operators.c -- people at the centre's own desk, who take up callbacks and events again whenever
 * it seems good to them, and resolve incidents in whatever moment. They know the channel's books:
 * they accept no money that was never taken. */
#include "sim/inner.h"

#include "bus/bus.h"
#include "core/callback/callback.h"
#include "core/resolve/resolve.h"

#define PAUSE_MS    30000
#define PATIENCE_MS 10000
#define LATE_ACTS   20

struct again {
    int64_t id;
    enum code code;
};

SQL(sim_any_callback, "SELECT id FROM callback_log ORDER BY (id % 65521 * ?) % 8191, id LIMIT 1");
SQL(sim_any_event, "SELECT id FROM outbox ORDER BY (id % 65521 * ?) % 8191, id LIMIT 1");

struct choice {
    const struct sql *sql;
    int64_t chance, id;
};

static enum err choose_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct choice *c = arg;
    return tx_select_int(tx, c->sql, BINDS(bind_int(c->chance)), &c->id, info);
}

static int64_t choose(struct sim *s, const struct sql *sql)
{
    struct choice c = { .sql = sql, .chance = 1 + sim_below(s, 8000) };
    sim_read(s, choose_rule, &c);
    return c.id;
}

static void serve_callback_again(struct sim_process *p, void *arg)
{
    struct again *k = arg;
    struct act act = { .actor = STR("operator:sim"), .arena = p->sim->arena };
    struct refusal refusal = { 0 };
    enum handle_result result;
    k->code = callback_replay(&p->centre, &act, k->id, &result, &refusal);
    sim_note(p->sim, "replayed", (int64_t)k->code);
}

static enum err event_again_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return event_replay(tx, ((struct again *)arg)->id, info);
}

static void serve_event_again(struct sim_process *p, void *arg)
{
    struct again *k = arg;
    struct refusal refusal = { 0 };
    k->code =
        centre_run(&p->centre, "event_replay", STORE_API, 0, event_again_rule, k, 8, &refusal);
    sim_note(p->sim, "replayed", (int64_t)k->code);
}

static void take_up_again(struct sim *s)
{
    struct again *k = arena_one(s->arena, struct again);
    bool event = sim_chance(s, 50);
    k->id = choose(s, event ? &sim_any_event : &sim_any_callback);
    if (k->id)
        sim_call(s, "operator", event ? serve_event_again : serve_callback_again, k, PATIENCE_MS);
}

/* ---- incidents ---- */

SQL(sim_any_incident, "SELECT id FROM incident WHERE state = 0"
                      " ORDER BY (id % 65521 * ?) % 8191, id LIMIT 1");

struct resolution {
    int64_t id;
    struct number subject;
    struct incident_row row;
    struct resolve wanted;
    struct resolved resolved;
};

static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct resolution *k = arg;
    return incident_load(tx, k->id, &k->row, info);
}

/* What may be done; by chance. Money that is held may be a lie of a callback: then it is asked for
 * again. */
static enum incident_action decide(struct sim *s, const struct incident_row *row)
{
    for (int i = 0; i < 20; i++) {
        enum incident_action a = (enum incident_action)(1 + sim_below(s, INCIDENT_ACTIONS_END - 1));
        bool takes_its_word = a == ACTION_ACCEPT || a == ACTION_ACCEPT_AND_REFUND;
        if (resolve_fits(row->kind, a) && !(takes_its_word && s->temper.liars))
            return a;
    }
    return ACTION_IGNORE;
}

static void serve_resolve(struct sim_process *p, void *arg)
{
    struct resolution *k = arg;
    struct act act = { .caller = { SIM_CALLER, STR("shop") },
                       .actor = k->wanted.who,
                       .trace_id = STR("sim"),
                       .arena = p->sim->arena };
    struct refusal refusal = { 0 };
    enum code code;
    if (k->wanted.action)
        code = resolve_incident(&p->centre, &act, &k->wanted, &k->resolved, &refusal);
    else
        code = resolve_withdraw(&p->centre, &act, k->wanted.incident_no, true, k->wanted.who,
                                &k->resolved, &refusal);
    sim_expect_sane(p, code, "resolve", k->row.subject);
    p->sim->resolved += !code && k->resolved.incident.resolved;
}

/* False: nothing is open. */
static bool resolve_some(struct sim *s)
{
    static const struct str people[] = { { "operator:amy", 12 }, { "operator:bob", 12 } };
    struct resolution *k = arena_one(s->arena, struct resolution);
    k->id = choose(s, &sim_any_incident);
    if (!k->id || sim_read(s, look_rule, k))
        return false;
    k->wanted = (struct resolve) { .incident_no = k->row.no,
                                   .any_caller = true,
                                   .action = decide(s, &k->row),
                                   .who = people[sim_below(s, 2)],
                                   .reason = STR("sim"),
                                   .adopt_for = { SIM_CALLER, STR("shop") } };
    if (sim_chance(s, 5))
        k->wanted.action = ACTION_NONE; /* takes back what somebody proposed */
    sim_note(s, incident_kind_name(k->row.kind), (int64_t)k->wanted.action);
    sim_call(s, "operator", serve_resolve, k, PATIENCE_MS);
    return true;
}

/* Once all is well, they look at some more of what is open, and leave. */
static void operator_main(struct sim *s, void *arg)
{
    int more = LATE_ACTS;
    (void)arg;
    while (!s->healed) {
        sim_sleep(s, 1000 + sim_below(s, PAUSE_MS));
        if (sim_chance(s, 40))
            take_up_again(s);
        else
            resolve_some(s);
    }
    while (more-- > 0 && resolve_some(s))
        sim_sleep(s, PAUSE_MS);
    s->operators--;
}

void sim_operators_start(struct sim *s)
{
    if (!s->temper.operators)
        return;
    s->operators++;
    sim_spawn(s, "operator", NULL, operator_main, NULL);
}
