/* wechat_refund.c -- refunds of WeChat Pay v3: create and query.
 *
 * "Accepted" is not "done": a refund is PROCESSING for three seconds, then comes to its end, and
 * the callback tells. The same number again must have the same bytes and answers what has become of
 * it. */
#include "sandbox/internal.h"

#include <stdio.h>

#include "base/clock.h"

#define TAKES_MS     3000
#define UNSEEN_MS    55000
#define REFUNDS_MOST 50
#define APART_MS     MINUTE_MS
#define REFUND_UNTIL (365 * DAY_MS)

struct refund_wish {
    struct str out_trade_no, transaction_id;
    int64_t total_fen;
    struct refund like;
};

static bool read_wish(struct wechat_call *c, struct refund_wish *w)
{
    struct str currency, reason;
    const struct json *amount = json_get(c->body, "amount");
    if (!sandbox_v3_text(c, c->body, "/transaction_id", 1, 32, false, &w->transaction_id) ||
        !sandbox_v3_text(c, c->body, "/out_trade_no", 6, 32, !w->transaction_id.p,
                         &w->out_trade_no) ||
        !sandbox_v3_text(c, c->body, "/out_refund_no", 1, 64, true, &w->like.out_refund_no) ||
        !sandbox_v3_text(c, c->body, "/reason", 0, 80, false, &reason) ||
        !sandbox_v3_notify_url(c, 256, false, &w->like.notify_url) ||
        !sandbox_v3_number(c, amount, "/amount/refund", 1, true, &w->like.amount_fen) ||
        !sandbox_v3_number(c, amount, "/amount/total", 1, true, &w->total_fen) ||
        !sandbox_v3_text(c, amount, "/amount/currency", 1, 16, true, &currency))
        return false;
    if (!sandbox_v3_is_number(w->like.out_refund_no, 1, 64, "_-|*@"))
        return sandbox_v3_refuse_field(c->r, "/out_refund_no", w->like.out_refund_no,
                                       "只能是数字、大小写字母_-|*@");
    if (!str_eq(currency, STR("CNY")))
        return sandbox_v3_refuse_field(c->r, "/amount/currency", currency, "仅支持CNY");
    return true;
}

static struct trade *trade_of(struct wechat_call *c, const struct refund_wish *w)
{
    struct trade *t = w->transaction_id.p ? books_trade_by_id(&c->s->books, w->transaction_id)
                                          : books_trade(&c->s->books, c->account, w->out_trade_no);
    if (!t || t->account != c->account || !t->success_ms)
        return NULL;
    return w->out_trade_no.p && !str_eq(w->out_trade_no, t->out_trade_no) ? NULL : t;
}

/* May this trade give back so much, now? Lock held. */
static bool check_rules(struct wechat_call *c, const struct trade *t, const struct refund_wish *w)
{
    struct request *r = c->r;
    const struct account *a = c->account;
    int64_t now_ms = w->like.created_ms;
    if (w->total_fen != t->taken_fen)
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST",
                                 "订单金额或退款金额与之前请求不一致，请核实后再试");
    if (now_ms > t->success_ms + REFUND_UNTIL)
        return sandbox_v3_refuse(r, 400, "TRADE_OVERDUE", "订单已经超过可退款的最大期限");
    if (w->like.amount_fen > t->taken_fen - t->refunded_fen)
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST", "申请退款金额大于订单可退金额");
    if (t->refund_count >= REFUNDS_MOST)
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST", "该订单部分退款次数已达上限50次");
    if (t->refund_count && now_ms < t->refunded_ms + APART_MS)
        return sandbox_v3_refuse(r, 400, "INVALID_REQUEST", "同一订单多次退款间隔需大于1分钟");
    if (w->like.amount_fen > a->taken_fen - a->refunded_fen - a->withdrawn_fen)
        return sandbox_v3_refuse(r, 403, "NOT_ENOUGH", "基本账户余额不足，请充值后重新发起");
    return true;
}

static const char *received_account(const struct refund *r)
{
    return r->state == REFUND_ABNORMAL ? "银行卡" : "支付用户零钱";
}

/* Lock held. */
static void answer_refund(struct wechat_call *c, const struct refund *r)
{
    const struct trade *t = r->trade;
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, c->arena, 16384);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_key(&o, "amount");
    json_begin_object(&o);
    json_kv_str(&o, "currency", STR("CNY"));
    json_kv_int(&o, "discount_refund", 0);
    json_key(&o, "from");
    json_begin_array(&o);
    json_end_array(&o);
    json_kv_int(&o, "payer_refund", r->amount_fen);
    json_kv_int(&o, "payer_total", t->taken_fen);
    json_kv_int(&o, "refund", r->amount_fen);
    json_kv_int(&o, "settlement_refund", r->amount_fen);
    json_kv_int(&o, "settlement_total", t->taken_fen);
    json_kv_int(&o, "total", t->taken_fen);
    json_end_object(&o);
    json_kv_str(&o, "channel", STR("ORIGINAL"));
    json_kv_str(&o, "create_time", clock_rfc3339(c->arena, r->created_ms));
    json_kv_str(&o, "funds_account", STR("AVAILABLE"));
    json_kv_str(&o, "out_refund_no", r->out_refund_no);
    json_kv_str(&o, "out_trade_no", t->out_trade_no);
    json_key(&o, "promotion_detail");
    json_begin_array(&o);
    json_end_array(&o);
    json_kv_str(&o, "refund_id", r->refund_id);
    json_kv_str(&o, "status", str_of(books_refund_state(r->state)));
    if (r->state == REFUND_SUCCESS)
        json_kv_str(&o, "success_time", clock_rfc3339(c->arena, r->end_ms));
    json_kv_str(&o, "transaction_id", t->transaction_id);
    json_kv_str(&o, "user_received_account", str_of(received_account(r)));
    json_end_object(&o);
    sandbox_answer_set(c->r->answer, 200, "application/json; charset=utf-8", buf_str(&b));
}

/* Lock held. */
static struct refund *accept(struct wechat_call *c, struct refund_wish *w, struct trade *t)
{
    struct faults *f = &c->s->faults;
    const struct str call = STR("refund"), mchid = c->account->mchid;
    w->like.trade = t;
    w->like.end = REFUND_SUCCESS;
    w->like.end_ms = w->like.created_ms + TAKES_MS;
    if (sandbox_faults_hit(f, FAULT_REFUND_STUCK, call, mchid, NULL))
        w->like.end_ms = 0;
    else if (sandbox_faults_hit(f, FAULT_REFUND_CLOSED, call, mchid, NULL))
        w->like.end = REFUND_CLOSED;
    else if (sandbox_faults_hit(f, FAULT_REFUND_ABNORMAL, call, mchid, NULL))
        w->like.end = REFUND_ABNORMAL;
    struct refund *r = books_add_refund(&c->s->books, &w->like);
    if (r->end_ms && r->notify_url.n)
        sandbox_callbacks_schedule(c->s, t, r, r->end_ms);
    sandbox_journal_refund(c->s, r);
    return r;
}

/* Lock held. */
static void create(struct wechat_call *c, struct refund_wish *w)
{
    books_age(&c->s->books, w->like.created_ms);
    struct refund *r = books_refund(&c->s->books, c->account, w->like.out_refund_no);
    if (r && memcmp(&r->request, &w->like.request, sizeof r->request) != 0) {
        sandbox_v3_refuse(c->r, 400, "INVALID_REQUEST",
                          "订单金额或退款金额与之前请求不一致，请核实后再试");
        return;
    }
    struct trade *t = r ? r->trade : trade_of(c, w);
    if (!t) {
        sandbox_v3_refuse(c->r, 404, "RESOURCE_NOT_EXISTS", "订单不存在或未支付");
        return;
    }
    if (!r && check_rules(c, t, w))
        r = accept(c, w, t);
    if (r)
        answer_refund(c, r);
}

void sandbox_v3_refund_create(struct wechat_call *c)
{
    struct refund_wish w = { .like.created_ms = env_now_ms(c->s->env) };
    if (!read_wish(c, &w))
        return;
    w.like.request = sha256(c->r->body);
    sandbox_lock(c->s);
    create(c, &w);
    sandbox_unlock(c->s);
}

void sandbox_v3_refund_query(struct wechat_call *c)
{
    sandbox_lock(c->s);
    books_age(&c->s->books, env_now_ms(c->s->env));
    struct refund *r = books_refund(&c->s->books, c->account, c->param);
    bool unseen = r && env_now_ms(c->s->env) < r->created_ms + UNSEEN_MS &&
                  sandbox_faults_hit(&c->s->faults, FAULT_REFUND_UNSEEN, STR("query_refund"),
                                     c->account->mchid, NULL);
    if (r && !unseen)
        answer_refund(c, r);
    else
        sandbox_v3_refuse(c->r, 404, "RESOURCE_NOT_EXISTS", "退款单不存在");
    sandbox_unlock(c->s);
}

/* ---- from outside ---- */

/* Lock held. */
static void give_by_hand(struct sandbox *s, struct trade *t, int64_t amount_fen)
{
    char number[64];
    int n = snprintf(number, sizeof number, "HAND" STR_FMT "_%d", STR_ARG(t->transaction_id),
                     t->refund_count + 1);
    struct refund like = {
        .trade = t,
        .out_refund_no = { number, (size_t)n },
        .notify_url = t->notify_url,
        .created_ms = env_now_ms(s->env),
        .end = REFUND_SUCCESS,
        .amount_fen = amount_fen,
    };
    like.end_ms = like.created_ms + TAKES_MS;
    struct refund *r = books_add_refund(&s->books, &like);
    if (r->notify_url.n)
        sandbox_callbacks_schedule(s, t, r, r->end_ms);
    sandbox_journal_refund(s, r);
}

enum err sandbox_refund_by_hand(struct sandbox *s, struct str out_trade_no, int64_t amount_fen,
                                struct err_info *info)
{
    enum err e = ERR_OK;
    sandbox_lock(s);
    books_age(&s->books, env_now_ms(s->env));
    struct trade *t = books_trade(&s->books, NULL, out_trade_no);
    if (!t || !t->success_ms)
        e = err_set(info, ERR_NOT_FOUND, "no paid trade " STR_FMT, STR_ARG(out_trade_no));
    else if (amount_fen < 1 || amount_fen > t->taken_fen - t->refunded_fen ||
             t->refund_count >= REFUNDS_MOST)
        e = err_set(info, ERR_CONFLICT, "not so much is left of it");
    else
        give_by_hand(s, t, amount_fen);
    sandbox_unlock(s);
    return e;
}

void sandbox_refunds_go_on(struct sandbox *s)
{
    int64_t now_ms = env_now_ms(s->env);
    sandbox_lock(s);
    books_age(&s->books, now_ms);
    list_each (node, &s->books.trades) {
        struct trade *t = container_of(node, struct trade, node);
        list_each (link, &t->refunds) {
            struct refund *r = container_of(link, struct refund, node);
            if (r->state != REFUND_PROCESSING || r->end_ms)
                continue;
            r->end_ms = now_ms + TAKES_MS;
            list_append(&s->books.pending, &r->pending);
            if (r->notify_url.n)
                sandbox_callbacks_schedule(s, t, r, r->end_ms);
        }
    }
    sandbox_unlock(s);
}

static void copy_refund(const struct refund *r, struct arena *a, struct sandbox_refund *ret)
{
    *ret = (struct sandbox_refund) {
        .out_trade_no = str_dup(a, r->trade->out_trade_no),
        .out_refund_no = str_dup(a, r->out_refund_no),
        .refund_id = str_dup(a, r->refund_id),
        .state = str_of(books_refund_state(r->state)),
        .amount_fen = r->amount_fen,
    };
}

enum err sandbox_refund_get(struct sandbox *s, struct str out_refund_no, struct arena *a,
                            struct sandbox_refund *ret)
{
    struct refund *r = NULL;
    sandbox_lock(s);
    books_age(&s->books, env_now_ms(s->env));
    for (size_t i = 0; i < s->account_count && !r; i++)
        r = books_refund(&s->books, &s->accounts[i], out_refund_no);
    if (r)
        copy_refund(r, a, ret);
    sandbox_unlock(s);
    return r ? ERR_OK : ERR_NOT_FOUND;
}

size_t sandbox_refunds(struct sandbox *s, struct arena *a, struct sandbox_refund **ret)
{
    size_t n = 0;
    sandbox_lock(s);
    books_age(&s->books, env_now_ms(s->env));
    *ret = arena_array(a, s->books.by_refund_number.count + 1, sizeof **ret);
    list_each (node, &s->books.trades)
        list_each (link, &container_of(node, struct trade, node)->refunds)
            copy_refund(container_of(link, struct refund, node), a, &(*ret)[n++]);
    sandbox_unlock(s);
    return n;
}
