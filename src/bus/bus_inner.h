/* bus_inner.h -- the bus as its own files see it: bus.c (threads, feed, replay), local/local.c (the
 * publishing rule), webhook/ (deliveries: whose turn it is, the claim and its outcome, the POST).
 */
#ifndef FENPAY_BUS_INNER_H
#define FENPAY_BUS_INNER_H

#include "bus/bus_sql.h"

#include <pthread.h>
#include <stdatomic.h>

#define BUS_BATCH       128
#define BUS_WORKERS_MAX 64
#define BUS_TARGET_MAX  64
#define BUS_SWEEP_MS                                                                               \
    1000 /* a wake may be lost (another process wrote): nothing waits longer than this */
#define CONSUMER_TARGET  "consumer:"
#define WEBHOOK_TARGET   "webhook:"
#define CONSUMERS_TARGET "consumer:*"

/* A target that a worker is busy with. */
struct served {
    char target[BUS_TARGET_MAX + 1];
    bool suspect;
    int64_t since_us;
};

/* What is known of a webhook since the process began (webhook/target.c). */
#define KNOWN_TARGETS_MAX WEBHOOKS_MAX
struct known_target {
    int64_t webhook;
    unsigned silent; /* tries in a row without an answer */
    bool slow;       /* its last answer took long */
    int64_t rest_until_us;
};

struct bus {
    struct bus_options o;
    struct arena *arena; /* copies of the options' texts and consumers */
    struct metric *published, *publish_delay, *parked;
    struct metric *consumer_failed[CONSUMERS_MAX];

    pthread_mutex_t lock;
    pthread_cond_t outbox_wake, delivery_wake;
    bool started, stopping, outbox_due, deliveries_due;
    pthread_t threads[1 + BUS_WORKERS_MAX];
    unsigned thread_count;

    /* Under the lock: which targets are being served, the ones served last (trusted, suspect; the
     * next turn begins behind it), and which kind comes first in the next turn. */
    struct served serving[BUS_WORKERS_MAX];
    unsigned serving_count;
    char served_last[2][BUS_TARGET_MAX + 1];
    bool suspects_first;
    struct known_target known[KNOWN_TARGETS_MAX];
    size_t known_count, known_next;

    _Atomic size_t turn_events; /* how many events the last turns got through in their time */
};

/* How many events one turn takes: each may need CONSUMER_IDS ids a consumer, and a rule has at most
 * 1,024. */
size_t bus_batch(const struct bus *bus);
bool webhook_wants(const struct webhook *w, const struct event *event);
bool bus_stopping(struct bus *bus);
/* Tells the delivery workers that something may be due. */
void bus_wake_deliveries(struct bus *bus);

/* ---- webhook/ ---- */
#define DELIVERY_TRIES 16
/* How long to wait after the n-th failed try (n from 1). */
int64_t delivery_pause_ms(int64_t tries);

/* The next target with something due and a worker's place at it; ERR_NOT_FOUND: none. */
enum err target_take(struct bus *bus, struct served *ret, struct err_info *info);
void target_leave(struct bus *bus, const struct served *served);
/* What a try told about its webhook; true: the next may follow at once. */
bool target_heard(struct bus *bus, int64_t webhook, bool answered, int64_t took_ms);
int64_t webhook_of_target(struct str target); /* 0: not a webhook */

/* POSTs one event; ERR_OK only for a 2xx. `*ret_unreachable`: nothing answered at all, further ones
 * would wait for the same. */
enum err webhook_send(struct bus *bus, struct arena *a, int64_t webhook_id, int64_t event_id,
                      bool *ret_unreachable, struct err_info *info);

#endif
