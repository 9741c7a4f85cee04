/* events.c -- /v1/events: the caller's feed in publish order, and replay. */
#include "api/call.h"
#include "api/cursor.h"

struct event_list_in {
    struct page page;
};
static const struct field event_list_fields[] = { PAGE_FIELDS(struct event_list_in) };
const struct shape event_list_query = SHAPE(struct event_list_in, event_list_fields);

/* Printed inside the read, where the events' texts live. */
struct feed_page {
    struct api_call *call;
    struct reply reply;
    int64_t after;
    size_t limit;
};

static enum err feed_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct feed_page *page = arg;
    struct api_call *call = page->call;
    struct event events[LIST_LIMIT_MAX];
    int64_t seqs[LIST_LIMIT_MAX];
    size_t n;

    enum err e =
        feed_read(tx, call->who.caller.id, page->after, page->limit, events, seqs, &n, info);
    if (e)
        return e;

    struct reply *r = &page->reply;
    reply_begin(call, r);
    json_key(&r->out, "events");
    json_begin_array(&r->out);
    for (size_t i = 0; i < n; i++) {
        struct buf one;
        buf_init_arena(&one, call->arena, 65536);
        event_print(&events[i], call->service->options.source, &one);
        json_put_raw(&r->out, buf_str(&one));
    }
    json_end_array(&r->out);
    /* A feed has no end: the place to go on from is always given. */
    json_kv_str(
        &r->out, "next_cursor",
        cursor_print(call->arena, "events", call->who.caller.id, n ? seqs[n - 1] : page->after));
    return ERR_OK;
}

void event_get_list(struct api_call *call)
{
    const struct event_list_in *in = call->query;
    struct feed_page page = { .call = call };
    struct refusal refusal = { 0 };

    if (!call_page(call, "events", &in->page, &page.after, &page.limit))
        return;
    if (centre_read(call->centre, "event_feed", 0, feed_rule, &page, &refusal))
        call_refuse(call, &refusal);
    else
        reply_send(call, &page.reply, 200);
}

struct replay {
    struct number no;
    int64_t caller;
    bool found;
};

static enum err replay_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct replay *replay = arg;
    struct event event;
    enum err e = event_read(tx, replay->no.id, &event, info);

    replay->found = !e && event.caller == replay->caller;
    if (e == ERR_NOT_FOUND || (!e && !replay->found))
        return ERR_OK;
    return e ? e : event_replay(tx, replay->no.id, info);
}

void event_post_replay(struct api_call *call)
{
    struct replay replay = { .caller = call->who.caller.id };
    struct refusal refusal = { 0 };

    if (!call_number(call, "event_id", NUMBER_EVENT, CODE_NOT_FOUND, &replay.no))
        return;
    if (centre_run(call->centre, "event_replay", STORE_API, replay.no.slot, replay_rule, &replay, 0,
                   &refusal)) {
        call_refuse(call, &refusal);
        return;
    }
    if (!replay.found) {
        call_refuse_code(call, CODE_NOT_FOUND);
        return;
    }
    bus_wake(call->service->options.bus);

    struct reply r;
    struct number_text text = number_text(replay.no);
    reply_begin(call, &r);
    json_kv_str(&r.out, "event_id", (struct str) { text.s, NUMBER_TEXT });
    reply_send(call, &r, 202);
}
