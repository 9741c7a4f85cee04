/* refund_channel.c -- what a channel's notice says of refunds: of ours, and of those it made by
 * itself (merchant portal, dispute).
 *
 * A refund the channel made is money that is gone: it is counted whatever was reserved. It may be
 * heard of before the payment's own success, whose notice is late or lost: then nothing is stored
 * yet, and the payment is asked about now. */
#include "core/incident/incident.h"
#include "core/refund/refund_inner.h"

struct hearing {
    struct str account;
    const struct evidence *evidence;
    const struct fact *fact;
    enum journal_cause cause;
    struct str trace_id;
    struct refund_heard *ret;
};

static enum err foreign(struct tx *tx, struct hearing *h, struct number subject, int64_t caller,
                        struct err_info *info)
{
    struct incident incident = { .kind = INCIDENT_ACCOUNT_MISMATCH,
                                 .subject = subject,
                                 .discriminator = h->account,
                                 .caller = caller,
                                 .amount = h->fact->amount,
                                 .detail =
                                     STR("a notice of another account or merchant speaks of it"),
                                 .trace_id = h->trace_id };

    h->ret->how = REFUND_HEARD_FOREIGN;
    return incident_open(tx, &incident, NULL, info);
}

static enum err apply(struct tx *tx, struct hearing *h, struct refund *r, struct err_info *info)
{
    enum refund_status from = r->status;
    enum refund_move move;
    enum err e =
        refund_apply_to(tx, r, h->fact->kind, h->evidence, h->cause, h->trace_id, &move, info);

    if (e)
        return e;
    if (move == REFUND_ALREADY)
        return ERR_OK;
    h->ret->how = REFUND_HEARD;
    if (move != REFUND_MOVED)
        return ERR_OK;
    h->ret->refund = *r;
    h->ret->from = from;
    return ERR_OK;
}

/* ---- made at the channel ---- */

static enum err insert(struct tx *tx, struct hearing *h, struct payment *p, struct str request_id,
                       struct err_info *info)
{
    const struct fact *f = h->fact;
    struct journal_head none = { 0 };
    struct journal_row row;
    struct refund r = {
        .no = number_make(NUMBER_REFUND, p->no.slot, tx_new_id(tx)),
        .pay_no = p->no,
        .order_no = p->order_no,
        .caller = p->caller,
        .account = p->account,
        .channel = p->channel,
        .origin = REFUND_BY_CHANNEL,
        .request_id = request_id,
        .digest = sha256(request_id),
        .amount = f->amount,
        .status = REFUND_SUCCESS,
        .channel_refund_id = f->channel_refund_id,
        .evidence_kind = h->evidence->kind,
        .evidence_ref = h->evidence->ref,
        .done_ms = f->time_ms ? f->time_ms : tx_now_ms(tx),
        .trace_id = h->trace_id,
        .version = 1,
        .create_ms = tx_now_ms(tx),
        .update_ms = tx_now_ms(tx),
    };
    enum err e;

    if (!r.no.id)
        return err_internal(info, "no id for a refund");
    if ((e = journal_next(tx, r.no, &none, -1, REFUND_SUCCESS, h->cause, h->evidence, h->trace_id,
                          STR("made at the channel"), &row, &r.journal, info)) ||
        (e = refund_sql_insert(tx, &r, info)) ||
        (e = payment_refund_sums(tx, p, money_zero(r.amount), r.amount, info)) ||
        (e = journal_insert(tx, &row, info)) || (e = refund_moved(tx, &r, p, h->trace_id, info)))
        return e == ERR_EXISTS ? err_set(info, ERR_RETRY, "the same refund is being stored") : e;
    *h->ret = (struct refund_heard) { .how = REFUND_HEARD, .refund = r, .from = REFUND_INIT };
    return ERR_OK;
}

static enum err made(struct tx *tx, struct hearing *h, struct payment *p, struct err_info *info)
{
    struct str request_id = str_printf(tx_arena(tx), "channel:" STR_FMT,
                                       STR_ARG(str_sub(h->fact->channel_refund_id, 0, 64)));
    struct refund r;

    if (!h->fact->channel_refund_id.n)
        return err_internal(info, "a refund made at the channel without its id");
    enum err e = refund_sql_find(tx, p->no.id, REFUND_BY_CHANNEL, request_id, &r, info);
    if (!e)
        return apply(tx, h, &r, info);
    if (e != ERR_NOT_FOUND)
        return e;
    return h->fact->kind == FACT_REFUND_DONE ? insert(tx, h, p, request_id, info) : ERR_OK;
}

/* ---- whose it is ---- */

/* *ret_found false: no refund of that number. */
static enum err find_refund(struct tx *tx, struct str text, struct refund *ret, bool *ret_found,
                            struct err_info *info)
{
    struct number no;

    *ret_found = false;
    if (number_parse(text, NUMBER_REFUND, &no))
        return ERR_OK;
    enum err e = refund_load(tx, no.id, ret, info);
    *ret_found = !e && ret->no.slot == no.slot;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* By its number; one that was adopted, by its transaction. */
static enum err find_payment(struct tx *tx, const struct hearing *h, struct payment *ret,
                             bool *ret_found, struct err_info *info)
{
    struct number no;
    int64_t id = 0;
    enum err e = ERR_NOT_FOUND;

    *ret_found = false;
    if (!number_parse(h->fact->pay_no, NUMBER_PAYMENT, &no))
        e = payment_load(tx, no.id, ret, info);
    if (!e && ret->no.slot == no.slot) {
        *ret_found = true;
        return ERR_OK;
    }
    if (e && e != ERR_NOT_FOUND)
        return e;
    if (!h->fact->transaction_id.n)
        return ERR_OK;
    e = payment_find_transaction(tx, h->account, h->fact->transaction_id, &id, info);
    if (e || !id)
        return e;
    *ret_found = true;
    return payment_load(tx, id, ret, info);
}

enum err refund_hear(struct tx *tx, struct str account, const struct evidence *evidence,
                     enum journal_cause cause, struct str trace_id, struct refund_heard *ret,
                     struct err_info *info)
{
    struct hearing h = { .account = account,
                         .evidence = evidence,
                         .fact = evidence->fact,
                         .cause = cause,
                         .trace_id = trace_id,
                         .ret = ret };
    struct refund r;
    struct payment p;
    bool found;
    enum err e = find_refund(tx, h.fact->refund_no, &r, &found, info);

    *ret = (struct refund_heard) { .how = REFUND_HEARD_NOTHING };
    if (e)
        return e;
    if (found)
        return str_eq(r.account, account) ? apply(tx, &h, &r, info)
                                          : foreign(tx, &h, r.no, r.caller, info);
    if ((e = find_payment(tx, &h, &p, &found, info)))
        return e;
    if (!found) {
        ret->how = REFUND_HEARD_UNKNOWN;
        return ERR_OK;
    }
    if (!h.fact->ours || !str_eq(p.account, account))
        return foreign(tx, &h, p.no, p.caller, info);
    if (p.status != PAYMENT_SUCCESS) {
        ret->how = REFUND_HEARD_EARLY;
        return payment_refund_heard(tx, &p, info);
    }
    return made(tx, &h, &p, info);
}
