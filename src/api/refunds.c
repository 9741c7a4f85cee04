/* refunds.c -- /v1/refunds: create, read (with long poll), ask; the refunds of a payment. */
#include "core/refund/refund.h"

#include "api/call.h"
#include "api/output.h"

struct refund_item_in {
    struct opt_int line_no, quantity;
};
static const struct field refund_item_fields[] = {
    INPUT_INT(struct refund_item_in, line_no, REQUIRED, 1, ORDER_ITEMS_MAX),
    INPUT_INT(struct refund_item_in, quantity, REQUIRED, 1, 1000000),
};
static const struct shape refund_item = SHAPE(struct refund_item_in, refund_item_fields);

struct refund_create_in {
    struct str pay_no, request_id, currency, reason;
    struct opt_int amount;
    struct opt_list items; /* of struct refund_item_in */
};
#define REFUND struct refund_create_in
static const struct field refund_create_fields[] = {
    INPUT_TEXT(REFUND, pay_no, REQUIRED, 1, 64, SET_ID),
    INPUT_TEXT(REFUND, request_id, OPTIONAL, 1, 64, SET_VISIBLE),
    INPUT_FEN(REFUND, amount, OPTIONAL),
    INPUT_TEXT(REFUND, currency, OPTIONAL, 1, 8, SET_ANY),
    INPUT_OBJECTS(REFUND, items, OPTIONAL, 1, REFUND_LINES_MAX, &refund_item),
    INPUT_TEXT(REFUND, reason, OPTIONAL, 0, 256, SET_ANY),
};
const struct shape refund_create_body = SHAPE(REFUND, refund_create_fields);

struct refund_get_in {
    struct opt_int wait_s;
};
static const struct field refund_get_fields[] = {
    INPUT_INT(struct refund_get_in, wait_s, OPTIONAL, 0, CALL_WAIT_S_MAX),
};
const struct shape refund_get_query = SHAPE(struct refund_get_in, refund_get_fields);

static void send_refund(struct api_call *call, const struct refund *r, int status)
{
    struct reply reply;
    reply_begin(call, &reply);
    output_refund(&reply.out, r, call->arena);
    reply_send(call, &reply, status);
}

/* ---- creating ---- */

void refund_post(struct api_call *call)
{
    const struct refund_create_in *in = call->body;
    const struct refund_item_in *items = in->items.p;
    struct refund_line *lines =
        arena_array(call->arena, in->items.n ? in->items.n : 1, sizeof *lines);
    struct refund_new n = { .has_amount = in->amount.given,
                            .amount_fen = in->amount.v,
                            .currency = in->currency,
                            .lines = lines,
                            .line_count = in->items.n,
                            .reason = in->reason };
    struct refund r;
    bool created;
    struct refusal refusal = { 0 };

    if (!call_request_id(call, in->request_id, &n.request_id))
        return;
    if (number_parse(in->pay_no, NUMBER_PAYMENT, &n.pay_no)) {
        call_refuse_field(call, CODE_PAYMENT_NOT_FOUND, "pay_no", STR_NONE);
        return;
    }
    for (size_t i = 0; i < in->items.n; i++)
        lines[i] = (struct refund_line) { .line_no = (int)items[i].line_no.v,
                                          .quantity = items[i].quantity.v };
    if (refund_create(call->centre, &call->act, &n, &r, &created, &refusal))
        call_refuse(call, &refusal);
    else
        send_refund(call, &r, created ? 201 : 200);
}

/* ---- reading ---- */

/* False: answered. */
static bool read_refund(struct api_call *call, struct refund *ret)
{
    struct number no;
    struct refusal refusal = { 0 };

    if (!call_number(call, "refund_no", NUMBER_REFUND, CODE_REFUND_NOT_FOUND, &no))
        return false;
    if (refund_get(call->centre, &call->act, no, ret, &refusal)) {
        call_refuse(call, &refusal);
        return false;
    }
    return true;
}

static bool show_refund(struct api_call *call, bool at_last)
{
    struct refund r;

    if (!read_refund(call, &r))
        return true;
    if (!at_last && refund_is_open(&r))
        return false;
    send_refund(call, &r, 200);
    return true;
}

void refund_get_one(struct api_call *call)
{
    const struct refund_get_in *in = call->query;
    struct refund r;

    if (in->wait_s.v <= 0)
        show_refund(call, true);
    else if (read_refund(call, &r)) /* a change of it wakes whoever waits for its payment */
        call_wait(call, r.pay_no.id, in->wait_s.v * 1000, show_refund);
}

void refund_get_list(struct api_call *call)
{
    struct number no;
    struct refund *refunds;
    size_t n;
    struct refusal refusal = { 0 };

    if (!call_number(call, "pay_no", NUMBER_PAYMENT, CODE_PAYMENT_NOT_FOUND, &no))
        return;
    if (refund_list(call->centre, &call->act, no, &refunds, &n, &refusal)) {
        call_refuse(call, &refusal);
        return;
    }
    struct reply reply;
    reply_begin(call, &reply);
    json_key(&reply.out, "refunds");
    json_begin_array(&reply.out);
    for (size_t i = 0; i < n; i++) {
        json_begin_object(&reply.out);
        output_refund(&reply.out, &refunds[i], call->arena);
        json_end_object(&reply.out);
    }
    json_end_array(&reply.out);
    reply_send(call, &reply, 200);
}

/* ---- asking ---- */

void refund_post_sync(struct api_call *call)
{
    struct number no;
    struct refund r;
    struct refusal refusal = { 0 };

    if (!call_number(call, "refund_no", NUMBER_REFUND, CODE_REFUND_NOT_FOUND, &no))
        return;
    if (refund_sync(call->centre, &call->act, no, &r, &refusal))
        call_refuse(call, &refusal);
    else
        send_refund(call, &r, 200);
}
