/* core_world.h -- a whole centre over the test database, with a channel that answers as told.
 *
 * The fake channel takes each call's answer from a queue of its own; an empty queue answers DONE
 * (a query: accepted, not paid). What happens while a call is on the wire is a hook of that call,
 * so that a race is a line in a test. */
#ifndef FENPAY_TEST_CORE_WORLD_H
#define FENPAY_TEST_CORE_WORLD_H

#include "../world.h"

#include "core/incident/incident.h"
#include "core/invariant/invariant.h"
#include "core/payment/flow_call.h"
#include "core/payment/payment_sql.h"
#include "core/refund/refund.h"
#include "store/driver.h"

#define CALLS_MAX 32
#define CALLER    7

struct core;

struct reply {
    struct channel_answer answer;
    void (*meanwhile)(struct core *w); /* on the wire: after the request, before its answer */
};

struct replies {
    struct reply queue[CALLS_MAX];
    int head, tail;
    int calls;
};

struct core {
    struct world world;
    struct centre c;
    struct act act;
    struct replies prepay, query, close, refund, query_refund;
    struct str sent[CALLS_MAX]; /* bodies of the prepay calls, in the world's arena */
    struct str asked_account[CALLS_MAX];
    enum err build_result;             /* of prepay_build and refund_build */
    struct str refund_sent[CALLS_MAX]; /* bodies of the refund calls */
    void (*at_build)(struct core *w);  /* between looking and storing; once */
    bool fact_ours;                    /* what the fake states in facts made by paid() */
    struct number pay_no;              /* what the next facts are about; none: nothing stated */
    int keys_wanted;
    struct str silent_account; /* whose queries stay without an answer */
    int silent_queries;
};

/* ---- the fake channel ---- */

static inline struct core *fake_core(const struct account *account)
{
    return account->keys;
}

static inline void fake_keys_close(struct account *account)
{
    (void)account;
}

static inline enum err fake_build(const struct account *account, const struct prepay *p,
                                  struct arena *a, struct channel_request *ret,
                                  struct err_info *info)
{
    void (*race)(struct core * w) = fake_core(account)->at_build;
    if (race) {
        fake_core(account)->at_build = NULL; /* once; and untouched where many threads build */
        race(fake_core(account));
    }
    if (fake_core(account)->build_result)
        return err_field(info, fake_core(account)->build_result, "payer", "not for this channel");
    ret->endpoint = STR("/fake/pay");
    ret->body = str_printf(a, STR_FMT " %lld %lld", STR_ARG(p->pay_no),
                           (long long)money_fen(p->amount), (long long)p->expire_ms);
    return ERR_OK;
}

static inline void fake_answer(struct core *w, struct replies *r, struct channel_answer *ret)
{
    *ret = (struct channel_answer) { .outcome = CHANNEL_DONE };
    r->calls++;
    if (r->head == r->tail)
        return;
    struct reply *reply = &r->queue[r->head++];
    if (reply->meanwhile)
        reply->meanwhile(w);
    *ret = reply->answer;
}

static inline void fake_prepay(struct account *account, const struct channel_ctx *ctx,
                               enum pay_method method, const struct channel_request *request,
                               struct channel_answer *ret)
{
    struct core *w = fake_core(account);
    (void)ctx;
    (void)method;
    assert_true(w->prepay.calls < CALLS_MAX);
    w->sent[w->prepay.calls] = str_dup(w->world.arena, request->body);
    w->asked_account[w->prepay.calls] = str_dup(w->world.arena, account->config.name);
    bool scripted = w->prepay.head != w->prepay.tail;
    fake_answer(w, &w->prepay, ret);
    if (!scripted || (ret->outcome == CHANNEL_DONE && !ret->credentials.n))
        ret->credentials = STR("{\"code_url\":\"fake://1\"}");
}

static inline void fake_query(struct account *account, const struct channel_ctx *ctx,
                              struct str pay_no, struct channel_answer *ret)
{
    struct core *w = fake_core(account);
    bool scripted = w->query.head != w->query.tail;
    (void)ctx;
    (void)pay_no;
    if (w->silent_account.n && str_eq(account->config.name, w->silent_account)) {
        *ret = (struct channel_answer) { .outcome = CHANNEL_UNKNOWN };
        w->silent_queries++;
        return;
    }
    fake_answer(w, &w->query, ret);
    if (!scripted) {
        ret->facts[0] = (struct fact) { .kind = FACT_ACCEPTED };
        ret->fact_count = 1;
    }
}

static inline void fake_close(struct account *account, const struct channel_ctx *ctx,
                              struct str pay_no, struct channel_answer *ret)
{
    struct core *w = fake_core(account);
    (void)ctx;
    (void)pay_no;
    fake_answer(w, &w->close, ret);
}

static inline enum err fake_refund_build(const struct account *account,
                                         const struct refund_request *r, struct arena *a,
                                         struct channel_request *ret, struct err_info *info)
{
    if (fake_core(account)->build_result)
        return err_field(info, fake_core(account)->build_result, "amount", "not for this channel");
    ret->endpoint = STR("/fake/refund");
    ret->body = str_printf(a, STR_FMT " " STR_FMT " %lld/%lld " STR_FMT,
                           STR_ARG(r->transaction_id.n ? r->transaction_id : r->pay_no),
                           STR_ARG(r->refund_no), (long long)money_fen(r->amount),
                           (long long)money_fen(r->total), STR_ARG(r->reason));
    return ERR_OK;
}

/* Unscripted: accepted, and on its way. */
static inline void fake_refund(struct account *account, const struct channel_ctx *ctx,
                               const struct channel_request *request, struct channel_answer *ret)
{
    struct core *w = fake_core(account);
    (void)ctx;
    assert_true(w->refund.calls < CALLS_MAX);
    w->refund_sent[w->refund.calls] = str_dup(w->world.arena, request->body);
    fake_answer(w, &w->refund, ret);
}

static inline void fake_query_refund(struct account *account, const struct channel_ctx *ctx,
                                     struct str refund_no, struct channel_answer *ret)
{
    (void)ctx;
    (void)refund_no;
    fake_answer(fake_core(account), &fake_core(account)->query_refund, ret);
}

static inline enum err fake_client(struct account *account, struct env *env, enum pay_method method,
                                   struct str credentials, struct arena *a, struct json_out *out,
                                   struct err_info *info)
{
    (void)account;
    (void)env;
    (void)method;
    (void)a;
    (void)info;
    json_kv_str(out, "credentials", credentials);
    return ERR_OK;
}

static inline bool fake_equal(const struct account *account, const struct fact *fact,
                              struct money amount)
{
    (void)account;
    return money_eq(fact->amount, amount);
}

static const struct method_info fake_methods[] = {
    { METHOD_NATIVE, "native", false, false, true },
    { METHOD_JSAPI, "jsapi", true, false, true },
};
static const struct channel_driver fake_driver = {
    .keys_close = fake_keys_close,
    .prepay_build = fake_build,
    .prepay = fake_prepay,
    .client_params = fake_client,
    .query = fake_query,
    .close = fake_close,
    .refund_build = fake_refund_build,
    .refund = fake_refund,
    .query_refund = fake_query_refund,
    .paid_equal = fake_equal,
};
static const struct channel_info fake_wechat = {
    .id = CHANNEL_WECHAT,
    .name = "wechat",
    .methods = fake_methods,
    .method_count = 2,
    .capabilities = CHANNEL_CAN_CLOSE | CHANNEL_CAN_REFUND | CHANNEL_CAN_QUERY_REFUND,
    .currency = "CNY",
    .expire_margin_ms = 60000,
    .refund_gap_ms = 60000,
    .refunds_max = 50,
    .driver = &fake_driver,
};
/* Another channel, which cannot close. */
static const struct channel_info fake_apple = {
    .id = CHANNEL_APPLE,
    .name = "apple",
    .methods = fake_methods,
    .method_count = 1,
    .currency = "CNY",
    .expire_margin_ms = 60000,
    .driver = &fake_driver,
};

static inline void core_account(struct core *w, const struct channel_info *info, const char *name)
{
    struct arena *a = arena_new(1024);
    struct account *account = arena_one(a, struct account);
    account->info = info;
    account->arena = a;
    account->config.name = str_dup(a, str_of(name));
    account->config.amount_max_fen = 99999999;
    for (size_t i = 0; i < info->method_count; i++)
        account->methods |= 1u << info->methods[i].method;
    account->keys = w;
    account->refs = 1;
    registry_put(w->c.registry, account);
}

static inline void core_want_keys(void *ctx, struct account *account)
{
    struct core *w = ctx;
    (void)account;
    w->keys_wanted++;
}

/* Every COMMIT really happens and every first answer gets lost, so that every rule runs twice, the
 * second time on what its first run left: rules.md section 8. */
static bool core_lost_answers;
static bool core_answer_lost;
static inline enum err core_commit(struct conn *c, struct err_info *info)
{
    enum err e = sqlite_driver.commit(c, info);
    core_answer_lost = !core_answer_lost;
    return !e && core_answer_lost ? err_set(info, ERR_IO, "the answer got lost") : e;
}

static inline void core_lose_answers(struct core *w)
{
    static struct store_driver driver;
    struct err_info info = { 0 };
    store_close(w->world.store);
    driver = sqlite_driver;
    driver.settles_unknown = true;
    driver.commit = core_commit;
    core_answer_lost = false;
    struct store_options o = world_options(&w->world, false);
    o.driver = &driver;
    assert_ok(store_open(&o, &w->world.store, &info));
}

/* The centre over an open world. */
static inline void core_centre(struct core *w)
{
    w->fact_ours = true;
    w->c = (struct centre) {
        .env = w->world.env,
        .store = w->world.store,
        .mint = w->world.mint,
        .registry = registry_new(),
        .process_id = 1,
        .want_keys = core_want_keys,
        .want_keys_ctx = w,
    };
    centre_settings_defaults(&w->c.settings);
    /* A person decides, unless a test says otherwise. */
    w->c.settings.paid_after_close = w->c.settings.paid_twice = POLICY_HOLD;
    w->act = (struct act) {
        .caller = { CALLER, STR("shop") },
        .actor = STR("caller:shop"),
        .trace_id = STR("trace-1"),
        .arena = w->world.arena,
    };
    core_account(w, &fake_wechat, "main");
}

static inline void core_open(struct core *w)
{
    memset(w, 0, sizeof *w);
    world_open(&w->world, false);
    if (core_lost_answers)
        core_lose_answers(w);
    core_centre(w);
}

static inline void core_close(struct core *w)
{
    registry_free(w->c.registry);
    world_close(&w->world);
}

/* ---- scripting ---- */

static inline struct reply *expect(struct replies *r, enum channel_outcome outcome,
                                   enum channel_class class)
{
    assert_true(r->tail < CALLS_MAX);
    struct reply *reply = &r->queue[r->tail++];
    *reply = (struct reply) { .answer = { .outcome = outcome, .class = class } };
    return reply;
}

static inline struct money cny(int64_t fen)
{
    struct money m;
    assert_ok(money_of(fen, STR("CNY"), &m));
    return m;
}

static inline struct fact fact_of(struct core *w, enum fact_kind kind, int64_t fen,
                                  const char *transaction_id)
{
    return (struct fact) {
        .kind = kind,
        .transaction_id = str_of(transaction_id),
        .ours = w->fact_ours,
        .amount = cny(fen),
        .payer_amount = cny(fen),
        .channel_discount = cny(0),
        .time_ms = WORLD_NOW_MS + 5000,
    };
}

/* The next query's answer: one fact. */
static inline struct reply *expect_fact(struct core *w, enum fact_kind kind, int64_t fen,
                                        const char *transaction_id)
{
    struct reply *r = expect(&w->query, CHANNEL_DONE, CLASS_NONE);
    r->answer.facts[0] = fact_of(w, kind, fen, transaction_id);
    r->answer.fact_count = 1;
    return r;
}

static inline struct reply *expect_not_exist(struct core *w)
{
    struct reply *r = expect(&w->query, CHANNEL_REFUSED, CLASS_FINAL);
    r->answer.not_exist = true;
    return r;
}

static inline void core_advance(struct core *w, int64_t ms)
{
    env_test_advance(&w->world.test, ms);
}

/* ---- orders ---- */

static inline struct order_new order_input(const char *merchant_order_no, int64_t fen)
{
    return (struct order_new) {
        .merchant_order_no = str_of(merchant_order_no),
        .user_id = STR("u1"),
        .subject = STR("tea"),
        .has_amount = true,
        .amount_fen = fen,
        .currency = STR("CNY"),
    };
}

static inline struct order core_order_of(struct core *w, const struct order_new *n)
{
    struct order o;
    bool created;
    struct refusal r = { 0 };
    if (order_create(&w->c, &w->act, n, &o, &created, &r)) {
        print_error("%s " STR_FMT "\n", code_info(r.code)->name, STR_ARG(r.field));
        fail();
    }
    return o;
}

static inline struct order core_order(struct core *w, const char *merchant_order_no, int64_t fen)
{
    struct order_new n = order_input(merchant_order_no, fen);
    return core_order_of(w, &n);
}

static inline struct order core_get_order(struct core *w, struct number no)
{
    struct order o;
    struct refusal r = { 0 };
    assert_int_equal(order_get(&w->c, &w->act, no, &o, &r), CODE_OK);
    return o;
}

static inline enum order_status order_status_of(struct core *w, struct number no)
{
    return core_get_order(w, no).status;
}

/* ---- payments ---- */

static inline struct payment_new payment_input(struct number order_no)
{
    return (struct payment_new) { .order_no = order_no, .method = STR("native") };
}

struct started {
    enum code code;
    struct payment p;
    enum payment_started how;
    struct refusal refusal;
};

static inline struct started core_start(struct core *w, const struct payment_new *n)
{
    struct started s = { 0 };
    s.code = payment_start(&w->c, &w->act, n, &s.p, &s.how, &s.refusal);
    return s;
}

static inline struct payment core_pay(struct core *w, struct number order_no)
{
    struct payment_new n = payment_input(order_no);
    struct started s = core_start(w, &n);
    if (s.code) {
        print_error("%s " STR_FMT " " STR_FMT "\n", code_info(s.code)->name,
                    STR_ARG(s.refusal.field), STR_ARG(s.refusal.detail));
        fail();
    }
    return s.p;
}

static inline struct payment core_get(struct core *w, struct number pay_no)
{
    struct payment p;
    struct refusal r = { 0 };
    assert_int_equal(payment_get(&w->c, &w->act, pay_no, &p, &r), CODE_OK);
    return p;
}

static inline bool client_given(struct core *w, const struct payment *p)
{
    struct buf b;
    struct json_out out;
    bool given = false;
    struct err_info info = { 0 };
    buf_init_arena(&b, w->world.arena, 4096);
    json_out_init(&out, &b);
    json_begin_object(&out);
    assert_ok(payment_client(&w->c, p, w->world.arena, &out, &given, &info));
    json_end_object(&out);
    assert_int_equal(given, b.n > 2);
    return given;
}

/* A rule begins with its unique row and stops where it finds it (a callback's, an operator's act).
 */
static inline enum err first_run(struct tx *tx, bool *ret_first, struct err_info *info)
{
    static const struct sql mark = { "mark", "INSERT INTO callback_due (due, id) VALUES (0, ?)" };
    enum err e = tx_exec(tx, &mark, BINDS(bind_int(tx_new_id(tx))), NULL, info);
    *ret_first = !e;
    return e == ERR_EXISTS ? ERR_OK : e;
}

/* What a callback does: one fact, with evidence. */
struct applying {
    int64_t pay_id;
    struct fact fact;
    bool equal;
    enum evidence_kind kind;
    enum payment_move move;
    struct payment p;
};

static inline enum err applying_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct applying *x = arg;
    bool first;
    enum err e = first_run(tx, &first, info);
    if (e || !first)
        return e;
    struct evidence evidence = {
        .kind = x->kind, .ref = 99, .fact = &x->fact, .equal = x->equal, .actor = STR("callback")
    };
    return payment_apply(tx, x->pay_id, x->fact.kind, &evidence, CAUSE_CALLBACK, STR("trace-cb"),
                         &x->move, &x->p, info);
}

static inline struct applying core_state(struct core *w, struct number pay_no, struct fact fact)
{
    struct payment p = core_get(w, pay_no);
    struct applying x = {
        .pay_id = pay_no.id,
        .fact = fact,
        .equal = fact.kind == FACT_PAID && fact.ours && money_eq(fact.amount, p.amount),
        .kind = EVIDENCE_CALLBACK,
    };
    world_run(&w->world, applying_rule, &x);
    return x;
}

static inline enum payment_move core_paid(struct core *w, struct number pay_no, int64_t fen,
                                          const char *transaction_id)
{
    return core_state(w, pay_no, fact_of(w, FACT_PAID, fen, transaction_id)).move;
}

static inline void core_settle(struct core *w, struct number order_no)
{
    struct refusal r = { 0 };
    assert_int_equal(order_settle_now(&w->c, w->world.arena, order_no.id, order_no.slot, &r),
                     CODE_OK);
}

/* What the order consumer does on payment.failed and payment.closed. */
static inline enum err ended_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return order_attempt_ended(tx, *(int64_t *)arg, info);
}
static inline void core_ended(struct core *w, struct number order_no)
{
    world_run(&w->world, ended_rule, &order_no.id);
}

static inline size_t core_due(struct core *w)
{
    struct err_info info = { 0 };
    size_t done = 99;
    assert_ok(payment_due_turn(&w->c, 100, &done, &info));
    return done;
}

/* ---- what must be true of every row, at the end of every test ---- */

static inline enum err chains_rule(struct tx *tx, void *arg, struct err_info *info)
{
    static const struct sql orders = { "orders", "SELECT id FROM order_info LIMIT 100" };
    struct query *q = tx_select(tx, &orders, NO_BINDS);
    int64_t ids[100];
    int n = 0;
    (void)arg;
    while (query_row(q))
        ids[n++] = col_int(q, 0);
    for (int i = 0; i < n; i++) {
        struct order o;
        struct journal_row *rows;
        struct payment *payments;
        size_t count, payment_count;
        enum err e = order_load(tx, ids[i], &o, info);
        if (e || (e = journal_read(tx, &o.journal, &rows, &count, info)) ||
            (e = payments_of_order(tx, ids[i], &payments, &payment_count, info)))
            return e;
        if (rows[count - 1].to != (int)o.status)
            return err_set(info, ERR_CONFLICT, "an order's journal ends elsewhere");
        for (size_t j = 0; j < payment_count; j++) {
            if ((e = journal_read(tx, &payments[j].journal, &rows, &count, info)))
                return e;
            if (rows[count - 1].to != (int)payments[j].status)
                return err_set(info, ERR_CONFLICT, "a payment's journal ends elsewhere");
            struct refund *refunds;
            size_t refund_count;
            if ((e = refunds_of(tx, payments[j].no.id, &refunds, &refund_count, info)))
                return e;
            for (size_t k = 0; k < refund_count; k++) {
                if ((e = journal_read(tx, &refunds[k].journal, &rows, &count, info)))
                    return e;
                if (rows[count - 1].to != (int)refunds[k].status)
                    return err_set(info, ERR_CONFLICT, "a refund's journal ends elsewhere");
            }
        }
    }
    return ERR_OK;
}

/* The two sums of a payment are those of its refunds; terminal needs evidence; one that is not
 * final has its turn. */
static inline void core_check_refunds(struct core *w)
{
    assert_int_equal(
        ASK(&w->world,
            "SELECT count(*) FROM payment_order p WHERE p.refunding <> (SELECT "
            "coalesce(sum(r.amount), 0) FROM refund_order r WHERE r.pay_id = p.id AND r.status IN "
            "(0, 1, 4)) OR p.refunded <> (SELECT coalesce(sum(r.amount), 0) FROM refund_order r "
            "WHERE r.pay_id = p.id AND r.status = 2)"),
        0);
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM refund_order WHERE status IN (2, 3, 5) "
                                    "AND evidence_kind = 0"),
                     0);
    assert_int_equal(ASK(&w->world,
                         "SELECT count(*) FROM refund_order r WHERE r.status IN (0, 1, 4) AND NOT "
                         "EXISTS (SELECT 1 FROM refund_due d WHERE d.id = r.id AND d.due = "
                         "r.next_time)"),
                     0);
    assert_int_equal(ASK(&w->world,
                         "SELECT count(*) FROM refund_order r JOIN refund_item i ON i.refund_id = "
                         "r.id GROUP BY r.id HAVING sum(i.amount) <> r.amount"),
                     0);
}

static inline enum err invariants_rule(struct tx *tx, void *pass, struct err_info *info)
{
    return invariant_step(tx, pass, info);
}

static inline struct invariant_pass core_invariants(struct core *w)
{
    struct invariant_pass pass = { .since_ms = WORLD_NOW_MS - 3600000 };
    while (!pass.over)
        world_read(&w->world, invariants_rule, &pass);
    return pass;
}

static inline void core_check(struct core *w)
{
    world_read(&w->world, chains_rule, NULL);
    core_check_refunds(w);
    struct invariant_pass pass = core_invariants(w);
    for (int i = 0; i < INVARIANTS; i++)
        if (i != BROKEN_UNSETTLED && i != BROKEN_FORGOTTEN) /* here no job has run */
            check_row(pass.broken[i] == 0, invariant_text((enum invariant)i));
    /* terminal needs evidence */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order WHERE status >= 2 AND "
                                    "evidence_kind = 0"),
                     0);
    /* no order is settled by two payments */
    assert_int_equal(ASK(&w->world,
                         "SELECT count(*) FROM (SELECT order_id FROM payment_order WHERE "
                         "settled = 1 GROUP BY order_id HAVING count(*) > 1)"),
                     0);
    assert_int_equal(ASK(&w->world,
                         "SELECT count(*) FROM order_info o WHERE o.order_status IN (2, 5) "
                         "AND NOT EXISTS (SELECT 1 FROM payment_order p WHERE p.id = "
                         "o.pay_id AND p.settled = 1 AND p.status = 2)"),
                     0);
    /* every open attempt will be looked at again, unless a person holds it */
    assert_int_equal(ASK(&w->world, "SELECT count(*) FROM payment_order p WHERE p.status < 2 AND "
                                    "p.quarantined = 0 AND NOT EXISTS (SELECT 1 FROM payment_due d "
                                    "WHERE d.id = p.id)"),
                     0);
    assert_int_equal(ASK(&w->world,
                         "SELECT count(*) FROM payment_order p WHERE p.status = 2 AND "
                         "p.settled = 0 AND NOT EXISTS (SELECT 1 FROM payment_due d WHERE "
                         "d.id = p.id)"),
                     0);
    core_close(w);
}

/* A test of one centre: `struct core *w = *state`, opened before it, checked and closed after it.
 */
static inline int core_set_up(void **state)
{
    static struct core w;
    core_open(&w);
    *state = &w;
    return 0;
}

static inline int core_tear_down(void **state)
{
    core_check(*state);
    return 0;
}
#define CORE_TEST(name) cmocka_unit_test_setup_teardown(name, core_set_up, core_tear_down)

/* main(): with "--lost-answers" every rule runs twice. */
#define RUN_CORE_TESTS(tests)                                                                      \
    (core_lost_answers = argc > 1 && strcmp(argv[1], "--lost-answers") == 0, RUN_TESTS(tests))

#endif
