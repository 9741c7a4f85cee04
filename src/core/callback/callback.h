/* callback.h -- a verified notice becomes a durable row and its facts, in one transaction (rules.md
 * section 7).
 *
 * Insert or count the callback_log row by (subject, event_key); if it is new or not yet done, apply
 * the facts. Unknown numbers, mismatches and clashes are results: they commit the row and an
 * incident. 1 done and 3 nothing to do count as done for a redelivery. */
#ifndef FENPAY_CALLBACK_H
#define FENPAY_CALLBACK_H

#include "core/centre.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"

enum handle_result { HANDLE_PENDING = 0, HANDLE_DONE = 1, HANDLE_FAILED = 2, HANDLE_NOTHING = 3 };

#define CALLBACK_IDS 8

/* The last payment and the last refund that moved; where the status is what it was before, none
 * did. Of their texts only `account` is good. */
struct callback_moved {
    struct payment payment;
    enum payment_status payment_from;
    struct refund refund;
    enum refund_status refund_from;
};

/* The rule's argument. Everything here is prepared on the polling thread, before the rule: bytes,
 * subject, slot, event key. */
struct callback_input {
    struct account *account;       /* referenced by whoever owns this */
    struct str body, headers_text; /* "name: value\n" lines of the headers that matter */
    struct notice notice;
    bool raw_only;
    struct number
        subject; /* parsed from notice.subject_no, or a stand-in made of its hash (kind 0) */
    struct str trace_id;
    /* results */
    enum handle_result result;
    bool duplicate;    /* was already done: counted only */
    bool repeated;     /* the row existed */
    struct str reason; /* static text */
    struct callback_moved moved;
};

/* After the commit: a move is counted and logged like those the flows make. */
void callback_tell(struct centre *c, const struct callback_input *in);

/* Fills subject (and so the slot) from the notice, and sees to it that every text fits its column.
 */
void callback_prepare(struct callback_input *in, struct arena *a);

enum err callback_rule(struct tx *tx, void *input, struct err_info *info);
/* Our rule failed: keep the bytes as failed with the reason, so that it is ours to settle. */
enum err callback_rule_keep_failed(struct tx *tx, void *input, struct err_info *info);

/* The job: failed rows from their stored bytes, every 5 minutes, 10 times, then incident
 * CALLBACK_STUCK. Unknown number: asks the channel by number; paid there: incident ORPHAN_PAYMENT.
 */
enum err callback_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info);
/* By hand: one row again from its stored bytes, whatever its result. */
enum code callback_replay(struct centre *c, const struct act *act, int64_t callback_id,
                          enum handle_result *ret, struct refusal *refusal);

/* In a rule: a failed row gets all its tries anew, the first of them now. *ret_failed false: it is
 * not failed any more, and nothing was done. */
enum err callback_retry(struct tx *tx, int64_t callback_id, bool *ret_failed,
                        struct err_info *info);
/* In a rule: somebody has dealt with a failed row. */
enum err callback_settled(struct tx *tx, int64_t callback_id, struct str how,
                          struct err_info *info);

struct callback_row {
    struct number no;
    struct str account, kind, subject_no, transport_id, reason;
    enum handle_result result;
    int64_t count, retry_count, create_ms, update_ms;
};
enum err callbacks_of(struct tx *tx, int64_t subject_id, struct callback_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info);

/* One stored callback as it came in. In a rule; texts in tx_arena. ERR_NOT_FOUND. */
struct callback_bytes {
    struct callback_row row;
    struct str headers_text, body;
};
enum err callback_bytes_of(struct tx *tx, int64_t id, struct callback_bytes *ret,
                           struct err_info *info);

/* A sample of a delivery that did not verify (a job flushes a bounded ring; at most
 * `callback_reject` rows are kept). */
struct reject_sample {
    struct str account, detail, peer, body, headers;
    enum notice_reason reason;
    int64_t time_ms;
};
enum err callback_reject_insert(struct tx *tx, const struct reject_sample *s, size_t keep_max,
                                struct err_info *info);

#endif
