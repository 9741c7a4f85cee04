/* control.c -- POST /sandbox/v1/…: what sandbox.h offers, for people and scripts with curl.
 *
 * There is no authentication: the sandbox listens on loopback and holds no money. */
#include "sandbox/internal.h"

#define TRADES_SHOWN 1000

static void answer_json(struct request *r, const struct buf *b)
{
    sandbox_answer_set(r->answer, 200, "application/json", buf_str(b));
}

static void fail(struct request *r, int status, const char *code, struct str message)
{
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, r->arena, 4096);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "code", str_of(code));
    json_kv_str(&o, "message", message);
    json_end_object(&o);
    sandbox_answer_set(r->answer, status, "application/json", buf_str(&b));
}

static void fail_with(struct request *r, enum err e, const struct err_info *info)
{
    int status = e == ERR_NOT_FOUND ? 404 : e == ERR_CONFLICT || e == ERR_LIMIT ? 409 : 400;
    fail(r, status,
         e == ERR_NOT_FOUND ? "NOT_FOUND"
         : e == ERR_INVALID ? "INVALID"
                            : "CONFLICT",
         str_of(info->text));
}

static void print_trade(const struct sandbox_trade *t, struct json_out *o)
{
    json_begin_object(o);
    json_kv_str(o, "mchid", t->mchid);
    json_kv_str(o, "out_trade_no", t->out_trade_no);
    json_kv_str(o, "transaction_id", t->transaction_id);
    json_kv_str(o, "state", t->state);
    json_kv_int(o, "total", t->total_fen);
    json_kv_int(o, "taken", t->taken_fen);
    json_kv_int(o, "refunded", t->refunded_fen);
    json_kv_int(o, "success_ms", t->success_ms);
    json_kv_int(o, "prepays", t->prepays);
    json_kv_int(o, "queries", t->queries);
    json_kv_int(o, "closes", t->closes);
    json_kv_int(o, "callbacks_sent", t->callbacks_sent);
    json_kv_int(o, "callbacks_acknowledged", t->callbacks_acknowledged);
    json_end_object(o);
}

/* ---- the calls; `body` is NULL for GET ---- */

static void pay(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct str no;
    enum err e = json_get_str(body, "out_trade_no", &no, &info);
    if (!e)
        e = sandbox_pay(r->s, no, &info);
    if (e)
        fail_with(r, e, &info);
    else
        sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

static void refund(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct str no;
    int64_t amount;
    enum err e = json_get_str(body, "out_trade_no", &no, &info);
    if (!e)
        e = json_get_int(body, "amount", &amount, &info);
    if (!e)
        e = sandbox_refund_by_hand(r->s, no, amount, &info);
    if (e)
        fail_with(r, e, &info);
    else
        sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

/* An absent member stays as it is. */
static enum err optional_int(const struct json *body, const char *key, int64_t *ret,
                             struct err_info *info)
{
    enum err e = json_get_int(body, key, ret, info);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err optional_str(const struct json *body, const char *key, struct str *ret,
                             struct err_info *info)
{
    enum err e = json_get_str(body, key, ret, info);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err read_rule(const struct json *body, struct sandbox_fault_rule *ret,
                          struct err_info *info)
{
    struct str fault;
    int64_t status = 0, times = 0, percent = 100, copies = 0;
    struct sandbox_fault_rule rule = { 0 };
    enum err e;
    if ((e = json_get_str(body, "fault", &fault, info)) ||
        (e = optional_str(body, "call", &rule.call, info)) ||
        (e = optional_str(body, "mchid", &rule.mchid, info)) ||
        (e = optional_str(body, "code", &rule.code, info)) ||
        (e = optional_int(body, "status", &status, info)) ||
        (e = optional_int(body, "delay_ms", &rule.delay_ms, info)) ||
        (e = optional_int(body, "amount_delta", &rule.amount_delta_fen, info)) ||
        (e = optional_int(body, "times", &times, info)) ||
        (e = optional_int(body, "percent", &percent, info)) ||
        (e = optional_int(body, "copies", &copies, info)))
        return e;
    if (!sandbox_fault_of_name(fault, &rule.fault))
        return err_field(info, ERR_INVALID, "fault", "no fault is called " STR_FMT, STR_ARG(fault));
    if (status && (status < 300 || status > 599))
        return err_field(info, ERR_INVALID, "status", "status is 300 to 599");
    if (times < 0 || times > 1000000 || percent < 1 || percent > 100 || copies < 0 ||
        copies > 100 || rule.delay_ms < 0 || rule.delay_ms > DAY_MS)
        return err_set(info, ERR_INVALID, "times, percent, copies or delay_ms is out of range");
    rule.status = (int)status;
    rule.times = (int)times;
    rule.percent = (int)percent;
    rule.copies = (int)copies;
    *ret = rule;
    return ERR_OK;
}

static void add_fault(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct sandbox_fault_rule rule;
    enum err e = read_rule(body, &rule, &info);
    if (e) {
        fail_with(r, e, &info);
        return;
    }
    sandbox_fault(r->s, &rule);
    sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

static void list_faults(struct request *r, const struct json *body)
{
    struct buf b;
    struct json_out o;
    (void)body;
    buf_init_arena(&b, r->arena, 1 << 20);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_key(&o, "data");
    json_begin_array(&o);
    sandbox_lock(r->s);
    for (const struct fault_entry *e = r->s->faults.first; e; e = e->next) {
        json_begin_object(&o);
        json_kv_str(&o, "fault", str_of(sandbox_fault_name(e->rule.fault)));
        json_kv_str(&o, "call", e->rule.call);
        json_kv_str(&o, "mchid", e->rule.mchid);
        if (e->rule.times >= 0)
            json_kv_int(&o, "times_left", e->rule.times);
        json_end_object(&o);
    }
    sandbox_unlock(r->s);
    json_end_array(&o);
    json_end_object(&o);
    answer_json(r, &b);
}

static void clear(struct request *r, const struct json *body)
{
    (void)body;
    sandbox_clear_faults(r->s);
    sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

static void rotate(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct str mchid;
    enum err e = json_get_str(body, "mchid", &mchid, &info);
    if (!e)
        e = sandbox_rotate_certificate(r->s, mchid, r->arena, &info);
    if (e)
        fail_with(r, e, &info);
    else
        sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

/* The switch-over from certificates to the public key, and back. */
static void key_mode(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct str mchid;
    bool public_key;
    enum err e = json_get_str(body, "mchid", &mchid, &info);
    if (!e)
        e = json_get_bool(body, "public_key", &public_key, &info);
    struct account *account = e ? NULL : sandbox_account(r->s, mchid);
    if (!e &&
        (!account || !(public_key ? account->public_key.key != NULL : account->platform_count > 0)))
        e = err_set(&info, ERR_NOT_FOUND, "no such merchant, or it has no key of that kind");
    if (e) {
        fail_with(r, e, &info);
        return;
    }
    sandbox_lock(r->s);
    account->sign_with_public_key = public_key;
    sandbox_journal_key_mode(r->s, account);
    sandbox_unlock(r->s);
    sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

/* The merchant takes money out of its balance: refunds may then meet NOT_ENOUGH. */
static void withdraw(struct request *r, const struct json *body)
{
    struct err_info info = { 0 };
    struct str mchid;
    int64_t amount;
    enum err e = json_get_str(body, "mchid", &mchid, &info);
    if (!e)
        e = json_get_int(body, "amount", &amount, &info);
    struct account *account = e ? NULL : sandbox_account(r->s, mchid);
    if (!e && !account)
        e = err_set(&info, ERR_NOT_FOUND, "no such merchant");
    if (e) {
        fail_with(r, e, &info);
        return;
    }
    sandbox_lock(r->s);
    account->withdrawn_fen += amount;
    sandbox_journal_withdrawn(r->s, account, amount);
    sandbox_unlock(r->s);
    sandbox_answer_set(r->answer, 204, NULL, STR_NONE);
}

static void turn(struct request *r, const struct json *body)
{
    (void)body;
    sandbox_answer_set(r->answer, 200, "application/json",
                       str_printf(r->arena, "{\"sent\":%zu}", sandbox_turn(r->s)));
}

static void trades(struct request *r, const struct json *body)
{
    struct sandbox_trade *all;
    struct buf b;
    struct json_out o;
    (void)body;
    size_t n = sandbox_trades(r->s, r->arena, &all);
    buf_init_arena(&b, r->arena, 1 << 20);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_int(&o, "count", (int64_t)n);
    json_key(&o, "data");
    json_begin_array(&o);
    for (size_t i = 0; i < n && i < TRADES_SHOWN; i++)
        print_trade(&all[n - 1 - i], &o);
    json_end_array(&o);
    json_end_object(&o);
    answer_json(r, &b);
}

static void balance(struct request *r, const struct json *body)
{
    struct str mchid = sandbox_request_query(r, "mchid");
    (void)body;
    if (!sandbox_account(r->s, mchid)) {
        fail(r, 404, "NOT_FOUND", STR("no such merchant"));
        return;
    }
    sandbox_answer_set(
        r->answer, 200, "application/json",
        str_printf(r->arena, "{\"balance\":%lld}", (long long)sandbox_balance_fen(r->s, mchid)));
}

static const struct {
    const char *method, *path;
    void (*call)(struct request *r, const struct json *body);
} calls[] = {
    { "POST", "/sandbox/v1/pay", pay },           { "POST", "/sandbox/v1/faults", add_fault },
    { "GET", "/sandbox/v1/faults", list_faults }, { "POST", "/sandbox/v1/clear", clear },
    { "POST", "/sandbox/v1/rotate", rotate },     { "POST", "/sandbox/v1/key-mode", key_mode },
    { "POST", "/sandbox/v1/withdraw", withdraw }, { "POST", "/sandbox/v1/turn", turn },
    { "GET", "/sandbox/v1/trades", trades },      { "GET", "/sandbox/v1/balance", balance },
    { "POST", "/sandbox/v1/refund", refund },
};

static void one_trade(struct request *r, struct str no)
{
    struct sandbox_trade t;
    struct buf b;
    struct json_out o;
    if (sandbox_trade_get(r->s, no, r->arena, &t)) {
        fail(r, 404, "NOT_FOUND", STR("no such trade"));
        return;
    }
    buf_init_arena(&b, r->arena, 8192);
    json_out_init(&o, &b);
    print_trade(&t, &o);
    answer_json(r, &b);
}

void sandbox_control_handle(struct request *r)
{
    const struct str one = STR("/sandbox/v1/trades/");
    const struct json *body = NULL;
    struct err_info info = { 0 };
    if (str_eq(r->method, STR("GET")) && str_starts(r->path, one)) {
        one_trade(r, str_sub(r->path, one.n, r->path.n));
        return;
    }
    if (str_eq(r->method, STR("POST")) && r->body.n &&
        json_parse(r->arena, r->body, &body, &info)) {
        fail_with(r, ERR_INVALID, &info);
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (str_eq(r->path, str_of(calls[i].path)) && str_eq(r->method, str_of(calls[i].method))) {
            calls[i].call(r, body);
            return;
        }
    }
    fail(r, 404, "NOT_FOUND", STR("no such call"));
}
