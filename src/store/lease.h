/* lease.h -- named leases with a fencing number, in the database: one owner at a time, by its
 * clock, and work done under an old fence has no effect because its rule checks the fence in the
 * same transaction. */
#ifndef FENPAY_LEASE_H
#define FENPAY_LEASE_H

#include "store/store.h"

struct lease {
    struct str name;
    struct str owner;
    int64_t fence; /* grows with every change of owner */
    int64_t until_ms;
};

/* In a rule: takes `name` for `owner` until tx_now_ms + for_ms if it is free, expired or already
 * its own (then extends, same fence). *ret_taken false: somebody else holds it. */
enum err lease_take(struct tx *tx, struct str name, struct str owner, int64_t for_ms,
                    struct lease *ret, bool *ret_taken, struct err_info *info);
/* ERR_RETRY when the lease is no longer this one. */
enum err lease_check(struct tx *tx, const struct lease *lease, struct err_info *info);
/* Has nobody else had it since? Also when its time is over: what counts is the fence. */
enum err lease_ours(struct tx *tx, const struct lease *lease, bool *ret_ours,
                    struct err_info *info);
enum err lease_release(struct tx *tx, const struct lease *lease, struct err_info *info);

/* A node id 0..511 for a new generator, as leases "node/N" for ten minutes; extend it every minute.
 * Outside a rule. A node id is given again only an hour after its lease ended. */
struct node_lease {
    unsigned node;
    struct lease lease;
};
enum err node_lease_take(struct store *store, struct env *env, struct str owner,
                         struct node_lease *ret, struct arena *a, struct err_info *info);
enum err node_lease_extend(struct store *store, struct env *env, struct node_lease *lease,
                           struct err_info *info);
enum err node_lease_release(struct store *store, struct env *env, struct node_lease *lease,
                            struct err_info *info);

#endif
