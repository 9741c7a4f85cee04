/* refund_inner.h -- between the files of core/refund: only they include it. */
#ifndef FENPAY_REFUND_INNER_H
#define FENPAY_REFUND_INNER_H

#include "core/call/call.h"
#include "core/refund/refund_sql.h"

/* What follows in the same rule from `r` having become what it is: incidents opened and recovered,
 * the event (with its lines), the wake. `p` has its sums already. Takes up to 3 ids. */
enum err refund_moved(struct tx *tx, struct refund *r, const struct payment *p, struct str trace_id,
                      struct err_info *info);

/* The event, if its status has one; loads its lines. */
enum err refund_emit(struct tx *tx, struct refund *r, const struct payment *p, struct str trace_id,
                     struct err_info *info);

/* ---- one turn of one refund (refund_flow.c) and its answer (refund_answer.c) ---- */

/* clang-format off */
/* Where a test may end the process (kill_point), and what goes on with the work afterwards:
 *
 *   refund.stored          refund and reservation are durable, unsent        its turn, due at once
 *   refund.leased          bytes stored, lease ours, nothing sent            a minute later: asked first; not known: the same bytes
 *   refund.answered        the channel answered, nobody wrote it             likewise: asked, and the answer is there
 *   refund.taken           all is durable
 *   refund.asking          the next rung is written, nothing was asked       that rung
 *   refund.query_answered  nothing was written                               the next rung, written before the call
 *   refund.query_taken     all is durable
 */
/* clang-format on */

#define REFUND_GAP_MS  60000 /* between two queries before "does not know it" counts twice */
#define REFUND_HELD_MS 3600000

enum refund_did { REFUND_DID_NOTHING, REFUND_DID_SEND, REFUND_DID_ASK };

struct refund_call {
    struct centre *c;
    struct arena *arena; /* dies with the turn */
    struct str actor, trace_id;
    enum store_class class;
    struct account *account; /* NULL: no longer configured */

    enum refund_did did; /* what the turn took upon itself */
    int64_t turn_id;     /* and of a sending: the owner of the payment's call lease */
    struct channel_request request;
    struct channel_answer answer;
    int64_t asked_ms;

    struct refund refund; /* as it is now */
    enum refund_status from;
};

/* The rung after `count` turns without an end: 1, 2, 4, 8, 16, 32 min, then hourly. */
int64_t refund_next_turn(int64_t now_ms, int64_t count);

/* The rule that takes the answer in, and what is told after its commit. */
enum code refund_take_answer(struct refund_call *k, struct refusal *refusal);

enum err refund_held(struct tx *tx, const struct refund *r, const char *why, struct str detail,
                     struct str trace_id, struct err_info *info);

#endif
