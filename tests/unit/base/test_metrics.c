/* Metrics: the printed text, label escaping, the limit on series, and adding from several threads.
 */
#include "../check.h"

#include <pthread.h>

#include "base/metrics.h"

static const struct metric_def defs[] = {
    { "t_requests_total", METRIC_COUNTER, "route,code", "Requests \\ answered" },
    { "t_plain_total", METRIC_COUNTER, NULL, "Plain" },
    { "t_cpu_seconds_total", METRIC_COUNTER_US, NULL, "CPU" },
    { "t_depth", METRIC_GAUGE, NULL, "Depth" },
    { "t_seconds", METRIC_HISTOGRAM, "job", "Seconds" },
    { "t_many", METRIC_GAUGE, "a,b", "Many" },
};

static const char *print(struct metrics *m, struct buf *b)
{
    buf_init(b, 1 << 20);
    metrics_print(m, b);
    assert_true(buf_ok(b));
    buf_add_char(b, '\0');
    return b->p;
}

static void test_text(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(defs, COUNT(defs));
    metric_add(metrics_get(m, "t_requests_total", "GET /v1/x,200"), 3);
    metric_add(metrics_get(m, "t_requests_total", "quo\"te\\\n,a,b"), 1);
    metric_add(metrics_get(m, "t_requests_total", "GET /v1/x,200"), 1);
    metric_set(metrics_get(m, "t_cpu_seconds_total", NULL), 1500001);
    BUF_AUTO b;
    const char *text = print(m, &b);
    const char *want = "# HELP t_requests_total Requests \\\\ answered\n"
                       "# TYPE t_requests_total counter\n"
                       "t_requests_total{route=\"GET /v1/x\",code=\"200\"} 4\n"
                       "t_requests_total{route=\"quo\\\"te\\\\\\n\",code=\"a,b\"} 1\n"
                       "# HELP t_plain_total Plain\n"
                       "# TYPE t_plain_total counter\n"
                       "t_plain_total 0\n"
                       "# HELP t_cpu_seconds_total CPU\n"
                       "# TYPE t_cpu_seconds_total counter\n"
                       "t_cpu_seconds_total 1.500001\n";
    assert_string_equal(text, want); /* no gauge that was not set, no histogram without a series */
    metrics_free(m);
}

static void test_histogram(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(defs, COUNT(defs));
    struct metric *s = metrics_get(m, "t_seconds", "poll");
    static const int64_t us[] = { -1, 0, 100, 101, 250, 999999, 30000000, 30000001, 90000000 };
    for (size_t i = 0; i < COUNT(us); i++)
        metric_observe_us(s, us[i]);
    metric_add(s, 5); /* not how a histogram is used: nothing */
    metric_set(s, 5);
    assert_int_equal(metric_value(s), COUNT(us));
    BUF_AUTO b;
    const char *text = print(m, &b);
    static const char *const lines[] = {
        "# TYPE t_seconds histogram\n",
        "t_seconds_bucket{job=\"poll\",le=\"0.0001\"} 3\n",
        "t_seconds_bucket{job=\"poll\",le=\"0.00025\"} 5\n",
        "t_seconds_bucket{job=\"poll\",le=\"0.5\"} 5\n",
        "t_seconds_bucket{job=\"poll\",le=\"1\"} 6\n",
        "t_seconds_bucket{job=\"poll\",le=\"30\"} 7\n",
        "t_seconds_bucket{job=\"poll\",le=\"+Inf\"} 9\n",
        "t_seconds_sum{job=\"poll\"} 151.000451\n",
        "t_seconds_count{job=\"poll\"} 9\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        check_row(strstr(text, lines[i]), lines[i]);
    metrics_free(m);
}

static void test_get(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(defs, COUNT(defs));
    struct metric *s = metrics_get(m, "t_many", "x,y");
    assert_ptr_equal(metrics_get(m, "t_many", "x,y"), s);
    assert_ptr_not_equal(metrics_get(m, "t_many", "x,z"), s);
    assert_ptr_equal(metrics_get(m, "t_depth", "ignored"), metrics_get(m, "t_depth", NULL));

    char labels[32];
    for (int i = 0; i < 2000; i++) {
        snprintf(labels, sizeof(labels), "n%d,1", i);
        metric_add(metrics_get(m, "t_many", labels), 1);
    }
    struct metric *other = metrics_get(m, "t_many", "yet,another");
    assert_ptr_equal(metrics_get(m, "t_many", "other,other"), other);
    assert_int_equal(metric_value(other), 1002); /* two of the thousand were made above */
    assert_int_equal(metric_value(s), 0);

    assert_null(metrics_get(NULL, "t_many", "x"));
    metric_add(NULL, 1);
    metric_set(NULL, 1);
    metric_observe_us(NULL, 1);
    assert_int_equal(metric_value(NULL), 0);
    metrics_free(m);
    metrics_free(NULL);
}

static void count_scrape(struct metrics *m, void *arg)
{
    int *times = arg;
    metric_set(metrics_get(m, "t_depth", NULL), ++*times);
}

static void test_scrape(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(defs, COUNT(defs));
    int times = 0;
    metrics_on_scrape(m, count_scrape, &times);
    BUF_AUTO b, c;
    print(m, &b);
    assert_non_null(strstr(print(m, &c), "t_depth 2\n"));
    metrics_free(m);
}

static void *add_many(void *arg)
{
    char labels[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(labels, sizeof(labels), "r%d,200", i % 50);
        metric_add(metrics_get(arg, "t_requests_total", labels), 1);
        metric_observe_us(metrics_get(arg, "t_seconds", "j"), i);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct metrics *m = metrics_new(defs, COUNT(defs));
    pthread_t thread[4];
    for (size_t i = 0; i < COUNT(thread); i++)
        assert_int_equal(pthread_create(&thread[i], NULL, add_many, m), 0);
    BUF_AUTO b;
    print(m, &b);
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(metric_value(metrics_get(m, "t_requests_total", "r7,200")), 1600);
    assert_int_equal(metric_value(metrics_get(m, "t_seconds", "j")), 80000);
    metrics_free(m);
}

/* The real table: names are unique, counters end in _total, histograms in _seconds. */
static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < metrics_table_count; i++) {
        const struct metric_def *d = &metrics_table[i];
        struct str name = str_of(d->name);
        check_row(str_all_of(name, "abcdefghijklmnopqrstuvwxyz_"), d->name);
        check_row(str_ends(name, STR("_total")) ==
                      (d->type == METRIC_COUNTER || d->type == METRIC_COUNTER_US),
                  d->name);
        check_row(d->type != METRIC_HISTOGRAM || str_ends(name, STR("_seconds")), d->name);
        for (size_t j = 0; j < i; j++)
            check_row(strcmp(metrics_table[j].name, d->name) != 0, d->name);
    }
    struct metrics *m = metrics_new(metrics_table, metrics_table_count);
    metrics_watch_process(m, "/");
    BUF_AUTO b;
    print(m, &b);
    assert_true(metric_value(metrics_get(m, "process_resident_memory_bytes", NULL)) > 100000);
    assert_true(metric_value(metrics_get(m, "process_open_fds", NULL)) >= 3);
    assert_true(metric_value(metrics_get(m, "process_cpu_seconds_total", NULL)) > 0);
    assert_true(metric_value(metrics_get(m, "fenpay_disk_free_bytes", "/")) > 0);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),    cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_get),     cmocka_unit_test(test_scrape),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_table),
    };
    return RUN_TESTS(tests);
}
