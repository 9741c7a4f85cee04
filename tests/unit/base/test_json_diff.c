/* Our reader against jansson: seeded mutations of valid documents; both must agree on yes or no,
 * and where both say yes, on what was read. Two differences are meant:
 *   - numbers: ours keeps any number as text, jansson refuses what fits neither int64 nor double;
 *   - limits: ours refuses depth and counts (ERR_LIMIT), jansson's are higher. */
#include "../check.h"

#include <jansson.h>

#include "base/arena.h"
#include "base/rand.h"

/* Both name their types alike: ours are OURS_… here. */
#define JSON_NULL   OURS_NULL
#define JSON_FALSE  OURS_FALSE
#define JSON_TRUE   OURS_TRUE
#define JSON_STRING OURS_STRING
#define JSON_ARRAY  OURS_ARRAY
#define JSON_OBJECT OURS_OBJECT
#include "base/json.h"
#undef JSON_NULL
#undef JSON_FALSE
#undef JSON_TRUE
#undef JSON_STRING
#undef JSON_ARRAY
#undef JSON_OBJECT

static const char *const corpus[] = {
    "{\"id\":\"EV-2018022511223320873\",\"create_time\":\"2015-05-20T13:29:35+08:00\",\"resource_"
    "type\":\"encrypt-resource\",\"event_type\":"
    "\"TRANSACTION.SUCCESS\",\"summary\":\"支付成功\",\"resource\":{\"original_type\":"
    "\"transaction\",\"algorithm\":\"AEAD_AES_256_GCM\",\"ciphertext\":"
    "\"dGhpcyBpcyBub3QgcmVhbGx5IGVuY3J5cHRlZA==\",\"associated_data\":\"\",\"nonce\":"
    "\"fdasflkja484\"}}",
    "{\"amount\":{\"currency\":\"CNY\",\"payer_total\":1,\"total\":100},\"list\":[0,-1,2.50,1e5,-0,"
    "1E-2,true,false,null,[],{},\"\"]}",
    "[\"\\\"\\\\\\/"
    "\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\",\"元é😀\x7f\",{\"\":1,\"a\":2,\"\\u0062\":3}]",
    " { \"a\" : [ 1 , 2 ] , \"b\" : { \"c\" : null } } \n",
    "\"text\"",
    "-12.5e+3",
    "[[[[[[1]]]]]]",
};

/* Bytes that grammar cares about, and pieces that make near misses. */
static const char *const pieces[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\\u0061",
    "0",
    "-",
    "+",
    ".",
    "e",
    "E",
    "1",
    "9999999999999999999",
    "1e999",
    "true",
    "null",
    "nul",
    " ",
    "\n",
    "\t",
    "\x0b",
    "\x01",
    "\x7f",
    "\xc3\xa9",
    "\xe5\x85\x83",
    "\xf0\x9f\x98\x80",
    "\xff",
    "\xc0\x80",
    "\xed\xa0\x80",
    "\xef\xbb\xbf",
    "\"a\":1",
    "\"a\":1,",
    ",\"a\":1",
    "\"a\"",
};

#define TEXT_MAX 4096

static size_t mutate(struct rand *r, char *text, size_t n)
{
    for (uint64_t left = 1 + rand_below(r, 4); left; left--) {
        size_t at = rand_below(r, n + 1);
        size_t from = rand_below(r, n + 1);
        size_t some = rand_below(r, 12);
        const char *piece = pieces[rand_below(r, COUNT(pieces))];
        size_t piece_n = strlen(piece);
        if (some > n - from)
            some = n - from;
        switch (rand_below(r, 5)) {
        case 0: /* another byte */
            if (at < n)
                text[at] = (char)rand_below(r, 256);
            break;
        case 1: /* without some bytes */
            memmove(text + from, text + from + some, n - from - some);
            n -= some;
            break;
        case 2: /* cut off */
            if (rand_below(r, 4) == 0)
                n = at;
            break;
        case 3: /* some bytes twice */
            memmove(text + from + some, text + from, n - from);
            n += some;
            break;
        case 4: /* a piece more */
            memmove(text + at + piece_n, text + at, n - at);
            memcpy(text + at, piece, piece_n);
            n += piece_n;
            break;
        }
    }
    return n;
}

static bool same(const struct json *ours, const json_t *theirs)
{
    switch (ours->type) {
    case OURS_NULL:
        return json_is_null(theirs);
    case OURS_TRUE:
        return json_is_true(theirs);
    case OURS_FALSE:
        return json_is_false(theirs);
    case JSON_NUMBER: {
        int64_t v;
        if (json_is_integer(theirs))
            return str_eq(ours->text, STR("-0"))
                       ? json_integer_value(theirs) == 0
                       : json_int(ours, &v) == ERR_OK && v == json_integer_value(theirs);
        return json_is_real(theirs) && json_int(ours, &v) != ERR_OK;
    }
    case OURS_STRING:
        return json_is_string(theirs) &&
               str_eq(ours->text,
                      (struct str) { json_string_value(theirs), json_string_length(theirs) });
    case OURS_ARRAY: {
        size_t i = 0;
        for (const struct json *e = ours->first; e; e = e->next)
            if (!same(e, json_array_get(theirs, i++)))
                return false;
        return json_is_array(theirs) && i == json_array_size(theirs) && i == ours->count;
    }
    case OURS_OBJECT: {
        ARENA_AUTO a = arena_new(0);
        for (const struct json *m = ours->first; m; m = m->next)
            if (!same(m, json_object_get(theirs, str_cstr(a, m->key))))
                return false;
        return json_is_object(theirs) && ours->count == json_object_size(theirs);
    }
    }
    return false;
}

struct tally {
    int both_yes, both_no, excluded;
};

static void compare(struct arena *a, struct str text, struct tally *tally)
{
    const struct json *ours = NULL;
    json_error_t error;
    enum err e = json_parse(a, text, &ours, NULL);
    json_t *theirs = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (e == ERR_LIMIT || (!theirs && json_error_code(&error) == json_error_numeric_overflow)) {
        tally->excluded++;
    } else if ((e == ERR_OK) != (theirs != NULL) || (theirs && !same(ours, theirs))) {
        print_error("differ on \"" STR_FMT "\": ours %s, theirs %s\n", STR_ARG(text), err_name(e),
                    theirs ? "ok" : error.text);
        json_decref(theirs);
        fail();
    } else {
        *(theirs ? &tally->both_yes : &tally->both_no) += 1;
    }
    json_decref(theirs);
}

#define ROUNDS 60000

static void test_agree(void **state)
{
    (void)state;
    struct rand r;
    struct tally tally = { 0 };
    ARENA_AUTO a = arena_new(1 << 16);
    rand_seed(&r, 20260101);
    for (int round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX];
        const char *from = corpus[(size_t)round % COUNT(corpus)];
        size_t n = strlen(from);
        memcpy(text, from, n);
        if ((size_t)round >= COUNT(corpus))
            n = mutate(&r, text, n);
        compare(a, (struct str) { text, n }, &tally);
        arena_reset(a);
    }
    print_message("# %d documents: both read %d, both refused %d, excluded %d\n", ROUNDS,
                  tally.both_yes, tally.both_no, tally.excluded);
    assert_true(tally.both_yes > ROUNDS / 20);
    assert_true(tally.both_no > ROUNDS / 4);
    assert_true(tally.excluded < ROUNDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agree),
    };
    return RUN_TESTS(tests);
}
