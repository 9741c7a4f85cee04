/* callbacks.c -- notifications to the merchant: envelope, signature, the resend schedule, and all
 * that can go wrong with them on purpose.
 *
 * What waits lies in a heap by due time. A sender takes a delivery out, prints and signs and sends
 * it without the lock, and puts it back for its next try unless it was acknowledged: so one
 * notification is never sent twice at once, unless a duplicate was asked for. */
#include "sandbox/internal.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "crypto/aead.h"

#define ANSWER_MS       5000
#define REORDER_AT_MOST MINUTE_MS
#define SENDER_NAP_MS   500

/* After the first sending: about a day in all. */
static const int32_t resend_s[] = { 15,   15,   30,    180,   600,   1200,  1800, 1800,
                                    1800, 3600, 10800, 10800, 10800, 21600, 21600 };
#define RESENDS (int)(sizeof resend_s / sizeof resend_s[0])

/* ---- the heap ---- */

static bool earlier(const struct delivery *x, const struct delivery *y)
{
    return x->due_ms != y->due_ms ? x->due_ms < y->due_ms : x->seq < y->seq;
}

static void put_at(struct queue *q, size_t i, struct delivery *d)
{
    q->heap[i] = d;
    d->place = i;
}

static void sift_up(struct queue *q, struct delivery *d)
{
    size_t i = d->place;
    while (i > 0 && earlier(d, q->heap[(i - 1) / 2])) {
        put_at(q, i, q->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put_at(q, i, d);
}

static void sift_down(struct queue *q, struct delivery *d)
{
    size_t i = d->place, child;
    while ((child = 2 * i + 1) < q->count) {
        if (child + 1 < q->count && earlier(q->heap[child + 1], q->heap[child]))
            child++;
        if (!earlier(q->heap[child], d))
            break;
        put_at(q, i, q->heap[child]);
        i = child;
    }
    put_at(q, i, d);
}

static void push(struct sandbox *s, struct delivery *d)
{
    struct queue *q = &s->queue;
    if (q->count == q->room) {
        q->room = q->room ? q->room * 2 : 256;
        q->heap = realloc(q->heap, q->room * sizeof(struct delivery *));
        if (!q->heap)
            abort();
    }
    d->seq = q->seq++;
    d->place = q->count++;
    sift_up(q, d);
    pthread_cond_signal(&s->changed);
}

static void take_out(struct queue *q, struct delivery *d)
{
    size_t hole = d->place;
    struct delivery *last = q->heap[--q->count];
    if (last == d)
        return;
    put_at(q, hole, last);
    sift_up(q, last);
    sift_down(q, last);
}

static struct delivery *take_due(struct sandbox *s, int64_t now_ms)
{
    struct queue *q = &s->queue;
    if (!q->count || q->heap[0]->due_ms > now_ms)
        return NULL;
    struct delivery *d = q->heap[0];
    take_out(q, d);
    if (d->account->held == d)
        d->account->held = NULL;
    return d;
}

/* Where its trade or refund points to the one that is no copy. */
static struct delivery **pointer_to(const struct delivery *d)
{
    return d->refund ? &d->refund->callback : &d->trade->callback;
}

static void delivery_free(struct delivery *d)
{
    if (!d->is_copy)
        *pointer_to(d) = NULL;
    free((char *)(uintptr_t)d->body.p);
    free(d);
}

/* ---- scheduling ---- */

static struct delivery *delivery_new(struct trade *t, struct refund *r, int64_t due_ms)
{
    struct delivery *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->account = t->account;
    d->trade = t;
    d->refund = r;
    d->due_ms = due_ms;
    return d;
}

/* The one that was held back comes right behind this one; of a refund, when that is over. */
static void let_go_held(struct sandbox *s, struct account *account, int64_t due_ms)
{
    struct delivery *held = account->held;
    if (!held)
        return;
    account->held = NULL;
    take_out(&s->queue, held);
    held->due_ms = held->refund && held->refund->end_ms > due_ms ? held->refund->end_ms : due_ms;
    push(s, held);
}

void sandbox_callbacks_schedule(struct sandbox *s, struct trade *t, struct refund *r,
                                int64_t due_ms)
{
    struct sandbox_fault_rule rule;
    const struct str call = STR("callback");
    struct account *account = t->account;
    struct delivery *d = delivery_new(t, r, due_ms);
    if (sandbox_faults_hit(&s->faults, FAULT_CALLBACK_DELAY, call, account->mchid, &rule))
        d->due_ms += rule.delay_ms;
    bool hold = !account->held &&
                sandbox_faults_hit(&s->faults, FAULT_CALLBACK_REORDER, call, account->mchid, &rule);
    if (hold)
        d->due_ms += rule.delay_ms ? rule.delay_ms : REORDER_AT_MOST;
    *pointer_to(d) = d;
    push(s, d);
    if (hold)
        account->held = d;
    else
        let_go_held(s, account, d->due_ms);
    if (sandbox_faults_hit(&s->faults, FAULT_CALLBACK_DUPLICATE, call, account->mchid, &rule))
        d->copies = rule.copies > 0 ? rule.copies : 1;
}

void sandbox_callbacks_restore(struct sandbox *s, struct trade *t, struct refund *r, int64_t due_ms)
{
    struct delivery *d = delivery_new(t, r, due_ms);
    *pointer_to(d) = d;
    push(s, d);
}

/* ---- the envelope ---- */

static void print_refund(const struct refund *r, const struct transaction_lie *lie, struct arena *a,
                         struct json_out *o)
{
    const struct trade *t = r->trade;
    int64_t refund_fen = r->amount_fen + lie->amount_delta_fen;
    json_begin_object(o);
    json_key(o, "amount");
    json_begin_object(o);
    json_kv_int(o, "payer_refund", refund_fen);
    json_kv_int(o, "payer_total", t->taken_fen);
    json_kv_int(o, "refund", refund_fen);
    json_kv_int(o, "total", t->taken_fen);
    json_end_object(o);
    json_kv_str(o, "mchid", lie->mchid.n ? lie->mchid : t->account->mchid);
    json_kv_str(o, "out_refund_no", r->out_refund_no);
    json_kv_str(o, "out_trade_no", t->out_trade_no);
    json_kv_str(o, "refund_id", r->refund_id);
    json_kv_str(o, "refund_status", str_of(books_refund_state(r->state)));
    if (r->state == REFUND_SUCCESS)
        json_kv_str(o, "success_time", clock_rfc3339(a, r->end_ms));
    json_kv_str(o, "transaction_id", t->transaction_id);
    json_kv_str(o, "user_received_account", STR("支付用户零钱"));
    json_end_object(o);
}

static struct str random_uuid(struct sandbox *s, struct arena *a)
{
    unsigned char b[16];
    env_random(s->env, b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    struct str h = str_hex(a, b, sizeof b);
    return str_printf(a, "%.8s-%.4s-%.4s-%.4s-%.12s", h.p, h.p + 8, h.p + 12, h.p + 16, h.p + 20);
}

struct event_words {
    const char *type, *original, *summary;
};

static struct event_words words_of(const struct delivery *d)
{
    static const struct event_words refunds[] = {
        [REFUND_PROCESSING] = { "REFUND.SUCCESS", "refund", "退款处理中" },
        [REFUND_SUCCESS] = { "REFUND.SUCCESS", "refund", "退款成功" },
        [REFUND_CLOSED] = { "REFUND.CLOSED", "refund", "退款关闭" },
        [REFUND_ABNORMAL] = { "REFUND.ABNORMAL", "refund", "退款异常" },
    };
    if (d->refund)
        return refunds[d->refund->state];
    return (struct event_words) { "TRANSACTION.SUCCESS", "transaction", "支付成功" };
}

static struct str print_plain(const struct delivery *d, const struct transaction_lie *lie,
                              struct arena *a)
{
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, a, 16384);
    json_out_init(&o, &b);
    if (d->refund)
        print_refund(d->refund, lie, a, &o);
    else /* whatever happened to it since: this is the news of the payment */
        sandbox_v3_print(d->trade, TRADE_SUCCESS, lie, a, &o);
    return buf_str(&b);
}

/* "/" may stand as "\/" in JSON, and some of WeChat's servers print it so: every fourth envelope
 * does. */
static struct str escape_slashes(struct str json, struct arena *a)
{
    struct buf b;
    buf_init_arena(&b, a, json.n * 2 + 1);
    for (size_t i = 0; i < json.n; i++) {
        if (json.p[i] == '/')
            buf_add_char(&b, '\\');
        buf_add_char(&b, json.p[i]);
    }
    return buf_str(&b);
}

static struct str print_envelope(struct sandbox *s, const struct delivery *d,
                                 const struct transaction_lie *lie, bool corrupt, struct arena *a)
{
    struct event_words words = words_of(d);
    struct str nonce = sandbox_random_text(s, a, 12), cipher;
    if (aead_encrypt(d->account->apiv3_key, nonce, str_of(words.original), print_plain(d, lie, a),
                     a, &cipher))
        abort(); /* the key's length was checked when the sandbox was made */
    if (corrupt)
        ((char *)(uintptr_t)cipher.p)[cipher.n / 2] ^= 1;
    struct buf b;
    struct json_out o;
    buf_init_arena(&b, a, 65536);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_str(&o, "id", random_uuid(s, a));
    json_kv_str(&o, "create_time", clock_rfc3339(a, env_now_ms(s->env)));
    json_kv_str(&o, "resource_type", STR("encrypt-resource"));
    json_kv_str(&o, "event_type", str_of(words.type));
    json_kv_str(&o, "summary", str_of(words.summary));
    json_key(&o, "resource");
    json_begin_object(&o);
    json_kv_str(&o, "original_type", str_of(words.original));
    json_kv_str(&o, "algorithm", STR("AEAD_AES_256_GCM"));
    json_kv_str(&o, "ciphertext", str_base64(a, cipher));
    json_kv_str(&o, "associated_data", str_of(words.original));
    json_kv_str(&o, "nonce", nonce);
    json_end_object(&o);
    json_end_object(&o);
    return d->seq % 4 == 3 ? escape_slashes(buf_str(&b), a) : buf_str(&b);
}

static struct str heap_copy(struct str s)
{
    char *p = malloc(s.n + 1);
    if (!p)
        abort();
    memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct str) { p, s.n };
}

/* The true envelope is printed once: every resend carries the same bytes. */
static void print_once(struct sandbox *s, struct delivery *d, struct arena *a)
{
    if (d->body.p)
        return;
    books_age(&s->books, env_now_ms(s->env));
    d->body = heap_copy(print_envelope(s, d, &(struct transaction_lie) { 0 }, false, a));
}

void sandbox_callbacks_resume(struct sandbox *s, struct delivery *d, int attempt, int64_t due_ms,
                              struct str body)
{
    take_out(&s->queue, d);
    if (!due_ms) {
        delivery_free(d);
        return;
    }
    if (body.n && !d->body.p)
        d->body = heap_copy(body);
    d->attempt = attempt;
    d->due_ms = due_ms;
    push(s, d);
}

/* With the first sending, so that they can arrive at once; each is sent one time only. */
static void add_copies(struct sandbox *s, struct delivery *d)
{
    for (; d->copies > 0; d->copies--) {
        struct delivery *copy = delivery_new(d->trade, d->refund, d->due_ms);
        copy->body = heap_copy(d->body);
        copy->is_copy = true;
        push(s, copy);
    }
}

/* ---- sending ---- */

/* One sending as the faults of this moment make it. */
struct sending {
    bool lose, bad_signature, probe, is_unsigned;
    struct str body, url, serial;
    struct rsa_key *key;
    struct transport *carrier;
};

/* Lock held. */
static struct sending prepare(struct sandbox *s, struct delivery *d, struct arena *a)
{
    struct sandbox_fault_rule rule;
    const struct str call = STR("callback"), mchid = d->account->mchid;
    struct faults *f = &s->faults;
    struct transaction_lie lie = { 0 };
    struct sending x = { .carrier = s->callbacks };

    print_once(s, d, a);
    add_copies(s, d);
    x.lose = sandbox_faults_hit(f, FAULT_CALLBACK_LOSE, call, mchid, NULL);
    x.bad_signature = sandbox_faults_hit(f, FAULT_CALLBACK_BAD_SIGNATURE, call, mchid, NULL);
    x.probe = sandbox_faults_hit(f, FAULT_CALLBACK_PROBE, call, mchid, NULL);
    x.is_unsigned = sandbox_faults_hit(f, FAULT_CALLBACK_UNSIGNED, call, mchid, NULL);
    bool corrupt = sandbox_faults_hit(f, FAULT_CALLBACK_CORRUPT, call, mchid, NULL);
    bool other_amount = sandbox_faults_hit(f, FAULT_CALLBACK_WRONG_AMOUNT, call, mchid, &rule);
    if (other_amount)
        lie.amount_delta_fen = rule.amount_delta_fen ? rule.amount_delta_fen : 1;
    if (sandbox_faults_hit(f, FAULT_CALLBACK_WRONG_MERCHANT, call, mchid, NULL))
        lie.mchid = STR("1999999999");
    bool lies = corrupt || other_amount || lie.mchid.n;
    x.body = lies ? print_envelope(s, d, &lie, corrupt, a) : str_dup(a, d->body);

    struct platform_key k = sandbox_v3_signer(d->account, STR_NONE, a);
    x.key = k.key;
    x.serial = k.serial;
    if (sandbox_faults_hit(f, FAULT_CALLBACK_UNKNOWN_SERIAL, call, mchid, NULL))
        x.serial = sandbox_random_serial(s, a);
    x.url = d->refund ? d->refund->notify_url : d->trade->notify_url;
    return x;
}

/* True when the merchant acknowledged it. */
static bool send_one(struct sandbox *s, const struct sending *x, struct arena *a)
{
    struct str timestamp = str_printf(a, "%lld", (long long)(env_now_ms(s->env) / 1000));
    struct str nonce = sandbox_random_text(s, a, 32);
    struct str signature = sandbox_v3_signature(
        x->key, timestamp, nonce, x->bad_signature ? STR("something else") : x->body, a);
    if (x->probe)
        signature = str_printf(a, "WECHATPAY/SIGNTEST/" STR_FMT, STR_ARG(signature));
    struct http_header headers[] = {
        { STR("Content-Type"), STR("application/json") },
        { STR("Accept"), STR("*/*") },
        { STR("User-Agent"), STR("Mozilla/4.0") },
        { STR("Request-ID"), sandbox_random_text(s, a, 32) },
        { STR("Wechatpay-Nonce"), nonce },
        { STR("Wechatpay-Serial"), x->serial },
        { STR("Wechatpay-Signature"), signature },
        { STR("Wechatpay-Signature-Type"), STR("WECHATPAY2-SHA256-RSA2048") },
        { STR("Wechatpay-Timestamp"), timestamp },
    };
    const size_t all = sizeof headers / sizeof headers[0], plain = 4;
    struct http_call call = {
        .method = "POST",
        .url = x->url,
        .headers = { headers, x->is_unsigned ? plain : all },
        .body = x->body,
        .connect_ms = ANSWER_MS,
        .total_ms = ANSWER_MS,
    };
    struct http_reply reply = { 0 };
    transport_exchange(x->carrier, s->env, &call, a, &reply);
    return reply.outcome == HTTP_ANSWERED && (reply.status == 200 || reply.status == 204);
}

/* Takes `d` over. The lock is held on entry and on return, not in between. */
static void deliver(struct sandbox *s, struct delivery *d)
{
    struct arena *a = arena_new(8192);
    struct sending x = prepare(s, d, a);
    int64_t now_ms = env_now_ms(s->env);
    d->trade->callbacks_sent++;
    sandbox_unlock(s);
    bool acknowledged = !x.lose && x.carrier && send_one(s, &x, a);
    rsa_unref(x.key);
    arena_free(a);
    sandbox_lock(s);

    d->trade->callbacks_acknowledged += acknowledged;
    d->attempt++;
    if (d->is_copy) {
        delivery_free(d);
        return;
    }
    bool over = acknowledged || d->attempt > RESENDS;
    if (!over)
        d->due_ms = now_ms + resend_s[d->attempt - 1] * 1000LL;
    sandbox_journal_callback(s, d, acknowledged, over);
    if (over)
        delivery_free(d);
    else
        push(s, d);
}

size_t sandbox_turn(struct sandbox *s)
{
    struct delivery *d;
    size_t sent = 0;
    sandbox_lock(s);
    int64_t now_ms = env_now_ms(s->env);
    while ((d = take_due(s, now_ms))) {
        deliver(s, d);
        sent++;
    }
    sandbox_unlock(s);
    return sent;
}

int64_t sandbox_next_ms(struct sandbox *s)
{
    sandbox_lock(s);
    int64_t next = s->queue.count ? s->queue.heap[0]->due_ms : 0;
    sandbox_unlock(s);
    return next;
}

void sandbox_set_callbacks(struct sandbox *s, struct transport *callbacks)
{
    sandbox_lock(s);
    s->callbacks = callbacks;
    pthread_cond_broadcast(&s->changed);
    sandbox_unlock(s);
}

/* ---- threads of their own ---- */

static void nap(struct sandbox *s, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until);
}

static void *sender_main(void *arg)
{
    struct sandbox *s = arg;
    sandbox_lock(s);
    while (!s->stopping) {
        int64_t now_ms = env_now_ms(s->env);
        struct delivery *d = s->callbacks ? take_due(s, now_ms) : NULL;
        if (d) {
            deliver(s, d);
            continue;
        }
        int64_t wait_ms =
            s->callbacks && s->queue.count ? s->queue.heap[0]->due_ms - now_ms : SENDER_NAP_MS;
        nap(s, wait_ms < SENDER_NAP_MS ? wait_ms : SENDER_NAP_MS);
    }
    sandbox_unlock(s);
    return NULL;
}

enum err sandbox_callbacks_start(struct sandbox *s, struct err_info *info)
{
    for (; s->senders_started < s->senders; s->senders_started++)
        if (pthread_create(&s->sender[s->senders_started], NULL, sender_main, s))
            return err_set(info, ERR_BUSY, "the sandbox cannot start a thread");
    return ERR_OK;
}

void sandbox_callbacks_stop(struct sandbox *s)
{
    sandbox_lock(s);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    sandbox_unlock(s);
    for (unsigned i = 0; i < s->senders_started; i++)
        pthread_join(s->sender[i], NULL);
    while (s->queue.count)
        delivery_free(s->queue.heap[--s->queue.count]);
    free(s->queue.heap);
}
