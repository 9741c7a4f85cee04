/* refund_auto.h -- an incident's money on its way back: one refund at a time, each with a key of
 * its own, so that nobody opens it twice: origin POLICY, request id "auto:<incident>:<n>", n + 1
 * only after n has come to its end and something is still left. */
#ifndef FENPAY_REFUND_AUTO_H
#define FENPAY_REFUND_AUTO_H

#include "core/incident/incident.h"
#include "core/refund/refund.h"

#define REFUND_AUTO_TRIES 5 /* so many may fail before a person has to look */

enum refund_auto_how {
    REFUND_AUTO_OPENED,
    REFUND_AUTO_UNDER_WAY, /* its last one has not ended, or all that is left is reserved */
    REFUND_AUTO_NOTHING,   /* nothing is left */
    REFUND_AUTO_FAILED,    /* too many have failed */
    REFUND_AUTO_REFUSED,   /* `why` */
};
struct refund_auto {
    enum refund_auto_how how;
    struct refund refund; /* OPENED: it */
    const char *why;      /* REFUSED: for people */
};
struct refund_auto_order {
    struct number incident_no;
    struct str reason; /* the channel shows it to the payer */
    struct str actor, trace_id;
    bool insist; /* a person wants it, however many have failed */
};
/* What is left of `p`, which was loaded in this transaction, goes back. Takes REFUND_OPEN_IDS ids.
 */
enum err refund_auto(struct tx *tx, struct payment *p, const struct refund_auto_order *order,
                     struct refund_auto *ret, struct err_info *info);

/* The next step of an open incident whose policy is REFUND, about payment `p`: resolved when all
 * has gone back; held for a person when that cannot be (too many failed, the channel does not take
 * it); else the next refund, unless one is under way. *row and *p become what they are afterwards.
 * Takes up to REFUND_OPEN_IDS ids. */
enum err refund_auto_step(struct tx *tx, struct payment *p, struct incident_row *row,
                          struct str trace_id, struct err_info *info);

/* Can its channel pay it back at all? */
bool refund_possible(const struct payment *p);

/* The last one opened for that incident; none: its number is none. */
enum err refund_auto_last(struct tx *tx, int64_t pay_id, struct number incident_no,
                          struct refund *ret, struct err_info *info);

#endif
