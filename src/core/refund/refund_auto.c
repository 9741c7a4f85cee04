/* refund_auto.c -- see refund_auto.h. */
#include "core/refund/refund_auto.h"

#include "base/killpoint.h"
#include "channel/registry.h"

#define KEY "auto:"

struct counted {
    int64_t opened, failed;
    struct refund last; /* its number is none: there is none */
};

static struct str key_of(struct arena *a, struct number incident_no, int64_t n)
{
    return str_printf(a, KEY "%s:%lld", number_text(incident_no).s, (long long)n);
}

static enum err count(struct tx *tx, int64_t pay_id, struct number incident_no, struct counted *ret,
                      struct err_info *info)
{
    struct str prefix = str_printf(tx_arena(tx), KEY "%s:", number_text(incident_no).s);
    struct refund *refunds;
    size_t n;
    enum err e = refunds_of(tx, pay_id, &refunds, &n, info);

    *ret = (struct counted) { .opened = 0 };
    for (size_t i = 0; !e && i < n; i++) {
        if (refunds[i].origin != REFUND_BY_POLICY || !str_starts(refunds[i].request_id, prefix))
            continue;
        ret->opened++;
        ret->failed += refunds[i].status == REFUND_FAILED;
        ret->last = refunds[i];
    }
    return e;
}

bool refund_possible(const struct payment *p)
{
    const struct channel_info *channel = channel_by_id(p->channel);
    unsigned both = CHANNEL_CAN_REFUND | CHANNEL_CAN_QUERY_REFUND;

    return channel && (channel->capabilities & both) == both;
}

enum err refund_auto_last(struct tx *tx, int64_t pay_id, struct number incident_no,
                          struct refund *ret, struct err_info *info)
{
    struct counted counted;
    enum err e = count(tx, pay_id, incident_no, &counted, info);
    if (!e)
        *ret = counted.last;
    return e;
}

static const char *why_not(enum refund_opened how)
{
    switch (how) {
    case REFUND_OPENED:
    case REFUND_SAME:
        return NULL;
    case REFUND_DIFFERS:
        return "a refund of this key has other contents";
    case REFUND_UNPAID:
    case REFUND_NO_LINE:
        return "the payment is no success";
    case REFUND_UNSUPPORTED:
        return "its channel cannot refund";
    case REFUND_EXCEEDS:
        return "nothing of it is left";
    case REFUND_TOO_MANY:
        return "the channel takes no more refunds of this payment";
    }
    return NULL;
}

enum err refund_auto(struct tx *tx, struct payment *p, const struct refund_auto_order *order,
                     struct refund_auto *ret, struct err_info *info)
{
    struct counted counted;
    struct refund_opening opening;
    struct refund_draft draft = { .id = tx_new_id(tx),
                                  .amount = payment_refund_left(p),
                                  .origin = REFUND_BY_POLICY,
                                  .reason = order->reason,
                                  .actor = order->actor,
                                  .trace_id = order->trace_id };
    enum err e = count(tx, p->no.id, order->incident_no, &counted, info);

    if (e)
        return e;
    *ret = (struct refund_auto) { .how = REFUND_AUTO_UNDER_WAY };
    bool keyed = !mutation_on(MUTATION_REFUND_UNKEYED);
    if (keyed && counted.opened && refund_is_open(&counted.last))
        return ERR_OK;
    if (money_sign(draft.amount) <= 0) {
        ret->how = money_sign(p->refunding) > 0 ? REFUND_AUTO_UNDER_WAY : REFUND_AUTO_NOTHING;
        return ERR_OK;
    }
    if (counted.failed >= REFUND_AUTO_TRIES && !order->insist) {
        ret->how = REFUND_AUTO_FAILED;
        return ERR_OK;
    }
    draft.request_id = keyed ? key_of(tx_arena(tx), order->incident_no, counted.opened + 1)
                             : str_printf(tx_arena(tx), "%lld", (long long)draft.id);
    if ((e = refund_open(tx, p, &draft, &ret->refund, &opening, info)))
        return e;
    ret->why = why_not(opening.how);
    ret->how = ret->why ? REFUND_AUTO_REFUSED : REFUND_AUTO_OPENED;
    return ERR_OK;
}

/* ---- an incident's next step ---- */

static enum err all_back(struct tx *tx, struct incident_row *row, struct err_info *info)
{
    bool surplus = row->kind == INCIDENT_PAID_AFTER_CLOSE || row->kind == INCIDENT_PAID_TWICE;
    struct incident_end end = { .action = surplus ? ACTION_REFUND : ACTION_ACCEPT_AND_REFUND,
                                .who = row->who.n ? row->who : STR("policy"),
                                .reason = STR("all of it has gone back"),
                                .evidence_ref = row->evidence_ref };

    return incident_resolve(tx, row, &end, info);
}

static enum err hold(struct tx *tx, struct incident_row *row, const char *why,
                     struct err_info *info)
{
    struct str no = str_printf(tx_arena(tx), "not refunded: %s", why);
    struct str detail =
        str_printf(tx_arena(tx), STR_FMT "; " STR_FMT, STR_ARG(row->detail), STR_ARG(no));

    return incident_set_policy(tx, row, POLICY_HOLD, STR_NONE, 0, detail, info);
}

enum err refund_auto_step(struct tx *tx, struct payment *p, struct incident_row *row,
                          struct str trace_id, struct err_info *info)
{
    struct refund_auto_order order = { .incident_no = row->no,
                                       .reason = incident_payer_text(row->kind),
                                       .actor = row->who.n ? row->who : STR("policy"),
                                       .trace_id = trace_id };
    struct refund_auto done;
    int enough;

    if (money_cmp(p->refunded, p->paid_amount, &enough))
        return err_internal(info, "a payment in two currencies");
    if (enough >= 0)
        return all_back(tx, row, info);
    enum err e = refund_auto(tx, p, &order, &done, info);
    if (e)
        return e;
    switch (done.how) {
    case REFUND_AUTO_OPENED:
    case REFUND_AUTO_UNDER_WAY:
        return ERR_OK;
    case REFUND_AUTO_NOTHING:
        return hold(tx, row, "nothing of it is left", info);
    case REFUND_AUTO_FAILED:
        return hold(tx, row, "too many refunds have failed", info);
    case REFUND_AUTO_REFUSED:
        return hold(tx, row, done.why, info);
    }
    return err_internal(info, "no such state of a refund");
}
