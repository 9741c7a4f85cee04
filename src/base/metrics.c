/* metrics.c -- families, series, and their printing.
 *
 * A series is found without a lock (its family's hash chains only grow, and are read with acquire
 * loads) and made under one. Its cells are atomics in cache lines of their own. Series are never
 * removed: a label value must come from a bounded set, and SERIES_MAX is the net under that. */
#include "base/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SERIES_MAX  1000
#define CHAINS      64
#define CACHE_LINE  64
#define OTHER_VALUE "other"

/* Upper bounds of the histogram's buckets. */
static const struct bucket {
    int64_t us;
    const char *le;
} buckets[] = {
    { 100, "0.0001" },  { 250, "0.00025" }, { 500, "0.0005" },  { 1000, "0.001" },
    { 2500, "0.0025" }, { 5000, "0.005" },  { 10000, "0.01" },  { 25000, "0.025" },
    { 50000, "0.05" },  { 100000, "0.1" },  { 250000, "0.25" }, { 500000, "0.5" },
    { 1000000, "1" },   { 2500000, "2.5" }, { 5000000, "5" },   { 10000000, "10" },
    { 30000000, "30" },
};
#define BUCKETS (sizeof(buckets) / sizeof(buckets[0]))

/* Cells of a histogram: one a bucket, one for what is above all, and the sum. Others have one cell.
 */
#define CELL_ABOVE BUCKETS
#define CELL_SUM   (BUCKETS + 1)
#define CELLS      (BUCKETS + 2)

struct metric {
    const struct family *family;
    struct metric *chain; /* both links are written before the series is published */
    _Atomic(struct metric *) next;
    char *labels;
    _Alignas(CACHE_LINE) _Atomic int64_t cell[];
};

struct family {
    const struct metric_def *def;
    size_t label_count;
    size_t series;
    _Atomic(struct metric *) chains[CHAINS];
    _Atomic(struct metric *) first; /* in order of appearance */
    struct metric *last;
};

struct scrape {
    struct scrape *next;
    void (*fn)(struct metrics *m, void *arg);
    void *arg;
};

struct metrics {
    pthread_mutex_t make;  /* series and scrapes are made under it */
    pthread_mutex_t print; /* one scrape at a time */
    struct family *families;
    size_t count;
    size_t *index; /* hash of the name -> family + 1; 0: free; a power of two, at most half full */
    size_t index_size;
    struct scrape *scrapes;
};

static size_t hash_of(const char *s)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

static void *zeroed(size_t n)
{
    void *p = aligned_alloc(CACHE_LINE, (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!p)
        abort();
    return memset(p, 0, n);
}

static size_t labels_in(const char *labels)
{
    size_t count = labels ? 1 : 0;
    for (const char *p = labels; p && *p; p++)
        count += *p == ',';
    return count;
}

static struct family *find_family(const struct metrics *m, const char *name)
{
    for (size_t at = hash_of(name);; at++) {
        size_t i = m->index[at & (m->index_size - 1)];
        assert(i); /* a name that is not in the table */
        if (strcmp(m->families[i - 1].def->name, name) == 0)
            return &m->families[i - 1];
    }
}

static struct metric *find_series(struct family *f, const char *labels, size_t hash)
{
    struct metric *s = atomic_load_explicit(&f->chains[hash % CHAINS], memory_order_acquire);
    while (s && strcmp(s->labels, labels) != 0)
        s = s->chain;
    return s;
}

/* Under the lock. */
static struct metric *make_series(struct family *f, const char *labels)
{
    size_t cells = f->def->type == METRIC_HISTOGRAM ? CELLS : 1;
    struct metric *s = zeroed(sizeof(*s) + cells * sizeof(s->cell[0]));
    s->family = f;
    s->labels = strdup(labels);
    if (!s->labels)
        abort();
    size_t chain = hash_of(labels) % CHAINS;
    s->chain = atomic_load_explicit(&f->chains[chain], memory_order_relaxed);
    atomic_store_explicit(&f->chains[chain], s, memory_order_release);
    atomic_store_explicit(f->last ? &f->last->next : &f->first, s, memory_order_release);
    f->last = s;
    f->series++;
    return s;
}

struct metrics *metrics_new(const struct metric_def defs[], size_t n)
{
    struct metrics *m = zeroed(sizeof(*m));
    pthread_mutex_init(&m->make, NULL);
    pthread_mutex_init(&m->print, NULL);
    m->families = zeroed((n + 1) * sizeof(*m->families));
    m->count = n;
    for (m->index_size = 16; m->index_size < 2 * n;)
        m->index_size *= 2;
    m->index = zeroed(m->index_size * sizeof(*m->index));

    for (size_t i = 0; i < n; i++) {
        struct family *f = &m->families[i];
        f->def = &defs[i];
        f->label_count = labels_in(defs[i].labels);
        size_t at = hash_of(defs[i].name);
        while (m->index[at & (m->index_size - 1)])
            at++;
        m->index[at & (m->index_size - 1)] = i + 1;
        if (!f->label_count &&
            defs[i].type !=
                METRIC_GAUGE) /* what has not happened yet is 0; an unset gauge is unknown */
            make_series(f, "");
    }
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++) {
        struct metric *s = atomic_load(&m->families[i].first);
        while (s) {
            struct metric *next = atomic_load(&s->next);
            free(s->labels);
            free(s);
            s = next;
        }
    }
    while (m->scrapes) {
        struct scrape *s = m->scrapes;
        m->scrapes = s->next;
        free(s);
    }
    free(m->families);
    free(m->index);
    pthread_mutex_destroy(&m->make);
    pthread_mutex_destroy(&m->print);
    free(m);
}

/* "other,other,…" */
static void other_labels(size_t count, struct buf *b)
{
    for (size_t i = 0; i < count; i++)
        buf_printf(b, "%s" OTHER_VALUE, i ? "," : "");
    buf_add_char(b, '\0');
}

static struct metric *get_or_make(struct family *f, const char *labels)
{
    struct metric *s = find_series(f, labels, hash_of(labels)); /* somebody may have been faster */
    if (s)
        return s;
    if (f->series < SERIES_MAX || !f->label_count)
        return make_series(f, labels);

    BUF_AUTO other;
    buf_init(&other, 1024);
    other_labels(f->label_count, &other);
    s = find_series(f, other.p, hash_of(other.p));
    return s ? s : make_series(f, other.p);
}

struct metric *metrics_get(struct metrics *m, const char *name, const char *label_values)
{
    if (!m)
        return NULL;
    struct family *f = find_family(m, name);
    const char *labels = label_values && f->label_count ? label_values : "";
    struct metric *s = find_series(f, labels, hash_of(labels));
    if (s)
        return s;
    pthread_mutex_lock(&m->make);
    s = get_or_make(f, labels);
    pthread_mutex_unlock(&m->make);
    return s;
}

void metric_add(struct metric *m, int64_t n)
{
    if (m && m->family->def->type != METRIC_HISTOGRAM)
        atomic_fetch_add_explicit(&m->cell[0], n, memory_order_relaxed);
}

void metric_set(struct metric *m, int64_t v)
{
    if (m && m->family->def->type != METRIC_HISTOGRAM)
        atomic_store_explicit(&m->cell[0], v, memory_order_relaxed);
}

void metric_observe_us(struct metric *m, int64_t us)
{
    if (!m || m->family->def->type != METRIC_HISTOGRAM)
        return;
    if (us < 0)
        us = 0;
    size_t i = 0;
    while (i < BUCKETS && us > buckets[i].us)
        i++;
    atomic_fetch_add_explicit(&m->cell[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->cell[CELL_SUM], us, memory_order_relaxed);
}

static int64_t cell(const struct metric *m, size_t i)
{
    return atomic_load_explicit(&m->cell[i], memory_order_relaxed);
}

int64_t metric_value(const struct metric *m)
{
    if (!m)
        return 0;
    if (m->family->def->type != METRIC_HISTOGRAM)
        return cell(m, 0);
    int64_t count = 0;
    for (size_t i = 0; i <= CELL_ABOVE; i++)
        count += cell(m, i);
    return count;
}

void metrics_on_scrape(struct metrics *m, void (*fn)(struct metrics *m, void *arg), void *arg)
{
    if (!m)
        return;
    struct scrape *s = malloc(sizeof(*s));
    if (!s)
        abort();
    *s = (struct scrape) { .fn = fn, .arg = arg };
    pthread_mutex_lock(&m->print);
    s->next = m->scrapes;
    m->scrapes = s;
    pthread_mutex_unlock(&m->print);
}

static void add_escaped(struct buf *out, struct str s, bool quotes)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\n') {
            buf_add(out, "\\n", 2);
            continue;
        }
        if (s.p[i] == '\\' || (s.p[i] == '"' && quotes))
            buf_add_char(out, '\\');
        buf_add_char(out, s.p[i]);
    }
}

/* {listener="api",le="0.1"}; the last label takes what is left, commas and all. */
static void add_labels(struct buf *out, const struct metric *s, const char *le)
{
    struct str names = str_of(s->family->def->labels), values = str_of(s->labels);
    size_t left = s->family->label_count;
    if (!left && !le)
        return;
    buf_add_char(out, '{');
    for (; left; left--) {
        struct str name = str_cut(&names, ',');
        struct str value = left > 1 ? str_cut(&values, ',') : values;
        buf_add_str(out, name);
        buf_add_str(out, STR("=\""));
        add_escaped(out, value, true);
        buf_add_str(out, left > 1 || le ? STR("\",") : STR("\""));
    }
    if (le)
        buf_printf(out, "le=\"%s\"", le);
    buf_add_char(out, '}');
}

static void add_seconds(struct buf *out, int64_t us)
{
    uint64_t u = us < 0 ? -(uint64_t)us : (uint64_t)us;
    buf_printf(out, "%s%llu.%06llu", us < 0 ? "-" : "", (unsigned long long)(u / 1000000),
               (unsigned long long)(u % 1000000));
}

static void print_histogram(struct buf *out, const struct metric *s)
{
    const char *name = s->family->def->name;
    int64_t count = 0; /* its own sum of the buckets, so that all lines agree */
    for (size_t i = 0; i <= CELL_ABOVE; i++) {
        count += cell(s, i);
        buf_printf(out, "%s_bucket", name);
        add_labels(out, s, i == CELL_ABOVE ? "+Inf" : buckets[i].le);
        buf_printf(out, " %lld\n", (long long)count);
    }
    buf_printf(out, "%s_sum", name);
    add_labels(out, s, NULL);
    buf_add_char(out, ' ');
    add_seconds(out, cell(s, CELL_SUM));
    buf_printf(out, "\n%s_count", name);
    add_labels(out, s, NULL);
    buf_printf(out, " %lld\n", (long long)count);
}

static void print_series(struct buf *out, const struct metric *s)
{
    buf_add_str(out, str_of(s->family->def->name));
    add_labels(out, s, NULL);
    buf_add_char(out, ' ');
    if (s->family->def->type == METRIC_COUNTER_US)
        add_seconds(out, cell(s, 0));
    else
        buf_add_int(out, cell(s, 0));
    buf_add_char(out, '\n');
}

void metrics_print(struct metrics *m, struct buf *out)
{
    static const char *const type_names[] = {
        [METRIC_COUNTER] = "counter",
        [METRIC_COUNTER_US] = "counter",
        [METRIC_GAUGE] = "gauge",
        [METRIC_HISTOGRAM] = "histogram",
    };
    pthread_mutex_lock(&m->print);
    for (struct scrape *s = m->scrapes; s; s = s->next)
        s->fn(m, s->arg);
    for (size_t i = 0; i < m->count; i++) {
        struct family *f = &m->families[i];
        const struct metric *s = atomic_load_explicit(&f->first, memory_order_acquire);
        if (!s)
            continue;
        buf_printf(out, "# HELP %s ", f->def->name);
        add_escaped(out, str_of(f->def->help), false);
        buf_printf(out, "\n# TYPE %s %s\n", f->def->name, type_names[f->def->type]);
        for (; s; s = atomic_load_explicit(&s->next, memory_order_acquire)) {
            if (f->def->type == METRIC_HISTOGRAM)
                print_histogram(out, s);
            else
                print_series(out, s);
        }
    }
    pthread_mutex_unlock(&m->print);
}
