/* reader.c -- a merchant's system that reads the feed, page after page, each time behind the last
 * number it has seen. What comes into the feed in front of that it never sees. */
#include "sim/inner.h"

#include "bus/bus.h"

#define FEED_PAGE   16
#define PAUSE_MS    30000
#define PATIENCE_MS 10000

struct reading {
    int64_t after, last;
    size_t n;
};

static enum err read_feed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct reading *k = arg;
    struct event events[FEED_PAGE];
    int64_t seqs[FEED_PAGE];
    enum err e = feed_read(tx, SIM_CALLER, k->after, FEED_PAGE, events, seqs, &k->n, info);
    if (!e && k->n)
        k->last = seqs[k->n - 1];
    return e;
}

static void serve_feed(struct sim_process *p, void *arg)
{
    struct err_info info = { 0 };
    if (store_read(p->centre.store, 0, "feed", read_feed_rule, arg, &info))
        sim_fail(p->sim, (struct number) { 0 }, "the feed cannot be read: %s", info.text);
}

static void reader(struct sim *s, void *arg)
{
    (void)arg;
    for (;;) {
        struct reading *k = arena_one(s->arena, struct reading);
        k->after = s->fed_seq;
        if (sim_call(s, "feed", serve_feed, k, PATIENCE_MS) && k->n) {
            s->fed += (int64_t)k->n;
            s->fed_seq = k->last;
        } else {
            sim_sleep(s, s->healed ? SIM_PAUSE_MAX_MS : 1 + sim_below(s, PAUSE_MS));
        }
    }
}

void sim_reader_start(struct sim *s)
{
    if (s->temper.reader)
        sim_spawn(s, "reader", NULL, reader, NULL);
}
