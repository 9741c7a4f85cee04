/* webhook.c -- subscribers of events. A signing secret is shown once, when it is made. */
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"

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

static struct str type_names(struct arena *a, unsigned types)
{
    BUF_AUTO b = { 0 };
    buf_init(&b, 1024);
    for (unsigned type = EVENT_PAYMENT_SUCCESS; type <= EVENT_RECON_FINISHED; type++)
        if (types & EVENT_BIT(type))
            buf_printf(&b, "%s%s", b.n ? "," : "", event_type_name((enum event_type)type));
    return str_dup(a, buf_str(&b));
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

static int refused(const struct command *self, enum code code)
{
    fprintf(stderr, "fenpay %s: %s\n", self->name, command_code_text(code));
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
    for (size_t i = 0; i < l.n; i++) {
        struct str types = type_names(a, l.rows[i].types);
        if (!json && i > 0)
            putchar('\n');
        command_print(json,
                      (const struct printed[]) {
                          { "webhook_id", str_printf(a, "%lld", (long long)l.rows[i].id) },
                          { "url", l.rows[i].url },
                          { "types", types.n || json ? types : STR("all"), PRINTED_LIST },
                          { "state", l.rows[i].on ? STR("on") : STR("off") } },
                      4);
    }
    return EXIT_FINE;
}

static void print_secret(struct arena *a, bool json, int64_t id, struct str secret)
{
    command_print(json,
                  (const struct printed[]) { { "webhook_id", str_printf(a, "%lld", (long long)id) },
                                             { "secret", secret } },
                  2);
}

struct webhook_command {
    struct str action, target; /* a URL or an id */
    int64_t caller;
    unsigned types;
    bool json;
};

static enum err act_on_one(struct runtime *r, struct arena *a, const struct webhook_command *c,
                           struct err_info *info)
{
    int64_t id;
    struct str secret;
    bool on = str_eq(c->action, STR("on"));
    enum err e =
        str_int64(c->target, &id) ? err_set(info, ERR_NOT_FOUND, "no such webhook") : ERR_OK;
    if (!e && str_eq(c->action, STR("rotate"))) {
        if (!(e = webhook_new_secret(&r->centre, c->caller, id, r->master_key, a, &secret, info)))
            print_secret(a, c->json, id, secret);
        return e;
    }
    if (!e && !(e = webhook_switch(&r->centre, c->caller, id, on, a, info)))
        command_print(c->json,
                      (const struct printed[]) { { "webhook_id", c->target },
                                                 { "state", on ? STR("on") : STR("off") } },
                      2);
    return e;
}

static bool is_one_of(struct str action, const char *a, const char *b, const char *c)
{
    return str_eq(action, str_of(a)) || str_eq(action, str_of(b)) || str_eq(action, str_of(c));
}

static const char actions[] = "list; add URL; rotate ID; on ID; off ID";

static enum err act(struct runtime *r, struct arena *a, const struct webhook_command *c,
                    struct err_info *info)
{
    if (c->target.n && is_one_of(c->action, "on", "off", "rotate"))
        return act_on_one(r, a, c, info);
    if (!c->target.n || !str_eq(c->action, STR("add")))
        return err_set(info, ERR_INVALID, "one of: %s", actions);
    int64_t id;
    struct str secret;
    enum err e =
        webhook_create(&r->centre, c->caller, c->target, c->types,
                       r->settings.webhook.private_addresses, r->master_key, a, &id, &secret, info);
    if (!e)
        print_secret(a, c->json, id, secret);
    return e;
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

    struct webhook_command c = {
        .action = words[0], .target = n > 1 ? words[1] : STR_NONE, .types = types, .json = open.json
    };
    struct caller_ref whose;
    e = command_find_caller(r, a, caller, &whose, &info);
    c.caller = e ? 0 : whose.id;
    if (!e && str_eq(c.action, STR("list")))
        exit_code = list(self, r, a, c.caller, open.json);
    else if (!e)
        e = act(r, a, &c, &info);
    if (e)
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return exit_code;
}
