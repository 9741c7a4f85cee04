/* buf.c -- the growable buffer; see buf.h for what failing means. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

#define CAP_MIN 256

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf) { .max = max };
}

void buf_init_arena(struct buf *b, struct arena *a, size_t max)
{
    *b = (struct buf) { .max = max, .arena = a };
}

void buf_done(struct buf *b)
{
    if (!b->arena)
        free(b->p);
    *b = (struct buf) { .max = b->max, .arena = b->arena };
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = false;
}

static void fail(struct buf *b)
{
    b->n = 0;
    b->failed = true;
}

/* Room for `more` bytes behind what is there, and one beyond, for the NUL of vsnprintf; false:
 * failed, now or before. */
static bool reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more <= b->cap - b->n)
        return true;
    if (more > b->max - b->n) {
        fail(b);
        return false;
    }

    size_t need = b->n + more;
    size_t cap = b->cap > b->max / 2 ? b->max : b->cap * 2;
    if (cap < CAP_MIN)
        cap = b->max < CAP_MIN ? b->max : CAP_MIN;
    if (cap < need)
        cap = need;

    char *p = b->arena ? arena_raw(b->arena, cap + 1) : realloc(b->p, cap + 1);
    if (!p) {
        fail(b); /* heap exhausted: as good as too large */
        return false;
    }
    if (b->arena && b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void buf_add_str(struct buf *b, struct str s)
{
    buf_add(b, s.p, s.n);
}

void buf_add_char(struct buf *b, char c)
{
    if (!reserve(b, 1))
        return;
    b->p[b->n++] = c;
}

void buf_add_int(struct buf *b, int64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t rest = v < 0 ? -(uint64_t)v : (uint64_t)v;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (v < 0)
        digits[--at] = '-';
    buf_add(b, digits + at, sizeof(digits) - at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    if (b->failed)
        return;

    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (n < 0) {
        fail(b);
    } else if ((size_t)n < sizeof(small)) {
        buf_add(b, small, (size_t)n);
    } else if (reserve(b, (size_t)n)) {
        (void)vsnprintf(b->p + b->n, (size_t)n + 1, format, again);
        b->n += (size_t)n;
    }
    va_end(again);
}
