/* open.h -- what every command that works on the database does first. */
#ifndef FENPAY_OPEN_H
#define FENPAY_OPEN_H

#include "app/args.h"
#include "app/runtime.h"

/* The options such commands share: put OPEN_OPTIONS(o) into the option table. */
struct open_options {
    struct str config; /* "fenpay.yaml" */
    struct str data;   /* the folder of a dev site instead of a configuration */
    bool json;
};
#define OPEN_DEFAULTS                                                                              \
    {                                                                                              \
        .config = STR_INIT("fenpay.yaml")                                                          \
    }
#define OPEN_OPTIONS(o)                                                                            \
    { "config", OPTION_TEXT, &(o).config, "FILE", "Configuration (default fenpay.yaml)" },         \
        { "data", OPTION_TEXT, &(o).data, "DIR",                                                   \
          "The folder of `serve --dev` instead of a configuration" },                              \
    {                                                                                              \
        "json", OPTION_FLAG, &(o).json, "", "Print JSON"                                           \
    }

/* The settings that the options name: a file's, or those of a dev site. Texts in the arena. */
enum err command_settings(const struct open_options *o, struct arena *a, struct settings *ret,
                          struct err_info *info);
/* A short second writer beside a running server. Prints why not and gives *ret_exit on failure. */
struct runtime *command_open(const struct command *self, const struct open_options *o,
                             struct arena *a, int *ret_exit);

/* The caller of that name; ERR_NOT_FOUND. */
enum err command_find_caller(struct runtime *r, struct arena *a, struct str name,
                             struct caller_ref *ret, struct err_info *info);
/* What the registry of refusals says, in the reader's language. */
const char *command_code_text(enum code code);

/* Prints one JSON object on a line or, without --json, "key  value" lines. */
struct printed {
    const char *key;
    struct str value;
    enum {
        PRINTED_TEXT,
        PRINTED_INT,  /* `value` in digits: a number in JSON */
        PRINTED_LIST, /* comma-separated: an array in JSON */
    } type;
};
void command_print(bool json, const struct printed items[], size_t n);

#endif
