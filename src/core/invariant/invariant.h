/* invariant.h -- what must be zero, counted (architecture.md section 1, quality.md section 1).
 *
 * The one module that reads several aggregates' tables at once. It only reads, in pages of a
 * snapshot each, and decides nothing: the counts go to metrics, alarms and `fenpay doctor`. */
#ifndef FENPAY_INVARIANT_H
#define FENPAY_INVARIANT_H

#include "core/incident/incident.h"
#include "store/store.h"

/* Each a number of rows that break a rule. */
enum invariant {
    /* payments */
    BROKEN_UNSETTLED,   /* SUCCESS for so long that the sweep had to repair it, and unapplied */
    BROKEN_NO_EVIDENCE, /* a payment, or a refund, is final without evidence */
    BROKEN_OVERDRAWN,   /* refunding + refunded above what was paid, and no OVER_REFUNDED says so */
    BROKEN_WINNER,      /* says it won, and its order names another payment or is not paid */
    BROKEN_UNEXPLAINED, /* no order's money, not given back, and no incident says why */
    BROKEN_ASIDE,       /* set aside, and by no operator */
    BROKEN_HELD,        /* quarantined, and nobody is asked about it */
    BROKEN_FORGOTTEN, /* open, and its next look has been due for a day; a refund without a turn */
    BROKEN_SUMS,      /* refunding or refunded is not the sum of its refunds */
    /* orders */
    BROKEN_PAID,      /* PAID, and no success of its amount says it won */
    BROKEN_CANCELLED, /* CANCELLED although it had been paid before */
    /* of every order, payment and refund */
    BROKEN_JOURNAL, /* the chain has a gap, an edited row, or ends elsewhere */
    BROKEN_MOVE,    /* a move that no table has */
};
#define INVARIANTS (BROKEN_MOVE + 1)
const char *invariant_name(enum invariant i); /* "overdrawn" */
const char *invariant_text(enum invariant i); /* for people */

/* A pass over everything made since some time; zero it except `since_ms`, and step until `over`. */
struct invariant_pass {
    int64_t since_ms;
    int stage;        /* which table */
    int64_t after_id; /* the last row of it that was looked at */
    bool over;
    int64_t rows; /* looked at */
    /* Payments, for information. */
    int64_t open, quarantined;
    int64_t unsettled; /* SUCCESS for more than a minute, and its order does not know it yet */
    int64_t broken[INVARIANTS];
    struct number example[INVARIANTS]; /* one of them, where it is known */
};
/* One page, in a read: *p moves only when it succeeds. */
enum err invariant_step(struct tx *tx, struct invariant_pass *p, struct err_info *info);

/* Open incidents by kind, and since when the oldest is open (0: none). */
struct invariant_incidents {
    int64_t open[INCIDENT_KINDS_END], oldest_ms[INCIDENT_KINDS_END];
    int64_t braked; /* of them, those that the brake of automatic refunds holds */
};
enum err invariant_incidents(struct tx *tx, struct invariant_incidents *ret, struct err_info *info);

#endif
