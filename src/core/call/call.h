/* call.h -- every call to a channel as a row: what was asked, what was answered, how long it took.
 *
 * The row stands in the same transaction as the fact it brought, so that evidence can point to it.
 * Adapters have masked secrets and payer ids before it gets here. Kept for days. */
#ifndef FENPAY_CALL_H
#define FENPAY_CALL_H

#include "channel/channel.h"
#include "store/store.h"

/* Persisted: pinned in call.c. */
enum call_kind {
    CALL_PREPAY = 1,
    CALL_QUERY = 2,
    CALL_CLOSE = 3,
    CALL_REFUND = 4,
    CALL_QUERY_REFUND = 5
};

/* `subject`: the payment asked about; the callback, when it names no payment of ours.
 * ERR_EXISTS: this very call was taken in before (the rule runs a second time). */
enum err call_insert(struct tx *tx, int64_t id, enum call_kind kind, struct number subject,
                     struct str account, const struct channel_answer *answer, struct str trace_id,
                     struct err_info *info);

/* A channel must not answer outside its table (rules.md section 6); what cannot be understood
 * becomes unknown, with a line in the log. Before the answer is used. */
void call_normalise(struct env *env, enum call_kind kind, struct str account,
                    struct channel_answer *answer);

/* After the commit: counters and one line, for people. */
void call_tell(struct env *env, enum call_kind kind, struct number subject, struct str account,
               const struct channel_answer *answer, struct str trace_id);

struct call_row {
    int64_t id, create_ms, took_us;
    enum call_kind kind;
    enum channel_outcome outcome;
    enum channel_class class;
    struct str account, code, message, channel_request_id, request, answer;
    int http_status;
};
/* Oldest first, texts in tx_arena. */
enum err calls_of(struct tx *tx, int64_t subject_id, struct call_row *ret, size_t max,
                  size_t *ret_n, struct err_info *info);

/* Lets go of up to CALLS_RETIRE_ROWS of the oldest calls made before that time (a rule may cost 5
 * ms of the writer: systems.md F14); *ret_n: how many went. */
#define CALLS_RETIRE_ROWS 100
enum err calls_retire(struct tx *tx, int64_t before_ms, int64_t *ret_n, struct err_info *info);

const char *call_kind_name(enum call_kind kind);          /* "prepay" */
const char *channel_outcome_name(enum channel_outcome o); /* "refused" */
const char *channel_class_name(enum channel_class class); /* "account"; "" for none */

#endif
