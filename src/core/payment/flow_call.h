/* flow_call.h -- one call to the channel and the rule that takes its answer in: what starting,
 * asking and closing share.
 *
 * A `struct call` is set up by call_begin, used for one or more calls about one payment, and ended
 * by call_end. After each call `payment` is the row as it was left (its texts in `arena`), `from`
 * the status before, and the move has been logged. */
/* clang-format off */
/* Where a test may end the process (kill_point), and what goes on with the work afterwards:
 *
 *   prepay.planned    nothing is stored                            the client asks again
 *   prepay.stored     attempt and request stored, the lease ours   lease over: POST again sends the same bytes; the ladder asks
 *   prepay.leased     the same, on another try                     (the lost call counts as one unknown)
 *   prepay.answered   the channel answered, nobody wrote it        likewise
 *   prepay.taken      all is durable                               the client asks again and gets it
 *   query.answered    nothing was written                          the next rung, written before the call
 *   query.taken       all is durable
 *   switch.requested  the old attempt's close is requested         the close job
 *   close.requested   a close is requested                         the close job
 *   close.leased      the lease is ours, nothing was asked         lease over: the close job
 *   close.answered    the channel closed it, nobody wrote it       the close job: its query says so
 *   close.taken       CLOSED is durable, the lease not given back  it runs out
 *   close.released    all is durable
 *   cancel.requested  cancel and closes are requested              the order job, a minute later
 *   cancel.closed     the attempts are closed, the order is not    the order job
 *   due.taken         the next due row stands, nothing was asked   the next rung
 *
 * Every rule also has a kill point of its own name, and the store some around each commit. */
/* clang-format on */
#ifndef FENPAY_FLOW_CALL_H
#define FENPAY_FLOW_CALL_H

#include "core/call/call.h"
#include "core/payment/flow.h"

struct call {
    struct centre *c;
    struct arena *arena;
    struct str actor, trace_id;
    enum store_class class;
    struct number no;
    struct str account_name;
    struct account *account; /* NULL: no longer configured */
    struct channel_ctx ctx;

    /* The call lease, when the flow holds it: an id of its own, so that nobody else's can look like
     * it. */
    int64_t lease;

    struct channel_answer answer;
    int64_t asked_ms;
    bool last_try; /* of a prepay: RETRY gives the lease back */

    struct payment payment;
    enum payment_status from;
    enum payment_move move;
};

/* Takes a reference on the payment's account. `p` is copied. */
void call_begin(struct call *k, struct centre *c, const struct payment *p, struct arena *a,
                struct str actor, struct str trace_id, enum store_class class);
void call_end(struct call *k);

/* Each: the channel call, then its rule. CODE_OK whatever the channel said (look at answer and
 * payment); else the store's trouble. */
enum code call_prepay(struct call *k, struct refusal *refusal);
enum code call_query(struct call *k, struct refusal *refusal);
enum code call_close(struct call *k, struct refusal *refusal);

/* Takes the lease for `for_ms` if it is free or over. *ret_taken false: somebody is calling, or the
 * payment is not open for it any more; `payment` is the row as it is now either way (for prepay
 * with the request bytes). */
enum lease_for { LEASE_PREPAY, LEASE_CLOSE };
enum code call_lease(struct call *k, enum lease_for what, int64_t for_ms, bool *ret_taken,
                     struct refusal *refusal);
enum code call_release(struct call *k, struct refusal *refusal);

/* The channel cannot close: at expiry the attempt is CLOSED all the same. */
enum code call_expire(struct call *k, struct refusal *refusal);

bool payment_lease_live(const struct payment *p, int64_t now_ms);
bool payment_is_open(const struct payment *p);     /* INIT or PAYING */
bool payment_close_waits(const struct payment *p); /* the close protocol has something to do */
struct payment payment_copy(struct arena *a, const struct payment *p);

/* One line a move, after its commit. */
void payment_log(struct centre *c, const struct payment *p, enum payment_status from,
                 enum journal_cause cause, struct str trace_id);

/* ---- when to ask again ---- */

/* The rung after `count` queries: 30 s, 1, 2, 4, 8, 16 min, then hourly; once just before expiry,
 * once at expiry. */
int64_t payment_next_query(int64_t now_ms, int64_t count, int64_t expire_ms);
/* While a close waits: every minute, hourly once it has been stuck for long. */
int64_t payment_next_close(int64_t now_ms, int64_t expire_ms, int64_t stuck_ms);

#endif
