/* explain.c -- everything that ever happened to an order, payment or incident, in time order. */
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"
#include "base/clock.h"
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
        printf(STR_FMT "  %-8s  %s  " STR_FMT "\n", STR_ARG(when), kind_names[t->kind],
               number_text(t->subject).s, STR_ARG(t->text));
}

int command_explain(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str word;
    int exit_code = EXIT_FINE;
    struct option options[] = { OPEN_OPTIONS(open), { 0 } };
    if (!args_parse(self, argc, argv, options, 1, 1, &word, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(65536);
    struct err_info info = { 0 };
    struct number no;
    if (number_parse(word, 0, &no))
        return complain(self,
                        err_set(&info, ERR_INVALID,
                                "'" STR_FMT
                                "' is not a number of ours (24 characters, wrong check character?)",
                                STR_ARG(word)),
                        &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    struct act act;
    struct refusal refusal;
    struct timeline_entry *entries;
    size_t n;
    runtime_operator(r, a, &act);
    enum code code = timeline_read(&r->centre, &act, no, &entries, &n, &refusal);
    if (code) {
        fprintf(stderr, "fenpay explain: %s\n", code_info(code)->en);
        exit_code = EXIT_FOUND;
    } else
        for (size_t i = 0; i < n; i++)
            print_entry(a, &entries[i], open.json);
    runtime_close(r);
    return exit_code;
}
