/* bus_world.h -- a bus over the test database, events to put in, a webhook receiver that answers as
 * told. */
#ifndef FENPAY_TEST_BUS_WORLD_H
#define FENPAY_TEST_BUS_WORLD_H

#include "../world.h"

#include "bus/bus.h"
#include "crypto/secret.h"

#define MASTER_KEY STR("0123456789abcdef0123456789abcdef")

struct receiver {
    struct transport transport; /* first */
    struct http_reply next;     /* outcome and status of the next answers */
    int calls;
    int64_t takes_ms;    /* for each answer */
    struct world *world; /* whose clock moves by it */
    const struct sql
        *while_sending; /* asked of the store while the receiver has it; NULL: nothing */
    int64_t seen;
    char url[256], id[64], signature[256], timestamp[32], pin[64];
    char body[2048];
};

static inline void receiver_copy(char *to, size_t size, struct str s)
{
    assert_true(s.n < size);
    memcpy(to, s.p, s.n);
    to[s.n] = 0;
}

static inline void receiver_exchange(struct transport *t, struct env *env,
                                     const struct http_call *call, struct arena *a,
                                     struct http_reply *ret)
{
    struct receiver *r = (struct receiver *)(void *)t;
    (void)env;
    (void)a;
    r->calls++;
    receiver_copy(r->url, sizeof r->url, call->url);
    receiver_copy(r->pin, sizeof r->pin, call->pin_address);
    receiver_copy(r->id, sizeof r->id, http_header_get(&call->headers, "webhook-id", NULL));
    receiver_copy(r->timestamp, sizeof r->timestamp,
                  http_header_get(&call->headers, "webhook-timestamp", NULL));
    receiver_copy(r->signature, sizeof r->signature,
                  http_header_get(&call->headers, "webhook-signature", NULL));
    receiver_copy(r->body, sizeof r->body, call->body);
    if (r->while_sending)
        r->seen = world_ask(r->world, r->while_sending);
    if (r->takes_ms)
        env_test_advance(&r->world->test, r->takes_ms);
    *ret = r->next;
}

struct event_in {
    struct event event;
    int64_t number;
};

static inline enum err emit_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct event_in *in = arg;
    in->event.subject = number_make(NUMBER_PAYMENT, 5, tx_new_id(tx));
    in->event.data = str_printf(tx_arena(tx), "{\"n\":%lld}", (long long)in->number);
    return outbox_emit(tx, &in->event, info);
}

static inline struct event emit(struct world *w, enum event_type type, int64_t caller,
                                int64_t number)
{
    struct event_in in = { .event = { .type = type, .caller = caller, .sequence = 1 },
                           .number = number };
    world_run(w, emit_rule, &in);
    return in.event;
}

/* A consumer whose effect is one order_due row (due = event id), so that a double or a lost effect
 * is seen; fails as told. */
struct taker {
    int64_t poison; /* the event it fails on; -1: all */
    enum err how;
    int calls;
};

SQL(taker_effect, "INSERT INTO order_due (due, id) VALUES (?, ?)");

static inline enum err taker_consume(struct tx *tx, const struct event *event, void *ctx,
                                     struct err_info *info)
{
    struct taker *t = ctx;
    t->calls++;
    enum err e = tx_exec(
        tx, &taker_effect,
        BINDS(bind_int(event->no.id), bind_int((int64_t)(uintptr_t)t % 1000000007)), NULL, info);
    if (e)
        return e;
    if (t->how && (t->poison == event->no.id || t->poison == -1))
        return err_set(info, t->how, "this event is poison");
    return ERR_OK;
}

struct subscribe {
    struct webhook webhook;
    struct str secret_enc;
};
static inline enum err subscribe_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct subscribe *s = arg;
    return webhook_insert(tx, &s->webhook, s->secret_enc, info);
}

static inline void subscribe(struct world *w, int64_t id, int64_t caller, unsigned types,
                             const char *url)
{
    struct subscribe s = {
        .webhook = { .id = id, .caller = caller, .url = str_of(url), .types = types, .on = true }
    };
    struct str name = str_printf(w->arena, "webhook:%lld", (long long)id);
    assert_ok(secret_encrypt(w->env, MASTER_KEY, name,
                             STR("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"), w->arena,
                             &s.secret_enc));
    world_run(w, subscribe_rule, &s);
}

static inline struct bus_options bus_world_options(struct world *w, struct receiver *r,
                                                   const struct consumer *consumers, size_t n)
{
    r->transport.exchange = receiver_exchange;
    r->world = w;
    r->next = (struct http_reply) { .outcome = HTTP_ANSWERED, .status = 204 };
    return (struct bus_options) {
        .env = w->env,
        .store = w->store,
        .mint = w->mint,
        .transport = &r->transport,
        .consumers = consumers,
        .consumer_count = n,
        .source = STR("fenpay-test"),
        .master_key = MASTER_KEY,
        .webhook_private = true,
        .webhook_workers = 2,
    };
}

static inline size_t publish(struct bus *bus)
{
    struct err_info info = { .err = ERR_OK };
    size_t done = 99;
    if (bus_turn(bus, &done, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
    return done;
}

static inline size_t deliver(struct bus *bus)
{
    struct err_info info = { .err = ERR_OK };
    size_t done = 99;
    if (bus_deliver_turn(bus, &done, &info)) {
        print_error("%s\n", info.text);
        fail();
    }
    return done;
}

#endif
