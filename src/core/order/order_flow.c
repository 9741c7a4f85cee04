/* order_flow.c -- what the API and the jobs do with orders: short rules, with the closing of
 * attempts between them, outside any transaction.
 *
 * Results are copied into the caller's arena inside the rule: the rule's own memory dies with it.
 */
#include "core/order/order.h"

#include "base/killpoint.h"
#include "base/log.h"
#include "core/order/order_new.h"
#include "core/order/order_sql.h"
#include "core/payment/flow.h"
#include "core/payment/silence.h"

#define WAIT_MS      60000LL
#define LONG_WAIT_MS (60 * WAIT_MS)
#define DUE_PAGE     256
#define SWEEP_PAGE   500
#define ATTEMPTS_MAX 64 /* closed in one go; the rest is the payment job's */

static struct order copy_order(struct arena *a, const struct order *o)
{
    struct order c = *o;

    c.merchant_order_no = str_keep(a, o->merchant_order_no);
    c.user_id = str_keep(a, o->user_id);
    c.subject = str_keep(a, o->subject);
    c.transaction_id = str_keep(a, o->transaction_id);
    c.cancel_reason = str_keep(a, o->cancel_reason);
    c.request_id = str_keep(a, o->request_id);
    c.remark = str_keep(a, o->remark);
    c.trace_id = str_keep(a, o->trace_id);
    c.items = arena_array(a, o->item_count ? o->item_count : 1, sizeof *c.items);
    for (size_t i = 0; i < o->item_count; i++) {
        c.items[i] = o->items[i];
        c.items[i].sku = str_keep(a, o->items[i].sku);
        c.items[i].name = str_keep(a, o->items[i].name);
    }
    return c;
}

static enum err give(struct tx *tx, struct order *o, struct arena *a, struct order *ret,
                     struct err_info *info)
{
    enum err e = order_load_items(tx, o, info);
    if (!e)
        *ret = copy_order(a, o);
    return e;
}

static void log_moved(struct centre *c, const struct order *o, enum order_status from,
                      struct str trace_id)
{
    struct number_text no = number_text(o->no), pay_no = number_text(o->pay_no);

    if (o->status == from)
        return;
    LOG(c->env->log, LOG_INFO, "order.moved", log_cstr("order_no", no.s),
        log_cstr("from", order_status_name(from)), log_cstr("to", order_status_name(o->status)),
        log_cstr("pay_no", number_is(o->pay_no) ? pay_no.s : ""), log_str("trace_id", trace_id));
}

/* ---- create ---- */

struct create {
    const struct order_draft *draft;
    struct arena *arena;
    struct order order;
    bool created;
};

static enum err insert(struct tx *tx, struct order *o, struct str order_key, int64_t expire_in_ms,
                       const struct act *act, struct err_info *info)
{
    struct journal_row row;
    struct evidence evidence = { .actor = act->actor };
    enum err e;

    o->create_ms = o->update_ms = tx_now_ms(tx);
    o->expire_ms = expire_in_ms ? o->create_ms + expire_in_ms : 0;
    if ((e = journal_next(tx, o->no, &o->journal, -1, (int)o->status, CAUSE_CREATED, &evidence,
                          act->trace_id, STR_NONE, &row, &o->journal, info)))
        return e;
    if ((e = order_sql_insert(tx, o, order_key, info)))
        return e;
    for (size_t i = 0; i < o->item_count; i++)
        if ((e = order_sql_insert_item(tx, o->no.id, &o->items[i], info)))
            return e;
    if (o->expire_ms && (e = due_insert(tx, &order_due, o->expire_ms, o->no.id, info)))
        return e;
    return journal_insert(tx, &row, info);
}

struct create_rule {
    struct create *create;
    const struct act *act;
};

static enum err create_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct create_rule *r = arg;
    struct create *c = r->create;
    struct order o = c->draft->order;
    int64_t id = tx_new_id(tx);

    if (id == 0)
        return err_internal(info, "no id for an order");
    o.no = number_make(NUMBER_ORDER, o.no.slot, id);
    struct str order_key = c->draft->order_key;
    if (!order_key.p)
        order_key = str_printf(tx_arena(tx), "o%s", number_text(o.no).s);

    enum err e = insert(tx, &o, order_key, c->draft->expire_in_ms, r->act, info);
    if (e == ERR_EXISTS) {
        if ((e = order_sql_find(tx, o.caller, order_key, &o, info)))
            return e;
    } else if (e) {
        return e;
    }
    c->created = o.no.id == id; /* also when a lost COMMIT made us find our own row */
    return give(tx, &o, c->arena, &c->order, info);
}

enum code order_create(struct centre *c, const struct act *act, const struct order_new *o,
                       struct order *ret, bool *ret_created, struct refusal *refusal)
{
    struct order_draft draft;
    struct create create = { .draft = &draft, .arena = act->arena };
    enum code code = order_draft(c, act, o, &draft, refusal);
    if (!code)
        code = centre_run(c, "order.create", STORE_API, draft.order.no.slot, create_rule,
                          &(struct create_rule) { &create, act }, 2, refusal);
    if (code)
        return code;
    if (!create.created) {
        const char *field = order_difference(act->arena, &create.order, &draft);
        if (field)
            return refuse_field(refusal, CODE_ORDER_MISMATCH, field, STR_NONE);
    }
    *ret = create.order;
    *ret_created = create.created;
    return CODE_OK;
}

/* ---- read ---- */

struct get {
    int64_t caller;
    struct number no; /* or: */
    struct str order_key;
    struct arena *arena;
    struct order order;
    bool found;
};

static enum err get_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct get *g = arg;
    struct order o;

    g->found = false;
    enum err e = number_is(g->no) ? order_load(tx, g->no.id, &o, info)
                                  : order_sql_find(tx, g->caller, g->order_key, &o, info);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e)
        return e;
    if (o.caller != g->caller || (number_is(g->no) && o.no.slot != g->no.slot))
        return ERR_OK;
    g->found = true;
    return give(tx, &o, g->arena, &g->order, info);
}

static enum code get(struct centre *c, unsigned slot, struct get *g, struct order *ret,
                     struct refusal *refusal)
{
    enum code code = centre_read(c, "order.get", slot, get_rule, g, refusal);
    if (code)
        return code;
    if (!g->found)
        return refuse(refusal, CODE_ORDER_NOT_FOUND);
    *ret = g->order;
    return CODE_OK;
}

enum code order_get(struct centre *c, const struct act *act, struct number order_no,
                    struct order *ret, struct refusal *refusal)
{
    struct get g = { .caller = act->caller.id, .no = order_no, .arena = act->arena };

    return get(c, order_no.slot, &g, ret, refusal);
}

enum code order_find(struct centre *c, const struct act *act, struct str merchant_order_no,
                     struct order *ret, struct refusal *refusal)
{
    if (!order_merchant_no_ok(merchant_order_no))
        return refuse(refusal, CODE_ORDER_NOT_FOUND);
    struct get g = {
        .caller = act->caller.id,
        .order_key = str_printf(act->arena, "m" STR_FMT, STR_ARG(merchant_order_no)),
        .arena = act->arena,
    };
    return get(c, order_slot(act, merchant_order_no), &g, ret, refusal);
}

struct list_rule {
    int64_t caller;
    const struct order_filter *filter;
    struct arena *arena;
    struct order *orders;
    size_t n;
};

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct list_rule *l = arg;
    struct order *rows =
        arena_array(tx_arena(tx), l->filter->limit ? l->filter->limit : 1, sizeof *rows);

    enum err e = order_sql_list(tx, l->caller, l->filter, rows, &l->n, info);
    if (e)
        return e;
    l->orders = arena_array(l->arena, l->n ? l->n : 1, sizeof *l->orders);
    for (size_t i = 0; i < l->n; i++)
        l->orders[i] = copy_order(l->arena, &rows[i]);
    return ERR_OK;
}

enum code order_list(struct centre *c, const struct act *act, const struct order_filter *f,
                     struct order **ret, size_t *ret_n, struct refusal *refusal)
{
    struct list_rule l = { .caller = act->caller.id, .filter = f, .arena = act->arena };
    enum code code = centre_read(c, "order.list", 0, list_rule, &l, refusal);
    if (code)
        return code;
    *ret = l.orders;
    *ret_n = l.n;
    return CODE_OK;
}

/* ---- cancel, expiry ---- */

#define CANCEL_IDS (ORDER_SETTLE_IDS + 2)

struct cancel {
    const struct centre *c;
    const struct act *act;
    int64_t order_id;
    unsigned slot;
    bool check_caller;
    int64_t stuck_ms;      /* after so long it is looked at more seldom */
    enum order_cancel why; /* CANCEL_NO: only goes on with what is requested */
    struct str reason;
    int64_t due_ms;   /* the due row that brought us, taken away; 0: none */
    int64_t again_ms; /* the one it left in its place */
    struct order order;
    enum order_status from;
    bool found, done;
    bool lost;                  /* the job's lease */
    struct silences *silences;  /* of the job's round; by hand NULL */
    int64_t open[ATTEMPTS_MAX]; /* attempts whose close is requested */
    size_t open_n;
};

static bool payable_status(enum order_status s)
{
    return s == ORDER_WAIT_PAY || s == ORDER_PAYING || s == ORDER_PAY_FAILED;
}

static enum err collect_open(struct tx *tx, struct cancel *k, struct err_info *info)
{
    struct payment_brief *briefs;
    size_t n;
    enum err e = payments_brief(tx, k->order_id, &briefs, &n, info);

    k->open_n = 0;
    for (size_t i = 0; !e && i < n && k->open_n < ATTEMPTS_MAX; i++)
        if (briefs[i].status <= PAYMENT_PAYING && briefs[i].close_requested != CLOSE_NO)
            k->open[k->open_n++] = briefs[i].id;
    return e;
}

/* As an attempt's close: every minute, hourly once it has waited long. Counted from the request, so
 * that however often it is repeated it leaves one row. */
static int64_t next_look(int64_t now_ms, int64_t requested_ms, int64_t stuck_ms)
{
    int64_t waited_ms = now_ms - requested_ms,
            step_ms = waited_ms < stuck_ms ? WAIT_MS : LONG_WAIT_MS;

    return requested_ms + (waited_ms / step_ms + 1) * step_ms;
}

/* Settle, ask for the cancel, do it if nothing stands in the way; else come back. */
static enum err cancel_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct cancel *k = arg;
    struct order o;
    enum err e = k->again_ms ? ERR_OK : shift_check(k->c, tx, &k->lost, info);

    if (e || k->lost)
        return e;
    k->found = k->done = false;
    k->open_n = 0;
    if ((e = order_load(tx, k->order_id, &o, info)))
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (k->check_caller && (o.caller != k->act->caller.id || o.no.slot != k->slot))
        return ERR_OK;
    k->found = true;
    k->from = o.status;
    if (!mutation_on(MUTATION_CANCEL_UNSETTLED) &&
        (e = order_settle(tx, &k->c->settings, k->order_id, &o, info)))
        return e;
    if (k->due_ms && (e = due_delete(tx, &order_due, k->due_ms, k->order_id, info)))
        return e;
    if (payable_status(o.status)) {
        enum order_cancel why = k->why;
        if (why == CANCEL_NO && o.expire_ms && o.expire_ms <= tx_now_ms(tx))
            why = CANCEL_EXPIRY;
        if (o.cancel_requested != CANCEL_NO)
            why = o.cancel_requested;
        if (why != CANCEL_NO && (e = order_request_cancel(tx, &o, why, k->reason, info)))
            return e;
        if ((e = order_try_cancel(tx, &o, k->act, &k->done, info)))
            return e;
        if (why == CANCEL_NO && k->due_ms && o.expire_ms &&
            (e = due_insert(tx, &order_due, o.expire_ms, k->order_id, info)))
            return e; /* not expired any more: the clock stepped back since the page was read */
        if (!k->done && why != CANCEL_NO) {
            k->again_ms = next_look(tx_now_ms(tx), o.cancel_ms, k->stuck_ms);
            if ((e = due_insert(tx, &order_due, k->again_ms, k->order_id, info)) ||
                (e = collect_open(tx, k, info)))
                return e;
        }
    }
    k->done = o.status == ORDER_CANCELLED;
    return give(tx, &o, k->act->arena, &k->order, info);
}

/* Once, the attempts in between, and once more. */
static enum code cancel_flow(struct centre *c, struct cancel *k, enum store_class class,
                             struct refusal *refusal)
{
    enum code code =
        centre_run(c, "order.cancel", class, k->slot, cancel_rule, k, CANCEL_IDS, refusal);
    if (!code && k->lost)
        return shift_lost(refusal);
    if (code || !k->found)
        return code;
    log_moved(c, &k->order, k->from, k->act->trace_id);
    if (k->open_n == 0)
        return CODE_OK;

    kill_point("cancel.requested");
    for (size_t i = 0; i < k->open_n; i++) {
        struct err_info info = { 0 };
        bool open;
        if (payment_close_step(c, k->open[i], k->act->actor, k->silences, &open, &info))
            LOG(c->env->log, LOG_WARN, "close.failed", log_int("pay_id", k->open[i]),
                log_cstr("text", info.text));
    }
    kill_point("cancel.closed");
    k->due_ms = k->again_ms;
    code = centre_run(c, "order.cancel", class, k->slot, cancel_rule, k, CANCEL_IDS, refusal);
    if (!code)
        log_moved(c, &k->order, k->from, k->act->trace_id);
    return code;
}

enum code order_cancel(struct centre *c, const struct act *act, struct number order_no,
                       struct str reason, struct order *ret, bool *ret_closing,
                       struct refusal *refusal)
{
    struct cancel k = {
        .c = c,
        .act = act,
        .order_id = order_no.id,
        .slot = order_no.slot,
        .check_caller = true,
        .stuck_ms = c->settings.query_stuck_ms,
        .why = CANCEL_CALLER,
        .reason = reason,
    };
    enum code code = cancel_flow(c, &k, STORE_API, refusal);
    if (code)
        return code;
    if (!k.found)
        return refuse(refusal, CODE_ORDER_NOT_FOUND);
    if (k.order.status == ORDER_PAID || k.order.status == ORDER_COMPLETED)
        return refuse(refusal, CODE_ORDER_ALREADY_PAID);
    *ret = k.order;
    *ret_closing = !k.done;
    return CODE_OK;
}

struct due_page {
    int64_t until_ms;
    size_t max, n;
    struct order_due rows[DUE_PAGE];
};

static enum err due_page_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct due_page *p = arg;

    return order_sql_due_page(tx, p->until_ms, p->max, p->rows, &p->n, info);
}

enum err order_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info)
{
    struct due_page page = { .until_ms = env_now_ms(c->env),
                             .max = max < DUE_PAGE ? max : DUE_PAGE };
    enum err e = store_read(c->store, 0, "order.due", due_page_rule, &page, info);
    if (e)
        return e;

    ARENA_AUTO arena = arena_new(8192);
    struct silences silences = { 0 };
    size_t i = 0;
    for (; i < page.n && !shift_over(c); i++) {
        struct refusal refusal;
        struct act act = { .actor = STR("job:order"), .arena = arena };
        struct cancel k = { .c = c,
                            .act = &act,
                            .order_id = page.rows[i].id,
                            .slot = page.rows[i].slot,
                            .stuck_ms = c->settings.query_stuck_ms,
                            .due_ms = page.rows[i].due_ms,
                            .silences = &silences };
        if (cancel_flow(c, &k, STORE_BACKGROUND, &refusal) == CODE_BUSY)
            return err_set(info, ERR_BUSY, "the store is busy or the lease is lost");
        arena_reset(arena); /* an order whose rule failed was logged; it must not stop the others */
    }
    *ret_done = i;
    return ERR_OK;
}

/* ---- complete ---- */

struct complete {
    const struct centre_settings *settings;
    const struct act *act;
    struct number no;
    struct order order;
    enum order_status from;
    bool found;
};

static enum err complete_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct complete *k = arg;
    struct order o;
    enum err e;

    k->found = false;
    if ((e = order_load(tx, k->no.id, &o, info)))
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (o.caller != k->act->caller.id || o.no.slot != k->no.slot)
        return ERR_OK;
    k->found = true;
    k->from = o.status;
    if ((e = order_settle(tx, k->settings, k->no.id, &o, info)))
        return e;
    if (o.status == ORDER_PAID && (e = order_mark_complete(tx, &o, k->act, info)))
        return e;
    return give(tx, &o, k->act->arena, &k->order, info);
}

enum code order_complete(struct centre *c, const struct act *act, struct number order_no,
                         struct order *ret, struct refusal *refusal)
{
    struct complete k = { .settings = &c->settings, .act = act, .no = order_no };
    enum code code = centre_run(c, "order.complete", STORE_API, order_no.slot, complete_rule, &k,
                                ORDER_SETTLE_IDS + 2, refusal);
    if (code)
        return code;
    if (!k.found)
        return refuse(refusal, CODE_ORDER_NOT_FOUND);
    log_moved(c, &k.order, k.from, act->trace_id);
    if (k.order.status != ORDER_COMPLETED)
        return refuse_field(refusal, CODE_ORDER_STATE, NULL,
                            str_of(order_status_name(k.order.status)));
    *ret = k.order;
    return CODE_OK;
}

/* ---- the settle sweep ---- */

struct sweep {
    struct payment_due after;
    int64_t older_than_ms;
    struct payment_due rows[SWEEP_PAGE];
    size_t n;
};

static enum err sweep_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct sweep *s = arg;

    return payment_unsettled_page(tx, &s->after, s->older_than_ms, SWEEP_PAGE, s->rows, &s->n,
                                  info);
}

struct settle {
    const struct centre *c;
    int64_t order_id;
    struct arena *arena;
    struct order order;
    enum order_status from;
    bool lost; /* the job's lease */
};

static enum err settle_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct settle *s = arg;
    struct order o;
    enum err e = shift_check(s->c, tx, &s->lost, info);

    if (e || s->lost || (e = order_load(tx, s->order_id, &o, info)))
        return e;
    s->from = o.status;
    if ((e = order_settle(tx, &s->c->settings, s->order_id, &o, info)))
        return e;
    s->order = copy_order(s->arena, &o);
    return ERR_OK;
}

enum code order_settle_now(struct centre *c, struct arena *a, int64_t order_id, unsigned slot,
                           struct refusal *refusal)
{
    struct settle s = { .c = c, .order_id = order_id, .arena = a };
    enum code code = centre_run(c, "order.settle", STORE_BACKGROUND, slot, settle_rule, &s,
                                ORDER_SETTLE_IDS, refusal);

    if (!code && s.lost)
        return shift_lost(refusal);
    if (!code)
        log_moved(c, &s.order, s.from, s.order.trace_id);
    return code;
}

enum err order_settle_sweep(struct centre *c, size_t max, size_t *ret_repaired,
                            struct err_info *info)
{
    ARENA_AUTO arena = arena_new(sizeof(struct sweep) + 8192);
    struct sweep *s = arena_one(arena, struct sweep);
    size_t repaired = 0;

    s->older_than_ms = env_now_ms(c->env) - c->settings.settle_sweep_ms;
    do {
        enum err e = store_read(c->store, 0, "payment.unsettled", sweep_rule, s, info);
        if (e)
            return e;
        for (size_t i = 0; i < s->n && repaired < max && !shift_over(c); i++) {
            struct refusal refusal;
            if (!s->rows[i].unsettled)
                continue;
            enum code code =
                order_settle_now(c, arena, s->rows[i].order_id, s->rows[i].slot, &refusal);
            if (code == CODE_BUSY)
                return err_set(info, ERR_BUSY, "the store is busy");
            repaired += code == CODE_OK;
        }
        if (s->n)
            s->after = s->rows[s->n - 1];
        if (s->n == SWEEP_PAGE)
            env_sleep_ms(c->env, STORE_READ_PAUSE_MS);
    } while (s->n == SWEEP_PAGE && repaired < max && !shift_over(c));
    *ret_repaired = repaired;
    return ERR_OK;
}
