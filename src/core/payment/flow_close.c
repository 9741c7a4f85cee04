/* flow_close.c -- asking the channel and closing: what the API asks for by hand, and what the jobs
 * do by the clock.
 *
 * The close protocol (rules.md section 4) begins with a durable request, so that the job goes on
 * with it after a crash: lease (exclusive with prepay), query, paid: done; else close at the
 * channel; whatever that answers but "shut" is asked again. Unknown: nothing now, later again. */
#include "core/payment/flow.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "core/payment/flow_call.h"
#include "core/payment/payment_sql.h"
#include "core/payment/silence.h"

#define DUE_PAGE        256
#define DUES_OF_ONE     4 /* rows of one payment in a page; more wait for the next */
#define CLOSE_CALLS     3 /* query, close, query */
#define SETTLE_AGAIN_MS 60000
#define SILENT_AGAIN_MS 60000

/* ---- reading ---- */

struct get_rule {
    const struct act *act; /* NULL: whoever asks */
    struct number no;
    struct arena *arena;
    struct payment payment;
    bool found;
};

static enum err get_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct get_rule *g = arg;
    struct payment p;
    enum err e = payment_load(tx, g->no.id, &p, info);

    g->found = false;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (g->act && (p.caller != g->act->caller.id || p.no.slot != g->no.slot))
        return ERR_OK;
    g->found = true;
    g->payment = payment_copy(g->arena, &p);
    return ERR_OK;
}

enum code payment_get(struct centre *c, const struct act *act, struct number pay_no,
                      struct payment *ret, struct refusal *refusal)
{
    struct get_rule g = { .act = act, .no = pay_no, .arena = act->arena };
    enum code code = centre_read(c, "payment.get", pay_no.slot, get_rule, &g, refusal);

    if (code)
        return code;
    if (!g.found)
        return refuse(refusal, CODE_PAYMENT_NOT_FOUND);
    *ret = g.payment;
    return CODE_OK;
}

enum err payment_client(struct centre *c, const struct payment *p, struct arena *a,
                        struct json_out *out, bool *ret_given, struct err_info *info)
{
    int64_t now = env_now_ms(c->env);

    *ret_given = false;
    if (!payment_is_open(p) || p->close_requested != CLOSE_NO || p->quarantined || p->superseded ||
        p->credentials.n == 0 || p->expire_ms <= now ||
        (p->credential_expire_ms != 0 && p->credential_expire_ms <= now))
        return ERR_OK;
    struct account *account = registry_ref(c->registry, p->account);
    if (!account)
        return ERR_OK;
    enum err e = account->info->driver->client_params(account, c->env, p->method, p->credentials, a,
                                                      out, info);
    account_unref(account);
    if (!e)
        *ret_given = true;
    return e;
}

/* ---- asking by hand ---- */

enum code payment_sync(struct centre *c, const struct act *act, struct number pay_no,
                       struct payment *ret, struct refusal *refusal)
{
    struct payment p;
    struct call k;
    enum code code = payment_get(c, act, pay_no, &p, refusal);

    if (code)
        return code;
    if (payment_is_adopted(&p)) { /* the channel may know it by another number */
        *ret = p;
        return CODE_OK;
    }
    call_begin(&k, c, &p, act->arena, act->actor, act->trace_id, STORE_API);
    code = call_query(&k, refusal);
    call_end(&k);
    if (!code)
        *ret = k.payment;
    return code;
}

/* ---- the close protocol ---- */

static bool can_close(const struct call *k)
{
    return k->account && (k->account->info->capabilities & CHANNEL_CAN_CLOSE);
}

/* Between lease and release. The channel's word on the first query decides whether there is
 * anything to close. */
static enum code close_protocol(struct call *k, struct refusal *refusal)
{
    if (mutation_on(MUTATION_CLOSE_UNASKED))
        return call_close(k, refusal);
    enum code code = call_query(k, refusal);

    if (code || !payment_close_waits(&k->payment))
        return code;
    if (k->answer.outcome != CHANNEL_DONE && !k->answer.not_exist)
        return CODE_OK; /* nobody knows: later again */
    if (!can_close(k))
        return call_expire(k, refusal);
    if ((code = call_close(k, refusal)) || !payment_close_waits(&k->payment))
        return code;
    if (k->answer.outcome == CHANNEL_UNKNOWN || k->answer.class == CLASS_QUERY ||
        k->answer.class == CLASS_FINAL)
        return call_query(k, refusal);
    return CODE_OK;
}

enum err payment_close_step(struct centre *c, int64_t pay_id, struct str actor,
                            struct silences *silences, bool *ret_open, struct err_info *info)
{
    ARENA_AUTO arena = arena_new(16384);
    struct refusal refusal = { 0 };
    struct get_rule g = { .no = { .id = pay_id }, .arena = arena };
    struct call k;
    bool taken = false;

    if (centre_read(c, "payment.get", 0, get_rule, &g, &refusal))
        return err_set(info, ERR_BUSY, "%s", code_info(refusal.code)->name);
    if (!g.found)
        return err_set(info, ERR_NOT_FOUND, "no payment %lld", (long long)pay_id);
    if (silences && silence_of(silences, g.payment.account)) {
        *ret_open = true;
        return ERR_OK;
    }

    call_begin(&k, c, &g.payment, arena, actor, g.payment.trace_id, STORE_BACKGROUND);
    enum code code =
        call_lease(&k, LEASE_CLOSE, CLOSE_CALLS * c->settings.call_lease_ms, &taken, &refusal);
    if (!code && taken) {
        kill_point("close.leased");
        code = close_protocol(&k, &refusal);
        if (silences)
            silence_note(silences, k.account_name, &k.answer);
        /* Given back also when the store failed on the way, if it now can. */
        enum code released = call_release(&k, &refusal);
        if (!code)
            code = released;
        kill_point("close.released");
    }
    call_end(&k);
    if (code)
        return err_set(info, code == CODE_BUSY ? ERR_BUSY : ERR_INTERNAL, "%s",
                       code_info(code)->name);
    *ret_open = payment_is_open(&k.payment) || payment_close_waits(&k.payment);
    return ERR_OK;
}

struct request_rule {
    const struct act *act;
    struct number no;
    bool found;
    struct payment payment;
};

static enum err request_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct request_rule *r = arg;
    struct payment p;
    enum err e = payment_load(tx, r->no.id, &p, info);

    r->found = false;
    if (e)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (p.caller != r->act->caller.id || p.no.slot != r->no.slot)
        return ERR_OK;
    r->found = true;
    if ((e = payment_request_close(tx, &p, CLOSE_CALLER, info)))
        return e;
    r->payment = payment_copy(r->act->arena, &p);
    return ERR_OK;
}

enum code payment_close(struct centre *c, const struct act *act, struct number pay_no,
                        struct payment *ret, bool *ret_closing, struct refusal *refusal)
{
    struct request_rule r = { .act = act, .no = pay_no };
    struct err_info info = { 0 };
    bool open = false;
    enum code code = centre_run(c, "payment.request_close", STORE_API, pay_no.slot, request_rule,
                                &r, 0, refusal);

    if (code)
        return code;
    if (!r.found)
        return refuse(refusal, CODE_PAYMENT_NOT_FOUND);
    kill_point("close.requested");
    if (payment_close_waits(&r.payment)) {
        /* The request is durable: what fails here is the job's. */
        if (payment_close_step(c, pay_no.id, act->actor, NULL, &open, &info))
            LOG(c->env->log, LOG_WARN, "close.failed", log_int("pay_id", pay_no.id),
                log_cstr("text", info.text));
        if ((code = payment_get(c, act, pay_no, &r.payment, refusal)))
            return code;
    }
    if (r.payment.status == PAYMENT_SUCCESS ||
        (r.payment.quarantined && payment_is_open(&r.payment)))
        return refuse_field(refusal, CODE_PAYMENT_STATE, NULL,
                            r.payment.quarantined ? STR("its money is being examined")
                                                  : STR("it has been paid"));
    *ret = r.payment;
    *ret_closing = payment_is_open(&r.payment);
    return CODE_OK;
}

/* ---- the job ---- */

enum due_act { DUE_NOTHING, DUE_QUERY, DUE_CLOSE };

struct due {
    struct centre *c;
    struct arena *arena;
    int64_t id, dues[DUES_OF_ONE];
    size_t due_n;
    unsigned slot;
    struct silences *silences;
    enum due_act act;
    bool lost; /* the job's lease */
    struct payment payment;
};

/* An attempt that is open: what to do now, and when to come back, written before it is done. */
static enum err take_open(struct tx *tx, struct due *d, struct payment *p, struct err_info *info)
{
    int64_t now = tx_now_ms(tx), stuck = d->c->settings.query_stuck_ms;
    enum err e;

    if (p->close_requested == CLOSE_NO && p->expire_ms <= now &&
        (e = payment_sql_close_requested(tx, p, CLOSE_EXPIRY, info)))
        return e;
    bool silent = silence_of(d->silences, p->account);
    if (p->close_requested != CLOSE_NO && silent) /* not asked: no rung is used up */
        return due_insert(tx, &payment_due, now + SILENT_AGAIN_MS, p->no.id, info);
    if (p->close_requested != CLOSE_NO) {
        d->act = DUE_CLOSE;
        return payment_sql_schedule(tx, p, payment_next_close(now, p->expire_ms, stuck),
                                    p->query_count, info);
    }
    if (!silent)
        d->act = DUE_QUERY;
    /* An extra wake-up: its rung is still to come. Or the clock stepped back since the page was
     * read, and the rung's own row was taken away just now. */
    if (p->next_query_ms > now)
        return due_insert(tx, &payment_due, p->next_query_ms, p->no.id, info);
    if (silent) /* not asked: it stays on its rung */
        return due_insert(tx, &payment_due, now + SILENT_AGAIN_MS, p->no.id, info);
    return payment_sql_schedule(tx, p, payment_next_query(now, p->query_count + 1, p->expire_ms),
                                p->query_count + 1, info);
}

/* A success keeps its row until its order has it. */
static enum err take_success(struct tx *tx, const struct centre_settings *settings,
                             struct payment *p, struct err_info *info)
{
    struct order o;
    enum err e;

    if (p->settled != SETTLED_NO)
        return ERR_OK;
    if ((e = order_settle(tx, settings, p->order_no.id, &o, info)) ||
        (e = payment_load(tx, p->no.id, p, info)))
        return e;
    if (p->settled != SETTLED_NO)
        return ERR_OK;
    return due_insert(tx, &payment_due, tx_now_ms(tx) + SETTLE_AGAIN_MS, p->no.id, info);
}

static enum err due_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due *d = arg;
    struct payment p;
    enum err e = shift_check(d->c, tx, &d->lost, info);

    d->act = DUE_NOTHING;
    if (e || d->lost)
        return e;
    for (size_t i = 0; i < d->due_n; i++)
        if ((e = due_delete(tx, &payment_due, d->dues[i], d->id, info)))
            return e;
    if ((e = payment_load(tx, d->id, &p, info)))
        return e;
    switch (p.status) {
    case PAYMENT_INIT:
    case PAYMENT_PAYING:
        if (!p.quarantined)
            e = take_open(tx, d, &p, info);
        break;
    case PAYMENT_SUCCESS:
        e = take_success(tx, &d->c->settings, &p, info);
        break;
    case PAYMENT_FAILED:
    case PAYMENT_CLOSED:
        if (payment_close_waits(&p)) {
            int64_t now = tx_now_ms(tx);
            bool silent = silence_of(d->silences, p.account);
            d->act = silent ? DUE_NOTHING : DUE_CLOSE;
            e = due_insert(
                tx, &payment_due,
                silent ? now + SILENT_AGAIN_MS
                       : payment_next_close(now, p.expire_ms, d->c->settings.query_stuck_ms),
                p.no.id, info);
        }
        break;
    }
    if (!e)
        d->payment = payment_copy(d->arena, &p);
    return e;
}

static enum code do_due(struct due *d, struct refusal *refusal)
{
    struct err_info info = { 0 };
    struct call k;
    bool open;
    enum code code = centre_run(d->c, "payment.due", STORE_BACKGROUND, d->slot, due_rule, d,
                                ORDER_SETTLE_IDS, refusal);

    if (code)
        return code;
    if (d->lost)
        return shift_lost(refusal);
    kill_point("due.taken");
    switch (d->act) {
    case DUE_NOTHING:
        return CODE_OK;
    case DUE_QUERY:
        call_begin(&k, d->c, &d->payment, d->arena, STR("job:query"), d->payment.trace_id,
                   STORE_BACKGROUND);
        code = call_query(&k, refusal);
        silence_note(d->silences, k.account_name, &k.answer);
        call_end(&k);
        return code;
    case DUE_CLOSE:
        if (payment_close_step(d->c, d->id, STR("job:close"), d->silences, &open, &info) ==
            ERR_BUSY)
            return refuse(refusal, CODE_BUSY);
        return CODE_OK;
    }
    return CODE_OK;
}

struct due_page {
    int64_t until_ms;
    size_t max, newest_n, oldest_n;
    struct payment_due newest[DUE_PAGE], oldest[DUE_PAGE];
};

static enum err due_page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due_page *p = arg;
    enum err e = payment_sql_due_page(tx, p->until_ms, true, p->max, p->newest, &p->newest_n, info);

    return e ? e
             : payment_sql_due_page(tx, p->until_ms, false, p->max, p->oldest, &p->oldest_n, info);
}

/* Adds a row to the work; several rows of one payment are one piece of it. */
static void add_due(struct due *work, size_t *n, const struct payment_due *row)
{
    for (size_t i = 0; i < *n; i++) {
        if (work[i].id != row->id)
            continue;
        for (size_t j = 0; j < work[i].due_n; j++)
            if (work[i].dues[j] == row->due_ms)
                return;
        if (work[i].due_n < DUES_OF_ONE)
            work[i].dues[work[i].due_n++] = row->due_ms;
        return;
    }
    work[(*n)++] =
        (struct due) { .id = row->id, .dues = { row->due_ms }, .due_n = 1, .slot = row->slot };
}

/* Newest first, because there somebody waits at a screen; every fourth place is the oldest's, so
 * that none waits for ever. */
static size_t choose(const struct due_page *p, struct due *work)
{
    size_t n = 0, newest = 0, oldest = 0;

    while (n < p->max && (newest < p->newest_n || oldest < p->oldest_n)) {
        bool old = newest == p->newest_n || (n % 4 == 3 && oldest < p->oldest_n);
        add_due(work, &n, old ? &p->oldest[oldest++] : &p->newest[newest++]);
    }
    return n;
}

enum err payment_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info)
{
    ARENA_AUTO pages = arena_new(sizeof(struct due_page) + DUE_PAGE * sizeof(struct due) + 1024);
    ARENA_AUTO arena = arena_new(16384);
    struct due_page *page = arena_one(pages, struct due_page);
    struct due *work = arena_array(pages, DUE_PAGE, sizeof *work);
    struct silences silences = { 0 };

    page->until_ms = env_now_ms(c->env);
    page->max = max < DUE_PAGE ? max : DUE_PAGE;
    enum err e = store_read(c->store, 0, "payment.due", due_page_rule, page, info);
    if (e)
        return e;
    size_t n = choose(page, work);
    size_t i = 0;
    for (; i < n && !shift_over(c); i++) {
        struct refusal refusal = { 0 };
        work[i].c = c;
        work[i].arena = arena;
        work[i].silences = &silences;
        if (do_due(&work[i], &refusal) == CODE_BUSY)
            return err_set(info, ERR_BUSY, "the store is busy or the lease is lost");
        arena_reset(
            arena); /* a payment whose rule failed was logged; it must not stop the others */
    }
    *ret_done = i;
    return ERR_OK;
}
