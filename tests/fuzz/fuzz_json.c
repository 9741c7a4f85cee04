/* fuzz_json.c -- the JSON reader on anything at all. What it accepts must survive printing: a tree
 * written by our printer reads back as the same tree. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print(struct json_out *o, const struct json *j)
{
    switch (j->type) {
    case JSON_NULL:
        json_put_null(o);
        break;
    case JSON_FALSE:
    case JSON_TRUE:
        json_put_bool(o, j->type == JSON_TRUE);
        break;
    case JSON_NUMBER:
        json_put_raw(o, j->text);
        break;
    case JSON_STRING:
        json_str(o, j->text);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        if (j->type == JSON_ARRAY)
            json_begin_array(o);
        else
            json_begin_object(o);
        for (const struct json *child = j->first; child; child = child->next) {
            ARENA_AUTO a = arena_new(0);
            if (j->type == JSON_OBJECT)
                json_key(o, str_cstr(a, child->key));
            print(o, child);
        }
        if (j->type == JSON_ARRAY)
            json_end_array(o);
        else
            json_end_object(o);
        break;
    }
}

static bool same(const struct json *a, const struct json *b)
{
    if (a->type != b->type || a->count != b->count || !str_eq(a->key, b->key) ||
        !str_eq(a->text, b->text))
        return false;
    const struct json *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (!same(x, y))
            return false;
    return !x && !y;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ARENA_AUTO a = arena_new(4096);
    const struct json *j, *again;
    struct err_info info = { 0 };
    if (json_parse(a, (struct str) { (const char *)data, size }, &j, &info)) {
        if (!info.text[0])
            abort(); /* a refusal says why */
        return 0;
    }

    BUF_AUTO out;
    struct json_out o;
    buf_init(&out, size * 6 + 64);
    json_out_init(&o, &out);
    print(&o, j);
    if (!buf_ok(&out) || json_parse(a, buf_str(&out), &again, NULL) || !same(j, again))
        abort();
    return 0;
}
