/* main.c -- the table of subcommands. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

#include "app/commands.h"
#include "app/words.h"

static const struct command commands[] = {
    { "serve", command_serve, "", "Runs the payment centre" },
    { "migrate", command_migrate, "", "Creates the database or brings its schema up to date" },
    { "sandbox", command_sandbox, "",
      "Runs a stand-in for the payment channels, with faults on demand" },
    { "demo", command_demo, "",
      "Plays whole lives of payments against the sandbox and checks them" },
    { "doctor", command_doctor, "",
      "Checks configuration, keys, clock and database: a line and a verdict each" },
    { "explain", command_explain, "NO",
      "Everything that ever happened to an order, payment or refund, in time order",
      "NO is an order (O…), a payment (P…), a callback (C…), an event (E…), an incident (I…) or "
      "a merchant_order_no." },
    { "replay", command_replay, "NO",
      "Handles a stored callback (C…) or delivers an event (E…) again" },
    { "verify", command_verify, "[C…]", "Why does this signature not verify: which part differs",
      "With the number of a stored callback its bytes are taken as they came in. Else headers and "
      "body come from files, for example as your proxy logged them, or as a capture shows them; "
      "the body must be unchanged to the byte." },
    { "caller", command_caller, "ACTION [NAME [CLASS]]",
      "Callers and their keys: list, add, keys, key, revoke, rate, on, off",
      "  list            the callers\n"
      "  add NAME        a new caller, with its first key\n"
      "  keys NAME       the ids of its keys, never their secrets\n"
      "  key NAME        another key; two of a kind can be in use, to change over\n"
      "  revoke KEY_ID   ends a key\n"
      "  rate NAME CLASS normal, high (ten times limits.rate_per_s) or unlimited\n"
      "  on NAME, off NAME" },
    { "webhook", command_webhook, "ACTION …", "Subscribers of events: list, add, rotate, on, off",
      "  list --caller NAME\n"
      "  add URL --caller NAME [--types LIST]   prints its signing secret, once\n"
      "  rotate ID --caller NAME                a new secret; the old one signs beside it until "
      "the next\n"
      "  on ID --caller NAME, off ID --caller NAME" },
    { "incident", command_incident, "ACTION …",
      "What needs a person: list, show, resolve, withdraw",
      "  list                     those that are open\n"
      "  show NO                  one, with what may be done about it\n"
      "  resolve ACTION NO…       does it (docs/incidents.md says what each does); much money "
      "needs "
      "a second person\n"
      "  withdraw NO              takes back what waits for a second person" },
    { "config", command_config, "", "Checks the configuration, or describes every setting" },
    { "secret", command_secret, "ACTION …",
      "Makes a master key; encrypts or decrypts values for the configuration",
      "  new       prints a new master key\n"
      "  encrypt   reads a text on standard input, prints enc:v1:…, which stands in the "
      "configuration instead of it\n"
      "  decrypt   the way back\n"
      "The master key is taken from the environment: FENPAY_MASTER_KEY, 64 hex digits." },
    { "sim", command_sim, "",
      "Plays seeded lives of the whole centre with everything going wrong, and checks them",
      "The same seed is the same run. The last line is JSON; a violation prints its story and the "
      "command that plays it again." },
    { "bench", command_bench, "[NAME …]",
      "Measures this machine: callbacks, payments, reads, delivery" },
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static int usage(FILE *out, int code)
{
    fprintf(out, "fenpay " FENPAY_VERSION " -- %s\n\n%s\n\n",
            word("a payment centre in one binary"), word("fenpay COMMAND [options]"));
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, word(commands[i].help));
    fprintf(out, "\n%s\n", word("fenpay COMMAND --help tells the options of a command."));
    return code;
}

/* Takes --lang NAME out of the arguments, wherever it stands: the mistakes in the others are told
 * in that language. False: there is no such language. */
static bool take_language(int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        struct str value = str_of(argv[i]);
        if (!str_eq(str_cut(&value, '='), STR("--lang"))) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!value.p && i + 1 < *argc)
            value = str_of(argv[++i]);
        if (!word_language_choose(value))
            return false;
    }
    *argc = kept;
    return true;
}

int main(int argc, char **argv)
{
    /* Two malloc arenas: request memory is pooled anyway, and more arenas only cost resident
     * memory. */
    mallopt(M_ARENA_MAX, 2);
    signal(SIGPIPE, SIG_IGN);

    if (!take_language(&argc, argv)) {
        fprintf(stderr, "fenpay: %s\n", word("--lang is zh or en"));
        return EXIT_USAGE;
    }
    if (argc < 2)
        return usage(stderr, EXIT_USAGE);
    struct str name = str_of(argv[1]);
    if (str_eq(name, STR("--help")) || str_eq(name, STR("help")))
        return usage(stdout, EXIT_FINE);
    if (str_eq(name, STR("--version"))) {
        puts("fenpay " FENPAY_VERSION);
        return EXIT_FINE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (str_eq(name, str_of(commands[i].name)))
            return commands[i].run(&commands[i], argc - 1, argv + 1);
    fputs("fenpay: ", stderr);
    fprintf(stderr, word("no command named '%s'"), argv[1]);
    fputc('\n', stderr);
    return usage(stderr, EXIT_USAGE);
}
