/* channel.c -- everything between the centre and the world: the wire to the channel, the channel's
 * callbacks, the merchant's webhook, and what goes wrong with each of them. */
#include "sim.h"

#include "base/buf.h"
#include "core/callback/callback.h"

#define PATIENCE_MS 5000 /* the channel's, with our answer to a callback */

/* ---- the wire to the channel ---- */

static struct http_call copy_call(struct arena *a, const struct http_call *call)
{
    struct http_call c = *call;
    struct http_header *items = arena_array(a, call->headers.count + 1, sizeof *items);
    for (size_t i = 0; i < call->headers.count; i++)
        items[i] = (struct http_header) { str_dup(a, call->headers.items[i].name),
                                          str_dup(a, call->headers.items[i].value) };
    c.method = str_cstr(a, str_of(call->method));
    c.url = str_dup(a, call->url);
    c.headers.items = items;
    c.body = call->body.p ? str_dup(a, call->body) : STR_NONE;
    return c;
}

/* A call that takes its time: it arrives even when nobody waits for its answer any more. */
struct carried {
    struct http_call call;
    struct http_reply reply;
    struct sim_task *waiter;
    bool over;
};

static void carry(struct sim *s, void *arg)
{
    struct carried *k = arg;
    struct transport *channel = sandbox_transport(s->sandbox);

    sim_sleep(s, sim_below(s, s->temper.wire_max_ms));
    channel->exchange(channel, &s->outside.env, &k->call, s->arena, &k->reply);
    sim_sleep(s, sim_below(s, s->temper.wire_max_ms));
    k->over = true;
    if (k->waiter)
        sim_wake(k->waiter);
}

static void wire_exchange(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, wire);
    struct transport *channel = sandbox_transport(s->sandbox);
    int64_t until = s->now_ms + call->total_ms;

    if (s->healed || !sim_chance(s, s->temper.wire_percent)) {
        channel->exchange(channel, env, call, a, ret);
        sim_note(s, "channel", ret->outcome == HTTP_ANSWERED ? ret->status : -(int)ret->outcome);
        return;
    }
    struct carried *k = arena_one(s->arena, struct carried);
    *k = (struct carried) { .call = copy_call(s->arena, call), .waiter = s->running };
    sim_spawn(s, "wire", SIM_OUTSIDE, carry, k);
    while (!k->over && s->now_ms < until)
        sim_wait(s, until);
    k->waiter = NULL;
    *ret = k->over ? k->reply
                   : (struct http_reply) { .outcome = HTTP_UNKNOWN, .trouble = STR("timed out") };
    sim_note(s, "channel", ret->outcome == HTTP_ANSWERED ? ret->status : -(int)ret->outcome);
}

/* ---- callbacks ---- */

struct arrival {
    struct http_call call;
    int status;
    struct callback_input in;
};

static enum store_outcome take(struct sim_process *p, struct arrival *x, const char *name,
                               store_rule *rule, struct err_info *info)
{
    struct store_job job;
    store_job_init(&job, p->centre.env, p->centre.mint, CALLBACK_IDS);
    job.name = name;
    job.class = STORE_CALLBACK;
    job.slot = x->in.subject.slot;
    job.rule = rule;
    job.arg = &x->in;
    return store_run(p->centre.store, &job, info);
}

/* As the callback service does, without its HTTP: verify, store, answer. */
static void serve_callback(struct sim_process *p, void *arg)
{
    struct arrival *x = arg;
    struct sim *s = p->sim;
    struct str name = str_sub(x->call.url, sizeof SIM_NOTIFY, x->call.url.n);
    struct account *account = registry_ref(p->centre.registry, name);
    const struct channel_driver *driver = account->info->driver;
    struct notice_input input = { .body = x->call.body, .headers = &x->call.headers };
    struct err_info info = { 0 };
    enum notice_answer answer = ANSWER_LATER;
    struct notice_reply reply;

    x->in = (struct callback_input) { .account = account,
                                      .body = x->call.body,
                                      .trace_id = STR("callback") };
    enum notice_result result =
        driver->read_notice(account, p->centre.env, &input, s->arena, &x->in.notice, &info);
    sim_note(s, "notice", (int64_t)result);
    if (result == NOTICE_BAD)
        answer = ANSWER_BAD;
    if (result == NOTICE_OK || result == NOTICE_RAW_ONLY) {
        struct buf headers;
        buf_init_arena(&headers, s->arena, 8192);
        for (size_t i = 0; i < x->call.headers.count; i++)
            buf_printf(&headers, STR_FMT ": " STR_FMT "\n", STR_ARG(x->call.headers.items[i].name),
                       STR_ARG(x->call.headers.items[i].value));
        x->in.headers_text = buf_str(&headers);
        x->in.raw_only = result == NOTICE_RAW_ONLY;
        callback_prepare(&x->in, s->arena);
        enum store_outcome outcome = take(p, x, "callback", callback_rule, &info);
        if (outcome == STORE_REFUSED) {
            sim_fail(s, x->in.subject, "the rule of callbacks failed: %s", info.text);
            outcome = take(p, x, "callback.keep_failed", callback_rule_keep_failed, &info);
        }
        sim_note(s, "stored", (int64_t)outcome);
        if (outcome == STORE_COMMITTED && result == NOTICE_OK)
            answer = ANSWER_OK;
    }
    driver->answer_notice(account, answer, &reply);
    x->status = reply.status;
    account_unref(account);
}

static void callback_exchange(struct transport *t, struct env *env, const struct http_call *call,
                              struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, callbacks);
    struct arrival *x = arena_one(s->arena, struct arrival);
    (void)env;
    (void)a;

    x->call = copy_call(s->arena, call);
    *ret = (struct http_reply) { .outcome = HTTP_UNKNOWN };
    if (!sim_call(s, "callback", serve_callback, x, PATIENCE_MS))
        return;
    ret->outcome = HTTP_ANSWERED;
    ret->status = x->status;
    if (x->status / 100 != 2)
        return;
    struct sim_ack *ack = arena_one(s->arena, struct sim_ack);
    ack->subject = x->in.subject;
    list_append(&s->acknowledged, &ack->link);
}

static void sender(struct sim *s, void *arg)
{
    (void)arg;
    for (;;) {
        sandbox_turn(s->sandbox);
        int64_t next = sandbox_next_ms(s->sandbox);
        int64_t until = s->now_ms + (s->healed ? SIM_PAUSE_MAX_MS : 500);
        sim_wait(s, next > s->now_ms && next < until ? next : until);
    }
}

/* ---- the merchant's webhook ---- */

/* May fail before it has taken the event in, or after. */
static void hook_exchange(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, hooks);
    int percent = s->healed ? 0 : s->temper.hook_percent;
    (void)env;
    (void)a;

    *ret = (struct http_reply) { .outcome = HTTP_NOT_SENT, .trouble = STR("hook") };
    if (sim_chance(s, percent / 2))
        return;
    struct sim_ack *got = arena_one(s->arena, struct sim_ack);
    struct str id = http_header_get(&call->headers, "webhook-id", NULL);
    if (number_parse(id, NUMBER_EVENT, &got->subject))
        sim_fail(s, got->subject, "a webhook without an event's number");
    list_append(&s->received, &got->link);
    bool fine = !sim_chance(s, percent);
    ret->outcome = fine || sim_chance(s, 50) ? HTTP_ANSWERED : HTTP_UNKNOWN;
    ret->status = fine ? 204 : 500;
    sim_note(s, "hook", fine);
}

/* ---- the channel ---- */

static void add_fault(struct sim *s, enum sandbox_fault fault, const char *call, const char *code,
                      int percent)
{
    if (!sim_chance(s, 50))
        return;
    struct sandbox_fault_rule rule = {
        .fault = fault,
        .call = str_of(call),
        .code = str_of(code),
        .status = fault == FAULT_ERROR ? 400 : 0,
        .delay_ms = sim_chance(s, 50) ? sim_below(s, 20000) : 0,
        /* Never so that two lies make a truth. */
        .amount_delta_fen = fault == FAULT_CALLBACK_WRONG_AMOUNT ? 7
                            : sim_chance(s, 50)                  ? 1
                                                                 : -1,
        .percent = 1 + (int)sim_below(s, percent),
        .copies = 1 + (int)sim_below(s, 3),
    };
    sandbox_fault(s->sandbox, &rule);
}

static void add_faults(struct sim *s)
{
    int most = s->temper.faults_percent, few = most / 2 + 1;
    static const enum sandbox_fault callbacks[] = {
        FAULT_CALLBACK_LOSE,           FAULT_CALLBACK_DELAY,   FAULT_CALLBACK_DUPLICATE,
        FAULT_CALLBACK_REORDER,        FAULT_CALLBACK_CORRUPT, FAULT_CALLBACK_BAD_SIGNATURE,
        FAULT_CALLBACK_UNKNOWN_SERIAL, FAULT_CALLBACK_PROBE,   FAULT_CALLBACK_UNSIGNED,
    };
    static const enum sandbox_fault calls[] = {
        FAULT_ANSWER_LOST, FAULT_TIMEOUT,  FAULT_NOT_SENT,      FAULT_HTTP_500,
        FAULT_HTTP_429,    FAULT_UNSIGNED, FAULT_BAD_SIGNATURE, FAULT_GARBAGE,
    };
    if (!most)
        return;
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks; i++)
        add_fault(s, callbacks[i], NULL, NULL, most);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        add_fault(s, calls[i], "*", NULL, most);
    add_fault(s, FAULT_ERROR, "prepay", "PARAM_ERROR", few);
    add_fault(s, FAULT_ERROR, "prepay", "RULE_LIMIT", few);
    add_fault(s, FAULT_ERROR, "prepay", "NO_AUTH", few);
    add_fault(s, FAULT_ERROR, "prepay", "TRADE_ERROR", few);
    add_fault(s, FAULT_ERROR, "query", "RULE_LIMIT", few);
    add_fault(s, FAULT_ERROR, "close", "RULE_LIMIT", few);
    add_fault(s, FAULT_ERROR, "close", "TRADE_ERROR", few);
    add_fault(s, FAULT_HTTP_429_DONE, "close", NULL, few);
    add_fault(s, FAULT_WRONG_AMOUNT_TAKEN, NULL, NULL, few);
    add_fault(s, FAULT_CALLBACK_WRONG_AMOUNT, NULL, NULL, few);
    add_fault(s, FAULT_CALLBACK_WRONG_MERCHANT, NULL, NULL, few);
    if (s->temper.typing)
        sandbox_fault(s->sandbox,
                      &(struct sandbox_fault_rule) { .fault = FAULT_PAY_CLOSED, .percent = 60 });
}

void sim_wire_open(struct sim *s)
{
    struct err_info info = { 0 };
    s->wire.exchange = wire_exchange;
    s->callbacks.exchange = callback_exchange;
    s->hooks.exchange = hook_exchange;
    struct sandbox_options o = { .env = &s->outside.env,
                                 .wechat = { s->base->wechat[0], s->base->wechat[1] },
                                 .wechat_count = SIM_ACCOUNTS,
                                 .callbacks = &s->callbacks,
                                 .manual = true,
                                 .seed = s->seed };
    sim_must(sandbox_new(&o, &s->sandbox, &info), "sandbox", &info);
    add_faults(s);
    sim_spawn(s, "sender", SIM_OUTSIDE, sender, NULL);
    sim_spawn(s, "sender", SIM_OUTSIDE, sender, NULL);
}
