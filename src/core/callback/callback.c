/* callback.c -- the rules of callbacks: one verified delivery becomes a row, its facts are applied,
 * and the row says what came of it, all in one transaction (rules.md section 7).
 *
 * The row is inserted first, as done: that is what it nearly always becomes, and an insert that
 * fails is how a redelivery is recognised. Only another outcome costs a second statement. A row
 * that is not done is handled again with the new bytes; 1 and 3 count as done. */
#include "core/callback/callback.h"

#include "base/killpoint.h"
#include "core/callback/apply.h"
#include "core/callback/callback_sql.h"
#include "core/incident/incident.h"
#include "core/payment/flow_call.h"
#include "crypto/digest.h"

#define EVENT_KEY_MAX 200
#define TEXT_MAX      64
#define REASON_MAX    256

/* ---- before the rule ---- */

/* A received number that is none of ours still needs a key and a slot: a hash of it. Kind 0 tells
 * it from a payment. */
static struct number stand_in(struct str text)
{
    struct sha256 digest = sha256(text);
    int64_t id = 0;
    for (int i = 0; i < 8; i++)
        id = (int64_t)((uint64_t)id << 8 | digest.b[i]);
    id &= (1LL << 60) - 1;
    return (struct number) { .id = id ? id : 1, .slot = (uint16_t)number_slot_of_text(text) };
}

void callback_prepare(struct callback_input *in, struct arena *a)
{
    struct notice *n = &in->notice;

    /* Without an id of the notification, only the bytes tell two deliveries apart. */
    if (in->raw_only && !n->transport_id.n)
        n->event_key = str_printf(a, "raw:" STR_FMT, STR_ARG(sha256_hex(a, in->body)));
    if (n->event_key.n > EVENT_KEY_MAX || !n->event_key.n)
        n->event_key = str_printf(a, "sha256:" STR_FMT,
                                  STR_ARG(sha256_hex(a, n->event_key.n ? n->event_key : in->body)));
    n->kind = str_sub(n->kind, 0, TEXT_MAX);
    if (number_parse(n->subject_no, NUMBER_PAYMENT, &in->subject))
        in->subject = stand_in(n->subject_no.n ? n->subject_no : n->event_key);
    n->subject_no = str_sub(n->subject_no, 0, TEXT_MAX);
    n->transport_id = str_sub(n->transport_id, 0, TEXT_MAX);
}

/* ---- facts ---- */

static enum err unknown_number(const struct fact *fact, struct applied *ret)
{
    *ret = (struct applied) { .result = HANDLE_FAILED,
                              .reason = STR("no such payment"),
                              .unknown = fact };
    return ERR_OK;
}

static enum err other_account(struct tx *tx, const struct callback_input *in,
                              const struct payment *p, struct applied *ret, struct err_info *info)
{
    struct incident incident = {
        .kind = INCIDENT_ACCOUNT_MISMATCH,
        .subject = p->no,
        .discriminator = in->account->config.name,
        .caller = p->caller,
        .detail = STR("a callback of another account or merchant about this payment"),
        .trace_id = in->trace_id
    };
    *ret = (struct applied) { .result = HANDLE_FAILED,
                              .reason = STR("the payment is another account's") };
    return incident_open(tx, &incident, NULL, info);
}

static enum handle_result result_of(enum payment_move move)
{
    switch (move) {
    case PAYMENT_ALREADY:
        return HANDLE_NOTHING;
    case PAYMENT_MOVED:
    case PAYMENT_CONFLICT:
    case PAYMENT_CLASH:
    case PAYMENT_QUARANTINED:
    case PAYMENT_CLOSE_WANTED:
    case PAYMENT_QUERY_WANTED:
        return HANDLE_DONE;
    }
    return HANDLE_FAILED;
}

static enum err apply_to_payment(struct tx *tx, const struct callback_input *in,
                                 int64_t callback_id, const struct fact *fact, struct applied *ret,
                                 struct err_info *info)
{
    struct number no;
    struct payment p;
    enum payment_move move;
    enum payment_status from;

    if (number_parse(fact->pay_no, NUMBER_PAYMENT, &no))
        return unknown_number(fact, ret);
    enum err e = payment_load(tx, no.id, &p, info);
    if (e == ERR_NOT_FOUND || (!e && p.no.slot != no.slot))
        return unknown_number(fact, ret);
    if (e)
        return e;

    struct fact f = *fact;
    f.ours = fact->ours && str_eq(p.account, in->account->config.name);
    if (!f.ours &&
        f.kind != FACT_PAID) /* money is never looked away from: unequal, it is put in quarantine */
        return other_account(tx, in, &p, ret, info);

    struct evidence evidence = { .kind = EVIDENCE_CALLBACK,
                                 .ref = callback_id,
                                 .fact = &f,
                                 .equal = f.ours && in->account->info->driver->paid_equal(
                                                        in->account, &f, p.amount),
                                 .actor = STR("callback") };
    from = p.status;
    e = payment_apply_to(tx, &p, f.kind, &evidence, CAUSE_CALLBACK, in->trace_id, &move, info);
    if (e)
        return e;
    *ret = (struct applied) { .result = result_of(move),
                              .moved = { .payment = p, .payment_from = from } };
    ret->moved.payment.account =
        in->account->config.name; /* outlives the transaction, and is the same */
    return ERR_OK;
}

static enum err apply_to_refund(struct tx *tx, const struct callback_input *in, int64_t callback_id,
                                const struct fact *fact, struct applied *ret, struct err_info *info)
{
    static const struct {
        enum handle_result result;
        struct str reason;
    } becomes[] = {
        [REFUND_HEARD] = { HANDLE_DONE, { NULL, 0 } },
        [REFUND_HEARD_NOTHING] = { HANDLE_NOTHING, { NULL, 0 } },
        [REFUND_HEARD_EARLY] = { HANDLE_FAILED,
                                 STR_INIT("the payment's own success is not known yet") },
        [REFUND_HEARD_FOREIGN] = { HANDLE_FAILED, STR_INIT("the payment is another account's") },
        [REFUND_HEARD_UNKNOWN] = { HANDLE_FAILED, STR_INIT("no such payment") },
    };
    struct evidence evidence = {
        .kind = EVIDENCE_CALLBACK, .ref = callback_id, .fact = fact, .actor = STR("callback")
    };
    struct refund_heard heard;
    enum err e = refund_hear(tx, in->account->config.name, &evidence, CAUSE_CALLBACK, in->trace_id,
                             &heard, info);

    if (e)
        return e;
    *ret = (struct applied) { .result = becomes[heard.how].result,
                              .reason = becomes[heard.how].reason,
                              .unknown = heard.how == REFUND_HEARD_UNKNOWN ? fact : NULL,
                              .moved = { .refund = heard.refund, .refund_from = heard.from } };
    ret->moved.refund.account = in->account->config.name; /* outlives the transaction */
    return ERR_OK;
}

static enum err apply_fact(struct tx *tx, const struct callback_input *in, int64_t callback_id,
                           const struct fact *fact, struct applied *ret, struct err_info *info)
{
    switch (fact->kind) {
    case FACT_NOTHING:
        *ret = (struct applied) { .result = HANDLE_NOTHING };
        return ERR_OK;
    case FACT_ACCEPTED:
    case FACT_REFUSED:
    case FACT_PAID:
    case FACT_PAY_FAILED:
    case FACT_SHUT:
        return apply_to_payment(tx, in, callback_id, fact, ret, info);
    case FACT_REFUND_ACCEPTED:
    case FACT_REFUND_DONE:
    case FACT_REFUND_CLOSED:
    case FACT_REFUND_ABNORMAL:
    case FACT_REFUND_REVERSED:
        return apply_to_refund(tx, in, callback_id, fact, ret, info);
    }
    return err_internal(info, "a fact of kind %d", (int)fact->kind);
}

static void add_moved(struct callback_moved *sum, const struct callback_moved *one)
{
    if (one->payment.status != one->payment_from) {
        sum->payment = one->payment;
        sum->payment_from = one->payment_from;
    }
    if (one->refund.status != one->refund_from) {
        sum->refund = one->refund;
        sum->refund_from = one->refund_from;
    }
}

/* Several facts: one that failed makes the row failed, one that did something makes it done. */
enum err callback_apply(struct tx *tx, const struct callback_input *in, int64_t callback_id,
                        struct applied *ret, struct err_info *info)
{
    struct applied sum = { .result = HANDLE_NOTHING };

    if (in->raw_only)
        sum = (struct applied) { .result = HANDLE_FAILED,
                                 .reason = STR("verified, but cannot be decrypted") };
    for (size_t i = 0; i < in->notice.fact_count && !in->raw_only; i++) {
        struct applied one;
        enum err e = apply_fact(tx, in, callback_id, &in->notice.facts[i], &one, info);
        if (e)
            return e;
        add_moved(&sum.moved, &one.moved);
        if (one.result == HANDLE_FAILED ||
            (one.result == HANDLE_DONE && sum.result == HANDLE_NOTHING)) {
            one.moved = sum.moved;
            sum = one;
        }
    }
    *ret = sum;
    return ERR_OK;
}

/* ---- the rule ---- */

enum err callback_recovered(struct tx *tx, int64_t callback_id, struct err_info *info)
{
    return incident_recovered(tx, callback_id,
                              INCIDENT_BIT(INCIDENT_CALLBACK_STUCK) |
                                  INCIDENT_BIT(INCIDENT_ORPHAN_PAYMENT),
                              STR("the callback has been handled"), info);
}

static bool is_done(enum handle_result result)
{
    return result == HANDLE_DONE || result == HANDLE_NOTHING;
}

/* Writes what came of it. `row` is the row as it was found, all zero for a new one; a failed row
 * gets its retry once. */
static enum err conclude(struct tx *tx, const struct callback_stored *row, int64_t id,
                         enum handle_result result, struct str reason, struct err_info *info)
{
    int64_t retries = row->row.retry_count, next = row->next_retry_ms;
    bool schedule = result == HANDLE_FAILED && !next && retries < CALLBACK_RETRIES;

    if (schedule)
        next = tx_now_ms(tx) + CALLBACK_RETRY_MS;
    if (result != HANDLE_FAILED)
        next = 0; /* its due row, if any, is dropped by the job */
    enum err e =
        callback_sql_result(tx, id, result, str_sub(reason, 0, REASON_MAX), retries, next, info);
    if (!e && schedule)
        e = due_insert(tx, &callback_due, next, id, info);
    if (!e && row->row.no.id && result != HANDLE_FAILED)
        e = callback_recovered(tx, id, info);
    return e;
}

/* Inserts, or finds what was inserted before. *ret_id is 0 when it is done already and was only
 * counted. */
static enum err take(struct tx *tx, struct callback_input *in, struct callback_stored *ret_row,
                     int64_t *ret_id, struct err_info *info)
{
    int64_t id = tx_new_id(tx);

    if (!id)
        return err_internal(info, "no id left for a callback");
    in->repeated = in->duplicate = false;
    *ret_row = (struct callback_stored) { .subject_id = in->subject.id };
    enum err e = callback_sql_insert(tx, in, id, HANDLE_DONE, STR_NONE, 0, info);
    if (e != ERR_EXISTS) {
        *ret_id = id;
        return e;
    }

    if ((e = callback_sql_find(tx, in, ret_row, info)))
        return e;
    if (ret_row->row.no.id ==
        id) { /* our own row: this rule has run before, and its answer got lost */
        in->result = ret_row->row.result;
        *ret_id = 0;
        return ERR_OK;
    }
    in->repeated = true;
    if (mutation_on(MUTATION_REDELIVERY_DONE)) {
        in->duplicate = true;
        *ret_id = 0;
        return callback_sql_result(tx, ret_row->row.no.id, HANDLE_DONE, STR_NONE, 0, 0, info);
    }
    if (is_done(ret_row->row.result)) {
        in->duplicate = true;
        in->result = ret_row->row.result;
        in->reason = STR_NONE;
        *ret_id = 0;
        return callback_sql_count(tx, ret_row->row.no.id, info);
    }
    *ret_id = ret_row->row.no.id;
    return callback_sql_bytes(tx, *ret_id, in, info);
}

enum err callback_rule(struct tx *tx, void *input, struct err_info *info)
{
    struct callback_input *in = input;
    struct callback_stored row;
    struct applied applied;
    int64_t id;
    enum err e = take(tx, in, &row, &id, info);

    if (e)
        return e;
    if (in->duplicate)
        in->moved = (struct callback_moved) { .refund_from = REFUND_INIT };
    if (!id)
        return ERR_OK;
    if ((e = callback_apply(tx, in, id, &applied, info)))
        return e;
    in->moved = applied.moved;
    in->result = applied.result;
    in->reason = applied.reason;
    if (!in->repeated && applied.result == HANDLE_DONE)
        return ERR_OK; /* as it was inserted */
    return conclude(tx, &row, id, applied.result, applied.reason, info);
}

void callback_tell(struct centre *c, const struct callback_input *in)
{
    payment_log(c, &in->moved.payment, in->moved.payment_from, CAUSE_CALLBACK, in->trace_id);
    refund_log(c, &in->moved.refund, in->moved.refund_from, CAUSE_CALLBACK, in->trace_id);
}

enum err callback_rule_keep_failed(struct tx *tx, void *input, struct err_info *info)
{
    struct callback_input *in = input;
    struct callback_stored row;
    struct str reason = in->reason.n ? in->reason : STR("our own rule failed");
    int64_t id;
    enum err e = take(tx, in, &row, &id, info);

    if (e || !id)
        return e;
    in->result = HANDLE_FAILED;
    return conclude(tx, &row, id, HANDLE_FAILED, reason, info);
}

enum err callback_bytes_of(struct tx *tx, int64_t id, struct callback_bytes *ret,
                           struct err_info *info)
{
    struct callback_stored stored;
    enum err e = callback_sql_load(tx, id, &stored, info);
    if (!e)
        *ret = (struct callback_bytes) { stored.row, stored.headers, stored.body };
    return e;
}

enum err callbacks_of(struct tx *tx, int64_t subject_id, struct callback_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info)
{
    return callback_sql_of(tx, subject_id, ret, max, ret_n, info);
}

enum err callback_reject_insert(struct tx *tx, const struct reject_sample *s, size_t keep_max,
                                struct err_info *info)
{
    int64_t id = tx_new_id(tx), beyond;

    if (!id)
        return err_internal(info, "no id left for a rejected callback");
    enum err e = callback_reject_sql_insert(tx, id, s, info);
    if (!e)
        e = callback_reject_sql_beyond(tx, keep_max, &beyond, info);
    if (!e && beyond)
        e = callback_reject_sql_delete(tx, beyond, info);
    return e;
}
