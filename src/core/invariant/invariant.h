/* invariant.h -- what must be zero, counted (architecture.md section 1, quality.md section 1).
 *
 * The one module that reads several aggregates' tables at once. It only reads, in pages of a
 * snapshot each, and decides nothing: the counts go to metrics and alarms. */
#ifndef FENPAY_INVARIANT_H
#define FENPAY_INVARIANT_H

#include "core/incident/incident.h"
#include "store/store.h"

struct invariants {
    int64_t payments;    /* looked at */
    int64_t open;        /* not final; information */
    int64_t quarantined; /* information */
    int64_t unsettled;   /* SUCCESS for more than a minute, and its order knows nothing of it */
    int64_t no_evidence; /* final without evidence */
    int64_t overdrawn;   /* refunding + refunded above what was paid */
    int64_t winner;      /* says it won, and its order names another payment or is not paid */
};

/* Adds the payments behind `*after_id`, up to `limit`; moves *after_id. *ret_n: how many there
 * were, less than `limit` at the end. */
enum err invariant_page(struct tx *tx, int64_t *after_id, size_t limit, struct invariants *sum,
                        int64_t *ret_n, struct err_info *info);
/* Open incidents by kind; `ret` has room for INCIDENT_KINDS. */
#define INCIDENT_KINDS 32
enum err invariant_incidents(struct tx *tx, int64_t ret[INCIDENT_KINDS], struct err_info *info);

#endif
