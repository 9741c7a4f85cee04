/* reject.c -- a ring of samples, a table of addresses and one of what was said, all of fixed size.
 *
 * The table has one place for each value of a hash; an address that meets another one's place takes
 * it over. So two addresses can make each other forgotten, which costs us a few verifications, but
 * none can have another one refused. */
#include "notify/reject.h"

#include <pthread.h>
#include <stdlib.h>

#define PLACES      1024
#define PEER_MAX    46
#define DETAIL_MAX  200
#define BODY_MAX    4096
#define HEADERS_MAX 2048
#define SAID        256
#define SAY_MS      1000

struct place {
    char peer[PEER_MAX + 1];
    int64_t since_ms;
    int forged;
};

/* A kind of line: when it was logged last (INT64_MIN: never), how many were not since. */
struct said {
    char account[65];
    const char *reason;
    int64_t at_us, unsaid;
};

struct sample {
    struct reject_sample s; /* its texts point into the arrays below */
    char account[65], detail[DETAIL_MAX], peer[PEER_MAX + 1], body[BODY_MAX], headers[HEADERS_MAX];
};

struct rejects {
    struct env *env;
    bool by_address;
    pthread_mutex_t lock;
    struct place places[PLACES];
    struct said said[SAID];
    size_t said_count;
    struct sample *samples; /* REJECT_SAMPLES, made with the first */
    size_t first, count;
};

struct rejects *rejects_new(struct env *env, bool by_address)
{
    struct rejects *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->env = env;
    r->by_address = by_address;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void rejects_free(struct rejects *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->samples);
    free(r);
}

static bool is_loopback(struct str peer)
{
    return str_starts(peer, STR("127.")) || str_eq(peer, STR("::1"));
}

static struct place *place_of(struct rejects *r, struct str peer)
{
    return &r->places[str_crc32c(0, peer) % PLACES];
}

bool rejects_refuses(struct rejects *r, struct str peer)
{
    if (!r->by_address || !peer.n || is_loopback(peer))
        return false;
    int64_t now = env_now_ms(r->env);
    pthread_mutex_lock(&r->lock);
    const struct place *p = place_of(r, peer);
    bool full = str_eq(str_of(p->peer), peer) && now - p->since_ms < REJECT_WINDOW_MS &&
                now >= p->since_ms && p->forged >= REJECT_FORGED_MAX;
    pthread_mutex_unlock(&r->lock);
    return full;
}

/* Under the lock. */
static void count_forged(struct rejects *r, struct str peer)
{
    int64_t now = env_now_ms(r->env);
    struct place *p = place_of(r, peer);

    if (!peer.n || peer.n > PEER_MAX)
        return;
    if (!str_eq(str_of(p->peer), peer) || now - p->since_ms >= REJECT_WINDOW_MS ||
        now < p->since_ms) {
        *p = (struct place) { .since_ms = now };
        memcpy(p->peer, peer.p, peer.n);
    }
    p->forged++;
}

static struct str keep(char *to, size_t size, struct str s)
{
    s = str_sub(s, 0, size);
    if (s.n)
        memcpy(to, s.p, s.n);
    return (struct str) { s.p ? to : NULL, s.n };
}

/* Under the lock. */
static void keep_sample(struct rejects *r, const struct reject_sample *s)
{
    if (r->count == REJECT_SAMPLES)
        return;
    if (!r->samples && !(r->samples = calloc(REJECT_SAMPLES, sizeof *r->samples)))
        abort();
    struct sample *k = &r->samples[(r->first + r->count++) % REJECT_SAMPLES];
    k->s = (struct reject_sample) {
        .account = keep(k->account, sizeof k->account, s->account),
        .detail = keep(k->detail, sizeof k->detail, s->detail),
        .peer = keep(k->peer, sizeof k->peer, s->peer),
        .body = keep(k->body, sizeof k->body, s->body),
        .headers = keep(k->headers, sizeof k->headers, s->headers),
        .reason = s->reason,
        .time_ms = s->time_ms,
    };
}

/* Only a signature that had to be computed counts: the channel's own probes and stale resends come
 * from its addresses, too. */
void rejects_note(struct rejects *r, const struct reject_sample *s)
{
    pthread_mutex_lock(&r->lock);
    if (s->reason == NOTICE_REASON_SIGNATURE)
        count_forged(r, s->peer);
    keep_sample(r, s);
    pthread_mutex_unlock(&r->lock);
}

/* Accounts and reasons are few; should they ever be too many, the rest shares the last place. */
static struct said *said_of(struct rejects *r, struct str account, const char *reason)
{
    account = str_sub(account, 0, sizeof r->said[0].account - 1);
    for (size_t i = 0; i < r->said_count; i++) {
        struct said *s = &r->said[i];
        if (str_eq(str_of(s->account), account) && strcmp(s->reason, reason) == 0)
            return s;
    }
    if (r->said_count == SAID)
        return &r->said[SAID - 1];
    struct said *s = &r->said[r->said_count++];
    if (account.n)
        memcpy(s->account, account.p, account.n);
    s->reason = reason;
    s->at_us = INT64_MIN;
    return s;
}

bool rejects_say(struct rejects *r, struct str account, const char *reason, int64_t *ret_unsaid)
{
    int64_t now = env_mono_us(r->env);
    pthread_mutex_lock(&r->lock);
    struct said *s = said_of(r, account, reason);
    bool say = s->at_us == INT64_MIN || now - s->at_us >= SAY_MS * 1000;
    if (say) {
        *ret_unsaid = s->unsaid;
        s->at_us = now;
        s->unsaid = 0;
    } else {
        s->unsaid++;
    }
    pthread_mutex_unlock(&r->lock);
    return say;
}

size_t rejects_take(struct rejects *r, struct arena *a, struct reject_sample ret[], size_t max)
{
    size_t n = 0;

    pthread_mutex_lock(&r->lock);
    for (; n < max && r->count; n++, r->count--) {
        const struct reject_sample *s = &r->samples[r->first].s;
        r->first = (r->first + 1) % REJECT_SAMPLES;
        ret[n] = *s;
        struct str *texts[] = { &ret[n].account, &ret[n].detail, &ret[n].peer, &ret[n].body,
                                &ret[n].headers };
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (texts[i]->p)
                *texts[i] = str_dup(a, *texts[i]);
    }
    pthread_mutex_unlock(&r->lock);
    return n;
}
