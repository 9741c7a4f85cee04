/* facts.c -- the channel's Transaction and Refund objects (query answers and decrypted callbacks)
 * in our words.
 *
 * States are an open set: an unknown one states nothing. SUCCESS and REFUND both mean "was paid"
 * (REFUND also after a partial one). The amount compared is amount.total, the order amount;
 * payer_total is less when coupons were used. */
#include "channel/wechat/wechat.h"

#include "base/clock.h"

static const struct state {
    struct str name;
    enum fact_kind kind;
} trade_states[] =
    {
        { STR_INIT("SUCCESS"), FACT_PAID },       { STR_INIT("REFUND"), FACT_PAID },
        { STR_INIT("NOTPAY"), FACT_NOTHING },     { STR_INIT("CLOSED"), FACT_SHUT },
        { STR_INIT("REVOKED"), FACT_SHUT },       { STR_INIT("USERPAYING"), FACT_NOTHING },
        { STR_INIT("PAYERROR"), FACT_PAY_FAILED }, { STR_INIT("ACCEPT"), FACT_NOTHING },
    },
  refund_states[] = {
      { STR_INIT("PROCESSING"), FACT_REFUND_ACCEPTED },
      { STR_INIT("SUCCESS"), FACT_REFUND_DONE },
      { STR_INIT("CLOSED"), FACT_REFUND_CLOSED },
      { STR_INIT("ABNORMAL"), FACT_REFUND_ABNORMAL },
};

static enum fact_kind find_state(const struct state states[], size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(states[i].name, name))
            return states[i].kind;
    }
    return FACT_NOTHING;
}

/* A text member, or empty: for what a fact can do without. */
static struct str text(const struct json *object, const char *key)
{
    struct str s = STR_NONE;
    (void)json_get_str(object, key, &s, NULL);
    return s;
}

static int64_t time_of(const struct json *object, const char *key)
{
    int64_t ms = 0;
    (void)clock_parse_rfc3339(text(object, key), &ms);
    return ms;
}

/* `key` of an amount object in the currency under `currency_key`, the channel's only one when that
 * is absent. */
static enum err amount(const struct account *account, const struct json *object, const char *key,
                       const char *currency_key, struct money *ret, struct err_info *info)
{
    int64_t fen;
    enum err e = json_get_int(object, key, &fen, info);
    if (e)
        return e == ERR_NOT_FOUND ? err_field(info, ERR_INVALID, key, "the amount is missing") : e;
    struct str currency = text(object, currency_key);
    if (money_of(fen, currency.n ? currency : str_of(account->info->currency), ret) || fen < 0)
        return err_field(info, ERR_INVALID, key, "no such amount: %lld", (long long)fen);
    return ERR_OK;
}

/* The order amount must be there; what the payer gave and what coupons gave is best effort. */
static enum err read_paid_amounts(const struct account *account, const struct json *object,
                                  struct fact *ret, struct err_info *info)
{
    struct money total;
    enum err e = amount(account, object, "total", "currency", &total, info);
    if (e)
        return e;
    ret->amount = ret->payer_amount = total;
    ret->channel_discount = money_zero(total);
    struct money payer;
    if (!amount(account, object, "payer_total", "payer_currency", &payer, NULL)) {
        ret->payer_amount = payer;
        (void)money_sub(total, payer, &ret->channel_discount);
    }
    return ERR_OK;
}

enum err wechat_transaction_fact(const struct account *account, const struct json *transaction,
                                 struct fact *ret, struct str *ret_state, struct err_info *info)
{
    const struct wechat_config *config = &account->config.wechat;
    struct str state;
    enum err e = json_get_str(transaction, "trade_state", &state, info);
    if (e)
        return ERR_INVALID;
    struct fact fact = {
        .kind = find_state(trade_states, sizeof trade_states / sizeof trade_states[0], state),
        .pay_no = text(transaction, "out_trade_no"),
        .transaction_id = text(transaction, "transaction_id"),
        .ours = str_eq(text(transaction, "mchid"), config->mchid) &&
                str_eq(text(transaction, "appid"), config->appid),
        .payer = text(json_get(transaction, "payer"), "openid"),
        .time_ms = time_of(transaction, "success_time"),
    };
    if (fact.pay_no.n == 0)
        return err_field(info, ERR_INVALID, "out_trade_no", "a transaction without its number");
    if (fact.kind == FACT_PAID) {
        if (fact.transaction_id.n == 0)
            return err_field(info, ERR_INVALID, "transaction_id",
                             "a paid transaction without its number");
        if ((e = read_paid_amounts(account, json_get(transaction, "amount"), &fact, info)))
            return e;
    }
    *ret = fact;
    *ret_state = state;
    return ERR_OK;
}

enum err wechat_refund_fact(const struct account *account, const struct json *refund, bool callback,
                            struct fact *ret, struct str *ret_state, struct err_info *info)
{
    struct str state;
    enum err e = json_get_str(refund, callback ? "refund_status" : "status", &state, info);
    if (e)
        return ERR_INVALID;
    struct str mchid = text(refund, "mchid");
    struct fact fact = {
        .kind = find_state(refund_states, sizeof refund_states / sizeof refund_states[0], state),
        .pay_no = text(refund, "out_trade_no"),
        .transaction_id = text(refund, "transaction_id"),
        .refund_no = text(refund, "out_refund_no"),
        .channel_refund_id = text(refund, "refund_id"),
        /* A callback names the merchant (never the app); an answer to our own signed call names
           neither. */
        .ours = str_eq(mchid, account->config.wechat.mchid) || (!callback && mchid.n == 0),
        .time_ms = time_of(refund, "success_time"),
    };
    if (fact.refund_no.n == 0)
        return err_field(info, ERR_INVALID, "out_refund_no", "a refund without its number");
    /* Two refunds of one payment are told apart by their ids; a callback is filed under its
     * payment. */
    if (callback && (fact.channel_refund_id.n == 0 || fact.pay_no.n == 0))
        return err_field(info, ERR_INVALID, "refund_id", "a refund callback without its numbers");
    if ((e = amount(account, json_get(refund, "amount"), "refund", "currency", &fact.amount, info)))
        return e;
    *ret = fact;
    *ret_state = state;
    return ERR_OK;
}
