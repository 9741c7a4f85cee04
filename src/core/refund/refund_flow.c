/* refund_flow.c -- a refund's turns: sent, asked about, sent again, by the job or by hand.
 *
 * A turn is one rule that decides, writes when the next turn comes and takes what it needs (of a
 * sending: the payment's call lease, the request bytes, one more call that counts as unknown), then
 * one call, then the rule that takes the answer in. Refunds of one payment go one at a time with
 * the channel's gap between them. The bytes are built before the first sending and stay as they
 * are, whatever the configuration says later. */
#include "base/killpoint.h"
#include "base/log.h"
#include "core/payment/flow_call.h"
#include "core/payment/silence.h"
#include "core/refund/refund_inner.h"

#define TURN_IDS        (1 + 2 * INCIDENT_OPEN_IDS)
#define DUE_PAGE        256
#define DUES_OF_ONE     4
#define SILENT_AGAIN_MS 60000

struct turn {
    struct refund_call k;
    int64_t id, dues[DUES_OF_ONE];
    size_t due_n; /* rows that brought it here; 0: by hand */
    unsigned slot;
    const struct act *act; /* by hand: whose it must be */
    struct silences *silences;
    struct payment payment;
    struct str trouble; /* why it can be neither sent nor asked about */
    bool found, built;  /* the request was: none was stored */
    bool lost;          /* the job's lease */
};

/* ---- before the rule ---- */

static enum err look_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct turn *t = arg;
    struct refund r;
    struct payment p;
    enum err e = refund_load(tx, t->id, &r, info);

    t->found = !e && (!t->act || (r.caller == t->act->caller.id && r.no.slot == t->slot));
    if (!t->found)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if ((e = payment_load(tx, r.pay_no.id, &p, info)) ||
        (e = refund_sql_request(tx, r.no.id, &t->k.request, info)))
        return e;
    t->k.refund = refund_copy(t->k.arena, &r);
    t->payment = payment_copy(t->k.arena, &p);
    t->k.request.endpoint = str_keep(t->k.arena, t->k.request.endpoint);
    t->k.request.body = str_keep(t->k.arena, t->k.request.body);
    return ERR_OK;
}

/* The bytes of the first sending. */
static void build(struct turn *t)
{
    const struct refund *r = &t->k.refund;
    bool adopted = payment_is_adopted(&t->payment);
    struct refund_request request = {
        .pay_no = adopted ? STR_NONE : number_str(t->k.arena, r->pay_no),
        .transaction_id = adopted ? t->payment.transaction_id : STR_NONE,
        .refund_no = number_str(t->k.arena, r->no),
        .amount = r->amount,
        .total = t->payment.paid_amount,
        .reason = r->reason,
    };
    struct err_info info = { 0 };

    t->built = true;
    if (t->k.account->info->driver->refund_build(t->k.account, &request, t->k.arena, &t->k.request,
                                                 &info))
        t->trouble =
            str_printf(t->k.arena, "the channel would not take it: %s %s", info.field, info.text);
}

static void prepare(struct turn *t)
{
    t->k.account = registry_ref(t->k.c->registry, t->k.refund.account);
    if (!t->k.account)
        t->trouble = STR("its account is not configured any more");
    else if (!t->k.request.body.p && t->k.refund.step == REFUND_SEND)
        build(t);
}

/* ---- the rule ---- */

static bool its_turn(const struct turn *t, const struct refund *r, int64_t now_ms)
{
    bool scheduled = r->next_ms && (refund_is_open(r) || r->status == REFUND_FAILED);

    /* By hand also what is final, if the channel ever heard of it. */
    if (!t->due_n)
        return refund_is_open(r) || r->calls > 0;
    for (size_t i = 0; i < t->due_n; i++)
        if (scheduled && t->dues[i] == r->next_ms)
            return true; /* also where the clock has stepped back since */
    return scheduled && r->next_ms <= now_ms;
}

/* Nothing can be done before that time; what is done by hand leaves the schedule alone. */
static enum err wait_until(struct tx *tx, struct turn *t, struct refund *r, int64_t until_ms,
                           struct err_info *info)
{
    struct refund to = *r;

    to.next_ms = until_ms;
    return t->due_n ? refund_sql_keep(tx, r, &to, info) : ERR_OK;
}

static struct refund next_rung(const struct turn *t, const struct refund *r, int64_t now_ms)
{
    struct refund to = *r;

    to.turn_id = t->k.turn_id;
    to.query_count = r->query_count + 1;
    if (refund_is_open(r) || r->next_ms)
        to.next_ms = refund_next_turn(now_ms, r->query_count);
    return to;
}

static enum err send(struct tx *tx, struct turn *t, struct refund *r, struct payment *p,
                     struct err_info *info)
{
    int64_t now = tx_now_ms(tx), gap = t->k.account->info->refund_gap_ms, last;
    bool taken;
    enum err e = refund_sql_last_sent(tx, p->no.id, r->no.id, &last, info);

    if (e)
        return e;
    if (last && now < last + gap)
        return wait_until(tx, t, r, last + gap, info);
    if ((e = payment_refund_lease(tx, p, t->k.turn_id, now + t->k.c->settings.call_lease_ms, &taken,
                                  info)))
        return e;
    if (!taken)
        return wait_until(tx, t, r, p->call_until_ms, info);

    struct refund to = next_rung(t, r, now);
    to.step = REFUND_ASK; /* should nobody hear the answer */
    to.calls++;
    to.unknown_calls++;
    to.sent_ms = now;
    to.missing_count = to.missing_ms = 0;
    to.error_class = CLASS_NONE; /* an earlier refusal says nothing of this call */
    if (t->built && (e = refund_sql_set_request(tx, t->id, &t->k.request, info)))
        return e;
    t->k.did = REFUND_DID_SEND;
    return refund_sql_keep(tx, r, &to, info);
}

static enum err ask(struct tx *tx, struct turn *t, struct refund *r, struct err_info *info)
{
    struct refund to = next_rung(t, r, tx_now_ms(tx));

    t->k.did = REFUND_DID_ASK;
    return refund_sql_keep(tx, r, &to, info);
}

static enum err in_trouble(struct tx *tx, struct turn *t, struct refund *r, struct err_info *info)
{
    struct refund to = *r;

    to.query_count++;
    to.next_ms = refund_next_turn(tx_now_ms(tx), r->query_count);
    enum err e = refund_held(tx, r, "account", t->trouble, t->k.trace_id, info);
    return e ? e : refund_sql_keep(tx, r, &to, info);
}

/* Never given up by a timer; but somebody should know. */
static enum err age(struct tx *tx, struct turn *t, const struct refund *r, struct err_info *info)
{
    int64_t days = (tx_now_ms(tx) - r->create_ms) / 86400000;

    if (!refund_is_open(r) || tx_now_ms(tx) < r->create_ms + t->k.c->settings.refund_age_ms)
        return ERR_OK;
    return refund_held(tx, r, "age",
                       str_printf(tx_arena(tx), "still %s after %lld days",
                                  refund_status_name(r->status), (long long)days),
                       t->k.trace_id, info);
}

static enum err take_turn(struct tx *tx, struct turn *t, struct refund *r, struct payment *p,
                          struct err_info *info)
{
    enum err e = age(tx, t, r, info);

    if (e)
        return e;
    if (t->silences && silence_of(t->silences, r->account))
        return wait_until(tx, t, r, tx_now_ms(tx) + SILENT_AGAIN_MS, info);
    if (t->trouble.n)
        return in_trouble(tx, t, r, info);
    return r->step == REFUND_SEND && refund_is_open(r) ? send(tx, t, r, p, info)
                                                       : ask(tx, t, r, info);
}

static enum err turn_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct turn *t = arg;
    struct refund r;
    struct payment p;
    enum err e = shift_check(t->k.c, tx, &t->lost, info);

    t->k.did = REFUND_DID_NOTHING;
    if (e || t->lost)
        return e;
    t->k.turn_id = tx_new_id(tx);
    for (size_t i = 0; i < t->due_n; i++)
        if ((e = due_delete(tx, &refund_due, t->dues[i], t->id, info)))
            return e;
    if ((e = refund_load(tx, t->id, &r, info)) || (e = payment_load(tx, r.pay_no.id, &p, info)))
        return e;
    if (r.turn_id == t->k.turn_id) /* this very rule ran before */
        t->k.did = p.call_owner == t->k.turn_id ? REFUND_DID_SEND : REFUND_DID_ASK;
    else if (its_turn(t, &r, tx_now_ms(tx)) && (e = take_turn(tx, t, &r, &p, info)))
        return e;
    t->k.refund = refund_copy(t->k.arena, &r);
    return ERR_OK;
}

/* ---- the call ---- */

static enum code call(struct refund_call *k, struct refusal *refusal)
{
    const struct channel_driver *driver = k->account->info->driver;
    struct channel_ctx ctx = {
        .env = k->c->env, .transport = k->c->transport, .arena = k->arena, .trace_id = k->trace_id
    };
    bool sent = k->did == REFUND_DID_SEND;

    kill_point(sent ? "refund.leased" : "refund.asking");
    k->asked_ms = env_now_ms(k->c->env);
    if (sent)
        driver->refund(k->account, &ctx, &k->request, &k->answer);
    else
        driver->query_refund(k->account, &ctx, number_str(k->arena, k->refund.no), &k->answer);
    kill_point(sent ? "refund.answered" : "refund.query_answered");
    enum code code = refund_take_answer(k, refusal);
    kill_point(sent ? "refund.taken" : "refund.query_taken");
    return code;
}

static enum code do_turn(struct turn *t, struct refusal *refusal)
{
    enum code code = centre_read(t->k.c, "refund.look", t->slot, look_rule, t, refusal);

    if (code || !t->found)
        return code;
    if (!t->k.trace_id.n)
        t->k.trace_id = t->k.refund.trace_id;
    if (t->k.refund.origin ==
        REFUND_BY_CHANNEL) /* it stands there under a number that is not ours */
        return CODE_OK;
    prepare(t);
    code = centre_run(t->k.c, "refund.turn", t->k.class, t->slot, turn_rule, t, TURN_IDS, refusal);
    if (!code && t->lost)
        code = shift_lost(refusal);
    if (!code && t->k.did != REFUND_DID_NOTHING) {
        code = call(&t->k, refusal);
        if (t->silences)
            silence_note(t->silences, t->k.refund.account, &t->k.answer);
    }
    account_unref(t->k.account);
    return code;
}

/* ---- by hand ---- */

enum code refund_sync(struct centre *c, const struct act *act, struct number refund_no,
                      struct refund *ret, struct refusal *refusal)
{
    struct turn t = { .k = { .c = c,
                             .arena = act->arena,
                             .actor = act->actor,
                             .trace_id = act->trace_id,
                             .class = STORE_API },
                      .id = refund_no.id,
                      .slot = refund_no.slot,
                      .act = act };
    enum code code = do_turn(&t, refusal);

    return code ? code : refund_get(c, act, refund_no, ret, refusal);
}

/* ---- the job ---- */

struct due_page {
    int64_t until_ms;
    size_t max, n;
    struct refund_turn rows[DUE_PAGE];
};

static enum err due_page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due_page *p = arg;
    return refund_sql_due_page(tx, p->until_ms, p->max, p->rows, &p->n, info);
}

/* Several rows of one refund are one piece of work; those beyond DUES_OF_ONE wait for the next run.
 */
static size_t gather(const struct due_page *page, struct turn *work)
{
    size_t n = 0;

    for (size_t i = 0; i < page->n; i++) {
        size_t j = 0;
        while (j < n && work[j].id != page->rows[i].id)
            j++;
        if (j == n)
            work[n++] = (struct turn) { .id = page->rows[i].id, .slot = page->rows[i].slot };
        if (work[j].due_n < DUES_OF_ONE)
            work[j].dues[work[j].due_n++] = page->rows[i].due_ms;
    }
    return n;
}

enum err refund_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info)
{
    ARENA_AUTO pages = arena_new(sizeof(struct due_page) + DUE_PAGE * sizeof(struct turn) + 1024);
    ARENA_AUTO arena = arena_new(16384);
    struct due_page *page = arena_one(pages, struct due_page);
    struct turn *work = arena_array(pages, DUE_PAGE, sizeof *work);
    struct silences silences = { 0 };

    page->until_ms = env_now_ms(c->env);
    page->max = max < DUE_PAGE ? max : DUE_PAGE;
    enum err e = store_read(c->store, 0, "refund.due", due_page_rule, page, info);
    if (e)
        return e;
    size_t n = gather(page, work);
    size_t i = 0;
    for (; i < n && !shift_over(c); i++) {
        struct refusal refusal = { 0 };
        work[i].k = (struct refund_call) {
            .c = c, .arena = arena, .actor = STR("job:refunds"), .class = STORE_BACKGROUND
        };
        work[i].silences = &silences;
        if (do_turn(&work[i], &refusal) == CODE_BUSY)
            return err_set(info, ERR_BUSY, "the store is busy or the lease is lost");
        arena_reset(arena); /* one whose rule failed was logged; it must not stop the others */
    }
    *ret_done = i;
    return ERR_OK;
}
