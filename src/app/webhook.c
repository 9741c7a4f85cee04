/* webhook.c -- subscribers of events. A signing secret is shown once, when it is made. */
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"

static enum err caller_of(struct runtime *r, struct arena *a, struct str name, int64_t *ret,
                          struct err_info *info)
{
    struct caller_row rows[256];
    size_t n = 0;
    enum err e = caller_list(&r->centre, a, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++)
        if (str_eq(rows[i].name, name)) {
            *ret = rows[i].id;
            return ERR_OK;
        }
    return e ? e : err_set(info, ERR_NOT_FOUND, "no caller named '" STR_FMT "'", STR_ARG(name));
}

static enum err parse_types(struct str text, unsigned *ret, struct err_info *info)
{
    unsigned types = 0;
    while (text.p) {
        struct str word = str_cut(&text, ',');
        enum event_type type;
        if (event_type_parse(word, &type))
            return err_set(info, ERR_INVALID, "no event named '" STR_FMT "'", STR_ARG(word));
        types |= EVENT_BIT(type);
    }
    *ret = types;
    return ERR_OK;
}

struct list_arg {
    int64_t caller;
    struct webhook rows[64];
    size_t n;
    struct arena *arena;
};

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct list_arg *l = arg;
    enum err e = webhook_list(tx, l->caller, l->rows, 64, &l->n, info);
    for (size_t i = 0; !e && i < l->n; i++)
        l->rows[i].url = str_dup(l->arena, l->rows[i].url);
    return e;
}

struct set_arg {
    int64_t caller, id;
    bool on;
};

static enum err set_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct set_arg *s = arg;
    return webhook_set(tx, s->caller, s->id, s->on, info);
}

static int refused(const struct command *self, enum code code)
{
    fprintf(stderr, "fenpay %s: %s\n", self->name, code_info(code)->en);
    return code == CODE_NOT_FOUND ? EXIT_FOUND : EXIT_TEMP;
}

static int list(const struct command *self, struct runtime *r, struct arena *a, int64_t caller,
                bool json)
{
    struct list_arg l = { .caller = caller, .arena = a };
    struct refusal refusal;
    enum code code = centre_read(&r->centre, "webhook_list", 0, list_rule, &l, &refusal);
    if (code)
        return refused(self, code);
    for (size_t i = 0; i < l.n; i++)
        command_print(
            json,
            (const struct printed[]) { { "id", str_printf(a, "%lld", (long long)l.rows[i].id) },
                                       { "url", l.rows[i].url },
                                       { "state", l.rows[i].on ? STR("on") : STR("off") } },
            3);
    return EXIT_FINE;
}

int command_webhook(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str caller = STR_NONE, types_text = STR_NONE, words[2];
    size_t n = 0;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        OPEN_OPTIONS(open),
        { "caller", OPTION_TEXT, &caller, "NAME", "Whose (always needed)" },
        { "types", OPTION_TEXT, &types_text, "LIST",
          "With add: only these events (payment.success,order.paid …)" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 1, 2, words, &n, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(8192);
    struct err_info info = { 0 };
    unsigned types = 0;
    enum err e = types_text.p ? parse_types(types_text, &types, &info) : ERR_OK;
    if (!e && !caller.n)
        e = err_set(&info, ERR_INVALID, "--caller NAME says whose webhooks");
    if (e)
        return complain(self, e, &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    struct set_arg set = { .on = str_eq(words[0], STR("on")) };
    struct str secret;
    e = caller_of(r, a, caller, &set.caller, &info);
    if (!e && str_eq(words[0], STR("list")))
        exit_code = list(self, r, a, set.caller, open.json);
    else if (!e && n == 2 && str_eq(words[0], STR("add"))) {
        if (!(e = webhook_create(&r->centre, set.caller, words[1], types,
                                 r->settings.webhook.private_addresses, r->master_key, a, &set.id,
                                 &secret, &info)))
            command_print(
                open.json,
                (const struct printed[]) { { "id", str_printf(a, "%lld", (long long)set.id) },
                                           { "secret", secret } },
                2);
    } else if (!e && n == 2 && (set.on || str_eq(words[0], STR("off"))) &&
               !str_int64(words[1], &set.id)) {
        struct refusal refusal;
        enum code code =
            centre_run(&r->centre, "webhook_set", STORE_API, 0, set_rule, &set, 2, &refusal);
        exit_code = code ? refused(self, code) : EXIT_FINE;
    } else if (!e)
        e = err_set(&info, ERR_INVALID, "list; add URL; on ID; off ID");
    if (e)
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return exit_code;
}
