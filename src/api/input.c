/* input.c -- the strict request reader behind the tables of input.h. */
#include "api/input.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"

struct reader {
    struct arena *arena;
    struct refusal *refusal;
};

static enum code read_object(struct reader *r, const struct json *object, struct str path,
                             const struct shape *shape, void *ret);

static enum code refuse_at(struct reader *r, enum code code, struct str path, struct str detail)
{
    *r->refusal = (struct refusal) { .code = code, .field = path, .detail = detail };
    return code;
}

static struct str path_of(struct reader *r, struct str path, struct str name)
{
    return path.n ? str_printf(r->arena, STR_FMT "." STR_FMT, STR_ARG(path), STR_ARG(name)) : name;
}

static const struct field *field_named(const struct shape *shape, struct str name)
{
    for (size_t i = 0; i < shape->count; i++)
        if (str_eq(str_of(shape->fields[i].name), name))
            return &shape->fields[i];
    return NULL;
}

/* Names the unknown field as it came (escaped by the printer, cut where it is absurd), and the
 * nearest known one. */
static enum code unknown_field(struct reader *r, struct str path, struct str name,
                               const struct shape *shape)
{
    const char *near = NULL;
    int best = 3;

    for (size_t i = 0; i < shape->count; i++) {
        int d = str_edit_distance(name, str_of(shape->fields[i].name));
        if (d < best) {
            best = d;
            near = shape->fields[i].name;
        }
    }
    struct str field = str_dup(r->arena, str_sub(name, 0, 64));
    return refuse_at(r, CODE_UNKNOWN_FIELD, path_of(r, path, field),
                     near ? str_printf(r->arena, "did you mean %s?", near) : STR_NONE);
}

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

static enum code check_text(struct reader *r, const struct field *f, struct str path,
                            struct str text)
{
    if (!str_is_utf8(text))
        return refuse_at(r, CODE_BAD_FIELD, path, STR("not valid UTF-8"));
    if (f->set ? !str_all_of(text, f->set) : has_control(text))
        return refuse_at(r, CODE_BAD_FIELD, path, STR("it has characters that are not allowed"));

    int64_t length = (int64_t)str_utf8_count(text);
    if (length > f->max)
        return refuse_at(r, CODE_BAD_FIELD, path,
                         str_printf(r->arena, "at most %lld characters", (long long)f->max));
    if (length < f->min)
        return refuse_at(r, CODE_BAD_FIELD, path,
                         f->min == 1
                             ? STR("it is empty")
                             : str_printf(r->arena, "at least %lld characters", (long long)f->min));
    return CODE_OK;
}

static enum code check_int(struct reader *r, const struct field *f, struct str path, int64_t v)
{
    if (v >= f->min && v <= f->max)
        return CODE_OK;
    return refuse_at(
        r, f->type == FIELD_FEN ? CODE_AMOUNT_INVALID : CODE_BAD_FIELD, path,
        str_printf(r->arena, "from %lld to %lld", (long long)f->min, (long long)f->max));
}

static enum code read_int(struct reader *r, const struct field *f, struct str path,
                          const struct json *v, struct opt_int *ret)
{
    enum code bad = f->type == FIELD_FEN ? CODE_AMOUNT_INVALID : CODE_BAD_FIELD;
    int64_t i;

    if (v->type != JSON_NUMBER)
        return refuse_at(r, bad, path, STR("an integer is expected"));
    if (json_int(v, &i))
        return refuse_at(r, bad, path,
                         STR("not an integer of 64 bits, written without fraction and exponent"));

    enum code c = check_int(r, f, path, i);
    if (!c)
        *ret = (struct opt_int) { true, i };
    return c;
}

static enum code read_time(struct reader *r, struct str path, struct str text, struct opt_int *ret)
{
    int64_t ms;
    if (clock_parse_rfc3339(text, &ms))
        return refuse_at(r, CODE_BAD_FIELD, path, STR("an RFC 3339 time with offset is expected"));
    *ret = (struct opt_int) { true, ms };
    return CODE_OK;
}

static enum code read_list(struct reader *r, const struct field *f, struct str path,
                           const struct json *v, struct opt_list *ret)
{
    if (v->type != JSON_ARRAY)
        return refuse_at(r, CODE_BAD_FIELD, path, STR("a list is expected"));
    if (f->type == FIELD_OBJECTS && ((int64_t)v->count < f->min || (int64_t)v->count > f->max))
        return refuse_at(r, CODE_BAD_FIELD, path,
                         str_printf(r->arena, "from %lld to %lld entries", (long long)f->min,
                                    (long long)f->max));
    if (f->type == FIELD_TEXTS && v->count > 64)
        return refuse_at(r, CODE_BAD_FIELD, path, STR("at most 64 entries"));

    size_t size = f->type == FIELD_OBJECTS ? f->inner->size : sizeof(struct str);
    char *items = arena_array(r->arena, v->count ? v->count : 1, size);
    size_t i = 0;

    for (const struct json *child = v->first; child; child = child->next, i++) {
        struct str at = str_printf(r->arena, STR_FMT "[%zu]", STR_ARG(path), i);
        enum code c;
        if (f->type == FIELD_OBJECTS) {
            c = child->type == JSON_OBJECT
                    ? read_object(r, child, at, f->inner, items + i * size)
                    : refuse_at(r, CODE_BAD_FIELD, at, STR("an object is expected"));
        } else {
            c = child->type == JSON_STRING
                    ? check_text(r, f, at, child->text)
                    : refuse_at(r, CODE_BAD_FIELD, at, STR("text is expected"));
            if (!c)
                memcpy(items + i * size, &child->text, sizeof child->text);
        }
        if (c)
            return c;
    }
    *ret = (struct opt_list) { items, v->count, true };
    return CODE_OK;
}

static enum code read_field(struct reader *r, const struct field *f, struct str path,
                            const struct json *v, void *ret)
{
    enum code c;

    switch (f->type) {
    case FIELD_TEXT:
        if (v->type != JSON_STRING)
            return refuse_at(r, CODE_BAD_FIELD, path, STR("text is expected"));
        if (!(c = check_text(r, f, path, v->text)))
            *(struct str *)ret = v->text;
        return c;
    case FIELD_INT:
    case FIELD_FEN:
        return read_int(r, f, path, v, ret);
    case FIELD_TIME:
        return v->type == JSON_STRING ? read_time(r, path, v->text, ret)
                                      : refuse_at(r, CODE_BAD_FIELD, path, STR("text is expected"));
    case FIELD_TEXTS:
    case FIELD_OBJECTS:
        return read_list(r, f, path, v, ret);
    }
    return refuse_at(r, CODE_INTERNAL, path, STR_NONE);
}

static enum code missing(struct reader *r, struct str path, const struct field *f)
{
    return refuse_at(r, CODE_BAD_FIELD, path_of(r, path, str_of(f->name)), STR("it is required"));
}

static enum code read_object(struct reader *r, const struct json *object, struct str path,
                             const struct shape *shape, void *ret)
{
    for (const struct json *v = object->first; v; v = v->next) {
        const struct field *f = field_named(shape, v->key);
        if (!f)
            return unknown_field(r, path, v->key, shape);
        if (v->type == JSON_NULL)
            continue;
        enum code c = read_field(r, f, path_of(r, path, v->key), v, (char *)ret + f->offset);
        if (c)
            return c;
    }
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *f = &shape->fields[i];
        if (!f->required)
            continue;
        const struct json *v = json_get(object, f->name);
        if (!v || v->type == JSON_NULL)
            return missing(r, path, f);
    }
    return CODE_OK;
}

enum code input_json(struct arena *a, struct str body, const struct shape *shape, void *ret,
                     struct refusal *refusal)
{
    struct reader r = { a, refusal };
    struct err_info info = { 0 };
    const struct json empty = { .type = JSON_OBJECT };
    const struct json *root = &empty;

    if (body.n && json_parse(a, body, &root, &info))
        return refuse_at(&r, CODE_BAD_JSON,
                         info.field[0] ? str_dup(a, str_of(info.field)) : STR_NONE,
                         str_dup(a, str_of(info.text)));
    if (root->type != JSON_OBJECT)
        return refuse_at(&r, CODE_BAD_JSON, STR_NONE, STR("an object is expected"));

    return read_object(&r, root, STR_NONE, shape, ret);
}

static enum code read_pair(struct reader *r, const struct field *f, const struct input_pair *pair,
                           void *ret)
{
    enum code c;
    int64_t v;

    switch (f->type) {
    case FIELD_TEXT:
        if (!(c = check_text(r, f, pair->key, pair->value)))
            *(struct str *)ret = pair->value;
        return c;
    case FIELD_INT:
        if (str_int64(pair->value, &v))
            return refuse_at(r, CODE_BAD_FIELD, pair->key, STR("an integer is expected"));
        if (!(c = check_int(r, f, pair->key, v)))
            *(struct opt_int *)ret = (struct opt_int) { true, v };
        return c;
    case FIELD_TIME:
        return read_time(r, pair->key, pair->value, ret);
    case FIELD_FEN:
    case FIELD_TEXTS:
    case FIELD_OBJECTS:
        break; /* no query string has these */
    }
    return refuse_at(r, CODE_INTERNAL, pair->key, STR_NONE);
}

enum code input_pairs(struct arena *a, const struct input_pair pairs[], size_t n,
                      const struct shape *shape, void *ret, struct refusal *refusal)
{
    struct reader r = { a, refusal };

    for (size_t i = 0; i < n; i++) {
        const struct field *f = field_named(shape, pairs[i].key);
        if (!f)
            return unknown_field(&r, STR_NONE, pairs[i].key, shape);
        enum code c = read_pair(&r, f, &pairs[i], (char *)ret + f->offset);
        if (c)
            return c;
    }
    for (size_t i = 0; i < shape->count; i++) {
        bool found = !shape->fields[i].required;
        for (size_t k = 0; k < n && !found; k++)
            found = str_eq(pairs[k].key, str_of(shape->fields[i].name));
        if (!found)
            return missing(&r, STR_NONE, &shape->fields[i]);
    }
    return CODE_OK;
}
