/* config.c -- checks the configuration, or prints every setting, or what each fact does to a
 * payment and a refund, as text or as a page of the documentation. */
#include <stdio.h>

#include "app/commands.h"
#include "app/settings.h"
#include "app/words.h"
#include "base/arena.h"
#include "base/buf.h"
#include "channel/registry.h"
#include "core/order/order.h"
#include "core/payment/payment.h"
#include "core/refund/refund.h"

/* A table of Markdown, each cell in the reader's language. */
static void print_cells(struct arena *a, struct str table)
{
    while (table.n) {
        struct str line = str_cut(&table, '\n');
        while (line.p) {
            struct str cell = str_cut(&line, '|'), text = str_trim(cell);
            printf("%s" STR_FMT "%s%s", cell.n > text.n ? " " : "", STR_ARG(said(a, text)),
                   cell.n > text.n + 1 ? " " : "", line.p ? "|" : "");
        }
        putchar('\n');
    }
}

static void print_settings(bool markdown)
{
    BUF_AUTO out = { 0 };
    buf_init(&out, 1 << 20);
    cfg_describe(settings_table, markdown, word, &out);
    fwrite(out.p, 1, out.n, stdout);
}

static void print_states(struct arena *a)
{
    BUF_AUTO out = { 0 };
    buf_init(&out, 1 << 20);
    payment_matrix_print(&out);
    buf_add_str(&out, STR("\n"));
    refund_matrix_print(&out);
    buf_add_str(&out, STR("\n"));
    order_matrix_print(&out);
    print_cells(a, buf_str(&out));
}

int command_config(const struct command *self, int argc, char **argv)
{
    struct str config = STR("fenpay.yaml");
    bool describe = false, markdown = false, states = false;
    int exit_code;
    struct option options[] = {
        { "config", OPTION_TEXT, &config, "FILE", "The file to check (default fenpay.yaml)" },
        { "describe", OPTION_FLAG, &describe, "",
          "Print every setting: type, unit, default, meaning" },
        { "states", OPTION_FLAG, &states, "",
          "Print what each fact does to a payment and to a refund, and what moves an order" },
        { "markdown", OPTION_FLAG, &markdown, "", "As a page of the documentation" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(16384);
    if (describe)
        print_settings(markdown);
    if (states)
        print_states(a);
    if (describe || states)
        return EXIT_FINE;

    struct err_info info = { 0 };
    struct settings s;
    struct env env;
    env_init_real(&env, NULL, NULL);
    enum err e = settings_read(a, str_cstr(a, config), &s, &info);
    /* Opening the accounts proves that keys, certificates and addresses fit together. */
    for (size_t i = 0; !e && i < s.accounts.count; i++) {
        struct account *account;
        if (!(e = settings_account_open(&s, i, &env, &account, &info)))
            account_unref(account);
    }
    if (e)
        return complain(self, e, &info);
    struct str where;
    for (size_t at = 0; settings_open_secret(&s, a, &at, &where);)
        printf("%s: " STR_FMT ": %s\n", word("warn"), STR_ARG(where),
               word("others may read or change the file of this secret: chmod 600, or 640 for the "
                    "group of the service"));
    printf(STR_FMT ": ", STR_ARG(config));
    printf(word(s.accounts.count == 1 ? "fine, %zu account" : "fine, %zu accounts"),
           s.accounts.count);
    putchar('\n');
    return EXIT_FINE;
}
