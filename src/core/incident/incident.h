/* incident.h -- what needs policy or a person: one row per (kind, subject, discriminator), counting
 * repeats; one event incident.opened. */
#ifndef FENPAY_INCIDENT_H
#define FENPAY_INCIDENT_H

#include "store/store.h"

/* Persisted: pinned in incident.c. */
enum incident_kind {
    INCIDENT_PAID_AFTER_CLOSE = 1,
    INCIDENT_PAID_TWICE = 2,
    INCIDENT_AMOUNT_MISMATCH = 3,
    INCIDENT_ACCOUNT_MISMATCH = 4,
    INCIDENT_TRANSACTION_CLASH = 5,
    INCIDENT_STATUS_CONFLICT = 6,
    INCIDENT_ORPHAN_PAYMENT = 7,
    INCIDENT_QUERY_STUCK = 8,
    INCIDENT_CALLBACK_STUCK = 9,
    INCIDENT_DELIVERY_DEAD = 10,
    INCIDENT_REFUND_HELD = 11,
    INCIDENT_REFUND_ABNORMAL = 12,
    INCIDENT_OVER_REFUNDED = 13,
    INCIDENT_RISK_HELD = 14,
    INCIDENT_KEY_EXPIRING = 15,
    INCIDENT_LEDGER_IMBALANCE = 16,
};

enum incident_policy { POLICY_HOLD = 0, POLICY_REFUND = 1, POLICY_REVIVE = 2 };

struct incident {
    enum incident_kind kind;
    struct number subject;    /* payment, order, callback or event */
    struct str discriminator; /* "" or what tells two apart (a transaction id) */
    int64_t caller;           /* 0: no caller's */
    enum incident_policy policy;
    struct str detail; /* for people */
    struct str trace_id;
};

/* Opens it, or counts one more. Takes up to 2 ids of the tx. *ret_opened (may be NULL): it is new.
 */
enum err incident_open(struct tx *tx, const struct incident *incident, bool *ret_opened,
                       struct err_info *info);

/* Is there an incident of that id? For rules that must know whether they ran before. */
enum err incident_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);

struct incident_row {
    struct number no;
    enum incident_kind kind;
    struct number subject;
    struct str discriminator, detail, who;
    int state; /* 0 open, 1 resolved */
    enum incident_policy policy;
    int64_t count, create_ms, last_seen_ms, caller;
};
/* Newest first; `caller` 0: all; `before` 0: from the newest; `state` -1: any. Rows in tx_arena. */
enum err incident_list(struct tx *tx, int64_t caller, int state, int64_t before, size_t limit,
                       struct incident_row *ret, size_t *ret_n, struct err_info *info);
enum err incidents_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info);

const char *incident_kind_name(enum incident_kind kind); /* "PAID_TWICE" */

#endif
