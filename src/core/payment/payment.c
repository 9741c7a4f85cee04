/* payment.c -- the rules of payments: what a fact does to one, whoever brought it.
 *
 * payment_apply reads the row, looks the cell up and does it: a move is a compare-and-set, a
 * journal row and, for a terminal state, an event in the same transaction. A terminal state needs
 * evidence. SUCCESS is never taken back. A quarantined payment moves by nobody but an operator. */
#include "core/payment/payment.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "bus/event.h"
#include "core/incident/incident.h"
#include "core/order/order.h"
#include "core/payment/payment_sql.h"

#include <assert.h>
#include <inttypes.h>

static_assert(PAYMENT_INIT == 0 && PAYMENT_PAYING == 1 && PAYMENT_SUCCESS == 2 &&
                  PAYMENT_FAILED == 3 && PAYMENT_CLOSED == 4,
              "payment_status is persisted");
static_assert(CLOSE_NO == 0 && CLOSE_CALLER == 1 && CLOSE_CANCEL == 2 && CLOSE_EXPIRY == 3 &&
                  CLOSE_PAID_ELSEWHERE == 4 && CLOSE_SWITCH == 5 && CLOSE_TERMINAL == 6,
              "payment_close is persisted");
static_assert(SETTLED_NO == 0 && SETTLED_WON == 1 && SETTLED_SURPLUS == 2 && SETTLED_ASIDE == 3,
              "payment_settled is persisted");

#define EVENT_DATA_BYTES_MAX 8192

/* ---- the matrix (rules.md section 1) ----
 *
 * Late success (FAILED or CLOSED, then paid) is a normal move: the shopper typed the password while
 * we closed; settling the order, or paying back, is the order module's decision. */
/* clang-format off */
#define MOVE(status) { ACT_MOVE, PAYMENT_##status }
#define CLOSE        { .act = ACT_CLOSE }
#define QUERY        { .act = ACT_QUERY }
#define QUARANTINE   { .act = ACT_QUARANTINE }
#define INCIDENT     { .act = ACT_INCIDENT }
#define NOTHING      { .act = ACT_NONE }
static const struct payment_cell matrix[][5] = {
    /*                      INIT           PAYING         SUCCESS   FAILED         CLOSED */
    [ROW_ACCEPTED]       = { MOVE(PAYING),  NOTHING,       NOTHING,  CLOSE,         CLOSE },
    [ROW_REFUSED]        = { MOVE(FAILED),  NOTHING,       NOTHING,  NOTHING,       NOTHING },
    [ROW_REFUSED_UNSURE] = { QUERY,         NOTHING,       NOTHING,  NOTHING,       NOTHING },
    [ROW_PAID_EQUAL]     = { MOVE(SUCCESS), MOVE(SUCCESS), NOTHING,  MOVE(SUCCESS), MOVE(SUCCESS) },
    [ROW_PAID_UNEQUAL]   = { QUARANTINE,    QUARANTINE,    INCIDENT, QUARANTINE,    QUARANTINE },
    [ROW_PAY_FAILED]     = { MOVE(FAILED),  MOVE(FAILED),  INCIDENT, NOTHING,       NOTHING },
    [ROW_SHUT]           = { MOVE(CLOSED),  MOVE(CLOSED),  INCIDENT, NOTHING,       NOTHING },
};
#undef MOVE
#undef CLOSE
#undef QUERY
#undef QUARANTINE
#undef INCIDENT
#undef NOTHING
/* clang-format on */

struct payment_cell payment_cell_of(enum payment_row row, enum payment_status status)
{
    return matrix[row][status];
}

/* False: the fact is none about a payment's status. */
static bool row_of(enum fact_kind fact, const struct evidence *evidence, const struct payment *p,
                   enum payment_row *ret)
{
    switch (fact) {
    case FACT_ACCEPTED:
        *ret = ROW_ACCEPTED;
        return true;
    case FACT_REFUSED:
        *ret = p->unknown_calls > 0 ? ROW_REFUSED_UNSURE : ROW_REFUSED;
        return true;
    case FACT_PAID:
        *ret = evidence->equal ? ROW_PAID_EQUAL : ROW_PAID_UNEQUAL;
        return true;
    case FACT_PAY_FAILED:
        *ret = ROW_PAY_FAILED;
        return true;
    case FACT_SHUT:
        *ret = ROW_SHUT;
        return true;
    case FACT_NOTHING:
    case FACT_REFUND_ACCEPTED:
    case FACT_REFUND_DONE:
    case FACT_REFUND_CLOSED:
    case FACT_REFUND_ABNORMAL:
    case FACT_REFUND_REVERSED:
        break;
    }
    return false;
}

/* What one application carries along. */
struct apply {
    const struct evidence *evidence;
    enum journal_cause cause;
    enum fact_kind fact;
    struct str trace_id;
    enum payment_move move;
};

/* ---- events ---- */

/* 0: no event. */
static int event_of(enum payment_status to)
{
    switch (to) {
    case PAYMENT_SUCCESS:
        return EVENT_PAYMENT_SUCCESS;
    case PAYMENT_FAILED:
        return EVENT_PAYMENT_FAILED;
    case PAYMENT_CLOSED:
        return EVENT_PAYMENT_CLOSED;
    case PAYMENT_INIT:
    case PAYMENT_PAYING:
        break;
    }
    return 0;
}

static void print_event_data(struct arena *a, struct json_out *j, const struct payment *p,
                             struct str merchant_order_no, int64_t now_ms)
{
    const struct channel_info *channel = channel_by_id(p->channel);
    const struct method_info *method = channel ? channel_method(channel, p->method) : NULL;

    json_begin_object(j);
    json_kv_str(j, "order_no", number_str(a, p->order_no));
    json_kv_str(j, "merchant_order_no", merchant_order_no);
    json_kv_str(j, "pay_no", number_str(a, p->no));
    json_kv_str(j, "user_id", p->user_id);
    json_kv_str(j, "status", str_of(payment_status_name(p->status)));
    json_kv_int(j, "amount", money_fen(p->amount));
    json_kv_str(j, "currency", money_currency(&p->amount));
    json_kv_str(j, "channel", channel ? str_of(channel->name) : STR_NONE);
    json_kv_str(j, "account", p->account);
    json_kv_str(j, "method", method ? str_of(method->name) : STR_NONE);
    if (p->status == PAYMENT_SUCCESS) {
        json_kv_int(j, "paid_amount", money_fen(p->paid_amount));
        json_kv_int(j, "payer_amount", money_fen(p->payer_amount));
        json_kv_int(j, "channel_discount", money_fen(p->channel_discount));
        json_kv_str(j, "transaction_id", p->transaction_id);
        json_kv_bool(j, "late", p->late);
        json_kv_str(j, "pay_time", clock_rfc3339_ms(a, p->pay_ms));
    }
    if (p->close_requested)
        json_kv_str(j, "close_reason", str_of(payment_close_name(p->close_requested)));
    json_kv_str(j, "evidence", str_of(evidence_kind_name(p->evidence_kind)));
    json_kv_str(j, "create_time", clock_rfc3339_ms(a, p->create_ms));
    json_kv_str(j, "time", clock_rfc3339_ms(a, now_ms));
    json_end_object(j);
}

static enum err emit(struct tx *tx, const struct payment *p, struct str trace_id,
                     struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct buf b;
    struct json_out j;
    struct str merchant_order_no;
    enum err e = order_merchant_no(tx, p->order_no.id, &merchant_order_no, info);

    if (e)
        return e;
    buf_init_arena(&b, a, EVENT_DATA_BYTES_MAX);
    json_out_init(&j, &b);
    print_event_data(a, &j, p, merchant_order_no, tx_now_ms(tx));
    if (!buf_ok(&b))
        return err_internal(info, "the data of a payment event are too long");

    struct event event = {
        .type = (enum event_type)event_of(p->status),
        .subject = p->no,
        .sequence = p->version,
        .caller = p->caller,
        .data = buf_str(&b),
        .trace_id = trace_id,
    };
    return outbox_emit(tx, &event, info);
}

/* ---- what a cell can ask for ---- */

static bool is_terminal(enum payment_status s)
{
    return s == PAYMENT_SUCCESS || s == PAYMENT_FAILED || s == PAYMENT_CLOSED;
}

/* Whether another one of ours has the transaction. */
static enum err add_owner(struct tx *tx, const struct payment *p, struct str transaction_id,
                          struct buf *out, struct err_info *info)
{
    int64_t id;
    struct payment owner;
    if (!transaction_id.n)
        return ERR_OK;
    enum err e = payment_sql_by_transaction(tx, p->account, transaction_id, &id, info);
    if (!e && id && id != p->no.id && !(e = payment_load(tx, id, &owner, info)))
        buf_printf(out, "; payment " STR_FMT " has this transaction",
                   STR_ARG(number_str(tx_arena(tx), owner.no)));
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err paid_text(struct tx *tx, const struct payment *p, const struct apply *x,
                          struct str *ret, struct err_info *info)
{
    const struct fact *f = x->evidence->fact;
    struct arena *a = tx_arena(tx);
    struct buf out;
    buf_init_arena(&out, a, 1024);
    buf_printf(&out, "%s stated by %s: " STR_FMT, fact_kind_name(x->fact),
               evidence_kind_name(x->evidence->kind), STR_ARG(money_text(a, f->amount)));
    if (f->transaction_id.n)
        buf_printf(&out, "; transaction " STR_FMT, STR_ARG(f->transaction_id));
    if (!f->ours)
        buf_add_str(&out, STR("; of another merchant or app"));
    buf_printf(&out, "; the payment is %s: " STR_FMT, payment_status_name(p->status),
               STR_ARG(money_text(a, p->amount)));
    if (p->transaction_id.n)
        buf_printf(&out, "; its transaction " STR_FMT, STR_ARG(p->transaction_id));
    enum err e = add_owner(tx, p, f->transaction_id, &out, info);
    if (!e)
        *ret = buf_str(&out);
    return e;
}

static enum err open_incident(struct tx *tx, const struct payment *p, enum incident_kind kind,
                              struct str discriminator, const struct apply *x,
                              struct err_info *info)
{
    struct incident incident = { .kind = kind,
                                 .subject = p->no,
                                 .discriminator = discriminator,
                                 .caller = p->caller,
                                 .policy = POLICY_HOLD,
                                 .amount = p->paid_amount,
                                 .insists = !p->quarantined && !discriminator.n, /* held from now */
                                 .trace_id = x->trace_id };
    enum err e = ERR_OK;

    if (x->evidence->fact && x->fact == FACT_PAID) {
        incident.amount = x->evidence->fact->amount;
        e = paid_text(tx, p, x, &incident.detail, info);
    } else
        incident.detail =
            str_printf(tx_arena(tx), "%s stated by %s; the payment is %s", fact_kind_name(x->fact),
                       evidence_kind_name(x->evidence->kind), payment_status_name(p->status));
    return e ? e : incident_open(tx, &incident, NULL, info);
}

static enum incident_kind mismatch_kind(const struct apply *x)
{
    return x->evidence->fact->ours ? INCIDENT_AMOUNT_MISMATCH : INCIDENT_ACCOUNT_MISMATCH;
}

/* One incident a payment, whatever is stated while it is held. */
static enum err quarantine(struct tx *tx, struct payment *p, enum incident_kind kind,
                           struct apply *x, struct err_info *info)
{
    enum err e = open_incident(tx, p, kind, STR(""), x, info);

    if (!e)
        e = payment_sql_quarantine(tx, p, x->evidence, info);
    x->move = PAYMENT_QUARANTINED;
    return e;
}

/* Held for an operator: what else is stated of the money is counted with its incident and moves
 * nothing. */
static enum err still_held(struct tx *tx, struct payment *p, struct apply *x, struct err_info *info)
{
    x->move = x->fact == FACT_PAID ? PAYMENT_QUARANTINED : PAYMENT_ALREADY;
    if (x->fact != FACT_PAID)
        return ERR_OK;
    return open_incident(tx, p, x->evidence->equal ? INCIDENT_AMOUNT_MISMATCH : mismatch_kind(x),
                         STR(""), x, info);
}

/* A success is contradicted: nothing is taken back, a person looks. */
static enum err conflict(struct tx *tx, struct payment *p, struct apply *x, struct err_info *info)
{
    const struct fact *f = x->evidence->fact;

    x->move = PAYMENT_CONFLICT;
    if (x->fact == FACT_PAID && f->ours && money_eq(f->amount, p->paid_amount) &&
        str_eq(f->transaction_id, p->transaction_id)) {
        x->move = PAYMENT_ALREADY; /* what an operator has accepted */
        return ERR_OK;
    }
    if (x->fact == FACT_PAID)
        return open_incident(tx, p, mismatch_kind(x), f->transaction_id, x, info);
    return open_incident(tx, p, INCIDENT_STATUS_CONFLICT, str_of(fact_kind_name(x->fact)), x, info);
}

/* "Nothing", except that a second transaction on one payment is money that belongs to nobody. */
static enum err already(struct tx *tx, struct payment *p, struct apply *x, struct err_info *info)
{
    const struct fact *f = x->evidence->fact;

    x->move = PAYMENT_ALREADY;
    if (x->fact != FACT_PAID || p->status != PAYMENT_SUCCESS || f->transaction_id.n == 0 ||
        p->transaction_id.n == 0 || str_eq(f->transaction_id, p->transaction_id))
        return ERR_OK;
    x->move = PAYMENT_CLASH;
    return open_incident(tx, p, INCIDENT_TRANSACTION_CLASH, f->transaction_id, x, info);
}

static enum err update(struct tx *tx, struct payment *p, enum payment_status to,
                       const struct journal_head *head, const struct apply *x,
                       struct err_info *info)
{
    switch (to) {
    case PAYMENT_PAYING:
        return payment_sql_accepted(tx, p, head, x->evidence, info);
    case PAYMENT_SUCCESS:
        return payment_sql_success(tx, p, head, x->evidence, is_terminal(p->status), info);
    case PAYMENT_FAILED:
    case PAYMENT_CLOSED:
        return payment_sql_ended(tx, p, head, x->evidence, to, info);
    case PAYMENT_INIT:
        break;
    }
    return err_internal(info, "nothing moves a payment to INIT");
}

/* The only place that writes payment_order.status. */
static enum err move(struct tx *tx, struct payment *p, enum payment_status to, struct apply *x,
                     struct err_info *info)
{
    struct journal_row row;
    struct journal_head head;
    bool held = p->quarantined;
    enum err e;

    if (is_terminal(to) && x->evidence->kind == EVIDENCE_NONE)
        return err_internal(info, "a terminal move without evidence");
    struct str note =
        p->close_requested ? str_of(payment_close_name(p->close_requested)) : STR_NONE;
    if ((e = journal_next(tx, p->no, &p->journal, (int)p->status, (int)to, x->cause, x->evidence,
                          x->trace_id, note, &row, &head, info)))
        return e;
    e = update(tx, p, to, &head, x, info);
    if (e == ERR_EXISTS && !held) /* the channel names a transaction that already settled another
                            payment of ours */
        return quarantine(tx, p, INCIDENT_TRANSACTION_CLASH, x, info);
    if (e)
        return e;
    if ((e = journal_insert(tx, &row, info)))
        return e;
    /* A success keeps a due row until its order has it; one that had ended, or was held, has none
     * any more. */
    if (to == PAYMENT_SUCCESS && (p->late || held) &&
        (e = due_insert(tx, &payment_due, tx_now_ms(tx), p->no.id, info)))
        return e;
    if (event_of(to) && (e = emit(tx, p, x->trace_id, info)))
        return e;
    tx_after_commit(tx, WAKE_PAYMENT, p->no.id);
    x->move = PAYMENT_MOVED;
    return ERR_OK;
}

/* The caller goes on after the commit; the due row is there in case it does not. */
static enum err wanted(struct tx *tx, struct payment *p, enum payment_move what, struct apply *x,
                       struct err_info *info)
{
    x->move = what;
    if (what == PAYMENT_CLOSE_WANTED)
        return payment_request_close(tx, p, CLOSE_TERMINAL, info);
    return due_insert(tx, &payment_due, tx_now_ms(tx), p->no.id, info);
}

static enum err do_cell(struct tx *tx, struct payment *p, const struct payment_cell *cell,
                        struct apply *x, struct err_info *info)
{
    switch (cell->act) {
    case ACT_NONE:
        return already(tx, p, x, info);
    case ACT_MOVE:
        return move(tx, p, cell->to, x, info);
    case ACT_CLOSE:
        return wanted(tx, p, PAYMENT_CLOSE_WANTED, x, info);
    case ACT_QUERY:
        return wanted(tx, p, PAYMENT_QUERY_WANTED, x, info);
    case ACT_QUARANTINE:
        return quarantine(tx, p, mismatch_kind(x), x, info);
    case ACT_INCIDENT:
        return conflict(tx, p, x, info);
    }
    return err_internal(info, "no such act");
}

enum err payment_apply_to(struct tx *tx, struct payment *p, enum fact_kind fact,
                          const struct evidence *evidence, enum journal_cause cause,
                          struct str trace_id, enum payment_move *ret_move, struct err_info *info)
{
    enum payment_row row;
    struct apply x = { .evidence = evidence,
                       .cause = cause,
                       .fact = fact,
                       .trace_id = trace_id,
                       .move = PAYMENT_ALREADY };
    enum err e = ERR_OK;

    if (fact == FACT_PAID && (!evidence->fact || evidence->kind == EVIDENCE_NONE))
        return err_internal(info, "PAID without the fact or its evidence");
    if (row_of(fact, evidence, p, &row))
        e = p->quarantined && p->status != PAYMENT_SUCCESS
                ? still_held(tx, p, &x, info)
                : do_cell(tx, p, &matrix[row][p->status], &x, info);
    else if (fact != FACT_NOTHING)
        e = err_internal(info, "%s is no fact about a payment", fact_kind_name(fact));
    if (!e)
        *ret_move = x.move;
    return e;
}

enum err payment_apply(struct tx *tx, int64_t pay_id, enum fact_kind fact,
                       const struct evidence *evidence, enum journal_cause cause,
                       struct str trace_id, enum payment_move *ret_move, struct payment *ret,
                       struct err_info *info)
{
    struct payment p;
    enum err e = payment_sql_load(tx, pay_id, &p, info);

    if (!e)
        e = payment_apply_to(tx, &p, fact, evidence, cause, trace_id, ret_move, info);
    if (!e)
        *ret = p;
    return e;
}

/* ---- the rest of the row ---- */

enum err payment_load(struct tx *tx, int64_t pay_id, struct payment *ret, struct err_info *info)
{
    return payment_sql_load(tx, pay_id, ret, info);
}

enum err payment_order_id(struct tx *tx, int64_t pay_id, int64_t *ret, struct err_info *info)
{
    return payment_sql_order_id(tx, pay_id, ret, info);
}

enum err payments_of_order(struct tx *tx, int64_t order_id, struct payment **ret, size_t *ret_n,
                           struct err_info *info)
{
    return payment_sql_of_order(tx, order_id, ret, ret_n, info);
}

enum err payments_brief(struct tx *tx, int64_t order_id, struct payment_brief **ret, size_t *ret_n,
                        struct err_info *info)
{
    return payment_sql_brief(tx, order_id, ret, ret_n, info);
}

enum err payment_unsettled_page(struct tx *tx, const struct payment_due *after,
                                int64_t older_than_ms, size_t max, struct payment_due *ret,
                                size_t *ret_n, struct err_info *info)
{
    return payment_sql_due_after(tx, after, older_than_ms, max, ret, ret_n, info);
}

enum err payment_request_close(struct tx *tx, struct payment *p, enum payment_close why,
                               struct err_info *info)
{
    bool open = p->status == PAYMENT_INIT || p->status == PAYMENT_PAYING;
    bool ended = p->status == PAYMENT_FAILED || p->status == PAYMENT_CLOSED;

    if (p->quarantined || (why == CLOSE_TERMINAL ? !ended || p->close_requested == CLOSE_TERMINAL
                                                 : !open || p->close_requested != CLOSE_NO))
        return ERR_OK;
    enum err e = payment_sql_close_requested(tx, p, why, info);
    return e ? e : due_insert(tx, &payment_due, tx_now_ms(tx), p->no.id, info);
}

enum err payment_set_settled(struct tx *tx, struct payment *p, enum payment_settled settled,
                             struct err_info *info)
{
    if (p->status != PAYMENT_SUCCESS)
        return err_internal(info, "only a success is settled");
    return settled == SETTLED_ASIDE ? payment_sql_aside(tx, p, info)
                                    : payment_sql_settled(tx, p, settled, info);
}

enum err payment_find_transaction(struct tx *tx, struct str account, struct str transaction_id,
                                  int64_t *ret_id, struct err_info *info)
{
    return payment_sql_by_transaction(tx, account, transaction_id, ret_id, info);
}

enum err payment_wake(struct tx *tx, struct payment *p, struct err_info *info)
{
    return due_insert(tx, &payment_due, tx_now_ms(tx), p->no.id, info);
}

/* ---- what an operator decides ---- */

enum err payment_accept(struct tx *tx, struct payment *p, const struct evidence *evidence,
                        struct str trace_id, struct err_info *info)
{
    struct fact fact = { .kind = FACT_PAID,
                         .transaction_id = p->transaction_id,
                         .ours = true,
                         .amount = p->paid_amount,
                         .payer_amount = p->payer_amount,
                         .channel_discount = p->channel_discount,
                         .time_ms = p->pay_ms };
    struct evidence accepted = *evidence;
    struct apply x = {
        .evidence = &accepted, .cause = CAUSE_OPERATOR, .fact = FACT_PAID, .trace_id = trace_id
    };

    if (!p->quarantined)
        return err_internal(info, "nothing of this payment is held");
    accepted.fact = &fact;
    return move(tx, p, PAYMENT_SUCCESS, &x, info);
}

bool payment_is_adopted(const struct payment *p)
{
    return p->method == 0;
}

enum err payment_adopt(struct tx *tx, struct payment *p, const struct fact *paid,
                       const struct evidence *evidence, struct str trace_id, struct err_info *info)
{
    struct evidence adopted = *evidence;
    struct apply x = {
        .evidence = &adopted, .cause = CAUSE_OPERATOR, .fact = FACT_PAID, .trace_id = trace_id
    };
    struct journal_row row;
    enum err e;

    adopted.fact = paid;
    p->status = PAYMENT_INIT;
    p->request = (struct channel_request) { STR(""), STR("") };
    p->request_id = number_str(tx_arena(tx), p->no);
    p->trace_id = trace_id;
    p->version = 1;
    p->create_ms = p->update_ms = tx_now_ms(tx);
    if ((e = journal_next(tx, p->no, &p->journal, -1, PAYMENT_INIT, CAUSE_OPERATOR, evidence,
                          trace_id, p->route, &row, &p->journal, info)) ||
        (e = payment_sql_insert(tx, p, info)) || (e = journal_insert(tx, &row, info)) ||
        (e = move(tx, p, PAYMENT_SUCCESS, &x, info)))
        return e;
    return payment_set_settled(tx, p, SETTLED_ASIDE, info);
}

enum err payment_release(struct tx *tx, struct payment *p, struct err_info *info)
{
    enum err e = payment_sql_release(tx, p, info);

    /* One that had ended is asked about by the close protocol. */
    if (!e)
        e = payment_request_close(tx, p, CLOSE_TERMINAL, info);
    return e ? e : payment_wake(tx, p, info);
}

enum err payment_dismiss(struct tx *tx, struct payment *p, const struct evidence *evidence,
                         struct str trace_id, struct err_info *info)
{
    struct apply x = { .evidence = evidence, .cause = CAUSE_OPERATOR, .trace_id = trace_id };
    enum err e = payment_sql_release(tx, p, info);

    return e || is_terminal(p->status) ? e : move(tx, p, PAYMENT_CLOSED, &x, info);
}
