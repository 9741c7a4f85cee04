/* refund.c -- the rules of refunds: what a fact does to one, whoever brought it.
 *
 * refund_apply reads the row, looks the cell up and does it: a move is a compare-and-set, the
 * change of the payment's sums, a journal row and mostly an event, in the same transaction. A
 * refusal proves nothing while a call on the same number is unknown: then only two queries a minute
 * apart that do not know the refund make it FAILED. A late success of a FAILED one is money that is
 * gone, so it is counted even above what was paid. */
#include "core/refund/refund_inner.h"

#include "base/killpoint.h"
#include "core/incident/incident.h"

#include <assert.h>

static_assert(REFUND_INIT == 0 && REFUND_PROCESSING == 1 && REFUND_SUCCESS == 2 &&
                  REFUND_FAILED == 3 && REFUND_ABNORMAL == 4 && REFUND_REVERSED == 5,
              "refund_status is persisted");
static_assert(REFUND_BY_CALLER == 1 && REFUND_BY_POLICY == 2 && REFUND_BY_CHANNEL == 3 &&
                  REFUND_BY_OPERATOR == 4,
              "refund_origin is persisted");
static_assert(REFUND_SEND == 0 && REFUND_ASK == 1, "refund_step is persisted");

#define MISSING_ENOUGH 2

/* ---- the matrix (rules.md section 5) ----
 *
 * The sums of the payment follow from the two states of a move, so that no cell can get them wrong.
 * SUCCESS is taken back by R_REVERSED only; FAILED by nothing but a success. */
/* clang-format off */
#define MOVE(status) { REFUND_ACT_MOVE, REFUND_##status }
#define QUERY        { .act = REFUND_ACT_QUERY }
#define INCIDENT     { .act = REFUND_ACT_INCIDENT }
#define NOTHING      { .act = REFUND_ACT_NONE }
static const struct refund_cell matrix[][6] = {
    /*                              INIT              PROCESSING      SUCCESS         FAILED          ABNORMAL       REVERSED */
    [REFUND_ROW_ACCEPTED]       = { MOVE(PROCESSING), NOTHING,        NOTHING,        QUERY,          NOTHING,       NOTHING },
    [REFUND_ROW_REFUSED]        = { MOVE(FAILED),     QUERY,          NOTHING,        NOTHING,        QUERY,         NOTHING },
    [REFUND_ROW_REFUSED_UNSURE] = { QUERY,            QUERY,          NOTHING,        NOTHING,        QUERY,         NOTHING },
    [REFUND_ROW_REFUSED_GONE]   = { MOVE(FAILED),     MOVE(FAILED),   NOTHING,        NOTHING,        MOVE(FAILED),  NOTHING },
    [REFUND_ROW_DONE]           = { MOVE(SUCCESS),    MOVE(SUCCESS),  NOTHING,        MOVE(SUCCESS),  MOVE(SUCCESS), NOTHING },
    [REFUND_ROW_CLOSED]         = { MOVE(FAILED),     MOVE(FAILED),   INCIDENT,       NOTHING,        MOVE(FAILED),  NOTHING },
    [REFUND_ROW_ABNORMAL]       = { MOVE(ABNORMAL),   MOVE(ABNORMAL), INCIDENT,       INCIDENT,       NOTHING,       NOTHING },
    [REFUND_ROW_REVERSED]       = { INCIDENT,         INCIDENT,       MOVE(REVERSED), NOTHING,        INCIDENT,      NOTHING },
};
#undef MOVE
#undef QUERY
#undef INCIDENT
#undef NOTHING
/* clang-format on */

struct refund_cell refund_cell_of(enum refund_row row, enum refund_status status)
{
    return matrix[row][status];
}

static bool gone(const struct refund *r)
{
    return r->missing_count >= MISSING_ENOUGH;
}

/* False: the fact is none about a refund. */
static bool row_of(enum fact_kind fact, const struct refund *r, enum refund_row *ret)
{
    switch (fact) {
    case FACT_REFUSED:
        *ret = gone(r) ? REFUND_ROW_REFUSED_GONE
               : r->unknown_calls > 0 && !mutation_on(MUTATION_REFUND_UNSURE)
                   ? REFUND_ROW_REFUSED_UNSURE
                   : REFUND_ROW_REFUSED;
        return true;
    case FACT_REFUND_ACCEPTED:
        *ret = REFUND_ROW_ACCEPTED;
        return true;
    case FACT_REFUND_DONE:
        *ret = REFUND_ROW_DONE;
        return true;
    case FACT_REFUND_CLOSED:
        *ret = REFUND_ROW_CLOSED;
        return true;
    case FACT_REFUND_ABNORMAL:
        *ret = REFUND_ROW_ABNORMAL;
        return true;
    case FACT_REFUND_REVERSED:
        *ret = REFUND_ROW_REVERSED;
        return true;
    case FACT_NOTHING:
    case FACT_ACCEPTED:
    case FACT_PAID:
    case FACT_PAY_FAILED:
    case FACT_SHUT:
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
    enum refund_move move;
};

/* ---- incidents ---- */

static enum err open_incident(struct tx *tx, const struct refund *r, enum incident_kind kind,
                              struct str discriminator, struct str detail, struct str trace_id,
                              struct err_info *info)
{
    struct incident incident = { .kind = kind,
                                 .subject = r->no,
                                 .discriminator = discriminator,
                                 .caller = r->caller,
                                 .amount = r->amount,
                                 .detail = detail,
                                 .trace_id = trace_id };

    return incident_open(tx, &incident, NULL, info);
}

static struct str stated(struct tx *tx, const struct refund *r, const struct apply *x)
{
    return str_printf(tx_arena(tx), "%s stated by %s; the refund is %s, " STR_FMT,
                      fact_kind_name(x->fact), evidence_kind_name(x->evidence->kind),
                      refund_status_name(r->status), STR_ARG(money_text(tx_arena(tx), r->amount)));
}

static enum err conflict(struct tx *tx, const struct refund *r, struct apply *x,
                         struct err_info *info)
{
    x->move = REFUND_CONFLICT;
    return open_incident(tx, r, INCIDENT_STATUS_CONFLICT, str_of(fact_kind_name(x->fact)),
                         stated(tx, r, x), x->trace_id, info);
}

/* A fact about our number that is not about this refund: nobody but a person can say what it means.
 */
static enum err mismatch(struct tx *tx, const struct refund *r, struct apply *x,
                         struct err_info *info)
{
    const struct fact *f = x->evidence->fact;
    struct arena *a = tx_arena(tx);

    x->move = REFUND_MISMATCH;
    return open_incident(tx, r, f->ours ? INCIDENT_AMOUNT_MISMATCH : INCIDENT_ACCOUNT_MISMATCH,
                         STR(""),
                         str_printf(a, STR_FMT "; stated are " STR_FMT " of payment " STR_FMT "%s",
                                    STR_ARG(stated(tx, r, x)), STR_ARG(money_text(a, f->amount)),
                                    STR_ARG(str_sub(f->pay_no, 0, 64)),
                                    f->ours ? "" : "; of another merchant or app"),
                         x->trace_id, info);
}

static enum err over_refunded(struct tx *tx, const struct refund *r, const struct payment *p,
                              struct str trace_id, struct err_info *info)
{
    struct arena *a = tx_arena(tx);
    struct money all, over;

    if (money_add(p->refunding, p->refunded, &all) || money_sub(all, p->paid_amount, &over))
        return err_internal(info, "the refunds of a payment do not sum up");
    if (money_sign(over) <= 0)
        return ERR_OK;
    return open_incident(
        tx, r, INCIDENT_OVER_REFUNDED, STR(""),
        str_printf(a, "paid were " STR_FMT ", refunded are " STR_FMT ", reserved " STR_FMT,
                   STR_ARG(money_text(a, p->paid_amount)), STR_ARG(money_text(a, p->refunded)),
                   STR_ARG(money_text(a, p->refunding))),
        trace_id, info);
}

/* ---- moving ---- */

static bool is_terminal(enum refund_status s)
{
    return s == REFUND_SUCCESS || s == REFUND_FAILED || s == REFUND_REVERSED;
}

static bool reserves(enum refund_status s)
{
    return s == REFUND_INIT || s == REFUND_PROCESSING || s == REFUND_ABNORMAL;
}

/* +1, 0 or -1 times the amount. */
static enum err times(struct money amount, int n, struct money *ret)
{
    *ret = money_zero(amount);
    return n > 0 ? money_add(*ret, amount, ret) : n < 0 ? money_sub(*ret, amount, ret) : ERR_OK;
}

static enum err move_sums(struct tx *tx, const struct refund *r, enum refund_status from,
                          struct payment *p, struct err_info *info)
{
    int refunding = reserves(r->status) - reserves(from);
    int refunded = (r->status == REFUND_SUCCESS) - (from == REFUND_SUCCESS);
    struct money a, b;
    enum err e = payment_load(tx, r->pay_no.id, p, info);

    if (e || (!refunding && !refunded))
        return e;
    if (times(r->amount, refunding, &a) || times(r->amount, refunded, &b))
        return err_internal(info, "an amount beyond all amounts");
    return payment_refund_sums(tx, p, a, b, info);
}

static struct refund moved(const struct tx *tx, const struct refund *r, enum refund_status to,
                           const struct journal_head *head, const struct evidence *evidence)
{
    const struct fact *f = evidence->fact;
    struct refund m = *r;

    m.status = to;
    m.journal = *head;
    m.evidence_kind = evidence->kind;
    m.evidence_ref = evidence->ref;
    m.late = r->late || (r->status == REFUND_FAILED && to == REFUND_SUCCESS);
    if (f && f->channel_refund_id.n && !r->channel_refund_id.n)
        m.channel_refund_id = f->channel_refund_id;
    if (to == REFUND_SUCCESS)
        m.done_ms = f && f->time_ms ? f->time_ms : tx_now_ms(tx);
    if (is_terminal(to))
        m.next_ms = 0;
    return m;
}

/* What kept it from an end was not there for ever. */
static enum err recovered(struct tx *tx, const struct refund *r, struct err_info *info)
{
    unsigned kinds = INCIDENT_BIT(INCIDENT_REFUND_HELD);

    if (r->status == REFUND_ABNORMAL)
        return ERR_OK;
    if (is_terminal(r->status))
        kinds |= INCIDENT_BIT(INCIDENT_REFUND_ABNORMAL);
    return incident_recovered(
        tx, r->no.id, kinds,
        str_printf(tx_arena(tx), "the refund is %s", refund_status_name(r->status)), info);
}

enum err refund_moved(struct tx *tx, struct refund *r, const struct payment *p, struct str trace_id,
                      struct err_info *info)
{
    enum err e = recovered(tx, r, info);

    if (!e && r->status == REFUND_SUCCESS)
        e = over_refunded(tx, r, p, trace_id, info);
    if (!e && r->status == REFUND_ABNORMAL)
        e = open_incident(tx, r, INCIDENT_REFUND_ABNORMAL, STR(""),
                          STR("the channel cannot bring the money to the payer"), trace_id, info);
    if (!e)
        e = refund_emit(tx, r, p, trace_id, info);
    tx_after_commit(tx, WAKE_PAYMENT, r->pay_no.id);
    return e;
}

/* The only place that writes refund_order.status. */
static enum err move(struct tx *tx, struct refund *r, enum refund_status to, struct apply *x,
                     struct err_info *info)
{
    enum refund_status from = r->status;
    struct journal_row row;
    struct journal_head head;
    struct payment p;
    enum err e;

    if (is_terminal(to) && x->evidence->kind == EVIDENCE_NONE)
        return err_internal(info, "a terminal move without evidence");
    if ((e = journal_next(tx, r->no, &r->journal, (int)from, (int)to, x->cause, x->evidence,
                          x->trace_id, STR_NONE, &row, &head, info)))
        return e;
    struct refund m = moved(tx, r, to, &head, x->evidence);
    if ((e = refund_sql_move(tx, r, &m, info)) || (e = move_sums(tx, r, from, &p, info)) ||
        (e = journal_insert(tx, &row, info)) || (e = refund_moved(tx, r, &p, x->trace_id, info)))
        return e;
    x->move = REFUND_MOVED;
    return ERR_OK;
}

enum err refund_wake(struct tx *tx, struct refund *r, struct err_info *info)
{
    struct refund to = *r;

    to.next_ms = tx_now_ms(tx);
    return refund_sql_keep(tx, r, &to, info);
}

/* Asked now, unless it is being asked already. */
static enum err ask_soon(struct tx *tx, struct refund *r, struct apply *x, struct err_info *info)
{
    struct refund to = *r;

    x->move = REFUND_QUERY_WANTED;
    if (r->step == REFUND_ASK && r->next_ms)
        return ERR_OK;
    to.step = REFUND_ASK;
    to.next_ms = tx_now_ms(tx);
    return refund_sql_keep(tx, r, &to, info);
}

static enum err do_cell(struct tx *tx, struct refund *r, const struct refund_cell *cell,
                        struct apply *x, struct err_info *info)
{
    switch (cell->act) {
    case REFUND_ACT_NONE:
        return ERR_OK;
    case REFUND_ACT_MOVE:
        return move(tx, r, cell->to, x, info);
    case REFUND_ACT_QUERY:
        return ask_soon(tx, r, x, info);
    case REFUND_ACT_INCIDENT:
        return conflict(tx, r, x, info);
    }
    return err_internal(info, "no such act");
}

/* Is the fact about this refund? */
static enum err fits(struct tx *tx, const struct refund *r, const struct fact *f, bool *ret,
                     struct err_info *info)
{
    struct payment p;
    struct number_text pay_no = number_text(r->pay_no);

    *ret = !f || (f->ours && money_eq(f->amount, r->amount));
    if (!*ret || !f || !f->pay_no.n || str_eq(f->pay_no, str_of(pay_no.s)))
        return ERR_OK;
    /* A payment that was adopted stands at the channel under a number that is not ours. */
    enum err e = payment_load(tx, r->pay_no.id, &p, info);
    *ret = !e && f->transaction_id.n && str_eq(f->transaction_id, p.transaction_id);
    return e;
}

enum err refund_apply_to(struct tx *tx, struct refund *r, enum fact_kind fact,
                         const struct evidence *evidence, enum journal_cause cause,
                         struct str trace_id, enum refund_move *ret_move, struct err_info *info)
{
    enum refund_row row;
    struct apply x = { .evidence = evidence,
                       .cause = cause,
                       .fact = fact,
                       .trace_id = trace_id,
                       .move = REFUND_ALREADY };
    bool about_it;
    enum err e = fits(tx, r, evidence->fact, &about_it, info);

    if (!e && row_of(fact, r, &row))
        e = about_it ? do_cell(tx, r, &matrix[row][r->status], &x, info)
                     : mismatch(tx, r, &x, info);
    else if (!e && fact != FACT_NOTHING)
        e = err_internal(info, "%s is no fact about a refund", fact_kind_name(fact));
    if (!e)
        *ret_move = x.move;
    return e;
}

enum err refund_apply(struct tx *tx, int64_t refund_id, enum fact_kind fact,
                      const struct evidence *evidence, enum journal_cause cause,
                      struct str trace_id, enum refund_move *ret_move, struct refund *ret,
                      struct err_info *info)
{
    struct refund r;
    enum err e = refund_sql_load(tx, refund_id, &r, info);

    if (!e)
        e = refund_apply_to(tx, &r, fact, evidence, cause, trace_id, ret_move, info);
    if (!e)
        *ret = r;
    return e;
}

/* ---- reading ---- */

enum err refund_load(struct tx *tx, int64_t id, struct refund *ret, struct err_info *info)
{
    return refund_sql_load(tx, id, ret, info);
}

enum err refund_load_lines(struct tx *tx, struct refund *r, struct err_info *info)
{
    return refund_sql_lines(tx, r, info);
}

enum err refunds_of(struct tx *tx, int64_t pay_id, struct refund **ret, size_t *ret_n,
                    struct err_info *info)
{
    return refund_sql_of(tx, pay_id, ret, ret_n, info);
}

enum err refund_done(struct tx *tx, int64_t pay_id, struct money like, struct money *ret_sum,
                     struct refund_line *ret_lines, size_t max, size_t *ret_n,
                     struct err_info *info)
{
    int64_t fen;
    struct money sum;
    enum err e = refund_sql_sum_done(tx, pay_id, &fen, info);

    if (!e && money_of(fen, money_currency(&like), &sum))
        e = err_internal(info, "the refunds of a payment are beyond all amounts");
    if (!e)
        e = refund_sql_line_sums(tx, pay_id, true, like, ret_lines, max, ret_n, info);
    if (!e)
        *ret_sum = sum;
    return e;
}

enum err refund_open_page(struct tx *tx, const struct refund_turn_at *after, size_t max,
                          struct refund_turn_at *ret, size_t *ret_n, struct err_info *info)
{
    return refund_sql_open_page(tx, after, max, ret, ret_n, info);
}

enum err refund_figures(struct tx *tx, struct refund_figures *ret, struct err_info *info)
{
    return refund_sql_figures(tx, ret, info);
}

struct refund refund_copy(struct arena *a, const struct refund *r)
{
    struct refund c = *r;

    c.account = str_keep(a, r->account);
    c.request_id = str_keep(a, r->request_id);
    c.reason = str_keep(a, r->reason);
    c.channel_refund_id = str_keep(a, r->channel_refund_id);
    c.error_code = str_keep(a, r->error_code);
    c.error_message = str_keep(a, r->error_message);
    c.trace_id = str_keep(a, r->trace_id);
    c.lines = NULL;
    if (r->line_count) {
        c.lines = arena_array(a, r->line_count, sizeof *c.lines);
        memcpy(c.lines, r->lines, r->line_count * sizeof *c.lines);
    }
    return c;
}
