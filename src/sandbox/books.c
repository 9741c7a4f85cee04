/* books.c -- what the channel believes: every trade and refund, in the order in which they came,
 * found by number.
 *
 * Nothing is ever removed, so pointers into the books stay good until the sandbox ends. The caller
 * holds the lock. */
#include "sandbox/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define CLOSES_AFTER_MS (7 * DAY_MS)

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

void books_init(struct books *b, int64_t first_id)
{
    *b = (struct books) { .next_id = first_id };
    list_init(&b->trades);
    list_init(&b->pending);
}

void books_done(struct books *b)
{
    struct list *node;
    while ((node = list_take_first(&b->trades))) {
        struct trade *t = container_of(node, struct trade, node);
        while ((node = list_take_first(&t->refunds)))
            free(container_of(node, struct refund, node));
        free(t);
    }
    free(b->by_number.bucket);
    free(b->by_number.id_bucket);
    free(b->by_refund_number.bucket);
}

static size_t place(struct str number, size_t buckets)
{
    return str_crc32c(0, number) & (buckets - 1);
}

/* Appends the text behind a record's fixed part and lets the view point there. */
static void settle_text(char **at, struct str *text)
{
    if (text->n)
        memcpy(*at, text->p, text->n);
    text->p = text->p ? *at : NULL;
    *at += text->n;
}

static void link_trade(struct trade_table *t, struct trade *x)
{
    struct trade **number = &t->bucket[place(x->out_trade_no, t->buckets)];
    struct trade **id = &t->id_bucket[place(x->transaction_id, t->buckets)];
    x->hash_next = *number;
    *number = x;
    x->id_next = *id;
    *id = x;
}

static void grow_trades(struct books *b)
{
    struct trade_table *t = &b->by_number;
    t->buckets = t->buckets ? t->buckets * 2 : 1024;
    free(t->bucket);
    free(t->id_bucket);
    t->bucket = must(calloc(t->buckets, sizeof *t->bucket));
    t->id_bucket = must(calloc(t->buckets, sizeof *t->id_bucket));
    list_each (node, &b->trades)
        link_trade(t, container_of(node, struct trade, node));
}

static void grow_refunds(struct refund_table *t)
{
    size_t buckets = t->buckets ? t->buckets * 2 : 256;
    struct refund **bucket = must(calloc(buckets, sizeof *bucket));
    for (size_t i = 0; i < t->buckets; i++) {
        for (struct refund *x = t->bucket[i], *next; x; x = next) {
            next = x->hash_next;
            size_t to = place(x->out_refund_no, buckets);
            x->hash_next = bucket[to];
            bucket[to] = x;
        }
    }
    free(t->bucket);
    t->bucket = bucket;
    t->buckets = buckets;
}

/* "42000", five digits, the day, ten digits: the running number around the day, as the channel's
 * own ids look. */
#define ID_LENGTH 28
#define ID_LOW    10000000000LL /* what the last ten digits hold */
#define ID_HIGH   100000LL

struct id_text {
    char text[64];
};

static struct str make_id(struct books *b, const char *prefix, int64_t created_ms,
                          struct id_text *room)
{
    int64_t id = b->next_id++;
    int n = snprintf(room->text, sizeof room->text, "%s%05d%08d%010lld", prefix,
                     (int)(id / ID_LOW % ID_HIGH), clock_beijing_yyyymmdd(created_ms),
                     (long long)(id % ID_LOW));
    return (struct str) { room->text, (size_t)n };
}

/* An id from an earlier life: the running number goes on behind it, even when the clock was put
 * back. */
static struct str old_id(struct books *b, struct str id)
{
    int64_t high, low;
    char digits[2][16] = { { 0 } };
    if (id.n != ID_LENGTH || !str_all_of(id, "0123456789"))
        return id;
    memcpy(digits[0], id.p + 5, 5);
    memcpy(digits[1], id.p + 18, 10);
    high = strtoll(digits[0], NULL, 10);
    low = strtoll(digits[1], NULL, 10);
    int64_t round = b->next_id / (ID_HIGH * ID_LOW) * (ID_HIGH * ID_LOW);
    int64_t behind = round + high * ID_LOW + low + 1;
    if (behind > b->next_id)
        b->next_id = behind;
    return id;
}

struct trade *books_add_trade(struct books *b, const struct trade *like)
{
    struct id_text room;
    if (b->by_number.count >= b->by_number.buckets)
        grow_trades(b);
    struct str transaction_id = like->transaction_id.n
                                    ? old_id(b, like->transaction_id)
                                    : make_id(b, "42000", like->created_ms, &room);
    size_t text = like->out_trade_no.n + transaction_id.n + like->description.n + like->attach.n +
                  like->openid.n + like->notify_url.n + like->device_id.n;
    struct trade *t = must(malloc(sizeof *t + text + 1));
    *t = *like;
    t->transaction_id = transaction_id;
    char *at = (char *)(t + 1);
    settle_text(&at, &t->out_trade_no);
    settle_text(&at, &t->transaction_id);
    settle_text(&at, &t->description);
    settle_text(&at, &t->attach);
    settle_text(&at, &t->openid);
    settle_text(&at, &t->notify_url);
    settle_text(&at, &t->device_id);
    list_init(&t->refunds);
    list_append(&b->trades, &t->node);
    link_trade(&b->by_number, t);
    b->by_number.count++;
    return t;
}

struct trade *books_trade(struct books *b, const struct account *account, struct str out_trade_no)
{
    if (!b->by_number.buckets)
        return NULL;
    struct trade *t = b->by_number.bucket[place(out_trade_no, b->by_number.buckets)];
    while (t && !(str_eq(t->out_trade_no, out_trade_no) && (!account || t->account == account)))
        t = t->hash_next;
    return t;
}

struct trade *books_trade_by_id(struct books *b, struct str transaction_id)
{
    if (!b->by_number.buckets)
        return NULL;
    struct trade *t = b->by_number.id_bucket[place(transaction_id, b->by_number.buckets)];
    while (t && !str_eq(t->transaction_id, transaction_id))
        t = t->id_next;
    return t;
}

struct refund *books_add_refund(struct books *b, const struct refund *like)
{
    if (b->by_refund_number.count >= b->by_refund_number.buckets)
        grow_refunds(&b->by_refund_number);
    struct id_text room;
    struct str refund_id = like->refund_id.n ? old_id(b, like->refund_id)
                                             : make_id(b, "50000", like->created_ms, &room);
    struct refund *r =
        must(malloc(sizeof *r + like->out_refund_no.n + refund_id.n + like->notify_url.n + 1));
    *r = *like;
    r->refund_id = refund_id;
    char *at = (char *)(r + 1);
    settle_text(&at, &r->out_refund_no);
    settle_text(&at, &r->refund_id);
    settle_text(&at, &r->notify_url);
    struct trade *t = r->trade;
    list_append(&t->refunds, &r->node);
    list_init(&r->pending);
    if (r->end_ms) /* all take equally long, so the list is in order */
        list_append(&b->pending, &r->pending);
    struct refund **bucket =
        &b->by_refund_number.bucket[place(r->out_refund_no, b->by_refund_number.buckets)];
    r->hash_next = *bucket;
    *bucket = r;
    b->by_refund_number.count++;

    t->state = TRADE_REFUND;
    t->refund_count++;
    t->refunded_ms = r->created_ms;
    t->refunded_fen += r->amount_fen;
    t->account->refunded_fen += r->amount_fen;
    return r;
}

struct refund *books_refund(struct books *b, const struct account *account,
                            struct str out_refund_no)
{
    if (!b->by_refund_number.buckets)
        return NULL;
    struct refund *r =
        b->by_refund_number.bucket[place(out_refund_no, b->by_refund_number.buckets)];
    while (r && !(str_eq(r->out_refund_no, out_refund_no) && r->trade->account == account))
        r = r->hash_next;
    return r;
}

void books_age_trade(struct trade *t, int64_t now_ms)
{
    if (t->state == TRADE_NOTPAY && now_ms >= t->created_ms + CLOSES_AFTER_MS)
        t->state = TRADE_CLOSED;
}

static void end_refund(struct refund *r)
{
    list_remove(&r->pending);
    r->state = r->end;
    if (r->state == REFUND_CLOSED) { /* the money is back with the merchant */
        r->trade->refunded_fen -= r->amount_fen;
        r->trade->account->refunded_fen -= r->amount_fen;
    }
}

void books_age(struct books *b, int64_t now_ms)
{
    list_each_safe (node, &b->pending) {
        struct refund *r = container_of(node, struct refund, pending);
        if (now_ms < r->end_ms)
            return;
        end_refund(r);
    }
}

const char *books_trade_state(enum trade_state state)
{
    static const char *const names[] = { "NOTPAY", "SUCCESS", "REFUND", "CLOSED" };
    return names[state];
}

const char *books_refund_state(enum refund_state state)
{
    static const char *const names[] = { "PROCESSING", "SUCCESS", "CLOSED", "ABNORMAL" };
    return names[state];
}

void books_copy_trade(const struct trade *t, struct arena *a, struct sandbox_trade *ret)
{
    *ret = (struct sandbox_trade) {
        .mchid = str_dup(a, t->account->mchid),
        .out_trade_no = str_dup(a, t->out_trade_no),
        .transaction_id = str_dup(a, t->transaction_id),
        .state = str_of(books_trade_state(t->state)),
        .total_fen = t->total_fen,
        .taken_fen = t->taken_fen,
        .refunded_fen = t->refunded_fen,
        .success_ms = t->success_ms,
        .prepays = t->prepays,
        .queries = t->queries,
        .closes = t->closes,
        .callbacks_sent = t->callbacks_sent,
        .callbacks_acknowledged = t->callbacks_acknowledged,
    };
}
