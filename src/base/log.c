/* log.c -- building, redacting and writing log lines.
 *
 * A line is built in a few microseconds under one lock; writing happens under another, so that a
 * slow disk does not hold up who only adds lines. Lines below WARN gather until a thread of the log
 * writes them out within FLUSH_MS; a WARN, a full buffer or log_flush writes at once, in order.
 * What a value says is cut at VALUE_MAX, always after secrets were replaced, so that a cut cannot
 * hide one half from the search. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/json.h"

#define FLUSH_MS    100
#define BUFFER_GOAL (32 << 10) /* written out from here on */
#define BUFFER_MAX  (1 << 20)
#define VALUE_MAX   2048
#define SECRET_MIN  8
#define STUCK_MS    1000 /* a reader that takes nothing for so long loses lines */

#define SECRET_CHAINS 1024 /* a power of two */

struct secret {
    struct secret *next; /* with the same hash of the first four bytes */
    size_t n;
    char bytes[];
};

struct log {
    pthread_mutex_t lock; /* everything but `writing` */
    int fd;
    _Atomic int min;
    bool json;
    struct env *env;

    struct secret *secrets[SECRET_CHAINS];

    struct buf pending; /* whole lines */
    struct buf value;   /* one value with its secrets replaced */
    char stamp[CLOCK_TEXT];

    pthread_mutex_t write_lock; /* taken before `lock` */
    struct buf writing;

    pthread_cond_t wake;
    pthread_t flusher;
    bool flusher_runs, stop;
};

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_WARN] = "warn",
    [LOG_ERROR] = "error",
};

/* What cannot be written is lost: there is nobody left to tell. */
static void write_all(int fd, struct str rest)
{
    while (rest.n) {
        ssize_t n = write(fd, rest.p, rest.n);
        if (n > 0) {
            rest = str_sub(rest, (size_t)n, rest.n);
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd writable = { .fd = fd, .events = POLLOUT };
            if (poll(&writable, 1, STUCK_MS) == 0)
                break;
        } else if (n == 0 || errno != EINTR) {
            break;
        }
    }
}

/* Writes what is pending. Called without a lock. */
static void write_out(struct log *l)
{
    pthread_mutex_lock(&l->write_lock);
    pthread_mutex_lock(&l->lock);
    struct buf full = l->pending;
    l->pending = l->writing; /* empty, with the memory of the time before */
    l->writing = full;
    pthread_mutex_unlock(&l->lock);
    write_all(l->fd, buf_str(&l->writing));
    buf_clear(&l->writing);
    pthread_mutex_unlock(&l->write_lock);
}

/* Waits until a line has been pending for FLUSH_MS; false: stop. */
static bool wait_for_lines(struct log *l)
{
    struct timespec until;
    pthread_mutex_lock(&l->lock);
    while (!l->stop && !l->pending.n)
        pthread_cond_wait(&l->wake, &l->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += FLUSH_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (!l->stop && pthread_cond_timedwait(&l->wake, &l->lock, &until) != ETIMEDOUT)
        ;
    bool go_on = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

static void *flusher_main(void *arg)
{
    while (wait_for_lines(arg))
        write_out(arg);
    return NULL;
}

struct log *log_new(int fd, enum log_level min, bool json)
{
    struct log *l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    l->fd = fd;
    atomic_store(&l->min, (int)min);
    l->json = json;
    buf_init(&l->pending, BUFFER_MAX);
    buf_init(&l->writing, BUFFER_MAX);
    buf_init(&l->value, VALUE_MAX + 64);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->write_lock, NULL);

    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return l;
}

static void drop_secret(struct secret *s)
{
    explicit_bzero(s->bytes, s->n);
    free(s);
}

void log_free(struct log *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    if (l->flusher_runs)
        pthread_join(l->flusher, NULL);
    write_out(l);

    for (size_t i = 0; i < SECRET_CHAINS; i++) {
        while (l->secrets[i]) {
            struct secret *s = l->secrets[i];
            l->secrets[i] = s->next;
            drop_secret(s);
        }
    }
    buf_done(&l->pending);
    buf_done(&l->writing);
    buf_done(&l->value);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->write_lock);
    free(l);
}

void log_flush(struct log *l)
{
    if (l)
        write_out(l);
}

void log_set_level(struct log *l, enum log_level min)
{
    if (l)
        atomic_store(&l->min, (int)min);
}

void log_set_env(struct log *l, struct env *env)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->env = env;
    pthread_mutex_unlock(&l->lock);
}

static size_t secret_chain(const char *p)
{
    uint32_t first;
    memcpy(&first, p, sizeof(first));
    return first * 2654435761u / (UINT32_MAX / SECRET_CHAINS + 1);
}

static void add_secret(struct log *l, struct str secret)
{
    if (secret.n < SECRET_MIN) /* shorter ones would blot out ordinary words */
        return;
    struct secret *s = malloc(sizeof(*s) + secret.n);
    if (!s)
        abort();
    s->n = secret.n;
    memcpy(s->bytes, secret.p, secret.n);

    struct secret **chain = &l->secrets[secret_chain(s->bytes)];
    pthread_mutex_lock(&l->lock);
    bool known = false; /* every reload registers its secrets again */
    for (const struct secret *x = *chain; x && !known; x = x->next)
        known = x->n == s->n && memcmp(x->bytes, s->bytes, s->n) == 0;
    if (!known) {
        s->next = *chain;
        *chain = s;
    }
    pthread_mutex_unlock(&l->lock);
    if (known)
        drop_secret(s);
}

/* Each line of a PEM key is a secret of its own: quoted in other text, its line ends may look
 * different. */
void log_secret(struct log *l, struct str secret)
{
    if (!l || !secret.n)
        return;
    add_secret(l, secret);
    struct str rest = memchr(secret.p, '\n', secret.n) ? secret : STR_NONE;
    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        if (str_ends(line, STR("\r")))
            line.n--;
        add_secret(l, line);
    }
}

/* The longest secret that begins at `s`; 0: none. */
static size_t secret_at(const struct log *l, struct str s)
{
    size_t longest = 0;
    if (s.n < SECRET_MIN)
        return 0;
    for (const struct secret *x = l->secrets[secret_chain(s.p)]; x; x = x->next)
        if (x->n > longest && str_starts(s, (struct str) { x->bytes, x->n }))
            longest = x->n;
    return longest;
}

/* `s` with every stretch covered by secrets, overlapping ones as well, replaced by "***"; at most
 * VALUE_MAX bytes of it. Valid until the next call. */
static struct str redacted(struct log *l, struct str s)
{
    size_t covered = 0; /* bytes before here belong to a secret, or are in `value` */
    size_t i = 0;
    buf_clear(&l->value);
    for (; i < s.n && l->value.n + (i > covered ? i - covered : 0) < VALUE_MAX; i++) {
        size_t n = secret_at(l, str_sub(s, i, s.n));
        if (!n)
            continue;
        if (i >= covered) {
            buf_add(&l->value, s.p + covered, i - covered);
            buf_add_str(&l->value, STR("***"));
        }
        if (i + n > covered)
            covered = i + n;
    }
    if (i > covered)
        buf_add(&l->value, s.p + covered, i - covered);
    if (l->value.n < VALUE_MAX)
        return buf_str(&l->value);

    while (l->value.n && ((unsigned char)l->value.p[l->value.n - 1] & 0xc0) == 0x80)
        l->value.n--; /* a sequence that may have been cut */
    if (l->value.n && (unsigned char)l->value.p[l->value.n - 1] >= 0xc0)
        l->value.n--;
    buf_add_str(&l->value, STR("…"));
    return buf_str(&l->value);
}

/* Byte offset behind the first `count` characters of `s`; stray bytes count as characters. */
static size_t offset_of(struct str s, size_t count)
{
    size_t at = 0;
    while (count-- && at < s.n) {
        size_t length = str_utf8_length(s.p + at, s.n - at);
        at += length ? length : 1;
    }
    return at;
}

static size_t characters(struct str s)
{
    size_t count = 0;
    for (size_t at = 0; at < s.n; count++)
        at += offset_of(str_sub(s, at, s.n), 1);
    return count;
}

#define MASK_SHOWN 2
#define MASK_MIN   8 /* below, what is shown would be too much of it */

/* Splits into what is shown before and behind the asterisks. */
static void mask(struct str s, struct str *ret_head, struct str *ret_tail)
{
    size_t count = characters(s);
    *ret_head = *ret_tail = STR("");
    if (count < MASK_MIN)
        return;
    size_t tail_at = offset_of(s, count - MASK_SHOWN);
    *ret_head = str_sub(s, 0, offset_of(s, MASK_SHOWN));
    *ret_tail = str_sub(s, tail_at, s.n);
}

struct str log_masked(struct arena *a, struct str s)
{
    struct str head, tail;
    mask(s, &head, &tail);
    return str_printf(a, STR_FMT "***" STR_FMT, STR_ARG(head), STR_ARG(tail));
}

static struct str stamp(struct log *l)
{
    int64_t ms;
    if (l->env) {
        ms = env_now_ms(l->env);
    } else {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    }
    return (struct str) { l->stamp, clock_print(l->stamp, ms, true) };
}

/* The bytes of a text or masked value, unescaped. */
static void value_of(struct log *l, const struct log_field *f, struct str ret[3])
{
    ret[0] = redacted(l, f->s);
    ret[1] = ret[2] = STR("");
    if (f->type != LOG_F_MASK)
        return;
    mask(ret[0], &ret[0], &ret[2]);
    ret[1] = STR("***");
}

static void line_json(struct log *l, enum log_level level, const char *event,
                      const struct log_field fields[])
{
    struct buf *b = &l->pending;
    struct json_out o;
    json_out_init(&o, b);
    json_begin_object(&o);
    json_kv_str(&o, "time", stamp(l));
    json_kv_str(&o, "level", str_of(level_names[level]));
    json_kv_str(&o, "event", str_of(event));
    for (const struct log_field *f = fields; f && f->key; f++) {
        if (f->type == LOG_F_INT) {
            json_kv_int(&o, f->key, f->i);
            continue;
        }
        struct str value[3];
        value_of(l, f, value);
        json_key(&o, f->key);
        json_put_raw(&o, STR("\"")); /* the value in pieces */
        for (size_t i = 0; i < 3; i++)
            json_escape(b, value[i]);
        buf_add_char(b, '"');
    }
    json_end_object(&o);
    buf_add_char(b, '\n');
}

static bool wants_quotes(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || strchr("\"\\=\x7f", s.p[i]))
            return true;
    return false;
}

/* "2026-01-01 10:34:56.123 +08:00 warn  payment.moved pay_no=P2026… reason="a b"" */
static void line_readable(struct log *l, enum log_level level, const char *event,
                          const struct log_field fields[])
{
    struct buf *b = &l->pending;
    struct str time = stamp(l);
    buf_printf(b, STR_FMT " " STR_FMT " " STR_FMT " %-5s %s", STR_ARG(str_sub(time, 0, 10)),
               STR_ARG(str_sub(time, 11, 12)), STR_ARG(str_sub(time, 23, time.n)),
               level_names[level], event);
    for (const struct log_field *f = fields; f && f->key; f++) {
        buf_printf(b, " %s=", f->key);
        if (f->type == LOG_F_INT) {
            buf_add_int(b, f->i);
            continue;
        }
        struct str value[3];
        value_of(l, f, value);
        bool quotes =
            wants_quotes(value[0]) || wants_quotes(value[2]) || (!value[0].n && !value[1].n);
        if (quotes)
            buf_add_char(b, '"');
        for (size_t i = 0; i < 3; i++)
            json_escape(b, value[i]);
        if (quotes)
            buf_add_char(b, '"');
    }
    buf_add_char(b, '\n');
}

/* The thread is made when it is first needed, so that a log that is only warned through has none.
 * Under the lock; false: there is none. */
static bool flush_soon(struct log *l)
{
    if (!l->flusher_runs)
        l->flusher_runs = pthread_create(&l->flusher, NULL, flusher_main, l) == 0;
    pthread_cond_signal(&l->wake);
    return l->flusher_runs;
}

void log_write(struct log *l, enum log_level level, const char *event,
               const struct log_field fields[])
{
    if (!l || (int)level < atomic_load_explicit(&l->min, memory_order_relaxed))
        return;
    pthread_mutex_lock(&l->lock);
    bool first = !l->pending.n;
    if (l->json)
        line_json(l, level, event, fields);
    else
        line_readable(l, level, event, fields);
    bool now = level >= LOG_WARN || l->pending.n >= BUFFER_GOAL;
    if (!now && first)
        now = !flush_soon(l);
    pthread_mutex_unlock(&l->lock);
    if (now)
        write_out(l);
}
