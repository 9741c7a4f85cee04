#include "flow_fake.h"

#include "base/json.h"

struct flow_fake flow_fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static enum code give(const struct act *act, struct payment *ret, struct refusal *refusal)
{
    pthread_mutex_lock(&flow_fake.lock);
    enum code code = flow_fake.refusal.code;
    *ret = flow_fake.payment;
    *refusal = flow_fake.refusal;
    pthread_mutex_unlock(&flow_fake.lock);
    if (!code && ret->caller != act->caller.id) {
        *refusal = (struct refusal) { .code = CODE_PAYMENT_NOT_FOUND };
        code = CODE_PAYMENT_NOT_FOUND;
    }
    return code;
}

static struct str remember(size_t *used, struct str s)
{
    char *to = flow_fake.asked_texts + *used;
    if (!s.p || *used + s.n > sizeof flow_fake.asked_texts)
        return STR_NONE;
    memcpy(to, s.p, s.n);
    *used += s.n;
    return (struct str) { to, s.n };
}

enum code payment_start(struct centre *c, const struct act *act, const struct payment_new *n,
                        struct payment *ret, enum payment_started *ret_how, struct refusal *refusal)
{
    size_t used = 0;
    (void)c;
    flow_fake.starts++;
    flow_fake.asked = *n;
    flow_fake.asked.request_id = remember(&used, n->request_id);
    flow_fake.asked.method = remember(&used, n->method);
    flow_fake.asked.user_id =
        remember(&used, n->inline_order ? n->inline_order->user_id : n->user_id);
    *ret_how = flow_fake.how;
    return give(act, ret, refusal);
}

enum err payment_client(struct centre *c, const struct payment *p, struct arena *a,
                        struct json_out *out, bool *ret_given, struct err_info *info)
{
    (void)c;
    (void)p;
    (void)a;
    (void)info;
    *ret_given = flow_fake.client;
    if (flow_fake.client)
        json_kv_str(out, "code_url", STR("weixin://wxpay/bizpayurl?pr=abc"));
    return ERR_OK;
}

enum code payment_get(struct centre *c, const struct act *act, struct number pay_no,
                      struct payment *ret, struct refusal *refusal)
{
    (void)c;
    enum code code = give(act, ret, refusal);
    if (!code && ret->no.id != pay_no.id) {
        *refusal = (struct refusal) { .code = CODE_PAYMENT_NOT_FOUND };
        code = CODE_PAYMENT_NOT_FOUND;
    }
    return code;
}

enum code payment_sync(struct centre *c, const struct act *act, struct number pay_no,
                       struct payment *ret, struct refusal *refusal)
{
    return payment_get(c, act, pay_no, ret, refusal);
}

enum code payment_close(struct centre *c, const struct act *act, struct number pay_no,
                        struct payment *ret, bool *ret_closing, struct refusal *refusal)
{
    *ret_closing = flow_fake.closing;
    return payment_get(c, act, pay_no, ret, refusal);
}

enum err payment_close_step(struct centre *c, int64_t pay_id, struct str actor,
                            struct silences *silences, bool *ret_open, struct err_info *info)
{
    (void)silences;
    (void)c;
    (void)pay_id;
    (void)actor;
    (void)info;
    *ret_open = false;
    return ERR_OK;
}

enum err payment_due_turn(struct centre *c, size_t max, size_t *ret_done, struct err_info *info)
{
    (void)c;
    (void)max;
    (void)info;
    *ret_done = 0;
    return ERR_OK;
}

enum code timeline_read(struct centre *c, const struct act *act, struct number no,
                        struct timeline_entry **ret, size_t *ret_n, struct refusal *refusal)
{
    (void)c;
    (void)refusal;
    struct timeline_entry *entry = arena_one(act->arena, struct timeline_entry);
    *entry = (struct timeline_entry) {
        .time_ms = 1780000000123,
        .kind = TIMELINE_JOURNAL,
        .subject = no,
        .text = STR("created"),
        .detail = STR("{\"to\":\"WAIT_PAY\"}"),
    };
    *ret = entry;
    *ret_n = 1;
    return CODE_OK;
}
