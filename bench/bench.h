/* bench.h -- what the parts of `fenpay bench` share: the site under test, prepared callbacks,
 * floors, the server process. */
#ifndef FENPAY_BENCH_H
#define FENPAY_BENCH_H

#include "app/dev.h"
#include "bench/load.h"

/* ---- the site: keys, one payment really made, cloned (seed.c) ---- */
struct bench_site {
    struct arena *arena;
    const char *dir; /* work folder, on the disk that is measured */
    struct dev_site site;
    struct str bearer;
    const char *program;     /* the fenpay to run; NULL: this very program */
    struct number *payments; /* cloned ones, PAYING */
    size_t payment_count;
};
/* Makes dir, keys and the template database with `payments` payments: one made through the whole
 * way, the others its clones with ids, request ids and numbers of their own, so that every page and
 * index is what it would be. */
enum err bench_site_make(const char *dir, size_t payments, struct arena *a, struct bench_site *ret,
                         struct err_info *info);
/* A fresh copy of the template as the database of the next run. */
enum err bench_site_reset(const struct bench_site *b, struct err_info *info);

struct bench_counts {
    int64_t callbacks_done, paid_orders, pending;
};
enum err bench_site_pending(const struct bench_site *b, int64_t *ret,
                            struct err_info *info); /* 1: there are events not published yet */
enum err bench_site_count(const struct bench_site *b, struct bench_counts *ret,
                          struct err_info *info);

/* ---- callbacks as whole HTTP requests, the i-th for payments[i], signed now (callbacks.c) ---- */
enum err bench_callbacks(const struct bench_site *b, size_t count, struct str **ret,
                         struct err_info *info); /* free(*ret) */
/* People do not pay in the order they ordered. */
void bench_shuffle(struct str *items, size_t n);

/* ---- the server as a process of its own (server.c) ---- */
struct bench_server {
    int pid;
    int api_port, notify_port, ops_port;
    int64_t ready_ms;
};
struct bench_usage {
    int64_t rss_kb, cpu_us, written_kb;
};
enum err bench_server_start(const struct bench_site *b, struct bench_server *ret,
                            struct err_info *info);
enum err bench_sandbox_start(const struct bench_site *b, int *ret_pid, int *ret_port,
                             struct err_info *info);
/* CPU time of the whole machine so far, and of this process. What a run's difference of the two
 * holds beyond the server's own was taken by others, and the figures are worth that much less. */
int64_t bench_machine_cpu_us(void);
int64_t bench_own_cpu_us(void);
void bench_usage_of(int pid, struct bench_usage *ret);
int64_t bench_metric(const struct bench_server *s, const char *name,
                     struct arena *a); /* one value of /metrics; -1 when absent */
void bench_stop(int pid);              /* SIGTERM and wait */

/* ---- the query job with a backlog: all payments of the site due at once (jobs.c) ---- */
struct bench_jobs {
    int64_t took_us, longest_turn_us; /* a turn: each due job runs once */
    int64_t turns, paid;
};
enum err bench_jobs_run(const struct bench_site *b, struct bench_jobs *ret, struct err_info *info);

/* ---- floors: what the machine can do right now (floors.c) ---- */
struct bench_floors {
    int64_t rsa_verify_per_s, fsync_us, bare_http_per_s;
};
enum err bench_floors_measure(const struct bench_site *b, bool bare_http, struct bench_floors *ret,
                              struct err_info *info);
int bench_bare_server(void); /* the HTTP library alone, until killed: prints its port */

#endif
