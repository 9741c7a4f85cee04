/* scenarios.c -- stories that must end well, as data (src/app/story.h): the requirements' list of
 * abnormal cases and the races around them. */
#include "scenarios.h"

#define ORDER(no, amount)                                                                          \
    "{\"merchant_order_no\":\"" no "\",\"user_id\":\"u-1\",\"subject\":\"茶\",\"amount\":" amount  \
    ",\"currency\":\"CNY\"}"
#define NATIVE(order)                                                                              \
    "{\"order_no\":\"${" order ".order_no}\",\"channel\":\"wechat\",\"method\":\"native\"}"
#define APP(order)                                                                                 \
    "{\"order_no\":\"${" order ".order_no}\",\"channel\":\"wechat\",\"method\":\"app\"}"
#define ANY       .mchid = STR_INIT("*"), .percent = 100
#define ON(call_) .call = STR_INIT(call_), ANY
#define PAID(o_, p_)                                                                               \
    CALL(NULL, "GET /v1/payments/${" p_ ".pay_no}", NULL, 200, "status=SUCCESS"),                  \
        CALL(NULL, "GET /v1/orders/${" o_ ".order_no}", NULL, 200,                                 \
             "status=PAID,pay_no=${" p_ ".pay_no}")

static const struct step ten_minutes_late[] = {
    FAULT(.fault = FAULT_CALLBACK_DELAY, ON("callback"), .delay_ms = MINUTES(10)),
    FAULT(.fault = FAULT_TIMEOUT, ON("query")),
    CALL("o", "POST /v1/orders", ORDER("S-1", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    ADVANCE(MINUTES(9)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    ADVANCE(MINUTES(2)),
    PAID("o", "p"),
    END,
};

static const struct step found_before_late_callback[] = {
    FAULT(.fault = FAULT_CALLBACK_DELAY, ON("callback"), .delay_ms = MINUTES(10)),
    CALL("o", "POST /v1/orders", ORDER("S-2", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    ADVANCE(MINUTES(1)),
    PAID("o", "p"),
    ADVANCE(MINUTES(11)),
    PAID("o", "p"),
    BOOKS("p", "acknowledged=1"),
    END,
};

static const struct step prepay_never_arrived[] = {
    FAULT(.fault = FAULT_TIMEOUT, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-3", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, "status=INIT"),
    BOOKS("p", "state=(absent)"),
    ADVANCE(MINUTES(1)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=INIT"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200,
         "pay_no=${p.pay_no},status=PAYING,code_url!=(absent)"),
    PHONE("p"),
    SETTLE,
    PAID("o", "p"),
    END,
};

/* Nobody comes back: "does not exist" closes it only once the time we would have sent is over. */
static const struct step prepay_never_arrived_and_expired[] = {
    FAULT(.fault = FAULT_TIMEOUT, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-4", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, "status=INIT"),
    ADVANCE(MINUTES(14)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=INIT"),
    ADVANCE(MINUTES(80)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=CLOSED"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAY_FAILED"),
    END,
};

/* The answer got lost, the payer had the code from elsewhere and paid: the callback overtakes
 * everything. */
static const struct step callback_overtakes_answer[] = {
    FAULT(.fault = FAULT_ANSWER_LOST, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-5", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, "status=INIT"),
    PHONE("p"),
    SETTLE,
    PAID("o", "p"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 409, "code=ORDER_ALREADY_PAID"),
    END,
};

static const struct step query_times_out[] = {
    FAULT(.fault = FAULT_CALLBACK_LOSE, ON("callback")),
    FAULT(.fault = FAULT_TIMEOUT, ON("query"), .times = 2),
    CALL("o", "POST /v1/orders", ORDER("S-6", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    ADVANCE(SECONDS(91)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    ADVANCE(MINUTES(4)),
    PAID("o", "p"),
    END,
};

static const struct step unsigned_answer_is_unknown[] = {
    FAULT(.fault = FAULT_UNSIGNED, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-7", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, "status=INIT,code_url=(absent)"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200, "pay_no=${p.pay_no},status=PAYING"),
    END,
};

static const struct step forged_answer_is_unknown[] = {
    FAULT(.fault = FAULT_BAD_SIGNATURE, ON("query"), .times = 1),
    FAULT(.fault = FAULT_CALLBACK_LOSE, ON("callback")),
    CALL("o", "POST /v1/orders", ORDER("S-8", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    ADVANCE(SECONDS(31)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    ADVANCE(SECONDS(61)),
    PAID("o", "p"),
    END,
};

static const struct step channel_5xx[] = {
    FAULT(.fault = FAULT_HTTP_500, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-9", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, "status=INIT"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200, "pay_no=${p.pay_no},status=PAYING"),
    END,
};

static const struct step channel_429_three_times[] = {
    FAULT(.fault = FAULT_HTTP_429, ON("prepay"), .times = 3),
    CALL("o", "POST /v1/orders", ORDER("S-10", "8800"), 201, NULL),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 503, "code=CHANNEL_BUSY"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200, "status=PAYING"),
    END,
};

static const struct step channel_not_reached[] = {
    FAULT(.fault = FAULT_NOT_SENT, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-11", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, "status=PAYING"),
    BOOKS("p", "prepays=1"),
    END,
};

static const struct step channel_refuses[] = {
    FAULT(.fault = FAULT_ERROR, ON("prepay"), .times = 1, .code = STR_INIT("RULE_LIMIT"),
          .status = 403),
    CALL("o", "POST /v1/orders", ORDER("S-12", "8800"), 201, NULL),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 422, "code=CHANNEL_REFUSED"),
    SETTLE,
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAY_FAILED"),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, "status=PAYING"),
    PHONE("p"),
    SETTLE,
    PAID("o", "p"),
    END,
};

static const struct step our_key_is_broken[] = {
    FAULT(.fault = FAULT_ERROR, ON("prepay"), .times = 1, .code = STR_INIT("SIGN_ERROR"),
          .status = 401),
    CALL("o", "POST /v1/orders", ORDER("S-13", "8800"), 201, NULL),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 503, "code=NO_ACCOUNT"),
    END,
};

static const struct step same_attempt_again[] = {
    CALL("o", "POST /v1/orders", ORDER("S-14", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200, "pay_no=${p.pay_no},code_url=${p.code_url}"),
    BOOKS("p", "prepays=1"),
    END,
};

static const struct step ten_at_once[] = {
    CALL("o", "POST /v1/orders", ORDER("S-15", "8800"), 201, NULL),
    CALL_AT_ONCE("p", "POST /v1/payments", NATIVE("o"), 10, NULL),
    SETTLE,
    CALL("p", "POST /v1/payments", NATIVE("o"), 200, "status=PAYING"),
    BOOKS("p", "prepays=1"),
    PHONE("p"),
    SETTLE,
    PAID("o", "p"),
    END,
};

static const struct step switching_closes_the_old[] = {
    CALL("o", "POST /v1/orders", ORDER("S-16", "8800"), 201, NULL),
    CALL("old", "POST /v1/payments", NATIVE("o"), 201, NULL),
    CALL("new", "POST /v1/payments", APP("o"), 201, "status=PAYING,pay_no!=${old.pay_no}"),
    BOOKS("old", "state=CLOSED"),
    PHONE("new"),
    SETTLE,
    PAID("o", "new"),
    END,
};

static const struct step switching_waits_for_the_old[] = {
    CALL("o", "POST /v1/orders", ORDER("S-17", "8800"), 201, NULL),
    CALL("old", "POST /v1/payments", NATIVE("o"), 201, NULL),
    FAULT(.fault = FAULT_TIMEOUT, ON("close"), .times = 1),
    CALL(NULL, "POST /v1/payments", APP("o"), 409, "code=ATTEMPT_CLOSING"),
    ADVANCE(MINUTES(2)),
    CALL("new", "POST /v1/payments", APP("o"), 201, "status=PAYING"),
    END,
};

/* The payer was faster than the switch: the old attempt wins, no second one is opened. */
static const struct step paid_while_switching[] = {
    FAULT(.fault = FAULT_CALLBACK_LOSE, ON("callback")),
    CALL("o", "POST /v1/orders", ORDER("S-18", "8800"), 201, NULL),
    CALL("old", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("old"),
    CALL(NULL, "POST /v1/payments", APP("o"), 409, "code=ORDER_ALREADY_PAID"),
    SETTLE,
    PAID("o", "old"),
    END,
};

static const struct step paid_while_cancelling[] = {
    FAULT(.fault = FAULT_CALLBACK_LOSE, ON("callback")),
    CALL("o", "POST /v1/orders", ORDER("S-19", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{}", 409, "code=ORDER_ALREADY_PAID"),
    SETTLE,
    PAID("o", "p"),
    END,
};

static const struct step cancel_waits_for_the_channel[] = {
    CALL("o", "POST /v1/orders", ORDER("S-20", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    FAULT(.fault = FAULT_TIMEOUT, ON("close"), .times = 1),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{}", 202,
         "status=PAYING,cancel_requested=caller"),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 409, "code=ORDER_NOT_PAYABLE"),
    ADVANCE(MINUTES(3)),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=CANCELLED"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=CLOSED"),
    END,
};

static const struct step expires_without_an_attempt[] = {
    CALL("o", "POST /v1/orders",
         "{\"merchant_order_no\":\"S-21\",\"user_id\":\"u-1\",\"subject\":\"茶\",\"amount\":100,"
         "\"currency\":\"CNY\",\"expire_in_s\":120}",
         201, NULL),
    ADVANCE(MINUTES(1)),
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 409, "code=ORDER_EXPIRING"),
    ADVANCE(MINUTES(2)),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=CANCELLED"),
    END,
};

/* The payer pays in the last seconds; the callback comes after the order's time is over. */
static const struct step paid_at_the_last_moment[] = {
    FAULT(.fault = FAULT_CALLBACK_DELAY, ON("callback"), .delay_ms = MINUTES(3)),
    CALL("o", "POST /v1/orders",
         "{\"merchant_order_no\":\"S-22\",\"user_id\":\"u-1\",\"subject\":\"茶\",\"amount\":100,"
         "\"currency\":\"CNY\",\"expire_in_s\":600}",
         201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    ADVANCE(SECONDS(595)),
    PHONE("p"),
    ADVANCE(MINUTES(5)),
    PAID("o", "p"),
    END,
};

static const struct step probes_are_refused[] = {
    FAULT(.fault = FAULT_CALLBACK_PROBE, ON("callback"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-23", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    BOOKS("p", "sent=1,acknowledged=0"),
    ADVANCE(SECONDS(16)),
    PAID("o", "p"),
    END,
};

static const struct step lying_callback[] = {
    FAULT(.fault = FAULT_CALLBACK_WRONG_AMOUNT, ON("callback"), .amount_delta_fen = 1),
    CALL("o", "POST /v1/orders", ORDER("S-24", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "quarantined=true,status=PAYING"),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{}", 202, NULL),
    ADVANCE(MINUTES(3)),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAYING"),
    END,
};

static const struct step wrong_merchant[] = {
    FAULT(.fault = FAULT_CALLBACK_WRONG_MERCHANT, ON("callback"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-25", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    CALL(NULL, "GET /v1/incidents?limit=1", NULL, 200, "incidents.0.kind=ACCOUNT_MISMATCH"),
    END,
};

static const struct step nothing_lost_in_a_crash[] = {
    FAULT(.fault = FAULT_ANSWER_LOST, ON("prepay"), .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-26", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 202, NULL),
    CRASH,
    CALL(NULL, "POST /v1/payments", NATIVE("o"), 200, "pay_no=${p.pay_no},status=PAYING"),
    PHONE("p"),
    CRASH,
    SETTLE,
    PAID("o", "p"),
    END,
};

static const struct step completed_once[] = {
    CALL("o", "POST /v1/orders", ORDER("S-27", "8800"), 201, NULL),
    CALL(NULL, "POST /v1/orders/${o.order_no}/complete", "{}", 409, "code=ORDER_STATE"),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "POST /v1/orders/${o.order_no}/complete", "{}", 200, "status=COMPLETED"),
    CALL(NULL, "POST /v1/orders/${o.order_no}/complete", "{}", 200, "status=COMPLETED"),
    END,
};

#define NEWEST_INCIDENT CALL("i", "GET /v1/incidents?limit=1", NULL, 200, NULL)
#define RESOLVE(body, status, expect)                                                              \
    CALL(NULL, "POST /v1/incidents/${i.incidents.0.incident_no}/resolve", body, status, expect)

/* The callback lied; asked again, the channel says what it took. */
static const struct step asked_again[] = {
    FAULT(.fault = FAULT_CALLBACK_WRONG_AMOUNT, ON("callback"), .amount_delta_fen = 1),
    CALL("o", "POST /v1/orders", ORDER("S-28", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    HEAL,
    NEWEST_INCIDENT,
    RESOLVE("{\"action\":\"retry\",\"reason\":\"the books say 88.00\"}", 200, "state=resolved"),
    ADVANCE(SECONDS(2)),
    PAID("o", "p"),
    END,
};

/* Another amount was really taken: it goes back, and the order is paid anew. */
static const struct step held_money_goes_back[] = {
    FAULT(.fault = FAULT_WRONG_AMOUNT_TAKEN, ON("*"), .amount_delta_fen = -1, .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-29", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    NEWEST_INCIDENT,
    RESOLVE("{\"action\":\"accept_and_refund\",\"reason\":\"not our price\",\"operator\":\"amy\"}",
            200, "state=open,policy=refund,who!=(absent)"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200,
         "status=SUCCESS,paid_amount=8799,settled=aside,refund_state=refunding"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAY_FAILED"),
    CALL("second", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("second"),
    ADVANCE(MINUTES(2)),
    PAID("o", "second"),
    BOOKS("p", "taken=8799,refunded=8799"),
    CALL(NULL, "GET /v1/incidents/${i.incidents.0.incident_no}", NULL, 200,
         "state=resolved,resolution=accept_and_refund"),
    END,
};

static const struct step two_persons[] = {
    FAULT(.fault = FAULT_WRONG_AMOUNT_TAKEN, ON("*"), .amount_delta_fen = -1, .times = 1),
    CALL("o", "POST /v1/orders", ORDER("S-30", "2000000"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    NEWEST_INCIDENT,
    RESOLVE("{\"action\":\"accept\",\"reason\":\"a fen\",\"operator\":\"amy\"}", 202,
            "state=open,proposal.action=accept"),
    RESOLVE("{\"action\":\"accept\",\"reason\":\"a fen\",\"operator\":\"amy\"}", 202, "state=open"),
    RESOLVE("{\"action\":\"retry\",\"reason\":\"\"}", 400, "field=reason"),
    RESOLVE("{\"action\":\"accept\",\"reason\":\"yes\",\"operator\":\"bob\"}", 200,
            "state=resolved"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=SUCCESS,paid_amount=1999999"),
    END,
};

/* The refund of a late payment fails at the channel again and again: a person has to look. */
static const struct step refund_fails_for_good[] = {
    FAULT(.fault = FAULT_REFUND_CLOSED, ON("*")),
    CALL("o", "POST /v1/orders", ORDER("S-31", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{}", 200, "status=CANCELLED"),
    FAULT(.fault = FAULT_PAY_CLOSED, ON("pay"), .times = 1),
    PHONE("p"),
    ADVANCE(MINUTES(30)),
    NEWEST_INCIDENT,
    CALL(NULL, "GET /v1/incidents/${i.incidents.0.incident_no}", NULL, 200,
         "state=open,policy=hold"),
    HEAL,
    RESOLVE("{\"action\":\"refund\",\"reason\":\"the channel is well again\"}", 200,
            "state=open,policy=refund"),
    ADVANCE(MINUTES(3)),
    CALL(NULL, "GET /v1/incidents/${i.incidents.0.incident_no}", NULL, 200,
         "state=resolved,resolution=refund"),
    BOOKS("p", "taken=8800,refunded=8800"),
    END,
};

#define REFUND(label, request_id, what, status, expect)                                            \
    CALL(label, "POST /v1/refunds",                                                                \
         "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"" request_id "\"," what "}", status,        \
         expect)
#define PAID_IN(no, amount)                                                                        \
    CALL("o", "POST /v1/orders", ORDER(no, amount), 201, NULL),                                    \
        CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL), PHONE("p"), SETTLE

/* Three of one line, 100.00 in all: 33.33, 33.33, 33.34. */
static const struct step refunded_by_items[] = {
    CALL(
        "o", "POST /v1/orders",
        "{\"merchant_order_no\":\"S-32\",\"user_id\":\"u-1\",\"subject\":\"cups\",\"currency\":"
        "\"CNY\",\"discount\":200,\"items\":[{\"sku\":\"cup\",\"name\":\"cup\",\"unit_price\":3400,"
        "\"quantity\":3}]}",
        201, "pay_amount=10000"),
    CALL("p", "POST /v1/payments", NATIVE("o"), 201, NULL),
    REFUND(NULL, "0", "\"items\":[{\"line_no\":1,\"quantity\":1}]", 409, "code=PAYMENT_STATE"),
    PHONE("p"),
    SETTLE,
    REFUND("a", "1", "\"items\":[{\"line_no\":1,\"quantity\":1}]", 201, "amount=3333"),
    REFUND("b", "2", "\"items\":[{\"line_no\":1,\"quantity\":1}]", 201, "amount=3333"),
    REFUND(NULL, "3", "\"items\":[{\"line_no\":1,\"quantity\":2}]", 409, "code=REFUND_EXCEEDS"),
    REFUND(NULL, "3", "\"items\":[{\"line_no\":2,\"quantity\":1}]", 400, "code=BAD_FIELD"),
    REFUND("c", "3", "\"items\":[{\"line_no\":1,\"quantity\":1}]", 201,
           "amount=3334,items.0.amount=3334"),
    ADVANCE(MINUTES(5)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}/refunds", NULL, 200,
         "refunds.#=3,refunds.0.status=SUCCESS,refunds.1.status=SUCCESS,refunds.2.status=SUCCESS"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200,
         "refund_state=full,items.0.refunded_quantity=3"),
    BOOKS("p", "taken=10000,refunded=10000"),
    END,
};

/* The same request eight times at once is one refund. */
static const struct step refunded_once[] = {
    PAID_IN("S-33", "8800"),
    CALL_AT_ONCE("r", "POST /v1/refunds",
                 "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"r\",\"amount\":6000}", 8,
                 "status=PROCESSING,amount=6000"),
    REFUND(NULL, "r", "\"amount\":6001", 409, "code=REQUEST_MISMATCH,field=amount"),
    REFUND(NULL, "s", "\"amount\":6000", 409, "code=REFUND_EXCEEDS,field=amount"),
    ADVANCE(MINUTES(2)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "refund_state=part,refunded=6000"),
    CALL(NULL, "GET /v1/refunds/${r.refund_no}?wait_s=30", NULL, 200, "status=SUCCESS"),
    BOOKS("p", "taken=8800,refunded=6000"),
    END,
};

/* What the channel did and did not say, and the process dies on top of it. */
static const struct step refund_answer_lost[] = {
    PAID_IN("S-34", "8800"),
    FAULT(.fault = FAULT_ANSWER_LOST, ON("refund"), .times = 1),
    FAULT(.fault = FAULT_CALLBACK_LOSE, ON("callback")),
    REFUND("r", "r", "\"amount\":8800", 201, NULL),
    SETTLE,
    CRASH,
    ADVANCE(MINUTES(5)),
    CALL(NULL, "GET /v1/refunds/${r.refund_no}", NULL, 200, "status=SUCCESS"),
    CALL(NULL, "GET /v1/timeline/${r.refund_no}", NULL, 200, "entries.0.kind=journal"),
    BOOKS("p", "taken=8800,refunded=8800"),
    END,
};

/* The channel cannot bring it to the payer; somebody gives it back by hand. */
static const struct step refund_abnormal[] = {
    PAID_IN("S-35", "8800"),
    FAULT(.fault = FAULT_REFUND_ABNORMAL, ON("refund"), .times = 1),
    REFUND("r", "r", "\"amount\":8800", 201, NULL),
    ADVANCE(MINUTES(1)),
    CALL(NULL, "GET /v1/refunds/${r.refund_no}", NULL, 200, "status=ABNORMAL"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "refund_state=refunding"),
    CALL("i", "GET /v1/incidents?limit=1", NULL, 200,
         "incidents.0.kind=REFUND_ABNORMAL,incidents.0.subject=${r.refund_no}"),
    RESOLVE("{\"action\":\"settled_offline\",\"reason\":\"paid by bank transfer\"}", 200,
            "state=resolved"),
    SETTLE,
    CALL(NULL, "GET /v1/refunds/${r.refund_no}", NULL, 200, "status=SUCCESS"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "refund_state=full"),
    END,
};

/* The channel closes the first one: its amount is free again, and another number is needed. */
static const struct step refund_closed[] = {
    PAID_IN("S-36", "8800"),
    FAULT(.fault = FAULT_REFUND_CLOSED, ON("refund"), .times = 1),
    REFUND("r", "r", "\"amount\":8800", 201, NULL),
    ADVANCE(MINUTES(1)),
    CALL(NULL, "GET /v1/refunds/${r.refund_no}", NULL, 200, "status=FAILED"),
    REFUND(NULL, "r", "\"amount\":8800", 200, "refund_no=${r.refund_no},status=FAILED"),
    REFUND("s", "s", "\"amount\":8800", 201, NULL),
    ADVANCE(MINUTES(2)),
    CALL(NULL, "GET /v1/refunds/${s.refund_no}", NULL, 200, "status=SUCCESS"),
    BOOKS("p", "taken=8800,refunded=8800"),
    END,
};

/* What is no refund request gets a clear answer, and nothing is stored. */
static const struct step refund_bad_input[] = {
    PAID_IN("S-37", "8800"),
    CALL(NULL, "POST /v1/refunds", "{\"pay_no\":\"${p.pay_no}\",\"amount\":1}", 400,
         "code=BAD_FIELD,field=request_id"),
    REFUND(NULL, "a", "\"amount\":0", 400, "code=AMOUNT_INVALID,field=amount"),
    REFUND(NULL, "a", "\"amount\":1.5", 400, "field=amount"),
    REFUND(NULL, "a", "\"amount\":1,\"items\":[{\"line_no\":1,\"quantity\":1}]", 400,
           "field=items"),
    REFUND(NULL, "a", "\"reason\":\"x\"", 400, "field=amount"),
    REFUND(NULL, "a", "\"amount\":1,\"curency\":\"CNY\"", 400, "code=UNKNOWN_FIELD,field=curency"),
    REFUND(NULL, "a", "\"amount\":1,\"currency\":\"USD\"", 400, "field=currency"),
    CALL(NULL, "POST /v1/refunds",
         "{\"pay_no\":\"${o.order_no}\",\"request_id\":\"a\",\"amount\":1}", 404,
         "code=PAYMENT_NOT_FOUND,field=pay_no"),
    CALL(NULL, "GET /v1/refunds/${p.pay_no}", NULL, 404, "code=REFUND_NOT_FOUND"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}/refunds", NULL, 200, "refunds.#=0"),
    END,
};

#define SCENARIO(name)                                                                             \
    {                                                                                              \
#name, #name, #name, name                                                                  \
    }
const struct story scenarios[] = {
    SCENARIO(ten_minutes_late),
    SCENARIO(found_before_late_callback),
    SCENARIO(prepay_never_arrived),
    SCENARIO(prepay_never_arrived_and_expired),
    SCENARIO(callback_overtakes_answer),
    SCENARIO(query_times_out),
    SCENARIO(unsigned_answer_is_unknown),
    SCENARIO(forged_answer_is_unknown),
    SCENARIO(channel_5xx),
    SCENARIO(channel_429_three_times),
    SCENARIO(channel_not_reached),
    SCENARIO(channel_refuses),
    SCENARIO(our_key_is_broken),
    SCENARIO(same_attempt_again),
    SCENARIO(ten_at_once),
    SCENARIO(switching_closes_the_old),
    SCENARIO(switching_waits_for_the_old),
    SCENARIO(paid_while_switching),
    SCENARIO(paid_while_cancelling),
    SCENARIO(cancel_waits_for_the_channel),
    SCENARIO(expires_without_an_attempt),
    SCENARIO(paid_at_the_last_moment),
    SCENARIO(probes_are_refused),
    SCENARIO(lying_callback),
    SCENARIO(wrong_merchant),
    SCENARIO(nothing_lost_in_a_crash),
    SCENARIO(completed_once),
    SCENARIO(asked_again),
    SCENARIO(held_money_goes_back),
    SCENARIO(two_persons),
    SCENARIO(refund_fails_for_good),
    SCENARIO(refunded_by_items),
    SCENARIO(refunded_once),
    SCENARIO(refund_answer_lost),
    SCENARIO(refund_abnormal),
    SCENARIO(refund_closed),
    SCENARIO(refund_bad_input),
};
const size_t scenario_count = sizeof scenarios / sizeof *scenarios;
