/* log.h -- structured log lines: one event name, some fields, one JSON line (or a readable one on a
 * terminal).
 *
 * This is the one redaction point: fields made with log_mask print only their first and last
 * characters, and every secret registered with log_secret is replaced by "***" wherever it appears
 * in a value. The request id of the current piece of work is passed as a field by whoever has it
 * (log_str("request_id", …)). Lines are written whole; below WARN they may be buffered up to 100
 * ms. Thread-safe. */
#ifndef FENPAY_LOG_H
#define FENPAY_LOG_H

#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log;

struct log_field {
    const char *key; /* NULL ends the list */
    enum { LOG_F_STR, LOG_F_INT, LOG_F_MASK } type;
    struct str s;
    int64_t i;
};

static inline struct log_field log_str(const char *key, struct str s)
{
    return (struct log_field) { .key = key, .type = LOG_F_STR, .s = s };
}
static inline struct log_field log_cstr(const char *key, const char *s)
{
    return (struct log_field) { .key = key, .type = LOG_F_STR, .s = str_of(s) };
}
static inline struct log_field log_int(const char *key, int64_t i)
{
    return (struct log_field) { .key = key, .type = LOG_F_INT, .i = i };
}
static inline struct log_field log_mask(const char *key, struct str s)
{
    return (struct log_field) { .key = key, .type = LOG_F_MASK, .s = s };
}

/* `fd` is not closed. `json` false: readable lines. */
struct log *log_new(int fd, enum log_level min, bool json);
void log_free(struct log *l); /* flushes */
void log_flush(struct log *l);
void log_set_level(struct log *l, enum log_level min);

/* At least 8 bytes; copied, wiped at log_free. Lines of a text of several are secrets of their own.
 */
void log_secret(struct log *l, struct str secret);

struct env;
/* Stamps lines with the clock of `env` (NULL: the system's), for worlds whose time is simulated. */
void log_set_env(struct log *l, struct env *env);

/* `event` is a stable dotted name ("payment.moved"). `l` may be NULL: nothing happens. */
void log_write(struct log *l, enum log_level level, const char *event,
               const struct log_field fields[]);

#define LOG(l, level, event, ...)                                                                  \
    log_write(l, level, event,                                                                     \
              (const struct log_field[]) { __VA_ARGS__ __VA_OPT__(, ) { .key = NULL } })

/* "ab***yz" in the arena; short values become "***". Also used where masked values are stored. */
struct str log_masked(struct arena *a, struct str s);

#endif
