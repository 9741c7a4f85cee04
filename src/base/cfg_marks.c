/* cfg_marks.c -- what is known of the values besides the values: where they stand, for messages,
 * and which of them a reload takes over. */
#include "base/cfg.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

/* `path` is `field` below `prefix`, or in a section below it. */
static bool names(struct str path, struct str prefix, struct str field)
{
    if (!str_starts(path, prefix))
        return false;
    struct str rest = str_sub(path, prefix.n, path.n);
    if (prefix.n && str_starts(rest, STR(".")))
        rest = str_sub(rest, 1, rest.n);
    else if (prefix.n && rest.n)
        return false;
    if (!str_ends(rest, field))
        return false;
    rest.n -= field.n;
    return rest.n == 0 || field.n == 0 || str_ends(rest, STR("."));
}

/* The exact path wins over one in a section; then the thing itself that `prefix` names. */
static const struct cfg_mark *find(const struct cfg_marks *m, struct str prefix, struct str field)
{
    const struct cfg_mark *best = NULL, *whole = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct cfg_mark *mark = &m->items[i];
        if (str_eq(mark->path, prefix))
            whole = mark;
        if (field.n && names(mark->path, prefix, field) && (!best || mark->path.n < best->path.n))
            best = mark;
    }
    return best ? best : whole;
}

void cfg_blame(const struct cfg_marks *m, const char *prefix, struct err_info *info)
{
    if (!info)
        return;
    char path[sizeof info->field], text[sizeof info->text];
    const struct cfg_mark *mark = find(m, str_of(prefix), str_of(info->field));
    memcpy(text, info->text, sizeof text);
    int n = mark ? snprintf(path, sizeof path, STR_FMT, STR_ARG(mark->path))
                 : snprintf(path, sizeof path, "%s%s%s", prefix,
                            *prefix && info->field[0] ? "." : "", info->field);
    const char *colon = n > 0 ? ": " : "";
    if (n < 0)
        path[0] = '\0';
    if (mark)
        err_fill(info, info->err, path, STR_FMT ":%zu: %s%s%s", STR_ARG(m->name), mark->line, path,
                 colon, text);
    else
        err_fill(info, info->err, path, "%s%s%s", path, colon, text);
}

static bool same_texts(const struct cfg_str_list *x, const struct cfg_str_list *y)
{
    bool same = x->count == y->count;
    for (size_t i = 0; same && i < x->count; i++)
        same = str_eq(x->items[i], y->items[i]);
    return same;
}

/* Lists of mappings are equal when both are as long; only whole ones are ever compared, and the one
 * there is can be reloaded. */
static bool same(const struct cfg_key *key, const void *x, const void *y)
{
    switch (key->type) {
    case CFG_STR:
        return str_eq(*(const struct str *)x, *(const struct str *)y);
    case CFG_STR_LIST:
        return same_texts(x, y);
    case CFG_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case CFG_ENUM:
        return *(const int *)x == *(const int *)y;
    case CFG_INT:
    case CFG_MS:
    case CFG_BYTES:
    case CFG_FEN:
        return *(const int64_t *)x == *(const int64_t *)y;
    case CFG_LIST:
        return ((const struct cfg_list *)x)->count == ((const struct cfg_list *)y)->count;
    case CFG_SECTION:
        break;
    }
    return true;
}

static void print_changes(const struct cfg_key table[], const char *prefix, const char *old,
                          const char *fresh, struct buf *out)
{
    for (const struct cfg_key *key = table; key->name; key++) {
        if (key->type == CFG_SECTION) {
            char path[64];
            snprintf(path, sizeof path, "%s%s.", prefix, key->name);
            print_changes(key->section, path, old + key->offset, fresh + key->offset, out);
        } else if (!(key->flags & CFG_RELOADABLE) &&
                   !same(key, old + key->offset, fresh + key->offset))
            buf_printf(out, "%s%s%s", out->n ? ", " : "", prefix, key->name);
    }
}

void cfg_print_fixed_changes(const struct cfg_key table[], const void *old, const void *fresh,
                             struct buf *out)
{
    print_changes(table, "", old, fresh, out);
}
