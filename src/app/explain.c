/* explain.c -- everything that ever happened to an order, payment or refund, in time order; found
 * by its own number, the merchant's, or that of a callback, event or incident about it. */
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"
#include "base/clock.h"
#include "core/callback/callback.h"
#include "core/incident/incident.h"
#include "core/payment/flow.h"

static const char *const kind_names[] = {
    [TIMELINE_JOURNAL] = "move", [TIMELINE_CALL] = "call",         [TIMELINE_CALLBACK] = "callback",
    [TIMELINE_EVENT] = "event",  [TIMELINE_DELIVERY] = "delivery", [TIMELINE_INCIDENT] = "incident",
};

static void print_entry(struct arena *a, const struct timeline_entry *t, bool json)
{
    struct str when = clock_rfc3339_ms(a, t->time_ms);
    if (json)
        printf("{\"time\":\"" STR_FMT "\",\"kind\":\"%s\",\"subject\":\"%s\",\"detail\":" STR_FMT
               "}\n",
               STR_ARG(when), kind_names[t->kind], number_text(t->subject).s,
               STR_ARG(t->detail.n ? t->detail : STR("null")));
    else
        printf(STR_FMT "  %-8s  %s  " STR_FMT "\n", STR_ARG(when), word(kind_names[t->kind]),
               number_text(t->subject).s, STR_ARG(said(a, str_trim(t->text))));
}

/* What a number stands for: its own timeline, or that of what a callback or event was about. */
struct subject {
    struct str text; /* as given */
    struct str caller;
    struct number no;
    struct str heading; /* what was asked for, when `no` is not it */
    struct arena *arena;
};

static enum err callback_subject_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct subject *s = arg;
    struct callback_bytes c;
    struct number no;
    enum err e = callback_bytes_of(tx, s->no.id, &c, info);
    if (e)
        return e;
    if (number_parse(c.row.subject_no, 0, &no))
        return err_set(info, ERR_CONFLICT,
                       "a callback " STR_FMT " of account " STR_FMT ", about '" STR_FMT
                       "', which is no number of ours: " STR_FMT,
                       STR_ARG(c.row.kind), STR_ARG(c.row.account), STR_ARG(c.row.subject_no),
                       STR_ARG(c.row.reason));
    s->heading = str_printf(s->arena, word("callback " STR_FMT " is about %s"), STR_ARG(s->text),
                            number_text(no).s);
    s->no = no;
    return ERR_OK;
}

static enum err event_subject_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct subject *s = arg;
    struct event event;
    enum err e = event_read(tx, s->no.id, &event, info);
    if (e)
        return e;
    s->heading = str_printf(s->arena, word("event " STR_FMT " is about %s"), STR_ARG(s->text),
                            number_text(event.subject).s);
    s->no = event.subject;
    return ERR_OK;
}

static enum err incident_subject_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct subject *s = arg;
    struct incident_row row;
    enum err e = incident_load(tx, s->no.id, &row, info);
    if (e)
        return e;
    if (!row.subject.id)
        return err_set(info, ERR_CONFLICT, "incident " STR_FMT " is about none of our numbers",
                       STR_ARG(s->text));
    s->heading = str_printf(s->arena, word("incident " STR_FMT " is about %s"), STR_ARG(s->text),
                            number_text(row.subject).s);
    s->text = number_str(s->arena, row.subject);
    s->no = row.subject;
    return ERR_OK;
}

/* A merchant_order_no: unique for one caller only. */
static enum err find_order(struct runtime *r, struct subject *s, struct err_info *info)
{
    struct caller_row rows[256];
    size_t n = 0, found = 0;
    enum err e = caller_list(&r->centre, s->arena, rows, 256, &n, info);
    for (size_t i = 0; !e && i < n; i++) {
        struct order order;
        struct refusal refusal;
        struct act act = { .caller = { rows[i].id, rows[i].name }, .arena = s->arena };
        if (s->caller.n && !str_eq(s->caller, rows[i].name))
            continue;
        if (order_find(&r->centre, &act, s->text, &order, &refusal))
            continue;
        s->no = order.no;
        s->heading = str_printf(s->arena, word("order '" STR_FMT "' of " STR_FMT " is %s"),
                                STR_ARG(s->text), STR_ARG(rows[i].name), number_text(order.no).s);
        found++;
    }
    if (!e && found > 1)
        e = err_set(info, ERR_INVALID,
                    "%zu callers have an order '" STR_FMT "': say whose with --caller", found,
                    STR_ARG(s->text));
    if (!e && !found)
        e = err_set(info, ERR_NOT_FOUND,
                    "nothing is known under '" STR_FMT
                    "': no number of ours, and no merchant_order_no",
                    STR_ARG(s->text));
    return e;
}

static enum err find_subject(struct runtime *r, struct subject *s, struct err_info *info)
{
    enum err e = ERR_OK;
    if (number_parse(s->text, 0, &s->no))
        return find_order(r, s, info);
    if (s->no.kind == NUMBER_INCIDENT)
        e = store_read(r->store, s->no.slot, "incident_subject", incident_subject_rule, s, info);
    if (!e && s->no.kind == NUMBER_CALLBACK)
        e = store_read(r->store, s->no.slot, "callback_subject", callback_subject_rule, s, info);
    else if (!e && s->no.kind == NUMBER_EVENT)
        e = store_read(r->store, s->no.slot, "event_subject", event_subject_rule, s, info);
    return e == ERR_NOT_FOUND ? err_set(info, e, "there is no " STR_FMT, STR_ARG(s->text)) : e;
}

static enum err print_timeline(struct runtime *r, struct subject *s, bool json,
                               struct err_info *info)
{
    struct act act;
    struct refusal refusal;
    struct timeline_entry *entries;
    size_t n;
    runtime_operator(r, s->arena, &act);
    enum code code = timeline_read(&r->centre, &act, s->no, &entries, &n, &refusal);
    if (code == CODE_NOT_FOUND)
        return err_set(info, ERR_NOT_FOUND, "there is no order, payment or refund %s",
                       number_text(s->no).s);
    if (code)
        return err_set(info, ERR_BUSY, "%s", command_code_text(code));
    if (s->heading.n && !json)
        printf(STR_FMT "\n", STR_ARG(s->heading));
    for (size_t i = 0; i < n; i++)
        print_entry(s->arena, &entries[i], json);
    return ERR_OK;
}

int command_explain(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct subject s = { .caller = STR_NONE };
    int exit_code = EXIT_FINE;
    struct option options[] = { OPEN_OPTIONS(open),
                                { "caller", OPTION_TEXT, &s.caller, "NAME",
                                  "Whose merchant_order_no it is, when several have it" },
                                { 0 } };
    if (!args_parse(self, argc, argv, options, 1, 1, &s.text, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(65536);
    struct err_info info = { 0 };
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;
    s.arena = a;
    enum err e = find_subject(r, &s, &info);
    if (!e)
        e = print_timeline(r, &s, open.json, &info);
    if (e)
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return e == ERR_CONFLICT ? EXIT_FOUND : exit_code;
}
