/* target.c -- which target is served next, and by how many workers.
 *
 * A webhook that hangs costs a worker 15 s a try, so what is known of a webhook decides what it may
 * take. One that answered promptly is trusted: up to half of the workers, as many deliveries a
 * claim as there is time for. Any other is suspect: one not heard of yet, one that answers slowly,
 * and one that does not answer, which also rests between two tries, 5 s at first and 5 min in the
 * end. A suspect gets one worker and one delivery at a time, all suspects together a quarter of the
 * workers; a prompt answer makes it trusted. The two kinds take turns, and so do those of a kind.
 *
 * It is memory of this process: after a start every webhook is suspect until its first answer.
 * In-process consumers are trusted. */
#include "bus/bus_inner.h"

#include <assert.h>

#define PROMPT_MS 2000
/* A prompt claim is over by then: two seconds, and an answer. One that is not may be hanging. */
#define LATE_MS     (2 * PROMPT_MS)
#define REST_MIN_MS 5000
#define REST_MAX_MS (5 * 60 * 1000)

int64_t webhook_of_target(struct str target)
{
    int64_t id = 0;
    if (str_starts(target, STR(WEBHOOK_TARGET)))
        (void)str_int64(str_sub(target, sizeof WEBHOOK_TARGET - 1, target.n), &id);
    return id;
}

/* ---- what is known; under the lock ---- */

/* known_count: nothing is. */
static size_t find(const struct bus *bus, int64_t webhook)
{
    size_t i = 0;
    while (i < bus->known_count && bus->known[i].webhook != webhook)
        i++;
    return i;
}

/* The oldest makes room: it is then one not heard of yet. */
static size_t add(struct bus *bus, int64_t webhook)
{
    size_t i = bus->known_count < KNOWN_TARGETS_MAX ? bus->known_count++
                                                    : bus->known_next++ % KNOWN_TARGETS_MAX;
    bus->known[i] = (struct known_target) { .webhook = webhook };
    return i;
}

static int64_t rest_ms(unsigned silent)
{
    int64_t ms = REST_MIN_MS;
    while (--silent && ms < REST_MAX_MS)
        ms *= 2;
    return ms < REST_MAX_MS ? ms : REST_MAX_MS;
}

bool target_heard(struct bus *bus, int64_t webhook, bool answered, int64_t took_ms)
{
    pthread_mutex_lock(&bus->lock);
    size_t i = find(bus, webhook);
    struct known_target *k = &bus->known[i < bus->known_count ? i : add(bus, webhook)];

    k->slow = took_ms > PROMPT_MS;
    k->silent = answered ? 0 : k->silent + 1;
    k->rest_until_us = answered ? 0 : env_mono_us(bus->o.env) + rest_ms(k->silent) * 1000;
    bool prompt = answered && !k->slow;
    pthread_mutex_unlock(&bus->lock);
    return prompt;
}

/* Whether it is of that kind and may have one more worker now. */
static bool has_room(const struct bus *bus, struct str target, bool suspects)
{
    unsigned workers = bus->o.webhook_workers, here = 0, suspects_served = 0;
    int64_t webhook = webhook_of_target(target), now_us = env_mono_us(bus->o.env);
    bool suspect = str_starts(target, STR(WEBHOOK_TARGET));
    size_t i = find(bus, webhook);

    if (suspect && i < bus->known_count) {
        const struct known_target *k = &bus->known[i];
        suspect = k->silent || k->slow;
        if (k->rest_until_us > now_us)
            return false;
    }
    if (suspect != suspects || bus->serving_count == BUS_WORKERS_MAX)
        return false;
    for (unsigned n = 0; n < bus->serving_count; n++) {
        const struct served *other = &bus->serving[n];
        suspects_served += other->suspect;
        if (!str_eq(str_of(other->target), target))
            continue;
        if (now_us - other->since_us > LATE_MS * 1000LL)
            return false;
        here++;
    }
    if (suspect)
        return !here && suspects_served < (workers > 4 ? workers / 4 : 1);
    return here < (workers > 2 ? workers / 2 : 1);
}

/* ---- the search ---- */

struct search {
    struct bus *bus;
    bool suspects;
    char after[BUS_TARGET_MAX + 1];
    char found[BUS_TARGET_MAX + 1]; /* "" : nothing is due */
};

static void target_copy(char to[BUS_TARGET_MAX + 1], struct str target)
{
    assert(target.n <= BUS_TARGET_MAX);
    memcpy(to, target.p, target.n);
    to[target.n] = 0;
}

static enum err search_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct search *s = arg;
    struct str target = str_of(s->after), start = target;
    bool wrapped = start.n == 0;
    struct delivery_due due;
    size_t n;

    s->found[0] = 0;
    for (;;) {
        enum err e = delivery_due_sql_target(tx, target, &target, info);
        if (e == ERR_NOT_FOUND && !wrapped) {
            wrapped = true;
            target = STR_NONE;
            continue;
        }
        if (e == ERR_NOT_FOUND || (!e && wrapped && start.n && str_cmp(target, start) > 0))
            return ERR_OK;
        if (e)
            return e;
        pthread_mutex_lock(&s->bus->lock);
        bool room = has_room(s->bus, target, s->suspects);
        pthread_mutex_unlock(&s->bus->lock);
        if (!room)
            continue;
        if ((e = delivery_due_sql_of(tx, target, tx_now_ms(tx), 1, &due, &n, info)))
            return e;
        if (n) {
            target_copy(s->found, target);
            return ERR_OK;
        }
    }
}

/* ERR_BUSY: another worker was faster. */
static enum err take(struct bus *bus, bool suspects, struct served *ret, struct err_info *info)
{
    struct search s = { .bus = bus, .suspects = suspects };

    pthread_mutex_lock(&bus->lock);
    memcpy(s.after, bus->served_last[suspects], sizeof s.after);
    pthread_mutex_unlock(&bus->lock);
    enum err e = store_read(bus->o.store, 0, "delivery.search", search_rule, &s, info);
    if (e)
        return e;
    if (!s.found[0])
        return ERR_NOT_FOUND;

    pthread_mutex_lock(&bus->lock);
    bool room = has_room(bus, str_of(s.found), suspects);
    memcpy(bus->served_last[suspects], s.found, sizeof s.found);
    if (room) {
        ret->suspect = suspects;
        ret->since_us = env_mono_us(bus->o.env);
        memcpy(ret->target, s.found, sizeof s.found);
        bus->serving[bus->serving_count++] = *ret;
        bus->suspects_first = !suspects;
    }
    pthread_mutex_unlock(&bus->lock);
    return room ? ERR_OK : ERR_BUSY;
}

enum err target_take(struct bus *bus, struct served *ret, struct err_info *info)
{
    enum err e = ERR_BUSY;
    pthread_mutex_lock(&bus->lock);
    bool suspects = bus->suspects_first;
    pthread_mutex_unlock(&bus->lock);

    for (int i = 0; i < BUS_WORKERS_MAX && e == ERR_BUSY; i++) {
        e = take(bus, suspects, ret, info);
        if (e == ERR_NOT_FOUND)
            e = take(bus, !suspects, ret, info);
    }
    return e;
}

void target_leave(struct bus *bus, const struct served *served)
{
    pthread_mutex_lock(&bus->lock);
    for (unsigned i = 0; i < bus->serving_count; i++)
        if (strcmp(bus->serving[i].target, served->target) == 0 &&
            bus->serving[i].suspect == served->suspect &&
            bus->serving[i].since_us == served->since_us) {
            bus->serving[i] = bus->serving[--bus->serving_count];
            break;
        }
    pthread_mutex_unlock(&bus->lock);
}
