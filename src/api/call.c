/* call.c -- the way of every request through the merchant API: admission (who, how often, may
 * they), inputs by their shapes, the nonce of a signed request, then the handler. Nothing here
 * knows a resource; routes.c is the table that steers it. */
#include "api/call.h"

#include <assert.h>

#include "api/cursor.h"
#include "api/waiters.h"
#include "core/order/order.h"
#include "net/limiter.h"

#define REPLY_BYTES_MAX ((size_t)4 << 20)
#define RATE_KEYS_MAX   10000
#define QUERY_KEYS_MAX  32

const struct shape no_input = { NULL, 0, 0 };

/* ---- the service ---- */

enum err api_new(const struct api_options *options, struct api_service **ret, struct err_info *info)
{
    if (!options->centre || !options->bus)
        return err_internal(info, "the API needs a centre and a bus");

    struct arena *a = arena_new(1024);
    struct api_service *s = arena_one(a, struct api_service);
    arena_mark_secret(a);
    s->arena = a;
    s->options = *options;
    s->options.master_key = str_dup(a, options->master_key);
    s->options.source = options->source.n ? str_dup(a, options->source) : STR("fenpay");
    s->auth = auth_new(options->centre, options->master_key);
    s->limiter = limiter_new(options->centre->env, RATE_KEYS_MAX);
    s->waiters = waiters_new();
    *ret = s;
    return ERR_OK;
}

void api_free(struct api_service *s)
{
    if (!s)
        return;
    waiters_free(s->waiters);
    limiter_free(s->limiter);
    auth_free(s->auth);
    arena_free(s->arena);
}

void api_turn_begin(void *service)
{
    store_reads_begin(((struct api_service *)service)->options.centre->store);
}

void api_turn_end(void *service)
{
    store_reads_end(((struct api_service *)service)->options.centre->store);
}

void api_wake(struct api_service *s, const struct store_waked *wakes, size_t n)
{
    waiters_wake(s->waiters, wakes, n);
}

void api_release_waiters(struct api_service *s)
{
    atomic_store(&s->stopping, true);
    waiters_release(s->waiters);
}

/* ---- admission ---- */

/* How many times the configured rate; 0: no limit. */
static const int64_t rate_times[CALLER_RATES] = {
    [CALLER_RATE_NORMAL] = 1, [CALLER_RATE_HIGH] = 10
};

static bool take_rate(struct api_service *s, const struct identity *who, int rate_class,
                      struct refusal *refusal)
{
    int64_t per_s = s->options.rate_per_s * rate_times[who->rate];
    int64_t burst = s->options.rate_burst * rate_times[who->rate];
    int64_t wait_ms = 0;

    if (per_s <= 0)
        return true;
    /* One bucket by the bare id, one by the id with a byte behind it. */
    char key[sizeof who->caller.id + 1] = { 0 };
    memcpy(key, &who->caller.id, sizeof who->caller.id);
    if (!limiter_take(s->limiter, (struct str) { key, sizeof key - 1 }, per_s, burst, &wait_ms))
        goto refused;
    if (rate_class == RATE_HEAVY && !limiter_take(s->limiter, (struct str) { key, sizeof key },
                                                  per_s / 10 + 1, burst / 10 + 1, &wait_ms))
        goto refused;
    return true;

refused:
    *refusal =
        (struct refusal) { .code = CODE_RATE_LIMITED, .retry_after_s = (int)(wait_ms / 1000) + 1 };
    return false;
}

/* Traces carry the id the caller gave; without one, its traceparent; without that, ours. */
static struct str trace_of(struct http_request *req)
{
    struct str parent = http_traceparent(req);
    bool own = http_header_get(http_headers(req), "X-Request-Id", NULL).n > 0;
    return own || !parent.n ? http_request_id(req) : parent;
}

bool api_admit(struct http_request *req, const struct http_route *route, void *service)
{
    struct api_service *s = service;
    struct arena *a = http_arena(req);
    struct refusal refusal = { 0 };
    struct identity who = { 0 };

    enum code c = auth_check(s->auth, http_headers(req), http_method(req), http_target(req),
                             http_body(req), http_received_ms(req), a, &who, &refusal);
    if (!c && !take_rate(s, &who, route->rate_class, &refusal))
        c = refusal.code;
    if (!c && ((unsigned)route->permission & who.permissions) != (unsigned)route->permission) {
        c = CODE_FORBIDDEN;
        refusal = (struct refusal) { .code = c };
    }
    if (c) {
        error_answer(req, &refusal);
        return false;
    }

    ptrdiff_t index = route - api_routes;
    assert(index >= 0 && (size_t)index < api_route_count);
    struct api_call *call = arena_one(a, struct api_call);
    *call = (struct api_call) {
        .req = req,
        .service = s,
        .centre = s->options.centre,
        .route = &api_route_table[index],
        .arena = a,
        .who = who,
        .act = { who.caller, str_printf(a, "caller:" STR_FMT, STR_ARG(who.caller.name)),
                 trace_of(req), a },
    };
    http_set_user(req, call);
    return true;
}

/* ---- inputs ---- */

static bool is_json(struct str content_type)
{
    struct str type = str_trim(str_cut(&content_type, ';'));
    if (!str_eq_nocase(type, STR("application/json")))
        return false;
    struct str charset = str_trim(content_type);
    return !charset.n || str_eq_nocase(charset, STR("charset=utf-8")) ||
           str_eq_nocase(charset, STR("charset=\"utf-8\""));
}

static enum code read_query(struct api_call *call, void *ret, struct refusal *refusal)
{
    struct input_pair pairs[QUERY_KEYS_MAX];
    size_t n = 0;
    struct str key;

    while ((key = http_query_key(call->req, n)).p) {
        if (n == QUERY_KEYS_MAX) {
            *refusal = (struct refusal) { .code = CODE_BAD_REQUEST,
                                          .detail = STR("too many query parameters") };
            return refusal->code;
        }
        pairs[n].key = key;
        pairs[n++].value = http_query(call->req, str_cstr(call->arena, key));
    }
    return input_pairs(call->arena, pairs, n, call->route->query, ret, refusal);
}

static bool read_inputs(struct api_call *call)
{
    struct refusal refusal = { 0 };
    struct str body = http_body(call->req);
    void *query = arena_alloc(call->arena, call->route->query->size + 1);
    void *in = arena_alloc(call->arena, call->route->body->size + 1);

    enum code c = read_query(call, query, &refusal);
    if (!c && body.n && !is_json(http_header_get(http_headers(call->req), "Content-Type", NULL))) {
        c = CODE_UNSUPPORTED_MEDIA;
        refusal = (struct refusal) { .code = c };
    }
    if (!c)
        c = input_json(call->arena, body, call->route->body, in, &refusal);
    if (c) {
        call_refuse(call, &refusal);
        return false;
    }
    call->query = query;
    call->body = in;
    return true;
}

/* ---- signed requests take their nonce durably before anything happens ---- */

struct nonce_wait {
    struct api_call *call;
    struct nonce_use use;
    struct store_job job;
    enum store_outcome outcome;
};

static void refuse_replay(struct api_call *call)
{
    call_refuse(call, &(struct refusal) { .code = CODE_UNAUTHENTICATED,
                                          .detail = STR("this nonce was used before") });
}

static void nonce_finish(struct http_request *req, void *arg)
{
    struct nonce_wait *w = arg;
    (void)req;

    if (w->outcome != STORE_COMMITTED)
        call_refuse_code(w->call, CODE_BUSY);
    else if (w->use.replayed)
        refuse_replay(w->call);
    else
        w->call->route->handler(w->call);
}

static void nonce_stored(struct store_job *job, enum store_outcome outcome,
                         const struct err_info *info)
{
    struct nonce_wait *w = container_of(job, struct nonce_wait, job);
    (void)info;
    w->outcome = outcome;
    http_finish_later(w->call->req, nonce_finish, w);
}

/* On a polling thread nothing may wait: the request is suspended until the nonce is durable. */
static void take_nonce_later(struct api_call *call)
{
    struct nonce_wait *w = arena_one(call->arena, struct nonce_wait);

    w->call = call;
    auth_nonce_init(&w->use, call->centre->env, &call->who, http_received_ms(call->req));
    store_job_init(&w->job, call->centre->env, call->centre->mint, 0);
    w->job.name = "caller_nonce";
    w->job.class = STORE_API;
    w->job.rule = auth_nonce_rule;
    w->job.arg = &w->use;
    w->job.done = nonce_stored;
    if (!store_reserve(call->centre->store, &w->job)) {
        call_refuse_code(call, CODE_BUSY);
        return;
    }
    call->suspended = true;
    http_suspend(call->req);
    store_submit(call->centre->store, &w->job);
}

/* On a worker: false: answered. */
static bool take_nonce_now(struct api_call *call)
{
    struct nonce_use use;
    struct refusal refusal = { 0 };

    auth_nonce_init(&use, call->centre->env, &call->who, http_received_ms(call->req));
    if (centre_run(call->centre, "caller_nonce", STORE_API, 0, auth_nonce_rule, &use, 0,
                   &refusal)) {
        call_refuse(call, &refusal);
        return false;
    }
    if (use.replayed)
        refuse_replay(call);
    return !use.replayed;
}

void api_dispatch(struct http_request *req, void *service)
{
    struct api_call *call = http_user(req);
    ptrdiff_t index = call->route - api_route_table;
    bool blocking = api_routes[index].flags & HTTP_BLOCKING;
    (void)service;

    if (!read_inputs(call))
        return;
    if (call->who.nonce.n && !blocking)
        take_nonce_later(call);
    else if (!call->who.nonce.n || take_nonce_now(call))
        call->route->handler(call);
}

/* ---- what handlers share ---- */

bool call_number(struct api_call *call, const char *name, enum number_kind kind, enum code code,
                 struct number *ret)
{
    if (!number_parse(http_param(call->req, name), kind, ret))
        return true;
    call_refuse_code(call, code);
    return false;
}

bool call_order_no(struct api_call *call, const char *name, struct number *ret)
{
    struct str text = http_param(call->req, name);
    struct refusal refusal = { 0 };
    struct order order;

    if (!number_parse(text, NUMBER_ORDER, ret))
        return true;
    if (text.n > 64 || !str_all_of(text, SET_ID)) {
        call_refuse_code(call, CODE_ORDER_NOT_FOUND);
        return false;
    }
    if (order_find(call->centre, &call->act, text, &order, &refusal)) {
        call_refuse(call, &refusal);
        return false;
    }
    *ret = order.no;
    return true;
}

bool call_request_id(struct api_call *call, struct str request_id, struct str *ret)
{
    size_t count;
    struct str key = http_header_get(http_headers(call->req), "Idempotency-Key", &count);

    if (count > 1 || (count == 1 && (key.n == 0 || key.n > 64 || !str_all_of(key, SET_VISIBLE)))) {
        call_refuse_field(call, CODE_BAD_FIELD, "Idempotency-Key",
                          STR("1 to 64 visible ASCII characters, once"));
        return false;
    }
    if (count && request_id.n && !str_eq(key, request_id)) {
        call_refuse_field(call, CODE_IDEMPOTENCY_DISAGREE, "request_id", STR_NONE);
        return false;
    }
    *ret = count ? key : request_id;
    return true;
}

bool call_page(struct api_call *call, const char *list, const struct page *page,
               int64_t *ret_position, size_t *ret_limit)
{
    *ret_limit = page->limit.given ? (size_t)page->limit.v : 20;
    *ret_position = 0;
    if (!page->cursor.n ||
        !cursor_parse(call->arena, list, call->who.caller.id, page->cursor, ret_position))
        return true;
    call_refuse_field(call, CODE_BAD_CURSOR, "cursor", STR_NONE);
    return false;
}

void reply_begin(struct api_call *call, struct reply *r)
{
    buf_init_arena(&r->buf, call->arena, REPLY_BYTES_MAX);
    json_out_init(&r->out, &r->buf);
    json_begin_object(&r->out);
}

void reply_send(struct api_call *call, struct reply *r, int status)
{
    json_end_object(&r->out);
    if (buf_ok(&r->buf))
        http_answer(call->req, status, "application/json; charset=utf-8", buf_str(&r->buf));
    else
        call_refuse_err(call, ERR_INTERNAL,
                        &(struct err_info) { .text = "the answer is larger than 4 MB" });
}

void reply_next_cursor(struct api_call *call, struct reply *r, const char *list, size_t n,
                       size_t limit, int64_t position)
{
    if (n == limit)
        json_kv_str(&r->out, "next_cursor",
                    cursor_print(call->arena, list, call->who.caller.id, position));
}
