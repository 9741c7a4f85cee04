/* account_contract.c -- the configured accounts against the stored contracts: what is new is added,
 * what is gone or different ends, unless payments need it. */
#include "core/account_contract/account_contract.h"

#include "base/log.h"
#include "core/payment/flow.h"

#define CHANGES_MAX                                                                                \
    1024 /* bytes of text: whoever has changed more accounts sees the first ones                   \
          */

/* A stored contract that the configuration does not agree with. */
struct change {
    struct account_need need;
    struct str was, now; /* now: STR_NONE, there is no such account */
};

struct keep {
    struct arena *arena;
    struct registry *registry;
    struct list changes;
    size_t same; /* accounts whose contract is stored */
    bool running;
};

static struct str contract_of(const struct account *account, struct arena *a)
{
    struct str word = account->info->driver->contract(account, a);
    return str_printf(a, "%s " STR_FMT, account->info->name, STR_ARG(word));
}

/* ---- what differs ---- */

static void compare(void *ctx, struct str name, struct str contract)
{
    struct keep *k = ctx;
    struct account *account = registry_ref(k->registry, name);
    struct str now = account ? contract_of(account, k->arena) : STR_NONE;

    account_unref(account);
    if (str_eq(now, contract)) {
        k->same++;
        return;
    }
    struct change *c = arena_one(k->arena, struct change);
    c->need.account = str_dup(k->arena, name);
    c->was = str_dup(k->arena, contract);
    c->now = now;
    list_append(&k->changes, &c->need.link);
}

static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct keep *k = arg;

    list_init(&k->changes);
    k->same = 0;
    return account_contracts_each(tx, compare, k, info);
}

static struct change *change_at(struct list *node)
{
    return container_of(node, struct change, need.link);
}

static void print_change(struct buf *out, const struct change *c)
{
    if (buf_str(out).n)
        buf_add_str(out, STR("; "));
    if (c->now.p)
        buf_printf(out, STR_FMT " was " STR_FMT " and would be " STR_FMT, STR_ARG(c->need.account),
                   STR_ARG(c->was), STR_ARG(c->now));
    else
        buf_printf(out, STR_FMT " is not there", STR_ARG(c->need.account));
    if (c->need.no.id)
        buf_printf(out, "; %s needs it", number_text(c->need.no).s);
}

/* The contract of an account in use: requests under way were made for it. */
static enum err refuse_changed(struct keep *k, struct err_info *info)
{
    struct buf names;
    buf_init_arena(&names, k->arena, CHANGES_MAX);
    list_each (node, &k->changes)
        if (change_at(node)->now.p)
            print_change(&names, change_at(node));
    struct str text = buf_str(&names);
    return text.n == 0
               ? ERR_OK
               : err_field(info, ERR_CONFLICT, "accounts",
                           "an account in use cannot become another contract: give that "
                           "one a name of its own and keep this one, with retired: true: " STR_FMT,
                           STR_ARG(text));
}

static enum err refuse_needed(struct keep *k, struct err_info *info)
{
    struct buf names;
    buf_init_arena(&names, k->arena, CHANGES_MAX);
    list_each (node, &k->changes)
        if (change_at(node)->need.no.id)
            print_change(&names, change_at(node));
    struct str text = buf_str(&names);
    return text.n == 0
               ? ERR_OK
               : err_field(info, ERR_CONFLICT, "accounts",
                           "open payments or refunds need accounts as they were (keep them, with "
                           "retired: true, until those have ended; another "
                           "contract gets a name of its own): " STR_FMT,
                           STR_ARG(text));
}

/* ---- writing ---- */

static enum err keep_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct keep *k = arg;
    struct account *account;
    enum err e = ERR_OK;

    if (!k->running)
        list_each (node, &k->changes)
            if (!e)
                e = account_contract_end(tx, change_at(node)->need.account, change_at(node)->was,
                                         info);
    for (size_t i = 0; !e && (account = registry_at(k->registry, i)); i++) {
        e = account_contract_add(tx, account->config.name, contract_of(account, tx_arena(tx)),
                                 info);
        account_unref(account);
    }
    return e;
}

static enum err write_down(struct keep *k, struct store *store, struct env *env,
                           struct err_info *info)
{
    struct err_info mine = { 0 };
    struct store_job job;

    store_job_init(&job, env, NULL, 0);
    job.name = "account.contracts";
    job.class = STORE_BACKGROUND;
    job.rule = keep_rule;
    job.arg = k;
    if (store_run(store, &job, &mine) != STORE_COMMITTED) {
        if (info)
            *info = mine;
        return mine.err ? mine.err : ERR_BUSY;
    }
    if (!k->running)
        list_each (node, &k->changes)
            LOG(env->log, LOG_INFO, "account.contract_ended",
                log_str("account", change_at(node)->need.account),
                log_str("was", change_at(node)->was), log_str("now", change_at(node)->now));
    return ERR_OK;
}

static size_t count(struct registry *registry)
{
    struct account *account;
    size_t n = 0;

    for (; (account = registry_at(registry, n)); n++)
        account_unref(account);
    return n;
}

enum err account_contracts_keep(struct store *store, struct env *env, struct registry *registry,
                                bool running, struct err_info *info)
{
    ARENA_AUTO a = arena_new(4096);
    struct keep k = { .arena = a, .registry = registry, .running = running };
    enum err e = store_read(store, 0, "account.contracts", look_rule, &k, info);

    if (!e && running)
        e = refuse_changed(&k, info);
    if (!e)
        e = payments_needing(store, &k.changes, info);
    if (!e)
        e = refuse_needed(&k, info);
    bool ended = !running && !list_empty(&k.changes);
    if (!e && (ended || k.same < count(registry)))
        e = write_down(&k, store, env, info);
    return e;
}
