/* replay.c -- handles a stored callback again from its bytes, or delivers an event again. */
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"

static enum err replay_event_rule(struct tx *tx, void *arg, struct err_info *info)
{
    return event_replay(tx, *(int64_t *)arg, info);
}

static const char *const result_names[] = {
    [HANDLE_PENDING] = "pending",
    [HANDLE_DONE] = "done",
    [HANDLE_FAILED] = "failed",
    [HANDLE_NOTHING] = "nothing to do",
};

int command_replay(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str given;
    int exit_code = EXIT_FINE;
    struct option options[] = { OPEN_OPTIONS(open), { 0 } };
    if (!args_parse(self, argc, argv, options, 1, 1, &given, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(65536);
    struct err_info info = { 0 };
    struct number no;
    if (number_parse(given, 0, &no) || (no.kind != NUMBER_CALLBACK && no.kind != NUMBER_EVENT))
        return complain(self,
                        err_set(&info, ERR_INVALID,
                                "'" STR_FMT "' is no number of a callback (C…) or event (E…)",
                                STR_ARG(given)),
                        &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;

    struct act act;
    struct refusal refusal = { 0 };
    enum code code;
    enum handle_result result = HANDLE_DONE;
    runtime_operator(r, a, &act);
    if (no.kind == NUMBER_CALLBACK)
        code = callback_replay(&r->centre, &act, no.id, &result, &refusal);
    else
        code = centre_run(&r->centre, "event_replay", STORE_API, no.slot, replay_event_rule, &no.id,
                          8, &refusal);
    if (code) {
        fprintf(stderr, "fenpay replay: %s " STR_FMT "\n", command_code_text(code),
                STR_ARG(said(a, refusal.detail)));
        exit_code = EXIT_FOUND;
    } else {
        const char *name = result_names[result], *result_text = open.json ? name : word(name);
        command_print(
            open.json,
            (const struct printed[]) { { "number", given }, { "result", str_of(result_text) } }, 2);
        exit_code = result == HANDLE_FAILED ? EXIT_FOUND : EXIT_FINE;
    }
    runtime_close(r);
    return exit_code;
}
