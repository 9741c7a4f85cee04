/* caller_admin.c -- making and ending callers and their keys, for the API and for `fenpay caller`.
 * Every act leaves an audit row in its own transaction. Keys are made before the rule, so that a
 * rule that runs twice stores the same one. */
#include "api/caller_admin.h"

#include "api/caller_sql.h"
#include "core/audit/audit.h"
#include "crypto/secret.h"

#include <assert.h>

#define KEYS_PER_KIND_MAX 2
#define NAME_SET          "abcdefghijklmnopqrstuvwxyz0123456789_.-"
#define PERMISSIONS_ALL   ((1u << PERMISSION_COUNT) - 1)

/* A centre_run that speaks enum err. */
static enum err run(struct centre *c, const char *name, store_rule *rule, void *arg, unsigned ids,
                    struct err_info *info)
{
    struct refusal refusal = { 0 };

    switch ((int)centre_run(c, name, STORE_API, 0, rule, arg, ids, &refusal)) {
    case CODE_OK:
        return ERR_OK;
    case CODE_BUSY:
        return err_set(info, ERR_BUSY, "the store is busy");
    default:
        return err_internal(info, "%s failed; the log says why", name);
    }
}

/* ---- a new caller with its first key ---- */

struct creation {
    struct str who;
    struct caller_record caller;
    struct key_record key;
    int64_t id; /* result; 0: the name is taken */
};

static enum err create_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct creation *n = arg;
    enum err e;

    n->id = 0;
    n->caller.id = n->key.caller = tx_new_id(tx);
    n->key.id = tx_new_id(tx);
    int64_t audit_id = tx_new_id(tx);

    if ((e = caller_sql_insert(tx, &n->caller, info)) == ERR_EXISTS) {
        struct caller_record old;
        if ((e = caller_sql_by_name(tx, n->caller.name, &old, info)))
            return e;
        n->id =
            old.id == n->caller.id ? old.id : 0; /* ours: an earlier run was committed after all */
        return ERR_OK;
    }
    if (e || (e = key_sql_insert(tx, &n->key, info)) ||
        (e = audit_insert(tx,
                          &(struct audit) { audit_id, n->who, STR("caller.create"), n->caller.name,
                                            n->key.key_id },
                          info)))
        return e;
    n->id = n->caller.id;
    return ERR_OK;
}

enum err caller_create_by(struct centre *c, struct str who, struct str name, unsigned permissions,
                          struct arena *a, int64_t *ret_id, struct str *ret_bearer,
                          struct err_info *info)
{
    if (name.n < 1 || name.n > AUTH_CALLER_NAME_MAX || !str_all_of(name, NAME_SET))
        return err_field(info, ERR_INVALID, "name", "1 to %d of a-z 0-9 _ . -",
                         AUTH_CALLER_NAME_MAX);
    if (permissions & ~PERMISSIONS_ALL)
        return err_field(info, ERR_INVALID, "permissions", "unknown permission");

    struct str key_id = auth_new_key_id(c->env, a);
    struct str bearer = auth_bearer(a, key_id, auth_new_secret(c->env, a));
    struct sha256 hash = sha256(bearer);
    struct creation n = {
        .who = who,
        .caller = { .name = name, .permissions = permissions },
        .key = { .kind = KEY_BEARER, .key_id = key_id, .hash = sha256_str(&hash) },
    };
    enum err e = run(c, "caller_create", create_rule, &n, 3, info);
    if (e)
        return e;
    if (!n.id)
        return err_field(info, ERR_EXISTS, "name", "the name is taken");
    *ret_id = n.id;
    *ret_bearer = bearer;
    return ERR_OK;
}

/* ---- another key ---- */

struct key_addition {
    struct str who, name;
    struct key_record key;
    enum err result; /* as data: nothing has been written then */
};

static enum err add_key_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct key_addition *n = arg;
    struct key_record old;
    struct caller_record caller;
    int64_t count;
    enum err e;

    n->key.id = tx_new_id(tx);
    int64_t audit_id = tx_new_id(tx);
    if (!(e = key_sql_find(tx, n->key.key_id, &old, info))) {
        n->result = ERR_OK; /* an earlier run was committed after all */
        return ERR_OK;
    }
    if (e != ERR_NOT_FOUND)
        return e;
    if ((e = caller_sql_by_name(tx, n->name, &caller, info))) {
        n->result = e;
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    if ((e = key_sql_count(tx, caller.id, n->key.kind, &count, info)))
        return e;
    n->result = count < KEYS_PER_KIND_MAX ? ERR_OK : ERR_CONFLICT;
    if (n->result)
        return ERR_OK;

    n->key.caller = caller.id;
    /* The caller's version makes two additions at once see each other. */
    if ((e = caller_sql_change(tx, &caller, info)) || (e = key_sql_insert(tx, &n->key, info)))
        return e;
    return audit_insert(
        tx, &(struct audit) { audit_id, n->who, STR("caller.add_key"), n->name, n->key.key_id },
        info);
}

enum err caller_add_key_by(struct centre *c, struct str who, struct str name, bool hmac,
                           struct str master_key, struct arena *a, struct str *ret_key_id,
                           struct str *ret_secret, struct err_info *info)
{
    struct str key_id = auth_new_key_id(c->env, a);
    struct str secret = auth_new_secret(c->env, a);
    struct sha256 hash;
    struct key_addition n = { .who = who, .name = name, .key = { .key_id = key_id } };
    enum err e;

    if (hmac) {
        n.key.kind = KEY_HMAC;
        if (!master_key.n)
            return err_set(info, ERR_INVALID,
                           "signing keys need a master key in the configuration");
        if ((e = secret_encrypt(c->env, master_key, auth_secret_name(a, key_id), secret, a,
                                &n.key.secret)))
            return err_set(info, e, "the secret cannot be encrypted");
    } else {
        n.key.kind = KEY_BEARER;
        secret = auth_bearer(a, key_id, secret);
        hash = sha256(secret);
        n.key.hash = sha256_str(&hash);
    }
    if ((e = run(c, "caller_add_key", add_key_rule, &n, 2, info)))
        return e;
    if (n.result == ERR_CONFLICT)
        return err_set(info, ERR_CONFLICT, "two keys of this kind exist already: revoke one first");
    if (n.result)
        return err_field(info, ERR_NOT_FOUND, "name", "no such caller");
    *ret_key_id = key_id;
    *ret_secret = secret;
    return ERR_OK;
}

/* ---- ending ---- */

struct ending {
    struct str who, key_id, name;
    bool on;
    bool found;
};

static enum err revoke_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct ending *n = arg;
    struct key_record key;
    int64_t changed;
    int64_t audit_id = tx_new_id(tx);
    enum err e = key_sql_find(tx, n->key_id, &key, info);

    n->found = !e;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = key_sql_revoke(tx, n->key_id, &changed, info)) || changed == 0)
        return e;
    return audit_insert(
        tx, &(struct audit) { audit_id, n->who, STR("caller.revoke_key"), n->key_id, STR_NONE },
        info);
}

enum err caller_revoke_key_by(struct centre *c, struct str who, struct str key_id,
                              struct err_info *info)
{
    struct ending n = { .who = who, .key_id = key_id };
    enum err e = run(c, "caller_revoke_key", revoke_rule, &n, 1, info);
    if (!e && !n.found)
        e = err_field(info, ERR_NOT_FOUND, "key_id", "no such key");
    return e;
}

static enum err set_state_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct ending *n = arg;
    struct caller_record caller;
    int64_t audit_id = tx_new_id(tx);
    enum err e = caller_sql_by_name(tx, n->name, &caller, info);

    n->found = !e;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (caller.on == n->on)
        return ERR_OK;
    caller.on = n->on;
    if ((e = caller_sql_change(tx, &caller, info)))
        return e;
    struct str act = n->on ? STR("caller.enable") : STR("caller.disable");
    return audit_insert(tx, &(struct audit) { audit_id, n->who, act, n->name, STR_NONE }, info);
}

enum err caller_set_state_by(struct centre *c, struct str who, struct str name, bool on,
                             struct err_info *info)
{
    struct ending n = { .who = who, .name = name, .on = on };
    enum err e = run(c, "caller_set_state", set_state_rule, &n, 1, info);
    if (!e && !n.found)
        e = err_field(info, ERR_NOT_FOUND, "name", "no such caller");
    return e;
}

/* ---- how much it may ask ---- */

static_assert(CALLER_RATE_NORMAL == 0 && CALLER_RATE_HIGH == 1 && CALLER_RATE_UNLIMITED == 2,
              "caller.rate_class is persisted");
static const char *const rate_names[CALLER_RATES] = { "normal", "high", "unlimited" };

const char *caller_rate_name(enum caller_rate rate)
{
    return rate_names[rate];
}

enum err caller_rate_parse(struct str name, enum caller_rate *ret, struct err_info *info)
{
    for (size_t i = 0; i < CALLER_RATES; i++)
        if (str_eq(name, str_of(rate_names[i]))) {
            *ret = (enum caller_rate)i;
            return ERR_OK;
        }
    return err_field(info, ERR_INVALID, "rate", "normal, high or unlimited");
}

struct rating {
    struct str who, name;
    enum caller_rate rate;
    bool found;
};

static enum err set_rate_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct rating *n = arg;
    struct caller_record caller;
    int64_t audit_id = tx_new_id(tx);
    enum err e = caller_sql_by_name(tx, n->name, &caller, info);

    n->found = !e;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (caller.rate == n->rate)
        return ERR_OK;
    caller.rate = n->rate;
    if ((e = caller_sql_change(tx, &caller, info)))
        return e;
    return audit_insert(tx,
                        &(struct audit) { audit_id, n->who, STR("caller.rate"), n->name,
                                          str_of(caller_rate_name(n->rate)) },
                        info);
}

enum err caller_set_rate_by(struct centre *c, struct str who, struct str name,
                            enum caller_rate rate, struct err_info *info)
{
    struct rating n = { .who = who, .name = name, .rate = rate };
    enum err e = run(c, "caller_set_rate", set_rate_rule, &n, 1, info);
    if (!e && !n.found)
        e = err_field(info, ERR_NOT_FOUND, "name", "no such caller");
    return e;
}

/* ---- reading ---- */

struct listing {
    struct arena *arena;
    struct caller_row *rows;
    size_t max, n;
};

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct listing *l = arg;
    enum err e = caller_sql_list(tx, l->rows, l->max, &l->n, info);
    for (size_t i = 0; i < l->n && !e; i++)
        l->rows[i].name = str_dup(l->arena, l->rows[i].name);
    return e;
}

enum err caller_list(struct centre *c, struct arena *a, struct caller_row *ret, size_t max,
                     size_t *ret_n, struct err_info *info)
{
    struct listing l = { .arena = a, .rows = ret, .max = max };
    enum err e = store_read(c->store, 0, "caller_list", list_rule, &l, info);
    if (!e)
        *ret_n = l.n;
    return e;
}

struct key_listing {
    struct arena *arena;
    struct str name;
    struct caller_key_row *rows;
    size_t max, n;
};

static enum err keys_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct key_listing *l = arg;
    struct caller_record caller;
    enum err e = caller_sql_by_name(tx, l->name, &caller, info);
    if (!e)
        e = key_sql_list(tx, caller.id, l->rows, l->max, &l->n, info);
    for (size_t i = 0; i < l->n && !e; i++)
        l->rows[i].key_id = str_dup(l->arena, l->rows[i].key_id);
    return e;
}

enum err caller_keys(struct centre *c, struct str name, struct arena *a, struct caller_key_row *ret,
                     size_t max, size_t *ret_n, struct err_info *info)
{
    struct key_listing l = { .arena = a, .name = name, .rows = ret, .max = max };
    enum err e = store_read(c->store, 0, "caller_keys", keys_rule, &l, info);
    if (!e)
        *ret_n = l.n;
    return e;
}

static enum err find_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct caller_record *caller = arg;
    struct str name = caller->name;
    enum err e = caller_sql_by_name(tx, name, caller, info);
    caller->name = name; /* the one found lives in the tx */
    return e;
}

enum err caller_find(struct centre *c, struct str name, int64_t *ret_id, struct err_info *info)
{
    struct caller_record caller = { .name = name };
    enum err e = store_read(c->store, 0, "caller_find", find_rule, &caller, info);
    if (!e)
        *ret_id = caller.id;
    return e;
}

/* ---- for the command line ---- */

#define COMMAND STR("command")

enum err caller_create(struct centre *c, struct str name, unsigned permissions, struct arena *a,
                       int64_t *ret_id, struct str *ret_bearer, struct err_info *info)
{
    return caller_create_by(c, COMMAND, name, permissions, a, ret_id, ret_bearer, info);
}

enum err caller_add_key(struct centre *c, struct str name, bool hmac, struct str master_key,
                        struct arena *a, struct str *ret_key_id, struct str *ret_secret,
                        struct err_info *info)
{
    return caller_add_key_by(c, COMMAND, name, hmac, master_key, a, ret_key_id, ret_secret, info);
}

enum err caller_set_rate(struct centre *c, struct str name, enum caller_rate rate,
                         struct err_info *info)
{
    return caller_set_rate_by(c, COMMAND, name, rate, info);
}

enum err caller_revoke_key(struct centre *c, struct str key_id, struct err_info *info)
{
    return caller_revoke_key_by(c, COMMAND, key_id, info);
}

enum err caller_set_state(struct centre *c, struct str name, bool on, struct err_info *info)
{
    return caller_set_state_by(c, COMMAND, name, on, info);
}
