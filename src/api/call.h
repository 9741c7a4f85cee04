/* call.h -- one request on its way through the merchant API, as handlers see it.
 *
 * By the time a handler runs, the caller is known and permitted, the query string and the body have
 * been read by their shapes, and (for signed requests) the nonce is durably taken. A handler
 * answers exactly once: reply_send, or call_refuse. */
#ifndef FENPAY_API_CALL_H
#define FENPAY_API_CALL_H

#include "api/api.h"
#include "api/auth.h"
#include "api/input.h"
#include "base/json.h"
#include "words/words.h"

#include <stdatomic.h>

struct waiters;
struct limiter;

struct api_service {
    struct api_options options; /* texts copied into `arena` */
    struct arena *arena;
    struct auth *auth;
    struct limiter *limiter;
    struct waiters *waiters;
    atomic_bool stopping;
};

struct api_call;
typedef void api_handler(struct api_call *call);
typedef bool api_show(struct api_call *call, bool at_last); /* see call_wait */

/* What the API knows of a route beyond struct http_route; same order, same index. */
struct api_route {
    api_handler *handler;
    const struct shape *query, *body;
};
extern const struct api_route api_route_table[];
extern const size_t api_route_count;
http_handler api_dispatch;

/* How much of a caller's rate a route may take: RATE_HEAVY routes have a bucket of a tenth besides.
 */
enum api_rate_class { RATE_NORMAL, RATE_HEAVY };

struct api_call {
    struct http_request *req;
    struct api_service *service;
    struct centre *centre;
    const struct api_route *route;
    struct arena *arena;
    struct identity who;
    struct act act;
    const void *query, *body; /* as the route's shapes say */
    bool suspended;
    api_show *show; /* of a long poll */
};

/* The path parameter as a number of that kind; refuses with `code` when it is none. False:
 * answered. */
bool call_number(struct api_call *call, const char *name, enum number_kind kind, enum code code,
                 struct number *ret);
/* The `{order_no}` of the path: our number, or the caller's own merchant_order_no (those never
 * parse as ours). False: answered. */
bool call_order_no(struct api_call *call, const char *name, struct number *ret);
/* Idempotency-Key header or the body's request_id; both must agree. False: answered. */
bool call_request_id(struct api_call *call, struct str request_id, struct str *ret);

/* A list's `limit` and `cursor`. False: answered. *ret_position 0: from the start. */
#define LIST_LIMIT_MAX 100
struct page {
    struct str cursor;
    struct opt_int limit;
};
/* clang-format off */
#define PAGE_FIELDS(in)                                                                \
    { "cursor", FIELD_TEXT, OPTIONAL, offsetof(in, page.cursor), 1, 64, SET_ANY, NULL }, \
    { "limit",  FIELD_INT, OPTIONAL, offsetof(in, page.limit), 1, LIST_LIMIT_MAX, NULL, NULL }
/* clang-format on */
bool call_page(struct api_call *call, const char *list, const struct page *page,
               int64_t *ret_position, size_t *ret_limit);

/* ---- answering ---- */
struct reply {
    struct buf buf;
    struct json_out out; /* an object is open */
};
void reply_begin(struct api_call *call, struct reply *r);
void reply_send(struct api_call *call, struct reply *r, int status);
/* "next_cursor" when the page was full. */
void reply_next_cursor(struct api_call *call, struct reply *r, const char *list, size_t n,
                       size_t limit, int64_t position);

void call_refuse(struct api_call *call, const struct refusal *refusal);
void call_refuse_code(struct api_call *call, enum code code);
void call_refuse_field(struct api_call *call, enum code code, const char *field, struct str detail);
/* For functions that speak enum err: NOT_FOUND, BAD_FIELD with the field, BUSY, INTERNAL (logged).
 */
void call_refuse_err(struct api_call *call, enum err e, const struct err_info *info);

/* A long poll: answered by `show` (which says whether it answered; with `at_last` it must) when
 * that finds it final, when a commit touches the payment, or after `wait_ms`. On the polling
 * thread. */
#define CALL_WAIT_S_MAX 30
void call_wait(struct api_call *call, int64_t pay_id, int64_t wait_ms, api_show *show);

/* The same for requests that never became a call (admission, the server's own refusals). */
void error_answer(struct http_request *req, const struct refusal *refusal);
/* The code for a refusal of the HTTP server: `word` if it is one of ours, else by the status. */
enum code error_code_of(struct str word, int status);
/* Chinese where Accept-Language prefers it to English, else English. */
enum language error_language(struct http_request *req);
/* A text of ours in that language, in the request's arena. */
struct str error_said(struct http_request *req, struct str en);

/* ---- the shapes ---- */
extern const struct shape no_input;
extern const struct shape order_create_body, order_list_query, order_cancel_body;
extern const struct shape payment_create_body, payment_get_query;
extern const struct shape refund_create_body, refund_get_query;
extern const struct shape event_list_query;
extern const struct shape incident_list_query, incident_resolve_body, incident_withdraw_body;
extern const struct shape caller_create_body, caller_key_body, caller_rate_body;
extern const struct shape webhook_create_body, webhook_list_query;

/* ---- the handlers ---- */
api_handler order_post, order_get_one, order_get_list, order_post_cancel, order_post_complete;
api_handler payment_post, payment_get_one, payment_post_sync, payment_post_close;
api_handler refund_post, refund_get_one, refund_get_list, refund_post_sync;
api_handler timeline_get;
api_handler event_get_list, event_post_replay;
api_handler incident_get_list, incident_get_one, incident_post_resolve, incident_post_withdraw;
api_handler caller_get_list, caller_post, caller_post_key, caller_post_revoke, caller_post_rate,
    caller_post_enable, caller_post_disable;
api_handler webhook_get_list, webhook_post, webhook_post_rotate, webhook_post_enable,
    webhook_post_disable;
http_handler ops_health, ops_ready, ops_metrics;

#endif
