/* err.h -- the one vocabulary of errors.
 *
 * A call returns ERR_OK or a negative `enum err` that tells the caller what to do next. What a
 * person needs to know goes into the caller's `struct err_info`, once, where it is understood.
 * Business results (duplicate, conflict, mismatch) are data beside ERR_OK; a channel's answers have
 * their own pair of enums in channel/channel.h. Outputs are untouched on failure. A function either
 * logs or returns an error, not both. */
#ifndef FENPAY_ERR_H
#define FENPAY_ERR_H

enum err {
    ERR_OK = 0,
    ERR_INVALID = -1,   /* the input is wrong: the same call will fail again */
    ERR_NOT_FOUND = -2, /* no such thing */
    ERR_EXISTS = -3,    /* a unique key is taken */
    ERR_CONFLICT = -4,  /* the state does not allow it */
    ERR_RETRY = -5,     /* lost a race; the whole rule may be run again */
    ERR_BUSY = -6,      /* no room now, nothing was done: try later */
    ERR_UNKNOWN = -7,   /* it may or may not have happened */
    ERR_DENIED = -8,    /* not allowed, or not authentic */
    ERR_LIMIT = -9,     /* larger than we are willing to handle */
    ERR_IO = -10,       /* the disk or the network failed */
    ERR_INTERNAL = -11, /* our own mistake */
};

/* Filled by the function that understands the failure; `field` names the input that is wrong, when
 * one is. Zero it before the first use. NULL is accepted everywhere an err_info is taken. */
struct err_info {
    enum err err;
    char field[64];
    char text[320];
};

/* Sets `info` (field = "") and gives `e`, so that failing is one line. Text that is too long is cut
 * at a UTF-8 border. Macros, so that the compiler sees that what comes out is not ERR_OK and does
 * not warn about outputs left alone. */
#define err_set(info, e, ...) err_field(info, e, "", __VA_ARGS__)

/* The same, naming the field of the input. */
#define err_field(info, e, field, ...)                                                             \
    __extension__({                                                                                \
        enum err err_is_ = (e);                                                                    \
        err_fill((info), err_is_, (field), __VA_ARGS__);                                           \
        err_is_;                                                                                   \
    })

void err_fill(struct err_info *info, enum err e, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define err_internal(info, ...) err_set(info, ERR_INTERNAL, __VA_ARGS__)

/* "invalid", "not found", … for logs. */
const char *err_name(enum err e);

#endif
