/* refund_open.c -- opening a refund inside a rule, whoever wants it: reserved, stored, due.
 *
 * A line's part is floor(share * (given back + now) / quantity) less what was given for it, so that
 * the last one takes the rest, also after a refund in between has failed and gave its quantity
 * back. Refunds by amount consume no lines; whatever lines are worth, they take no more than is
 * left. */
#include "base/killpoint.h"
#include "channel/registry.h"
#include "core/order/order.h"
#include "core/refund/refund_sql.h"

/* ---- the same again ---- */

/* Over what was asked for. */
static struct sha256 digest(struct arena *a, const struct refund_draft *d)
{
    size_t n = 0;
    struct str *parts = arena_array(a, d->line_count + 2, sizeof *parts);

    if (!d->line_count)
        parts[n++] = str_printf(a, "%lld\x1f" STR_FMT "\x1f", (long long)money_fen(d->amount),
                                STR_ARG(money_currency(&d->amount)));
    for (size_t i = 0; i < d->line_count; i++)
        parts[n++] =
            str_printf(a, "%d:%lld\x1f", d->lines[i].line_no, (long long)d->lines[i].quantity);
    parts[n++] = d->reason;
    return sha256_of(parts, n);
}

static const char *difference(const struct refund *r, const struct refund_draft *d)
{
    if (r->line_count != d->line_count)
        return r->line_count && d->line_count ? "items" : d->line_count ? "amount" : "items";
    if (!r->line_count)
        return money_eq(r->amount, d->amount) ? "reason" : "amount";
    for (size_t i = 0; i < r->line_count; i++)
        if (r->lines[i].line_no != d->lines[i].line_no ||
            r->lines[i].quantity != d->lines[i].quantity)
            return "items";
    return "reason";
}

/* *ret_there false: nothing of that request. */
static enum err find(struct tx *tx, const struct payment *p, const struct refund_draft *d,
                     const struct sha256 *asked, struct refund *ret, struct refund_opening *opening,
                     bool *ret_there, struct err_info *info)
{
    enum err e = refund_sql_find(tx, p->no.id, d->origin, d->request_id, ret, info);

    *ret_there = !e;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = refund_sql_lines(tx, ret, info)))
        return e;
    opening->how = ret->no.id == d->id                           ? REFUND_OPENED
                   : !memcmp(&ret->digest, asked, sizeof *asked) ? REFUND_SAME
                                                                 : REFUND_DIFFERS;
    if (opening->how == REFUND_DIFFERS)
        opening->field = difference(ret, d);
    return ERR_OK;
}

/* ---- how much ---- */

static struct refund_line given(const struct refund_line *sums, size_t n, int line_no,
                                struct money like)
{
    for (size_t i = 0; i < n; i++)
        if (sums[i].line_no == line_no)
            return sums[i];
    return (struct refund_line) { .line_no = line_no, .amount = money_zero(like) };
}

static enum err line_worth(const struct order_item *item, const struct refund_line *already,
                           int64_t quantity, struct money *ret, struct err_info *info)
{
    struct money all;

    if (money_share_of(item->paid_share, 0, already->quantity + quantity, item->quantity, &all) ||
        money_sub(all, already->amount, ret))
        return err_internal(info, "line %d cannot be shared", item->line_no);
    if (money_sign(*ret) < 0)
        *ret = money_zero(*ret);
    return ERR_OK;
}

static const struct order_item *item_of(const struct order *o, int line_no)
{
    for (size_t i = 0; i < o->item_count; i++)
        if (o->items[i].line_no == line_no)
            return &o->items[i];
    return NULL;
}

static struct refund_opening refused(enum refund_opened how, const char *field, int line_no)
{
    return (struct refund_opening) { .how = how, .field = field, .line_no = line_no };
}

/* Fills the amounts of `lines`, the draft's own in a copy. `opening->how` stays OPENED where all is
 * well. */
static enum err price_lines(struct tx *tx, const struct payment *p, struct refund_line *lines,
                            size_t n, struct money left, struct money *ret_sum,
                            struct refund_opening *opening, struct err_info *info)
{
    struct refund_line *sums = arena_array(tx_arena(tx), REFUND_LINES_MAX, sizeof *sums);
    struct order o;
    size_t sum_n;
    enum err e = order_load(tx, p->order_no.id, &o, info);

    *ret_sum = money_zero(p->amount);
    if (e)
        return e;
    if (o.pay_no.id != p->no.id) {
        *opening = refused(REFUND_NO_LINE, "items", 0);
        return ERR_OK;
    }
    if ((e = order_load_items(tx, &o, info)) ||
        (e = refund_sql_line_sums(tx, p->no.id, false, p->amount, sums, REFUND_LINES_MAX, &sum_n,
                                  info)))
        return e;
    for (size_t i = 0; i < n; i++) {
        const struct order_item *item = item_of(&o, lines[i].line_no);
        struct refund_line already = given(sums, sum_n, lines[i].line_no, p->amount);
        int more;
        if (!item || lines[i].quantity > item->quantity - already.quantity) {
            *opening = item ? refused(REFUND_EXCEEDS, "quantity", lines[i].line_no)
                            : refused(REFUND_NO_LINE, "line_no", lines[i].line_no);
            return ERR_OK;
        }
        if ((e = line_worth(item, &already, lines[i].quantity, &lines[i].amount, info)))
            return e;
        if (money_cmp(lines[i].amount, left, &more))
            return err_internal(info, "an order and its payment in two currencies");
        if (more > 0)
            lines[i].amount = left;
        if (money_sub(left, lines[i].amount, &left) ||
            money_add(*ret_sum, lines[i].amount, ret_sum))
            return err_internal(info, "an amount beyond all amounts");
    }
    return ERR_OK;
}

/* ---- storing ---- */

static enum err store(struct tx *tx, struct payment *p, const struct refund_draft *d,
                      struct refund *r, struct err_info *info)
{
    struct evidence evidence = { .actor = d->actor };
    struct journal_head none = { 0 };
    struct journal_row row;
    enum err e =
        journal_next(tx, r->no, &none, -1, REFUND_INIT, CAUSE_CREATED, &evidence, d->trace_id,
                     d->reason.n ? d->reason : STR_NONE, &row, &r->journal, info);

    if (e)
        return e;
    e = refund_sql_insert(tx, r, info);
    if (e == ERR_EXISTS) /* stored since it was looked for: the next run finds it */
        return err_set(info, ERR_RETRY, "the same refund is being stored");
    for (size_t i = 0; i < r->line_count && !e; i++)
        e = refund_sql_insert_line(tx, r->no.id, &r->lines[i], info);
    if (!e)
        e = payment_refund_reserve(tx, p, r->amount, info);
    if (!e)
        e = due_insert(tx, &refund_due, r->next_ms, r->no.id, info);
    if (!e)
        e = journal_insert(tx, &row, info);
    if (!e)
        tx_after_commit(tx, WAKE_PAYMENT, p->no.id);
    return e;
}

static struct refund made(const struct tx *tx, const struct payment *p,
                          const struct refund_draft *d, const struct sha256 *asked)
{
    return (struct refund) {
        .no = number_make(NUMBER_REFUND, p->no.slot, d->id),
        .pay_no = p->no,
        .order_no = p->order_no,
        .caller = p->caller,
        .account = p->account,
        .channel = p->channel,
        .origin = d->origin,
        .request_id = d->request_id,
        .digest = *asked,
        .amount = d->amount,
        .reason = d->reason.n ? d->reason : STR_NONE,
        .next_ms = tx_now_ms(tx),
        .trace_id = d->trace_id,
        .version = 1,
        .create_ms = tx_now_ms(tx),
        .update_ms = tx_now_ms(tx),
    };
}

/* May it be refunded at all? */
static enum err look(struct tx *tx, const struct payment *p, struct refund_opening *opening,
                     struct err_info *info)
{
    const struct channel_info *channel = channel_by_id(p->channel);
    unsigned both = CHANNEL_CAN_REFUND | CHANNEL_CAN_QUERY_REFUND;
    int64_t n;

    if (p->status != PAYMENT_SUCCESS || p->quarantined) {
        *opening = refused(REFUND_UNPAID, NULL, 0);
        return ERR_OK;
    }
    if (!channel || (channel->capabilities & both) != both) {
        *opening = refused(REFUND_UNSUPPORTED, NULL, 0);
        return ERR_OK;
    }
    enum err e = refund_sql_count(tx, p->no.id, &n, info);
    if (!e && n >= channel->refunds_max)
        *opening = refused(REFUND_TOO_MANY, NULL, 0);
    return e;
}

enum err refund_open(struct tx *tx, struct payment *p, const struct refund_draft *draft,
                     struct refund *ret, struct refund_opening *ret_opening, struct err_info *info)
{
    struct sha256 asked = digest(tx_arena(tx), draft);
    struct refund_opening opening = { .how = REFUND_OPENED };
    struct money left = payment_refund_left(p);
    struct refund r;
    bool there;
    int more;
    enum err e;

    if (!draft->id || draft->request_id.n > REFUND_REQUEST_ID_MAX)
        return err_internal(info, "a refund without its number, or a request id that is too long");
    if ((e = find(tx, p, draft, &asked, &r, &opening, &there, info)))
        return e;
    if (there)
        goto done;
    if ((e = look(tx, p, &opening, info)))
        return e;
    r = made(tx, p, draft, &asked);
    if (opening.how == REFUND_OPENED && draft->line_count) {
        r.line_count = draft->line_count;
        r.lines = arena_array(tx_arena(tx), r.line_count, sizeof *r.lines);
        memcpy(r.lines, draft->lines, r.line_count * sizeof *r.lines);
        if ((e = price_lines(tx, p, r.lines, r.line_count, left, &r.amount, &opening, info)))
            return e;
    }
    if (opening.how == REFUND_OPENED &&
        (money_cmp(r.amount, left, &more) ||
         (more > 0 && !mutation_on(MUTATION_REFUND_UNRESERVED)) || money_sign(r.amount) <= 0))
        opening = refused(REFUND_EXCEEDS, draft->line_count ? "items" : "amount", 0);
    if (opening.how == REFUND_OPENED && (e = store(tx, p, draft, &r, info)))
        return e;
done:
    *ret = r;
    *ret_opening = opening;
    return ERR_OK;
}
