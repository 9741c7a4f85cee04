/* incident.c -- what needs a person: shows it, and does what the person decides. */
#include <inttypes.h>
#include <stdio.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"
#include "base/clock.h"
#include "core/resolve/resolve.h"

#define LIST_PAGE 100
#define NUMBERS   64 /* at a time */

static struct str amount_text(struct arena *a, const struct incident_row *row)
{
    return money_currency(&row->amount).n ? money_text(a, row->amount) : STR("");
}

static struct str subject_text(struct arena *a, const struct incident_row *row)
{
    return row->subject.id ? number_str(a, row->subject) : row->discriminator;
}

/* ---- list ---- */

struct listing {
    struct incident_filter filter;
    struct arena *arena;
    bool json;
    size_t n;
    int64_t last;
};

static void print_line(struct arena *a, const struct incident_row *row, bool json)
{
    struct str when = clock_rfc3339(a, row->create_ms), amount = amount_text(a, row);
    const char *state =
        row->resolved ? incident_action_name(row->resolution) : incident_policy_name(row->policy);

    if (!json) {
        printf("%s  " STR_FMT "  %-17s  %-9s  " STR_FMT "  " STR_FMT "\n", number_text(row->no).s,
               STR_ARG(when), incident_kind_name(row->kind), state, STR_ARG(subject_text(a, row)),
               STR_ARG(amount));
        return;
    }
    command_print(true,
                  (const struct printed[]) {
                      { "incident_no", number_str(a, row->no) },
                      { "kind", str_of(incident_kind_name(row->kind)) },
                      { "state", row->resolved ? STR("resolved") : STR("open") },
                      { "policy", str_of(incident_policy_name(row->policy)) },
                      { "subject", subject_text(a, row) },
                      { "amount", str_printf(a, "%" PRId64, money_fen(row->amount)), PRINTED_INT },
                      { "count", str_printf(a, "%" PRId64, row->count), PRINTED_INT },
                      { "created", when },
                      { "detail", said(a, row->detail) } },
                  9);
}

static enum err list_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct listing *l = arg;
    struct incident_row *rows = arena_array(tx_arena(tx), LIST_PAGE, sizeof *rows);
    enum err e = incident_list(tx, &l->filter, rows, &l->n, info);

    for (size_t i = 0; !e && i < l->n; i++)
        print_line(l->arena, &rows[i], l->json);
    if (!e && l->n)
        l->filter.before = rows[l->n - 1].no.id;
    return e;
}

static enum err list(struct runtime *r, struct arena *a, struct str state, struct str kind_name,
                     bool json, struct err_info *info)
{
    struct listing l = { .filter = { .limit = LIST_PAGE }, .arena = a, .json = json };
    enum incident_kind kind = 0;

    l.filter.state = str_eq(state, STR("open"))       ? 0
                     : str_eq(state, STR("resolved")) ? 1
                     : str_eq(state, STR("all"))      ? -1
                                                      : -2;
    if (l.filter.state == -2)
        return err_set(info, ERR_INVALID, "--state is open, resolved or all");
    if (kind_name.n && incident_kind_parse(kind_name, &kind))
        return err_set(info, ERR_INVALID, "there is no kind named '" STR_FMT "'",
                       STR_ARG(kind_name));
    l.filter.kind = (int)kind;
    do {
        enum err e = store_read(r->store, 0, "incidents", list_rule, &l, info);
        if (e)
            return e;
    } while (l.n == LIST_PAGE);
    return ERR_OK;
}

/* ---- show, resolve, withdraw ---- */

static struct str actions_of(struct arena *a, const struct incident_row *row)
{
    struct buf b;

    buf_init_arena(&b, a, 256);
    for (int i = ACTION_ACCEPT; i <= ACTION_IGNORE && !row->resolved; i++)
        if (resolve_fits(row->kind, (enum incident_action)i))
            buf_printf(&b, "%s%s", b.n ? "," : "", incident_action_name((enum incident_action)i));
    return buf_str(&b);
}

static struct str when_text(struct arena *a, int64_t ms)
{
    return ms ? clock_rfc3339(a, ms) : STR("");
}

static struct str proposal_text(struct arena *a, const struct resolved *r)
{
    return r->proposed
               ? str_printf(a, word("%s, by " STR_FMT ", until " STR_FMT ": " STR_FMT),
                            incident_action_name(r->proposal.action), STR_ARG(r->proposal.who),
                            STR_ARG(clock_rfc3339(a, r->proposal.until_ms)),
                            STR_ARG(r->proposal.reason))
               : STR("");
}

static void print_one(struct arena *a, const struct resolved *r, bool json)
{
    const struct incident_row *row = &r->incident;

    command_print(json,
                  (const struct printed[]) {
                      { "incident_no", number_str(a, row->no) },
                      { "kind", str_of(incident_kind_name(row->kind)) },
                      { "subject", subject_text(a, row) },
                      { "discriminator", row->discriminator },
                      { "state", row->resolved ? STR("resolved") : STR("open") },
                      { "policy", str_of(incident_policy_name(row->policy)) },
                      { "amount", amount_text(a, row) },
                      { "count", str_printf(a, "%" PRId64, row->count), PRINTED_INT },
                      { "detail", said(a, row->detail) },
                      { "created", when_text(a, row->create_ms) },
                      { "last_seen", when_text(a, row->last_seen_ms) },
                      { "resolution",
                        row->resolved ? str_of(incident_action_name(row->resolution)) : STR("") },
                      { "who", row->who },
                      { "reason", row->reason },
                      { "resolved", when_text(a, row->resolve_ms) },
                      { "pay_no", number_is(r->pay_no) ? number_str(a, r->pay_no) : STR("") },
                      { "proposed", proposal_text(a, r) },
                      { "actions", actions_of(a, row), PRINTED_LIST } },
                  18);
}

static int refused(const struct command *self, struct arena *a, struct str number, enum code code,
                   const struct refusal *refusal)
{
    fprintf(stderr, "fenpay %s: " STR_FMT ": %s%s" STR_FMT "\n", self->name, STR_ARG(number),
            command_code_text(code), refusal->detail.n ? ": " : "",
            STR_ARG(said(a, refusal->detail)));
    return code == CODE_BAD_FIELD           ? EXIT_USAGE
           : code_info(code)->status >= 500 ? EXIT_TEMP
                                            : EXIT_FOUND;
}

struct incident_command {
    struct str verb, reason;
    struct resolve act; /* of `resolve` */
    bool json;
};

static enum code do_one(struct runtime *r, const struct act *act, const struct incident_command *c,
                        struct number no, struct resolved *ret, struct refusal *refusal)
{
    struct resolve resolve = c->act;

    if (str_eq(c->verb, STR("show")))
        return resolve_get(&r->centre, act, no, true, ret, refusal);
    if (str_eq(c->verb, STR("withdraw")))
        return resolve_withdraw(&r->centre, act, no, true, act->actor, ret, refusal);
    resolve.incident_no = no;
    resolve.any_caller = true;
    resolve.who = act->actor;
    return resolve_incident(&r->centre, act, &resolve, ret, refusal);
}

/* Each by itself: one that is refused does not keep the others. */
static int do_each(const struct command *self, struct runtime *r, struct arena *a,
                   const struct incident_command *c, const struct str numbers[], size_t n)
{
    int exit_code = EXIT_FINE;

    for (size_t i = 0; i < n; i++) {
        struct act act;
        struct resolved done;
        struct refusal refusal = { 0 };
        struct number no;
        runtime_operator(r, a, &act);
        enum code code = number_parse(numbers[i], NUMBER_INCIDENT, &no)
                             ? CODE_INCIDENT_NOT_FOUND
                             : do_one(r, &act, c, no, &done, &refusal);
        if (code) {
            exit_code = refused(self, a, numbers[i], code, &refusal);
            continue;
        }
        if (!c->json && i > 0)
            putchar('\n');
        print_one(a, &done, c->json);
    }
    return exit_code;
}

static const char verbs[] = "list; show NO; resolve ACTION NO… --reason TEXT; withdraw NO";

/* *ret_numbers: how many of the words stand before the numbers. */
static enum err read_words(const struct str words[], size_t n, struct incident_command *c,
                           size_t *ret_before, struct err_info *info)
{
    bool resolves = str_eq(c->verb, STR("resolve"));

    *ret_before = resolves ? 2 : 1;
    if (n <= *ret_before ||
        (!resolves && !str_eq(c->verb, STR("show")) && !str_eq(c->verb, STR("withdraw"))))
        return err_set(info, ERR_INVALID, "one of: %s", verbs);
    if (!resolves)
        return ERR_OK;
    if (incident_action_parse(words[1], &c->act.action))
        return err_set(info, ERR_INVALID,
                       "there is no action named '" STR_FMT "' (accept, accept_and_refund, "
                       "refund, revive, adopt, retry, settled_offline, ignore)",
                       STR_ARG(words[1]));
    c->act.reason = str_sub(c->reason, 0, RESOLVE_REASON_MAX);
    return c->reason.n ? ERR_OK : err_set(info, ERR_INVALID, "--reason says why");
}

int command_incident(const struct command *self, int argc, char **argv)
{
    struct open_options open = OPEN_DEFAULTS;
    struct str words[2 + NUMBERS], state = STR("open"), kind = STR_NONE, caller = STR_NONE;
    struct incident_command c = { .reason = STR_NONE };
    size_t n = 0, before = 0;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        OPEN_OPTIONS(open),
        { "state", OPTION_TEXT, &state, "STATE",
          "With list: open, resolved or all (default open)" },
        { "kind", OPTION_TEXT, &kind, "KIND", "With list: only this kind (PAID_TWICE …)" },
        { "reason", OPTION_TEXT, &c.reason, "TEXT", "With resolve: why (always needed)" },
        { "caller", OPTION_TEXT, &caller, "NAME", "With resolve adopt: whose payment it becomes" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 1, 2 + NUMBERS, words, &n, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(16384);
    struct err_info info = { 0 };
    c.verb = words[0];
    c.json = open.json;
    bool lists = str_eq(c.verb, STR("list")) && n == 1;
    enum err e = lists ? ERR_OK : read_words(words, n, &c, &before, &info);
    if (e)
        return complain(self, e, &info);
    struct runtime *r = command_open(self, &open, a, &exit_code);
    if (!r)
        return exit_code;
    if (lists)
        e = list(r, a, state, kind, open.json, &info);
    else if (!caller.n || !(e = command_find_caller(r, a, caller, &c.act.adopt_for, &info)))
        exit_code = do_each(self, r, a, &c, words + before, n - before);
    if (e)
        exit_code = complain(self, e, &info);
    runtime_close(r);
    return exit_code;
}
