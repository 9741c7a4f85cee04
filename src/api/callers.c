/* callers.c -- /v1/callers (admin): business systems, their keys and permissions. A key is shown
 * once, in the answer that makes it. */
#include "api/caller_admin.h"
#include "api/call.h"

#define CALLERS_MAX 1000

struct caller_create_in {
    struct str name;
    struct opt_list permissions; /* of struct str */
};
static const struct field caller_create_fields[] = {
    INPUT_TEXT(struct caller_create_in, name, REQUIRED, 1, AUTH_CALLER_NAME_MAX, SET_ID),
    INPUT_TEXTS(struct caller_create_in, permissions, REQUIRED, 1, 16, SET_LETTERS),
};
const struct shape caller_create_body = SHAPE(struct caller_create_in, caller_create_fields);

struct caller_key_in {
    struct str kind;
};
static const struct field caller_key_fields[] = {
    INPUT_TEXT(struct caller_key_in, kind, REQUIRED, 1, 16, SET_ANY),
};
const struct shape caller_key_body = SHAPE(struct caller_key_in, caller_key_fields);

struct caller_rate_in {
    struct str rate;
};
static const struct field caller_rate_fields[] = {
    INPUT_TEXT(struct caller_rate_in, rate, REQUIRED, 1, 16, SET_ANY),
};
const struct shape caller_rate_body = SHAPE(struct caller_rate_in, caller_rate_fields);

static void put_permissions(struct json_out *o, unsigned permissions)
{
    json_key(o, "permissions");
    json_begin_array(o);
    for (size_t i = 0; i < PERMISSION_COUNT; i++)
        if (permissions & 1u << i)
            json_str(o, str_of(permission_name(i)));
    json_end_array(o);
}

void caller_get_list(struct api_call *call)
{
    struct caller_row *rows = arena_array(call->arena, CALLERS_MAX, sizeof *rows);
    size_t n;
    struct err_info info = { 0 };

    enum err e = caller_list(call->centre, call->arena, rows, CALLERS_MAX, &n, &info);
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    json_key(&r.out, "callers");
    json_begin_array(&r.out);
    for (size_t i = 0; i < n; i++) {
        json_begin_object(&r.out);
        json_kv_str(&r.out, "name", rows[i].name);
        put_permissions(&r.out, rows[i].permissions);
        json_kv_str(&r.out, "rate", str_of(caller_rate_name(rows[i].rate)));
        json_kv_str(&r.out, "state", rows[i].on ? STR("on") : STR("off"));
        json_kv_int(&r.out, "keys", (int64_t)rows[i].keys);
        json_end_object(&r.out);
    }
    json_end_array(&r.out);
    reply_send(call, &r, 200);
}

void caller_post(struct api_call *call)
{
    const struct caller_create_in *in = call->body;
    const struct str *names = in->permissions.p;
    unsigned permissions = 0, bit;
    int64_t id;
    struct str bearer;
    struct err_info info = { 0 };

    for (size_t i = 0; i < in->permissions.n; i++) {
        if (permission_parse(names[i], &bit)) {
            call_refuse_field(call, CODE_BAD_FIELD, "permissions",
                              STR("read, order, pay, refund, incident, admin"));
            return;
        }
        permissions |= bit;
    }
    enum err e = caller_create_by(call->centre, call->act.actor, in->name, permissions, call->arena,
                                  &id, &bearer, &info);
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    json_kv_str(&r.out, "name", in->name);
    put_permissions(&r.out, permissions);
    json_kv_str(&r.out, "key", bearer);
    reply_send(call, &r, 201);
}

void caller_post_key(struct api_call *call)
{
    const struct caller_key_in *in = call->body;
    bool hmac = str_eq(in->kind, STR("hmac"));
    struct str key_id, secret;
    struct err_info info = { 0 };

    if (!hmac && !str_eq(in->kind, STR("bearer"))) {
        call_refuse_field(call, CODE_BAD_FIELD, "kind", STR("bearer or hmac"));
        return;
    }
    enum err e =
        caller_add_key_by(call->centre, call->act.actor, http_param(call->req, "name"), hmac,
                          call->service->options.master_key, call->arena, &key_id, &secret, &info);
    if (e == ERR_CONFLICT) {
        call_refuse_code(call, CODE_KEY_LIMIT);
        return;
    }
    if (e) {
        call_refuse_err(call, e, &info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    json_kv_str(&r.out, "kind", in->kind);
    json_kv_str(&r.out, "key_id", key_id);
    json_kv_str(&r.out, hmac ? "secret" : "key", secret);
    reply_send(call, &r, 201);
}

static void answer_done(struct api_call *call, enum err e, const struct err_info *info)
{
    auth_forget(call->service->auth);
    if (e) {
        call_refuse_err(call, e, info);
        return;
    }
    struct reply r;
    reply_begin(call, &r);
    reply_send(call, &r, 200);
}

void caller_post_revoke(struct api_call *call)
{
    struct err_info info = { 0 };
    answer_done(
        call,
        caller_revoke_key_by(call->centre, call->act.actor, http_param(call->req, "key_id"), &info),
        &info);
}

static void set_state(struct api_call *call, bool on)
{
    struct err_info info = { 0 };
    answer_done(call,
                caller_set_state_by(call->centre, call->act.actor, http_param(call->req, "name"),
                                    on, &info),
                &info);
}

void caller_post_rate(struct api_call *call)
{
    const struct caller_rate_in *in = call->body;
    struct err_info info = { 0 };
    enum caller_rate rate;
    enum err e = caller_rate_parse(in->rate, &rate, &info);

    if (!e)
        e = caller_set_rate_by(call->centre, call->act.actor, http_param(call->req, "name"), rate,
                               &info);
    answer_done(call, e, &info);
}

void caller_post_enable(struct api_call *call)
{
    set_state(call, true);
}

void caller_post_disable(struct api_call *call)
{
    set_state(call, false);
}
