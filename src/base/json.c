/* json.c -- the strict reader: one pass by recursive descent, bounded in depth and values.
 *
 * A callback of 900 bytes is mostly one long Base64 text, so plain text is skipped eight bytes at a
 * time and nothing is copied unless it holds escapes. Keys are compared pairwise in small objects
 * and sorted in large ones, so that no input makes the check for duplicates quadratic. */
#include "base/json.h"

#include <stdlib.h>

#include "base/arena.h"

#define POOL_NODES  32
#define SMALL_COUNT 16 /* members up to which pairs are compared */

struct reader {
    struct arena *arena;
    const char *start, *p, *end;
    struct json *pool; /* nodes not used yet */
    size_t pool_left;
    size_t values;
    struct err_info *info;
};

static enum err bad_at(struct reader *r, const char *at, const char *what)
{
    return err_set(r->info, ERR_INVALID, "byte %zu: %s", (size_t)(at - r->start), what);
}

static enum err bad(struct reader *r, const char *what)
{
    return bad_at(r, r->p, r->p == r->end ? "unexpected end" : what);
}

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* Takes `c` when it stands here. */
static bool take(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* The first byte at or after `p` that is not plain ASCII text. */
static const char *skip_plain(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, sizeof(w));
        uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\';
        /* Subtracting borrows into the high bit where a byte is small enough (0x20) or zero; a
         * borrow may spill into the next byte, which only sends us to the loop below early. */
        if ((w | (w - ones * 0x20) | (quote - ones) | (backslash - ones)) & highs)
            break;
        p += 8;
    }
    while (p < end && is_plain((unsigned char)*p))
        p++;
    return p;
}

/* Four hexadecimal digits at `p`; -1: not there. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v * 16 + ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return v;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* What follows "\u", with the second half of a surrogate pair; NULL text: fine. Moves `*p` behind
 * it. */
static const char *unicode_escape(const char **p, const char *end, unsigned *ret)
{
    int code = hex4(*p, end);
    if (code < 0)
        return "bad \\u escape";
    if (code == 0)
        return "NUL in text";
    *p += 4;
    if (code >= 0xd800 && code <= 0xdfff) {
        int low = end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' ? hex4(*p + 2, end) : -1;
        if (code > 0xdbff || low < 0xdc00 || low > 0xdfff)
            return "unpaired surrogate";
        *p += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *ret = (unsigned)code;
    return NULL;
}

/* `raw` is valid between its quotes but for its escapes; the result is never longer. */
static enum err unescape(struct reader *r, struct str raw, struct str *ret)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char *made = arena_alloc(r->arena, raw.n);
    char *w = made;
    const char *p = raw.p, *end = raw.p + raw.n;
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((escape ? escape : end) - p);
        memcpy(w, p, run);
        w += run;
        p += run;
        if (!escape)
            break;

        char c = p[1]; /* there is one: a backslash is never the last byte before the quote */
        const char *known = c ? strchr(from, c) : NULL;
        p += 2;
        if (known) {
            *w++ = to[known - from];
            continue;
        }
        unsigned code = 0;
        const char *wrong = c == 'u' ? unicode_escape(&p, end, &code) : "unknown escape";
        if (wrong)
            return bad_at(r, escape, wrong);
        w = put_utf8(w, code);
    }
    *ret = (struct str) { made, (size_t)(w - made) };
    return ERR_OK;
}

/* The text behind an opening quote; moves behind the closing one. */
static enum err read_string(struct reader *r, struct str *ret)
{
    const char *from = r->p;
    bool escapes = false;
    for (;;) {
        r->p = skip_plain(r->p, r->end);
        if (r->p == r->end)
            return bad(r, "");
        unsigned char c = (unsigned char)*r->p;
        if (c == '"')
            break;
        if (c < 0x20)
            return bad(r, "control character in text");
        if (c == '\\') {
            escapes = true;
            if (r->end - r->p < 2)
                return bad_at(r, r->end, "unexpected end");
            r->p++;
            if (is_plain((unsigned char)*r->p) || *r->p == '"' || *r->p == '\\')
                r->p++;
            continue; /* unescape judges what stood there, the loop what is not ASCII text */
        }
        size_t length = str_utf8_length(r->p, (size_t)(r->end - r->p));
        if (!length)
            return bad(r, "invalid UTF-8");
        r->p += length;
    }

    struct str raw = { from, (size_t)(r->p - from) };
    r->p++;
    if (escapes)
        return unescape(r, raw, ret);
    *ret = raw;
    return ERR_OK;
}

static bool take_digits(struct reader *r)
{
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > from;
}

static enum err read_number(struct reader *r, struct str *ret)
{
    const char *from = r->p;
    (void)take(r, '-');
    if (!take(r, '0') && !take_digits(r))
        return bad(r, "expected a digit");
    if (take(r, '.') && !take_digits(r))
        return bad(r, "expected a digit");
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '+'))
            (void)take(r, '-');
        if (!take_digits(r))
            return bad(r, "expected a digit");
    }
    *ret = (struct str) { from, (size_t)(r->p - from) };
    return ERR_OK;
}

static enum err read_word(struct reader *r, struct str word, enum json_type type, struct json *ret)
{
    if (!str_starts((struct str) { r->p, (size_t)(r->end - r->p) }, word))
        return bad(r, "unexpected character");
    r->p += word.n;
    ret->type = type;
    return ERR_OK;
}

static enum err new_node(struct reader *r, struct json **ret)
{
    if (r->values++ == JSON_VALUES_MAX)
        return err_set(r->info, ERR_LIMIT, "more than %d values", JSON_VALUES_MAX);
    if (!r->pool_left) {
        r->pool = arena_array(r->arena, POOL_NODES, sizeof(*r->pool));
        r->pool_left = POOL_NODES;
    }
    r->pool_left--;
    *ret = r->pool++;
    return ERR_OK;
}

static int by_key(const void *a, const void *b)
{
    return str_cmp((*(const struct json *const *)a)->key, (*(const struct json *const *)b)->key);
}

static const struct json *duplicate_in_large(struct reader *r, const struct json *object)
{
    const struct json **sorted = arena_array(r->arena, object->count, sizeof(*sorted));
    size_t n = 0;
    for (const struct json *m = object->first; m; m = m->next)
        sorted[n++] = m;
    qsort(sorted, n, sizeof(*sorted), by_key);
    for (size_t i = 1; i < n; i++)
        if (str_eq(sorted[i - 1]->key, sorted[i]->key))
            return sorted[i];
    return NULL;
}

static const struct json *duplicate_in_small(const struct json *object)
{
    for (const struct json *m = object->first; m; m = m->next)
        for (const struct json *later = m->next; later; later = later->next)
            if (str_eq(m->key, later->key))
                return later;
    return NULL;
}

static enum err read_value(struct reader *r, unsigned depth, struct json *ret);

/* "key": */
static enum err read_key(struct reader *r, struct str *ret)
{
    skip_blanks(r);
    if (!take(r, '"'))
        return bad(r, "expected a key");
    enum err e = read_string(r, ret);
    if (e)
        return e;
    skip_blanks(r);
    return take(r, ':') ? ERR_OK : bad(r, "expected ':'");
}

/* The members or elements behind an opening bracket, and the closing one. */
static enum err read_children(struct reader *r, unsigned depth, char closing, struct json *ret)
{
    if (depth > JSON_DEPTH_MAX)
        return err_set(r->info, ERR_LIMIT, "deeper than %d", JSON_DEPTH_MAX);
    skip_blanks(r);
    if (take(r, closing))
        return ERR_OK;

    const struct json **link = &ret->first;
    do {
        struct json *child;
        enum err e = new_node(r, &child);
        if (!e && ret->type == JSON_OBJECT)
            e = read_key(r, &child->key);
        if (!e)
            e = read_value(r, depth, child);
        if (e)
            return e;
        *link = child;
        link = &child->next;
        ret->count++;
        skip_blanks(r);
    } while (take(r, ','));
    if (!take(r, closing))
        return bad(r, ret->type == JSON_OBJECT ? "expected ',' or '}'" : "expected ',' or ']'");
    if (ret->type != JSON_OBJECT)
        return ERR_OK;

    const struct json *twice =
        ret->count > SMALL_COUNT ? duplicate_in_large(r, ret) : duplicate_in_small(ret);
    return twice ? bad_at(r, twice->raw.p, "duplicate key") : ERR_OK;
}

/* `depth` containers are open around it. */
static enum err read_value(struct reader *r, unsigned depth, struct json *ret)
{
    enum err e;
    skip_blanks(r);
    const char *from = r->p;
    switch (r->p < r->end ? *r->p : '\0') {
    case '"':
        r->p++;
        ret->type = JSON_STRING;
        e = read_string(r, &ret->text);
        break;
    case '{':
        r->p++;
        ret->type = JSON_OBJECT;
        e = read_children(r, depth + 1, '}', ret);
        break;
    case '[':
        r->p++;
        ret->type = JSON_ARRAY;
        e = read_children(r, depth + 1, ']', ret);
        break;
    case 't':
        e = read_word(r, STR("true"), JSON_TRUE, ret);
        break;
    case 'f':
        e = read_word(r, STR("false"), JSON_FALSE, ret);
        break;
    case 'n':
        e = read_word(r, STR("null"), JSON_NULL, ret);
        break;
    case '-':
    case '0' ... '9':
        ret->type = JSON_NUMBER;
        e = read_number(r, &ret->text);
        break;
    default:
        e = bad(r, "unexpected character");
    }
    ret->raw = (struct str) { from, (size_t)(r->p - from) };
    return e;
}

enum err json_parse(struct arena *a, struct str text, const struct json **ret,
                    struct err_info *info)
{
    const char *start = text.n ? text.p : "";
    struct reader r = {
        .arena = a, .start = start, .p = start, .end = start + text.n, .info = info
    };
    struct json *root;
    enum err e = new_node(&r, &root);
    if (!e)
        e = read_value(&r, 0, root);
    if (e)
        return e;
    skip_blanks(&r);
    if (r.p != r.end)
        return bad(&r, "something stands behind the value");
    *ret = root;
    return ERR_OK;
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    struct str wanted = str_of(key);
    for (const struct json *m = object->first; m; m = m->next)
        if (str_eq(m->key, wanted))
            return m;
    return NULL;
}

/* The member, when it is there and not null. */
static enum err get(const struct json *object, const char *key, const struct json **ret,
                    struct err_info *info)
{
    const struct json *m = json_get(object, key);
    if (!m || m->type == JSON_NULL)
        return err_field(info, ERR_NOT_FOUND, key, "%s is missing", key);
    *ret = m;
    return ERR_OK;
}

enum err json_get_str(const struct json *object, const char *key, struct str *ret,
                      struct err_info *info)
{
    const struct json *m;
    enum err e = get(object, key, &m, info);
    if (e)
        return e;
    if (m->type != JSON_STRING)
        return err_field(info, ERR_INVALID, key, "%s is not a string", key);
    *ret = m->text;
    return ERR_OK;
}

enum err json_int(const struct json *value, int64_t *ret)
{
    return value && value->type == JSON_NUMBER ? str_int64(value->text, ret) : ERR_INVALID;
}

enum err json_get_int(const struct json *object, const char *key, int64_t *ret,
                      struct err_info *info)
{
    const struct json *m;
    enum err e = get(object, key, &m, info);
    if (e)
        return e;
    return json_int(m, ret) ? err_field(info, ERR_INVALID, key, "%s is not an integer", key)
                            : ERR_OK;
}

enum err json_get_bool(const struct json *object, const char *key, bool *ret, struct err_info *info)
{
    const struct json *m;
    enum err e = get(object, key, &m, info);
    if (e)
        return e;
    if (m->type != JSON_TRUE && m->type != JSON_FALSE)
        return err_field(info, ERR_INVALID, key, "%s is not true or false", key);
    *ret = m->type == JSON_TRUE;
    return ERR_OK;
}
