/* stories.c -- the demo's stories: what happens to payments in a shop's life, and how it must end.
 */
#include "app/story.h"

#define ORDER(no, amount)                                                                          \
    "{\"merchant_order_no\":\"" no                                                                 \
    "\",\"user_id\":\"u-1\",\"subject\":\"龙井茶 250g\",\"amount\":" amount                        \
    ",\"currency\":\"CNY\"}"
#define PAY(order)                                                                                 \
    "{\"order_no\":\"${" order ".order_no}\",\"channel\":\"wechat\",\"method\":\"native\"}"

static const struct step paid_native[] = {
    CALL("o", "POST /v1/orders",
         "{\"merchant_order_no\":\"T-1\",\"user_id\":\"u-1\",\"subject\":\"茶具\",\"currency\":"
         "\"CNY\",\"discount\":1990,"
         "\"items\":[{\"sku\":\"cup\",\"name\":\"杯\",\"unit_price\":9950,\"quantity\":1},{\"sku\":"
         "\"pot\",\"name\":\"壶\",\"unit_price\":9950,\"quantity\":1}]}",
         201, "status=WAIT_PAY,pay_amount=17910,items.0.paid_share=8955"),
    CALL("p", "POST /v1/payments", PAY("o"), 201, "status=PAYING,code_url!=(absent)"),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=SUCCESS,paid_amount=17910"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID,pay_no=${p.pay_no}"),
    BOOKS("p", "state=SUCCESS,taken=17910"),
    END,
};

static const struct step paid_jsapi[] = {
    CALL("p", "POST /v1/payments",
         "{\"merchant_order_no\":\"T-2\",\"user_id\":\"u-2\",\"subject\":\"茶\",\"amount\":100,"
         "\"currency\":\"CNY\",\"channel\":\"wechat\",\"method\":\"jsapi\","
         "\"payer\":\"oUpF8uMuAJO_M2pxb1Q9zNjWeS6o\"}",
         201, "status=PAYING,signType=RSA,paySign!=(absent)"),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/orders/${p.order_no}", NULL, 200, "status=PAID"),
    END,
};

static const struct step delivered_three_times[] = {
    FAULT(.fault = FAULT_CALLBACK_DUPLICATE, .call = STR_INIT("callback"), .mchid = STR_INIT("*"),
          .copies = 2, .percent = 100),
    CALL("o", "POST /v1/orders", ORDER("T-3", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID"),
    BOOKS("p", "sent=3,acknowledged=3"),
    CALL(NULL, "GET /v1/timeline/${p.pay_no}", NULL, 200, NULL),
    END,
};

static const struct step forged[] = {
    FAULT(.fault = FAULT_CALLBACK_BAD_SIGNATURE, .call = STR_INIT("callback"),
          .mchid = STR_INIT("*"), .times = 1, .percent = 100),
    CALL("o", "POST /v1/orders", ORDER("T-4", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    BOOKS("p", "sent=1,acknowledged=0"),
    ADVANCE(SECONDS(16)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=SUCCESS"),
    END,
};

static const struct step another_amount[] = {
    FAULT(.fault = FAULT_WRONG_AMOUNT_TAKEN, .call = STR_INIT("*"), .mchid = STR_INIT("*"),
          .amount_delta_fen = -1, .times = 1, .percent = 100),
    CALL("o", "POST /v1/orders", ORDER("T-5", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING,quarantined=true"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAYING"),
    CALL(NULL, "GET /v1/incidents?limit=1", NULL, 200,
         "incidents.0.kind=AMOUNT_MISMATCH,incidents.0.subject=${p.pay_no}"),
    BOOKS("p", "taken=8799,acknowledged=1"),
    END,
};

static const struct step lost_and_found[] = {
    FAULT(.fault = FAULT_CALLBACK_LOSE, .call = STR_INIT("callback"), .mchid = STR_INIT("*"),
          .percent = 100),
    CALL("o", "POST /v1/orders", ORDER("T-6", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=PAYING"),
    ADVANCE(SECONDS(31)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=SUCCESS"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID"),
    END,
};

static const struct step prepay_timed_out[] = {
    FAULT(.fault = FAULT_ANSWER_LOST, .call = STR_INIT("prepay"), .mchid = STR_INIT("*"),
          .times = 1, .percent = 100),
    CALL("o", "POST /v1/orders", ORDER("T-7", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 202, "status=INIT"),
    CALL("again", "POST /v1/payments", PAY("o"), 200,
         "status=PAYING,pay_no=${p.pay_no},code_url!=(absent)"),
    BOOKS("p", "prepays=2"),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID,pay_no=${p.pay_no}"),
    END,
};

static const struct step expired[] = {
    CALL("o", "POST /v1/orders",
         "{\"merchant_order_no\":\"T-8\",\"user_id\":\"u-1\",\"subject\":\"茶\",\"amount\":8800,"
         "\"currency\":\"CNY\",\"expire_in_s\":600}",
         201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    ADVANCE(MINUTES(13)),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=CANCELLED"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "status=CLOSED"),
    BOOKS("p", "state=CLOSED"),
    END,
};

static const struct step same_key[] = {
    CALL("o", "POST /v1/orders", ORDER("T-9", "8800"), 201, NULL),
    CALL(NULL, "POST /v1/orders", ORDER("T-9", "8800"), 200, "order_no=${o.order_no}"),
    CALL(NULL, "POST /v1/orders", ORDER("T-9", "8801"), 409, "code=ORDER_MISMATCH,field=amount"),
    CALL("p", "POST /v1/payments",
         "{\"order_no\":\"${o.order_no}\",\"channel\":\"wechat\",\"method\":\"native\",\"request_"
         "id\":\"r-1\"}",
         201, NULL),
    CALL(NULL, "POST /v1/payments",
         "{\"order_no\":\"${o.order_no}\",\"channel\":\"wechat\",\"method\":\"native\",\"request_"
         "id\":\"r-1\"}",
         200, "pay_no=${p.pay_no}"),
    CALL(NULL, "POST /v1/payments",
         "{\"order_no\":\"${o.order_no}\",\"channel\":\"wechat\",\"method\":\"app\",\"request_id\":"
         "\"r-1\"}",
         409, "code=REQUEST_MISMATCH,field=method"),
    END,
};

static const struct step cancelled[] = {
    CALL("o", "POST /v1/orders", ORDER("T-10", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{\"reason\":\"changed my mind\"}", 200,
         "status=CANCELLED"),
    BOOKS("p", "state=CLOSED"),
    CALL(NULL, "POST /v1/payments", PAY("o"), 409, "code=ORDER_NOT_PAYABLE"),
    END,
};

static const struct step survived_a_crash[] = {
    CALL("o", "POST /v1/orders", ORDER("T-11", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    CRASH,
    SETTLE,
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID,pay_no=${p.pay_no}"),
    END,
};

/* The order was cancelled while the payer typed the password. */
static const struct step paid_late[] = {
    CALL("o", "POST /v1/orders", ORDER("T-12", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    CALL(NULL, "POST /v1/orders/${o.order_no}/cancel", "{}", 200, "status=CANCELLED"),
    FAULT(.fault = FAULT_PAY_CLOSED, .call = STR_INIT("pay"), .mchid = STR_INIT("*"), .times = 1,
          .percent = 100),
    PHONE("p"),
    SETTLE,
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200,
         "status=SUCCESS,late=true,settled=surplus,refund_state=refunding"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=CANCELLED"),
    CALL(NULL, "GET /v1/incidents?limit=1", NULL, 200,
         "incidents.0.kind=PAID_AFTER_CLOSE,incidents.0.policy=refund,incidents.0.state=open"),
    ADVANCE(MINUTES(2)),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "refund_state=refunded,refunded=8800"),
    CALL(NULL, "GET /v1/incidents?limit=1", NULL, 200,
         "incidents.0.state=resolved,incidents.0.resolution=refund"),
    BOOKS("p", "taken=8800,refunded=8800"),
    END,
};

/* The payer switched to another way to pay, and then paid both. */
static const struct step paid_twice[] = {
    CALL("o", "POST /v1/orders", ORDER("T-13", "8800"), 201, NULL),
    CALL("old", "POST /v1/payments", PAY("o"), 201, NULL),
    CALL("new", "POST /v1/payments",
         "{\"order_no\":\"${o.order_no}\",\"channel\":\"wechat\",\"method\":\"app\"}", 201, NULL),
    PHONE("new"),
    SETTLE,
    FAULT(.fault = FAULT_PAY_CLOSED, .call = STR_INIT("pay"), .mchid = STR_INIT("*"), .times = 1,
          .percent = 100),
    PHONE("old"),
    SETTLE,
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200,
         "status=PAID,pay_no=${new.pay_no},refund_state=none"),
    CALL(NULL, "GET /v1/incidents?limit=1", NULL, 200,
         "incidents.0.kind=PAID_TWICE,incidents.0.subject=${old.pay_no}"),
    ADVANCE(MINUTES(2)),
    CALL(NULL, "GET /v1/payments/${old.pay_no}", NULL, 200,
         "settled=surplus,refund_state=refunded"),
    CALL(NULL, "GET /v1/payments/${new.pay_no}", NULL, 200, "settled=won,refund_state=none"),
    BOOKS("old", "taken=8800,refunded=8800"),
    BOOKS("new", "taken=8800,refunded=0"),
    END,
};

/* Two refunds of one payment, the channel's gap between them; the second one's callback is lost. */
static const struct step refunded_in_parts[] = {
    CALL("o", "POST /v1/orders", ORDER("T-14", "8800"), 201, NULL),
    CALL("p", "POST /v1/payments", PAY("o"), 201, NULL),
    PHONE("p"),
    SETTLE,
    CALL(
        "a", "POST /v1/refunds",
        "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"a\",\"amount\":3000,\"reason\":\"碎了一只\"}",
        201, "status=PROCESSING,amount=3000"),
    CALL(
        NULL, "POST /v1/refunds",
        "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"a\",\"amount\":3000,\"reason\":\"碎了一只\"}",
        200, "refund_no=${a.refund_no}"),
    CALL(NULL, "POST /v1/refunds",
         "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"b\",\"amount\":5801}", 409,
         "code=REFUND_EXCEEDS,field=amount"),
    CALL("b", "POST /v1/refunds",
         "{\"pay_no\":\"${p.pay_no}\",\"request_id\":\"b\",\"amount\":5800}", 201, NULL),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "refund_state=refunding,refunding=8800"),
    ADVANCE(SECONDS(2)),
    ADVANCE(SECONDS(5)),
    CALL(NULL, "GET /v1/refunds/${a.refund_no}", NULL, 200, "status=SUCCESS"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID,refund_state=part"),
    FAULT(.fault = FAULT_CALLBACK_LOSE, .call = STR_INIT("callback"), .mchid = STR_INIT("*"),
          .percent = 100),
    ADVANCE(MINUTES(3)),
    CALL(NULL, "GET /v1/refunds/${b.refund_no}", NULL, 200, "status=SUCCESS"),
    CALL(NULL, "GET /v1/payments/${p.pay_no}", NULL, 200, "refund_state=refunded,refunded=8800"),
    CALL(NULL, "GET /v1/orders/${o.order_no}", NULL, 200, "status=PAID,refund_state=full"),
    BOOKS("p", "taken=8800,refunded=8800"),
    END,
};

const struct story demo_stories[] = {
    { "paid_native", "A QR code is shown, the payer pays, the order is paid",
      "展示二维码，用户付款，订单已支付", paid_native },
    { "paid_jsapi", "The same inside WeChat (JSAPI), order and payment in one request",
      "公众号支付（JSAPI），一次请求下单并支付", paid_jsapi },
    { "delivered_three_times", "The callback is delivered three times; the order is paid once",
      "回调重复三次，订单只支付一次", delivered_three_times },
    { "forged", "A callback with a bad signature changes nothing; the good one does",
      "验签失败的回调不生效，正确的回调生效", forged },
    { "another_amount", "Another amount was taken: quarantined, and an incident for a person",
      "实收金额不符：隔离并生成异常单", another_amount },
    { "lost_and_found", "The callback is lost; the payment is found by asking",
      "回调丢失，主动查单补齐", lost_and_found },
    { "prepay_timed_out",
      "The channel accepted, its answer got lost: same number, same bytes again",
      "预下单超时但渠道已受理：同号同报文重发", prepay_timed_out },
    { "expired", "Nobody pays: the order expires and is closed at the channel",
      "超时未付：渠道关单后订单关闭", expired },
    { "same_key", "The same request again gives the same thing; another body is refused",
      "相同请求号返回同一结果，内容不同则拒绝", same_key },
    { "cancelled", "The order is cancelled: first closed at the channel, then here",
      "取消订单：先关渠道单，再关本地单", cancelled },
    { "survived_a_crash", "The process dies before the callback comes; nothing is lost",
      "回调到达前进程崩溃，数据不丢", survived_a_crash },
    { "paid_late",
      "Paid after the order was cancelled: the money is booked, and goes back by itself",
      "订单取消后到账：款项入账并自动退回", paid_late },
    { "refunded_in_parts",
      "Refunded in two parts: each once, one after the other, the second found by asking",
      "分两次退款：各退一次、依次发送，第二笔回调丢失后查得", refunded_in_parts },
    { "paid_twice", "Paid twice: one payment settles the order, the other one goes back",
      "重复支付：一笔生效，另一笔自动退回", paid_twice },
};
const size_t demo_story_count = sizeof demo_stories / sizeof *demo_stories;
