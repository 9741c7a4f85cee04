/* incident.h -- what needs policy or a person: one row per (kind, subject, discriminator), counting
 * repeats; one event incident.opened each time it becomes open.
 *
 * Open until it is resolved: by an operator's act (core/resolve), by the policy's end (the money
 * went back), or because what it was about came to a good end by itself. Reported again afterwards
 * it opens again, unless a person said to ignore it. */
#ifndef FENPAY_INCIDENT_H
#define FENPAY_INCIDENT_H

#include "base/money.h"
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
#define INCIDENT_KINDS_END 17 /* kinds are below it */
#define INCIDENT_BIT(kind) (1u << (kind))

/* HOLD waits for a person. BRAKED too: it would have been refunded, but the account's brake was
 * over. Persisted. */
enum incident_policy { POLICY_HOLD = 0, POLICY_REFUND = 1, POLICY_REVIVE = 2, POLICY_BRAKED = 3 };

/* What an operator may do about one, and how one ended. Persisted. */
enum incident_action {
    ACTION_NONE = 0,
    ACTION_ACCEPT = 1,
    ACTION_ACCEPT_AND_REFUND = 2,
    ACTION_REFUND = 3,
    ACTION_REVIVE = 4,
    ACTION_ADOPT = 5,
    ACTION_RETRY = 6,
    ACTION_SETTLED_OFFLINE = 7,
    ACTION_IGNORE = 8,
    ACTION_RECOVERED = 9, /* nobody's act: what it was about came to a good end */
};
#define INCIDENT_ACTIONS_END 10

struct incident {
    enum incident_kind kind;
    struct number subject;    /* payment, order, refund, callback or event */
    struct str discriminator; /* "" or what tells two apart (a transaction id) */
    int64_t caller;           /* 0: no caller's */
    enum incident_policy policy;
    struct money amount; /* the money it is about; all zero: none */
    bool insists; /* opens again also what a person said to ignore: something new hangs on it */
    struct str detail; /* for people */
    struct str trace_id;
};

struct incident_opened {
    struct number no;
    bool opened; /* now, by this report: it is new, or was resolved */
};
/* Opens it, or counts one more. Takes up to INCIDENT_OPEN_IDS ids of the tx. `ret` may be NULL. */
#define INCIDENT_OPEN_IDS 2
enum err incident_open(struct tx *tx, const struct incident *incident, struct incident_opened *ret,
                       struct err_info *info);

/* Is there an incident of that id? For rules that must know whether they ran before. */
enum err incident_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);

struct incident_row {
    struct number no;
    enum incident_kind kind;
    struct number subject;
    struct str discriminator, detail;
    bool resolved;
    enum incident_policy policy;
    struct money amount; /* all zero: none */
    int64_t count, create_ms, last_seen_ms, caller, version;
    enum incident_action resolution; /* NONE while open */
    struct str who, reason;          /* who decided, and why */
    int64_t evidence_ref;            /* audit_log.id of the act; 0: nobody's */
    int64_t resolve_ms;
};

/* ERR_NOT_FOUND. Texts in tx_arena, here and below. */
enum err incident_load(struct tx *tx, int64_t id, struct incident_row *ret, struct err_info *info);

struct incident_filter {
    int64_t caller; /* 0: all */
    int state;      /* 0 open, 1 resolved, -1 any */
    int kind;       /* 0: any */
    int64_t before; /* ids below; 0: from the newest */
    size_t limit;
};
/* Newest first. */
enum err incident_list(struct tx *tx, const struct incident_filter *f, struct incident_row *ret,
                       size_t *ret_n, struct err_info *info);
/* Of one subject, oldest first. */
enum err incidents_of(struct tx *tx, int64_t subject_id, struct incident_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info);

/* ---- the ways out: each a compare-and-set on the open row; ERR_RETRY when somebody was there
 * first. The row becomes what it is afterwards. ---- */

struct incident_end {
    enum incident_action action;
    struct str who, reason;
    struct str detail; /* STR_NONE: unchanged */
    int64_t evidence_ref;
};
enum err incident_resolve(struct tx *tx, struct incident_row *row, const struct incident_end *end,
                          struct err_info *info);
/* It stays open, under another policy. `who` and evidence_ref: whose decision; "" and 0: nobody's.
 * `detail` STR_NONE: unchanged. */
enum err incident_set_policy(struct tx *tx, struct incident_row *row, enum incident_policy policy,
                             struct str who, int64_t evidence_ref, struct str detail,
                             struct err_info *info);
/* Resolves as RECOVERED what is open about that subject and of these kinds (INCIDENT_BIT). */
enum err incident_recovered(struct tx *tx, int64_t subject_id, unsigned kinds, struct str reason,
                            struct err_info *info);

/* ---- what waits for a second person ---- */

struct incident_proposal {
    int64_t audit_id;
    enum incident_action action;
    struct str args, who, reason;
    int64_t until_ms, create_ms;
};
/* ERR_NOT_FOUND: none; one that ran out counts as none. */
enum err incident_proposal_load(struct tx *tx, int64_t incident_id, struct incident_proposal *ret,
                                struct err_info *info);
/* In the place of one that ran out, if there is any. */
enum err incident_propose(struct tx *tx, int64_t incident_id, const struct incident_proposal *p,
                          struct err_info *info);
enum err incident_proposal_drop(struct tx *tx, int64_t incident_id, struct err_info *info);

const char *incident_kind_name(enum incident_kind kind); /* "PAID_TWICE" */
enum err incident_kind_parse(struct str name, enum incident_kind *ret);
/* What the payer reads with the money that comes back: Chinese, as all that channels show there. */
struct str incident_payer_text(enum incident_kind kind);
const char *incident_policy_name(enum incident_policy policy); /* "hold" */
const char *incident_action_name(enum incident_action action); /* "accept_and_refund" */
enum err incident_action_parse(struct str name, enum incident_action *ret); /* an operator's */

#endif
