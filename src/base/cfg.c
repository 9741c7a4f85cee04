/* cfg.c -- walking a YAML document along a table of keys.
 *
 * libyaml gives the whole document as nodes with line numbers; aliases lead to the node they name.
 * The walk is as deep as the tables are, so a document that contains itself ends as well. */
#include "base/cfg.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cfg_value.h"

#define TEXT_MAX (1 << 20)

struct reader {
    struct arena *arena;
    const struct cfg_source *src;
    yaml_document_t *doc;
    struct err_info *info;
};

/* "fenpay.yaml:12: …", with the path of the key as field. */
static enum err wrong(const struct reader *r, const yaml_node_t *at, struct str path,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
static enum err wrong(const struct reader *r, const yaml_node_t *at, struct str path,
                      const char *format, ...)
{
    char text[sizeof(r->info->text)];
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    return err_field(r->info, ERR_INVALID, str_cstr(r->arena, path), STR_FMT ":%zu: %s",
                     STR_ARG(r->src->name), at->start_mark.line + 1, text);
}

static const char *shape_of(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SCALAR_NODE:
        return "a single value";
    case YAML_SEQUENCE_NODE:
        return "a list";
    case YAML_MAPPING_NODE:
        return "a mapping";
    case YAML_NO_NODE:
        break;
    }
    return "nothing";
}

static struct str scalar(const yaml_node_t *node)
{
    return (struct str) { (const char *)node->data.scalar.value, node->data.scalar.length };
}

/* "key:" with nothing behind it, or null. */
static bool is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    struct str s = scalar(node);
    return s.n == 0 || str_eq(s, STR("~")) || str_eq(s, STR("null"));
}

static struct str below(struct arena *a, struct str path, const char *name)
{
    return str_printf(a, STR_FMT "%s%s", STR_ARG(path), path.n ? "." : "", name);
}

static void mark(const struct reader *r, const yaml_node_t *at, struct str path, unsigned open_mode)
{
    struct cfg_marks *m = r->src->marks;
    if (!m)
        return;
    if (m->count == m->room) {
        size_t room = m->room ? m->room * 2 : 64;
        struct cfg_mark *items = arena_array(r->arena, room, sizeof *items);
        if (m->count)
            memcpy(items, m->items, m->count * sizeof *items);
        m->items = items;
        m->room = room;
    }
    m->items[m->count++] = (struct cfg_mark) { path, at->start_mark.line + 1, open_mode };
}

/* What the mapping at `at` does not say. */
static void mark_absent(const struct reader *r, const yaml_node_t *at, const struct cfg_key *key,
                        struct str path)
{
    mark(r, at, path, 0);
    if (key->type == CFG_SECTION)
        for (const struct cfg_key *k = key->section; k->name; k++)
            mark_absent(r, at, k, below(r->arena, path, k->name));
}

static enum err set_defaults(const struct reader *r, const struct cfg_key table[], char *ret);

/* "a, b" */
static enum err default_list(const struct reader *r, const struct cfg_key *key,
                             struct cfg_str_list *ret)
{
    struct str rest = str_of(key->fallback);
    size_t n = 1;
    for (size_t i = 0; i < rest.n; i++)
        n += rest.p[i] == ',';
    ret->items = arena_array(r->arena, n, sizeof(*ret->items));
    while (rest.n)
        ret->items[ret->count++] = str_dup(r->arena, str_trim(str_cut(&rest, ',')));
    return ERR_OK;
}

static enum err set_default(const struct reader *r, const struct cfg_key *key, char *ret)
{
    struct err_info why = { 0 };
    unsigned open_mode;
    if (key->type == CFG_SECTION)
        return set_defaults(r, key->section, ret);
    if (key->type == CFG_LIST || !key->fallback)
        return ERR_OK; /* empty, zero */
    if (key->type == CFG_STR_LIST)
        return default_list(r, key, (struct cfg_str_list *)(void *)ret);
    if (cfg_value(r->arena, r->src, key, str_of(key->fallback), ret, &open_mode, &why))
        return err_internal(r->info, "default of '%s': %s", key->name, why.text);
    return ERR_OK;
}

static enum err set_defaults(const struct reader *r, const struct cfg_key table[], char *ret)
{
    enum err e = ERR_OK;
    for (const struct cfg_key *key = table; key->name && !e; key++)
        e = set_default(r, key, ret + key->offset);
    return e;
}

static enum err read_section(const struct reader *r, const yaml_node_t *node,
                             const struct cfg_key table[], struct str path, char *ret);

static enum err read_scalar(const struct reader *r, const yaml_node_t *node,
                            const struct cfg_key *key, struct str path, void *ret)
{
    struct err_info why = { 0 };
    unsigned open_mode;
    if (node->type != YAML_SCALAR_NODE)
        return wrong(r, node, path, "'" STR_FMT "' wants a single value, not %s", STR_ARG(path),
                     shape_of(node));
    if (is_null(node))
        return wrong(r, node, path, "'" STR_FMT "' has no value", STR_ARG(path));
    if (cfg_value(r->arena, r->src, key, scalar(node), ret, &open_mode, &why))
        return wrong(r, node, path, "'" STR_FMT "': %s", STR_ARG(path), why.text);
    mark(r, node, path, open_mode);
    return ERR_OK;
}

/* The elements of a list; null is an empty one. */
static enum err elements(const struct reader *r, const yaml_node_t *node, struct str path,
                         const yaml_node_item_t **ret, size_t *ret_count)
{
    *ret_count = 0;
    if (is_null(node))
        return ERR_OK;
    if (node->type != YAML_SEQUENCE_NODE)
        return wrong(r, node, path, "'" STR_FMT "' wants a list, not %s", STR_ARG(path),
                     shape_of(node));
    *ret = node->data.sequence.items.start;
    *ret_count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    return ERR_OK;
}

static enum err read_str_list(const struct reader *r, const yaml_node_t *node,
                              const struct cfg_key *key, struct str path, struct cfg_str_list *ret)
{
    const yaml_node_item_t *item;
    size_t count;
    enum err e = elements(r, node, path, &item, &count);
    if (e)
        return e;
    mark(r, node, path, 0);
    ret->items = arena_array(r->arena, count, sizeof(*ret->items));
    for (; ret->count < count; ret->count++) {
        struct str at = str_printf(r->arena, STR_FMT "[%zu]", STR_ARG(path), ret->count);
        e = read_scalar(r, yaml_document_get_node(r->doc, item[ret->count]), key, at,
                        &ret->items[ret->count]);
        if (e)
            return e;
    }
    return ERR_OK;
}

static enum err read_list(const struct reader *r, const yaml_node_t *node,
                          const struct cfg_key *key, struct str path, struct cfg_list *ret)
{
    const yaml_node_item_t *item;
    size_t count;
    enum err e = elements(r, node, path, &item, &count);
    if (e)
        return e;
    mark(r, node, path, 0);
    char *items = arena_array(r->arena, count, key->element_size);
    ret->items = items;
    for (; ret->count < count; ret->count++) {
        struct str at = str_printf(r->arena, STR_FMT "[%zu]", STR_ARG(path), ret->count);
        e = read_section(r, yaml_document_get_node(r->doc, item[ret->count]), key->section, at,
                         items + ret->count * key->element_size);
        if (e)
            return e;
    }
    return ERR_OK;
}

static enum err read_member(const struct reader *r, const yaml_node_t *node,
                            const struct cfg_key *key, struct str path, char *ret)
{
    switch (key->type) {
    case CFG_SECTION:
        return read_section(r, node, key->section, path, ret);
    case CFG_LIST:
        return read_list(r, node, key, path, (struct cfg_list *)(void *)ret);
    case CFG_STR_LIST:
        return read_str_list(r, node, key, path, (struct cfg_str_list *)(void *)ret);
    case CFG_STR:
    case CFG_INT:
    case CFG_BOOL:
    case CFG_MS:
    case CFG_BYTES:
    case CFG_FEN:
    case CFG_ENUM:
        break;
    }
    return read_scalar(r, node, key, path, ret);
}

static const struct cfg_key *find_key(const struct cfg_key table[], struct str name)
{
    for (const struct cfg_key *key = table; key->name; key++)
        if (str_eq(str_of(key->name), name))
            return key;
    return NULL;
}

static enum err unknown_key(const struct reader *r, const yaml_node_t *at,
                            const struct cfg_key table[], struct str path, struct str name)
{
    size_t n = 0;
    while (table[n].name)
        n++;
    struct str *names = arena_array(r->arena, n, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = str_of(table[i].name);
    struct str near = cfg_nearest(name, names, n);
    if (near.n)
        return wrong(r, at, path, "unknown key '" STR_FMT "' (did you mean '" STR_FMT "'?)",
                     STR_ARG(name), STR_ARG(near));
    return wrong(r, at, path, "unknown key '" STR_FMT "'", STR_ARG(name));
}

/* What the mapping says under `name`; NULL: nothing. */
static const yaml_node_t *member(const struct reader *r, const yaml_node_t *mapping,
                                 const char *name)
{
    const yaml_node_pair_t *end = mapping->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < end; pair++)
        if (str_eq(scalar(yaml_document_get_node(r->doc, pair->key)), str_of(name)))
            return yaml_document_get_node(r->doc, pair->value);
    return NULL;
}

/* Every key is a known name, and stands once. */
static enum err check_keys(const struct reader *r, const yaml_node_t *mapping,
                           const struct cfg_key table[], struct str path)
{
    const yaml_node_pair_t *start = mapping->data.mapping.pairs.start,
                           *end = mapping->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = start; pair < end; pair++) {
        const yaml_node_t *key = yaml_document_get_node(r->doc, pair->key);
        if (key->type != YAML_SCALAR_NODE)
            return wrong(r, key, path, "a key must be a single word");
        struct str full = below(r->arena, path, str_cstr(r->arena, scalar(key)));
        if (!find_key(table, scalar(key)))
            return unknown_key(r, key, table, full, scalar(key));
        for (const yaml_node_pair_t *earlier = start; earlier < pair; earlier++)
            if (str_eq(scalar(yaml_document_get_node(r->doc, earlier->key)), scalar(key)))
                return wrong(r, key, full, "'" STR_FMT "' stands here a second time",
                             STR_ARG(full));
    }
    return ERR_OK;
}

static enum err read_section(const struct reader *r, const yaml_node_t *node,
                             const struct cfg_key table[], struct str path, char *ret)
{
    bool empty = is_null(node);
    if (!empty && node->type != YAML_MAPPING_NODE)
        return wrong(r, node, path, "'" STR_FMT "' wants a mapping, not %s", STR_ARG(path),
                     shape_of(node));
    enum err e = empty ? ERR_OK : check_keys(r, node, table, path);

    mark(r, node, path, 0);
    for (const struct cfg_key *key = table; key->name && !e; key++) {
        const yaml_node_t *value = empty ? NULL : member(r, node, key->name);
        struct str full = below(r->arena, path, key->name);
        if (value)
            e = read_member(r, value, key, full, ret + key->offset);
        else if (key->flags & CFG_MANDATORY)
            e = wrong(r, node, full, "'" STR_FMT "' is missing", STR_ARG(full));
        else {
            mark_absent(r, node, key, full);
            e = set_default(r, key, ret + key->offset);
        }
    }
    return e;
}

static enum err syntax_error(const struct reader *r, const yaml_parser_t *parser)
{
    return err_set(r->info, ERR_INVALID, STR_FMT ":%zu: %s", STR_ARG(r->src->name),
                   parser->problem_mark.line + 1,
                   parser->problem ? parser->problem : "cannot be read");
}

static enum err read_document(struct reader *r, yaml_parser_t *parser, const struct cfg_key table[],
                              char *made)
{
    yaml_document_t doc, behind;
    if (!yaml_parser_load(parser, &doc))
        return syntax_error(r, parser);
    r->doc = &doc;

    enum err e;
    yaml_node_t *root = yaml_document_get_root_node(&doc);
    const yaml_node_t nothing = { .type = YAML_SCALAR_NODE,
                                  .data.scalar.style = YAML_PLAIN_SCALAR_STYLE };
    if (root && !is_null(root) && root->type != YAML_MAPPING_NODE)
        e = wrong(r, root, STR(""), "the file must be a mapping of keys, not %s", shape_of(root));
    else
        e = read_section(r, root ? root : &nothing, table, STR(""), made);

    if (!e && root) {
        if (!yaml_parser_load(parser, &behind)) {
            e = syntax_error(r, parser);
        } else {
            yaml_node_t *second = yaml_document_get_root_node(&behind);
            if (second)
                e = wrong(r, second, STR(""), "a second document; there must be one");
            yaml_document_delete(&behind);
        }
    }
    yaml_document_delete(&doc);
    return e;
}

enum err cfg_read(struct arena *a, const struct cfg_source *src, const struct cfg_key table[],
                  void *ret, size_t ret_size, struct err_info *info)
{
    if (src->text.n > TEXT_MAX)
        return err_set(info, ERR_LIMIT, STR_FMT ": larger than %d bytes", STR_ARG(src->name),
                       TEXT_MAX);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return err_internal(info, "no YAML parser");
    static const struct str bom = STR_INIT("\xEF\xBB\xBF"); /* some editors begin files with it */
    struct str text =
        str_starts(src->text, bom) ? str_sub(src->text, bom.n, src->text.n) : src->text;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.n ? text.p : ""), text.n);

    if (src->marks)
        *src->marks = (struct cfg_marks) { .name = src->name };
    char *made = arena_alloc(a, ret_size); /* aside, so that a failure leaves *ret alone */
    struct reader r = { .arena = a, .src = src, .info = info };
    enum err e = read_document(&r, &parser, table, made);
    yaml_parser_delete(&parser);
    if (!e)
        memcpy(ret, made, ret_size);
    return e;
}

enum err cfg_defaults(struct arena *a, const struct cfg_key table[], void *ret, size_t ret_size,
                      struct err_info *info)
{
    static const struct cfg_source none = { .name = STR_INIT("defaults") };
    const struct reader r = { .arena = a, .src = &none, .info = info };
    char *made = arena_alloc(a, ret_size);
    enum err e = set_defaults(&r, table, made);
    if (!e)
        memcpy(ret, made, ret_size);
    return e;
}
