/* migrate.c -- creates the database or brings its schema up to date. */
#include <stdio.h>

#include "app/commands.h"
#include "app/settings.h"
#include "app/words.h"
#include "base/arena.h"
#include "store/store.h"

int command_migrate(const struct command *self, int argc, char **argv)
{
    struct str config = STR("fenpay.yaml");
    int exit_code;
    struct option options[] = {
        { "config", OPTION_TEXT, &config, "FILE", "Configuration (default fenpay.yaml)" }, { 0 }
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(8192);
    struct err_info info = { 0 };
    struct settings s;
    struct env env;
    enum err e = settings_read(a, str_cstr(a, config), &s, &info);
    if (e)
        return complain(self, e, &info);
    env_init_real(&env, NULL, NULL);

    struct store_options so = { .url = s.store.url, .env = &env };
    int applied = 0;
    if ((e = settings_make_folder(&s, &info)) || (e = store_migrate(&so, &applied, &info)))
        return complain(self, e, &info);
    printf(word("the database is up to date: %d steps applied"), applied);
    putchar('\n');
    return EXIT_FINE;
}
