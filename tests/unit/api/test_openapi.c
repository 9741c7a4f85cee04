/* docs/openapi.yaml and docs/api.md say what the code does: every route, permission, parameter,
 * body field and error code, both ways. With FENPAY_UPDATE_DOCS=1 the table of errors in
 * docs/api.md is written anew. */
#include "../check.h"

#include <ctype.h>
#include <yaml.h>

#include "api/call.h"
#include "base/arena.h"
#include "support/shared.h"

static yaml_document_t doc;

static int open_file(void **state)
{
    (void)state;
    yaml_parser_t parser;
    FILE *f = fopen(FENPAY_SOURCE_ROOT "/docs/openapi.yaml", "rb");
    if (!f || !yaml_parser_initialize(&parser))
        return -1;
    yaml_parser_set_input_file(&parser, f);
    int ok = yaml_parser_load(&parser, &doc);
    yaml_parser_delete(&parser);
    fclose(f);
    return ok ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    yaml_document_delete(&doc);
    return 0;
}

static struct str text_of(const yaml_node_t *n)
{
    if (!n || n->type != YAML_SCALAR_NODE)
        return STR_NONE;
    return (struct str) { (const char *)n->data.scalar.value, n->data.scalar.length };
}

static size_t pairs_of(const yaml_node_t *map)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return 0;
    return (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

static yaml_node_t *raw_member(yaml_node_t *map, struct str key)
{
    for (size_t i = 0; i < pairs_of(map); i++) {
        yaml_node_pair_t *p = &map->data.mapping.pairs.start[i];
        if (str_eq(text_of(yaml_document_get_node(&doc, p->key)), key))
            return yaml_document_get_node(&doc, p->value);
    }
    return NULL;
}

/* Follows "#/a/b/c". */
static yaml_node_t *resolve(yaml_node_t *n)
{
    struct str ref = text_of(raw_member(n, STR("$ref")));
    if (!ref.p)
        return n;
    yaml_node_t *at = yaml_document_get_root_node(&doc);
    struct str rest = str_sub(ref, 2, ref.n);
    while (rest.p && at)
        at = raw_member(at, str_cut(&rest, '/'));
    if (!at)
        fail_msg("%.*s leads nowhere", STR_ARG(ref));
    return at;
}

static yaml_node_t *member(yaml_node_t *map, const char *key)
{
    yaml_node_t *n = raw_member(map, str_of(key));
    return n ? resolve(n) : NULL;
}

static size_t count_of(const yaml_node_t *list)
{
    if (!list || list->type != YAML_SEQUENCE_NODE)
        return 0;
    return (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static yaml_node_t *element(yaml_node_t *list, size_t i)
{
    return resolve(yaml_document_get_node(&doc, list->data.sequence.items.start[i]));
}

static bool list_has(yaml_node_t *list, const char *text)
{
    for (size_t i = 0; i < count_of(list); i++)
        if (str_eq(text_of(element(list, i)), str_of(text)))
            return true;
    return false;
}

/* ---- routes ---- */

static yaml_node_t *operation_of(const struct http_route *r)
{
    char method[8] = "";
    for (size_t i = 0; r->method[i] && i < 7; i++)
        method[i] = (char)tolower(r->method[i]);
    yaml_node_t *path = member(member(yaml_document_get_root_node(&doc), "paths"), r->path);
    yaml_node_t *op = path ? member(path, method) : NULL;
    if (!op)
        fail_msg("%s %s is not in openapi.yaml", r->method, r->path);
    return op;
}

static size_t count_routes(const struct http_route routes[])
{
    size_t n = 0;
    for (; routes[n].method; n++)
        (void)operation_of(&routes[n]);
    return n;
}

static void every_route_is_described_and_no_other(void **state)
{
    (void)state;
    static const char *const methods[] = { "get", "post", "put", "patch", "delete" };
    yaml_node_t *paths = member(yaml_document_get_root_node(&doc), "paths");
    size_t described = 0;
    for (size_t i = 0; i < pairs_of(paths); i++) {
        yaml_node_t *path = yaml_document_get_node(&doc, paths->data.mapping.pairs.start[i].value);
        for (size_t m = 0; m < COUNT(methods); m++)
            described += member(path, methods[m]) != NULL;
    }
    assert_int_equal(count_routes(api_routes) + count_routes(ops_routes), described);
    assert_int_equal(count_routes(api_routes), api_route_count);
}

static void permissions_are_as_described(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    for (size_t i = 0; i < api_route_count; i++) {
        const struct http_route *r = &api_routes[i];
        const char *name = NULL;
        for (size_t bit = 0; permission_name(bit); bit++)
            if (r->permission == 1 << bit)
                name = permission_name(bit);
        check_row(name, r->path);
        struct str text = text_of(member(operation_of(r), "description"));
        struct str wanted = str_printf(a, "Permission `%s`.", name);
        check_row(str_starts(text, wanted), r->path);
    }
}

/* ---- inputs ---- */

static yaml_node_t *parameter(yaml_node_t *owner, const char *in, const char *name)
{
    yaml_node_t *list = member(owner, "parameters");
    for (size_t i = 0; i < count_of(list); i++) {
        yaml_node_t *p = element(list, i);
        if (str_eq(text_of(member(p, "in")), str_of(in)) &&
            str_eq(text_of(member(p, "name")), str_of(name)))
            return p;
    }
    return NULL;
}

static size_t count_parameters(yaml_node_t *owner, const char *in)
{
    yaml_node_t *list = member(owner, "parameters");
    size_t n = 0;
    for (size_t i = 0; i < count_of(list); i++)
        n += str_eq(text_of(member(element(list, i), "in")), str_of(in));
    return n;
}

static void query_parameters_are_as_described(void **state)
{
    (void)state;
    yaml_node_t *paths = member(yaml_document_get_root_node(&doc), "paths");
    for (size_t i = 0; i < api_route_count; i++) {
        const struct http_route *r = &api_routes[i];
        const struct shape *query = api_route_table[i].query;
        yaml_node_t *op = operation_of(r), *path = member(paths, r->path);
        for (size_t k = 0; k < query->count; k++) {
            const char *name = query->fields[k].name;
            check_row(parameter(op, "query", name) || parameter(path, "query", name), name);
        }
        check_row(count_parameters(op, "query") + count_parameters(path, "query") == query->count,
                  r->path);
    }
}

static void path_parameters_are_described(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(1024);
    yaml_node_t *paths = member(yaml_document_get_root_node(&doc), "paths");
    for (size_t i = 0; i < api_route_count; i++) {
        struct str rest = str_of(api_routes[i].path);
        size_t n = 0;
        while (rest.p) {
            struct str s = str_cut(&rest, '/');
            if (!str_starts(s, STR("{")))
                continue;
            n++;
            const char *name = str_cstr(a, str_sub(s, 1, s.n - 2));
            check_row(parameter(member(paths, api_routes[i].path), "path", name), name);
        }
        check_row(count_parameters(member(paths, api_routes[i].path), "path") == n,
                  api_routes[i].path);
    }
}

static void compare_shape(const struct shape *shape, yaml_node_t *schema, const char *where)
{
    yaml_node_t *properties = member(schema, "properties");
    size_t required = 0;

    check_row(pairs_of(properties) == shape->count, where);
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *f = &shape->fields[i];
        yaml_node_t *p = member(properties, f->name);
        check_row(p, f->name);
        check_row(list_has(member(schema, "required"), f->name) == f->required, f->name);
        required += f->required;
        if (f->type == FIELD_OBJECTS)
            compare_shape(f->inner, member(p, "items"), f->name);
    }
    check_row(count_of(member(schema, "required")) == required, where);
    check_row(str_eq(text_of(member(schema, "additionalProperties")), STR("false")), where);
}

static void bodies_are_as_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_route_count; i++) {
        const struct shape *body = api_route_table[i].body;
        yaml_node_t *described = member(operation_of(&api_routes[i]), "requestBody");
        check_row((body->count > 0) == (described != NULL), api_routes[i].path);
        if (described)
            compare_shape(
                body, member(member(member(described, "content"), "application/json"), "schema"),
                api_routes[i].path);
    }
}

/* ---- errors ---- */

static void every_error_code_is_described_and_no_other(void **state)
{
    (void)state;
    yaml_node_t *root = yaml_document_get_root_node(&doc);
    yaml_node_t *codes =
        member(member(member(member(root, "components"), "schemas"), "ErrorCode"), "enum");
    size_t n = 0;
#define CHECK_CODE(name, status, zh, en, todo)                                                     \
    check_row(list_has(codes, #name), #name);                                                      \
    n++;
    CODES(CHECK_CODE)
#undef CHECK_CODE
    assert_int_equal(count_of(codes), n);
}

#define BEGIN "<!-- codes: "
#define END   "<!-- end of codes -->"

static void the_page_has_the_table_of_errors(void **state)
{
    (void)state;
    ARENA_AUTO a = arena_new(65536);
    const char *path = FENPAY_SOURCE_ROOT "/docs/api.md";
    struct str page = file_read(a, path);
    assert_non_null(page.p);
    char *begin = strstr(page.p, BEGIN), *end = strstr(page.p, END);
    assert_true(begin && end && begin < end);
    begin = strchr(begin, '\n') + 1;

    struct buf table;
    buf_init_arena(&table, a, 1 << 20);
    buf_printf(&table, "\n| code | HTTP | message | what to do |\n|---|---|---|---|\n");
#define PRINT_CODE(name, status, zh, en, todo)                                                     \
    buf_printf(&table, "| %s | %d | %s · %s | %s |\n", #name, status, en, zh, todo);
    CODES(PRINT_CODE)
#undef PRINT_CODE
    buf_add_char(&table, '\n');

    struct str stands = { begin, (size_t)(end - begin) };
    if (getenv("FENPAY_UPDATE_DOCS") && !str_eq(stands, buf_str(&table))) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fprintf(f, "%.*s" STR_FMT "%s", (int)(begin - page.p), page.p, STR_ARG(buf_str(&table)),
                end);
        fclose(f);
        return;
    }
    if (!str_eq(stands, buf_str(&table)))
        fail_msg("docs/api.md: the table of errors is not that of core/code.h; run with "
                 "FENPAY_UPDATE_DOCS=1");
}

int main(void)
{
#define T(test) cmocka_unit_test(test)
    const struct CMUnitTest tests[] = {
        T(every_route_is_described_and_no_other),
        T(permissions_are_as_described),
        T(query_parameters_are_as_described),
        T(path_parameters_are_described),
        T(bodies_are_as_described),
        T(every_error_code_is_described_and_no_other),
        T(the_page_has_the_table_of_errors),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_file, close_file);
}
