/* step_words.c -- a step of a story in plain words, in the reader's language. */
#include "app/story.h"

#include <stdio.h>

#include "app/words.h"

static const char *const faults[SANDBOX_FAULTS] = {
    [FAULT_CALLBACK_LOSE] = "the channel's callbacks get lost on their way",
    [FAULT_CALLBACK_DELAY] = "the channel's callbacks come late",
    [FAULT_CALLBACK_DUPLICATE] = "the channel delivers each callback several times",
    [FAULT_CALLBACK_REORDER] = "the channel's callbacks overtake each other",
    [FAULT_CALLBACK_BAD_SIGNATURE] = "a callback arrives whose signature is wrong",
    [FAULT_CALLBACK_CORRUPT] = "a callback arrives that does not decrypt",
    [FAULT_CALLBACK_PROBE] = "the channel sends a signature probe instead of a callback",
    [FAULT_CALLBACK_WRONG_AMOUNT] = "a callback states another amount than was paid",
    [FAULT_CALLBACK_WRONG_MERCHANT] = "a callback speaks of another merchant",
    [FAULT_CALLBACK_UNKNOWN_SERIAL] = "a callback is signed with a key nobody knows",
    [FAULT_ANSWER_LOST] = "the channel does what it is asked, but its answer gets lost",
    [FAULT_TIMEOUT] = "the channel neither acts nor answers",
    [FAULT_NOT_SENT] = "the channel cannot be reached",
    [FAULT_ERROR] = "the channel refuses",
    [FAULT_HTTP_500] = "the channel answers 500 and does nothing",
    [FAULT_HTTP_429] = "the channel answers 429 and does nothing",
    [FAULT_UNSIGNED] = "the channel acts, but does not sign its answer",
    [FAULT_BAD_SIGNATURE] = "the channel acts, but signs its answer wrongly",
    [FAULT_GARBAGE] = "the channel acts, but its answer cannot be read",
    [FAULT_WRONG_AMOUNT_TAKEN] =
        "the channel takes another amount from the payer than we asked for",
    [FAULT_HTTP_429_DONE] = "the channel answers 429, but acts all the same",
    [FAULT_REFUND_STUCK] = "the channel takes refunds and does not finish them",
    [FAULT_REFUND_CLOSED] = "the channel takes refunds and closes them",
    [FAULT_REFUND_ABNORMAL] = "the channel's refunds go wrong on their way to the payer",
    [FAULT_CALLBACK_UNSIGNED] = "a callback arrives without any signature",
    [FAULT_PAY_CLOSED] = "the payer was typing while the payment was closed, and still pays",
    [FAULT_REFUND_UNSEEN] = "in its first minute the channel does not know of a refund",
};

/* What a member of the channel's books says. */
static const struct {
    const char *key, *words;
} books[] = {
    { "state", "its state there is" },
    { "taken", "fen it took from the payer:" },
    { "refunded", "fen it gave back:" },
    { "prepays", "times it was asked to open the payment:" },
    { "queries", "times it was asked about the payment:" },
    { "closes", "times it was asked to close the payment:" },
    { "sent", "callbacks it sent:" },
    { "acknowledged", "of those we took:" },
};

static const char *book_words(struct str key)
{
    for (size_t i = 0; i < sizeof books / sizeof *books; i++)
        if (str_eq(key, str_of(books[i].key)))
            return word(books[i].words);
    return "";
}

static void print_books(struct str expect)
{
    fputs(word("the channel's books:"), stdout);
    for (const char *comma = " "; expect.n; comma = ", ") {
        struct str value = str_cut(&expect, ',');
        struct str key = str_cut(&value, '=');
        if (str_eq(value, STR("(absent)")))
            printf("%s%s", comma, word("they do not know it"));
        else
            printf("%s%s " STR_FMT, comma, book_words(key), STR_ARG(value));
    }
}

static void print_call(const struct step *s, struct str what, struct str expect)
{
    printf(STR_FMT, STR_ARG(what));
    if (s->repeat)
        printf(word(", %d times at once"), s->repeat);
    if (s->status)
        printf("  -> %d", s->status);
    if (expect.n)
        printf("%s" STR_FMT, s->status ? " " : "  -> ", STR_ARG(expect));
}

static void print_advance(int64_t ms)
{
    if (ms % 60000 == 0)
        printf(word("%lld min later"), (long long)(ms / 60000));
    else
        printf(word("%lld s later"), (long long)(ms / 1000));
}

static const char *step_name(enum step_kind kind)
{
    static const char *const names[] = {
        [STEP_END] = "",          [STEP_CALL] = "call",   [STEP_PHONE] = "payer",
        [STEP_FAULT] = "fault",   [STEP_HEAL] = "heal",   [STEP_SETTLE] = "wait",
        [STEP_ADVANCE] = "clock", [STEP_BOOKS] = "books", [STEP_CRASH] = "crash",
    };
    return names[kind];
}

void step_print(const struct step *s, struct str what, struct str expect)
{
    printf("    %-6s %s%s", word(step_name(s->kind)), s->label ? s->label : "",
           s->label ? ": " : "");
    switch (s->kind) {
    case STEP_END:
        break;
    case STEP_CALL:
        print_call(s, what, expect);
        break;
    case STEP_PHONE:
        fputs(word("the payer pays"), stdout);
        break;
    case STEP_FAULT:
        fputs(word(faults[s->fault.fault]), stdout);
        if (s->fault.times == 1)
            fputs(word(" (once)"), stdout);
        break;
    case STEP_HEAL:
        fputs(word("the channel behaves again"), stdout);
        break;
    case STEP_SETTLE:
        fputs(word("callbacks and events arrive, due work is done"), stdout);
        break;
    case STEP_ADVANCE:
        print_advance(s->n);
        break;
    case STEP_BOOKS:
        print_books(expect);
        break;
    case STEP_CRASH:
        fputs(word("the process dies and starts again from its database"), stdout);
        break;
    }
    putchar('\n');
}
