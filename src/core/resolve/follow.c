/* follow.c -- see follow.h.
 *
 * Money that no order wants has one incident, so one step is enough: whoever made the refund (the
 * policy, an operator, the caller, the channel), the incident closes when all has gone back. */
#include "core/resolve/follow.h"

#include "core/refund/refund_auto.h"

#define INCIDENTS_MAX 32

static bool about_surplus(enum incident_kind kind)
{
    return kind == INCIDENT_PAID_AFTER_CLOSE || kind == INCIDENT_PAID_TWICE;
}

/* Is it for refunds to end it? While a person decides, only money that is back altogether does. */
static bool waits(const struct payment *p, const struct incident_row *row)
{
    int enough;

    if (row->resolved || row->subject.id != p->no.id)
        return false;
    if (row->policy == POLICY_REFUND)
        return true;
    return about_surplus(row->kind) && !money_cmp(p->refunded, p->paid_amount, &enough) &&
           enough >= 0;
}

/* Given back, and then taken again by the channel: a person decides anew. */
static enum err came_back(struct tx *tx, const struct payment *p, const struct incident_row *row,
                          struct str trace_id, struct err_info *info)
{
    struct incident incident = { .kind = row->kind,
                                 .subject = row->subject,
                                 .discriminator = row->discriminator,
                                 .caller = row->caller,
                                 .policy = POLICY_HOLD,
                                 .amount = p->paid_amount,
                                 .detail = STR("its refund has been reversed"),
                                 .trace_id = trace_id };

    return incident_open(tx, &incident, NULL, info);
}

static enum err follow_payment(struct tx *tx, struct payment *p, bool reversed, struct str trace_id,
                               struct err_info *info)
{
    struct incident_row *rows = arena_array(tx_arena(tx), INCIDENTS_MAX, sizeof *rows);
    size_t n;
    enum err e = incidents_of(tx, p->no.id, rows, INCIDENTS_MAX, &n, info);

    for (size_t i = 0; !e && i < n; i++) {
        if (waits(p, &rows[i]))
            return refund_auto_step(tx, p, &rows[i], trace_id, info);
        if (reversed && rows[i].resolved && rows[i].resolution == ACTION_REFUND)
            return came_back(tx, p, &rows[i], trace_id, info);
    }
    return e;
}

enum err follow_refund(struct tx *tx, const struct refund *r, bool reversed, struct str trace_id,
                       struct err_info *info)
{
    struct payment p;
    enum err e = payment_load(tx, r->pay_no.id, &p, info);

    return e ? e : follow_payment(tx, &p, reversed, trace_id, info);
}
