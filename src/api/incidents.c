/* incidents.c -- /v1/incidents: what needs a person, and what a person does about it. A caller sees
 * its own; an admin's `scope=all` also those that are nobody's, and an admin may act on all.
 *
 * Who acts is a person, not a key: a caller names its operator, and answers for that name. */
#include "api/call.h"
#include "api/caller_sql.h"
#include "api/output.h"
#include "core/resolve/resolve.h"

#define OPERATOR_MAX 32
#define WHO_MAX      64 /* as in the table */

struct incident_list_in {
    struct page page;
    struct str state, kind, scope;
};
static const struct field incident_list_fields[] = {
    PAGE_FIELDS(struct incident_list_in),
    INPUT_TEXT(struct incident_list_in, state, OPTIONAL, 1, 16, SET_ANY),
    INPUT_TEXT(struct incident_list_in, kind, OPTIONAL, 1, 32, SET_ANY),
    INPUT_TEXT(struct incident_list_in, scope, OPTIONAL, 1, 16, SET_ANY),
};
const struct shape incident_list_query = SHAPE(struct incident_list_in, incident_list_fields);

/* Printed inside the read, where the rows' texts live. */
struct incident_page {
    struct api_call *call;
    struct reply reply;
    struct incident_filter filter;
};

static enum err incident_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct incident_page *page = arg;
    struct incident_row rows[LIST_LIMIT_MAX];
    size_t n;

    enum err e = incident_list(tx, &page->filter, rows, &n, info);
    if (e)
        return e;
    struct reply *r = &page->reply;
    reply_begin(page->call, r);
    json_key(&r->out, "incidents");
    json_begin_array(&r->out);
    for (size_t i = 0; i < n; i++) {
        rows[i].detail = error_said(page->call->req, rows[i].detail);
        output_incident(&r->out, &rows[i], page->call->arena);
    }
    json_end_array(&r->out);
    reply_next_cursor(page->call, r, "incidents", n, page->filter.limit, n ? rows[n - 1].no.id : 0);
    return ERR_OK;
}

/* False: answered. */
static bool read_filter(struct api_call *call, const struct incident_list_in *in,
                        struct incident_page *page)
{
    struct incident_filter *f = &page->filter;
    enum incident_kind kind;

    f->state = -1;
    f->caller = call->who.caller.id;
    if (in->state.n) {
        f->state = str_eq(in->state, STR("open")) ? 0 : str_eq(in->state, STR("resolved")) ? 1 : -1;
        if (f->state < 0) {
            call_refuse_field(call, CODE_BAD_FIELD, "state", STR("open or resolved"));
            return false;
        }
    }
    if (in->kind.n) {
        if (incident_kind_parse(in->kind, &kind)) {
            call_refuse_field(call, CODE_BAD_FIELD, "kind", STR("no such kind"));
            return false;
        }
        f->kind = (int)kind;
    }
    if (!in->scope.n)
        return true;
    if (!str_eq(in->scope, STR("all"))) {
        call_refuse_field(call, CODE_BAD_FIELD, "scope", STR("all, or nothing"));
        return false;
    }
    if (!(call->who.permissions & PERMISSION_ADMIN)) {
        call_refuse_field(call, CODE_FORBIDDEN, "scope", STR_NONE);
        return false;
    }
    f->caller = 0;
    return true;
}

void incident_get_list(struct api_call *call)
{
    const struct incident_list_in *in = call->query;
    struct incident_page page = { .call = call };
    struct refusal refusal = { 0 };

    if (!read_filter(call, in, &page) ||
        !call_page(call, "incidents", &in->page, &page.filter.before, &page.filter.limit))
        return;
    if (centre_read(call->centre, "incident_list", 0, incident_rule, &page, &refusal))
        call_refuse(call, &refusal);
    else
        reply_send(call, &page.reply, 200);
}

/* ---- one of them ---- */

struct incident_resolve_in {
    struct str action, reason, operator, caller;
};
static const struct field incident_resolve_fields[] = {
    INPUT_TEXT(struct incident_resolve_in, action, REQUIRED, 1, 32, SET_ANY),
    INPUT_TEXT(struct incident_resolve_in, reason, REQUIRED, 1, RESOLVE_REASON_MAX, SET_ANY),
    INPUT_TEXT(struct incident_resolve_in, operator, OPTIONAL, 1, OPERATOR_MAX, SET_ID),
    INPUT_TEXT(struct incident_resolve_in, caller, OPTIONAL, 1, AUTH_CALLER_NAME_MAX, SET_ID),
};
const struct shape incident_resolve_body =
    SHAPE(struct incident_resolve_in, incident_resolve_fields);

struct incident_withdraw_in {
    struct str operator;
};
static const struct field incident_withdraw_fields[] = {
    INPUT_TEXT(struct incident_withdraw_in, operator, OPTIONAL, 1, OPERATOR_MAX, SET_ID),
};
const struct shape incident_withdraw_body =
    SHAPE(struct incident_withdraw_in, incident_withdraw_fields);

static bool sees_all(const struct api_call *call)
{
    return (call->who.permissions & PERMISSION_ADMIN) != 0;
}

/* "amy@shop", or the caller itself where it names nobody. */
static struct str who(const struct api_call *call, struct str operator)
{
    struct str name = operator.n ? str_printf(call->arena, STR_FMT "@" STR_FMT, STR_ARG(operator),
                                              STR_ARG(call->who.caller.name))
                                 : call->act.actor;
    return str_sub(name, 0, WHO_MAX);
}

static void send(struct api_call *call, const struct resolved *r, int status)
{
    struct reply reply;

    reply_begin(call, &reply);
    struct incident_row row = r->incident;
    row.detail = error_said(call->req, row.detail);
    output_incident_members(&reply.out, &row, call->arena);
    if (r->proposed)
        output_proposal(&reply.out, &r->proposal, call->arena);
    output_number(&reply.out, "pay_no", r->pay_no);
    json_key(&reply.out, "actions");
    json_begin_array(&reply.out);
    for (int a = ACTION_ACCEPT; a <= ACTION_IGNORE && !r->incident.resolved; a++)
        if (resolve_fits(r->incident.kind, (enum incident_action)a))
            json_str(&reply.out, str_of(incident_action_name((enum incident_action)a)));
    json_end_array(&reply.out);
    reply_send(call, &reply, status);
}

void incident_get_one(struct api_call *call)
{
    struct number no;
    struct resolved r;
    struct refusal refusal = { 0 };

    if (!call_number(call, "incident_no", NUMBER_INCIDENT, CODE_INCIDENT_NOT_FOUND, &no))
        return;
    if (resolve_get(call->centre, &call->act, no, sees_all(call), &r, &refusal))
        call_refuse(call, &refusal);
    else
        send(call, &r, 200);
}

struct finding {
    struct str name;
    int64_t id;
};

static enum err find_caller_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct finding *f = arg;
    struct caller_record caller;
    enum err e = caller_sql_by_name(tx, f->name, &caller, info);

    f->id = e ? 0 : caller.id;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* For whom an orphan is adopted, which is nobody's until then and so an admin's affair. False:
 * answered. */
static bool read_caller(struct api_call *call, struct str name, struct caller_ref *ret)
{
    struct finding f = { .name = name };
    struct refusal refusal = { 0 };

    if (!name.n)
        return true;
    if (!sees_all(call)) {
        call_refuse_field(call, CODE_FORBIDDEN, "caller", STR_NONE);
        return false;
    }
    if (centre_read(call->centre, "caller_find", 0, find_caller_rule, &f, &refusal)) {
        call_refuse(call, &refusal);
        return false;
    }
    if (!f.id)
        call_refuse_field(call, CODE_BAD_FIELD, "caller", STR("no such caller"));
    *ret = (struct caller_ref) { f.id, name };
    return f.id != 0;
}

void incident_post_resolve(struct api_call *call)
{
    const struct incident_resolve_in *in = call->body;
    struct resolve r = { .any_caller = sees_all(call),
                         .who = who(call, in->operator),
                         .reason = in->reason };
    struct resolved done;
    struct refusal refusal = { 0 };

    if (!call_number(call, "incident_no", NUMBER_INCIDENT, CODE_INCIDENT_NOT_FOUND,
                     &r.incident_no) ||
        !read_caller(call, in->caller, &r.adopt_for))
        return;
    if (incident_action_parse(in->action, &r.action))
        call_refuse_field(call, CODE_BAD_FIELD, "action", STR("no such action"));
    else if (resolve_incident(call->centre, &call->act, &r, &done, &refusal))
        call_refuse(call, &refusal);
    else
        send(call, &done, done.proposed ? 202 : 200);
}

void incident_post_withdraw(struct api_call *call)
{
    const struct incident_withdraw_in *in = call->body;
    struct number no;
    struct resolved r;
    struct refusal refusal = { 0 };

    if (!call_number(call, "incident_no", NUMBER_INCIDENT, CODE_INCIDENT_NOT_FOUND, &no))
        return;
    if (resolve_withdraw(call->centre, &call->act, no, sees_all(call), who(call, in->operator), &r,
                         &refusal))
        call_refuse(call, &refusal);
    else
        send(call, &r, 200);
}
