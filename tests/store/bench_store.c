/* bench_store.c -- how fast the store is by itself: `bench_store [folder]`. Not a test.
 *
 * Prints rules/s of a trivial insert submitted by 4 threads that keep 64 rules in flight each, and
 * the time one rule takes from store_run to its return, alone and with 4 threads. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

#define THREADS 4
#define WINDOW  64
#define EACH    50000
#define RUNS    2000

static const struct migration schema[] = {
    { "0001-row", "CREATE TABLE row (id {id}, payload {blob} NOT NULL, create_time {ms} NOT NULL) "
                  "{table_end};" },
    { NULL, NULL },
};

SQL(insert_row, "INSERT INTO row (id, payload, create_time) VALUES (?, ?, ?)");

static struct env env;
static struct store *store;
static _Atomic int64_t next_id = 1;
static const char payload[100];

struct work {
    struct store_job job;
    sem_t *window;
};

static enum err insert_rule(struct tx *tx, void *arg, struct err_info *info)
{
    (void)arg;
    return tx_exec(tx, &insert_row,
                   BINDS(bind_int(tx_new_id(tx)),
                         bind_blob((struct str) { payload, sizeof payload }),
                         bind_int(tx_now_ms(tx))),
                   NULL, info);
}

static void fill(struct store_job *job)
{
    store_job_init(job, &env, NULL, 0);
    job->name = "insert";
    job->class = STORE_CALLBACK;
    job->first_id = next_id++;
    job->ids_count = 1;
    job->rule = insert_rule;
}

static void done(struct store_job *job, enum store_outcome outcome, const struct err_info *info)
{
    (void)info;
    if (outcome != STORE_COMMITTED)
        abort();
    sem_post(((struct work *)job->arg)->window);
}

static void *submit_main(void *arg)
{
    struct work *works = arg;
    sem_t window;
    sem_init(&window, 0, WINDOW);
    for (int i = 0; i < EACH; i++) {
        struct work *w = &works[i];
        while (sem_wait(&window) != 0)
            ;
        fill(&w->job);
        w->window = &window;
        w->job.arg = w;
        w->job.done = done;
        if (!store_reserve(store, &w->job))
            abort();
        store_submit(store, &w->job);
    }
    for (int i = 0; i < WINDOW; i++)
        sem_wait(&window);
    return NULL;
}

static void *run_main(void *arg)
{
    int64_t *us = arg;
    for (int i = 0; i < RUNS; i++) {
        struct store_job job;
        fill(&job);
        int64_t start = env_mono_us(&env);
        if (store_run(store, &job, NULL) != STORE_COMMITTED)
            abort();
        us[i] = env_mono_us(&env) - start;
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void run_threads(int threads)
{
    pthread_t thread[THREADS];
    int64_t *us = calloc((size_t)threads * RUNS, sizeof *us);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run_main, us + i * RUNS);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    size_t n = (size_t)threads * RUNS;
    qsort(us, n, sizeof *us, by_size);
    printf("store_run, %d thread%s: p50 %ld us, p99 %ld us, max %ld us\n", threads,
           threads == 1 ? "" : "s", (long)us[n / 2], (long)us[n * 99 / 100], (long)us[n - 1]);
    free(us);
}

int main(int argc, char **argv)
{
    char url[256];
    struct err_info info = { 0 };
    struct store_stats before, after;
    pthread_t thread[THREADS];
    struct work *works = calloc(THREADS * EACH, sizeof *works);

    snprintf(url, sizeof url, "sqlite:%s/bench-%d.db", argc > 1 ? argv[1] : "/tmp", getpid());
    env_init_real(&env, NULL, NULL);
    struct store_options o = { .url = str_of(url), .env = &env, .migrations = schema };
    if (store_migrate(&o, NULL, &info) || store_open(&o, &store, &info)) {
        fprintf(stderr, "%s\n", info.text);
        return 1;
    }
    run_threads(1);
    run_threads(THREADS);
    store_stats(store, &before);
    int64_t start = env_mono_us(&env);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, submit_main, works + i * EACH);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    double s = (double)(env_mono_us(&env) - start) / 1e6;
    store_stats(store, &after);
    printf("submit, %d threads: %.0f rules/s, %.1f rules a batch, %.0f us a batch\n", THREADS,
           THREADS * EACH / s,
           (double)(after.rules - before.rules) / (double)(after.batches - before.batches),
           s * 1e6 / (double)(after.batches - before.batches));
    store_close(store);
    unlink(url + 7);
    snprintf(url + strlen(url), 8, ".owner");
    unlink(url + 7);
    free(works);
    return 0;
}
