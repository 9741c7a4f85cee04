/* api_world.h -- the merchant API on a real listener, store and core; payments are flow_fake's. */
#ifndef FENPAY_TEST_API_WORLD_H
#define FENPAY_TEST_API_WORLD_H

#include "../world.h"
#include "../net/net_testing.h"

#include "api/api.h"
#include "base/metrics.h"
#include "flow_fake.h"

#define MASTER_KEY STR("0123456789abcdef0123456789abcdef")

struct api_world {
    struct world w;
    struct centre centre;
    struct bus *bus;
    struct api_service *api;
    struct http_server *server;
    int port;
    const char *bearer; /* of "shop", which may do everything but admin */
    int64_t caller;
    struct test_answer answer; /* the last one */
};

static inline void api_world_wake(void *ctx, const struct store_waked *wakes, size_t n)
{
    api_wake(ctx, wakes, n);
}

static inline int64_t api_world_caller(struct api_world *t, const char *name, unsigned permissions,
                                       const char **ret_bearer)
{
    struct err_info info = { 0 };
    struct str bearer;
    int64_t id = 0;
    if (caller_create(&t->centre, str_of(name), permissions, t->w.arena, &id, &bearer, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
    *ret_bearer = bearer.p;
    return id;
}

static inline void api_world_open(struct api_world *t, int64_t rate_per_s,
                                  const struct http_route *routes)
{
    struct err_info info = { 0 };

    *t = (struct api_world) { 0 };
    world_open(&t->w, true);
    t->w.env->metrics = metrics_new(metrics_table, metrics_table_count);
    t->centre = (struct centre) { .env = t->w.env, .store = t->w.store, .mint = t->w.mint };
    t->centre.registry = registry_new();
    centre_settings_defaults(&t->centre.settings);
    t->bus = bus_new(&(struct bus_options) { .env = t->w.env,
                                             .store = t->w.store,
                                             .mint = t->w.mint,
                                             .source = STR("fenpay-test"),
                                             .master_key = MASTER_KEY });
    assert_ok(api_new(&(struct api_options) { .centre = &t->centre,
                                              .bus = t->bus,
                                              .master_key = MASTER_KEY,
                                              .rate_per_s = rate_per_s,
                                              .rate_burst = rate_per_s,
                                              .webhook_private = true,
                                              .source = STR("fenpay-test") },
                      &t->api, &info));
    store_set_wake(t->w.store, api_world_wake, t->api);
    struct http_server_options o = {
        .name = "api",
        .listen = STR("127.0.0.1:0"),
        .loops = 1,
        .workers = 2,
        .routes = routes,
        .service = t->api,
        .admit = api_admit,
        .refuse = api_refuse,
        .turn_begin = api_turn_begin,
        .turn_end = api_turn_end,
        /* The clock jumps in these tests: no connection is to be found too slow for it. */
        .header_ms = 86400000,
        .body_ms = 86400000,
        .idle_ms = 86400000,
    };
    if (http_server_start(t->w.env, &o, &t->server, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
    t->port = http_server_port(t->server);
    unsigned most = PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY | PERMISSION_INCIDENT;
    t->caller = api_world_caller(t, "shop", most, &t->bearer);
}

static inline void api_world_close(struct api_world *t)
{
    http_server_quiesce(t->server);
    api_release_waiters(t->api);
    http_server_stop(t->server, 5000);
    store_drain(t->w.store); /* its last wake goes to what is freed next */
    api_free(t->api);
    bus_free(t->bus);
    registry_free(t->centre.registry);
    struct metrics *m = t->w.env->metrics;
    world_close(&t->w);
    metrics_free(m);
}

/* A whole request; `extra` is header lines, each with CR LF; `body` NULL: none. */
static inline struct str api_request(struct api_world *t, const char *bearer, const char *method,
                                     const char *target, const char *extra, const char *body)
{
    struct arena *a = t->w.arena;
    struct str auth = bearer ? str_printf(a, "Authorization: Bearer %s\r\n", bearer) : STR("");
    struct str payload = STR("");
    if (body)
        payload = str_printf(a, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                             strlen(body));
    return str_printf(a, "%s %s HTTP/1.1\r\nHost: t\r\n" STR_FMT "%s" STR_FMT "\r\n%s", method,
                      target, STR_ARG(auth), extra, STR_ARG(payload), body ? body : "");
}

/* Sends it, keeps the answer in t->answer, returns its status. */
static inline int api_ask(struct api_world *t, const char *bearer, const char *method,
                          const char *target, const char *extra, const char *body)
{
    struct str r = api_request(t, bearer, method, target, extra, body);
    test_exchange_n(t->port, r.p, r.n, false, &t->answer);
    return t->answer.status;
}

static inline int api_get(struct api_world *t, const char *target)
{
    return api_ask(t, t->bearer, "GET", target, "", NULL);
}
static inline int api_post(struct api_world *t, const char *target, const char *body)
{
    return api_ask(t, t->bearer, "POST", target, "", body);
}

/* A member of the answer's object, by its text (numbers and booleans as written). */
static inline struct str api_member(struct api_world *t, const char *key)
{
    const struct json *root;
    struct err_info info = { 0 };
    if (json_parse(t->w.arena, (struct str) { t->answer.body, t->answer.body_n }, &root, &info)) {
        print_error("not JSON (%s): %.*s\n", info.text, (int)t->answer.body_n, t->answer.body);
        fail();
    }
    const struct json *v = json_get(root, key);
    if (!v)
        return STR_NONE;
    return v->type == JSON_STRING ? str_dup(t->w.arena, v->text) : str_dup(t->w.arena, v->raw);
}

static inline bool api_has_header(const struct api_world *t, const char *line)
{
    return strstr(t->answer.raw, line) != NULL;
}

#endif
