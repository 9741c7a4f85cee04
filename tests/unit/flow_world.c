/* flow_world.c -- the made-up channel and a centre around it. */
#include "flow_world.h"

struct fake_channel fake_channel;

static enum err fake_keys_open(struct account *account, struct env *env, struct err_info *info)
{
    (void)account;
    (void)env;
    (void)info;
    return ERR_OK;
}

static void fake_keys_close(struct account *account)
{
    (void)account;
}

static size_t fake_keys_notes(const struct account *account, struct arena *a, struct key_note ret[],
                              size_t max)
{
    (void)account;
    (void)a;
    if (!fake_channel.key_not_after_ms || !max)
        return 0;
    ret[0] = (struct key_note) { .what = STR("platform certificate AB12"),
                                 .not_after_ms = fake_channel.key_not_after_ms };
    return 1;
}

static struct str fake_contract(const struct account *account, struct arena *a)
{
    return str_printf(a, "merchant=" STR_FMT, STR_ARG(account->config.wechat.mchid));
}

static struct fact fact_from(struct str text, struct str *ret_key)
{
    struct str word = str_cut(&text, '|'), pay_no = str_cut(&text, '|'),
               transaction = str_cut(&text, '|'), amount = str_cut(&text, '|');
    struct fact f = { .pay_no = pay_no,
                      .transaction_id = transaction,
                      .ours = true,
                      .time_ms = WORLD_NOW_MS - 1500 };
    int64_t fen = 0;

    f.kind = str_eq(word, STR("PAID"))     ? FACT_PAID
             : str_eq(word, STR("SHUT"))   ? FACT_SHUT
             : str_eq(word, STR("FAILED")) ? FACT_PAY_FAILED
             : str_eq(word, STR("REFUND")) ? FACT_REFUND_DONE
                                           : FACT_NOTHING;
    assert_ok(str_int64(amount, &fen));
    assert_ok(money_of(fen, STR("CNY"), &f.amount));
    f.payer_amount = f.amount;
    f.channel_discount = money_zero(f.amount);
    if (f.kind == FACT_REFUND_DONE) { /* made at the channel; its id is the transaction's text */
        f.refund_no = f.channel_refund_id = transaction;
        f.transaction_id = STR_NONE;
    }
    *ret_key = word;
    return f;
}

static enum notice_result fake_read_notice(struct account *account, struct env *env,
                                           const struct notice_input *in, struct arena *a,
                                           struct notice *ret, struct err_info *info)
{
    struct str text = in->body, verdict = str_cut(&text, '\n'), word;

    (void)account;
    (void)env;
    fake_channel.notices++;
    *ret = (struct notice) { .reason = NOTICE_REASON_NONE,
                             .transport_id = http_header_get(in->headers, "x-notification", NULL) };
    if (str_eq(verdict, STR("bad"))) {
        ret->reason = NOTICE_REASON_SIGNATURE;
        err_set(info, ERR_DENIED, "the signature does not verify");
        return NOTICE_BAD;
    }
    if (str_eq(verdict, STR("stale")) && !in->stored) {
        ret->reason = NOTICE_REASON_STALE;
        return NOTICE_BAD;
    }
    if (str_eq(verdict, STR("later"))) {
        ret->reason = NOTICE_REASON_SERIAL;
        return NOTICE_LATER;
    }
    if (fake_channel.undecryptable || str_eq(verdict, STR("raw"))) {
        ret->reason = NOTICE_REASON_DECRYPT;
        ret->event_key = str_printf(a, "raw:" STR_FMT, STR_ARG(ret->transport_id));
        return NOTICE_RAW_ONLY;
    }
    ret->plain = str_dup(a, text);
    ret->facts[0] = fact_from(text, &word);
    ret->fact_count = 1;
    ret->kind = word;
    ret->subject_no = ret->facts[0].pay_no;
    const struct fact *f = &ret->facts[0];
    ret->event_key =
        str_printf(a, STR_FMT ":" STR_FMT, STR_ARG(word),
                   STR_ARG(f->channel_refund_id.n ? f->channel_refund_id : f->transaction_id));
    return NOTICE_OK;
}

static void fake_answer_notice(const struct account *account, enum notice_answer answer,
                               struct notice_reply *ret)
{
    (void)account;
    switch (answer) {
    case ANSWER_OK:
        *ret = (struct notice_reply) { 200, "text/plain", STR("success") };
        return;
    case ANSWER_LATER:
        *ret = (struct notice_reply) { 503, "text/plain", STR("later") };
        return;
    case ANSWER_BAD:
        *ret = (struct notice_reply) { 401, "text/plain", STR("fail") };
        return;
    }
}

static bool fake_paid_equal(const struct account *account, const struct fact *fact,
                            struct money amount)
{
    (void)account;
    return fact->ours && money_eq(fact->amount, amount);
}

static void fake_query(struct account *account, const struct channel_ctx *ctx, struct str pay_no,
                       struct channel_answer *ret)
{
    (void)account;
    (void)ctx;
    fake_channel.queries++;
    if (fake_channel.while_asked)
        fake_channel.while_asked(fake_channel.while_asked_arg);
    *ret = (struct channel_answer) { .outcome = fake_channel.query_outcome,
                                     .fact_count = fake_channel.query_fact_count };
    for (size_t i = 0; i < ret->fact_count; i++) {
        ret->facts[i] = fake_channel.query_facts[i];
        ret->facts[i].pay_no = pay_no;
    }
}

static enum err fake_refresh_keys(struct account *account, const struct channel_ctx *ctx,
                                  struct learnt_keys *ret, struct err_info *info)
{
    (void)account;
    (void)ctx;
    (void)info;
    fake_channel.refreshes++;
    if (fake_channel.while_refreshing)
        registry_put(fake_channel.registry, fake_channel.while_refreshing);
    fake_channel.while_refreshing = NULL;
    ret->count = 0;
    if (fake_channel.learnt.serial.n)
        ret->items[ret->count++] = fake_channel.learnt;
    return ERR_OK;
}

/* Holds at most one key: its serial's text in `keys`. */
static enum err fake_keys_add(struct account *account, const struct learnt_keys *keys,
                              struct account **ret, size_t *ret_refused, struct err_info *info)
{
    (void)info;
    *ret = NULL;
    *ret_refused = 0;
    for (size_t i = 0; i < keys->count; i++) {
        if (!str_eq(keys->items[i].origin, STR("fake")))
            ++*ret_refused;
        else if (!account->keys || !str_eq(str_of(account->keys), keys->items[i].serial)) {
            assert_ok(account_renew(account, NULL, ret));
            (*ret)->keys = (void *)(uintptr_t)str_cstr((*ret)->arena, keys->items[i].serial);
            return ERR_OK;
        }
    }
    return ERR_OK;
}

static const struct channel_driver fake_driver = {
    .keys_open = fake_keys_open,
    .keys_close = fake_keys_close,
    .keys_notes = fake_keys_notes,
    .contract = fake_contract,
    .query = fake_query,
    .read_notice = fake_read_notice,
    .answer_notice = fake_answer_notice,
    .paid_equal = fake_paid_equal,
    .refresh_keys = fake_refresh_keys,
    .keys_add = fake_keys_add,
};

static const struct method_info fake_methods[] = { { METHOD_NATIVE, "native", false, false,
                                                     true } };

static const struct channel_info fake_info = {
    .id = CHANNEL_WECHAT,
    .name = "wechat",
    .methods = fake_methods,
    .method_count = 1,
    .capabilities = CHANNEL_REFRESHES_KEYS,
    .currency = "CNY",
    .driver = &fake_driver,
};

struct account *flow_account(const char *name, const char *merchant)
{
    struct arena *a = arena_new(1024);
    struct account *account = arena_one(a, struct account);
    account->arena = a;
    account->info = &fake_info;
    account->config.name = str_dup(a, str_of(name));
    account->config.wechat.mchid = str_dup(a, str_of(merchant));
    account->refs = 1;
    account->generation = 1;
    return account;
}

static void want_keys(void *ctx, struct account *account)
{
    (void)account;
    ((struct flow_world *)ctx)->keys_wanted++;
}

void flow_world_open(struct flow_world *f, bool threads)
{
    memset(f, 0, sizeof *f);
    fake_channel.notices = fake_channel.queries = fake_channel.refreshes = 0;
    fake_channel.undecryptable = false;
    fake_channel.query_outcome = CHANNEL_UNKNOWN;
    fake_channel.query_fact_count = 0;
    fake_channel.key_not_after_ms = 0;
    fake_channel.while_asked = NULL;
    fake_channel.learnt = (struct learnt_key) { .not_after_ms = 0 };
    world_open(&f->w, threads);
    f->c = (struct centre) { .env = f->w.env,
                             .store = f->w.store,
                             .mint = f->w.mint,
                             .registry = registry_new(),
                             .process_id = 77 };
    centre_settings_defaults(&f->c.settings);
    f->c.want_keys = want_keys;
    f->c.want_keys_ctx = f;
    f->account = flow_account("fake", "1");
    f->other = flow_account("other", "2");
    registry_put(f->c.registry, f->account);
    registry_put(f->c.registry, f->other);
}

void flow_world_close(struct flow_world *f)
{
    registry_free(f->c.registry);
    world_close(&f->w);
}

int flow_set_up(void **state)
{
    static struct flow_world f;
    flow_world_open(&f, false);
    *state = &f;
    return 0;
}

int flow_tear_down(void **state)
{
    flow_world_close(*state);
    return 0;
}

/* ---- orders and attempts, as the flows leave them ---- */

#define MANY 100

struct made {
    const char *merchant_order_no;
    struct attempt ids;
};

static enum err make_one(struct tx *tx, struct made *m, struct err_info *info)
{
    struct str key = str_printf(tx_arena(tx), "m%s", m->merchant_order_no);
    unsigned slot = number_slot(STR("shop"), str_of(m->merchant_order_no));
    struct order o = { .no = number_make(NUMBER_ORDER, slot, tx_new_id(tx)),
                       .caller = 1,
                       .merchant_order_no = str_of(m->merchant_order_no) };
    struct payment p = { .no = number_make(NUMBER_PAYMENT, slot, tx_new_id(tx)), .caller = 1 };
    struct journal_row row;
    struct evidence none = { .kind = EVIDENCE_NONE, .actor = STR("test") };
    struct act act = { .caller = { 1, STR("shop") },
                       .actor = STR("test"),
                       .trace_id = STR("trace") };
    enum err e;

    o.user_id = STR("user-1");
    o.subject = STR("a thing");
    if (money_of(8800, STR("CNY"), &o.order_amount))
        return ERR_INTERNAL;
    o.pay_amount = o.order_amount;
    o.discount = o.shipping = o.tax = money_zero(o.order_amount);
    o.version = 1;
    o.create_ms = o.update_ms = tx_now_ms(tx);
    if ((e = journal_next(tx, o.no, &o.journal, -1, ORDER_WAIT_PAY, CAUSE_CREATED, &none,
                          act.trace_id, STR_NONE, &row, &o.journal, info)) ||
        (e = journal_insert(tx, &row, info)) || (e = order_sql_insert(tx, &o, key, info)))
        return e;

    p.order_no = o.no;
    p.account = STR("fake");
    p.channel = CHANNEL_WECHAT;
    p.method = METHOD_NATIVE;
    p.user_id = o.user_id;
    p.amount = o.pay_amount;
    p.request = (struct channel_request) {
        STR("/pay"),
        STR("{\"description\":\"about as long as a real one, to make the row's size real\"}")
    };
    p.request_id = str_printf(tx_arena(tx), "%lld", (long long)p.no.id);
    p.status = PAYMENT_PAYING;
    p.expire_ms = tx_now_ms(tx) + 900000;
    p.next_query_ms = tx_now_ms(tx) + 30000;
    p.trace_id = act.trace_id;
    p.version = 1;
    p.create_ms = p.update_ms = tx_now_ms(tx);
    if ((e = journal_next(tx, p.no, &p.journal, -1, PAYMENT_PAYING, CAUSE_CREATED, &none,
                          act.trace_id, STR_NONE, &row, &p.journal, info)) ||
        (e = journal_insert(tx, &row, info)) || (e = payment_sql_insert(tx, &p, info)) ||
        (e = due_insert(tx, &payment_due, p.next_query_ms, p.no.id, info)))
        return e;
    m->ids = (struct attempt) { o.no, p.no };
    return order_attempt_started(tx, &o, &act, info);
}

static enum err make_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return make_one(tx, arg, info);
}

struct attempt flow_attempt(struct flow_world *f, const char *merchant_order_no)
{
    struct made m = { .merchant_order_no = merchant_order_no };
    world_run(&f->w, make_rule, &m);
    return m.ids;
}

struct many {
    struct flow_world *f;
    struct attempt *ret;
    size_t from, n;
};

static enum err make_many_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct many *m = arg;
    for (size_t i = 0; i < m->n; i++) {
        struct made one = { .merchant_order_no =
                                str_printf(tx_arena(tx), "bulk-%zu", m->from + i).p };
        enum err e = make_one(tx, &one, info);
        if (e)
            return e;
        m->ret[m->from + i] = one.ids;
    }
    return ERR_OK;
}

void flow_attempts(struct flow_world *f, struct attempt *ret, size_t n)
{
    for (size_t from = 0; from < n; from += MANY) {
        struct many m = {
            .f = f, .ret = ret, .from = from, .n = n - from < MANY ? n - from : MANY
        };
        struct store_job job;
        env_test_advance(&f->w.test, 10);
        store_job_init(&job, f->w.env, f->w.mint, 1024);
        job.name = "test";
        job.rule = make_many_rule;
        job.arg = &m;
        assert_int_equal(store_run(f->w.store, &job, NULL), STORE_COMMITTED);
    }
}

struct loaded {
    struct flow_world *f;
    int64_t id;
    struct payment p;
    struct order o;
};

static enum err load_payment_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct loaded *l = arg;
    enum err e = payment_load(tx, l->id, &l->p, info);
    if (!e) {
        l->p.transaction_id = str_keep(l->f->w.arena, l->p.transaction_id);
        l->p.account = str_keep(l->f->w.arena, l->p.account);
    }
    return e;
}

static enum err load_order_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct loaded *l = arg;
    return order_load(tx, l->id, &l->o, info);
}

struct payment flow_payment(struct flow_world *f, struct number pay_no)
{
    struct loaded l = { .f = f, .id = pay_no.id };
    world_read(&f->w, load_payment_rule, &l);
    return l.p;
}

struct order flow_order(struct flow_world *f, struct number order_no)
{
    struct loaded l = { .f = f, .id = order_no.id };
    world_read(&f->w, load_order_rule, &l);
    return l.o;
}

/* ---- deliveries ---- */

struct str notice_text(struct arena *a, const char *verdict, const char *word, struct number pay_no,
                       const char *transaction, int64_t fen)
{
    return str_printf(a, "%s\n%s|%s|%s|%lld|", verdict, word, number_text(pay_no).s, transaction,
                      (long long)fen);
}

struct callback_input flow_input(struct flow_world *f, struct account *account, struct str text)
{
    static const struct http_header items[] = { { STR_INIT("x-notification"), STR_INIT("n-1") } };
    struct http_headers headers = { items, 1 };
    struct notice_input input = { .body = text, .headers = &headers };
    struct callback_input in = { .account = account,
                                 .body = text,
                                 .headers_text = STR("x-notification: n-1\n"),
                                 .trace_id = STR("trace-cb") };
    struct err_info info = { .err = ERR_OK };

    in.raw_only = fake_read_notice(account, f->w.env, &input, f->w.arena, &in.notice, &info) ==
                  NOTICE_RAW_ONLY;
    callback_prepare(&in, f->w.arena);
    return in;
}

struct callback_input flow_callback(struct flow_world *f, struct account *account, struct str text)
{
    struct callback_input in = flow_input(f, account, text);
    struct store_job job;
    struct err_info info = { .err = ERR_OK };

    store_job_init(&job, f->w.env, f->w.mint, CALLBACK_IDS);
    job.name = "callback";
    job.rule = callback_rule;
    job.arg = &in;
    if (store_run(f->w.store, &job, &info) != STORE_COMMITTED) {
        print_error("%s\n", info.text);
        fail();
    }
    return in;
}
