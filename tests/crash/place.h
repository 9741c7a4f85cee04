/* place.h -- a whole place of business for the crash tests: the real binary as a process of its
 * own, the sandbox as its channel behind HTTP, an address for its webhooks, and a clock that all of
 * them share and the test moves.
 *
 * Complaints are collected, not asserted, because clients complain from threads of their own; the
 * first one is kept. */
#ifndef FENPAY_CRASH_PLACE_H
#define FENPAY_CRASH_PLACE_H

#include <pthread.h>

#include "bench/bench.h"

#define HOOKS_MAX 4096

struct hook { /* one webhook received */
    char event_no[33];
    struct sha256 body;
};

struct place {
    char dir[64];
    bool mounted;
    struct arena *arena; /* of the whole test program */
    struct env env;
    _Atomic int64_t *ahead_ms; /* how far the clock was moved */
    struct bench_site bench;
    struct bench_server server;          /* pid 0: none runs */
    struct transport *client, to_server; /* callbacks go to wherever the server listens now */
    struct http_server *hook_server;

    /* Of one run: */
    struct sandbox *sandbox;
    struct http_server *sandbox_server;
    pthread_t pump;
    _Atomic bool stop_pump, hold_callbacks;
    struct runtime *inside;  /* instead of a process: on a disk that breaks */
    bool errors_are_the_end; /* merchants take 5xx as they take no answer */
    pthread_mutex_t lock;    /* of what follows */
    struct hook hooks[HOOKS_MAX];
    size_t hook_count;
    char complaint[512];
};

/* Keys, a database with one caller and one webhook, the receiver of webhooks. False: said why.
 * `disk_mb` not 0: all of it on a disk of its own of that size; `mounted` says whether it could be
 * had. */
bool place_make(struct place *p, const char *name, int disk_mb);
void place_drop(struct place *p);

/* A fresh database and fresh books; the clock is the machine's again. */
void place_begin(struct place *p);
/* `kill_at` NULL: no kill point. */
void place_start(struct place *p, const char *kill_at);
/* The server must end by itself by SIGKILL, while the clock moves; else a complaint. */
void place_wait_killed(struct place *p);
void place_kill(struct place *p);
/* The centre in this process, on the fault VFS, and its end. */
void place_start_inside(struct place *p);
void place_stop_inside(struct place *p);
void place_end(struct place *p); /* also after a failed test */

void place_move_clock(struct place *p, int64_t ms);

/* A request of the merchant; 0: no (complete) answer. *ret_answer, in `a`, its body. */
int place_ask(struct place *p, struct arena *a, const char *method, struct str path,
              struct str body, struct str *ret_answer);
int place_ready(struct place *p, struct arena *a, struct str *ret_answer);     /* GET /readyz */
struct str answer_field(struct arena *a, struct str answer, const char *name); /* STR_NONE */

void complaint(struct place *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
