/* caller.c -- callers and their keys. A key is shown once, when it is made. */
#include "app/commands.h"

#include <stdio.h>

#include "app/open.h"
#include "app/words.h"
#include "base/clock.h"

static const struct {
    const char *name;
    enum permission bit;
} permissions[] = {
    { "read", PERMISSION_READ },         { "order", PERMISSION_ORDER },
    { "pay", PERMISSION_PAY },           { "refund", PERMISSION_REFUND },
    { "incident", PERMISSION_INCIDENT }, { "admin", PERMISSION_ADMIN },
};
#define PERMISSION_COUNT (sizeof permissions / sizeof *permissions)

static enum err parse_permissions(struct str text, unsigned *ret, struct err_info *info)
{
    unsigned bits = 0;
    while (text.p) {
        struct str word = str_cut(&text, ',');
        size_t i = 0;
        while (i < PERMISSION_COUNT && !str_eq(word, str_of(permissions[i].name)))
            i++;
        if (i == PERMISSION_COUNT)
            return err_set(info, ERR_INVALID,
                           "no permission named '" STR_FMT
                           "' (read, order, pay, refund, incident, admin)",
                           STR_ARG(word));
        bits |= permissions[i].bit;
    }
    *ret = bits;
    return ERR_OK;
}

static struct str permission_names(struct arena *a, unsigned bits)
{
    BUF_AUTO b = { 0 };
    buf_init(&b, 256);
    for (size_t i = 0; i < PERMISSION_COUNT; i++)
        if (bits & permissions[i].bit)
            buf_printf(&b, "%s%s", b.n ? "," : "", permissions[i].name);
    return str_dup(a, buf_str(&b));
}

static void part(bool json, size_t i)
{
    if (!json && i > 0)
        putchar('\n');
}

static enum err list(struct runtime *r, struct arena *a, bool json, struct err_info *info)
{
    struct caller_row rows[256];
    size_t n = 0;
    enum err e = caller_list(&r->centre, a, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++) {
        part(json, i);
        command_print(json,
                      (const struct printed[]) {
                          { "name", rows[i].name },
                          { "permissions", permission_names(a, rows[i].permissions), PRINTED_LIST },
                          { "rate", str_of(caller_rate_name(rows[i].rate)) },
                          { "state", rows[i].on ? STR("on") : STR("off") },
                          { "keys", str_printf(a, "%zu", rows[i].keys), PRINTED_INT } },
                      5);
    }
    return e;
}

static enum err list_keys(struct runtime *r, struct arena *a, struct str name, bool json,
                          struct err_info *info)
{
    struct caller_key_row rows[256];
    size_t n = 0;
    enum err e = caller_keys(&r->centre, name, a, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++) {
        part(json, i);
        command_print(
            json,
            (const struct printed[]) { { "key_id", rows[i].key_id },
                                       { "kind", rows[i].hmac ? STR("hmac") : STR("bearer") },
                                       { "state", rows[i].on ? STR("on") : STR("revoked") },
                                       { "created", clock_rfc3339(a, rows[i].create_ms) } },
            4);
    }
    return e;
}

static enum err switch_caller(struct runtime *r, struct str name, bool on, bool json,
                              struct err_info *info)
{
    enum err e = caller_set_state(&r->centre, name, on, info);
    if (!e)
        command_print(
            json,
            (const struct printed[]) { { "name", name }, { "state", on ? STR("on") : STR("off") } },
            2);
    return e;
}

static enum err set_rate(struct runtime *r, struct str name, struct str word, bool json,
                         struct err_info *info)
{
    enum caller_rate rate;
    enum err e = caller_rate_parse(word, &rate, info);
    if (!e && !(e = caller_set_rate(&r->centre, name, rate, info)))
        command_print(json, (const struct printed[]) { { "name", name }, { "rate", word } }, 2);
    return e;
}

static enum err revoke(struct runtime *r, struct str key_id, bool json, struct err_info *info)
{
    enum err e = caller_revoke_key(&r->centre, key_id, info);
    if (!e)
        command_print(
            json, (const struct printed[]) { { "key_id", key_id }, { "state", STR("revoked") } },
            2);
    return e == ERR_NOT_FOUND
               ? err_set(info, e,
                         "no such key: revoke wants a key id, as caller keys NAME lists them")
               : e;
}

static const char actions[] =
    "list; add NAME; keys NAME; key NAME; revoke KEY_ID; rate NAME CLASS; on NAME; off NAME";

struct caller_command {
    struct str action, name, rate;
    unsigned permissions;
    bool hmac, json;
};

static enum err act(struct runtime *r, struct arena *a, const struct caller_command *c,
                    struct err_info *info)
{
    struct str key_id, secret;
    enum err e;
    if (str_eq(c->action, STR("list")))
        return list(r, a, c->json, info);
    if (!c->name.n)
        return err_set(info, ERR_INVALID, "one of: %s", actions);
    if (str_eq(c->action, STR("keys")))
        return list_keys(r, a, c->name, c->json, info);
    if (str_eq(c->action, STR("add"))) {
        int64_t id;
        if (!(e = caller_create(&r->centre, c->name, c->permissions, a, &id, &secret, info)))
            command_print(
                c->json, (const struct printed[]) { { "name", c->name }, { "bearer", secret } }, 2);
        return e;
    }
    if (str_eq(c->action, STR("key"))) {
        if (!(e = caller_add_key(&r->centre, c->name, c->hmac, r->master_key, a, &key_id, &secret,
                                 info)))
            command_print(c->json,
                          (const struct printed[]) { { "key_id", key_id },
                                                     { c->hmac ? "secret" : "bearer", secret } },
                          2);
        return e;
    }
    if (str_eq(c->action, STR("revoke")))
        return revoke(r, c->name, c->json, info);
    if (str_eq(c->action, STR("rate")))
        return set_rate(r, c->name, c->rate, c->json, info);
    bool on = str_eq(c->action, STR("on"));
    if (on || str_eq(c->action, STR("off")))
        return switch_caller(r, c->name, on, c->json, info);
    return err_set(info, ERR_INVALID, "one of: %s", actions);
}

int command_caller(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str granted = STR("read,order,pay,refund"), words[3];
    struct caller_command c = { 0 };
    size_t n = 0;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        OPEN_OPTIONS(open),
        { "permissions", OPTION_TEXT, &granted, "LIST",
          "With add (default read,order,pay,refund)" },
        { "hmac", OPTION_FLAG, &c.hmac, "", "With key: a signing secret instead of a bearer key" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 1, 3, words, &n, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(8192);
    struct err_info info = { 0 };
    enum err e = parse_permissions(granted, &c.permissions, &info);
    if (e)
        return complain(self, e, &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    c.action = words[0];
    c.name = n > 1 ? words[1] : STR_NONE;
    c.rate = n > 2 ? words[2] : STR_NONE;
    c.json = open.json;
    if ((e = act(r, a, &c, &info)))
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return e == ERR_CONFLICT ? EXIT_FOUND : exit_code; /* two keys are the limit, now and later */
}
