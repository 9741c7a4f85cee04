/* journal.h -- every move of every order, payment and refund as a row, chained by hash.
 *
 * The head (id, seq, hash) stands on the aggregate's row and moves with its version: journal_next
 * makes the new row from the head, the aggregate's own UPDATE takes the new head, journal_insert
 * writes the row. No index: the chain is walked from the head by prev_id. */
#ifndef FENPAY_JOURNAL_H
#define FENPAY_JOURNAL_H

#include "core/evidence.h"
#include "crypto/digest.h"
#include "store/store.h"

/* Persisted: pinned in journal.c. */
enum journal_cause {
    CAUSE_CREATED = 1,
    CAUSE_CALLBACK = 2,
    CAUSE_PREPAY = 3,
    CAUSE_QUERY = 4,
    CAUSE_CLOSE = 5,
    CAUSE_SETTLE = 6,
    CAUSE_ATTEMPT = 7,
    CAUSE_CANCEL = 8,
    CAUSE_EXPIRY = 9,
    CAUSE_COMPLETE = 10,
    CAUSE_OPERATOR = 11,
    CAUSE_FAILOVER = 12,
    CAUSE_REFUND = 13, /* the answer to a refund that was sent */
};

struct journal_head {
    int64_t id; /* 0: nothing yet */
    int64_t seq;
    struct sha256 hash; /* of the row `id`; all zero for none */
};

/* On the aggregate's row, in its own UPDATE. */
#define JOURNAL_HEAD_SET "journal_id = ?, journal_seq = ?, journal_hash = ?"
#define JOURNAL_HEAD_BINDS(head)                                                                   \
    bind_int((head)->id), bind_int((head)->seq), bind_blob(sha256_str(&(head)->hash))

struct journal_row {
    int64_t id;
    struct number subject;
    int64_t seq;
    int from, to; /* from -1: created */
    enum journal_cause cause;
    enum evidence_kind evidence_kind;
    int64_t evidence_ref;
    struct str actor, trace_id, note;
    int64_t prev_id;
    struct sha256 prev_hash;
    int64_t time_ms;
};

/* The next row of `subject` (id from tx_new_id) and, in *ret_head, the head it makes. ERR_INTERNAL
 * when the tx is out of ids. */
enum err journal_next(struct tx *tx, struct number subject, const struct journal_head *head,
                      int from, int to, enum journal_cause cause, const struct evidence *evidence,
                      struct str trace_id, struct str note, struct journal_row *ret,
                      struct journal_head *ret_head, struct err_info *info);
/* Is there a row of that id? For rules that must know whether they ran before. */
enum err journal_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);
enum err journal_insert(struct tx *tx, const struct journal_row *row, struct err_info *info);

/* Hash of a row: SHA-256 over its fields, each as decimal or text followed by 0x1f, in the order of
 * struct journal_row, prev_hash as hex. */
struct sha256 journal_hash(const struct journal_row *row);

/* Walks the chain from the head; rows oldest first in tx_arena. ERR_CONFLICT when a hash does not
 * fit (info says which row). */
enum err journal_read(struct tx *tx, const struct journal_head *head, struct journal_row **ret_rows,
                      size_t *ret_n, struct err_info *info);

const char *journal_cause_name(enum journal_cause cause);
const char *evidence_kind_name(enum evidence_kind kind);

#endif
