/* buf.h -- a growable byte buffer that is born with its maximum.
 *
 * Exceeding the maximum makes the buffer fail for good: it becomes empty and every later call does
 * nothing, so a series of appends needs one check at the end (buf_ok). Heap memory, or an arena's
 * when given one. */
#ifndef FENPAY_BUF_H
#define FENPAY_BUF_H

#include "base/str.h"

struct buf {
    char *p;
    size_t n, cap, max;
    struct arena *arena; /* NULL: heap */
    bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_init_arena(struct buf *b, struct arena *a, size_t max);
void buf_done(struct buf *b);  /* frees; safe on an arena buffer and twice */
void buf_clear(struct buf *b); /* empty again, also after a failure; keeps the memory */

void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_add_char(struct buf *b, char c);
void buf_add_int(struct buf *b, int64_t v);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool buf_ok(const struct buf *b)
{
    return !b->failed;
}
/* A view, valid until the next append; never STR_NONE. */
static inline struct str buf_str(const struct buf *b)
{
    return (struct str) { b->p ? b->p : "", b->n };
}

#define BUF_AUTO __attribute__((cleanup(buf_done))) struct buf

#endif
