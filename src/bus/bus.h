/* bus.h -- from outbox rows to effects: in-process consumers, the feed, and signed webhooks.
 *
 * The local bus takes up to 128 pending events in one rule: consumed rows, effects, feed numbers,
 * webhook delivery rows, removal of the pending rows, all together; no lease, no separate mark
 * (architecture.md section 5). A consumer that fails is taken out of the batch: the event goes on
 * for the others, and a delivery row with its own schedule stands for the failed one, so that a
 * poisoned target hurts only itself. Webhooks leave the process, so each (event, webhook) has a
 * delivery row with a lease and the 16-step schedule. */
#ifndef FENPAY_BUS_H
#define FENPAY_BUS_H

#include "bus/event.h"
#include "net/client.h"

/* An in-process consumer: its effect runs in the rule that also inserts (consumer, event). It may
 * take up to CONSUMER_IDS ids of the tx. An error undoes its effect and schedules it again. Lasting
 * effects carry their own permanent key besides. */
#define CONSUMER_IDS  6
#define CONSUMERS_MAX 16
struct consumer {
    const char *name;
    unsigned types; /* EVENT_BIT(…) */
    enum err (*consume)(struct tx *tx, const struct event *event, void *ctx, struct err_info *info);
    void *ctx;
};

struct bus_options {
    struct env *env;
    struct store *store;
    struct mint *mint;
    struct transport *transport; /* webhooks */
    const struct consumer *consumers;
    size_t consumer_count;
    struct str source;        /* CloudEvents source */
    struct str master_key;    /* decrypts webhook secrets */
    bool webhook_private;     /* private addresses allowed (dev, tests) */
    unsigned webhook_workers; /* 4 */
    /* In the rule that gives a delivery up; may take BUS_DEAD_IDS ids. The bus stands below
     * incidents, so whoever makes it says what follows. */
    enum err (*on_dead)(struct tx *tx, const struct event *event, struct str target,
                        struct str error, void *ctx, struct err_info *info);
    void *on_dead_ctx;
};
#define BUS_DEAD_IDS 2

struct bus;

struct bus *bus_new(const struct bus_options *options);
enum err bus_start(struct bus *bus,
                   struct err_info *info); /* its threads: one for the outbox, some for webhooks */
void bus_stop(struct bus *bus);            /* finishes the turn under way */
void bus_free(struct bus *bus);
void bus_wake(struct bus *bus); /* something is pending; cheap, from any thread */

/* One turn each, for tests, the simulator and the threads: how many events were published,
 * deliveries tried. */
enum err bus_turn(struct bus *bus, size_t *ret_done, struct err_info *info);
enum err bus_deliver_turn(struct bus *bus, size_t *ret_done, struct err_info *info);

/* The feed of one caller (0: all), in publish order, after `seq`. *ret_last_seq of the rows given.
 */
enum err feed_read(struct tx *tx, int64_t caller, int64_t after_seq, size_t limit,
                   struct event *ret, int64_t *ret_seqs, size_t *ret_n, struct err_info *info);
enum err event_read(struct tx *tx, int64_t event_id, struct event *ret, struct err_info *info);
/* The events emitted with the journal row `first_id`: an event's id follows its move's closely, so
 * no index is needed. */
enum err events_of(struct tx *tx, int64_t subject_id, int64_t first_id, struct event *ret,
                   size_t max, size_t *ret_n, struct err_info *info);
/* What became of one (event, target): "webhook:<id>", "consumer:<name>", or "consumer:*" for a
 * replay to all of them. Pinned in bus_sql.c. */
enum delivery_state { DELIVERY_PENDING = 0, DELIVERY_DONE = 1, DELIVERY_DEAD = 2 };
struct delivery {
    int64_t event_id;
    struct str target;
    enum delivery_state state;
    int64_t tries, next_ms, lease_until_ms, version, create_ms, update_ms;
    struct str last_error;
};
enum err deliveries_of(struct tx *tx, int64_t event_id, struct delivery *ret, size_t max,
                       size_t *ret_n, struct err_info *info);

/* In a rule: delivers it again to every webhook of its caller and to consumers that have not
 * consumed it. */
enum err event_replay(struct tx *tx, int64_t event_id, struct err_info *info);

/* In a rule: this one, whatever became of it, gets all its tries anew, the first of them now. */
enum err delivery_again(struct tx *tx, int64_t event_id, struct str target, struct err_info *info);
/* The same for up to `max` of the target's dead ones; *ret_n: how many there were. */
enum err deliveries_again(struct tx *tx, struct str target, size_t max, size_t *ret_n,
                          struct err_info *info);

/* Subscribers. `secret` is given out once, at creation ("whsec_" + base64); stored encrypted:
 * secret_encrypt of that whole text under the name "webhook:" + decimal id. */
struct webhook {
    int64_t id, caller;
    struct str url;
    unsigned types; /* mask; 0: all */
    bool on;
};
enum err webhook_insert(struct tx *tx, const struct webhook *w, struct str secret_enc,
                        struct err_info *info);
enum err webhook_list(struct tx *tx, int64_t caller, struct webhook *ret, size_t max, size_t *ret_n,
                      struct err_info *info);
enum err webhook_set(struct tx *tx, int64_t caller, int64_t id, bool on,
                     struct err_info *info); /* ERR_NOT_FOUND */
enum err webhook_rotate(struct tx *tx, int64_t caller, int64_t id, struct str new_secret_enc,
                        struct err_info *info);

/* Standard Webhooks: "v1," + base64(HMAC-SHA256(secret, id "." timestamp "." body)), one per
 * secret, separated by blanks. */
struct str webhook_signature(struct arena *a, struct str id, int64_t timestamp_s, struct str body,
                             const struct str secrets[], size_t n);

struct bus_stats {
    int64_t pending, oldest_ms /* how old it is */, deliveries_pending, dead;
};
enum err bus_stats(struct tx *tx, struct bus_stats *ret, struct err_info *info);
/* The next target in order of text behind `after` that has deliveries, and how many of them are
 * dead; ERR_NOT_FOUND: none. */
enum err bus_dead_next(struct tx *tx, struct str after, struct str *ret_target, int64_t *ret_dead,
                       struct err_info *info);

#endif
