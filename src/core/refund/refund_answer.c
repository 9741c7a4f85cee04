/* refund_answer.c -- what a channel's answer to a refund, or to a question about one, does
 * (rules.md section 6).
 *
 * The rule begins with the row of the call, whose id is the transaction's own: found there, the
 * work is done already. A sending was counted as unknown when it was leased; a real answer takes
 * that back, "perhaps" (QUERY) does not. Then what comes next is written, then the facts are
 * applied. */
#include "base/log.h"
#include "core/incident/incident.h"
#include "core/payment/flow_call.h"
#include "core/refund/refund_inner.h"

#define ANSWER_IDS  (1 + CHANNEL_FACTS_MAX * REFUND_APPLY_IDS + INCIDENT_OPEN_IDS)
#define CODE_MAX    64
#define MESSAGE_MAX 256

int64_t refund_next_turn(int64_t now_ms, int64_t count)
{
    static const int64_t rungs_min[] = { 1, 2, 4, 8, 16, 32 };
    const int64_t n = sizeof rungs_min / sizeof rungs_min[0];

    return now_ms + (count < n ? rungs_min[count] : 60) * 60000;
}

enum err refund_held(struct tx *tx, const struct refund *r, const char *why, struct str detail,
                     struct str trace_id, struct err_info *info)
{
    struct incident incident = { .kind = INCIDENT_REFUND_HELD,
                                 .subject = r->no,
                                 .discriminator = str_of(why),
                                 .caller = r->caller,
                                 .amount = r->amount,
                                 .detail = detail,
                                 .trace_id = trace_id };

    return incident_open(tx, &incident, NULL, info);
}

static struct str words_of_channel(struct tx *tx, const struct channel_answer *answer)
{
    return str_printf(tx_arena(tx), STR_FMT " " STR_FMT,
                      STR_ARG(str_sub(answer->code, 0, CODE_MAX)),
                      STR_ARG(str_sub(answer->message, 0, MESSAGE_MAX)));
}

static void note_refusal(struct refund *to, const struct channel_answer *answer)
{
    to->error_code = answer->code.n ? str_sub(answer->code, 0, CODE_MAX) : STR_NONE;
    to->error_message = answer->message.n ? str_sub(answer->message, 0, MESSAGE_MAX) : STR_NONE;
    to->error_class = answer->class;
}

static void forget_refusal(struct refund *to)
{
    to->error_code = to->error_message = STR_NONE;
    to->error_class = CLASS_NONE;
    to->held = false;
}

/* ---- sent ---- */

/* What comes next after a refusal; the turn has written the next rung already. */
static void after_refusal(struct refund *to, enum channel_class class, int64_t now_ms)
{
    to->held = class == CLASS_PERSON;
    switch (class) {
    case CLASS_RETRY:
    case CLASS_ACCOUNT:
        to->step = REFUND_SEND;
        break;
    case CLASS_PERSON:
        to->step = REFUND_SEND;
        to->next_ms = now_ms + REFUND_HELD_MS;
        break;
    case CLASS_QUERY:
    case CLASS_FINAL:
        to->step = REFUND_ASK;
        to->next_ms = now_ms;
        break;
    case CLASS_NONE:
        break;
    }
}

static struct refund after_sending(const struct refund_call *k, const struct refund *r,
                                   int64_t now_ms)
{
    bool open = refund_is_open(r);
    struct refund to = *r;

    to.sent_ms = now_ms;
    switch (k->answer.outcome) {
    case CHANNEL_DONE:
        to.unknown_calls--;
        forget_refusal(&to);
        to.query_count = 0;
        if (open)
            to.next_ms = refund_next_turn(now_ms, 0);
        break;
    case CHANNEL_REFUSED:
        if (k->answer.class != CLASS_QUERY)
            to.unknown_calls--;
        note_refusal(&to, &k->answer);
        if (open)
            after_refusal(&to, k->answer.class, now_ms);
        break;
    case CHANNEL_UNKNOWN:
        break;
    }
    return to;
}

/* ---- asked ---- */

/* Is the last sending's refusal for good, once two queries do not know the refund? FINAL is. One
 * that speaks of the state (QUERY) may have been of that moment only, so it takes a second sending.
 */
static bool is_refused(const struct refund *r)
{
    return r->error_class == CLASS_FINAL || (r->error_class == CLASS_QUERY && r->calls > 1);
}

/* The channel does not know it. Right after a sending that proves nothing; a minute later it does,
 * and the same bytes are sent again, unless they were refused: then it was never there. */
static void after_missing(const struct refund_call *k, struct refund *to, int64_t now_ms)
{
    if (!to->missing_count || k->asked_ms >= to->missing_ms + REFUND_GAP_MS) {
        to->missing_count++;
        to->missing_ms = k->asked_ms;
    }
    bool refused = is_refused(to);
    bool trusted =
        to->missing_count > 1 || (!refused && k->asked_ms >= to->sent_ms + REFUND_GAP_MS);

    if (!trusted)
        to->next_ms = (refused ? to->missing_ms : to->sent_ms) + REFUND_GAP_MS;
    else if (!refused) {
        to->step = REFUND_SEND;
        to->next_ms = now_ms;
    }
}

static bool says_under_way(const struct channel_answer *answer)
{
    for (size_t i = 0; i < answer->fact_count; i++)
        if (answer->facts[i].kind == FACT_REFUND_ACCEPTED)
            return true;
    return false;
}

static struct refund after_asking(const struct refund_call *k, const struct refund *r,
                                  int64_t now_ms)
{
    struct refund to = *r;
    bool done = k->answer.outcome == CHANNEL_DONE;

    if (done)
        forget_refusal(&to);
    if (k->answer.not_exist && (r->status == REFUND_INIT || r->status == REFUND_PROCESSING))
        after_missing(k, &to, now_ms);
    /* One that failed is asked about only while the channel says that it still works at it. */
    if (r->status == REFUND_FAILED && (done ? !says_under_way(&k->answer) : k->answer.not_exist))
        to.next_ms = 0;
    return to;
}

/* ---- both ---- */

static enum err state(struct tx *tx, struct refund_call *k, struct refund *r, enum fact_kind kind,
                      enum evidence_kind evidence_kind, int64_t call_id, const struct fact *fact,
                      struct err_info *info)
{
    struct evidence evidence = {
        .kind = evidence_kind, .ref = call_id, .fact = fact, .actor = k->actor
    };
    enum journal_cause cause = k->did == REFUND_DID_SEND ? CAUSE_REFUND : CAUSE_QUERY;
    enum refund_move move;

    return refund_apply_to(tx, r, kind, &evidence, cause, k->trace_id, &move, info);
}

static enum err apply_done(struct tx *tx, struct refund_call *k, struct refund *r, int64_t call_id,
                           struct err_info *info)
{
    bool sent = k->did == REFUND_DID_SEND;
    enum evidence_kind kind = sent ? EVIDENCE_ANSWER : EVIDENCE_QUERY;
    enum err e = ERR_OK;

    for (size_t i = 0; i < k->answer.fact_count && !e; i++)
        if (k->answer.facts[i].kind >= FACT_REFUND_ACCEPTED)
            e = state(tx, k, r, k->answer.facts[i].kind, kind, call_id, &k->answer.facts[i], info);
    if (!e && sent && !k->answer.fact_count)
        e = state(tx, k, r, FACT_REFUND_ACCEPTED, kind, call_id, NULL, info);
    return e;
}

static enum err apply_refused(struct tx *tx, struct refund_call *k, struct refund *r,
                              int64_t call_id, struct err_info *info)
{
    bool sent = k->did == REFUND_DID_SEND;
    struct str words = words_of_channel(tx, &k->answer);

    switch (k->answer.class) {
    case CLASS_FINAL:
        if (sent)
            return state(tx, k, r, FACT_REFUSED, EVIDENCE_REFUSAL, call_id, NULL, info);
        if (k->answer.not_exist && is_refused(r) && r->missing_count > 1)
            return state(tx, k, r, FACT_REFUSED, EVIDENCE_NOT_EXIST, call_id, NULL, info);
        return ERR_OK;
    case CLASS_ACCOUNT:
        return refund_held(
            tx, r, "account",
            str_printf(tx_arena(tx), "the channel refuses our account: " STR_FMT, STR_ARG(words)),
            k->trace_id, info);
    case CLASS_PERSON:
        return refund_held(
            tx, r, sent ? "refused" : "query",
            str_printf(tx_arena(tx), "the channel wants somebody to act: " STR_FMT, STR_ARG(words)),
            k->trace_id, info);
    case CLASS_RETRY:
    case CLASS_QUERY:
    case CLASS_NONE:
        break;
    }
    return ERR_OK;
}

static enum err take(struct tx *tx, struct refund_call *k, struct refund *r, int64_t call_id,
                     struct err_info *info)
{
    bool sent = k->did == REFUND_DID_SEND;
    int64_t now = tx_now_ms(tx);
    struct refund to = sent ? after_sending(k, r, now) : after_asking(k, r, now);
    enum err e = refund_sql_keep(tx, r, &to, info);

    if (!e && sent) {
        struct payment p;
        e = payment_load(tx, r->pay_no.id, &p, info);
        if (!e)
            e = payment_refund_release(tx, &p, k->turn_id, info);
    }
    if (!e && k->answer.outcome == CHANNEL_DONE)
        e = apply_done(tx, k, r, call_id, info);
    else if (!e && k->answer.outcome == CHANNEL_REFUSED && refund_is_open(r))
        e = apply_refused(tx, k, r, call_id, info);
    return e;
}

static enum err answer_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct refund_call *k = arg;
    struct refund r;
    int64_t id = tx_new_id(tx);
    enum err e = call_insert(tx, id, k->did == REFUND_DID_SEND ? CALL_REFUND : CALL_QUERY_REFUND,
                             k->refund.no, k->refund.account, &k->answer, k->trace_id, info);
    bool mine = e == ERR_EXISTS; /* this very rule ran before */

    if (e && !mine)
        return e;
    if ((e = refund_load(tx, k->refund.no.id, &r, info)))
        return e;
    if (!mine) {
        k->from = r.status;
        if ((e = take(tx, k, &r, id, info)))
            return e;
    }
    k->refund = refund_copy(k->arena, &r);
    return ERR_OK;
}

enum code refund_take_answer(struct refund_call *k, struct refusal *refusal)
{
    bool sent = k->did == REFUND_DID_SEND;
    enum call_kind kind = sent ? CALL_REFUND : CALL_QUERY_REFUND;

    call_normalise(k->c->env, kind, k->refund.account, &k->answer);
    enum code code = centre_run(k->c, sent ? "refund.answer" : "refund.query", k->class,
                                k->refund.no.slot, answer_rule, k, ANSWER_IDS, refusal);
    if (code)
        return code;
    call_tell(k->c->env, kind, k->refund.no, k->refund.account, &k->answer, k->trace_id);
    if (k->answer.unknown_key && k->c->want_keys)
        k->c->want_keys(k->c->want_keys_ctx, k->account);
    if (k->answer.outcome == CHANNEL_REFUSED && k->answer.class == CLASS_ACCOUNT)
        registry_suspend(k->c->registry, k->refund.account,
                         env_now_ms(k->c->env) + k->c->settings.account_suspend_ms);
    refund_log(k->c, &k->refund, k->from, sent ? CAUSE_REFUND : CAUSE_QUERY, k->trace_id);
    return CODE_OK;
}
