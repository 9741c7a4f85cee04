/* str.h -- text as a view: pointer and length, owned by somebody else.
 *
 * Views are not NUL-terminated unless str_cstr made them so. Comparison is by bytes. */
#ifndef FENPAY_STR_H
#define FENPAY_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

struct arena;

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str) { "" literal, sizeof(literal) - 1 })
/* For static initialisers. */
/* clang-format off */
#define STR_INIT(literal) { "" literal, sizeof(literal) - 1 }
/* clang-format on */
#define STR_NONE   ((struct str) { NULL, 0 })
#define STR_FMT    "%.*s"
#define STR_ARG(s) (int)(s).n, (s).n ? (s).p : "" /* looks at `s` three times */

static inline struct str str_of(const char *cstr)
{
    return cstr ? (struct str) { cstr, strlen(cstr) } : STR_NONE;
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eq_nocase(struct str a, struct str b); /* ASCII only */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_cmp(struct str a, struct str b); /* bytes, then length */

/* Cuts `*rest` at the first `sep`: returns what stood before it, leaves what stood behind it.
 * Without a `sep` returns all and leaves STR_NONE (p NULL), so that a loop can tell "empty tail"
 * from "no more". */
struct str str_cut(struct str *rest, char sep);
struct str str_trim(struct str s);                       /* blanks and tabs at both ends */
struct str str_sub(struct str s, size_t from, size_t n); /* clamped */

/* Copies into the arena, NUL-terminated. */
struct str str_dup(struct arena *a, struct str s);
const char *str_cstr(struct arena *a, struct str s);
struct str str_printf(struct arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Exact decimal: an optional '-', digits without superfluous leading zeros, nothing else;
 * ERR_INVALID otherwise or when it does not fit. */
enum err str_int64(struct str s, int64_t *ret);

bool str_is_utf8(struct str s);      /* strict: no surrogates, no overlong forms, <= U+10FFFF */
size_t str_utf8_count(struct str s); /* code points of valid UTF-8 */
/* Bytes of the sequence that starts at `p`; 0: none that is valid. */
size_t str_utf8_length(const char *p, size_t n);
bool str_all_of(struct str s, const char *set); /* every byte is in `set` */
/* For "did you mean"; views are clamped to 64 bytes. */
int str_edit_distance(struct str a, struct str b);

/* Hex (lower case out, any case in), standard Base64 with padding and URL-safe Base64 without.
 * Decoders are strict: wrong alphabet, length, padding or non-zero trailing bits are ERR_INVALID.
 * Results live in the arena. */
struct str str_hex(struct arena *a, const void *bytes, size_t n);
enum err str_unhex(struct arena *a, struct str hex, struct str *ret);
struct str str_base64(struct arena *a, struct str bytes);
enum err str_unbase64(struct arena *a, struct str text, struct str *ret);
struct str str_base64url(struct arena *a, struct str bytes);
enum err str_unbase64url(struct arena *a, struct str text, struct str *ret);

/* Percent-encodes everything outside the unreserved set of RFC 3986. */
struct str str_percent(struct arena *a, struct str s);
/* Decodes %XX; with `plus` also '+' to blank. A broken escape or a NUL is ERR_INVALID. */
enum err str_unpercent(struct arena *a, struct str s, bool plus, struct str *ret);

/* Equal in a time that depends on the lengths only. */
bool str_eq_secret(struct str a, struct str b);

/* CRC-32C (Castagnoli), init 0xffffffff, reflected, final xor: crc of "123456789" is 0xe3069283.
 * Chains by passing the previous result; start with 0. */
uint32_t str_crc32c(uint32_t crc, struct str s);

#endif
