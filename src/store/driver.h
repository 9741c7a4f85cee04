/* driver.h -- what a database must be able to do: about twenty functions. The runner (internal.h)
 * owns rules, batches, classes, retries, wakes and outcomes; a driver owns one connection's SQL.
 * Sized so that a second engine is a week's work.
 *
 * Threads: a connection is used by one thread at a time. Errors: ERR_EXISTS unique violation
 * (statement undone, transaction alive), ERR_RETRY soft conflict (busy, deadlock, lock wait),
 * ERR_LIMIT disk full, ERR_IO the rest, ERR_INTERNAL misuse. After any error the runner asks
 * `in_transaction`: false means that the engine has rolled everything back (systems.md F1). */
#ifndef FENPAY_DRIVER_H
#define FENPAY_DRIVER_H

#include "store/store.h"

struct conn;
struct stmt;

enum conn_use { CONN_WRITER, CONN_READER, CONN_SECOND_WRITER, CONN_CHECKPOINT };

struct store_driver {
    const char *name;     /* "sqlite": the URL's scheme */
    bool group_commit;    /* one writer, many rules a transaction */
    bool settles_unknown; /* after a lost COMMIT answer the same process may run the rule again (a
                             server; not a file whose sync failed) */
    const char *const *types; /* schema type words -> SQL, pairs, NULL-terminated; '@' is the
                                 column, '#' the word's argument */

    enum err (*open)(const struct store_options *o, struct str path, enum conn_use use,
                     struct conn **ret, struct err_info *info);
    void (*close)(
        struct conn *c,
        bool clean); /* not clean: touch the files as little as possible, what is in them stays */
    enum err (*begin)(struct conn *c, bool write, struct err_info *info);
    enum err (*commit)(struct conn *c,
                       struct err_info *info); /* ERR_RETRY: not begun or nothing written; other
                                                  errors prove nothing */
    void (*rollback)(struct conn *c);
    bool (*in_transaction)(struct conn *c);
    int64_t (*total_changes)(
        struct conn *c); /* grows with every row written: tells whether a failed rule has written */
    enum err (*savepoint)(struct conn *c, struct err_info *info);
    enum err (*savepoint_undo)(struct conn *c, struct err_info *info);
    enum err (*savepoint_keep)(struct conn *c, struct err_info *info);

    struct stmt *(*prepare)(struct conn *c, const struct sql *sql,
                            struct err_info *info);            /* kept by the connection */
    int (*params)(struct stmt *s);                             /* how many '?' it has */
    void (*bind)(struct stmt *s, int i, const struct bind *b); /* i from 0, as for columns */
    enum err (*step)(struct stmt *s, bool *ret_row, struct err_info *info);
    int64_t (*changed)(struct conn *c);
    void (*reset)(struct stmt *s);
    int64_t (*col_int)(struct stmt *s, int i);
    bool (*col_null)(struct stmt *s, int i);
    struct str (*col_bytes)(struct stmt *s, int i); /* valid until the next step */

    enum err (*script)(struct conn *c, struct str sql,
                       struct err_info *info); /* several statements: migrations */
    enum err (*owner_lock)(struct str path, int *ret_fd, struct err_info *info);
    /* Group-commit engines: a pass of checkpoint work over the log as it is at its start;
     * *ret_copied: how many frames of the log are in the database file now. `inline_now` when
     * called by the writer itself. ERR_RETRY: another is at it. */
    enum err (*checkpoint)(struct conn *c, bool inline_now, int64_t *ret_copied,
                           struct err_info *info);
    int64_t (*wal_frames)(struct conn *c); /* frames in the log after this writer's last commit */
    int64_t (*free_bytes)(
        struct str path); /* on the disk that holds it; before writing again after ERR_LIMIT */
};

extern const struct store_driver sqlite_driver;

#endif
