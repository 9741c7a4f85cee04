/* clock.h -- calendar arithmetic without libc: Beijing is UTC + 8 h, always, whatever TZ says. */
#ifndef FENPAY_CLOCK_H
#define FENPAY_CLOCK_H

#include "base/str.h"

#define CLOCK_BEIJING_MIN 480

struct clock_date {
    int year, month, day, hour, minute, second, ms;
};

struct clock_date clock_split(int64_t ms_utc, int offset_min);
int64_t clock_join(const struct clock_date *d, int offset_min);

/* "2026-01-01T10:34:56+08:00"; seconds, Beijing offset. `clock_rfc3339_ms` adds ".123". In the
 * arena. */
struct str clock_rfc3339(struct arena *a, int64_t ms_utc);
struct str clock_rfc3339_ms(struct arena *a, int64_t ms_utc);
/* The same without an arena, with or without ".123"; returns its length. Years 0 to 9999. */
#define CLOCK_TEXT 32
size_t clock_print(char to[CLOCK_TEXT], int64_t ms_utc, bool ms);
/* Strict RFC 3339: date, 'T', time, optional fraction (kept to ms), 'Z' or ±hh:mm. Impossible dates
 * are ERR_INVALID. */
enum err clock_parse_rfc3339(struct str s, int64_t *ret_ms);

int clock_beijing_yyyymmdd(int64_t ms_utc); /* 20260101 */

#endif
