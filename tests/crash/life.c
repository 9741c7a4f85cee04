/* life.c -- the paths. */
#include "life.h"

#include <poll.h>
#include <stdio.h>

#define TRIES_MAX 400

static void keep(char to[33], struct str text)
{
    if (text.n < 33)
        snprintf(to, 33, STR_FMT, STR_ARG(text));
}

/* An answer that asks to come back; anything else that is no success is a complaint. */
static enum drive not_now(struct place *p, const struct life *l, int status, struct str answer)
{
    if (!status || (status >= 500 && p->errors_are_the_end))
        return DRIVE_GONE;
    bool again = status == 503 || status == 409 || status == 202 || status == 429;
    if (!again)
        complaint(p, "%s %d: %d " STR_FMT, l->path->name, l->n, status, STR_ARG(answer));
    return again ? DRIVE_AGAIN : DRIVE_OVER;
}

/* DRIVE_OVER: it can be paid. */
static enum drive start(struct place *p, struct life *l, const char *method, struct arena *a)
{
    struct str answer;
    int status =
        place_ask(p, a, "POST", STR("/v1/payments"),
                  str_printf(a,
                             "{\"merchant_order_no\":\"L-%d\",\"user_id\":\"u-1\",\"subject\":"
                             "\"tea\",\"amount\":%d,\"currency\":\"CNY\",\"channel\":\"wechat\","
                             "\"method\":\"%s\",\"client_ip\":\"203.0.113.7\"}",
                             l->n, 100 + l->n, method),
                  &answer);
    if (status == 200 || status == 201 || status == 202) {
        keep(l->pay_no, answer_field(a, answer, "pay_no"));
        keep(l->order_no, answer_field(a, answer, "order_no"));
        l->started = true;
        l->credentials = status != 202;
    }
    return status == 200 || status == 201 ? DRIVE_OVER : not_now(p, l, status, answer);
}

/* DRIVE_OVER: the order is PAID. */
static enum drive paid(struct place *p, struct life *l, struct arena *a)
{
    struct str answer;
    int status =
        place_ask(p, a, "GET", str_printf(a, "/v1/payments/%s", l->pay_no), STR_NONE, &answer);
    if (status != 200)
        return not_now(p, l, status, answer);
    if (!str_eq(answer_field(a, answer, "status"), STR("SUCCESS")))
        return DRIVE_AGAIN;
    l->paid = true;
    status = place_ask(p, a, "GET", str_printf(a, "/v1/orders/%s", l->order_no), STR_NONE, &answer);
    if (status != 200)
        return not_now(p, l, status, answer);
    return str_eq(answer_field(a, answer, "status"), STR("PAID")) ? DRIVE_OVER : DRIVE_AGAIN;
}

/* From an attempt that can be paid on. */
static enum drive pay_and_wait(struct place *p, struct life *l, int stage, struct arena *a)
{
    struct err_info info = { 0 };
    if (l->stage == stage) {
        if (sandbox_pay(p->sandbox, str_of(l->pay_no), &info)) {
            complaint(p, "%s %d cannot be paid: %s", l->path->name, l->n, info.text);
            return DRIVE_OVER;
        }
        l->stage++;
    }
    return paid(p, l, a);
}

static enum drive drive_pay(struct place *p, struct life *l, struct arena *a)
{
    enum drive d;
    if (l->stage == 0) {
        if ((d = start(p, l, "native", a)))
            return d;
        l->stage = 1;
    }
    return pay_and_wait(p, l, 1, a);
}

/* The first prepay reaches the channel, and its answer is lost. */
static enum drive drive_lost_answer(struct place *p, struct life *l, struct arena *a)
{
    struct sandbox_fault_rule rule = { .fault = FAULT_ANSWER_LOST,
                                       .call = STR("prepay"),
                                       .times = 1 };
    if (l->stage == 0) {
        sandbox_fault(p->sandbox, &rule);
        l->stage = 1;
    }
    if (l->stage == 1) {
        enum drive d = start(p, l, "native", a);
        if (d)
            return d;
        l->stage = 2;
    }
    return pay_and_wait(p, l, 2, a);
}

/* No callback comes: the query ladder finds the success. */
static enum drive drive_query(struct place *p, struct life *l, struct arena *a)
{
    if (l->stage == 0)
        p->hold_callbacks = true;
    return drive_pay(p, l, a);
}

static enum drive drive_switch(struct place *p, struct life *l, struct arena *a)
{
    enum drive d;
    if (l->stage == 0) {
        if ((d = start(p, l, "native", a)))
            return d;
        l->stage = 1;
    }
    if (l->stage == 1) {
        if ((d = start(p, l, "h5", a)))
            return d;
        l->stage = 2;
    }
    return pay_and_wait(p, l, 2, a);
}

static enum drive drive_close(struct place *p, struct life *l, struct arena *a)
{
    struct str answer;
    enum drive d;
    if (l->stage == 0) {
        if ((d = start(p, l, "native", a)))
            return d;
        l->stage = 1;
    }
    int status = place_ask(p, a, "POST", str_printf(a, "/v1/payments/%s/close", l->pay_no),
                           STR("{}"), &answer);
    l->closed = l->closed || status == 200;
    return status == 200 ? DRIVE_OVER : not_now(p, l, status, answer);
}

static enum drive drive_cancel(struct place *p, struct life *l, struct arena *a)
{
    struct str answer;
    enum drive d;
    if (l->stage == 0) {
        if ((d = start(p, l, "native", a)))
            return d;
        l->stage = 1;
    }
    int status = place_ask(p, a, "POST", str_printf(a, "/v1/orders/%s/cancel", l->order_no),
                           STR("{\"reason\":\"changed my mind\"}"), &answer);
    l->cancelled = l->cancelled || status == 200;
    return status == 200 ? DRIVE_OVER : not_now(p, l, status, answer);
}

/* The payer pays what was cancelled meanwhile: the money goes back by itself. */
static enum drive late(struct place *p, struct life *l, bool untold, struct arena *a)
{
    struct sandbox_fault_rule rule = { .fault = FAULT_PAY_CLOSED, .times = 1 };
    struct err_info info = { 0 };
    struct str answer;
    enum drive d;
    if (l->stage <= 1) {
        if ((d = drive_cancel(p, l, a)))
            return d;
        sandbox_fault(p->sandbox, &rule);
        if (sandbox_pay(p->sandbox, str_of(l->pay_no), &info))
            complaint(p, "%s %d cannot be paid: %s", l->path->name, l->n, info.text);
        l->stage = 2;
    }
    int status =
        place_ask(p, a, "GET", str_printf(a, "/v1/payments/%s", l->pay_no), STR_NONE, &answer);
    if (status != 200)
        return not_now(p, l, status, answer);
    l->paid = l->paid || str_eq(answer_field(a, answer, "status"), STR("SUCCESS"));
    l->refunded = str_eq(answer_field(a, answer, "refund_state"), STR("refunded"));
    if (l->paid && untold)
        p->hold_callbacks = true;
    if (l->refunded)
        p->hold_callbacks = false;
    return l->refunded ? DRIVE_OVER : DRIVE_AGAIN;
}

static enum drive drive_late(struct place *p, struct life *l, struct arena *a)
{
    return late(p, l, false, a);
}

/* The channel tells of the payment and not of the refund: it is asked. */
static enum drive drive_late_asked(struct place *p, struct life *l, struct arena *a)
{
    return late(p, l, true, a);
}

const struct path path_pay = { "pay", drive_pay, 1 },
                  path_lost_answer = { "lost answer", drive_lost_answer, 2 },
                  path_query = { "query", drive_query, 1 },
                  path_switch = { "switch", drive_switch, 2 },
                  path_close = { "close", drive_close, 1 },
                  path_cancel = { "cancel", drive_cancel, 1 },
                  path_late = { "late", drive_late, 1 },
                  path_late_asked = { "late, asked", drive_late_asked, 1 };

enum drive life_drive(struct place *p, struct life *l)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        ARENA_AUTO a = arena_new(16384);
        enum drive d = l->path->drive(p, l, a);
        l->over = d == DRIVE_OVER;
        if (d != DRIVE_AGAIN)
            return d;
        if (p->inside && store_failed(p->inside->store)) /* here a process would end itself */
            return DRIVE_GONE;
        poll(NULL, 0, 5); /* leaves the processor to the server between two tries */
        place_move_clock(p, 500);
    }
    complaint(p, "%s %d comes to no end", l->path->name, l->n);
    return DRIVE_OVER;
}
