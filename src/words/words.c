/* words.c -- finding a text in the tables: by itself, or by the format it was printed with.
 *
 * Of several formats that a text fits, the one with the most characters of its own is meant: "the
 * key is %s" fits less than "the key is %s bytes". A format that begins with a conversion does not
 * reach over a ": ", because what stands before it is a place ("fenpay.yaml:3: "). */
#include "words/tables.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

#define HOLES_MAX 12
#define DEPTH_MAX 8
#define SAID_MAX  65536

const struct words_pair *const words_tables[] = {
    words_app, words_settings, words_channel, words_core,
    words_api, words_store,    words_system,  NULL,
};

/* What stands where a format has its conversions. */
struct holes {
    struct str texts[HOLES_MAX];
    size_t n;
};

/* Steps over the conversion at `p`; `*ret_kind` is its letter. */
static const char *conversion(const char *p, char *ret_kind)
{
    p += 1 + strspn(p + 1, "0123456789.*-+ #lhzj");
    *ret_kind = *p;
    return *p ? p + 1 : p;
}

static struct str digits(struct str text)
{
    size_t n = 0;
    while (n < text.n && (text.p[n] == '-' || (text.p[n] >= '0' && text.p[n] <= '9')))
        n++;
    return n ? str_sub(text, 0, n) : STR_NONE;
}

/* What stands in `text` for a conversion, with `rest` as the format behind it; p NULL: it does not
 * fit. Of two conversions in a row the second gets all. */
static struct str hole(struct str text, char kind, const char *rest)
{
    size_t literal = strcspn(rest, "%");
    if (kind == 'd' || kind == 'i' || kind == 'u')
        return digits(text);
    if (!*rest)
        return text;
    if (literal > text.n)
        return STR_NONE;
    if (!rest[literal]) /* the format's end stands at the text's end */
        return str_sub(text, 0, text.n - literal);
    const char *p = memmem(text.p, text.n, rest, literal);
    return p ? str_sub(text, 0, (size_t)(p - text.p)) : STR_NONE;
}

/* Does `text` fit the format? *ret_own: how many characters are the format's own. */
static bool fits(const char *format, struct str text, struct holes *ret, size_t *ret_own)
{
    bool open = *format == '%';
    size_t at = 0;
    *ret_own = ret->n = 0;
    while (*format) {
        if (*format != '%') {
            if (at == text.n || text.p[at] != *format)
                return false;
            at++;
            format++;
            ++*ret_own;
            continue;
        }
        char kind;
        format = conversion(format, &kind);
        struct str said =
            ret->n < HOLES_MAX ? hole(str_sub(text, at, text.n), kind, format) : STR_NONE;
        if (!said.p || (open && at == 0 && memmem(said.p, said.n, ": ", 2)))
            return false;
        ret->texts[ret->n++] = said;
        at += said.n;
    }
    return at == text.n;
}

static const struct words_pair *find_pair(struct str text, struct holes *ret)
{
    const struct words_pair *best = NULL;
    size_t most = 0;
    for (size_t t = 0; words_tables[t]; t++)
        for (const struct words_pair *pair = words_tables[t]; pair->en; pair++) {
            struct holes holes;
            size_t own;
            if (!fits(pair->en, text, &holes, &own) || own <= most)
                continue;
            best = pair;
            most = own;
            *ret = holes;
        }
    return best;
}

static void say(struct buf *out, struct str text, int depth);

static void fill(struct buf *out, const char *format, const struct holes *holes, int depth)
{
    size_t n = 0;
    while (*format) {
        size_t literal = strcspn(format, "%");
        buf_add(out, format, literal);
        format += literal;
        if (!*format)
            return;
        char kind;
        format = conversion(format, &kind);
        if (n == holes->n)
            continue;
        if (kind == 't')
            say(out, holes->texts[n++], depth + 1);
        else
            buf_add_str(out, holes->texts[n++]);
    }
}

/* The first ": " or "; "; text.n: none. */
static size_t cut_at(struct str text)
{
    size_t at = 0;
    while (at + 1 < text.n && !((text.p[at] == ':' || text.p[at] == ';') && text.p[at + 1] == ' '))
        at++;
    return at + 1 < text.n ? at : text.n;
}

static void say(struct buf *out, struct str text, int depth)
{
    struct holes holes;
    const struct words_pair *pair = depth < DEPTH_MAX ? find_pair(text, &holes) : NULL;
    if (pair) {
        fill(out, pair->zh, &holes, depth);
        return;
    }
    size_t cut = depth < DEPTH_MAX ? cut_at(text) : text.n;
    struct str head = str_sub(text, 0, cut);
    bool place = cut < text.n && text.p[cut] == ':';
    if (cut == text.n || (place && (!head.n || !memchr(head.p, ' ', head.n))))
        buf_add_str(out, head);
    else
        say(out, head, depth + 1);
    if (cut == text.n)
        return;
    buf_add_str(out, place ? STR(": ") : STR("；"));
    say(out, str_sub(text, cut + 2, text.n), depth + 1);
}

const char *words_of(enum language language, const char *en)
{
    for (size_t t = 0; language == LANGUAGE_CHINESE && words_tables[t]; t++)
        for (const struct words_pair *pair = words_tables[t]; pair->en; pair++)
            if (strcmp(pair->en, en) == 0)
                return pair->zh;
    return en;
}

struct str words_said(struct arena *a, enum language language, struct str en)
{
    struct buf out;
    if (language == LANGUAGE_ENGLISH || en.n == 0)
        return en;
    buf_init_arena(&out, a, SAID_MAX);
    say(&out, en, 0);
    return buf_ok(&out) ? buf_str(&out) : en;
}
