/* retry.c -- failed callbacks, taken up again from their stored bytes: every 5 minutes, 10 times,
 * then incident CALLBACK_STUCK; by hand at any time.
 *
 * Bytes that were verified when they came in are read again without the time window, with the keys
 * of now. A number that no payment has is asked for at the channel: paid there, it is somebody's
 * money without a payment of ours, incident ORPHAN_PAYMENT, and the row rests. */
#include "core/callback/apply.h"
#include "core/call/call.h"
#include "core/callback/callback_sql.h"
#include "core/incident/incident.h"
#include "core/payment/silence.h"

#include "base/log.h"

#define HEADERS_MAX 64
#define PAGE_MAX    64

/* One row under way; everything in `a`. */
struct again {
    struct centre *c;
    struct arena *a;
    int64_t id, due; /* due 0: by hand */
    struct silences *silences;
    struct callback_stored stored;
    struct callback_input in;
    bool gone;             /* somebody else was here, or it is done */
    bool lost;             /* the job's lease */
    struct str unreadable; /* why there is no notice to apply */
    struct applied applied;
    struct fact unknown; /* a copy of applied.unknown */
    bool has_unknown;
    struct channel_answer asked; /* what the channel said of it */
    bool is_orphan;
    struct fact orphan;
};

static enum err load_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct again *g = arg;
    struct callback_stored s;
    enum err e = callback_sql_load(tx, g->id, &s, info);
    if (e)
        return e;

    struct str *texts[] = { &s.row.account, &s.row.kind, &s.row.subject_no, &s.row.transport_id,
                            &s.event_key,   &s.body,     &s.headers,        &s.trace_id };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->p)
            *texts[i] = str_dup(g->a, *texts[i]);
    g->stored = s;
    return ERR_OK;
}

/* "name: value" lines, as callback_headers_text wrote them. */
static struct http_headers headers_from(struct arena *a, struct str text)
{
    struct http_header *items = arena_array(a, HEADERS_MAX, sizeof *items);
    size_t n = 0;

    while (text.n && n < HEADERS_MAX) {
        struct str value = str_cut(&text, '\n'), name = str_cut(&value, ':');
        items[n++] = (struct http_header) { .name = name, .value = str_trim(value) };
    }
    return (struct http_headers) { items, n };
}

/* Reads the notice once more. What cannot be read now leaves its reason. */
static void read_again(struct again *g)
{
    struct account *account = g->in.account;
    struct err_info info = { .err = ERR_OK };
    struct http_headers headers = headers_from(g->a, g->stored.headers);
    struct notice_input input = { .body = g->stored.body, .headers = &headers, .stored = true };

    g->in.body = g->stored.body;
    g->in.headers_text = g->stored.headers;
    g->in.trace_id = g->stored.trace_id;
    switch (account->info->driver->read_notice(account, g->c->env, &input, g->a, &g->in.notice,
                                               &info)) {
    case NOTICE_OK:
        break;
    case NOTICE_RAW_ONLY:
        g->in.raw_only = true;
        break;
    case NOTICE_LATER:
        if (g->c->want_keys)
            g->c->want_keys(g->c->want_keys_ctx, account);
        g->unreadable = STR("its key is not known");
        break;
    case NOTICE_BAD:
        g->unreadable = str_printf(g->a, "does not verify any more: %s",
                                   notice_reason_name(g->in.notice.reason));
        break;
    }
    callback_prepare(&g->in, g->a);
}

static enum err stuck(struct tx *tx, const struct again *g, struct str reason,
                      struct err_info *info)
{
    struct incident incident = { .kind = INCIDENT_CALLBACK_STUCK,
                                 .subject = g->stored.row.no,
                                 .detail = reason,
                                 .trace_id = g->in.trace_id };
    return incident_open(tx, &incident, NULL, info);
}

static bool is_done(enum handle_result result)
{
    return result == HANDLE_DONE || result == HANDLE_NOTHING;
}

/* The row after a try: done, or its next time, or stuck. By hand it costs no try, and what was done
 * stays done. */
static enum err conclude(struct tx *tx, const struct again *g, const struct callback_stored *row,
                         enum handle_result result, struct str reason, struct err_info *info)
{
    int64_t id = g->id, retries = row->row.retry_count + (g->due ? 1 : 0), next = 0;
    bool failed = result == HANDLE_FAILED;
    enum err e = ERR_OK;

    if (is_done(row->row.result))
        return ERR_OK;
    if (failed && retries < CALLBACK_RETRIES)
        next =
            g->due || !row->next_retry_ms ? tx_now_ms(tx) + CALLBACK_RETRY_MS : row->next_retry_ms;
    if (row->next_retry_ms && row->next_retry_ms != next)
        e = due_delete(tx, &callback_due, row->next_retry_ms, id, info);
    if (!e && next && row->next_retry_ms != next)
        e = due_insert(tx, &callback_due, next, id, info);
    if (!e)
        e = callback_sql_result(tx, id, result, reason, retries, next, info);
    if (!e && failed && g->due && !next)
        e = stuck(tx, g, reason, info);
    if (!e && !failed)
        e = callback_recovered(tx, id, info);
    return e;
}

/* Is the row still what was read? Its next time moves with every try, so it also tells our own work
 * from before a lost answer. */
static enum err still_ours(struct tx *tx, struct again *g, struct callback_stored *ret_row,
                           struct err_info *info)
{
    enum err e = callback_sql_load(tx, g->id, ret_row, info);
    if (e)
        return e;
    g->gone = g->due && (is_done(ret_row->row.result) || ret_row->next_retry_ms != g->due);
    return g->gone ? due_delete(tx, &callback_due, g->due, g->id, info) : ERR_OK;
}

static enum err again_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct again *g = arg;
    struct callback_stored row;
    enum err e = shift_check(g->c, tx, &g->lost, info);

    g->has_unknown = false;
    if (e || g->lost || (e = still_ours(tx, g, &row, info)) || g->gone)
        return e;
    if (g->unreadable.n)
        return conclude(tx, g, &row, HANDLE_FAILED, g->unreadable, info);

    if ((e = callback_apply(tx, &g->in, g->id, &g->applied, info)))
        return e;
    g->in.moved = g->applied.moved;
    if (g->applied.unknown) {
        g->has_unknown = true;
        g->unknown = *g->applied.unknown;
    }
    if (!g->in.raw_only && g->in.subject.id != row.subject_id &&
        (e = callback_sql_read(tx, g->id, &g->in, info)))
        return e;
    return conclude(tx, g, &row, g->applied.result, g->applied.reason, info);
}

/* Our own rule failed again: that is a try, too. */
static enum err failed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct again *g = arg;
    struct callback_stored row;
    enum err e = still_ours(tx, g, &row, info);
    return e || g->gone ? e : conclude(tx, g, &row, HANDLE_FAILED, g->unreadable, info);
}

static enum err orphan(struct tx *tx, const struct again *g, struct err_info *info)
{
    struct callback_stored row;
    enum err e = callback_sql_load(tx, g->id, &row, info);
    if (e || row.row.result != HANDLE_FAILED)
        return e;

    struct incident incident = {
        .kind = INCIDENT_ORPHAN_PAYMENT,
        .subject = row.row.no,
        .discriminator = str_sub(g->orphan.transaction_id, 0, 128),
        .amount = g->orphan.amount,
        .detail = str_printf(tx_arena(tx),
                             STR_FMT " is paid at account " STR_FMT ": " STR_FMT
                                     ", and no payment of ours has this number",
                             STR_ARG(str_sub(g->orphan.pay_no, 0, 64)), STR_ARG(row.row.account),
                             STR_ARG(money_text(tx_arena(tx), g->orphan.amount))),
        .trace_id = row.trace_id,
    };
    if (row.next_retry_ms)
        e = due_delete(tx, &callback_due, row.next_retry_ms, g->id, info);
    if (!e)
        e = callback_sql_result(tx, g->id, HANDLE_FAILED,
                                STR("paid at the channel, no such payment"), row.row.retry_count, 0,
                                info);
    return e ? e : incident_open(tx, &incident, NULL, info);
}

/* The call's row first: found there, the answer was taken in already. */
static enum err asked_rule(struct tx *tx, void *arg, struct err_info *info)
{
    const struct again *g = arg;
    enum err e = call_insert(tx, tx_new_id(tx), CALL_QUERY, g->stored.row.no,
                             g->in.account->config.name, &g->asked, g->in.trace_id, info);

    if (e == ERR_EXISTS)
        return ERR_OK;
    return e || !g->is_orphan ? e : orphan(tx, g, info);
}

static enum store_outcome run(struct again *g, const char *name, store_rule *rule,
                              struct err_info *info)
{
    struct store_job job;
    store_job_init(&job, g->c->env, g->c->mint, CALLBACK_IDS);
    job.name = name;
    job.class = STORE_BACKGROUND;
    job.slot = g->stored.row.no.slot;
    job.rule = rule;
    job.arg = g;
    return store_run(g->c->store, &job, info);
}

static void ask_channel(struct again *g)
{
    struct account *account = g->in.account;
    struct channel_ctx ctx = {
        .env = g->c->env, .transport = g->c->transport, .arena = g->a, .trace_id = g->in.trace_id
    };
    struct err_info info = { .err = ERR_OK };

    g->asked = (struct channel_answer) { .outcome = CHANNEL_UNKNOWN };
    account->info->driver->query(account, &ctx, g->unknown.pay_no, &g->asked);
    silence_note(g->silences, account->config.name, &g->asked);
    for (size_t i = 0; i < g->asked.fact_count && g->asked.outcome == CHANNEL_DONE; i++)
        if (g->asked.facts[i].kind == FACT_PAID) {
            g->orphan = g->asked.facts[i];
            g->is_orphan = true;
        }
    if (run(g, "callback.asked", asked_rule, &info) != STORE_COMMITTED) {
        LOG(g->c->env->log, LOG_WARN, "callback.asked_failed", log_int("callback", g->id),
            log_cstr("error", info.text));
        return;
    }
    call_tell(g->c->env, CALL_QUERY, g->stored.row.no, account->config.name, &g->asked,
              g->in.trace_id);
    if (g->asked.unknown_key && g->c->want_keys)
        g->c->want_keys(g->c->want_keys_ctx, account);
}

/* *ret_found false: no such row. */
static enum err handle_again(struct again *g, struct err_info *info)
{
    enum err e = store_read(g->c->store, 0, "callback.load", load_rule, g, info);
    if (e)
        return e;

    g->in.account = registry_ref(g->c->registry, g->stored.row.account);
    if (g->in.account)
        read_again(g);
    else
        g->unreadable = STR("its account is not configured any more");

    enum store_outcome outcome = run(g, "callback.retry", again_rule, info);
    if (outcome == STORE_REFUSED && g->due) {
        g->unreadable = str_dup(g->a, str_sub(str_of(info->text), 0, 256));
        outcome = run(g, "callback.retry_failed", failed_rule, info);
    } else if (outcome == STORE_COMMITTED && !g->lost)
        callback_tell(g->c, &g->in);
    if (outcome == STORE_COMMITTED && g->has_unknown && g->in.account &&
        !silence_of(g->silences, g->in.account->config.name))
        ask_channel(g);
    if (g->in.account)
        account_unref(g->in.account);
    if (g->lost)
        return err_set(info, ERR_BUSY, "the lease is lost");
    return outcome == STORE_COMMITTED ? ERR_OK : outcome == STORE_REFUSED ? ERR_INTERNAL : ERR_BUSY;
}

/* ---- the job ---- */

struct due_page {
    struct callback_due list[PAGE_MAX];
    size_t max, n;
};

static enum err page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due_page *p = arg;
    return callback_due_sql_page(tx, p->max, p->list, &p->n, info);
}

enum err callback_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info)
{
    struct due_page page = { .max = max < PAGE_MAX ? max : PAGE_MAX };
    enum err e = store_read(c->store, 0, "callback.due", page_rule, &page, info);

    struct silences silences = { 0 };
    *ret_done = 0;
    for (size_t i = 0; i < page.n && !e && !shift_over(c); i++) {
        ARENA_AUTO a = arena_new(16384);
        struct again g = {
            .c = c, .a = a, .id = page.list[i].id, .due = page.list[i].due, .silences = &silences
        };
        arena_mark_secret(a); /* decrypted texts */
        e = handle_again(&g, info);
        *ret_done += !e;
    }
    return e;
}

enum code callback_replay(struct centre *c, const struct act *act, int64_t callback_id,
                          enum handle_result *ret, struct refusal *refusal)
{
    ARENA_AUTO a = arena_new(16384);
    struct silences silences = { 0 };
    struct again g = { .c = c, .a = a, .id = callback_id, .silences = &silences };
    struct err_info info = { .err = ERR_OK };

    (void)act;
    arena_mark_secret(a);
    enum err e = handle_again(&g, &info);
    if (e == ERR_NOT_FOUND)
        return refuse(refusal, CODE_NOT_FOUND);
    if (e)
        return refuse(refusal, e == ERR_BUSY ? CODE_BUSY : CODE_INTERNAL);
    *ret = g.unreadable.n ? HANDLE_FAILED : g.applied.result;
    return CODE_OK;
}

/* ---- by an operator's word ---- */

/* The row's next time, and how many tries it has had; its due row goes with them. */
static enum err set_next(struct tx *tx, const struct callback_stored *row,
                         enum handle_result result, struct str reason, int64_t next,
                         struct err_info *info)
{
    int64_t id = row->row.no.id;
    enum err e = ERR_OK;

    if (row->next_retry_ms)
        e = due_delete(tx, &callback_due, row->next_retry_ms, id, info);
    if (!e && next)
        e = due_insert(tx, &callback_due, next, id, info);
    return e ? e : callback_sql_result(tx, id, result, reason, 0, next, info);
}

enum err callback_retry(struct tx *tx, int64_t callback_id, bool *ret_failed, struct err_info *info)
{
    struct callback_stored row;
    enum err e = callback_sql_load(tx, callback_id, &row, info);

    if (e)
        return e;
    *ret_failed = row.row.result == HANDLE_FAILED;
    return *ret_failed ? set_next(tx, &row, HANDLE_FAILED, row.row.reason, tx_now_ms(tx), info)
                       : ERR_OK;
}

enum err callback_settled(struct tx *tx, int64_t callback_id, struct str how, struct err_info *info)
{
    struct callback_stored row;
    enum err e = callback_sql_load(tx, callback_id, &row, info);

    return e || row.row.result != HANDLE_FAILED ? e : set_next(tx, &row, HANDLE_DONE, how, 0, info);
}
