/* cfg.h -- one YAML file, read against one declarative table. Unknown keys, wrong types or units,
 * duplicates and missing mandatory keys are errors with file, line and the nearest known name.
 *
 * A table describes the members of one mapping. Values land in a struct by offset. Lists of
 * mappings (accounts) repeat a table. Everything read lives in the arena. */
#ifndef FENPAY_CFG_H
#define FENPAY_CFG_H

#include "base/err.h"
#include "base/str.h"

enum cfg_type {
    CFG_STR,      /* struct str */
    CFG_INT,      /* int64_t */
    CFG_BOOL,     /* bool */
    CFG_MS,       /* int64_t ms, written "250ms", "5s", "15m", "2h", "30d" */
    CFG_BYTES,    /* int64_t, written "64KB", "16MB", or a plain number */
    CFG_FEN,      /* int64_t fen, a plain integer */
    CFG_ENUM,     /* int, one of `choices` ("dev|test|production"): the index */
    CFG_STR_LIST, /* struct cfg_str_list */
    CFG_SECTION,  /* a nested mapping, described by `section`, in a nested struct */
    CFG_LIST,     /* struct cfg_list of mappings: `section` describes one of `element_size` bytes */
};

enum cfg_flags {
    CFG_MANDATORY = 1,
    CFG_RELOADABLE = 2,
    CFG_SECRET = 4, /* the value may be "file:PATH", "env:NAME" or "enc:…"; never printed */
};

struct cfg_str_list {
    struct str *items;
    size_t count;
};
struct cfg_list {
    void *items;
    size_t count;
};

struct cfg_key {
    const char *name; /* NULL ends a table */
    enum cfg_type type;
    size_t offset;
    const char *fallback; /* default, as it would be written; NULL: zero */
    const char *choices;
    int64_t min, max; /* for numbers when max > min */
    unsigned flags;
    const struct cfg_key *section;
    size_t element_size;
    const char *help;
};

/* Resolves "enc:…" secrets; files and environment are cfg's own business. */
typedef enum err cfg_decrypt(void *ctx, struct arena *a, struct str enc, struct str *ret,
                             struct err_info *info);

struct cfg_source {
    struct str name;      /* file name for messages */
    struct str text;      /* the YAML */
    struct str base_dir;  /* relative "file:" paths start here */
    cfg_decrypt *decrypt; /* may be NULL */
    void *decrypt_ctx;
};

/* Fills `*ret` (size `ret_size`, zeroed first). info->text reads "fenpay.yaml:12: unknown key
 * 'lisen' (did you mean 'listen'?)". */
enum err cfg_read(struct arena *a, const struct cfg_source *src, const struct cfg_key table[],
                  void *ret, size_t ret_size, struct err_info *info);

/* Only defaults. */
enum err cfg_defaults(struct arena *a, const struct cfg_key table[], void *ret, size_t ret_size,
                      struct err_info *info);

struct buf;
/* The table as text for people (`markdown` false) or as the docs page. */
void cfg_describe(const struct cfg_key table[], bool markdown, struct buf *out);

#endif
