/* webhooks.c -- /v1/webhooks (admin): who is told of events, and with which secret. One's own, or
 * those of the caller named by `caller`. A secret is shown once, in the answer that makes it. */
#include "api/caller_admin.h"
#include "api/call.h"
#include "api/caller_sql.h"
#include "core/audit/audit.h"
#include "bus/event.h"
#include "crypto/secret.h"

#include <stdio.h>

#define WEBHOOKS_MAX        100
#define WEBHOOK_SECRET_SIZE 32
#define WEBHOOK_URL_MAX     512

struct webhook_create_in {
    struct str url, caller;
    struct opt_list types; /* of struct str */
};
static const struct field webhook_create_fields[] = {
    INPUT_TEXT(struct webhook_create_in, url, REQUIRED, 1, WEBHOOK_URL_MAX, SET_VISIBLE),
    INPUT_TEXTS(struct webhook_create_in, types, OPTIONAL, 1, 64, SET_ID),
    INPUT_TEXT(struct webhook_create_in, caller, OPTIONAL, 1, AUTH_CALLER_NAME_MAX, SET_ID),
};
const struct shape webhook_create_body = SHAPE(struct webhook_create_in, webhook_create_fields);

struct webhook_list_in {
    struct str caller;
};
static const struct field webhook_list_fields[] = {
    INPUT_TEXT(struct webhook_list_in, caller, OPTIONAL, 1, AUTH_CALLER_NAME_MAX, SET_ID),
};
const struct shape webhook_list_query = SHAPE(struct webhook_list_in, webhook_list_fields);

/* ---- administration ---- */

struct webhook_secret {
    struct str plain, enc;
};

static enum err make_secret(struct centre *c, int64_t id, struct str master_key, struct arena *a,
                            struct webhook_secret *ret, struct err_info *info)
{
    unsigned char b[WEBHOOK_SECRET_SIZE];

    if (!master_key.n)
        return err_set(info, ERR_INVALID, "webhooks need a master key in the configuration");
    env_random(c->env, b, sizeof b);
    struct str text = str_base64(a, (struct str) { (const char *)b, sizeof b });
    secret_wipe(b, sizeof b);
    ret->plain = str_printf(a, "whsec_" STR_FMT, STR_ARG(text));
    if (secret_encrypt(c->env, master_key, str_printf(a, "webhook:%lld", (long long)id), ret->plain,
                       a, &ret->enc))
        return err_internal(info, "the secret cannot be encrypted");
    return ERR_OK;
}

static enum err check_url(struct str text, bool allow_private, struct arena *a,
                          struct err_info *info)
{
    struct url url;
    struct str address;

    if (text.n > WEBHOOK_URL_MAX || url_parse(text, &url, info))
        return err_field(info, ERR_INVALID, "url",
                         "an absolute https address of at most %d characters", WEBHOOK_URL_MAX);
    if (allow_private)
        return ERR_OK;
    if (!str_eq(url.scheme, STR("https")))
        return err_field(info, ERR_INVALID, "url", "https is required");
    /* Checked and pinned again at every delivery: names move. */
    enum err e = resolve_public(url.host, true, a, &address, info);
    if (e == ERR_DENIED)
        return err_field(info, ERR_DENIED, "url", "the host has an address that is not public");
    return e ? err_field(info, ERR_INVALID, "url", "the host cannot be resolved") : ERR_OK;
}

/* One change of one webhook, with its audit row. */
struct change {
    enum { CHANGE_CREATE, CHANGE_ROTATE, CHANGE_SWITCH } what;
    struct webhook webhook; /* `on` for SWITCH */
    struct str secret_enc, who, id_text;
    bool found; /* result */
};

static enum err apply(struct tx *tx, struct change *n, struct err_info *info)
{
    const struct webhook *w = &n->webhook;

    switch (n->what) {
    case CHANGE_CREATE:
        return webhook_insert(tx, w, n->secret_enc, info);
    case CHANGE_ROTATE:
        return webhook_rotate(tx, w->caller, w->id, n->secret_enc, info);
    case CHANGE_SWITCH:
        return webhook_set(tx, w->caller, w->id, w->on, info);
    }
    return ERR_INTERNAL;
}

static struct str act_of(const struct change *n)
{
    switch (n->what) {
    case CHANGE_CREATE:
        return STR("webhook.create");
    case CHANGE_ROTATE:
        return STR("webhook.rotate");
    case CHANGE_SWITCH:
        return n->webhook.on ? STR("webhook.enable") : STR("webhook.disable");
    }
    return STR_NONE;
}

static enum err change_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct change *n = arg;
    int64_t audit_id = tx_new_id(tx);
    enum err e = apply(tx, n, info);

    n->found = e != ERR_NOT_FOUND;
    if (!n->found ||
        e == ERR_EXISTS) /* the id is ours alone: an earlier run was committed after all */
        return ERR_OK;
    return e ? e
             : audit_insert(
                   tx, &(struct audit) { audit_id, n->who, act_of(n), n->id_text, n->webhook.url },
                   info);
}

static enum err change(struct centre *c, struct change *n, struct arena *a, struct err_info *info)
{
    struct refusal refusal = { 0 };

    n->id_text = str_printf(a, "%lld", (long long)n->webhook.id);
    enum code code = centre_run(c, "webhook_change", STORE_API, 0, change_rule, n, 1, &refusal);
    if (code == CODE_BUSY)
        return err_set(info, ERR_BUSY, "the store is busy");
    if (code)
        return err_internal(info, "the webhook cannot be changed; the log says why");
    return n->found ? ERR_OK : err_set(info, ERR_NOT_FOUND, "no such webhook");
}

static enum err create_by(struct centre *c, struct str who, const struct webhook *webhook,
                          bool allow_private, struct str master_key, struct arena *a,
                          int64_t *ret_id, struct str *ret_secret, struct err_info *info)
{
    struct change n = { .what = CHANGE_CREATE, .webhook = *webhook, .who = who };
    struct webhook_secret secret;
    enum err e;

    n.webhook.id = mint_ids(c->mint, 1);
    if ((e = check_url(webhook->url, allow_private, a, info)) ||
        (e = make_secret(c, n.webhook.id, master_key, a, &secret, info)))
        return e;
    n.secret_enc = secret.enc;
    if ((e = change(c, &n, a, info)))
        return e;
    *ret_id = n.webhook.id;
    *ret_secret = secret.plain;
    return ERR_OK;
}

enum err webhook_create(struct centre *c, int64_t caller, struct str url, unsigned types,
                        bool allow_private, struct str master_key, struct arena *a, int64_t *ret_id,
                        struct str *ret_secret, struct err_info *info)
{
    struct webhook webhook = { .caller = caller, .url = url, .types = types, .on = true };
    return create_by(c, STR("command"), &webhook, allow_private, master_key, a, ret_id, ret_secret,
                     info);
}

enum err webhook_switch(struct centre *c, int64_t caller, int64_t id, bool on, struct arena *a,
                        struct err_info *info)
{
    struct change n = { .what = CHANGE_SWITCH,
                        .webhook = { .id = id, .caller = caller, .on = on },
                        .who = STR("command") };
    return change(c, &n, a, info);
}

static enum err rotate_by(struct centre *c, struct str who, int64_t caller, int64_t id,
                          struct str master_key, struct arena *a, struct str *ret_secret,
                          struct err_info *info)
{
    struct change n = { .what = CHANGE_ROTATE,
                        .webhook = { .id = id, .caller = caller },
                        .who = who };
    struct webhook_secret secret;
    enum err e = make_secret(c, id, master_key, a, &secret, info);
    if (e)
        return e;
    n.secret_enc = secret.enc;
    if ((e = change(c, &n, a, info)))
        return e;
    *ret_secret = secret.plain;
    return ERR_OK;
}

enum err webhook_new_secret(struct centre *c, int64_t caller, int64_t id, struct str master_key,
                            struct arena *a, struct str *ret_secret, struct err_info *info)
{
    return rotate_by(c, STR("command"), caller, id, master_key, a, ret_secret, info);
}

/* ---- over HTTP ---- */

/* Whose webhooks: the caller's own, or the named one's. False: answered. */
static bool owner_of(struct api_call *call, struct str name, int64_t *ret)
{
    struct err_info info = { 0 };

    *ret = call->who.caller.id;
    enum err e = name.n ? caller_find(call->centre, name, ret, &info) : ERR_OK;
    if (e == ERR_NOT_FOUND)
        call_refuse_field(call, CODE_NOT_FOUND, "caller", STR_NONE);
    else if (e)
        call_refuse_err(call, e, &info);
    return !e;
}

static void put_types(struct json_out *o, unsigned types)
{
    json_key(o, "types");
    json_begin_array(o);
    for (unsigned type = EVENT_PAYMENT_SUCCESS; type <= EVENT_RECON_FINISHED; type++)
        if (types & EVENT_BIT(type))
            json_str(o, str_of(event_type_name((enum event_type)type)));
    json_end_array(o);
}

static void put_webhook(struct json_out *o, const struct webhook *w)
{
    char id[24];
    int n = snprintf(id, sizeof id, "%lld", (long long)w->id);

    json_kv_str(o, "webhook_id", (struct str) { id, (size_t)n });
    json_kv_str(o, "url", w->url);
    put_types(o, w->types);
    json_kv_str(o, "state", w->on ? STR("on") : STR("off"));
}

struct webhook_page {
    struct api_call *call;
    struct reply reply;
    int64_t caller;
};

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct webhook_page *page = arg;
    struct webhook rows[WEBHOOKS_MAX];
    size_t n;
    enum err e = webhook_list(tx, page->caller, rows, WEBHOOKS_MAX, &n, info);
    if (e)
        return e;

    struct json_out *o = &page->reply.out;
    reply_begin(page->call, &page->reply);
    json_key(o, "webhooks");
    json_begin_array(o);
    for (size_t i = 0; i < n; i++) {
        json_begin_object(o);
        put_webhook(o, &rows[i]);
        json_end_object(o);
    }
    json_end_array(o);
    return ERR_OK;
}

void webhook_get_list(struct api_call *call)
{
    const struct webhook_list_in *in = call->query;
    struct webhook_page page = { .call = call };
    struct refusal refusal = { 0 };

    if (!owner_of(call, in->caller, &page.caller))
        return;
    if (centre_read(call->centre, "webhook_list", 0, list_rule, &page, &refusal))
        call_refuse(call, &refusal);
    else
        reply_send(call, &page.reply, 200);
}

void webhook_post(struct api_call *call)
{
    const struct webhook_create_in *in = call->body;
    const struct str *names = in->types.p;
    struct webhook w = { .url = in->url, .on = true };
    struct str secret;
    struct err_info info = { 0 };
    enum event_type type;

    for (size_t i = 0; i < in->types.n; i++) {
        if (event_type_parse(names[i], &type)) {
            call_refuse_field(call, CODE_BAD_FIELD, "types", STR("no such event type"));
            return;
        }
        w.types |= EVENT_BIT(type);
    }
    if (!owner_of(call, in->caller, &w.caller))
        return;
    enum err e =
        create_by(call->centre, call->act.actor, &w, call->service->options.webhook_private,
                  call->service->options.master_key, call->arena, &w.id, &secret, &info);
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    put_webhook(&r.out, &w);
    json_kv_str(&r.out, "secret", secret);
    reply_send(call, &r, 201);
}

/* The `{webhook_id}` of the path, of the owner the query names. False: answered. */
static bool target_of(struct api_call *call, struct webhook *ret)
{
    const struct webhook_list_in *in = call->query;

    if (str_int64(http_param(call->req, "webhook_id"), &ret->id)) {
        call_refuse_code(call, CODE_NOT_FOUND);
        return false;
    }
    return owner_of(call, in->caller, &ret->caller);
}

void webhook_post_rotate(struct api_call *call)
{
    struct webhook w;
    struct str secret;
    struct err_info info = { 0 };

    if (!target_of(call, &w))
        return;
    enum err e = rotate_by(call->centre, call->act.actor, w.caller, w.id,
                           call->service->options.master_key, call->arena, &secret, &info);
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    json_kv_str(&r.out, "webhook_id", str_printf(call->arena, "%lld", (long long)w.id));
    json_kv_str(&r.out, "secret", secret);
    reply_send(call, &r, 200);
}

static void switch_webhook(struct api_call *call, bool on)
{
    struct change n = { .what = CHANGE_SWITCH, .webhook.on = on, .who = call->act.actor };
    struct err_info info = { 0 };

    if (!target_of(call, &n.webhook))
        return;
    enum err e = change(call->centre, &n, call->arena, &info);
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    json_kv_str(&r.out, "webhook_id", n.id_text);
    json_kv_str(&r.out, "state", on ? STR("on") : STR("off"));
    reply_send(call, &r, 200);
}

void webhook_post_enable(struct api_call *call)
{
    switch_webhook(call, true);
}

void webhook_post_disable(struct api_call *call)
{
    switch_webhook(call, false);
}
