/* order_new.c -- checks what a caller wants to sell, field by field, before anything is stored.
 *
 * pay_amount = sum of (unit_price * quantity - line discount) - discount + shipping + tax, in
 * integer fen, every step checked. What each line has paid of it is fixed here, by largest
 * remainder over the lines' own amounts; where all lines are free (only shipping is paid) each line
 * weighs the same. */
#include "core/order/order_new.h"

#include "base/buf.h"

#include <assert.h>

#define MERCHANT_NO_MAX  64
#define USER_ID_MAX      64
#define REQUEST_ID_MAX   64
#define TEXT_MAX         256
#define SKU_MAX          64
#define QUANTITY_MAX     1000000
#define EXPIRE_IN_MS_MIN 1000
#define EXPIRE_IN_MS_MAX (366LL * 24 * 3600 * 1000)
#define DIGEST_BYTES_MAX (1024 * 1024) /* more than 200 lines of the longest texts */

#define ALNUM "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

bool order_text_ok(struct str s, size_t max)
{
    return s.n <= 4 * max && str_is_utf8(s) && str_utf8_count(s) <= max && !has_control(s) &&
           (s.n == 0 || (s.p[0] != ' ' && s.p[s.n - 1] != ' '));
}

bool order_merchant_no_ok(struct str s)
{
    struct number ours;

    return s.n > 0 && s.n <= MERCHANT_NO_MAX && str_all_of(s, ALNUM "_.:-") &&
           number_parse(s, (enum number_kind)0, &ours) != ERR_OK;
}

bool order_request_id_ok(struct str s)
{
    if (s.n == 0 || s.n > REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= 0x20 || s.p[i] >= 0x7f)
            return false;
    return true;
}

unsigned order_slot(const struct act *act, struct str merchant_order_no)
{
    return number_slot(act->caller.name, merchant_order_no);
}

/* ---- texts ---- */

static enum code check_texts(const struct order_new *n, struct refusal *r)
{
    if (n->merchant_order_no.p && !order_merchant_no_ok(n->merchant_order_no))
        return refuse_field(r, CODE_BAD_FIELD, "merchant_order_no",
                            STR("1 to 64 of [0-9A-Za-z_.:-], and not like a number of ours"));
    if (n->user_id.n == 0 || !order_text_ok(n->user_id, USER_ID_MAX))
        return refuse_field(r, CODE_BAD_FIELD, "user_id",
                            STR("1 to 64 characters, no control characters, no blanks around it"));
    if (n->subject.n == 0 || !order_text_ok(n->subject, TEXT_MAX))
        return refuse_field(r, CODE_BAD_FIELD, "subject",
                            STR("1 to 256 characters, no control characters, no blanks around it"));
    if (!order_text_ok(n->remark, TEXT_MAX))
        return refuse_field(
            r, CODE_BAD_FIELD, "remark",
            STR("at most 256 characters, no control characters, no blanks around it"));
    if (n->request_id.p && !order_request_id_ok(n->request_id))
        return refuse_field(r, CODE_BAD_FIELD, "request_id",
                            STR("1 to 64 visible ASCII characters"));
    if (n->expire_in_ms != 0 &&
        (n->expire_in_ms < EXPIRE_IN_MS_MIN || n->expire_in_ms > EXPIRE_IN_MS_MAX))
        return refuse_field(r, CODE_BAD_FIELD, "expire_in_s",
                            STR("1 second to 366 days, or absent"));
    return CODE_OK;
}

/* A currency is supported when a channel account takes it; CNY always is. */
static bool currency_supported(struct centre *c, struct str currency)
{
    if (str_eq(currency, STR("CNY")))
        return true;
    for (size_t i = 0;; i++) {
        struct account *account = registry_at(c->registry, i);
        if (!account)
            return false;
        bool same = str_eq(currency, str_of(account->info->currency));
        account_unref(account);
        if (same)
            return true;
    }
}

/* ---- amounts ---- */

/* An amount given by the caller: not negative, within the installation's maximum. */
static enum code amount(const struct centre *c, struct str currency, int64_t fen, const char *field,
                        struct money *ret, struct refusal *r)
{
    if (fen < 0 || fen > c->settings.order_amount_max_fen || money_of(fen, currency, ret))
        return refuse_field(r, CODE_AMOUNT_INVALID, field,
                            STR("not negative, and at most the largest amount of an order"));
    return CODE_OK;
}

static const char *item_field(struct arena *a, size_t i, const char *name)
{
    return str_cstr(a, str_printf(a, "items[%zu].%s", i, name));
}

static enum code check_item(const struct centre *c, struct arena *a, struct str currency,
                            const struct order_item *in, size_t i, struct order_item *out,
                            struct refusal *r)
{
    enum code code;

    if (in->sku.n == 0 || !order_text_ok(in->sku, SKU_MAX))
        return refuse_field(r, CODE_BAD_FIELD, item_field(a, i, "sku"), STR("1 to 64 characters"));
    if (in->name.n == 0 || !order_text_ok(in->name, TEXT_MAX))
        return refuse_field(r, CODE_BAD_FIELD, item_field(a, i, "name"),
                            STR("1 to 256 characters"));
    if (in->quantity < 1 || in->quantity > QUANTITY_MAX)
        return refuse_field(r, CODE_BAD_FIELD, item_field(a, i, "quantity"), STR("1 to 1000000"));
    *out = (struct order_item) {
        .line_no = (int)i + 1, .sku = in->sku, .name = in->name, .quantity = in->quantity
    };
    if ((code = amount(c, currency, money_fen(in->unit_price), item_field(a, i, "unit_price"),
                       &out->unit_price, r)))
        return code;
    if ((code = amount(c, currency, money_fen(in->discount), item_field(a, i, "discount"),
                       &out->discount, r)))
        return code;
    if (money_mul(out->unit_price, out->quantity, &out->line_amount) ||
        money_fen(out->line_amount) > c->settings.order_amount_max_fen)
        return refuse_field(r, CODE_AMOUNT_INVALID, item_field(a, i, "quantity"),
                            STR("the line is above the largest amount of an order"));
    if (money_fen(out->discount) > money_fen(out->line_amount))
        return refuse_field(r, CODE_AMOUNT_INVALID, item_field(a, i, "discount"),
                            STR("more than the line's amount"));
    return CODE_OK;
}

/* Sums the lines into o->order_amount; weights[i] is what line i counts in the allocation. */
static enum code sum_items(const struct centre *c, struct arena *a, const struct order_new *n,
                           struct order *o, struct money *weights, struct refusal *r)
{
    struct money sum = money_zero(o->pay_amount);

    for (size_t i = 0; i < n->item_count; i++) {
        enum code code = check_item(c, a, n->currency, &n->items[i], i, &o->items[i], r);
        if (code)
            return code;
        if (money_sub(o->items[i].line_amount, o->items[i].discount, &weights[i]) ||
            money_add(sum, weights[i], &sum))
            return refuse_field(r, CODE_AMOUNT_INVALID, "items", STR("the sum is too large"));
    }
    o->order_amount = sum;
    return CODE_OK;
}

static enum code total(const struct centre *c, const struct order_new *n, struct order *o,
                       struct refusal *r)
{
    enum code code;

    if ((code = amount(c, n->currency, n->discount_fen, "discount", &o->discount, r)) ||
        (code = amount(c, n->currency, n->shipping_fen, "shipping", &o->shipping, r)) ||
        (code = amount(c, n->currency, n->tax_fen, "tax", &o->tax, r)))
        return code;
    if (money_fen(o->discount) > money_fen(o->order_amount))
        return refuse_field(r, CODE_AMOUNT_INVALID, "discount",
                            STR("more than the order's amount"));
    if (money_sub(o->order_amount, o->discount, &o->pay_amount) ||
        money_add(o->pay_amount, o->shipping, &o->pay_amount) ||
        money_add(o->pay_amount, o->tax, &o->pay_amount) ||
        money_fen(o->pay_amount) > c->settings.order_amount_max_fen)
        return refuse_field(r, CODE_AMOUNT_INVALID, n->has_amount ? "amount" : "items",
                            STR("the order is above the largest amount"));
    if (money_sign(o->pay_amount) == 0)
        return refuse(r, CODE_AMOUNT_ZERO);
    return CODE_OK;
}

static enum code allocate(struct order *o, struct money *weights, struct arena *a,
                          struct refusal *r)
{
    struct money *shares = arena_array(a, o->item_count, sizeof *shares);
    bool all_free = true;

    for (size_t i = 0; i < o->item_count; i++)
        all_free = all_free && money_sign(weights[i]) == 0;
    for (size_t i = 0; all_free && i < o->item_count; i++)
        if (money_of(1, money_currency(&o->pay_amount), &weights[i]))
            return refuse(r, CODE_INTERNAL);
    if (money_allocate(o->pay_amount, weights, o->item_count, shares))
        return refuse_field(r, CODE_AMOUNT_INVALID, "items",
                            STR("the amount cannot be divided over the lines"));
    for (size_t i = 0; i < o->item_count; i++)
        o->items[i].paid_share = shares[i];
    return CODE_OK;
}

static enum code amounts(struct centre *c, struct arena *a, const struct order_new *n,
                         struct order *o, struct refusal *r)
{
    enum code code;

    if (!currency_supported(c, n->currency) || money_of(0, n->currency, &o->pay_amount))
        return refuse_field(r, CODE_CURRENCY_UNSUPPORTED, "currency", STR_NONE);
    if (n->has_amount == (n->item_count > 0))
        return refuse_field(r, CODE_BAD_FIELD, n->has_amount ? "amount" : "items",
                            STR("give either items or amount"));
    if (n->item_count > ORDER_ITEMS_MAX)
        return refuse_field(r, CODE_BAD_FIELD, "items", STR("at most 200 lines"));
    if (n->has_amount) {
        if ((code = amount(c, n->currency, n->amount_fen, "amount", &o->order_amount, r)))
            return code;
        return total(c, n, o, r);
    }
    o->item_count = n->item_count;
    o->items = arena_array(a, n->item_count, sizeof *o->items);
    struct money *weights = arena_array(a, n->item_count, sizeof *weights);
    if ((code = sum_items(c, a, n, o, weights, r)) || (code = total(c, n, o, r)))
        return code;
    return allocate(o, weights, a, r);
}

/* ---- identity ---- */

static void digest_str(struct buf *b, struct str s)
{
    buf_add_int(b, (int64_t)s.n);
    buf_add_char(b, ':');
    buf_add_str(b, s);
}

static void digest_money(struct buf *b, struct money m)
{
    buf_add_int(b, money_fen(m));
    buf_add_char(b, ',');
}

/* Over the business fields in a fixed order; texts carry their length, so no two contents print
 * alike. */
static struct sha256 digest(const struct order *o, int64_t expire_in_ms)
{
    BUF_AUTO b;

    buf_init(&b, DIGEST_BYTES_MAX);
    digest_str(&b, o->user_id);
    digest_str(&b, o->subject);
    digest_str(&b, money_currency(&o->pay_amount));
    digest_money(&b, o->order_amount);
    digest_money(&b, o->discount);
    digest_money(&b, o->shipping);
    digest_money(&b, o->tax);
    buf_add_int(&b, expire_in_ms);
    for (size_t i = 0; i < o->item_count; i++) {
        const struct order_item *item = &o->items[i];
        digest_str(&b, item->sku);
        digest_str(&b, item->name);
        digest_money(&b, item->unit_price);
        digest_money(&b, item->discount);
        buf_add_int(&b, item->quantity);
    }
    assert(buf_ok(&b));
    return sha256(buf_str(&b));
}

/* m: the caller's own number; r: user and request id, divided by a character neither can hold. */
static struct str key(struct arena *a, const struct order_new *n)
{
    if (n->merchant_order_no.p)
        return str_printf(a, "m" STR_FMT, STR_ARG(n->merchant_order_no));
    if (n->request_id.p)
        return str_printf(a, "r" STR_FMT "\x1f" STR_FMT, STR_ARG(n->user_id),
                          STR_ARG(n->request_id));
    return STR_NONE;
}

enum code order_draft(struct centre *c, const struct act *act, const struct order_new *n,
                      struct order_draft *ret, struct refusal *refusal)
{
    struct order o = {
        .caller = act->caller.id,
        .merchant_order_no = n->merchant_order_no,
        .user_id = n->user_id,
        .subject = n->subject,
        .status = ORDER_WAIT_PAY,
        .inline_order = n->inline_order,
        .request_id = n->request_id,
        .remark = n->remark.n ? n->remark : STR_NONE,
        .trace_id = act->trace_id,
        .version = 1,
    };
    enum code code = check_texts(n, refusal);
    if (!code)
        code = amounts(c, act->arena, n, &o, refusal);
    if (code)
        return code;
    o.digest = digest(&o, n->expire_in_ms);
    o.no.slot =
        (uint16_t)order_slot(act, n->merchant_order_no.p ? n->merchant_order_no : n->user_id);
    *ret = (struct order_draft) { .order = o,
                                  .order_key = key(act->arena, n),
                                  .expire_in_ms = n->expire_in_ms };
    return CODE_OK;
}

static const char *item_difference(struct arena *a, const struct order_item *x,
                                   const struct order_item *y, size_t i)
{
    if (!str_eq(x->sku, y->sku))
        return item_field(a, i, "sku");
    if (!str_eq(x->name, y->name))
        return item_field(a, i, "name");
    if (!money_eq(x->unit_price, y->unit_price))
        return item_field(a, i, "unit_price");
    if (x->quantity != y->quantity)
        return item_field(a, i, "quantity");
    if (!money_eq(x->discount, y->discount))
        return item_field(a, i, "discount");
    return NULL;
}

const char *order_difference(struct arena *a, const struct order *existing,
                             const struct order_draft *asked)
{
    const struct order *o = &asked->order;

    if (memcmp(existing->digest.b, o->digest.b, sizeof o->digest.b) == 0)
        return NULL;
    if (!str_eq(existing->user_id, o->user_id))
        return "user_id";
    if (!str_eq(money_currency(&existing->pay_amount), money_currency(&o->pay_amount)))
        return "currency";
    if (existing->item_count != o->item_count)
        return "items";
    for (size_t i = 0; i < o->item_count; i++) {
        const char *field = item_difference(a, &existing->items[i], &o->items[i], i);
        if (field)
            return field;
    }
    if (!money_eq(existing->order_amount, o->order_amount))
        return "amount";
    if (!money_eq(existing->discount, o->discount))
        return "discount";
    if (!money_eq(existing->shipping, o->shipping))
        return "shipping";
    if (!money_eq(existing->tax, o->tax))
        return "tax";
    if (o->inline_order)
        return NULL;
    if (!str_eq(existing->subject, o->subject))
        return "subject";
    if ((existing->expire_ms ? existing->expire_ms - existing->create_ms : 0) !=
        asked->expire_in_ms)
        return "expire_in_s";
    return NULL;
}
