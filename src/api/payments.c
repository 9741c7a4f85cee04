/* payments.c -- /v1/payments: start, read (with long poll), sync, close. */
#include "api/orders.h"
#include "api/output.h"
#include "channel/registry.h"
#include "core/payment/flow.h"

#include <arpa/inet.h>
#include <assert.h>

/* An order of its own may stand in the request beside the payment's inputs; the two share
 * merchant_order_no, user_id and request_id. */
struct payment_body {
    struct order_body order;
    struct str order_no, channel, account, method, payer, client_ip, return_url;
};
static_assert(offsetof(struct payment_body, order) == 0, "ORDER_FIELDS are read by their offsets");

#define PAYMENT struct payment_body
static const struct field payment_create_fields[] = {
    ORDER_FIELDS,
    INPUT_TEXT(ORDER, user_id, OPTIONAL, 1, 64, SET_ANY),
    INPUT_TEXT(ORDER, subject, OPTIONAL, 1, 256, SET_ANY),
    INPUT_TEXT(PAYMENT, order_no, OPTIONAL, 1, 64, SET_ID),
    INPUT_TEXT(PAYMENT, channel, OPTIONAL, 1, 16, SET_ID),
    INPUT_TEXT(PAYMENT, account, OPTIONAL, 1, 64, SET_ID),
    INPUT_TEXT(PAYMENT, method, REQUIRED, 1, 16, SET_ID),
    INPUT_TEXT(PAYMENT, payer, OPTIONAL, 1, 128, SET_VISIBLE),
    INPUT_TEXT(PAYMENT, client_ip, OPTIONAL, 2, 45, "0123456789abcdefABCDEF.:"),
    INPUT_TEXT(PAYMENT, return_url, OPTIONAL, 1, 255, SET_VISIBLE),
};
const struct shape payment_create_body = SHAPE(PAYMENT, payment_create_fields);

struct payment_get_in {
    struct opt_int wait_s;
};
static const struct field payment_get_fields[] = {
    INPUT_INT(struct payment_get_in, wait_s, OPTIONAL, 0, CALL_WAIT_S_MAX),
};
const struct shape payment_get_query = SHAPE(struct payment_get_in, payment_get_fields);

static void send_payment(struct api_call *call, const struct payment *p, int status)
{
    struct reply r;
    reply_begin(call, &r);
    output_payment(&r.out, p, call->arena);
    reply_send(call, &r, status);
}

/* ---- starting ---- */

/* Which order: by our number, by the caller's number, or the order itself. False: answered. */
static bool read_order_of(struct api_call *call, const struct payment_body *in,
                          struct payment_new *new)
{
    const struct order_body *order = &in->order;
    const char *content = order_content_given(order);

    if (in->order_no.n) {
        if (content || order->merchant_order_no.n)
            call_refuse_field(call, CODE_BAD_FIELD, content ? content : "merchant_order_no",
                              STR("not together with order_no"));
        else if (number_parse(in->order_no, NUMBER_ORDER, &new->order_no))
            call_refuse_field(call, CODE_ORDER_NOT_FOUND, "order_no", STR_NONE);
        else
            return true;
        return false;
    }
    if (!content) {
        new->merchant_order_no = order->merchant_order_no;
        if (!order->merchant_order_no.n)
            call_refuse_field(call, CODE_BAD_FIELD, "order_no",
                              STR("give order_no, merchant_order_no, or an order's content"));
        return order->merchant_order_no.n > 0;
    }
    const char *missing = !order->user_id.n ? "user_id" : !order->subject.n ? "subject" : NULL;
    if (missing) {
        call_refuse_field(call, CODE_BAD_FIELD, missing, STR("it is required"));
        return false;
    }
    struct order_new *own = arena_one(call->arena, struct order_new);
    order_new_of(call->arena, order, own);
    own->request_id = new->request_id;
    own->inline_order = true;
    new->inline_order = own;
    return true;
}

/* The channel by name; "auto" or nothing leaves the choice to the router. False: answered. */
static bool read_channel(struct api_call *call, const struct payment_body *in,
                         struct payment_new *new)
{
    if (!in->channel.n || str_eq(in->channel, STR("auto")))
        return true;
    const struct channel_info *info = channel_by_name(in->channel);
    if (!info) {
        call_refuse_field(call, CODE_BAD_FIELD, "channel", STR("no such channel"));
        return false;
    }
    new->channel = info->id;
    return true;
}

/* False: answered. */
static bool check_client_ip(struct api_call *call, struct str ip)
{
    struct in6_addr address;
    const char *text = str_cstr(call->arena, ip);

    if (!ip.n || inet_pton(AF_INET, text, &address) == 1 ||
        inet_pton(AF_INET6, text, &address) == 1)
        return true;
    call_refuse_field(call, CODE_BAD_FIELD, "client_ip", STR("it is no IPv4 or IPv6 address"));
    return false;
}

static int status_of(enum payment_started how)
{
    switch (how) {
    case PAYMENT_STARTED:
        return 201;
    case PAYMENT_SAME:
        return 200;
    case PAYMENT_WAITING:
        return 202;
    }
    return 500;
}

void payment_post(struct api_call *call)
{
    const struct payment_body *in = call->body;
    struct payment_new new = { .user_id = in->order.user_id,
                               .account = in->account,
                               .method = in->method,
                               .payer = in->payer,
                               .client_ip = in->client_ip,
                               .return_url = in->return_url };
    struct payment payment;
    enum payment_started how;
    struct refusal refusal = { 0 };

    if (!call_request_id(call, in->order.request_id, &new.request_id) ||
        !check_client_ip(call, in->client_ip) || !read_channel(call, in, &new) ||
        !read_order_of(call, in, &new))
        return;
    if (payment_start(call->centre, &call->act, &new, &payment, &how, &refusal)) {
        call_refuse(call, &refusal);
        return;
    }

    struct reply r;
    struct err_info info = { 0 };
    bool given;
    reply_begin(call, &r);
    output_payment(&r.out, &payment, call->arena);
    enum err e = payment_client(call->centre, &payment, call->arena, &r.out, &given, &info);
    if (e)
        call_refuse_err(call, e, &info);
    else
        reply_send(call, &r, status_of(how));
}

/* ---- reading ---- */

static bool is_final(const struct payment *p)
{
    return p->status == PAYMENT_SUCCESS || p->status == PAYMENT_FAILED ||
           p->status == PAYMENT_CLOSED;
}

/* False: answered. */
static bool read_payment(struct api_call *call, struct payment *ret)
{
    struct number no;
    struct refusal refusal = { 0 };

    if (!call_number(call, "pay_no", NUMBER_PAYMENT, CODE_PAYMENT_NOT_FOUND, &no))
        return false;
    if (payment_get(call->centre, &call->act, no, ret, &refusal)) {
        call_refuse(call, &refusal);
        return false;
    }
    return true;
}

static bool show_payment(struct api_call *call, bool at_last)
{
    struct payment p;

    if (!read_payment(call, &p))
        return true;
    if (!at_last && !is_final(&p))
        return false;
    send_payment(call, &p, 200);
    return true;
}

void payment_get_one(struct api_call *call)
{
    const struct payment_get_in *in = call->query;
    struct number no;

    if (in->wait_s.v <= 0)
        show_payment(call, true);
    else if (call_number(call, "pay_no", NUMBER_PAYMENT, CODE_PAYMENT_NOT_FOUND, &no))
        call_wait(call, no.id, in->wait_s.v * 1000, show_payment);
}

/* ---- asking and closing ---- */

void payment_post_sync(struct api_call *call)
{
    struct number no;
    struct payment p;
    struct refusal refusal = { 0 };

    if (!call_number(call, "pay_no", NUMBER_PAYMENT, CODE_PAYMENT_NOT_FOUND, &no))
        return;
    if (payment_sync(call->centre, &call->act, no, &p, &refusal))
        call_refuse(call, &refusal);
    else
        send_payment(call, &p, 200);
}

void payment_post_close(struct api_call *call)
{
    struct number no;
    struct payment p;
    bool closing;
    struct refusal refusal = { 0 };

    if (!call_number(call, "pay_no", NUMBER_PAYMENT, CODE_PAYMENT_NOT_FOUND, &no))
        return;
    if (payment_close(call->centre, &call->act, no, &p, &closing, &refusal))
        call_refuse(call, &refusal);
    else
        send_payment(call, &p, closing ? 202 : 200);
}
