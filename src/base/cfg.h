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
    CFG_PUBLIC = 8, /* with CFG_SECRET: a certificate or public key; others may read its file */
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

/* Where each value stands: for mistakes that only those find who know what the values mean, and
 * for secrets in files that others may read. Keys that the file leaves out stand where the mapping
 * does that lacks them. */
struct cfg_mark {
    struct str path; /* "accounts[0].wechat.mchid" */
    size_t line;
    unsigned open_mode; /* of a secret's file: its mode when others may read or write it, or its
                           group write it, else 0 */
};
struct cfg_marks {
    struct str name; /* of the file */
    struct cfg_mark *items;
    size_t count, room;
};

struct cfg_source {
    struct str name;      /* file name for messages */
    struct str text;      /* the YAML */
    struct str base_dir;  /* relative "file:" paths start here */
    cfg_decrypt *decrypt; /* may be NULL */
    void *decrypt_ctx;
    struct cfg_marks *marks; /* filled, in the arena; may be NULL */
};

/* Fills `*ret` (size `ret_size`, zeroed first). info->text reads "fenpay.yaml:12: unknown key
 * 'lisen' (did you mean 'listen'?)". */
enum err cfg_read(struct arena *a, const struct cfg_source *src, const struct cfg_key table[],
                  void *ret, size_t ret_size, struct err_info *info);

/* Puts "fenpay.yaml:14: accounts[0].wechat.mchid: " before info->text, and the whole path into
 * info->field. What is at fault is info->field, below `prefix` ("accounts[0]" or ""), in whatever
 * section of it. Without marks (nothing was read from a file) only the path is put. */
void cfg_blame(const struct cfg_marks *marks, const char *prefix, struct err_info *info);

/* Prints the paths of the values that differ between two structs of the table and that no reload
 * takes over (not CFG_RELOADABLE), comma-separated; nothing when there is none. */
struct buf;
void cfg_print_fixed_changes(const struct cfg_key table[], const void *old, const void *fresh,
                             struct buf *out);

/* Only defaults. */
enum err cfg_defaults(struct arena *a, const struct cfg_key table[], void *ret, size_t ret_size,
                      struct err_info *info);

/* The table as text for people (`markdown` false) or as the docs page, in the language that `in`
 * puts our words into. */
typedef const char *cfg_language(const char *en);
void cfg_describe(const struct cfg_key table[], bool markdown, cfg_language *in, struct buf *out);

#endif
