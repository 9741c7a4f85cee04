/* payment_refund.c -- what refunds change about their payment: the two sums, and who is calling.
 *
 * paid - refunding - refunded is what refunds may still take. The reservation is one conditional
 * UPDATE that also holds the version, so that whatever a refund was computed from (the quantities
 * of its lines) is still true when it succeeds. */
#include "base/killpoint.h"
#include "core/payment/flow_call.h"
#include "core/payment/payment_sql.h"

struct money payment_refund_left(const struct payment *p)
{
    struct money left;

    if (p->status != PAYMENT_SUCCESS || p->quarantined ||
        money_sub(p->paid_amount, p->refunding, &left) || money_sub(left, p->refunded, &left) ||
        money_sign(left) < 0)
        return money_zero(p->amount);
    return left;
}

enum err payment_refund_reserve(struct tx *tx, struct payment *p, struct money amount,
                                struct err_info *info)
{
    struct money refunding;

    if (money_sign(amount) <= 0 || money_add(p->refunding, amount, &refunding))
        return err_internal(info, "a refund of nothing, or in another currency");
    if (mutation_on(MUTATION_REFUND_UNRESERVED))
        return payment_sql_refund_sums(tx, p, refunding, p->refunded, info);
    return payment_sql_refund_reserve(tx, p, amount, refunding, info);
}

enum err payment_refund_sums(struct tx *tx, struct payment *p, struct money refunding,
                             struct money refunded, struct err_info *info)
{
    struct money now_refunding, now_refunded;

    if (money_add(p->refunding, refunding, &now_refunding) ||
        money_add(p->refunded, refunded, &now_refunded) || money_sign(now_refunding) < 0 ||
        money_sign(now_refunded) < 0)
        return err_internal(info, "the refunds of a payment sum up to less than nothing");
    return payment_sql_refund_sums(tx, p, now_refunding, now_refunded, info);
}

enum err payment_refund_lease(struct tx *tx, struct payment *p, int64_t owner, int64_t until_ms,
                              bool *ret_taken, struct err_info *info)
{
    *ret_taken = p->call_owner == owner || !payment_lease_live(p, tx_now_ms(tx));
    return *ret_taken ? payment_sql_lease_take(tx, p, owner, until_ms, 0, info) : ERR_OK;
}

enum err payment_refund_release(struct tx *tx, struct payment *p, int64_t owner,
                                struct err_info *info)
{
    return payment_sql_lease_release(tx, p, owner, info);
}

/* The close protocol of an ended attempt asks first, and finds a success that came late. */
enum err payment_refund_heard(struct tx *tx, struct payment *p, struct err_info *info)
{
    return payment_is_open(p) ? payment_wake(tx, p, info)
                              : payment_request_close(tx, p, CLOSE_TERMINAL, info);
}
