/* refund_new.c -- what the API asks of refunds: create one, read them.
 *
 * A refund is stored and answered at once; sending is the job's. The order is settled in the same
 * rule first, so that a refund of lines knows which payment settled it. */
#include "base/killpoint.h"
#include "core/order/order_new.h"
#include "core/refund/refund_inner.h"

#include <stdlib.h>

#define REASON_MAX   256
#define QUANTITY_MAX 1000000

/* ---- checks ---- */

static const char *line_field(struct arena *a, size_t i, const char *name)
{
    return str_printf(a, "items[%zu].%s", i, name).p;
}

static int by_line_no(const void *a, const void *b)
{
    const struct refund_line *x = a, *y = b;
    return (x->line_no > y->line_no) - (x->line_no < y->line_no);
}

/* `lines` in order of their numbers. */
static enum code check_lines(const struct refund_new *n, struct refund_line *lines, struct arena *a,
                             struct refusal *r)
{
    if (n->line_count > REFUND_LINES_MAX)
        return refuse_field(r, CODE_BAD_FIELD, "items", STR("at most 200 lines"));
    for (size_t i = 0; i < n->line_count; i++) {
        if (n->lines[i].line_no < 1)
            return refuse_field(r, CODE_BAD_FIELD, line_field(a, i, "line_no"), STR("from 1"));
        if (n->lines[i].quantity < 1 || n->lines[i].quantity > QUANTITY_MAX)
            return refuse_field(r, CODE_BAD_FIELD, line_field(a, i, "quantity"),
                                STR("1 to 1000000"));
        for (size_t j = 0; j < i; j++)
            if (n->lines[j].line_no == n->lines[i].line_no)
                return refuse_field(r, CODE_BAD_FIELD, line_field(a, i, "line_no"),
                                    STR("this line is named twice"));
        lines[i] = n->lines[i];
    }
    qsort(lines, n->line_count, sizeof *lines, by_line_no);
    return CODE_OK;
}

static enum code check(struct centre *c, const struct refund_new *n, struct refund_line *lines,
                       struct arena *a, struct refusal *r)
{
    if (!order_request_id_ok(n->request_id))
        return refuse_field(r, CODE_BAD_FIELD, "request_id",
                            STR("mandatory: 1 to 64 visible ASCII characters"));
    if (n->has_amount == (n->line_count > 0))
        return refuse_field(r, CODE_BAD_FIELD, n->has_amount ? "items" : "amount",
                            STR("give either items or amount"));
    if (n->has_amount && (n->amount_fen <= 0 || n->amount_fen > c->settings.order_amount_max_fen))
        return refuse_field(r, CODE_AMOUNT_INVALID, "amount",
                            STR("above zero, and at most the largest amount of an order"));
    if (!order_text_ok(n->reason, REASON_MAX))
        return refuse_field(
            r, CODE_BAD_FIELD, "reason",
            STR("at most 256 characters, no control characters, no blanks around it"));
    return check_lines(n, lines, a, r);
}

/* ---- creating ---- */

struct create {
    struct centre *c;
    const struct act *act;
    const struct refund_new *n;
    struct refund_draft draft;
    bool found, currency_differs;
    struct payment payment;
    struct refund refund;
    struct refund_opening opening;
};

static enum err open_it(struct tx *tx, struct create *x, struct payment *p, struct err_info *info)
{
    struct str currency = x->n->currency.n ? x->n->currency : money_currency(&p->amount);
    struct refund r = { 0 };

    x->currency_differs = !str_eq(currency, money_currency(&p->amount));
    if (x->currency_differs)
        return ERR_OK;
    if (x->n->has_amount && money_of(x->n->amount_fen, currency, &x->draft.amount))
        return err_internal(info, "an amount that was checked is none");
    enum err e = refund_open(tx, p, &x->draft, &r, &x->opening, info);
    if (!e)
        x->refund = refund_copy(x->act->arena, &r);
    return e;
}

static enum err create_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct create *x = arg;
    struct order o;
    struct payment p;

    x->draft.id = tx_new_id(tx);
    enum err e = payment_load(tx, x->n->pay_no.id, &p, info);
    x->found = !e && p.caller == x->act->caller.id && p.no.slot == x->n->pay_no.slot;
    if (!x->found)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = order_settle(tx, &x->c->settings, p.order_no.id, &o, info)) ||
        (e = payment_load(tx, p.no.id, &p, info)) || (e = open_it(tx, x, &p, info)))
        return e;
    x->payment = p;
    return ERR_OK;
}

static enum code exceeds(const struct create *x, struct refusal *r)
{
    struct arena *a = x->act->arena;
    struct money left = payment_refund_left(&x->payment);

    return refuse_field(r, CODE_REFUND_EXCEEDS, "amount",
                        str_printf(a, STR_FMT " are left", STR_ARG(money_text(a, left))));
}

/* About one line of what was asked for, in the caller's order. */
static enum code about_line(const struct create *x, enum code code, struct refusal *r)
{
    for (size_t i = 0; i < x->n->line_count; i++)
        if (x->n->lines[i].line_no == x->opening.line_no)
            return refuse_field(r, code, line_field(x->act->arena, i, x->opening.field), STR_NONE);
    return refuse_field(r, code, "items", STR_NONE);
}

static enum code told(const struct create *x, struct refusal *r)
{
    switch (x->opening.how) {
    case REFUND_OPENED:
    case REFUND_SAME:
        return CODE_OK;
    case REFUND_DIFFERS:
        return refuse_field(r, CODE_REQUEST_MISMATCH, x->opening.field, STR_NONE);
    case REFUND_UNPAID:
        return refuse_field(r, CODE_PAYMENT_STATE, NULL,
                            x->payment.quarantined ? STR("its money is being examined")
                                                   : STR("it has not been paid"));
    case REFUND_UNSUPPORTED:
        return refuse(r, CODE_REFUND_UNSUPPORTED);
    case REFUND_TOO_MANY:
        return refuse(r, CODE_REFUND_LIMIT);
    case REFUND_EXCEEDS:
        return x->opening.line_no ? about_line(x, CODE_REFUND_EXCEEDS, r) : exceeds(x, r);
    case REFUND_NO_LINE:
        if (x->opening.line_no)
            return about_line(x, CODE_BAD_FIELD, r);
        return refuse_field(r, CODE_PAYMENT_STATE, "items",
                            STR("it did not settle its order: refund it by amount"));
    }
    return refuse(r, CODE_INTERNAL);
}

enum code refund_create(struct centre *c, const struct act *act, const struct refund_new *n,
                        struct refund *ret, bool *ret_created, struct refusal *refusal)
{
    struct refund_line *lines =
        arena_array(act->arena, n->line_count ? n->line_count : 1, sizeof *lines);
    enum code code = check(c, n, lines, act->arena, refusal);
    if (code)
        return code;

    struct create x = { .c = c,
                        .act = act,
                        .n = n,
                        .draft = { .lines = lines,
                                   .line_count = n->line_count,
                                   .origin = REFUND_BY_CALLER,
                                   .request_id = n->request_id,
                                   .reason = n->reason,
                                   .actor = act->actor,
                                   .trace_id = act->trace_id } };
    code = centre_run(c, "refund.create", STORE_API, n->pay_no.slot, create_rule, &x,
                      REFUND_OPEN_IDS + ORDER_SETTLE_IDS, refusal);
    if (code)
        return code;
    kill_point("refund.stored");
    if (!x.found)
        return refuse(refusal, CODE_PAYMENT_NOT_FOUND);
    if (x.currency_differs)
        return refuse_field(refusal, CODE_BAD_FIELD, "currency", STR("not the payment's"));
    if ((code = told(&x, refusal)))
        return code;
    *ret = x.refund;
    *ret_created = x.opening.how == REFUND_OPENED;
    return CODE_OK;
}

/* ---- reading ---- */

struct reading {
    const struct act *act;
    struct number no;
    bool found;
    struct refund *list;
    size_t n;
};

static enum err get_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct reading *g = arg;
    struct refund r;
    enum err e = refund_load(tx, g->no.id, &r, info);

    g->found = !e && r.caller == g->act->caller.id && r.no.slot == g->no.slot;
    if (!g->found)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = refund_load_lines(tx, &r, info)))
        return e;
    g->list = arena_one(g->act->arena, struct refund);
    *g->list = refund_copy(g->act->arena, &r);
    return ERR_OK;
}

enum code refund_get(struct centre *c, const struct act *act, struct number refund_no,
                     struct refund *ret, struct refusal *refusal)
{
    struct reading g = { .act = act, .no = refund_no };
    enum code code = centre_read(c, "refund.get", refund_no.slot, get_rule, &g, refusal);

    if (code)
        return code;
    if (!g.found)
        return refuse(refusal, CODE_REFUND_NOT_FOUND);
    *ret = *g.list;
    return CODE_OK;
}

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct reading *g = arg;
    struct payment p;
    struct refund *rows;
    enum err e = payment_load(tx, g->no.id, &p, info);

    g->found = !e && p.caller == g->act->caller.id && p.no.slot == g->no.slot;
    if (!g->found)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = refunds_of(tx, p.no.id, &rows, &g->n, info)))
        return e;
    g->list = arena_array(g->act->arena, g->n ? g->n : 1, sizeof *g->list);
    for (size_t i = 0; i < g->n; i++) {
        if ((e = refund_load_lines(tx, &rows[i], info)))
            return e;
        g->list[i] = refund_copy(g->act->arena, &rows[i]);
    }
    return ERR_OK;
}

enum code refund_list(struct centre *c, const struct act *act, struct number pay_no,
                      struct refund **ret, size_t *ret_n, struct refusal *refusal)
{
    struct reading g = { .act = act, .no = pay_no };
    enum code code = centre_read(c, "refund.list", pay_no.slot, list_rule, &g, refusal);

    if (code)
        return code;
    if (!g.found)
        return refuse(refusal, CODE_PAYMENT_NOT_FOUND);
    *ret = g.list;
    *ret_n = g.n;
    return CODE_OK;
}
