/* clock.c -- days and dates by Howard Hinnant's algorithms (proleptic Gregorian, any year). */
#include "base/clock.h"

#include "base/arena.h"

#define DAY_MS 86400000LL

/* Days since 1970-01-01. Years begin in March here, so that the leap day is the last one. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of(int64_t days, struct clock_date *ret)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t march_month = (5 * day_of_year + 2) / 153;
    ret->day = (int)(day_of_year - (153 * march_month + 2) / 5 + 1);
    ret->month = (int)(march_month < 10 ? march_month + 3 : march_month - 9);
    ret->year = (int)(year_of_era + era * 400 + (ret->month <= 2 ? 1 : 0));
}

struct clock_date clock_split(int64_t ms_utc, int offset_min)
{
    int64_t local = ms_utc + offset_min * 60000LL;
    int64_t days = local / DAY_MS;
    int64_t in_day = local % DAY_MS;
    if (in_day < 0) {
        in_day += DAY_MS;
        days--;
    }

    struct clock_date d = {
        .hour = (int)(in_day / 3600000),
        .minute = (int)(in_day / 60000 % 60),
        .second = (int)(in_day / 1000 % 60),
        .ms = (int)(in_day % 1000),
    };
    date_of(days, &d);
    return d;
}

int64_t clock_join(const struct clock_date *d, int offset_min)
{
    return days_of(d->year, d->month, d->day) * DAY_MS + d->hour * 3600000LL + d->minute * 60000LL +
           d->second * 1000LL + d->ms - offset_min * 60000LL;
}

/* Writes the last `n` digits of `v` and returns the place behind them. By hand: an event has five
 * times in it, and printf costs 0.4 us for each. */
static char *put_digits(char *to, int n, int v)
{
    for (int i = n; i > 0; i--, v /= 10)
        to[i - 1] = (char)('0' + v % 10);
    return to + n;
}

size_t clock_print(char to[CLOCK_TEXT], int64_t ms_utc, bool ms)
{
    struct clock_date d = clock_split(ms_utc, CLOCK_BEIJING_MIN);
    char *p = put_digits(to, 4, d.year);
    *p++ = '-';
    p = put_digits(p, 2, d.month);
    *p++ = '-';
    p = put_digits(p, 2, d.day);
    *p++ = 'T';
    p = put_digits(p, 2, d.hour);
    *p++ = ':';
    p = put_digits(p, 2, d.minute);
    *p++ = ':';
    p = put_digits(p, 2, d.second);
    if (ms) {
        *p++ = '.';
        p = put_digits(p, 3, d.ms);
    }
    memcpy(p, "+08:00", sizeof("+08:00"));
    return (size_t)(p - to) + 6;
}

static struct str rfc3339(struct arena *a, int64_t ms_utc, bool ms)
{
    char *p = arena_raw(a, CLOCK_TEXT);
    return (struct str) { p, clock_print(p, ms_utc, ms) };
}

struct str clock_rfc3339(struct arena *a, int64_t ms_utc)
{
    return rfc3339(a, ms_utc, false);
}

struct str clock_rfc3339_ms(struct arena *a, int64_t ms_utc)
{
    return rfc3339(a, ms_utc, true);
}

static int days_in_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

/* Takes what `pattern` says off the front of `s`: '0' stands for a digit, anything else for itself.
 * The value of each run of digits goes to ret[0], ret[1], … */
static bool take(struct str *s, const char *pattern, int ret[])
{
    int run = -1;
    for (size_t i = 0; pattern[i]; i++) {
        if (s->n == 0)
            return false;
        char c = *s->p;
        s->p++;
        s->n--;
        if (pattern[i] != '0') {
            if (c != pattern[i])
                return false;
            continue;
        }
        if (c < '0' || c > '9')
            return false;
        if (i == 0 || pattern[i - 1] != '0')
            ret[++run] = 0;
        ret[run] = ret[run] * 10 + (c - '0');
    }
    return true;
}

/* ".5", ".123", ".123456789": kept to ms, the rest cut off. */
static bool take_fraction(struct str *s, int *ret_ms)
{
    int ms = 0;
    size_t digits = 0;
    for (s->p++, s->n--; s->n && *s->p >= '0' && *s->p <= '9'; s->p++, s->n--, digits++)
        if (digits < 3)
            ms = ms * 10 + (*s->p - '0');
    for (size_t i = digits; i < 3; i++)
        ms *= 10;
    *ret_ms = ms;
    return digits >= 1 && digits <= 9;
}

static bool take_offset(struct str *s, int *ret_min)
{
    if (str_eq(*s, STR("Z"))) {
        *ret_min = 0;
        return true;
    }
    int hm[2];
    bool west = s->n && *s->p == '-';
    if (!take(s, west ? "-00:00" : "+00:00", hm) || s->n || hm[0] > 23 || hm[1] > 59)
        return false;
    *ret_min = (west ? -1 : 1) * (hm[0] * 60 + hm[1]);
    return true;
}

enum err clock_parse_rfc3339(struct str s, int64_t *ret_ms)
{
    int part[6];
    if (!take(&s, "0000-00-00T00:00:00", part))
        return ERR_INVALID;
    struct clock_date d = { part[0], part[1], part[2], part[3], part[4], part[5], 0 };
    if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_in_month(d.year, d.month) ||
        d.hour > 23 || d.minute > 59 || d.second > 59)
        return ERR_INVALID;

    int offset_min;
    if (s.n && *s.p == '.' && !take_fraction(&s, &d.ms))
        return ERR_INVALID;
    if (!take_offset(&s, &offset_min))
        return ERR_INVALID;
    *ret_ms = clock_join(&d, offset_min);
    return ERR_OK;
}

int clock_beijing_yyyymmdd(int64_t ms_utc)
{
    struct clock_date d = clock_split(ms_utc, CLOCK_BEIJING_MIN);
    return d.year * 10000 + d.month * 100 + d.day;
}
