/* resolve.h -- what an operator may do about an incident (rules.md section 10).
 *
 * One table says which action fits which kind. An act is one transaction: what it does to orders,
 * payments, refunds or callbacks, its audit row, and a compare-and-set on the open incident. Above
 * an amount it needs two persons: the first one's act is kept as a proposal, a second one who says
 * the same does it. */
#ifndef FENPAY_RESOLVE_H
#define FENPAY_RESOLVE_H

#include "core/centre.h"
#include "core/incident/incident.h"

#define RESOLVE_REASON_MAX 256
#define PROPOSAL_LASTS_MS  (24LL * 60 * 60 * 1000)

struct resolve {
    struct number incident_no;
    bool any_caller; /* may touch everybody's incidents and nobody's; else act's caller's only */
    enum incident_action action;
    struct str who;              /* the person: "operator:amy", "amy@shop"; at most 64 bytes */
    struct str reason;           /* at most 256 characters; mandatory */
    struct caller_ref adopt_for; /* ADOPT: whose payment it becomes */
};

struct resolved {
    struct incident_row incident; /* as it is now */
    bool proposed;                /* something waits for a second person: */
    struct incident_proposal proposal;
    struct number pay_no; /* what it was adopted as; none: it was not */
};

/* Does it, or proposes it (ret->proposed). The same act of the same person again is the same
 * answer. INCIDENT_NOT_FOUND, INCIDENT_STATE (resolved, or what it is about does not allow this
 * now, or something else is proposed), ACTION_UNFIT (not for this kind), BAD_FIELD, and for ADOPT
 * NO_ACCOUNT, CHANNEL_BUSY. Results in act->arena. */
enum code resolve_incident(struct centre *c, const struct act *act, const struct resolve *r,
                           struct resolved *ret, struct refusal *refusal);
/* Takes the proposal back, whoever made it. INCIDENT_STATE: nothing is proposed. */
enum code resolve_withdraw(struct centre *c, const struct act *act, struct number incident_no,
                           bool any_caller, struct str who, struct resolved *ret,
                           struct refusal *refusal);
enum code resolve_get(struct centre *c, const struct act *act, struct number incident_no,
                      bool any_caller, struct resolved *ret, struct refusal *refusal);

/* Is there a cell for it? */
bool resolve_fits(enum incident_kind kind, enum incident_action action);

/* The table for docs/incidents.md and its test. */
struct buf;
void resolve_table_print(struct buf *out);

#endif
