/* resolve_retry.c -- "try again": what an incident is about gets its next turn now. If that fails
 * again, it is reported again, and the incident opens again. */
#include "bus/bus.h"
#include "core/callback/callback.h"
#include "core/payment/flow_call.h"
#include "core/refund/refund.h"
#include "core/resolve/resolve_inner.h"

enum err resolve_retry_payment(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct payment p;
    enum err e = resolve_payment(tx, w, &p, info);

    if (e || w->refused)
        return e;
    if (payment_is_open(&p))
        return payment_wake(tx, &p, info);
    return resolve_refuse(
        w, CODE_INCIDENT_STATE,
        str_printf(w->act->arena, "the payment is %s", payment_status_name(p.status)));
}

enum err resolve_retry_refund(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct refund r;
    enum err e = refund_load(tx, w->row.subject.id, &r, info);

    if (e)
        return e;
    if (refund_is_open(&r))
        return refund_wake(tx, &r, info);
    return resolve_refuse(
        w, CODE_INCIDENT_STATE,
        str_printf(w->act->arena, "the refund is %s", refund_status_name(r.status)));
}

/* What was stated of money that is held is forgotten: the channel will say it again, or otherwise.
 */
enum err resolve_retry_held(struct tx *tx, struct resolving *w, struct err_info *info)
{
    struct payment p;

    if (w->row.subject.kind == NUMBER_REFUND)
        return resolve_retry_refund(tx, w, info);
    enum err e = resolve_payment(tx, w, &p, info);
    if (e || w->refused)
        return e;
    return p.quarantined ? payment_release(tx, &p, info) : resolve_retry_payment(tx, w, info);
}

enum err resolve_retry_callback(struct tx *tx, struct resolving *w, struct err_info *info)
{
    bool failed;
    enum err e = callback_retry(tx, w->row.subject.id, &failed, info);

    return e || failed
               ? e
               : resolve_refuse(w, CODE_INCIDENT_STATE, STR("the callback has been handled"));
}

/* ---- deliveries ---- */

#define DELIVERIES_A_RULE 50

struct again {
    struct str target;
    size_t n;
};

static enum err again_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct again *g = arg;
    return deliveries_again(tx, g->target, DELIVERIES_A_RULE, &g->n, info);
}

/* A webhook that was gone for long has buried many: all but the last few are taken up before the
 * incident moves, so that dying half-way leaves it open. */
enum code resolve_retry_ask(struct resolving *w, struct refusal *refusal)
{
    struct resolved now;
    struct again g = { .n = DELIVERIES_A_RULE };
    enum code code = resolve_get(w->c, w->act, w->r->incident_no, w->r->any_caller, &now, refusal);

    if (code || now.incident.kind != INCIDENT_DELIVERY_DEAD || now.incident.resolved ||
        now.incident.subject.id)
        return code;
    g.target = now.incident.discriminator;
    while (!code && g.n == DELIVERIES_A_RULE)
        code = centre_run(w->c, "incident.deliveries", STORE_BACKGROUND, w->r->incident_no.slot,
                          again_rule, &g, 0, refusal);
    return code;
}

/* One event a consumer in the box could not take, or all that a webhook did not. */
enum err resolve_retry_delivery(struct tx *tx, struct resolving *w, struct err_info *info)
{
    size_t n;

    return w->row.subject.id
               ? delivery_again(tx, w->row.subject.id, w->row.discriminator, info)
               : deliveries_again(tx, w->row.discriminator, DELIVERIES_A_RULE, &n, info);
}
