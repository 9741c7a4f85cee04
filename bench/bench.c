/* bench.c -- the command: a table of measurements, three runs each, the median written as
 * build/bench/NAME.json beside the floors of the same minute.
 *
 * Benchmarks mislead easily (docs/performance.md): callbacks are signed just before, arrive
 * shuffled, hit a fresh database with their headers stored; closed and open loop; afterwards rows
 * in the database must equal answers 200 and the outbox must drain, or the measurement fails. */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/rand.h"

struct measure {
    const char *name;
    enum {
        MEASURE_START,
        MEASURE_CALLBACKS,
        MEASURE_DUPLICATES,
        MEASURE_PAYMENTS,
        MEASURE_READS,
        MEASURE_JOBS
    } kind;
    size_t count, quick_count; /* requests; for a start: open payments */
    unsigned connections;
    int64_t rate_per_s; /* open loop */
    bool bare_http;
};

static const struct measure measures[] = {
    { "start", MEASURE_START, 240000, 24000, 0, 0, false },
    { "callbacks", MEASURE_CALLBACKS, 60000, 6000, 128, 0, false },
    { "callbacks_duplicate", MEASURE_DUPLICATES, 60000, 6000, 128, 0, false },
    { "callbacks_open_loop", MEASURE_CALLBACKS, 60000, 6000, 256, 5000, false },
    { "callbacks_sustained", MEASURE_CALLBACKS, 240000, 8000, 256, 4000, false },
    { "delivery", MEASURE_CALLBACKS, 40000, 4000, 256, 2000, false },
    { "payments", MEASURE_PAYMENTS, 12000, 1000, 32, 0, false },
    { "reads", MEASURE_READS, 300000, 30000, 128, 0, true },
    { "jobs", MEASURE_JOBS, 100000, 5000, 0, 0, false },
};
#define MEASURE_COUNT (sizeof measures / sizeof *measures)
#define RUNS_MAX      9

struct outcome {
    struct load_result load;
    struct bench_usage usage; /* of the run alone */
    struct bench_counts counts;
    int64_t ready_ms, drained_ms, idle_rss_kb;
    int64_t others_us; /* CPU that neither the server nor the generator used */
    const char *delivered_p50, *delivered_p99; /* seconds, bounds of the server's histogram */
};

struct bench {
    struct bench_site site;
    const char *out_dir;
    size_t runs;
    bool quick;
    struct arena *arena;
};

static int64_t mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- what is sent ---- */

static struct str get_payment(struct bench *b, struct number pay_no)
{
    return str_printf(
        b->arena,
        "GET /v1/payments/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " STR_FMT
        "\r\n\r\n",
        number_text(pay_no).s, STR_ARG(b->site.bearer));
}

static struct str *reads(struct bench *b, size_t count)
{
    struct rand r;
    struct str *ret = calloc(count, sizeof *ret),
               *distinct = calloc(b->site.payment_count, sizeof *distinct);
    if (!ret || !distinct)
        abort();
    for (size_t i = 0; i < b->site.payment_count; i++)
        distinct[i] = get_payment(b, b->site.payments[i]);
    rand_seed(&r, 7);
    for (size_t i = 0; i < count; i++)
        ret[i] = distinct[rand_below(&r, b->site.payment_count)];
    free(distinct);
    return ret;
}

static struct str *creations(struct bench *b, size_t count)
{
    struct str *ret = calloc(count, sizeof *ret);
    if (!ret)
        abort();
    for (size_t i = 0; i < count; i++) {
        struct str body =
            str_printf(b->arena,
                       "{\"merchant_order_no\":\"B-%zu\",\"user_id\":\"u-%zu\",\"subject\":"
                       "\"龙井茶 250g\",\"amount\":8800,\"currency\":\"CNY\","
                       "\"channel\":\"wechat\",\"method\":\"native\"}",
                       i, i % 5000);
        ret[i] = str_printf(
            b->arena,
            "POST /v1/payments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " STR_FMT
            "\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
            STR_ARG(b->site.bearer), body.n, STR_ARG(body));
    }
    return ret;
}

/* ---- one run ---- */

/* From an event's creation until its consumers' effects are committed: the bound of the server's
 * own histogram below which this share of the events lies. */
static const char *delivered_within(struct bench *b, const struct bench_server *s, int64_t percent)
{
    static const char *const bounds[] = { "0.005", "0.01", "0.025", "0.05", "0.1",
                                          "0.25",  "0.5",  "1",     "2.5",  "5" };
    int64_t all = bench_metric(s, "fenpay_event_publish_delay_seconds_count", b->arena);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && all > 0; i++) {
        struct str name =
            str_printf(b->arena, "fenpay_event_publish_delay_seconds_bucket{le=\"%s\"}", bounds[i]);
        if (bench_metric(s, str_cstr(b->arena, name), b->arena) * 100 >= all * percent)
            return bounds[i];
    }
    return NULL;
}

/* Every event published and every order paid; how long that took behind the last answer. */
static enum err drain(struct bench *b, size_t expected, struct outcome *o, struct err_info *info)
{
    int64_t start = mono_ms(), pending;
    do { /* a look at the backlog alone: counting rows would hold a snapshot, and the log could not
            start again meanwhile */
        nanosleep(&(struct timespec) { .tv_nsec = 20000000 }, NULL);
        if (bench_site_pending(&b->site, &pending, info))
            return ERR_IO;
        o->drained_ms = mono_ms() - start;
    } while (pending && o->drained_ms < 120000);
    if (bench_site_count(&b->site, &o->counts, info))
        return ERR_IO;
    if (o->counts.pending == 0 && o->counts.paid_orders >= (int64_t)expected)
        return ERR_OK;
    return err_set(info, ERR_INTERNAL,
                   "the outbox does not drain: %lld pending, %lld of %zu orders paid",
                   (long long)o->counts.pending, (long long)o->counts.paid_orders, expected);
}

static enum err run_load(struct bench *b, const struct measure *m, const struct bench_server *s,
                         struct load *load, struct outcome *o, struct err_info *info)
{
    struct bench_usage before, after;
    enum err e = ERR_OK;
    if (m->kind == MEASURE_DUPLICATES) /* the first delivery of each is not measured */
        e = load_run(load, &o->load, info);
    if (!e && m->kind == MEASURE_DUPLICATES) /* nor what its events leave to do */
        e = drain(b, load->count, o, info);
    bench_usage_of(s->pid, &before);
    o->idle_rss_kb = before.rss_kb;
    int64_t others_us = bench_machine_cpu_us() - bench_own_cpu_us();
    if (!e)
        e = load_run(load, &o->load, info);
    bench_usage_of(s->pid, &after);
    others_us = bench_machine_cpu_us() - bench_own_cpu_us() - others_us;
    o->others_us = others_us - (after.cpu_us - before.cpu_us);
    o->usage = (struct bench_usage) { after.rss_kb, after.cpu_us - before.cpu_us,
                                      after.written_kb - before.written_kb };
    if (!e && o->load.good != load->count)
        e = err_set(info, ERR_INTERNAL, "%zu of %zu answers were good", o->load.good, load->count);
    if (!e && (m->kind == MEASURE_CALLBACKS || m->kind == MEASURE_DUPLICATES)) {
        e = drain(b, load->count, o, info);
        o->delivered_p50 = delivered_within(b, s, 50);
        o->delivered_p99 = delivered_within(b, s, 99);
        if (!e && o->counts.callbacks_done != (int64_t)load->count)
            e = err_set(info, ERR_INTERNAL,
                        "%zu callbacks were answered 200, the database holds %lld", load->count,
                        (long long)o->counts.callbacks_done);
    }
    return e;
}

static enum err run_once(struct bench *b, const struct measure *m, const struct str *requests,
                         size_t count, struct outcome *o, struct err_info *info)
{
    struct bench_server s = { 0 };
    int sandbox_pid = 0, sandbox_port = 0;
    enum err e = ERR_OK;
    if (m->kind == MEASURE_PAYMENTS) {
        e = bench_sandbox_start(&b->site, &sandbox_pid, &sandbox_port, info);
        struct account_config *account = b->site.site.settings.accounts.items;
        account->api_url = str_printf(b->arena, "http://127.0.0.1:%d", sandbox_port);
    }
    if (!e)
        e = bench_site_reset(&b->site, info);
    if (!e)
        e = bench_server_start(&b->site, &s, info);
    if (!e) {
        bool callbacks = m->kind == MEASURE_CALLBACKS || m->kind == MEASURE_DUPLICATES;
        struct load load = { .port = callbacks ? s.notify_port : s.api_port,
                             .connections = m->connections,
                             .requests = requests,
                             .count = count,
                             .rate_per_s = m->rate_per_s };
        o->ready_ms = s.ready_ms;
        if (m->kind != MEASURE_START)
            e = run_load(b, m, &s, &load, o, info);
    }
    if (s.pid)
        bench_stop(s.pid);
    if (sandbox_pid)
        bench_stop(sandbox_pid);
    return e;
}

/* ---- the report ---- */

static void put_ms(struct json_out *out, const char *key, int64_t us)
{
    char text[32];
    int n =
        snprintf(text, sizeof text, "%lld.%03lld", (long long)(us / 1000), (long long)(us % 1000));
    json_key(out, key);
    json_put_raw(out, (struct str) { text, (size_t)n });
}

static void put_ratio(struct json_out *out, const char *key, int64_t a, int64_t b)
{
    char text[32];
    int64_t thousandths = b ? a * 1000 / b : 0;
    int n = snprintf(text, sizeof text, "%lld.%03lld", (long long)(thousandths / 1000),
                     (long long)(thousandths % 1000));
    json_key(out, key);
    json_put_raw(out, (struct str) { text, (size_t)n });
}

static void put_machine(struct json_out *out)
{
    struct utsname u;
    uname(&u);
    json_key(out, "machine");
    json_begin_object(out);
    json_kv_str(out, "kernel", str_of(u.release));
    json_kv_int(out, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    json_end_object(out);
}

static void put_load(struct json_out *out, const struct measure *m, const struct outcome *o,
                     size_t count)
{
    json_kv_int(out, "rate_per_s", o->load.rate_per_s);
    put_ms(out, "p50_ms", o->load.p50_us);
    put_ms(out, "p99_ms", o->load.p99_us);
    put_ms(out, "p999_ms", o->load.p999_us);
    put_ms(out, "max_ms", o->load.max_us);
    put_ratio(out, "rss_mb", o->usage.rss_kb, 1024);
    put_ratio(out, "rss_before_mb", o->idle_rss_kb, 1024);
    json_kv_int(out, "connections", m->connections);
    json_kv_int(out, "count", (int64_t)count);
    json_kv_str(out, "loop", m->rate_per_s ? STR("open") : STR("closed"));
    if (m->rate_per_s)
        json_kv_int(out, "due_per_s", m->rate_per_s);
    put_ratio(out, "cpu_us_per_request", o->usage.cpu_us, (int64_t)count);
    put_ratio(out, "kb_written_per_request", o->usage.written_kb, (int64_t)count);
    if (o->counts.callbacks_done) {
        int64_t whole_ms = o->load.took_us / 1000 + o->drained_ms;
        json_kv_int(out, "rows", o->counts.callbacks_done);
        json_kv_int(out, "drained_ms_after", o->drained_ms);
        json_kv_str(out, "events_delivered_p50_s_at_most", str_of(o->delivered_p50));
        json_kv_str(out, "events_delivered_p99_s_at_most", str_of(o->delivered_p99));
        json_kv_int(out, "end_to_end_per_s", (int64_t)count * 1000 / (whole_ms ? whole_ms : 1));
    }
    /* Of one core; the sandbox is among the others where payments are made. */
    put_ratio(out, "others_cores", o->others_us > 0 ? o->others_us : 0, o->load.took_us);
}

static void put_floors(struct json_out *out, const struct outcome *o, const struct bench_floors *f)
{
    json_key(out, "floors");
    json_begin_object(out);
    json_kv_int(out, "rsa_verify_per_s", f->rsa_verify_per_s);
    json_kv_int(out, "fsync_us", f->fsync_us);
    if (f->bare_http_per_s) {
        json_kv_int(out, "bare_http_per_s", f->bare_http_per_s);
        put_ratio(out, "of_bare_http", o->load.rate_per_s, f->bare_http_per_s);
    }
    if (o->load.rate_per_s)
        put_ratio(out, "of_rsa_verify", o->load.rate_per_s, f->rsa_verify_per_s);
    json_end_object(out);
}

static void print_result(struct json_out *out, const struct measure *m, const struct outcome *o,
                         size_t count, const struct outcome all[], size_t runs,
                         const struct bench_floors *f)
{
    bool start = m->kind == MEASURE_START;
    json_begin_object(out);
    json_kv_str(out, "name", str_of(m->name));
    if (start)
        json_kv_int(out, "open_payments", (int64_t)count);
    else
        put_load(out, m, o, count);
    json_kv_int(out, "ready_ms", o->ready_ms);
    json_key(out, start ? "runs_ms" : "runs_per_s");
    json_begin_array(out);
    for (size_t i = 0; i < runs; i++)
        json_put_int(out, start ? all[i].ready_ms : all[i].load.rate_per_s);
    json_end_array(out);
    put_floors(out, o, f);
    put_machine(out);
    json_end_object(out);
}

static enum err write_result(struct bench *b, const char *name, struct str text,
                             struct err_info *info)
{
    const char *path = str_cstr(b->arena, str_printf(b->arena, "%s/%s.json", b->out_dir, name));
    FILE *f = fopen(path, "we");
    if (!f)
        return err_set(info, ERR_IO, "%s: cannot be written (%m)", path);
    fprintf(f, STR_FMT "\n", STR_ARG(text));
    return fclose(f) == 0 ? ERR_OK : err_set(info, ERR_IO, "%s: cannot be written (%m)", path);
}

static int by_rate(const void *a, const void *b)
{
    int64_t x = ((const struct outcome *)a)->load.rate_per_s,
            y = ((const struct outcome *)b)->load.rate_per_s;
    return (x > y) - (x < y);
}
static int by_ready(const void *a, const void *b)
{
    int64_t x = ((const struct outcome *)a)->ready_ms, y = ((const struct outcome *)b)->ready_ms;
    return (x > y) - (x < y);
}
static int by_p99(const void *a, const void *b)
{
    int64_t x = ((const struct outcome *)a)->load.p99_us,
            y = ((const struct outcome *)b)->load.p99_us;
    return (x > y) - (x < y);
}

static int by_took(const void *a, const void *b)
{
    int64_t x = ((const struct bench_jobs *)a)->took_us,
            y = ((const struct bench_jobs *)b)->took_us;
    return (x > y) - (x < y);
}

static enum err measure_jobs(struct bench *b, const struct measure *m, struct err_info *info)
{
    struct bench_jobs all[RUNS_MAX];
    struct bench_floors floors = { 0 };
    struct outcome none = { 0 };
    enum err e = bench_floors_measure(&b->site, false, &floors, info);
    for (size_t i = 0; i < b->runs && !e; i++)
        e = bench_jobs_run(&b->site, &all[i], info);
    if (e)
        return e;

    qsort(all, b->runs, sizeof *all, by_took);
    const struct bench_jobs *median = &all[b->runs / 2];
    int64_t count = (int64_t)b->site.payment_count;
    BUF_AUTO text = { 0 };
    struct json_out out;
    buf_init(&text, 1 << 16);
    json_out_init(&out, &text);
    json_begin_object(&out);
    json_kv_str(&out, "name", str_of(m->name));
    json_kv_int(&out, "due_rows", count);
    json_kv_int(&out, "rate_per_s", count * 1000000 / (median->took_us ? median->took_us : 1));
    put_ms(&out, "took_ms", median->took_us);
    json_kv_int(&out, "turns", median->turns);
    put_ms(&out, "longest_turn_ms", median->longest_turn_us);
    json_kv_int(&out, "found_paid", median->paid);
    json_key(&out, "runs_ms");
    json_begin_array(&out);
    for (size_t i = 0; i < b->runs; i++)
        json_put_int(&out, all[i].took_us / 1000);
    json_end_array(&out);
    put_floors(&out, &none, &floors);
    put_machine(&out);
    json_end_object(&out);
    printf("%-20s %8lld/s  %lld due rows in %lld s, the longest turn %lld ms\n", m->name,
           (long long)(count * 1000000 / (median->took_us ? median->took_us : 1)), (long long)count,
           (long long)(median->took_us / 1000000), (long long)(median->longest_turn_us / 1000));
    fflush(stdout);
    return write_result(b, m->name, buf_str(&text), info);
}

static enum err measure(struct bench *b, const struct measure *m, struct err_info *info)
{
    bool start = m->kind == MEASURE_START;
    size_t count = start ? b->site.payment_count : b->quick ? m->quick_count : m->count;
    struct outcome all[RUNS_MAX] = { 0 };
    struct bench_floors floors = { 0 };
    struct str *requests = NULL;
    enum err e = bench_floors_measure(&b->site, m->bare_http, &floors, info);
    if (!e && m->kind == MEASURE_READS)
        requests = reads(b, count);
    else if (!e && m->kind == MEASURE_PAYMENTS)
        requests = creations(b, count);
    for (size_t i = 0; i < b->runs && !e; i++) {
        /* Signed anew before each run: the window is five minutes. */
        if (m->kind == MEASURE_CALLBACKS || m->kind == MEASURE_DUPLICATES) {
            free(requests);
            if (!(e = bench_callbacks(&b->site, count, &requests, info)))
                bench_shuffle(requests, count);
        }
        if (!e)
            e = run_once(b, m, requests, count, &all[i], info);
    }
    free(requests);
    if (e)
        return e;

    qsort(all, b->runs, sizeof *all, start ? by_ready : m->rate_per_s ? by_p99 : by_rate);
    const struct outcome *median = &all[b->runs / 2];
    BUF_AUTO text = { 0 };
    struct json_out out;
    buf_init(&text, 1 << 16);
    json_out_init(&out, &text);
    print_result(&out, m, median, count, all, b->runs, &floors);
    if (start)
        printf("%-20s %8lld ms  with %zu open payments\n", m->name, (long long)median->ready_ms,
               count);
    else
        printf("%-20s %8lld/s  p50 %lld us  p99 %lld us  p99.9 %lld us  rss %lld MB\n", m->name,
               (long long)median->load.rate_per_s, (long long)median->load.p50_us,
               (long long)median->load.p99_us, (long long)median->load.p999_us,
               (long long)(median->usage.rss_kb / 1024));
    fflush(stdout);
    return write_result(b, m->name, buf_str(&text), info);
}

static bool wanted(const struct measure *m, const struct str names[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(names[i], str_of(m->name)))
            return true;
    return n == 0;
}

int command_bench(const struct command *self, int argc, char **argv)
{
    struct str out = STR("build/bench"), names[MEASURE_COUNT];
    bool quick = false, bare = false;
    int64_t runs = 3;
    size_t n = 0;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "out", OPTION_TEXT, &out, "DIR",
          "Where NAME.json and the work files go (default build/bench)" },
        { "runs", OPTION_INT, &runs, "N", "Runs of each; the median is reported (default 3)" },
        { "quick", OPTION_FLAG, &quick, "", "A tenth of the work, to see that it works" },
        { "bare-server", OPTION_FLAG, &bare, "",
          "Only the HTTP library answering, for comparison; prints its port" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, MEASURE_COUNT, names, &n, &exit_code))
        return exit_code;
    if (bare)
        return bench_bare_server();

    ARENA_AUTO a = arena_new(1 << 20);
    struct err_info info = { 0 };
    struct bench b = { .out_dir = str_cstr(a, out),
                       .runs = (size_t)(runs < 1          ? 1
                                        : runs > RUNS_MAX ? RUNS_MAX
                                                          : runs),
                       .quick = quick,
                       .arena = a };
    size_t most = 0;
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        if (wanted(&measures[i], names, n)) {
            size_t count = quick ? measures[i].quick_count : measures[i].count;
            size_t payments =
                measures[i].kind == MEASURE_PAYMENTS || measures[i].kind == MEASURE_READS ? 20000
                                                                                          : count;
            most = payments > most ? payments : most;
        }
    mkdir(b.out_dir, 0755);
    enum err e = bench_site_make(str_cstr(a, str_printf(a, STR_FMT "/work", STR_ARG(out))), most, a,
                                 &b.site, &info);
    for (size_t i = 0; i < MEASURE_COUNT && !e; i++)
        if (wanted(&measures[i], names, n))
            e = measures[i].kind == MEASURE_JOBS ? measure_jobs(&b, &measures[i], &info)
                                                 : measure(&b, &measures[i], &info);
    return e ? complain(self, e, &info) : EXIT_FINE;
}
