/* caller.c -- callers and their keys. A key is shown once, when it is made. */
#include "app/commands.h"

#include <stdio.h>

#include "app/open.h"

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

static enum err list(struct runtime *r, struct arena *a, bool json, struct err_info *info)
{
    struct caller_row rows[256];
    size_t n = 0;
    enum err e = caller_list(&r->centre, a, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++)
        command_print(
            json,
            (const struct printed[]) { { "caller", rows[i].name },
                                       { "permissions", permission_names(a, rows[i].permissions) },
                                       { "state", rows[i].on ? STR("on") : STR("off") },
                                       { "keys", str_printf(a, "%zu", rows[i].keys) } },
            4);
    return e;
}

int command_caller(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str granted = STR("read,order,pay,refund"), words[2];
    bool hmac = false;
    size_t n = 0;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        OPEN_OPTIONS(open),
        { "permissions", OPTION_TEXT, &granted, "LIST",
          "With add (default read,order,pay,refund)" },
        { "hmac", OPTION_FLAG, &hmac, "", "With key: a signing secret instead of a bearer key" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 1, 2, words, &n, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(8192);
    struct err_info info = { 0 };
    unsigned bits;
    enum err e = parse_permissions(granted, &bits, &info);
    if (e)
        return complain(self, e, &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    struct str action = words[0], name = n > 1 ? words[1] : STR_NONE, key_id, secret;
    if (str_eq(action, STR("list")))
        e = list(r, a, open.json, &info);
    else if (!name.n)
        e = err_set(&info, ERR_INVALID, STR_FMT " needs a name (list, add, key, revoke, on, off)",
                    STR_ARG(action));
    else if (str_eq(action, STR("add"))) {
        int64_t id;
        if (!(e = caller_create(&r->centre, name, bits, a, &id, &secret, &info)))
            command_print(open.json,
                          (const struct printed[]) { { "caller", name }, { "bearer", secret } }, 2);
    } else if (str_eq(action, STR("key"))) {
        if (!(e = caller_add_key(&r->centre, name, hmac, r->master_key, a, &key_id, &secret,
                                 &info)))
            command_print(open.json,
                          (const struct printed[]) { { "key_id", key_id },
                                                     { hmac ? "secret" : "bearer", secret } },
                          2);
    } else if (str_eq(action, STR("revoke")))
        e = caller_revoke_key(&r->centre, name, &info);
    else if (str_eq(action, STR("on")) || str_eq(action, STR("off")))
        e = caller_set_state(&r->centre, name, str_eq(action, STR("on")), &info);
    else
        e = err_set(&info, ERR_INVALID, "list, add, key, revoke, on or off; not '" STR_FMT "'",
                    STR_ARG(action));
    if (e)
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return exit_code;
}
