/* wechat.c -- WeChat Pay v3 as a channel: what it can do, and the driver's table. */
#include "channel/wechat/wechat.h"

static bool paid_equal(const struct account *account, const struct fact *fact, struct money amount)
{
    (void)account;
    return fact->ours && money_eq(fact->amount, amount);
}

static struct str contract(const struct account *account, struct arena *a)
{
    const struct wechat_config *config = &account->config.wechat;
    return str_printf(a, "mchid=" STR_FMT ",appid=" STR_FMT, STR_ARG(config->mchid),
                      STR_ARG(config->appid));
}

static const struct method_info methods[] = {
    { METHOD_NATIVE, "native", .server_call = true },
    { METHOD_JSAPI, "jsapi", .needs_payer = true, .server_call = true },
    { METHOD_APP, "app", .server_call = true },
    { METHOD_H5, "h5", .needs_client_ip = true, .server_call = true },
};

static const struct channel_driver driver = {
    .keys_open = wechat_keys_open,
    .keys_close = wechat_keys_close,
    .keys_notes = wechat_keys_notes,
    .contract = contract,
    .prepay_build = wechat_prepay_build,
    .prepay = wechat_prepay,
    .client_params = wechat_client_params,
    .query = wechat_query,
    .close = wechat_close,
    .refund_build = wechat_refund_build,
    .refund = wechat_refund,
    .query_refund = wechat_query_refund,
    .read_notice = wechat_read_notice,
    .answer_notice = wechat_answer_notice,
    .paid_equal = paid_equal,
    .refresh_keys = wechat_refresh_keys,
    .keys_add = wechat_keys_add,
};

const struct channel_info wechat_info = {
    .id = CHANNEL_WECHAT,
    .name = "wechat",
    .title_zh = "微信支付",
    .title_en = "WeChat Pay",
    .methods = methods,
    .method_count = sizeof methods / sizeof methods[0],
    .capabilities =
        CHANNEL_CAN_CLOSE | CHANNEL_CAN_REFUND | CHANNEL_CAN_QUERY_REFUND | CHANNEL_REFRESHES_KEYS,
    .currency = "CNY",
    .expire_margin_ms = 60 * 1000,
    .refund_gap_ms = 60 * 1000,
    .refunds_max = 50,
    .driver = &driver,
};
