/* orders.c -- /v1/orders: create, read, list, cancel, complete. */
#include "api/orders.h"

#include "api/output.h"

#define ITEM struct item_body
static const struct field item_fields[] = {
    INPUT_TEXT(ITEM, sku, REQUIRED, 1, 64, SET_ANY),
    INPUT_TEXT(ITEM, name, REQUIRED, 1, 256, SET_ANY),
    INPUT_FEN(ITEM, unit_price, REQUIRED),
    INPUT_INT(ITEM, quantity, REQUIRED, 1, 1000000),
    INPUT_FEN(ITEM, discount, OPTIONAL),
};
const struct shape item_shape = SHAPE(ITEM, item_fields);

static const struct field order_create_fields[] = {
    ORDER_FIELDS,
    INPUT_TEXT(ORDER, user_id, REQUIRED, 1, 64, SET_ANY),
    INPUT_TEXT(ORDER, subject, REQUIRED, 1, 256, SET_ANY),
};
const struct shape order_create_body = SHAPE(ORDER, order_create_fields);

struct order_list_in {
    struct page page;
    struct str merchant_order_no, user_id, status;
    struct opt_int created_from, created_to;
};
#define LIST struct order_list_in
static const struct field order_list_fields[] = {
    PAGE_FIELDS(LIST),
    INPUT_TEXT(LIST, merchant_order_no, OPTIONAL, 1, 64, SET_ID),
    INPUT_TEXT(LIST, user_id, OPTIONAL, 1, 64, SET_ANY),
    INPUT_TEXT(LIST, status, OPTIONAL, 1, 32, SET_ANY),
    INPUT_TIME(LIST, created_from, OPTIONAL),
    INPUT_TIME(LIST, created_to, OPTIONAL),
};
const struct shape order_list_query = SHAPE(LIST, order_list_fields);

struct order_cancel_in {
    struct str reason;
};
static const struct field order_cancel_fields[] = {
    INPUT_TEXT(struct order_cancel_in, reason, OPTIONAL, 0, 256, SET_ANY),
};
const struct shape order_cancel_body = SHAPE(struct order_cancel_in, order_cancel_fields);

/* Index of the item in the caller's list starts at 0, our line_no at 1. */
void order_new_of(struct arena *a, const struct order_body *in, struct order_new *ret)
{
    const struct item_body *items = in->items.p;
    struct order_item *lines = arena_array(a, in->items.n ? in->items.n : 1, sizeof *lines);
    struct str currency = in->currency.n ? in->currency : STR("CNY");

    for (size_t i = 0; i < in->items.n; i++) {
        lines[i] = (struct order_item) {
            .line_no = (int)i + 1,
            .sku = items[i].sku,
            .name = items[i].name,
            .quantity = items[i].quantity.v,
        };
        /* A currency that is none leaves both at nothing: order_create refuses it by its name. */
        (void)money_of(items[i].unit_price.v, currency, &lines[i].unit_price);
        (void)money_of(items[i].discount.v, currency, &lines[i].discount);
    }
    *ret = (struct order_new) {
        .merchant_order_no = in->merchant_order_no,
        .user_id = in->user_id,
        .subject = in->subject,
        .remark = in->remark,
        .items = in->items.given ? lines : NULL,
        .item_count = in->items.n,
        .has_amount = in->amount.given,
        .amount_fen = in->amount.v,
        .discount_fen = in->discount.v,
        .shipping_fen = in->shipping.v,
        .tax_fen = in->tax.v,
        .currency = currency,
        .expire_in_ms = in->expire_in_s.v * 1000,
    };
}

const char *order_content_given(const struct order_body *in)
{
    if (in->subject.p)
        return "subject";
    if (in->items.given)
        return "items";
    if (in->amount.given)
        return "amount";
    if (in->discount.given)
        return "discount";
    if (in->shipping.given)
        return "shipping";
    if (in->tax.given)
        return "tax";
    if (in->currency.p)
        return "currency";
    if (in->expire_in_s.given)
        return "expire_in_s";
    return in->remark.p ? "remark" : NULL;
}

static void send_order(struct api_call *call, const struct order *order, int status)
{
    struct reply r;
    reply_begin(call, &r);
    output_order(&r.out, order, true, call->arena);
    reply_send(call, &r, status);
}

void order_post(struct api_call *call)
{
    const struct order_body *in = call->body;
    struct order_new new;
    struct order order;
    bool created;
    struct refusal refusal = { 0 };

    order_new_of(call->arena, in, &new);
    if (!call_request_id(call, in->request_id, &new.request_id))
        return;
    if (order_create(call->centre, &call->act, &new, &order, &created, &refusal))
        call_refuse(call, &refusal);
    else
        send_order(call, &order, created ? 201 : 200);
}

void order_get_one(struct api_call *call)
{
    struct number no;
    struct order order;
    struct refusal refusal = { 0 };

    if (!call_order_no(call, "order_no", &no))
        return;
    if (order_get(call->centre, &call->act, no, &order, &refusal))
        call_refuse(call, &refusal);
    else
        send_order(call, &order, 200);
}

void order_get_list(struct api_call *call)
{
    const struct order_list_in *in = call->query;
    struct order_filter filter = { .user_id = in->user_id,
                                   .merchant_order_no = in->merchant_order_no,
                                   .status = -1,
                                   .created_from_ms = in->created_from.v,
                                   .created_to_ms = in->created_to.v };
    struct order *orders;
    size_t n;
    struct refusal refusal = { 0 };
    enum order_status status;

    if (!call_page(call, "orders", &in->page, &filter.before_id, &filter.limit))
        return;
    if (in->status.n) {
        if (order_status_parse(in->status, &status)) {
            call_refuse_field(call, CODE_BAD_FIELD, "status", STR("no such status"));
            return;
        }
        filter.status = (int)status;
    }
    if (order_list(call->centre, &call->act, &filter, &orders, &n, &refusal)) {
        call_refuse(call, &refusal);
        return;
    }

    struct reply r;
    reply_begin(call, &r);
    json_key(&r.out, "orders");
    json_begin_array(&r.out);
    for (size_t i = 0; i < n; i++) {
        json_begin_object(&r.out);
        output_order(&r.out, &orders[i], false, call->arena);
        json_end_object(&r.out);
    }
    json_end_array(&r.out);
    reply_next_cursor(call, &r, "orders", n, filter.limit, n ? orders[n - 1].no.id : 0);
    reply_send(call, &r, 200);
}

void order_post_cancel(struct api_call *call)
{
    const struct order_cancel_in *in = call->body;
    struct number no;
    struct order order;
    bool closing;
    struct refusal refusal = { 0 };

    if (!call_order_no(call, "order_no", &no))
        return;
    if (order_cancel(call->centre, &call->act, no, in->reason, &order, &closing, &refusal))
        call_refuse(call, &refusal);
    else
        send_order(call, &order, closing ? 202 : 200);
}

void order_post_complete(struct api_call *call)
{
    struct number no;
    struct order order;
    struct refusal refusal = { 0 };

    if (!call_order_no(call, "order_no", &no))
        return;
    if (order_complete(call->centre, &call->act, no, &order, &refusal))
        call_refuse(call, &refusal);
    else
        send_order(call, &order, 200);
}
