/* str.c -- text views: comparing, cutting, and the codings that text travels in. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i]))
            return false;
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq((struct str) { s.p, prefix.n }, prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n &&
           (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    if (order)
        return order < 0 ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}

struct str str_cut(struct str *rest, char sep)
{
    struct str all = *rest;
    const char *at = all.n ? memchr(all.p, sep, all.n) : NULL;
    if (!at) {
        *rest = STR_NONE;
        return all;
    }
    size_t before = (size_t)(at - all.p);
    *rest = (struct str) { at + 1, all.n - before - 1 };
    return (struct str) { all.p, before };
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct str str_trim(struct str s)
{
    while (s.n && is_blank(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

struct str str_sub(struct str s, size_t from, size_t n)
{
    if (from > s.n)
        from = s.n;
    if (n > s.n - from)
        n = s.n - from;
    return (struct str) { s.p ? s.p + from : NULL, n };
}

const char *str_cstr(struct arena *a, struct str s)
{
    char *p = arena_raw(a, s.n + 1);
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

struct str str_dup(struct arena *a, struct str s)
{
    return (struct str) { str_cstr(a, s), s.n };
}

struct str str_printf(struct arena *a, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), format, args);
    struct str s = STR("");
    if (n >= 0) {
        char *p = arena_raw(a, (size_t)n + 1);
        if ((size_t)n < sizeof(small))
            memcpy(p, small, (size_t)n + 1);
        else
            (void)vsnprintf(p, (size_t)n + 1, format, again);
        s = (struct str) { p, (size_t)n };
    }
    va_end(again);
    va_end(args);
    return s;
}

enum err str_int64(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    if (negative)
        s = str_sub(s, 1, s.n - 1);
    if (s.n == 0 || (s.p[0] == '0' && (s.n > 1 || negative)))
        return ERR_INVALID;

    int64_t v = 0; /* gathered below zero, where there is one more */
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return ERR_INVALID;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, s.p[i] - '0', &v))
            return ERR_INVALID;
    }
    if (!negative && __builtin_sub_overflow(0, v, &v))
        return ERR_INVALID;
    *ret = v;
    return ERR_OK;
}

size_t str_utf8_length(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    if (n == 0)
        return 0;
    if (u[0] < 0x80)
        return 1;

    size_t need;
    unsigned low = 0x80, high = 0xbf; /* what the second byte may be: shuts out overlong forms,
                                         surrogates, > U+10FFFF */
    if (u[0] >= 0xc2 && u[0] <= 0xdf) {
        need = 2;
    } else if (u[0] >= 0xe0 && u[0] <= 0xef) {
        need = 3;
        low = u[0] == 0xe0 ? 0xa0 : 0x80;
        high = u[0] == 0xed ? 0x9f : 0xbf;
    } else if (u[0] >= 0xf0 && u[0] <= 0xf4) {
        need = 4;
        low = u[0] == 0xf0 ? 0x90 : 0x80;
        high = u[0] == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (n < need || u[1] < low || u[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    return need;
}

bool str_is_utf8(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t length = str_utf8_length(s.p + i, s.n - i);
        if (!length)
            return false;
        i += length;
    }
    return true;
}

size_t str_utf8_count(struct str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.n; i++)
        count += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    return count;
}

bool str_all_of(struct str s, const char *set)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '\0' || !strchr(set, s.p[i]))
            return false;
    return true;
}

#define DISTANCE_MAX 64

int str_edit_distance(struct str a, struct str b)
{
    a = str_sub(a, 0, DISTANCE_MAX);
    b = str_sub(b, 0, DISTANCE_MAX);
    int row[DISTANCE_MAX + 1]; /* row[j]: from the part of `a` seen so far to the first j of `b` */
    for (size_t j = 0; j <= b.n; j++)
        row[j] = (int)j;
    for (size_t i = 0; i < a.n; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < b.n; j++) {
            int change = diagonal + (a.p[i] != b.p[j]);
            int insert = row[j] + 1;
            int drop = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = change < insert ? change : insert;
            if (drop < row[j + 1])
                row[j + 1] = drop;
        }
    }
    return row[b.n];
}

static const char hex_digits[] = "0123456789abcdef";

struct str str_hex(struct arena *a, const void *bytes, size_t n)
{
    const unsigned char *u = bytes;
    char *p = arena_alloc(a, n * 2 + 1);
    for (size_t i = 0; i < n; i++) {
        p[i * 2] = hex_digits[u[i] >> 4];
        p[i * 2 + 1] = hex_digits[u[i] & 15];
    }
    return (struct str) { p, n * 2 };
}

/* -1: no hex digit */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum err str_unhex(struct arena *a, struct str hex, struct str *ret)
{
    if (hex.n % 2)
        return ERR_INVALID;
    char *p = arena_alloc(a, hex.n / 2 + 1);
    for (size_t i = 0; i < hex.n / 2; i++) {
        int high = hex_value(hex.p[i * 2]), low = hex_value(hex.p[i * 2 + 1]);
        if (high < 0 || low < 0)
            return ERR_INVALID;
        p[i] = (char)(high * 16 + low);
    }
    *ret = (struct str) { p, hex.n / 2 };
    return ERR_OK;
}

static const char base64_standard[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static struct str encode64(struct arena *a, struct str bytes, const char *alphabet, bool pad)
{
    const unsigned char *u = (const unsigned char *)bytes.p;
    char *p = arena_alloc(a, (bytes.n + 2) / 3 * 4 + 1);
    size_t n = 0;
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t bits = (uint32_t)u[i] << 16;
        if (have > 1)
            bits |= (uint32_t)u[i + 1] << 8;
        if (have > 2)
            bits |= u[i + 2];
        for (size_t j = 0; j <= have; j++)
            p[n++] = alphabet[(bits >> (18 - 6 * j)) & 63];
        for (size_t j = have; pad && j < 3; j++)
            p[n++] = '=';
    }
    return (struct str) { p, n };
}

/* The value of a character plus 1; 0: not in the alphabet, whose last two are `c62` and `c63`. A
 * table, because a callback brings 1,000 of them and comparing cost a tenth of its polling thread.
 */
/* clang-format off */
#define VALUES64(c62, c63) {                                                                       \
    ['A'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, \
            25, 26,                                                                                \
    ['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,    \
            48, 49, 50, 51, 52,                                                                    \
    ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,                                                \
    [c62] = 63, [c63] = 64 }
/* clang-format on */
static const uint8_t values64_standard[256] = VALUES64('+', '/');
static const uint8_t values64_url[256] = VALUES64('-', '_');

/* `text` without its padding. */
static enum err decode64(struct arena *a, struct str text, const uint8_t values[256],
                         struct str *ret)
{
    if (text.n % 4 == 1)
        return ERR_INVALID;
    const unsigned char *u = (const unsigned char *)text.p;
    char *p = arena_raw(a, text.n / 4 * 3 + 3);
    size_t n = 0, i = 0;
    for (; i + 4 <= text.n; i += 4) {
        unsigned w = values[u[i]], x = values[u[i + 1]], y = values[u[i + 2]], z = values[u[i + 3]];
        if (!w || !x || !y || !z)
            return ERR_INVALID;
        uint32_t bits = (w - 1) << 18 | (x - 1) << 12 | (y - 1) << 6 | (z - 1);
        p[n++] = (char)(bits >> 16);
        p[n++] = (char)(bits >> 8);
        p[n++] = (char)bits;
    }
    uint32_t bits = 0;
    unsigned have = 0;
    for (; i < text.n; i++) {
        if (!values[u[i]])
            return ERR_INVALID;
        bits = bits << 6 | (uint32_t)(values[u[i]] - 1);
        have += 6;
        if (have >= 8) {
            have -= 8;
            p[n++] = (char)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    if (bits) /* what is left over carries nothing, so it must be nothing: one text per value */
        return ERR_INVALID;
    *ret = (struct str) { p, n };
    return ERR_OK;
}

struct str str_base64(struct arena *a, struct str bytes)
{
    return encode64(a, bytes, base64_standard, true);
}

struct str str_base64url(struct arena *a, struct str bytes)
{
    return encode64(a, bytes, base64_url, false);
}

enum err str_unbase64(struct arena *a, struct str text, struct str *ret)
{
    if (text.n % 4)
        return ERR_INVALID;
    for (int pad = 0; pad < 2 && text.n && text.p[text.n - 1] == '='; pad++)
        text.n--;
    return decode64(a, text, values64_standard, ret);
}

enum err str_unbase64url(struct arena *a, struct str text, struct str *ret)
{
    return decode64(a, text, values64_url, ret);
}

struct str str_percent(struct arena *a, struct str s)
{
    static const char unreserved[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    char *p = arena_array(a, s.n + 1, 3);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c && strchr(unreserved, c)) {
            p[n++] = (char)c;
        } else {
            p[n++] = '%';
            p[n++] = "0123456789ABCDEF"[c >> 4];
            p[n++] = "0123456789ABCDEF"[c & 15];
        }
    }
    return (struct str) { p, n };
}

enum err str_unpercent(struct arena *a, struct str s, bool plus, struct str *ret)
{
    char *p = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int high = s.n - i > 2 ? hex_value(s.p[i + 1]) : -1;
            int low = s.n - i > 2 ? hex_value(s.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return ERR_INVALID;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (c == '\0')
            return ERR_INVALID;
        p[n++] = c;
    }
    *ret = (struct str) { p, n };
    return ERR_OK;
}

bool str_eq_secret(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    volatile unsigned char differ = 0; /* volatile: no early way out for the compiler to find */
    for (size_t i = 0; i < a.n; i++)
        differ = (unsigned char)(differ | (a.p[i] ^ b.p[i]));
    return differ == 0;
}

uint32_t str_crc32c(uint32_t crc, struct str s)
{
    /* The reflected polynomial 0x82f63b78 over four bits. */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    for (size_t i = 0; i < s.n; i++) {
        crc ^= (unsigned char)s.p[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}
