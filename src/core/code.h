/* code.h -- what a merchant can be told: the one registry of error codes. Code, HTTP status,
 * message in Chinese and English, and what to do. The documentation page is made from it (fenpay
 * config --errors). CODE_OK is no error. */
#ifndef FENPAY_CODE_H
#define FENPAY_CODE_H

#include "base/str.h"

#define CODES(X)                                                                                   \
    X(BAD_JSON, 400, "请求体不是合法的 JSON", "The body is not valid JSON",                        \
      "Mend the body; see the message for the position.")                                          \
    X(BAD_FIELD, 400, "字段缺失、类型不符或超出范围",                                              \
      "A field is missing, has the wrong type or is out of range", "Mend the named field.")        \
    X(UNKNOWN_FIELD, 400, "未知字段", "Unknown field", "Remove or correct the named field.")       \
    X(BAD_REQUEST, 400, "请求格式错误", "The request is malformed", "Mend the request.")           \
    X(BAD_CURSOR, 400, "游标无效", "The cursor is not one of ours",                                \
      "Start again without a cursor.")                                                             \
    X(AMOUNT_ZERO, 400, "应付金额为零，请由调用方自行完成该订单",                                  \
      "Nothing is to be paid: complete such an order yourself", "Do not create a zero order.")     \
    X(AMOUNT_INVALID, 400, "金额无效", "The amount is not valid",                                  \
      "Amounts are integers of fen within the limits.")                                            \
    X(CURRENCY_UNSUPPORTED, 400, "不支持的币种", "This currency is not supported",                 \
      "Use the channel's currency.")                                                               \
    X(IDEMPOTENCY_DISAGREE, 400, "Idempotency-Key 与 request_id 不一致",                           \
      "Idempotency-Key and request_id disagree", "Send one of them, or both alike.")               \
    X(UNAUTHENTICATED, 401, "身份验证失败", "Authentication failed",                               \
      "Check the key, the clock and the signature.")                                               \
    X(FORBIDDEN, 403, "没有权限", "Not permitted", "Ask for the permission.")                      \
    X(NOT_FOUND, 404, "不存在", "Not found", "Check the number.")                                  \
    X(ORDER_NOT_FOUND, 404, "订单不存在", "No such order", "Check the order number.")              \
    X(PAYMENT_NOT_FOUND, 404, "支付单不存在", "No such payment", "Check the payment number.")      \
    X(INCIDENT_NOT_FOUND, 404, "异常单不存在", "No such incident", "Check the incident number.")   \
    X(REFUND_NOT_FOUND, 404, "退款单不存在", "No such refund", "Check the refund number.")         \
    X(METHOD_NOT_ALLOWED, 405, "请求方法不被允许", "Method not allowed", "See Allow.")             \
    X(TIMEOUT, 408, "请求接收超时", "The request came too slowly", "Send it again.")               \
    X(ORDER_MISMATCH, 409, "与已存在的订单不一致", "Differs from the order that exists",           \
      "Use a new merchant_order_no for a changed order.")                                          \
    X(REQUEST_MISMATCH, 409, "相同请求号的内容不一致",                                             \
      "The same request id came with other contents", "Use a new request id for another request.") \
    X(REQUEST_IN_FLIGHT, 409, "相同请求正在处理", "The same request is being handled",             \
      "Repeat it after Retry-After.")                                                              \
    X(ORDER_NOT_PAYABLE, 409, "订单当前状态不可支付", "The order cannot be paid in its state",     \
      "Read the order.")                                                                           \
    X(ORDER_ALREADY_PAID, 409, "订单已支付", "The order is already paid", "Read the order.")       \
    X(ORDER_EXPIRING, 409, "订单即将或已经过期", "The order has expired or is about to",           \
      "Create a new order.")                                                                       \
    X(ORDER_STATE, 409, "订单状态不允许该操作", "The order's state does not allow this",           \
      "Read the order.")                                                                           \
    X(ATTEMPT_CLOSING, 409, "上一笔支付正在关闭", "The attempt before is still being closed",      \
      "Repeat after Retry-After.")                                                                 \
    X(PAYMENT_STATE, 409, "支付单状态不允许该操作", "The payment's state does not allow this",     \
      "Read the payment.")                                                                         \
    X(INCIDENT_STATE, 409, "异常单状态不允许该操作", "The incident's state does not allow this",   \
      "Read the incident.")                                                                        \
    X(ACTION_UNFIT, 409, "该操作不适用于这类异常单",                                               \
      "This action is not for this kind of incident", "Choose one of the actions named.")          \
    X(REFUND_EXCEEDS, 409, "超过可退金额或数量", "More than can still be refunded",                \
      "Read the payment: paid_amount, refunding, refunded.")                                       \
    X(REFUND_LIMIT, 409, "该支付单的退款笔数已达渠道上限",                                         \
      "The channel takes no more refunds for this payment", "Give the rest back in another way.")  \
    X(REFUND_UNSUPPORTED, 409, "该渠道不支持由商户发起退款",                                       \
      "The channel cannot be asked to refund", "Refund at the channel itself.")                    \
    X(ALREADY_EXISTS, 409, "名称已被使用", "The name is already in use", "Choose another name.")   \
    X(KEY_LIMIT, 409, "密钥数量已达上限（每类两个）", "Two keys of this kind exist already",       \
      "Revoke one first.")                                                                         \
    X(TOO_LARGE, 413, "请求体过大", "The body is too large", "Send less.")                         \
    X(URI_TOO_LONG, 414, "地址过长", "The address is too long", "Shorten it.")                     \
    X(UNSUPPORTED_MEDIA, 415, "仅支持 application/json", "Only application/json",                  \
      "Set the content type.")                                                                     \
    X(CHANNEL_REFUSED, 422, "渠道拒绝了该请求", "The channel refused the request",                 \
      "See channel_code and channel_message.")                                                     \
    X(HEADERS_TOO_LARGE, 431, "请求头过大", "The headers are too large", "Send fewer.")            \
    X(RATE_LIMITED, 429, "请求过于频繁", "Too many requests", "Repeat after Retry-After.")         \
    X(INTERNAL, 500, "内部错误", "Internal error",                                                 \
      "Repeat with the same request id; tell us the request_id.")                                  \
    X(BUSY, 503, "系统繁忙，请稍后重试", "Busy, try again later",                                  \
      "Repeat after Retry-After with the same request id.")                                        \
    X(NO_ACCOUNT, 503, "没有可用的渠道账户", "No usable channel account",                          \
      "Configure one, or repeat later.")                                                           \
    X(CHANNEL_BUSY, 503, "渠道繁忙，请稍后重试", "The channel is busy, try again later",           \
      "Repeat after Retry-After with the same request id.")

enum code {
    CODE_OK,
#define CODE_ENUM(name, status, zh, en, todo) CODE_##name,
    CODES(CODE_ENUM)
#undef CODE_ENUM
};

struct code_info {
    const char *name;
    int status;
    const char *zh, *en, *todo;
};
const struct code_info *code_info(enum code code); /* CODE_OK gives {"OK", 200, …} */

/* A refusal with what belongs to it; texts are static or in the caller's arena. */
struct refusal {
    enum code code;
    struct str field;  /* which input */
    struct str detail; /* more for people, appended to the message */
    int retry_after_s; /* 0: none */
    struct str channel_code, channel_message, channel_class; /* CHANNEL_REFUSED */
};

#endif
