/* routes.c -- the one table of the merchant API: method, path, permission, rate class, body limit,
 * blocking or not, handler, and the shapes of its query string and body. Reads run on the polling
 * thread in the turn's shared snapshot; whatever writes or calls a channel runs on a worker.
 * docs/openapi.yaml says the same; tests/unit/api/test_openapi.c compares them. */
#include "api/call.h"

#define ORDER_BYTES_MAX (256 * 1024)
#define SMALL_BYTES_MAX 4096

/* clang-format off */
/* X(method, path, permission, rate class, body limit, where it runs,
 *   handler, shape of the query string, shape of the body) */
#define ROUTES(X) \
    X(POST, "/v1/orders",                              ORDER, NORMAL, LARGE, WORKER,  \
      order_post,           no_input,           order_create_body) \
    X(GET,  "/v1/orders",                              READ,  HEAVY,  NONE,  POLLING, \
      order_get_list,       order_list_query,   no_input) \
    X(GET,  "/v1/orders/{order_no}",                   READ,  NORMAL, NONE,  POLLING, \
      order_get_one,        no_input,           no_input) \
    X(POST, "/v1/orders/{order_no}/cancel",            ORDER, NORMAL, SMALL, WORKER,  \
      order_post_cancel,    no_input,           order_cancel_body) \
    X(POST, "/v1/orders/{order_no}/complete",          ORDER, NORMAL, SMALL, WORKER,  \
      order_post_complete,  no_input,           no_input) \
    X(POST, "/v1/payments",                            PAY,   NORMAL, LARGE, WORKER,  \
      payment_post,         no_input,           payment_create_body) \
    X(GET,  "/v1/payments/{pay_no}",                   READ,  NORMAL, NONE,  POLLING, \
      payment_get_one,      payment_get_query,  no_input) \
    X(POST, "/v1/payments/{pay_no}/sync",              PAY,   HEAVY,  SMALL, WORKER,  \
      payment_post_sync,    no_input,           no_input) \
    X(POST, "/v1/payments/{pay_no}/close",             PAY,   NORMAL, SMALL, WORKER,  \
      payment_post_close,   no_input,           no_input) \
    X(GET,  "/v1/payments/{pay_no}/refunds",           READ,  HEAVY,  NONE,  POLLING, \
      refund_get_list,      no_input,           no_input) \
    X(POST, "/v1/refunds",                             REFUND, NORMAL, LARGE, WORKER, \
      refund_post,          no_input,           refund_create_body) \
    X(GET,  "/v1/refunds/{refund_no}",                 READ,  NORMAL, NONE,  POLLING, \
      refund_get_one,       refund_get_query,   no_input) \
    X(POST, "/v1/refunds/{refund_no}/sync",            REFUND, HEAVY, SMALL, WORKER,  \
      refund_post_sync,     no_input,           no_input) \
    X(GET,  "/v1/timeline/{no}",                       READ,  HEAVY,  NONE,  POLLING, \
      timeline_get,         no_input,           no_input) \
    X(GET,  "/v1/events",                              READ,  HEAVY,  NONE,  POLLING, \
      event_get_list,       event_list_query,   no_input) \
    X(POST, "/v1/events/{event_id}/replay",            ORDER, HEAVY,  SMALL, WORKER,  \
      event_post_replay,    no_input,           no_input) \
    X(GET,  "/v1/incidents",                           READ,  HEAVY,  NONE,  POLLING, \
      incident_get_list,    incident_list_query, no_input) \
    X(GET,  "/v1/incidents/{incident_no}",             READ,  NORMAL, NONE,  POLLING, \
      incident_get_one,     no_input,           no_input) \
    X(POST, "/v1/incidents/{incident_no}/resolve",     INCIDENT, NORMAL, SMALL, WORKER, \
      incident_post_resolve, no_input,          incident_resolve_body) \
    X(POST, "/v1/incidents/{incident_no}/withdraw",    INCIDENT, NORMAL, SMALL, WORKER, \
      incident_post_withdraw, no_input,         incident_withdraw_body) \
    X(GET,  "/v1/callers",                             ADMIN, HEAVY,  NONE,  POLLING, \
      caller_get_list,      no_input,           no_input) \
    X(POST, "/v1/callers",                             ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post,          no_input,           caller_create_body) \
    X(POST, "/v1/callers/{name}/keys",                 ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post_key,      no_input,           caller_key_body) \
    X(POST, "/v1/callers/{name}/rate",                 ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post_rate,     no_input,           caller_rate_body) \
    X(POST, "/v1/callers/{name}/enable",               ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post_enable,   no_input,           no_input) \
    X(POST, "/v1/callers/{name}/disable",              ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post_disable,  no_input,           no_input) \
    X(POST, "/v1/keys/{key_id}/revoke",                ADMIN, HEAVY,  SMALL, WORKER,  \
      caller_post_revoke,   no_input,           no_input) \
    X(GET,  "/v1/webhooks",                            ADMIN, HEAVY,  NONE,  POLLING, \
      webhook_get_list,     webhook_list_query, no_input) \
    X(POST, "/v1/webhooks",                            ADMIN, HEAVY,  SMALL, WORKER,  \
      webhook_post,         no_input,           webhook_create_body) \
    X(POST, "/v1/webhooks/{webhook_id}/rotate",        ADMIN, HEAVY,  SMALL, WORKER,  \
      webhook_post_rotate,  webhook_list_query, no_input) \
    X(POST, "/v1/webhooks/{webhook_id}/enable",        ADMIN, HEAVY,  SMALL, WORKER,  \
      webhook_post_enable,  webhook_list_query, no_input) \
    X(POST, "/v1/webhooks/{webhook_id}/disable",       ADMIN, HEAVY,  SMALL, WORKER,  \
      webhook_post_disable, webhook_list_query, no_input)
/* clang-format on */

#define BODY_NONE    0
#define BODY_SMALL   4096
#define BODY_LARGE   (256 * 1024) /* an order of 200 lines */
#define RUNS_POLLING 0
#define RUNS_WORKER  HTTP_BLOCKING

#define HTTP_ROW(method, path, permission, rate, body_max, where, handler, query, body)            \
    { #method,         path,        RUNS_##where, PERMISSION_##permission, RATE_##rate,            \
      BODY_##body_max, api_dispatch },
#define API_ROW(method, path, permission, rate, body_max, where, handler, query, body)             \
    { handler, &query, &body },

const struct http_route api_routes[] = { ROUTES(HTTP_ROW) { 0 } };
const struct api_route api_route_table[] = { ROUTES(API_ROW) };
const size_t api_route_count = sizeof api_route_table / sizeof *api_route_table;

const struct http_route ops_routes[] = {
    { "GET", "/healthz", HTTP_OPEN, 0, 0, 0, ops_health },
    { "GET", "/readyz", HTTP_OPEN, 0, 0, 0, ops_ready },
    { "GET", "/metrics", HTTP_OPEN, 0, 0, 0, ops_metrics },
    { 0 },
};
