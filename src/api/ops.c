/* ops.c -- the operations listener: /healthz (this process answers), /readyz (store, bus and keys
 * are usable; else why not), /metrics (Prometheus text). Nothing here asks who you are: the
 * listener is on loopback. */
#include "api/call.h"
#include "api/waiters.h"
#include "base/metrics.h"

#define METRICS_BYTES_MAX ((size_t)8 << 20)
#define NOTES_MAX         32

static void answer_object(struct http_request *req, int status, struct buf *buf)
{
    http_answer(req, status, "application/json; charset=utf-8", buf_str(buf));
}

void ops_health(struct http_request *req, void *service)
{
    (void)service;
    http_answer(req, 200, "application/json; charset=utf-8", STR("{\"status\":\"ok\"}"));
}

static enum err stats_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return bus_stats(tx, arg, info);
}

static void add_reason(struct json_out *out, struct http_request *req, struct str en)
{
    json_str(out, error_said(req, en));
}

static void check_store(struct api_service *s, struct http_request *req, struct json_out *out)
{
    struct arena *a = http_arena(req);
    struct store *store = s->options.centre->store;
    struct str trouble = store_trouble(store, a);
    struct bus_stats stats;
    struct err_info info = { 0 };

    if (trouble.n)
        add_reason(out, req, str_printf(a, "store: " STR_FMT, STR_ARG(trouble)));
    else if (store_failed(store))
        add_reason(out, req, STR("store: a COMMIT failed; the process must start again"));
    else if (store_read(store, 0, "ready", stats_rule, &stats, &info))
        add_reason(out, req, str_printf(a, "bus: %s", info.text));
}

static void check_keys(struct api_service *s, struct http_request *req, struct json_out *out)
{
    struct arena *a = http_arena(req);
    int64_t now_ms = env_now_ms(s->options.centre->env);
    struct account *account;

    for (size_t i = 0; (account = registry_at(s->options.centre->registry, i)); i++) {
        struct key_note notes[NOTES_MAX];
        const struct channel_driver *driver = account->info->driver;
        size_t n = driver->keys_notes ? driver->keys_notes(account, a, notes, NOTES_MAX) : 0;
        for (size_t k = 0; k < n && !account->config.retired; k++) {
            if (notes[k].not_after_ms && notes[k].not_after_ms <= now_ms && !notes[k].replaced)
                add_reason(out, req,
                           str_printf(a, "account " STR_FMT ": " STR_FMT " has expired",
                                      STR_ARG(account->config.name), STR_ARG(notes[k].what)));
        }
        account_unref(account);
    }
}

void ops_ready(struct http_request *req, void *service)
{
    struct api_service *s = service;
    struct arena *a = http_arena(req);
    struct buf reasons, body;
    struct json_out out;

    buf_init_arena(&reasons, a, 65536);
    json_out_init(&out, &reasons);
    json_begin_array(&out);
    if (atomic_load(&s->stopping))
        add_reason(&out, req, STR("stopping"));
    check_store(s, req, &out);
    check_keys(s, req, &out);
    json_end_array(&out);

    bool ready = str_eq(buf_str(&reasons), STR("[]"));
    buf_init_arena(&body, a, 65536 + 64);
    json_out_init(&out, &body);
    json_begin_object(&out);
    json_kv_bool(&out, "ready", ready);
    json_key(&out, "reasons");
    json_put_raw(&out, buf_str(&reasons));
    json_end_object(&out);
    answer_object(req, ready ? 200 : 503, &body);
}

/* What is counted in the store or here, and known only when asked. */
static void measure(struct api_service *s)
{
    struct metrics *m = s->options.centre->env->metrics;
    struct bus_stats stats;

    metric_set(metrics_get(m, "fenpay_long_polls", NULL), (int64_t)waiters_count(s->waiters));
    if (store_read(s->options.centre->store, 0, "metrics", stats_rule, &stats, NULL))
        return;
    metric_set(metrics_get(m, "fenpay_outbox_backlog", NULL), stats.pending);
    metric_set(metrics_get(m, "fenpay_outbox_oldest_seconds", NULL), stats.oldest_ms / 1000);
}

void ops_metrics(struct http_request *req, void *service)
{
    struct api_service *s = service;
    struct metrics *m = s->options.centre->env->metrics;
    struct buf buf;

    buf_init_arena(&buf, http_arena(req), METRICS_BYTES_MAX);
    if (m) {
        measure(s);
        metrics_print(m, &buf);
    }
    if (buf_ok(&buf))
        http_answer(req, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&buf));
    else
        http_answer(req, 500, "text/plain; charset=utf-8",
                    error_said(req, STR("the metrics are larger than 8 MB")));
}
