/* args.h -- the command line of one subcommand: a table of options, what is left over, and --help
 * made from the table. */
#ifndef FENPAY_ARGS_H
#define FENPAY_ARGS_H

#include "base/err.h"
#include "base/str.h"

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_TEXT_LIST };

struct option_texts {
    struct str items[16];
    size_t count;
};

struct option {
    const char *name; /* "config", given as --config X or --config=X; NULL ends a table */
    enum option_type type;
    void *ret;         /* bool *, struct str *, int64_t *, struct option_texts * */
    const char *value; /* "FILE", for --help */
    const char *help;
};

struct command {
    const char *name;
    int (*run)(const struct command *self, int argc, char **argv);
    const char *usage; /* "NO": what follows the options */
    const char *help;  /* one line */
    const char *more;  /* what --help says besides: whole lines, or NULL */
};

/* Fills the options; leaves what is no option in ret_rest (argv order). --help prints and gives
 * *ret_exit 0; mistakes print one line and give *ret_exit 2. False: return *ret_exit at once. */
bool args_parse(const struct command *command, int argc, char **argv, const struct option options[],
                size_t rest_min, size_t rest_max, struct str ret_rest[], size_t *ret_rest_count,
                int *ret_exit);

/* Exit codes, the same for every command. */
enum exit_code {
    EXIT_FINE = 0,
    EXIT_FOUND = 1, /* it worked, and the answer is bad news (a check failed, not found) */
    EXIT_USAGE =
        2, /* the command line or the configuration is wrong: trying again changes nothing */
    EXIT_TEMP = 75, /* try again later (the store is busy, another process owns the file) */
    EXIT_BUG = 70,  /* internal error */
};
int exit_code_of(enum err e);
/* Prints "fenpay NAME: text" on standard error and returns the exit code of the error. */
int complain(const struct command *command, enum err e, const struct err_info *info);

#endif
