/* centre.h -- one running payment centre: everything a flow needs, passed down. No globals: a
 * "process" is one of these and can be dropped whole. */
#ifndef FENPAY_CENTRE_H
#define FENPAY_CENTRE_H

#include "channel/registry.h"
#include "core/code.h"
#include "core/incident/incident.h"
#include "store/lease.h"

struct centre_settings {
    enum environment environment;
    int64_t payment_expire_ms; /* 15 min */
    int64_t expiring_ms;       /* 90 s: an order with less left is refused */
    int64_t call_lease_ms;     /* 15 s: longer than a channel call may take */
    int64_t order_amount_max_fen;
    int64_t query_stuck_ms;     /* 30 min past expiry without an answer */
    int64_t settle_sweep_ms;    /* 1 min */
    int64_t account_suspend_ms; /* 5 min out of routing after an ACCOUNT answer */
    int64_t refund_age_ms;      /* 3 days without an end: somebody should know */
    /* What becomes of a success that no order wants: HOLD, REFUND, or REVIVE after a close. Above
     * so many refunds, or so many fen, of an account and hour REFUND becomes BRAKED; 0: no limit.
     */
    enum incident_policy paid_after_close, paid_twice;
    int64_t auto_refund_max_count, auto_refund_max_fen;
    int64_t second_person_fen; /* acts about more money need two persons; 0: never */
};
void centre_settings_defaults(struct centre_settings *s);

/* One run of a job: the lease under which it begins pieces of work, and when it has to leave the
 * rest to the next run. What a piece has begun is always brought to its end, lease or not: an
 * answer that was received is never thrown away. */
struct shift {
    struct lease lease; /* without a name: none is needed */
    int64_t until_us;   /* by env_mono_us */
};

struct centre {
    struct env *env;
    struct store *store;
    struct mint *mint;
    struct registry *registry;
    struct transport *transport;
    struct centre_settings settings;
    int64_t process_id; /* random, > 0: owner of call leases */
    /* A key refresh is wanted for this account (unknown serial seen); rate-limited by whoever does
     * it. NULL in small tests. */
    void (*want_keys)(void *ctx, struct account *account);
    void *want_keys_ctx;
    const struct shift *shift; /* a job's own copy of the centre has one; else NULL */
};

/* First in the rule that begins a piece of a job's work. *ret_lost: another process has had the
 * lease since, so nothing may be begun. */
enum err shift_check(const struct centre *c, struct tx *tx, bool *ret_lost, struct err_info *info);
/* What a lost one is to its flow: BUSY. */
enum code shift_lost(struct refusal *refusal);
bool shift_over(const struct centre *c); /* between two pieces */

/* Who asks, and under which trace: handed into every flow. */
struct caller_ref {
    int64_t id;
    struct str name;
};
struct act {
    struct caller_ref caller;
    struct str actor;    /* for journal and audit: "caller:shop", "job:query", "operator:…" */
    struct str trace_id; /* request id or traceparent */
    struct arena *arena; /* results live here */
};

/* Runs a rule in class `class` with `ids` ids; on anything but COMMITTED fills `refusal` (BUSY,
 * INTERNAL) and returns its code. */
enum code centre_run(struct centre *c, const char *name, enum store_class class, unsigned slot,
                     store_rule *rule, void *arg, unsigned ids, struct refusal *refusal);
enum code centre_read(struct centre *c, const char *name, unsigned slot, store_rule *rule,
                      void *arg, struct refusal *refusal);

/* A copy in the arena; STR_NONE stays STR_NONE (an absent column stays absent). For results copied
 * out of a rule. */
struct str str_keep(struct arena *a, struct str s);

enum code refuse(struct refusal *r, enum code code); /* clears the rest, returns `code` */
enum code refuse_later(struct refusal *r, enum code code, int retry_after_s);
enum code refuse_field(struct refusal *r, enum code code, const char *field, struct str detail);

#endif
