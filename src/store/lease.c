/* lease.c -- leases as rows: taken, kept and given up by conditional updates, so that the fence
 * tells whose work counts. */
#include "store/lease.h"

#include <assert.h>
#include <stdlib.h>

#define NODE_MS (10 * 60 * 1000)
#define NODE_REST_MS                                                                               \
    (60 * 60 * 1000) /* a generator that still believes in its node has noticed by then */

SQL(sql_find, "SELECT owner, fence, until_time FROM lease WHERE name = ?");
SQL(sql_create, "INSERT INTO lease (name, owner, fence, until_time, create_time, update_time) "
                "VALUES (?, ?, 1, ?, ?, ?)");
SQL(sql_extend,
    "UPDATE lease SET until_time = ?, update_time = ? WHERE name = ? AND owner = ? AND fence = ?");
SQL(sql_change, "UPDATE lease SET owner = ?, fence = fence + 1, until_time = ?, update_time = ?"
                " WHERE name = ? AND fence = ? AND until_time <= ?");
SQL(sql_held, "SELECT 1 FROM lease WHERE name = ? AND owner = ? AND fence = ? AND until_time > ?");
SQL(sql_ours, "SELECT 1 FROM lease WHERE name = ? AND owner = ? AND fence = ?");
SQL(sql_nodes,
    "SELECT name, until_time, fence FROM lease WHERE name >= 'node/' AND name < 'node0'");

static enum err create(struct tx *tx, struct lease *l, struct err_info *info)
{
    int64_t now = tx_now_ms(tx);
    enum err e = tx_exec(tx, &sql_create,
                         BINDS(bind_text(l->name), bind_text(l->owner), bind_int(l->until_ms),
                               bind_int(now), bind_int(now)),
                         NULL, info);
    l->fence = 1;
    return e == ERR_EXISTS
               ? err_set(info, ERR_RETRY, "lease " STR_FMT " was just taken", STR_ARG(l->name))
               : e;
}

/* Extending and giving up. */
static enum err set_until(struct tx *tx, const struct lease *l, int64_t until_ms,
                          struct err_info *info)
{
    int64_t changed;
    enum err e = tx_exec(tx, &sql_extend,
                         BINDS(bind_int(until_ms), bind_int(tx_now_ms(tx)), bind_text(l->name),
                               bind_text(l->owner), bind_int(l->fence)),
                         &changed, info);
    if (!e && changed == 0)
        e = err_set(info, ERR_RETRY, "lease " STR_FMT " is lost", STR_ARG(l->name));
    return e;
}

/* From an owner whose time ended at or before `ended_ms`; l->fence is the one found. */
static enum err change_owner(struct tx *tx, struct lease *l, int64_t ended_ms,
                             struct err_info *info)
{
    int64_t changed;
    enum err e = tx_exec(tx, &sql_change,
                         BINDS(bind_text(l->owner), bind_int(l->until_ms), bind_int(tx_now_ms(tx)),
                               bind_text(l->name), bind_int(l->fence), bind_int(ended_ms)),
                         &changed, info);
    if (!e && changed == 0)
        e = err_set(info, ERR_RETRY, "lease " STR_FMT " was just taken", STR_ARG(l->name));
    l->fence++;
    return e;
}

enum err lease_take(struct tx *tx, struct str name, struct str owner, int64_t for_ms,
                    struct lease *ret, bool *ret_taken, struct err_info *info)
{
    int64_t now = tx_now_ms(tx);
    struct lease l = { .name = name, .owner = owner, .until_ms = now + for_ms };
    struct query *q = tx_select(tx, &sql_find, BINDS(bind_text(name)));
    bool there = query_row(q), own = there && str_eq(col_text(q, 0), owner);
    int64_t until = there ? col_int(q, 2) : 0;
    l.fence = there ? col_int(q, 1) : 0;
    enum err e = query_end(q, info);
    if (e)
        return e;
    if (there && !own && until > now) {
        *ret_taken = false;
        return ERR_OK;
    }
    e = !there ? create(tx, &l, info)
        : own  ? set_until(tx, &l, l.until_ms, info)
               : change_owner(tx, &l, now, info);
    if (e)
        return e;
    *ret = l;
    *ret_taken = true;
    return ERR_OK;
}

enum err lease_check(struct tx *tx, const struct lease *l, struct err_info *info)
{
    int64_t held;
    enum err e = tx_select_int(
        tx, &sql_held,
        BINDS(bind_text(l->name), bind_text(l->owner), bind_int(l->fence), bind_int(tx_now_ms(tx))),
        &held, info);
    if (!e && !held)
        e = err_set(info, ERR_RETRY, "lease " STR_FMT " is lost", STR_ARG(l->name));
    return e;
}

enum err lease_ours(struct tx *tx, const struct lease *l, bool *ret_ours, struct err_info *info)
{
    int64_t ours;
    enum err e = tx_select_int(tx, &sql_ours,
                               BINDS(bind_text(l->name), bind_text(l->owner), bind_int(l->fence)),
                               &ours, info);
    if (!e)
        *ret_ours = ours != 0;
    return e;
}

enum err lease_release(struct tx *tx, const struct lease *l, struct err_info *info)
{
    return set_until(tx, l, tx_now_ms(tx), info);
}

/* ---- nodes ---- */

struct node_act {
    struct node_lease lease;
    bool found; /* a node was free */
};

static struct str node_name(struct arena *a, unsigned node)
{
    return str_printf(a, "node/%u", node);
}

/* Never one that may still be in use, not even its own earlier one: the generator's memory died
 * with it. */
static enum err node_take_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct node_act *act = arg;
    struct lease *l = &act->lease.lease;
    int64_t now = tx_now_ms(tx), fence[NUMBER_NODES] = { 0 }; /* 0: never given, -1: not now */
    struct query *q = tx_select(tx, &sql_nodes, NO_BINDS);
    while (query_row(q)) {
        struct str name = col_text(q, 0);
        int64_t node;
        if (str_int64(str_sub(name, 5, name.n), &node) || node < 0 || node >= NUMBER_NODES)
            continue;
        fence[node] = col_int(q, 1) + NODE_REST_MS <= now ? col_int(q, 2) : -1;
    }
    enum err e = query_end(q, info);
    if (e)
        return e;
    unsigned node = 0;
    while (node < NUMBER_NODES && fence[node] < 0)
        node++;
    act->found = node < NUMBER_NODES;
    if (!act->found)
        return ERR_OK;
    act->lease.node = node;
    l->name = node_name(tx_arena(tx), node);
    l->until_ms = now + NODE_MS;
    l->fence = fence[node];
    return fence[node] == 0 ? create(tx, l, info) : change_owner(tx, l, now - NODE_REST_MS, info);
}

/* A lapsed lease is not extended: somebody may have been given the node since, or will be. */
static enum err node_extend_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct lease *l = &((struct node_lease *)arg)->lease;
    enum err e = lease_check(tx, l, info);
    return e ? e : set_until(tx, l, tx_now_ms(tx) + NODE_MS, info);
}

static enum err node_release_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return lease_release(tx, &((struct node_lease *)arg)->lease, info);
}

static enum err run(struct store *store, struct env *env, const char *name, store_rule *rule,
                    void *arg, int64_t *ret_now_ms, struct err_info *info)
{
    struct err_info mine = { 0 };
    struct store_job job;
    store_job_init(&job, env, NULL, 0);
    job.name = name;
    job.class = STORE_BACKGROUND;
    job.rule = rule;
    job.arg = arg;
    *ret_now_ms = job.now_ms;
    switch (store_run(store, &job, &mine)) {
    case STORE_COMMITTED:
        return ERR_OK;
    case STORE_REFUSED:
        return err_set(info, mine.err, "%s", mine.text);
    case STORE_BUSY: /* also a lease that was lost: its rule says ERR_RETRY until the tries are used
                        up */
        return err_set(info, mine.err == ERR_RETRY ? ERR_RETRY : ERR_BUSY, "%s", mine.text);
    case STORE_UNKNOWN:
        return err_set(info, ERR_UNKNOWN, "%s", mine.text);
    }
    return ERR_INTERNAL;
}

enum err node_lease_take(struct store *store, struct env *env, struct str owner,
                         struct node_lease *ret, struct arena *a, struct err_info *info)
{
    struct node_act act = { .lease.lease.owner = str_dup(a, owner) };
    int64_t now;
    enum err e = run(store, env, "node_take", node_take_rule, &act, &now, info);
    if (e)
        return e;
    if (!act.found)
        return err_set(info, ERR_BUSY, "all %d node ids are in use or were within the last hour",
                       NUMBER_NODES);
    act.lease.lease.name = node_name(a, act.lease.node);
    *ret = act.lease;
    return ERR_OK;
}

enum err node_lease_extend(struct store *store, struct env *env, struct node_lease *lease,
                           struct err_info *info)
{
    int64_t now;
    enum err e = run(store, env, "node_extend", node_extend_rule, lease, &now, info);
    if (!e)
        lease->lease.until_ms = now + NODE_MS;
    return e;
}

enum err node_lease_release(struct store *store, struct env *env, struct node_lease *lease,
                            struct err_info *info)
{
    int64_t now;
    return run(store, env, "node_release", node_release_rule, lease, &now, info);
}
