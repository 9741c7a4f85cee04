/* router.c -- the route table, looked up by method and decoded path segments.
 *
 * A table has a few dozen rows, so a match is a walk over them: they are sorted so that a literal
 * segment comes before a parameter in the same place, and the first row that fits is the right one.
 */
#include "net/router.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"

struct router {
    size_t count;
    struct route routes[];
};

static enum err compile(const struct http_route *http, size_t index, struct route *ret,
                        struct err_info *info)
{
    *ret = (struct route) { .http = http, .index = index };
    struct str rest = str_of(http->path);
    if (!str_starts(rest, STR("/")) || !http->handler)
        return err_set(info, ERR_INVALID, "route %s %s: no leading slash, or no handler",
                       http->method, http->path);
    rest = str_sub(rest, 1, rest.n);
    while (rest.p) {
        struct str s = str_cut(&rest, '/');
        if (ret->segments == ROUTE_SEGMENTS_MAX)
            return err_set(info, ERR_INVALID, "route %s: too many segments", http->path);
        bool is_param = s.n > 2 && s.p[0] == '{' && s.p[s.n - 1] == '}';
        ret->segment[ret->segments].is_param = is_param;
        ret->segment[ret->segments].text = is_param ? str_sub(s, 1, s.n - 2) : s;
        ret->segments++;
    }
    return ERR_OK;
}

/* By path, literals before parameters; equal for routes that differ in their method only. */
static int compare_paths(const struct route *a, const struct route *b)
{
    for (size_t i = 0; i < a->segments && i < b->segments; i++) {
        if (a->segment[i].is_param != b->segment[i].is_param)
            return a->segment[i].is_param ? 1 : -1;
        int c = a->segment[i].is_param ? 0 : str_cmp(a->segment[i].text, b->segment[i].text);
        if (c)
            return c;
    }
    return a->segments < b->segments ? -1 : a->segments > b->segments;
}

static int compare(const void *x, const void *y)
{
    const struct route *a = x, *b = y;
    int c = compare_paths(a, b);
    return c ? c : strcmp(a->http->method, b->http->method);
}

enum err router_new(const struct http_route routes[], struct router **ret, struct err_info *info)
{
    size_t n = 0;
    while (routes[n].method)
        n++;
    struct router *r = calloc(1, sizeof(*r) + n * sizeof(r->routes[0]));
    if (!r)
        abort();
    r->count = n;
    for (size_t i = 0; i < n; i++) {
        enum err e = compile(&routes[i], i, &r->routes[i], info);
        if (e) {
            router_free(r);
            return e;
        }
    }
    if (n > 0)
        qsort(r->routes, n, sizeof(r->routes[0]), compare);
    for (size_t i = 1; i < n; i++) {
        if (compare(&r->routes[i - 1], &r->routes[i]) == 0) {
            enum err e = err_set(info, ERR_INVALID, "routes %s %s and %s cannot be told apart",
                                 r->routes[i].http->method, r->routes[i - 1].http->path,
                                 r->routes[i].http->path);
            router_free(r);
            return e;
        }
    }
    *ret = r;
    return ERR_OK;
}

void router_free(struct router *r)
{
    free(r);
}

size_t router_count(const struct router *r)
{
    return r->count;
}

enum err router_split(struct arena *a, struct str path, struct route_path *ret)
{
    assert(path.n > 0 && path.p[0] == '/');
    ret->segments = 0;
    struct str rest = str_sub(path, 1, path.n);
    while (rest.p) {
        struct str s = str_cut(&rest, '/');
        if (ret->segments == ROUTE_SEGMENTS_MAX)
            return ERR_NOT_FOUND;
        if (s.n > 0 && memchr(s.p, '%', s.n) && str_unpercent(a, s, false, &s))
            return ERR_INVALID;
        if (str_eq(s, STR(".")) || str_eq(s, STR("..")))
            return ERR_INVALID;
        ret->segment[ret->segments++] = s;
    }
    return ERR_OK;
}

static bool fits(const struct route *route, const struct route_path *path)
{
    if (route->segments != path->segments)
        return false;
    for (size_t i = 0; i < path->segments; i++) {
        if (route->segment[i].is_param ? path->segment[i].n == 0
                                       : !str_eq(route->segment[i].text, path->segment[i]))
            return false;
    }
    return true;
}

const struct route *router_match(const struct router *r, struct str method,
                                 const struct route_path *path, struct arena *a,
                                 struct str *ret_allow)
{
    const struct route *best = NULL; /* the first path that fits: the others must be equal to it */
    struct str allow = STR_NONE;
    for (size_t i = 0; i < r->count; i++) {
        const struct route *route = &r->routes[i];
        if (best ? compare_paths(best, route) != 0 : !fits(route, path))
            continue;
        if (str_eq(str_of(route->http->method), method))
            return route;
        best = route;
        allow = allow.p ? str_printf(a, STR_FMT ", %s", STR_ARG(allow), route->http->method)
                        : str_of(route->http->method);
    }
    *ret_allow = allow;
    return NULL;
}

struct str route_param(const struct route *route, const struct route_path *path, const char *name)
{
    for (size_t i = 0; i < route->segments; i++)
        if (route->segment[i].is_param && str_eq(route->segment[i].text, str_of(name)))
            return path->segment[i];
    return STR_NONE;
}
