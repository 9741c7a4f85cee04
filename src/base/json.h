/* json.h -- one strict reader for every JSON that comes in, and a printer for every JSON that goes
 * out.
 *
 * The reader makes one pass and builds a small tree in the arena; text without escapes stays a view
 * into the input, so the input must outlive the tree. Strict RFC 8259: valid UTF-8 only, no
 * duplicate keys, no NUL in text (\u0000 is refused), no unpaired surrogates, nothing behind the
 * value, bounded depth and members. Numbers are kept as their text; only json_int makes integers of
 * them and refuses fractions, exponents and what does not fit, so no amount is ever rounded. */
#ifndef FENPAY_JSON_H
#define FENPAY_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define JSON_DEPTH_MAX  32
#define JSON_VALUES_MAX 20000

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json {
    enum json_type type;
    struct str key;           /* inside an object */
    struct str text;          /* STRING: decoded; NUMBER: as written */
    struct str raw;           /* the exact bytes of this value in the input */
    const struct json *first; /* ARRAY, OBJECT: children in order of appearance */
    const struct json *next;
    size_t count;
};

/* ERR_INVALID with the byte offset in info->text; ERR_LIMIT for depth or size. */
enum err json_parse(struct arena *a, struct str text, const struct json **ret,
                    struct err_info *info);

/* NULL when `object` is NULL, no object, or has no such member. */
const struct json *json_get(const struct json *object, const char *key);

/* The usual ways to read a member: ERR_NOT_FOUND when absent (or null), ERR_INVALID when of another
 * type; `info` names the key as field. */
enum err json_get_str(const struct json *object, const char *key, struct str *ret,
                      struct err_info *info);
enum err json_get_int(const struct json *object, const char *key, int64_t *ret,
                      struct err_info *info);
enum err json_get_bool(const struct json *object, const char *key, bool *ret,
                       struct err_info *info);
enum err json_int(const struct json *value, int64_t *ret);

/* The printer. Commas and nesting are its business; text is escaped (control characters, '"',
 * '\\'), invalid UTF-8 is replaced by U+FFFD. Writes into a buf; check buf_ok at the end. */
struct json_out {
    struct buf *buf;
    unsigned depth;
    bool comma[JSON_DEPTH_MAX + 1]; /* by depth */
};

void json_out_init(struct json_out *o, struct buf *buf);
void json_begin_object(struct json_out *o); /* also as an array's element */
void json_end_object(struct json_out *o);
void json_begin_array(struct json_out *o);
void json_end_array(struct json_out *o);
void json_key(struct json_out *o, const char *key);
void json_str(struct json_out *o, struct str s);
void json_put_int(struct json_out *o, int64_t v);
void json_put_bool(struct json_out *o, bool v);
void json_put_null(struct json_out *o);
void json_put_raw(struct json_out *o, struct str json); /* already JSON */

/* key + value; the text form leaves the member out when s.p is NULL. */
void json_kv_str(struct json_out *o, const char *key, struct str s);
void json_kv_int(struct json_out *o, const char *key, int64_t v);
void json_kv_bool(struct json_out *o, const char *key, bool v);

/* The escaping alone, without quotes. */
void json_escape(struct buf *b, struct str s);

#endif
