/* channel.c -- everything between the centre and the world: the wire to the channel, the channel's
 * callbacks and those of an attacker, the merchant's webhooks, and what goes wrong with each. */
#include "sim/inner.h"

#include "core/callback/callback.h"
#include "notify/intake.h"

#define PATIENCE_MS 5000 /* the channel's, with our answer to a callback */
#define HEARD_MAX   64   /* callbacks that an attacker has listened to */
#define OUTAGE_MS   90000
/* Longer than a query waits before it is believed, shorter than two of them: up to one and a half.
 */
#define DAWDLE_MS    75000
#define GOOD_TIME_MS 180000
#define HOOK_MS      15000

struct sim_channel {
    int64_t away_until_ms[SIM_ACCOUNTS];
    bool away_unheard[SIM_ACCOUNTS]; /* what was sent may have arrived */
    struct http_call heard[HEARD_MAX];
    size_t heard_n;
};

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
    int64_t there_ms, back_ms; /* how long it is on its way */
    struct sim_task *waiter;
    bool over;
};

static void carry(struct sim *s, void *arg)
{
    struct carried *k = arg;
    struct transport *channel = sandbox_transport(s->sandbox);

    sim_sleep(s, k->there_ms);
    channel->exchange(channel, &s->outside.env, &k->call, s->arena, &k->reply);
    sim_sleep(s, k->back_ms);
    k->over = true;
    if (k->waiter)
        sim_wake(k->waiter);
}

static void take_time(struct sim *s, const struct http_call *call, bool dawdle,
                      struct http_reply *ret)
{
    int64_t until = s->now_ms + call->total_ms, max = s->temper.wire_max_ms;
    struct carried *k = arena_one(s->arena, struct carried);
    *k = (struct carried) { .call = copy_call(s->arena, call), .waiter = s->running };
    k->there_ms = dawdle ? DAWDLE_MS + sim_below(s, DAWDLE_MS / 2) : sim_below(s, max);
    k->back_ms = dawdle ? 0 : sim_below(s, max);
    sim_spawn(s, "wire", NULL, carry, k);
    while (!k->over && s->now_ms < until)
        sim_wait(s, until);
    k->waiter = NULL;
    s->faults += !k->over;
    *ret = k->over ? k->reply
                   : (struct http_reply) { .outcome = HTTP_UNKNOWN, .trouble = STR("timed out") };
}

/* An account that is away takes nothing in; or it does, and only the way back is closed. */
static bool is_away(struct sim *s, const struct http_call *call, struct arena *a,
                    struct http_reply *ret)
{
    struct str who = http_header_get(&call->headers, "Authorization", NULL);
    struct transport *channel = sandbox_transport(s->sandbox);
    for (int i = 0; i < SIM_ACCOUNTS; i++) {
        struct str mchid = s->cast->wechat[i].mchid;
        if (s->channel->away_until_ms[i] <= s->now_ms || !memmem(who.p, who.n, mchid.p, mchid.n))
            continue;
        if (s->channel->away_unheard[i])
            channel->exchange(channel, &s->outside.env, call, a, ret);
        *ret = (struct http_reply) { .outcome =
                                         s->channel->away_unheard[i] ? HTTP_UNKNOWN : HTTP_NOT_SENT,
                                     .trouble = STR("away") };
        s->faults++;
        return true;
    }
    return false;
}

static void wire_exchange(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, wire);
    struct transport *channel = sandbox_transport(s->sandbox);

    sim_note_text(s, call->method, call->url);
    sim_note_text(s, "body", call->body);
    if (s->healed)
        channel->exchange(channel, env, call, a, ret);
    else if (!is_away(s, call, a, ret)) {
        bool dawdle = s->temper.dawdle && call->body.n && sim_chance(s, 40) &&
                      memmem(call->url.p, call->url.n, "/refund/", 8);
        if (dawdle || sim_chance(s, s->temper.wire_percent))
            take_time(s, call, dawdle, ret);
        else
            channel->exchange(channel, env, call, a, ret);
    }
    sim_note(s, "channel", ret->outcome == HTTP_ANSWERED ? ret->status : -(int)ret->outcome);
    sim_note_text(s, "answer", ret->body);
}

/* Goes and comes. */
static void weather(struct sim *s, void *arg)
{
    (void)arg;
    while (!s->healed) {
        sim_sleep(s, sim_below(s, GOOD_TIME_MS));
        int64_t until = s->now_ms + sim_below(s, OUTAGE_MS);
        int which = (int)sim_below(s, SIM_ACCOUNTS + 1); /* the last: all of them */
        for (int i = 0; i < SIM_ACCOUNTS; i++)
            if (which == i || which == SIM_ACCOUNTS) {
                s->channel->away_until_ms[i] = until;
                s->channel->away_unheard[i] = sim_chance(s, 30);
            }
        sim_note(s, "outage", until - s->now_ms);
    }
}

/* ---- callbacks ---- */

struct arrival {
    struct http_call call;
    struct intake intake;
    int status;
};

/* A rule of ours that fails after it has written. */
static enum err failing_rule(struct tx *tx, void *arg, struct err_info *info)
{
    enum err e = callback_rule(tx, arg, info);
    return e ? e : err_set(info, ERR_INTERNAL, "planted");
}

static enum store_outcome store(struct sim_process *p, struct arrival *x, struct err_info *info)
{
    struct sim *s = p->sim;
    struct intake *k = &x->intake;
    if (!k->keep_only && sim_mishap(s, s->temper.rule_permille))
        k->store.rule = failing_rule;
    enum store_outcome outcome = store_run(p->centre.store, &k->store, info);
    sim_note(s, "stored", (int64_t)outcome);
    if (outcome == STORE_REFUSED && k->store.rule != failing_rule)
        sim_fail(s, k->in.subject, "the rule of callbacks failed: %s", info->text);
    return outcome;
}

/* As the listener does. */
static void serve_callback(struct sim_process *p, void *arg)
{
    struct arrival *x = arg;
    struct sim *s = p->sim;
    struct intake *k = &x->intake;
    struct str name = str_sub(x->call.url, sizeof SIM_NOTIFY, x->call.url.n);
    struct account *account = registry_ref(p->centre.registry, name);
    struct err_info info = { 0 };
    enum notice_result result;
    struct notice_reply reply;

    if (!account) {
        x->status = 404;
        return;
    }
    *k = (struct intake) {
        .centre = &p->centre,
        .in = { .account = account, .body = x->call.body, .trace_id = STR("callback") }
    };
    bool to_store = intake_read(k, &x->call.headers, s->arena, &result);
    sim_note(s, "notice", (int64_t)result);
    while (to_store)
        to_store = intake_stored(k, store(p, x, &info), &info);
    account->info->driver->answer_notice(account, k->answer, &reply);
    x->status = reply.status;
    account_unref(account);
}

static int deliver(struct sim *s, const struct http_call *call, struct number *ret_subject)
{
    struct arrival *x = arena_one(s->arena, struct arrival);
    x->call = copy_call(s->arena, call);
    sim_note_text(s, "callback", call->body);
    if (!sim_call(s, "callback", serve_callback, x, PATIENCE_MS))
        return 0;
    *ret_subject = x->intake.in.subject;
    return x->status;
}

static void callback_exchange(struct transport *t, struct env *env, const struct http_call *call,
                              struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, callbacks);
    struct number subject;
    (void)env;
    (void)a;

    if (s->temper.attacker && s->channel->heard_n < HEARD_MAX)
        s->channel->heard[s->channel->heard_n++] = copy_call(s->arena, call);
    *ret = (struct http_reply) { .outcome = HTTP_UNKNOWN };
    int status = deliver(s, call, &subject);
    if (!status)
        return;
    ret->outcome = HTTP_ANSWERED;
    ret->status = status;
    if (status / 100 != 2)
        return;
    struct sim_ack *ack = arena_one(s->arena, struct sim_ack);
    ack->subject = subject;
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

/* ---- an attacker ---- */

/* The same bytes to somebody else's address, other bytes under the same signature, the same once
 * more: nothing of it may move money, and only what is unchanged may be taken at all. */
static void forge(struct sim *s, struct http_call call)
{
    struct number subject;
    bool changed = sim_chance(s, 60);
    if (changed && call.body.n) {
        char *bytes = (char *)(uintptr_t)(call.body = str_dup(s->arena, call.body)).p;
        bytes[sim_below(s, (int64_t)call.body.n)] ^= (char)(1 << sim_below(s, 7));
    } else if (sim_chance(s, 50)) {
        call.url = str_printf(s->arena, SIM_NOTIFY "/" STR_FMT,
                              STR_ARG(s->cast->account[sim_below(s, SIM_ACCOUNTS)]->config.name));
    }
    s->faults++;
    int status = deliver(s, &call, &subject);
    if (changed && status / 100 == 2)
        sim_fail(s, subject, "a forged callback was taken");
}

static void attacker(struct sim *s, void *arg)
{
    (void)arg;
    while (!s->healed) {
        sim_sleep(s, sim_below(s, 20000));
        if (s->channel->heard_n && !s->healed)
            forge(s, copy_call(s->arena,
                               &s->channel->heard[sim_below(s, (int64_t)s->channel->heard_n)]));
    }
}

/* ---- the merchant's webhooks ---- */

/* May fail before it has taken the event in, or after. */
static void hook_exchange(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    struct sim *s = container_of(t, struct sim, hooks);
    int permille = s->temper.hook_percent * 10;
    (void)env;
    (void)a;

    *ret = (struct http_reply) { .outcome = HTTP_NOT_SENT, .trouble = STR("hook") };
    if (str_ends(call->url, STR("/dead"))) {
        s->faults++;
        return;
    }
    if (sim_mishap(s, permille / 2))
        return;
    struct sim_ack *got = arena_one(s->arena, struct sim_ack);
    struct str id = http_header_get(&call->headers, "webhook-id", NULL);
    if (number_parse(id, NUMBER_EVENT, &got->subject))
        sim_fail(s, got->subject, "a webhook without an event's number");
    list_append(&s->received, &got->link);
    bool fine = !sim_mishap(s, permille);
    if (!fine && sim_chance(s, 20))
        sim_sleep(s, HOOK_MS);
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
    add_fault(s, FAULT_ERROR, "refund", "PARAM_ERROR", few);
    add_fault(s, FAULT_ERROR, "refund", "INVALID_REQUEST", few);
    add_fault(s, FAULT_ERROR, "refund", "NOT_ENOUGH", few);
    add_fault(s, FAULT_ERROR, "refund", "NO_AUTH", few);
    add_fault(s, FAULT_ERROR, "query_refund", "RULE_LIMIT", few);
    add_fault(s, FAULT_HTTP_429_DONE, "refund", NULL, few);
    add_fault(s, FAULT_REFUND_UNSEEN, NULL, NULL, 60);
    add_fault(s, FAULT_REFUND_STUCK, NULL, NULL, few);
    add_fault(s, FAULT_REFUND_CLOSED, NULL, NULL, few);
    add_fault(s, FAULT_REFUND_ABNORMAL, NULL, NULL, few);
    add_fault(s, FAULT_WRONG_AMOUNT_TAKEN, NULL, NULL, few);
    if (s->temper.liars) {
        add_fault(s, FAULT_CALLBACK_WRONG_AMOUNT, NULL, NULL, few);
        add_fault(s, FAULT_CALLBACK_WRONG_MERCHANT, NULL, NULL, few);
    }
    if (s->temper.dawdle)
        sandbox_fault(s->sandbox, &(struct sandbox_fault_rule) { .fault = FAULT_ERROR,
                                                                 .call = STR("refund"),
                                                                 .code = STR("PARAM_ERROR"),
                                                                 .status = 400,
                                                                 .percent = 40 });
    if (s->temper.typing)
        sandbox_fault(s->sandbox,
                      &(struct sandbox_fault_rule) { .fault = FAULT_PAY_CLOSED, .percent = 60 });
}

void sim_channel_open(struct sim *s)
{
    struct err_info info = { 0 };
    s->channel = arena_one(s->arena, struct sim_channel);
    s->wire.exchange = wire_exchange;
    s->callbacks.exchange = callback_exchange;
    s->hooks.exchange = hook_exchange;
    struct sandbox_options o = { .env = &s->outside.env,
                                 .wechat_count = SIM_ACCOUNTS,
                                 .callbacks = &s->callbacks,
                                 .manual = true,
                                 .seed = s->seed };
    for (int i = 0; i < SIM_ACCOUNTS; i++)
        o.wechat[i] = s->cast->wechat[i];
    sim_must(sandbox_new(&o, &s->sandbox, &info), "sandbox", &info);
    add_faults(s);
    for (int i = 0; i < 3; i++)
        sim_spawn(s, "sender", NULL, sender, NULL);
    if (s->temper.outages)
        sim_spawn(s, "weather", NULL, weather, NULL);
    if (s->temper.attacker)
        sim_spawn(s, "attacker", NULL, attacker, NULL);
}
