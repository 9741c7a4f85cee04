/* err.c -- filling err_info and naming errors. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The length of the longest prefix of `s` that fits `max` bytes and does not end inside a UTF-8
 * sequence. */
static size_t cut_length(const char *s, size_t max)
{
    size_t n = strnlen(s, max + 1);
    if (n <= max)
        return n;
    n = max;
    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Text and field are made aside first, because they may quote what `info` holds now ("reading x:
 * %s", info->text). */
void err_fill(struct err_info *info, enum err e, const char *field, const char *format, ...)
{
    if (!info)
        return;

    struct err_info made = { .err = e };
    char
        text[sizeof(made.text) + 4]; /* one whole sequence more, so that the cut can see a border */
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    memcpy(made.text, text, cut_length(text, sizeof(made.text) - 1));
    memcpy(made.field, field, cut_length(field, sizeof(made.field) - 1));
    *info = made;
}

const char *err_name(enum err e)
{
    switch (e) {
    case ERR_OK:
        return "ok";
    case ERR_INVALID:
        return "invalid";
    case ERR_NOT_FOUND:
        return "not found";
    case ERR_EXISTS:
        return "exists";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_RETRY:
        return "retry";
    case ERR_BUSY:
        return "busy";
    case ERR_UNKNOWN:
        return "unknown outcome";
    case ERR_DENIED:
        return "denied";
    case ERR_LIMIT:
        return "limit exceeded";
    case ERR_IO:
        return "input/output";
    case ERR_INTERNAL:
        return "internal";
    }
    return "no such error";
}
