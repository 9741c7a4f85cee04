/* actors.c -- who does what: merchants that make orders, cancel, complete and ask; shoppers that
 * start to pay, several at once and again, and pay what they were shown, also long after. A door
 * lets orders in, with all who care for them, until there are as many payments as wanted.
 *
 * An actor has little patience: a call without an answer is made again, as a merchant's system
 * would, with the same request id if it has one. What actors were told is held against the centre:
 * after "cancelled" or "completed" nobody may be given anything to pay. */
#include "sim/shop.h"

#include <stdlib.h>

#include "base/json.h"

#define ORDERS_PER_PAYMENT 3 /* at most: somewhere nobody may be able to pay */
#define CROWD_ACTORS       4 /* of an order, about */
#define PATIENCE_MS        12000

struct act shop_act(struct sim *s)
{
    return (struct act) { .caller = { SIM_CALLER, STR("shop") },
                          .actor = STR("caller:shop"),
                          .trace_id = STR("sim"),
                          .arena = s->arena };
}

void sim_expect_sane(struct sim_process *p, enum code code, const char *what, struct number no)
{
    sim_note(p->sim, what, (int64_t)code);
    if (code == CODE_INTERNAL && !store_failed(p->centre.store) &&
        p->sim->temper.commits != COMMITS_LOSE_ANSWERS)
        sim_fail(p->sim, no, "%s: INTERNAL", what);
}

static bool worth_a_retry(enum code code)
{
    return code == CODE_BUSY || code == CODE_INTERNAL || code == CODE_REQUEST_IN_FLIGHT ||
           code == CODE_CHANNEL_BUSY || code == CODE_ATTEMPT_CLOSING || code == CODE_NO_ACCOUNT;
}

bool shop_insist(struct sim *s, const char *name, sim_serve *serve, struct ask *ask)
{
    for (int i = 0; i < SHOP_TRIES; i++) {
        /* Its own copy: the server of a call given up may still write into the one before. */
        struct ask *k = arena_one(s->arena, struct ask);
        *k = *ask;
        if (sim_call(s, name, serve, k, 1000 + sim_below(s, PATIENCE_MS)) &&
            !worth_a_retry(k->code)) {
            *ask = *k;
            return true;
        }
        sim_sleep(s, 100 + sim_below(s, 5000));
    }
    return false;
}

/* ---- orders ---- */

static struct order_new order_of(const struct shop_order *o)
{
    return (struct order_new) { .merchant_order_no = o->merchant_no,
                                .user_id = STR("user"),
                                .subject = STR("茶 tea"),
                                .items = o->items,
                                .item_count = o->item_n,
                                .has_amount = !o->item_n,
                                .amount_fen = o->item_n ? 0 : o->fen,
                                .currency = STR("CNY"),
                                .expire_in_ms = o->expire_in_ms };
}

static void serve_create(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    struct order_new n = order_of(k->o);
    k->code = order_create(&p->centre, &act, &n, &k->order, &k->flag, &k->refusal);
    sim_expect_sane(p, k->code, "create", k->order.no);
}

static void serve_cancel(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->code = order_cancel(&p->centre, &act, k->o->no, STR("changed my mind"), &k->order, &k->flag,
                           &k->refusal);
    sim_expect_sane(p, k->code, "cancel", k->o->no);
}

static void serve_complete(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->code = order_complete(&p->centre, &act, k->o->no, &k->order, &k->refusal);
    sim_expect_sane(p, k->code, "complete", k->o->no);
}

/* ---- payments ---- */

static void serve_start(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    enum payment_started how;
    struct json_out out;
    struct err_info info = { 0 };
    struct buf text;
    struct order_new n = order_of(k->o);

    k->pay.order_no = k->o->no;
    if (!number_is(k->o->no)) /* made by whoever pays first */
        k->pay.inline_order = &n;
    k->code = payment_start(&p->centre, &act, &k->pay, &k->payment, &how, &k->refusal);
    sim_expect_sane(p, k->code, "start", k->o->no);
    if (k->code)
        return;
    buf_init_arena(&text, p->sim->arena, 8192);
    json_out_init(&out, &text);
    json_begin_object(&out);
    if (payment_client(&p->centre, &k->payment, p->sim->arena, &out, &k->shown, &info))
        sim_fail(p->sim, k->payment.no, "no client parameters: %s", info.text);
    json_end_object(&out);
    if (k->shown && k->was_over)
        sim_fail(p->sim, k->payment.no, "something to pay for an order that was over");
}

static void serve_close(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->code = payment_close(&p->centre, &act, k->pay_no, &k->payment, &k->flag, &k->refusal);
    sim_expect_sane(p, k->code, "close", k->pay_no);
}

static void serve_sync(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->code = payment_sync(&p->centre, &act, k->pay_no, &k->payment, &k->refusal);
    sim_expect_sane(p, k->code, "sync", k->pay_no);
}

struct number shop_any_shown(struct shop_order *o)
{
    return o->shown_n ? o->shown[sim_below(o->s, (int64_t)o->shown_n)] : (struct number) { 0 };
}

static void pay_at_the_phone(struct shop_order *o)
{
    struct number no = shop_any_shown(o);
    struct err_info info = { 0 };
    if (number_is(no))
        sim_note(o->s, "phone",
                 (int64_t)sandbox_pay(o->s->sandbox, number_str(o->s->arena, no), &info));
}

/* Until there is something to show. Nothing yet: the channel has not answered; asked again. */
static void start_until_shown(struct shop_order *o, struct ask *k)
{
    for (int i = 0; i < SHOP_TRIES && !k->shown; i++) {
        if (!shop_insist(o->s, "start", serve_start, k) || k->code)
            return;
        o->no = k->payment.order_no;
        if (!k->shown)
            sim_sleep(o->s, sim_below(o->s, 5000));
    }
    if (!k->shown)
        return;
    o->shown_until_ms = k->payment.expire_ms;
    if (o->shown_n < SHOWN_MAX)
        o->shown[o->shown_n++] = k->payment.no;
}

/* The same request once more, while the first is under way. */
static void double_click(struct sim *s, void *arg)
{
    struct ask *k = arg;
    start_until_shown(k->o, k);
    s->actors--;
}

/* `method`: what this shopper did the last time, and mostly does again. */
static void start_to_pay(struct shop_order *o, unsigned shopper, const char **method)
{
    static const char *const methods[] = { "native", "app", "jsapi" };
    struct sim *s = o->s;
    struct ask k = { .o = o, .was_over = o->over };

    if (!*method || sim_chance(s, 40))
        *method = methods[sim_below(s, 3)];
    k.pay.method = str_of(*method);
    if (str_eq(k.pay.method, STR("jsapi")))
        k.pay.payer = STR("oPayer0000000000000000000001");
    switch (sim_below(s, 3)) {
    case 0:
        k.pay.request_id = str_printf(s->arena, "once-%u", shopper);
        break;
    case 1:
        k.pay.request_id = str_printf(s->arena, "r-%lld", (long long)sim_below(s, 1000000));
        break;
    }
    if (sim_chance(s, 15)) {
        struct ask *twin = arena_one(s->arena, struct ask);
        *twin = k;
        s->actors++;
        sim_spawn(s, "shopper", NULL, double_click, twin);
    }
    start_until_shown(o, &k);
}

/* ---- people ---- */

void shop_think(struct sim *s, int64_t max_ms)
{
    sim_sleep(s, sim_below(s, max_ms * s->temper.pace_percent / 100 + 1));
}

void shop_leave(struct sim *s)
{
    s->actors--;
}

bool shop_wait_for_order(struct shop_order *o)
{
    for (int i = 0; i < 60 && !number_is(o->no); i++)
        sim_sleep(o->s, 500 + sim_below(o->s, 1000));
    return number_is(o->no);
}

static void merchant(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    struct ask k = { .o = o };
    shop_think(s, 20000);
    for (int i = 0; i < SHOP_TRIES && !number_is(o->no); i++)
        if (shop_insist(s, "create", serve_create, &k) && !k.code)
            o->no = k.order.no;
    shop_leave(s);
}

static void shopper(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    unsigned me = ++o->shoppers;
    const char *method = NULL;
    if (o->inline_new || shop_wait_for_order(o))
        for (int64_t n = 1 + sim_below(s, 4); n > 0; n--) {
            start_to_pay(o, me, &method);
            shop_think(s, sim_chance(s, 30) ? 90000 : 8000);
            if (sim_chance(s, 50))
                pay_at_the_phone(o);
        }
    shop_leave(s);
}

/* Somebody with an old code in his hand. */
static void latecomer(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    for (int64_t n = 1 + sim_below(s, 3); n > 0; n--) {
        if (sim_chance(s, 50) && o->shown_until_ms)
            sim_wait(s, o->shown_until_ms - 2000 + sim_below(s, 4000)); /* in the last second */
        else
            shop_think(s, 3 * SHOP_MINUTE_MS);
        pay_at_the_phone(o);
    }
    shop_leave(s);
}

static void canceller(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    shop_think(s, 2 * SHOP_MINUTE_MS);
    if (shop_wait_for_order(o))
        for (int64_t n = 1 + sim_below(s, 3); n > 0 && !o->over; n--) {
            struct ask k = { .o = o };
            if (shop_insist(s, "cancel", serve_cancel, &k) && !k.code && !k.flag)
                o->over = true;
            shop_think(s, 20000);
        }
    shop_leave(s);
}

static void closer(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    for (int64_t n = 1 + sim_below(s, 3); n > 0; n--) {
        shop_think(s, SHOP_MINUTE_MS);
        struct ask k = { .o = o, .pay_no = shop_any_shown(o) };
        if (number_is(k.pay_no))
            shop_insist(s, sim_chance(s, 50) ? "close" : "sync",
                        sim_chance(s, 60) ? serve_close : serve_sync, &k);
    }
    shop_leave(s);
}

static void completer(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    if (shop_wait_for_order(o))
        for (int i = 0; i < 6; i++) {
            struct ask k = { .o = o };
            shop_think(s, SHOP_MINUTE_MS);
            if (shop_insist(s, "complete", serve_complete, &k) && !k.code) {
                o->over = true;
                break;
            }
        }
    shop_leave(s);
}

static void enter(struct sim *s, int percent, const char *name, sim_fn *fn, struct shop_order *o)
{
    if (!sim_chance(s, percent))
        return;
    s->actors++;
    sim_spawn(s, name, NULL, fn, o);
}

static struct money fen(int64_t n)
{
    struct money m;
    if (money_of(n, STR("CNY"), &m))
        abort();
    return m;
}

/* What was ordered: some things, or just an amount. */
static void fill(struct shop_order *o)
{
    struct sim *s = o->s;
    o->fen = 1 + sim_below(s, 100000);
    if (!sim_chance(s, 40))
        return;
    o->item_n = 1 + (size_t)sim_below(s, SHOP_LINES);
    o->fen = 0;
    for (size_t i = 0; i < o->item_n; i++) {
        int64_t price = 1 + sim_below(s, 20000), quantity = 1 + sim_below(s, 4);
        o->items[i] = (struct order_item) { .line_no = (int)i + 1,
                                            .sku = STR("sku"),
                                            .name = STR("茶 tea"),
                                            .unit_price = fen(price),
                                            .discount = fen(0),
                                            .quantity = quantity };
        o->fen += price * quantity;
    }
}

static void let_in(struct sim *s, int64_t i)
{
    struct shop_order *o = arena_one(s->arena, struct shop_order);
    o->s = s;
    fill(o);
    o->expire_in_ms = sim_chance(s, 60) ? 2 * SHOP_MINUTE_MS + sim_below(s, 4 * SHOP_MINUTE_MS) : 0;
    o->merchant_no = str_printf(s->arena, "M-%lld", (long long)i);
    o->inline_new = sim_chance(s, 30);
    enter(s, o->inline_new ? 0 : 100, "merchant", merchant, o);
    enter(s, 100, "shopper", shopper, o);
    enter(s, 45, "shopper", shopper, o);
    enter(s, 35, "latecomer", latecomer, o);
    enter(s, 35, "canceller", canceller, o);
    enter(s, 35, "closer", closer, o);
    enter(s, 25, "completer", completer, o);
    enter(s, s->temper.refunders, "refunder", shop_refunder, o);
    enter(s, s->temper.portal, "portal", shop_portal, o);
}

static void door(struct sim *s, void *arg)
{
    int64_t most = ORDERS_PER_PAYMENT * s->payments_wanted;
    (void)arg;
    for (int64_t i = 0; i < most && sim_payments_seen(s) < s->payments_wanted && !s->healed;) {
        if (s->actors < (size_t)s->temper.crowd * CROWD_ACTORS)
            let_in(s, i++);
        shop_think(s, 3000);
        sim_sleep(s, 100);
    }
    shop_leave(s);
}

void sim_actors_start(struct sim *s)
{
    s->actors++;
    sim_spawn(s, "door", NULL, door, NULL);
}
