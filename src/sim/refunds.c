/* refunds.c -- merchants that give money back: in parts and by order lines, at once after the
 * payment or before it, the same request again and another one in between, more than is left; and
 * people who do it in the channel's portal, where the centre hears of it afterwards. */
#include "sim/shop.h"

static void serve_refund(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->wish.lines = k->lines;
    k->code = refund_create(&p->centre, &act, &k->wish, &k->refund, &k->flag, &k->refusal);
    sim_expect_sane(p, k->code, "refund", k->wish.pay_no);
}

static void serve_refund_sync(struct sim_process *p, void *arg)
{
    struct ask *k = arg;
    struct act act = shop_act(p->sim);
    k->code = refund_sync(&p->centre, &act, k->refund.no, &k->refund, &k->refusal);
    sim_expect_sane(p, k->code, "refund sync", k->refund.no);
}

static void choose_lines(struct shop_order *o, struct ask *k)
{
    for (size_t i = 0; i < o->item_n; i++) {
        if (!sim_chance(o->s, 60))
            continue;
        k->lines[k->wish.line_count++] = (struct refund_line) {
            .line_no = o->items[i].line_no,
            .quantity = 1 + sim_below(o->s, o->items[i].quantity),
        };
    }
}

/* Few request ids, so that one comes again, with the same contents or with others. */
static struct ask wish_of(struct shop_order *o)
{
    struct sim *s = o->s;
    struct ask k = { .o = o };
    k.wish.pay_no = shop_any_shown(o);
    k.wish.request_id = str_printf(s->arena, "refund-%lld", (long long)sim_below(s, 6));
    k.wish.reason = STR("不喜欢 changed my mind");
    if (o->item_n && sim_chance(s, 50))
        choose_lines(o, &k);
    if (k.wish.line_count)
        return k;
    k.wish.has_amount = true;
    k.wish.amount_fen = sim_chance(s, 30) ? o->fen : 1 + sim_below(s, o->fen);
    return k;
}

static void remember(struct shop_order *o, const struct ask *k)
{
    if (o->refund_n < SHOP_REFUNDS)
        o->refunds[o->refund_n++] = k->refund.no;
}

/* The same at the same time. */
static void twin(struct sim *s, void *arg)
{
    shop_insist(s, "refund", serve_refund, arg);
    shop_leave(s);
}

static void refund_once(struct shop_order *o)
{
    struct sim *s = o->s;
    struct ask k = wish_of(o);
    if (!number_is(k.wish.pay_no))
        return;
    if (sim_chance(s, 25)) {
        struct ask *other = arena_one(s->arena, struct ask);
        *other = sim_chance(s, 50) ? k : wish_of(o);
        s->actors++;
        sim_spawn(s, "refunder", NULL, twin, other);
    }
    if (shop_insist(s, "refund", serve_refund, &k) && !k.code)
        remember(o, &k);
}

void shop_refunder(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    if (shop_wait_for_order(o))
        for (int64_t n = 1 + sim_below(s, 6); n > 0; n--) {
            shop_think(s, SHOP_MINUTE_MS);
            refund_once(o);
            if (o->refund_n && sim_chance(s, 20)) {
                struct ask k = { .o = o };
                k.refund.no = o->refunds[sim_below(s, (int64_t)o->refund_n)];
                shop_insist(s, "refund sync", serve_refund_sync, &k);
            }
        }
    shop_leave(s);
}

void shop_portal(struct sim *s, void *arg)
{
    struct shop_order *o = arg;
    for (int64_t n = 1 + sim_below(s, 3); n > 0; n--) {
        struct err_info info = { 0 };
        shop_think(s, 2 * SHOP_MINUTE_MS);
        struct number no = shop_any_shown(o);
        int64_t fen = sim_chance(s, 30) ? o->fen : 1 + sim_below(s, o->fen);
        if (!number_is(no))
            continue;
        enum err e = sandbox_refund_by_hand(s->sandbox, number_str(s->arena, no), fen, &info);
        sim_note(s, "portal", (int64_t)e);
        s->faults += !e;
    }
    shop_leave(s);
}
