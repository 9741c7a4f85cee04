/* store.h -- business rules as transactions, on whichever database holds the slot.
 *
 * A rule is a function of a transaction: it reads and writes through `tx` and leaves what it found
 * in its own argument. It may run more than once (a conflict, a batch that died, a COMMIT whose
 * answer got lost), so
 *   - request bytes stand in its argument before it starts; the time and new ids come from the tx
 * (tx_now_ms, tx_new_id), which gives the same ones in every try;
 *   - its first write is its unique row, or a compare-and-set that checks whose work it found (an
 * idempotent repair may stand before it); counters move only after that row was inserted;
 *   - it does nothing else: no network, no reply, no log line that claims success.
 * ERR_OK commits. Any error undoes everything the rule wrote; a business result (duplicate,
 * conflict, mismatch) is therefore data in the argument beside ERR_OK, never an error. ERR_RETRY
 * runs it again in a later batch, at most 8 times. */
#ifndef FENPAY_STORE_H
#define FENPAY_STORE_H

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "base/list.h"
#include "base/number.h"
#include "base/str.h"

struct store;
struct tx;

typedef enum err store_rule(struct tx *tx, void *arg, struct err_info *info);

/* One call for many independent arguments, so that they can share statements of many rows; often
 * n = 1. A result other than ERR_OK undoes the whole call, which is then made again for each half
 * of it, down to n = 1: who does not know whose key a statement of many rows found taken gives the
 * error to all. tx_item chooses whose time and ids the tx gives. */
typedef void store_batch(struct tx *tx, void *const arg[], enum err ret_result[], size_t n);

/* Who is served first when the writer is busy: 8 : 4 : 2 by share of its time, and none starves. */
enum store_class { STORE_CALLBACK, STORE_API, STORE_BACKGROUND };
#define STORE_CLASSES 3

enum store_outcome {
    STORE_COMMITTED, /* durable */
    STORE_REFUSED,   /* the rule returned an error: nothing of it was written */
    STORE_BUSY, /* the queue is full, the store is stopping, or soft conflicts outlasted the tries:
                   nothing was written, try later */
    STORE_UNKNOWN, /* COMMIT failed in a way that proves nothing; running the rule again settles it
                    */
};

/* Prepared by the caller with store_job_init, owned by it until `done` has run (store_run: until it
 * returns). */
struct store_job {
    const char *name; /* in metrics, slow-rule logs and kill points */
    enum store_class class;
    unsigned slot;
    store_rule *rule;
    store_batch *batch; /* without `rule`: this one, for neighbours in the queue at once */
    void *arg;
    size_t bytes; /* about what it will write; batches and the queue are bounded by it; 0: 1 KB */
    int64_t now_ms;
    int64_t first_id;             /* ids_count ids from here are this job's own */
    unsigned ids_count, ids_used; /* ids_used is the store's */
    void (*done)(struct store_job *job, enum store_outcome outcome, const struct err_info *info);
    struct list link; /* the store's */
    unsigned tries;
    bool alone; /* never share a transaction with others */
    void *waiter;
    enum store_outcome outcome; /* what `done` was told; for store_run */
    struct err_info info;
};

/* Fixes the time and reserves `ids` new ids (0..1024) for it; everything else is set by the caller
 * afterwards. */
void store_job_init(struct store_job *job, struct env *env, struct mint *mint, unsigned ids);

/* Runs the job's rule and returns once its effect is durable, or known not to be. After a lost
 * COMMIT answer it runs the rule again by itself (bounded). Never while holding a channel
 * connection; never from the store's own thread or a polling thread. */
enum store_outcome store_run(struct store *store, struct store_job *job, struct err_info *info);

/* The same without waiting. First a place in the queue (false: answer 503), then the submit, which
 * cannot fail. `done` runs exactly once, after the commit; on SQLite on the writer thread, on MySQL
 * on any of several; it must only hand the outcome on. */
bool store_reserve(struct store *store, const struct store_job *job);
void store_submit(struct store *store, struct store_job *job);

#define STORE_READ_MS_MAX 50
/* Whoever reads page upon page sleeps so long between two: the log starts again only in a moment
 * when nobody reads, and a scan without a pause made it grow for seconds (systems.md F7). */
#define STORE_READ_PAUSE_MS 10

/* A snapshot for at most that long; longer readers come back page by page. Writing in it is
 * ERR_INTERNAL. Inside, tx_new_id is not available. */
enum err store_read(struct store *store, unsigned slot, const char *name, store_rule *rule,
                    void *arg, struct err_info *info);
/* Between these two, on one thread, all store_reads share one snapshot (one turn of a polling
 * loop). */
void store_reads_begin(struct store *store);
void store_reads_end(struct store *store);

/* Waits until nothing is queued and everything submitted is durable; nothing new is accepted
 * afterwards (STORE_BUSY). */
void store_drain(struct store *store);
void store_close(struct store *store); /* drains, checkpoints, closes; no thread may use it any
                                          more. NULL is fine */
void store_drop(struct store *store);  /* inline mode: a simulated process death; waiting jobs are
                                          forgotten, their memory is not touched */

/* Wakes: collected during the batch, delivered once after its commit, on the store's thread; the
 * handler must only hand on. */
enum store_wake { WAKE_BUS, WAKE_PAYMENT, WAKE_ORDER, WAKE_JOB };
struct store_waked {
    enum store_wake wake;
    int64_t id;
};
typedef void store_on_wake(void *ctx, const struct store_waked *wakes, size_t n);
void store_set_wake(struct store *store, store_on_wake *fn, void *ctx);

/* "" when usable; else why not (disk full, failed sync, stopping): for /readyz. In the arena. */
struct str store_trouble(struct store *store, struct arena *a);
/* True after a COMMIT failed in a way that proves nothing: the process must end and start again
 * (systems.md F2). */
bool store_failed(struct store *store);

struct store_stats {
    int64_t batches, rules, retries, wal_frames, queue[STORE_CLASSES];
};
void store_stats(struct store *store, struct store_stats *ret);

/* ---- inside a rule ---- */
struct arena *tx_arena(struct tx *tx); /* emptied before every try; dies with the transaction */
struct env *tx_env(struct tx *tx);
int64_t tx_now_ms(const struct tx *tx);
int64_t tx_new_id(struct tx *tx); /* the next of the job's ids, from the first again in every try; 0
                                     when used up: return ERR_INTERNAL */
/* In a store_batch: from here on tx_now_ms and tx_new_id are those of arg[i]. At first arg[0]'s. */
void tx_item(struct tx *tx, size_t i);
void tx_after_commit(struct tx *tx, enum store_wake wake, int64_t id);

/* A statement: one named `static const struct sql` each, in an aggregate's _sql.c. Parameters are
 * '?', bound in order. The SQL is the subset that means the same on every engine (plain INSERT, no
 * column read after being assigned in the same UPDATE, …). Prepared once per connection and kept,
 * keyed by the address of the struct. */
struct sql {
    const char *name;
    const char *text;
};
#define SQL(ident, sql_text) static const struct sql ident = { #ident, sql_text }

/* What the '?' stand for, in order. A text or blob with p NULL (STR_NONE) binds NULL; the bytes
 * must live until the statement ran: for tx_select, until its last row. */
enum bind_kind { BIND_INT, BIND_TEXT, BIND_BLOB };
struct bind {
    enum bind_kind kind;
    union {
        int64_t v;
        struct str s;
    };
};
struct binds {
    const struct bind *at;
    size_t n;
};
/* Lives until the end of the block that names it. */
#define BINDS(...)                                                                                 \
    ((struct binds) { (const struct bind[]) { __VA_ARGS__ },                                       \
                      sizeof((const struct bind[]) { __VA_ARGS__ }) / sizeof(struct bind) })
#define NO_BINDS ((struct binds) { NULL, 0 })

/* Without the first `n`. */
static inline struct binds binds_skip(struct binds binds, size_t n)
{
    return (struct binds) { binds.at + n, binds.n - n };
}

static inline struct bind bind_int(int64_t v)
{
    return (struct bind) { .kind = BIND_INT, .v = v };
}

static inline struct bind bind_text(struct str s)
{
    return (struct bind) { .kind = BIND_TEXT, .s = s };
}

static inline struct bind bind_blob(struct str s)
{
    return (struct bind) { .kind = BIND_BLOB, .s = s };
}

/* A writing statement. ERR_EXISTS: a unique key is taken (nothing of this statement was written,
 * the rule may go on). *ret_changed (may be NULL): rows. */
enum err tx_exec(struct tx *tx, const struct sql *sql, struct binds binds, int64_t *ret_changed,
                 struct err_info *info);
/* A compare-and-set: ERR_RETRY with the text `lost` unless exactly one row was changed. */
enum err tx_exec_one(struct tx *tx, const struct sql *sql, struct binds binds, const char *lost,
                     struct err_info *info);

/* A SELECT. Never NULL: trouble looks like the end of the rows, and query_end tells. */
struct query;
struct query *tx_select(struct tx *tx, const struct sql *sql, struct binds binds);
bool query_row(struct query *q); /* the next one; false: no more */
/* Always called, or its query cannot be run again in this rule; how reading went. */
enum err query_end(struct query *q, struct err_info *info);
enum err query_end_n(struct query *q, size_t n, size_t *ret_n,
                     struct err_info *info); /* and says how many rows were taken */
/* Where there had to be a row: ends the query; its error, or `e` with that text. */
#define query_none(q, info, e, ...)                                                                \
    __extension__({                                                                                \
        enum err query_end_ = query_end((q), (info));                                              \
        query_end_ ? query_end_ : err_set((info), (e), __VA_ARGS__);                               \
    })
/* The first column of the first row; 0: no row. */
enum err tx_select_int(struct tx *tx, const struct sql *sql, struct binds binds, int64_t *ret,
                       struct err_info *info);

int64_t col_int(struct query *q, int column); /* NULL reads as 0 */
bool col_is_null(struct query *q, int column);
struct str col_text(struct query *q, int column); /* copied into tx_arena; STR_NONE for NULL */
struct str col_blob(struct query *q, int column);

/* ---- opening ---- */
struct store_driver;
struct store_disk;

/* A step of the schema; in order, append-only. The text uses the type words explained in migrate.c.
 */
struct migration {
    const char *name; /* "0001-order"; NULL ends the list */
    const char *text;
};

struct store_options {
    struct str url; /* "sqlite:/path/to/file.db" */
    struct env *env;
    bool second_writer;    /* a command beside a running server: one rule per transaction, no owner
                              lock, no checkpoints */
    bool inline_mode;      /* no threads: store_run runs its rule on the caller (yielding through
                              env_effect); submitted jobs wait for store_turn */
    const char *vfs;       /* SQLite: a registered VFS name, for tests; NULL: the default */
    int64_t cache_bytes;   /* page cache of the writer; 0: 12 MB */
    int64_t wal_bytes_max; /* the log's limit; 0: 64 MB. From a quarter of it on it is copied into
                              the database */
    bool savepoints;       /* test variant: one savepoint a rule */
    const struct migration *migrations;  /* for tests; NULL: the embedded ones */
    const struct store_driver *driver;   /* for tests; NULL: by the URL's scheme */
    const struct store_staging *staging; /* the simulator's; inline mode only; outlives the store */
};

/* What a simulated database is like. */
enum commit_fate {
    COMMIT_ANSWERED,
    COMMIT_UNHEARD, /* it happens, and the answer gets lost */
    COMMIT_LOST     /* it does not happen, and nobody says so */
};
struct store_staging {
    void *ctx;
    struct store_disk *disk;               /* where the URL's file lies */
    enum commit_fate (*commit)(void *ctx); /* of the next one; NULL: all are answered */
    bool settles_unknown; /* after a commit without an answer a rule is run again, as on a server */
    /* Every row that a rule has written, in tables with integer keys. NULL: nobody looks. */
    void (*on_row)(void *ctx, const char *table, int64_t id);
};

/* A disk that is memory; one thread. What was written to it and not synced is gone when the power
 * is cut: then, and when it is freed, no store may be open on it. */
struct store_disk *store_disk_new(const struct store_disk *like); /* NULL: an empty one */
void store_disk_free(struct store_disk *disk);
void store_disk_cut_power(struct store_disk *disk);
/* Takes the owner lock (unless second_writer or inline): ERR_CONFLICT when another process holds
 * it, with its pid in the text. Does not migrate; ERR_CONFLICT with "run fenpay migrate" when the
 * schema is older than this program, "newer program needed" when it is newer. */
enum err store_open(const struct store_options *options, struct store **ret, struct err_info *info);
/* Creates or upgrades the schema; needs the owner lock. *ret_applied: how many migrations ran now.
 */
enum err store_migrate(const struct store_options *options, int *ret_applied,
                       struct err_info *info);

/* Inline mode: runs up to `max` waiting jobs as one batch, in order, and their `done`; returns how
 * many. */
size_t store_turn(struct store *store, size_t max);
size_t store_waiting(struct store *store);

#endif
