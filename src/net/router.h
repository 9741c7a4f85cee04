/* router.h -- the route table, looked up by method and decoded path segments. Literal segments win
 * over parameters. Immutable once made. */
#ifndef FENPAY_ROUTER_H
#define FENPAY_ROUTER_H

#include "net/server.h"

#define ROUTE_SEGMENTS_MAX 12

struct router;

struct route {
    const struct http_route *http;
    size_t index; /* in the caller's table: for metrics */
    size_t segments;
    struct {
        struct str text; /* literal, or the parameter's name */
        bool is_param;
    } segment[ROUTE_SEGMENTS_MAX];
};

struct route_path {
    size_t segments;
    struct str segment[ROUTE_SEGMENTS_MAX];
};

/* `routes` ends with a NULL method and must outlive the router. ERR_INVALID: a broken pattern, or
 * two routes that cannot be told apart. */
enum err router_new(const struct http_route routes[], struct router **ret, struct err_info *info);
void router_free(struct router *r);
size_t router_count(const struct router *r);

/* Splits `path` (with its leading '/') and decodes each segment. ERR_INVALID: broken escapes, dot
 * segments; ERR_NOT_FOUND: deeper than any route. */
enum err router_split(struct arena *a, struct str path, struct route_path *ret);

/* NULL: no route. *ret_allow then lists the methods this path has (STR_NONE: no such path), in the
 * arena. */
const struct route *router_match(const struct router *r, struct str method,
                                 const struct route_path *path, struct arena *a,
                                 struct str *ret_allow);
struct str route_param(const struct route *route, const struct route_path *path, const char *name);

#endif
