/* incidents.c -- /v1/incidents: what needs a person. A caller sees its own; `scope=all` (admin)
 * also those that are nobody's. */
#include "api/call.h"
#include "api/output.h"

struct incident_list_in {
    struct page page;
    struct str state, scope;
};
static const struct field incident_list_fields[] = {
    PAGE_FIELDS(struct incident_list_in),
    INPUT_TEXT(struct incident_list_in, state, OPTIONAL, 1, 16, SET_ANY),
    INPUT_TEXT(struct incident_list_in, scope, OPTIONAL, 1, 16, SET_ANY),
};
const struct shape incident_list_query = SHAPE(struct incident_list_in, incident_list_fields);

/* Printed inside the read, where the rows' texts live. */
struct incident_page {
    struct api_call *call;
    struct reply reply;
    int64_t caller, before;
    int state;
    size_t limit;
};

static enum err incident_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct incident_page *page = arg;
    struct incident_row rows[LIST_LIMIT_MAX];
    size_t n;

    enum err e =
        incident_list(tx, page->caller, page->state, page->before, page->limit, rows, &n, info);
    if (e)
        return e;
    struct reply *r = &page->reply;
    reply_begin(page->call, r);
    json_key(&r->out, "incidents");
    json_begin_array(&r->out);
    for (size_t i = 0; i < n; i++)
        output_incident(&r->out, &rows[i], page->call->arena);
    json_end_array(&r->out);
    reply_next_cursor(page->call, r, "incidents", n, page->limit, n ? rows[n - 1].no.id : 0);
    return ERR_OK;
}

/* False: answered. */
static bool read_filter(struct api_call *call, const struct incident_list_in *in,
                        struct incident_page *page)
{
    page->state = -1;
    page->caller = call->who.caller.id;
    if (in->state.n) {
        page->state = str_eq(in->state, STR("open"))       ? 0
                      : str_eq(in->state, STR("resolved")) ? 1
                                                           : -1;
        if (page->state < 0) {
            call_refuse_field(call, CODE_BAD_FIELD, "state", STR("open or resolved"));
            return false;
        }
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
    page->caller = 0;
    return true;
}

void incident_get_list(struct api_call *call)
{
    const struct incident_list_in *in = call->query;
    struct incident_page page = { .call = call };
    struct refusal refusal = { 0 };

    if (!read_filter(call, in, &page) ||
        !call_page(call, "incidents", &in->page, &page.before, &page.limit))
        return;
    if (centre_read(call->centre, "incident_list", 0, incident_rule, &page, &refusal))
        call_refuse(call, &refusal);
    else
        reply_send(call, &page.reply, 200);
}
