/* cfg_describe.c -- the table of keys as text for people and as the page in docs/. */
#include "base/cfg.h"

#include "base/buf.h"

static const char *const type_names[] = {
    [CFG_STR] = "text",
    [CFG_INT] = "integer",
    [CFG_BOOL] = "true or false",
    [CFG_MS] = "time (ms, s, m, h, d)",
    [CFG_BYTES] = "size (KB, MB, GB)",
    [CFG_FEN] = "fen",
    [CFG_ENUM] = "one of",
    [CFG_STR_LIST] = "list of texts",
    [CFG_SECTION] = "section",
    [CFG_LIST] = "list",
};

/* The path of a key: its ancestors are linked through the recursion. */
struct path {
    const struct path *above;
    const struct cfg_key *key;
};

struct description {
    bool markdown;
    cfg_language *in;
    struct buf *out;
};

static void add_path(struct buf *out, const struct path *p)
{
    if (p->above) {
        add_path(out, p->above);
        buf_add_char(out, '.');
    }
    buf_add_str(out, str_of(p->key->name));
    if (p->key->type == CFG_LIST)
        buf_add_str(out, STR("[]"));
}

/* "one of dev, test, production", "integer, 1 to 65535" */
static void add_type(const struct description *d, const struct cfg_key *key)
{
    struct buf *out = d->out;
    buf_add_str(out, str_of(d->in(type_names[key->type])));
    if (key->type == CFG_ENUM) {
        struct str rest = str_of(key->choices);
        for (const char *comma = " "; rest.p; comma = ", ") {
            buf_add_str(out, str_of(comma));
            buf_add_str(out, str_cut(&rest, '|'));
        }
    }
    if (key->max > key->min)
        buf_printf(out, ", %lld %s %lld%s", (long long)key->min, d->in("to"), (long long)key->max,
                   key->type == CFG_MS ? " ms" : "");
}

static void add_flags(const struct description *d, const struct cfg_key *key, const char *comma)
{
    static const struct {
        enum cfg_flags flag;
        const char *name;
    } flags[] = { { CFG_MANDATORY, "mandatory" },
                  { CFG_RELOADABLE, "reloadable" },
                  { CFG_SECRET, "secret" } };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (!(key->flags & flags[i].flag))
            continue;
        buf_printf(d->out, "%s%s", comma, d->in(flags[i].name));
        comma = ", ";
    }
}

static void line_markdown(const struct description *d, const struct path *p)
{
    const struct cfg_key *key = p->key;
    struct buf *out = d->out;
    buf_add_str(out, STR("| `"));
    add_path(out, p);
    buf_add_str(out, STR("` | "));
    add_type(d, key);
    buf_add_str(out, STR(" | "));
    if (key->fallback)
        buf_printf(out, "`%s`", key->fallback);
    buf_add_str(out, STR(" | "));
    add_flags(d, key, "");
    buf_printf(out, " | %s |\n", key->help ? d->in(key->help) : "");
}

static void line_text(const struct description *d, const struct path *p)
{
    const struct cfg_key *key = p->key;
    struct buf *out = d->out;
    add_path(out, p);
    buf_add_str(out, STR(": "));
    add_type(d, key);
    if (key->fallback)
        buf_printf(out, ", %s %s", d->in("default"), key->fallback);
    add_flags(d, key, ", ");
    buf_printf(out, "\n    %s\n", key->help ? d->in(key->help) : "");
}

static void describe(const struct description *d, const struct cfg_key table[],
                     const struct path *above)
{
    for (const struct cfg_key *key = table; key->name; key++) {
        struct path p = { .above = above, .key = key };
        if (d->markdown)
            line_markdown(d, &p);
        else
            line_text(d, &p);
        if (key->section)
            describe(d, key->section, &p);
    }
}

void cfg_describe(const struct cfg_key table[], bool markdown, cfg_language *in, struct buf *out)
{
    const struct description d = { markdown, in, out };
    if (markdown)
        buf_add_str(out,
                    str_of(in("| key | type | default | | meaning |\n|---|---|---|---|---|\n")));
    describe(&d, table, NULL);
}
