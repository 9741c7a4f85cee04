/* operators.c -- people at the centre's own desk, who take up callbacks and events again whenever
 * it seems good to them, and a merchant's system that reads the feed. */
#include "sim/inner.h"

#include "bus/bus.h"
#include "core/callback/callback.h"

#define PAUSE_MS    30000
#define PATIENCE_MS 10000
#define FEED_PAGE   16

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

static void operator_main(struct sim *s, void *arg)
{
    (void)arg;
    while (!s->healed) {
        struct again *k = arena_one(s->arena, struct again);
        bool event = sim_chance(s, 50);
        sim_sleep(s, 1000 + sim_below(s, PAUSE_MS));
        k->id = choose(s, event ? &sim_any_event : &sim_any_callback);
        if (k->id && !s->healed)
            sim_call(s, "operator", event ? serve_event_again : serve_callback_again, k,
                     PATIENCE_MS);
    }
}

/* ---- the feed ---- */

struct reading {
    int64_t after, last;
    size_t n;
};

static enum err read_feed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct reading *k = arg;
    struct event events[FEED_PAGE];
    int64_t seqs[FEED_PAGE];
    enum err e = feed_read(tx, SIM_CALLER, k->after, FEED_PAGE, events, seqs, &k->n, info);
    if (!e && k->n)
        k->last = seqs[k->n - 1];
    return e;
}

static void serve_feed(struct sim_process *p, void *arg)
{
    struct err_info info = { 0 };
    if (store_read(p->centre.store, 0, "feed", read_feed_rule, arg, &info))
        sim_fail(p->sim, (struct number) { 0 }, "the feed cannot be read: %s", info.text);
}

/* Page after page, each time behind the last number it has seen. */
static void reader(struct sim *s, void *arg)
{
    (void)arg;
    for (;;) {
        struct reading *k = arena_one(s->arena, struct reading);
        k->after = s->fed_seq;
        if (sim_call(s, "feed", serve_feed, k, PATIENCE_MS) && k->n) {
            s->fed += (int64_t)k->n;
            s->fed_seq = k->last;
        } else {
            sim_sleep(s, s->healed ? SIM_PAUSE_MAX_MS : 1 + sim_below(s, PAUSE_MS));
        }
    }
}

void sim_operators_start(struct sim *s)
{
    if (s->temper.reader)
        sim_spawn(s, "reader", NULL, reader, NULL);
    if (s->temper.operators)
        sim_spawn(s, "operator", NULL, operator_main, NULL);
}
