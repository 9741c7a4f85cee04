/* refund_world.h -- refunds in the centre of core_world.h: paid payments, refunds opened as a rule
 * does it, facts about them. */
#ifndef FENPAY_TEST_REFUND_WORLD_H
#define FENPAY_TEST_REFUND_WORLD_H

#include "core_world.h"

#include "core/refund/refund_sql.h"

/* A paid order. */
static inline struct payment paid_of(struct core *w, const struct order_new *n)
{
    struct order o = core_order_of(w, n);
    struct payment p = core_pay(w, o.no);
    assert_int_equal(core_paid(w, p.no, money_fen(o.pay_amount),
                               str_printf(w->world.arena, "T%lld", (long long)p.no.id).p),
                     PAYMENT_MOVED);
    core_settle(w, o.no);
    return core_get(w, p.no);
}

static inline struct payment paid(struct core *w, const char *merchant_order_no, int64_t fen)
{
    struct order_new n = order_input(merchant_order_no, fen);
    return paid_of(w, &n);
}

struct opening {
    int64_t pay_id;
    struct refund_draft draft;
    struct arena *arena;
    struct refund r;
    struct refund_opening o;
};

static inline enum err opening_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct opening *x = arg;
    struct payment p;
    x->draft.id = tx_new_id(tx);
    enum err e = payment_load(tx, x->pay_id, &p, info);
    if (!e)
        e = refund_open(tx, &p, &x->draft, &x->r, &x->o, info);
    if (!e)
        x->r = refund_copy(x->arena, &x->r);
    return e;
}

static inline struct opening open_draft(struct core *w, struct number pay_no,
                                        struct refund_draft draft)
{
    struct opening x = { .pay_id = pay_no.id, .draft = draft, .arena = w->world.arena };
    if (!x.draft.origin)
        x.draft.origin = REFUND_BY_CALLER;
    x.draft.actor = STR("caller:shop");
    x.draft.trace_id = STR("trace-r");
    world_run(&w->world, opening_rule, &x);
    return x;
}

static inline struct opening open_amount(struct core *w, struct number pay_no,
                                         const char *request_id, int64_t fen)
{
    return open_draft(
        w, pay_no, (struct refund_draft) { .amount = cny(fen), .request_id = str_of(request_id) });
}

static inline struct opening open_line(struct core *w, struct number pay_no, const char *request_id,
                                       int line_no, int64_t quantity)
{
    struct refund_line line = { .line_no = line_no, .quantity = quantity };
    return open_draft(w, pay_no,
                      (struct refund_draft) {
                          .lines = &line, .line_count = 1, .request_id = str_of(request_id) });
}

/* One fact about a refund, with evidence; REFUSED states nothing but itself. */
struct stating {
    int64_t refund_id;
    struct fact fact;
    enum evidence_kind kind;
    struct arena *arena;
    enum refund_move move;
    struct refund r;
};

static inline enum err stating_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct stating *x = arg;
    bool first;
    enum err e = first_run(tx, &first, info);
    if (e || !first)
        return e;
    struct evidence evidence = { .kind = x->kind,
                                 .ref = 77,
                                 .fact = x->fact.kind == FACT_REFUSED ? NULL : &x->fact,
                                 .actor = STR("callback") };
    e = refund_apply(tx, x->refund_id, x->fact.kind, &evidence, CAUSE_CALLBACK, STR("trace-f"),
                     &x->move, &x->r, info);
    if (!e)
        x->r = refund_copy(x->arena, &x->r);
    return e;
}

static inline struct stating state_fact(struct core *w, struct number no, struct fact fact)
{
    struct stating x = {
        .refund_id = no.id, .fact = fact, .kind = EVIDENCE_CALLBACK, .arena = w->world.arena
    };
    world_run(&w->world, stating_rule, &x);
    return x;
}

static inline struct fact refund_fact(struct core *w, const struct refund *r, enum fact_kind kind)
{
    struct fact f = fact_of(w, kind, money_fen(r->amount), NULL);
    f.pay_no = number_str(w->world.arena, r->pay_no);
    f.refund_no = number_str(w->world.arena, r->no);
    f.channel_refund_id = str_printf(w->world.arena, "W%lld", (long long)r->no.id);
    return f;
}

static inline struct stating state_kind(struct core *w, const struct refund *r, enum fact_kind kind)
{
    return state_fact(w, r->no, refund_fact(w, r, kind));
}

struct loading {
    int64_t id;
    struct arena *arena;
    struct refund r;
};

static inline enum err loading_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct loading *l = arg;
    struct refund r;
    enum err e = refund_load(tx, l->id, &r, info);
    if (!e)
        e = refund_load_lines(tx, &r, info);
    if (!e)
        l->r = refund_copy(l->arena, &r);
    return e;
}

static inline struct refund refund_now(struct core *w, struct number no)
{
    struct loading l = { .id = no.id, .arena = w->world.arena };
    world_read(&w->world, loading_rule, &l);
    return l.r;
}

#endif
