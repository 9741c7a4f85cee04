/* internal.h -- what the files of the runner share. Nobody outside src/store includes it.
 *
 * tx.c what a rule calls · batch.c one batch, from BEGIN to the outcomes · queue.c places, classes,
 * the writer thread · checkpoint.c the log · read.c snapshots · open.c opening, closing, trouble ·
 * migrate.c · lease.c · due.c */
#ifndef FENPAY_STORE_INTERNAL_H
#define FENPAY_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/metrics.h"
#include "store/driver.h"

#define BATCH_RULES 256
#define CALL_RULES  64 /* of one call of a batch rule */
#define BATCH_BYTES (2 << 20)
#define BATCH_US                                                                                   \
    20000 /* expected: a batch of slow rules is kept short for those who wait behind it */
#define QUEUE_RULES  4096
#define QUEUE_BYTES  (16 << 20)
#define TRIES_MAX    8
#define JOB_BYTES    1024 /* when the job does not say */
#define SLOW_RULE_US 5000

/* ---- tx.c ---- */

struct slot;

struct tx {
    struct store *store;
    const struct store_driver *driver;
    struct conn *conn;
    struct arena *arena;
    struct store_job *job;     /* NULL in a read */
    struct slot *const *items; /* of this call */
    size_t items_n;
    int64_t now_ms;
    bool write;
    struct query *open; /* not yet reset */
    enum err trouble;   /* the first error of the database other than ERR_EXISTS: from then on every
                           call fails with it */
    struct err_info trouble_info;
    struct store_waked *wakes; /* of the rules of this transaction so far */
    size_t wakes_n, wakes_cap;
};

void tx_start(struct tx *tx, struct store_job *job,
              int64_t now_ms); /* before every try of a rule */
/* After a rule: resets what it left open; a rule cannot be OK after trouble. Returns its result. */
enum err tx_finish(struct tx *tx, enum err result, struct err_info *info);

/* ---- batch.c ---- */

enum fate {
    FATE_WAITING, /* to be run (again) together with others */
    FATE_ALONE,   /* to be run (again) in a transaction of its own */
    FATE_OK,      /* ran; waits for the COMMIT, like the next three */
    FATE_REFUSED,
    FATE_RETRY,
    FATE_BUSY,
    FATE_DONE,  /* told; the job is not ours any more */
    FATE_AGAIN, /* for the next batch */
};

struct slot {
    struct store_job *job;
    enum fate fate;
    enum store_class class; /* as queued: the job may be gone before its place is given back */
    int64_t bytes, expect_us;
};

struct batch {
    struct tx tx;
    struct slot slots[BATCH_RULES];
    size_t n;
    bool savepoints, single; /* single: a call for each, also of batch rules */
    int deaths;
    struct slot *const *bad; /* the call at which the transaction came to nothing */
    size_t bad_n;
    int64_t cost_us[STORE_CLASSES];
    int64_t rules[STORE_CLASSES];
};

/* Runs every rule of the batch; afterwards each slot is DONE or AGAIN. */
void batch_run(struct store *s, struct batch *b);

/* ---- the store ---- */

struct reader {
    struct store *store;
    struct conn *conn;
    struct tx tx;
    bool shared;  /* between store_reads_begin and _end */
    bool begun;   /* a snapshot is open */
    bool running; /* a rule is running */
    int64_t begun_us;
    struct list link;
};

enum store_metric {
    M_BATCHES,
    M_RULES,
    M_CONFLICTS,
    M_BROKEN_BATCHES,
    M_COMMIT,
    M_WAL_FRAMES,
    M_WAL_LIMIT,
    M_QUEUE_CALLBACK,
    M_QUEUE_API,
    M_QUEUE_BACKGROUND,
    STORE_METRICS
};

struct store {
    struct store_options o;
    char *path; /* behind the scheme; o.url points to nothing of ours */
    struct env *env;
    const struct store_driver *driver;
    bool threads; /* a writer thread, and a checkpoint thread */
    int owner_fd;
    struct conn *writer;
    struct batch *batch;
    pthread_mutex_t direct; /* second writer: one rule at a time */

    /* Under `lock`. A place is held from reserve until the outcome was told. */
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    struct list queue[STORE_CLASSES];
    int64_t queued[STORE_CLASSES];
    int64_t places[STORE_CLASSES], place_bytes[STORE_CLASSES];
    int64_t used[STORE_CLASSES];    /* writer time, in us times the class's inverse weight */
    int64_t clock;                  /* `used` of the class served last */
    int64_t rule_us[STORE_CLASSES]; /* moving average */
    bool stopping, stop_threads;

    _Atomic bool failed, full;
    _Atomic int64_t probe_us; /* when to try a full disk again; writer only */
    _Atomic int64_t batches, rules, retries;

    store_on_wake *wake; /* set before the first job */
    void *wake_ctx;

    pthread_t writer_thread, checkpoint_thread;
    pthread_mutex_t log_lock; /* the checkpoint thread's */
    pthread_cond_t log_work, log_done;
    struct conn *log_conn;
    _Atomic int64_t log_frames; /* in the log after the last commit */
    int64_t log_tried;          /* writer only: frames at its last inline checkpoint */
    bool log_news, log_busy;    /* under log_lock: there is something to copy; it is copying */
    _Atomic bool log_stop, log_yield;
    pthread_mutex_t log_copying; /* one copies at a time: SQLite would answer BUSY to the other */
    _Atomic bool log_finish;     /* the writer is asked to copy the small rest */

    pthread_key_t reader_key;
    pthread_mutex_t readers_lock;
    struct list readers;

    struct metric *metrics[STORE_METRICS];
};

/* queue.c */
void waiter_wake(struct store *s, void *waiter);
void *store_writer_main(void *store);
/* Runs this one job as a batch of its own on the calling thread. */
void store_direct(struct store *s, struct store_job *job);
void store_probe_later(struct store *s);
void store_probe(struct store *s); /* writer: when the disk was full, is there room again? */

/* checkpoint.c */
void *store_checkpoint_main(void *store);
void store_log_after_commit(struct store *s); /* writer */
/* How long the writer rests after a commit that left so many frames, while the log is copied. */
int64_t store_log_rest_us(int64_t frames, int64_t limit);

/* open.c */
void store_fail(struct store *s, const struct err_info *info); /* fail-stop (F2) */
void store_set_full(struct store *s, bool full);
bool store_refuses(struct store *s, struct err_info *info); /* failed or full: no writing now */
static inline bool store_settles_unknown(const struct store *s)
{
    return s->driver->settles_unknown || (s->o.staging && s->o.staging->settles_unknown);
}

/* read.c */
void readers_init(struct store *s);
void readers_done(struct store *s, bool clean);

/* migrate.c */
enum err schema_check(struct store *s, struct err_info *info);
enum err schema_upgrade(struct store *s, int *ret_applied, struct err_info *info);
struct buf;
/* Expands the type words of one migration. */
enum err schema_expand(const char *const *types, struct str text, struct buf *out,
                       struct err_info *info);
extern const struct migration store_migrations[]; /* made by script/embed-schema */

#endif
