/* input.h -- what a request may say, as tables: one `struct field` an input, one `struct shape` a
 * body or query string.
 *
 * A shape is read into a plain struct by offset. Strict: what a table does not name is refused
 * (UNKNOWN_FIELD: a typo must not cost money), so are wrong types, fractions, exponents, numbers
 * that do not fit, control characters, text that is too long. `null` counts as not given. Every
 * refusal names its field ("items[2].quantity"). Texts are views into the body or the arena. */
#ifndef FENPAY_API_INPUT_H
#define FENPAY_API_INPUT_H

#include "base/money.h"
#include "core/code.h"

#include <stddef.h>

struct arena;

enum field_type {
    FIELD_TEXT,    /* struct str; STR_NONE when not given */
    FIELD_INT,     /* struct opt_int */
    FIELD_FEN,     /* struct opt_int; refused with AMOUNT_INVALID */
    FIELD_TIME,    /* struct opt_int, ms UTC; RFC 3339 with offset on the wire */
    FIELD_TEXTS,   /* struct opt_list of struct str */
    FIELD_OBJECTS, /* struct opt_list of `inner` */
};

struct opt_int {
    bool given;
    int64_t v;
};

struct opt_list {
    const void *p;
    size_t n;
    bool given;
};

struct shape;

struct field {
    const char *name;
    enum field_type type;
    bool required;
    size_t offset;
    int64_t min, max; /* TEXT, TEXTS: code points; INT, FEN: the value; OBJECTS: how many */
    const char *set;  /* TEXT, TEXTS: the bytes it may have; NULL: any but control characters */
    const struct shape *inner;
};

struct shape {
    const struct field *fields;
    size_t count;
    size_t size; /* of the struct it is read into */
};

/* ---- rows of the tables; an input is named like the member it is read into ---- */

enum { OPTIONAL, REQUIRED };

/* clang-format off */
#define INPUT_ROW(in, name, type, need, least, most, set, inner) \
    { #name, type, need, offsetof(in, name), least, most, set, inner }
#define INPUT_TEXT(in, name, need, shortest, longest, set) \
    INPUT_ROW(in, name, FIELD_TEXT, need, shortest, longest, set, NULL)
#define INPUT_INT(in, name, need, least, most) \
    INPUT_ROW(in, name, FIELD_INT, need, least, most, NULL, NULL)
#define INPUT_FEN(in, name, need) \
    INPUT_ROW(in, name, FIELD_FEN, need, 0, MONEY_FEN_MAX, NULL, NULL)
#define INPUT_TIME(in, name, need) \
    INPUT_ROW(in, name, FIELD_TIME, need, 0, 0, NULL, NULL)
#define INPUT_TEXTS(in, name, need, shortest, longest, set) \
    INPUT_ROW(in, name, FIELD_TEXTS, need, shortest, longest, set, NULL)
#define INPUT_OBJECTS(in, name, need, least, most, inner) \
    INPUT_ROW(in, name, FIELD_OBJECTS, need, least, most, NULL, inner)

#define SHAPE(in, table) { (table), sizeof(table) / sizeof *(table), sizeof(in) }
/* clang-format on */

#define SET_ANY     NULL /* all but control characters */
#define SET_DIGITS  "0123456789"
#define SET_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define SET_ID      SET_DIGITS SET_LETTERS "_.:-"
/* Visible ASCII: what a request id may be. */
#define SET_VISIBLE SET_DIGITS SET_LETTERS "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

/* The body: one JSON object. An empty body is an empty object. */
enum code input_json(struct arena *a, struct str body, const struct shape *shape, void *ret,
                     struct refusal *refusal);

struct input_pair {
    struct str key, value; /* decoded; keys are unique */
};
/* A query string. */
enum code input_pairs(struct arena *a, const struct input_pair pairs[], size_t n,
                      const struct shape *shape, void *ret, struct refusal *refusal);

#endif
