/* args.c -- the command line of one subcommand. */
#include "app/args.h"

#include <stdio.h>

#include "app/words.h"
#include "base/arena.h"

int exit_code_of(enum err e)
{
    switch (e) {
    case ERR_OK:
        return EXIT_FINE;
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_DENIED:
        return EXIT_FOUND;
    case ERR_INVALID:
    case ERR_LIMIT:
        return EXIT_USAGE;
    case ERR_CONFLICT:
    case ERR_RETRY:
    case ERR_BUSY:
    case ERR_UNKNOWN:
    case ERR_IO:
        return EXIT_TEMP;
    case ERR_INTERNAL:
        return EXIT_BUG;
    }
    return EXIT_BUG;
}

int complain(const struct command *command, enum err e, const struct err_info *info)
{
    ARENA_AUTO a = arena_new(1024);
    struct str text = said(a, str_of(info && info->text[0] ? info->text : err_name(e)));
    fprintf(stderr, "fenpay %s: %s" STR_FMT "\n", command->name,
            e == ERR_INTERNAL ? word("internal error: ") : "", STR_ARG(text));
    return exit_code_of(e);
}

static void print_help(const struct command *c, const struct option options[])
{
    printf("fenpay %s%s%s%s\n\n%s\n\n", c->name, options[0].name ? word(" [options]") : "",
           c->usage[0] ? " " : "", c->usage, word(c->help));
    if (c->more)
        printf("%s\n\n", word(c->more));
    for (const struct option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->type == OPTION_FLAG ? "" : " ",
                 o->type == OPTION_FLAG ? "" : o->value);
        printf("  %-26s %s\n", left, word(o->help));
    }
    printf("  %-26s %s\n", "--lang zh|en", word("The language of texts (default: that of LANG)"));
    printf("  %-26s %s\n", "--help", word("This text"));
}

static const struct option *find(const struct option options[], struct str name)
{
    for (const struct option *o = options; o->name; o++)
        if (str_eq(str_of(o->name), name))
            return o;
    return NULL;
}

static enum err take(const struct option *o, struct str value)
{
    switch (o->type) {
    case OPTION_FLAG:
        *(bool *)o->ret = true;
        return ERR_OK;
    case OPTION_TEXT:
        *(struct str *)o->ret = value;
        return ERR_OK;
    case OPTION_INT:
        return str_int64(value, o->ret);
    case OPTION_TEXT_LIST: {
        struct option_texts *list = o->ret;
        if (list->count == sizeof list->items / sizeof *list->items)
            return ERR_LIMIT;
        list->items[list->count++] = value;
        return ERR_OK;
    }
    }
    return ERR_INTERNAL;
}

static bool mistake(const struct command *c, int *ret_exit, const char *what, struct str text)
{
    fprintf(stderr, "fenpay %s: %s " STR_FMT " ", c->name, word(what), STR_ARG(text));
    fprintf(stderr, word("(see fenpay %s --help)"), c->name);
    fputc('\n', stderr);
    *ret_exit = EXIT_USAGE;
    return false;
}

bool args_parse(const struct command *c, int argc, char **argv, const struct option options[],
                size_t rest_min, size_t rest_max, struct str ret_rest[], size_t *ret_rest_count,
                int *ret_exit)
{
    size_t rest = 0;
    for (int i = 1; i < argc; i++) {
        struct str given = str_of(argv[i]);
        if (str_eq(given, STR("--help"))) {
            print_help(c, options);
            *ret_exit = EXIT_FINE;
            return false;
        }
        if (!str_starts(given, STR("--"))) {
            if (rest == rest_max)
                return mistake(c, ret_exit, "too many words:", given);
            ret_rest[rest++] = given;
            continue;
        }
        struct str value = str_sub(given, 2, given.n);
        struct str name = str_cut(&value, '=');
        const struct option *o = find(options, name);
        if (!o)
            return mistake(c, ret_exit, "unknown option", given);
        if (o->type == OPTION_FLAG && value.p)
            return mistake(c, ret_exit, "no value belongs to", given);
        if (o->type != OPTION_FLAG && !value.p) {
            if (i + 1 == argc)
                return mistake(c, ret_exit, "a value is missing behind", given);
            value = str_of(argv[++i]);
        }
        if (take(o, value))
            return mistake(c, ret_exit, "not a good value for", given);
    }
    if (rest < rest_min)
        return mistake(c, ret_exit, "missing:", str_of(c->usage));
    if (ret_rest_count)
        *ret_rest_count = rest;
    return true;
}
