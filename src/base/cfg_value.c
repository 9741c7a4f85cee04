/* cfg_value.c -- see cfg_value.h. */
#include "base/cfg_value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

#define SECRET_MAX (64 << 10)
/* Group reading is how a service reads what root owns (root:fenpay 0640). */
#define OPEN_MODE 027

/* A number may carry one of these behind it. */
struct unit {
    const char *name;
    int64_t factor;
};
static const struct unit ms_units[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 24 * 3600 * 1000 },
    { NULL, 0 },
};
static const struct unit byte_units[] = {
    { "", 1 }, { "KB", 1 << 10 }, { "MB", 1 << 20 }, { "GB", 1 << 30 }, { NULL, 0 },
};
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

/* How a number of that type is written; `shape` goes into messages. */
static const struct unit *units_of(enum cfg_type type, const char **ret_shape)
{
    if (type == CFG_MS) {
        *ret_shape = "a time such as 250ms, 5s, 15m, 2h or 30d";
        return ms_units;
    }
    if (type == CFG_BYTES) {
        *ret_shape = "a size such as 4096, 64KB, 16MB or 1GB";
        return byte_units;
    }
    *ret_shape = type == CFG_FEN ? "a whole number of fen" : "a whole number";
    return no_units;
}

static bool with_unit(struct str text, const struct unit *units, int64_t *ret)
{
    size_t digits = 0;
    while (digits < text.n &&
           (text.p[digits] == '-' || (text.p[digits] >= '0' && text.p[digits] <= '9')))
        digits++;
    struct str unit = str_sub(text, digits, text.n);
    int64_t number;
    if (str_int64(str_sub(text, 0, digits), &number))
        return false;
    if (number == 0 && unit.n == 0) { /* nothing is nothing in any unit */
        *ret = 0;
        return true;
    }
    if (number < 0 && units != no_units) /* no time and no size is below nothing */
        return false;
    while (units->name && !str_eq(unit, str_of(units->name)))
        units++;
    return units->name && !__builtin_mul_overflow(number, units->factor, ret);
}

static enum err read_number(const struct cfg_key *key, struct str text, int64_t *ret,
                            struct err_info *info)
{
    const char *shape;
    const struct unit *units = units_of(key->type, &shape);
    int64_t v;
    if (!with_unit(text, units, &v))
        return err_set(info, ERR_INVALID, "'" STR_FMT "' is not %s", STR_ARG(text), shape);
    if (key->max > key->min && (v < key->min || v > key->max)) {
        const char *unit = key->type == CFG_MS ? "ms" : "";
        return err_set(info, ERR_INVALID, "'" STR_FMT "' is not between %lld%s and %lld%s",
                       STR_ARG(text), (long long)key->min, unit, (long long)key->max, unit);
    }
    *ret = v;
    return ERR_OK;
}

static enum err read_bool(struct str text, bool *ret, struct err_info *info)
{
    if (!str_eq(text, STR("true")) && !str_eq(text, STR("false")))
        return err_set(info, ERR_INVALID, "'" STR_FMT "' is neither true nor false", STR_ARG(text));
    *ret = text.p[0] == 't';
    return ERR_OK;
}

static enum err read_choice(const struct cfg_key *key, struct str text, int *ret,
                            struct err_info *info)
{
    struct str names[32];
    size_t n = 0;
    struct str rest = str_of(key->choices);
    while (rest.p && n < sizeof(names) / sizeof(names[0])) {
        names[n] = str_cut(&rest, '|');
        if (str_eq(names[n], text)) {
            *ret = (int)n;
            return ERR_OK;
        }
        n++;
    }
    struct str near = cfg_nearest(text, names, n);
    if (near.n)
        return err_set(info, ERR_INVALID,
                       "'" STR_FMT "' is none of %s (did you mean '" STR_FMT "'?)", STR_ARG(text),
                       key->choices, STR_ARG(near));
    return err_set(info, ERR_INVALID, "'" STR_FMT "' is none of %s", STR_ARG(text), key->choices);
}

/* All of a small regular file; `errno` says why not. */
static enum err read_all(struct arena *a, int fd, struct str *ret, unsigned *ret_mode)
{
    struct stat st;
    if (fstat(fd, &st))
        return ERR_IO;
    if (!S_ISREG(st.st_mode) || st.st_size > SECRET_MAX)
        return ERR_INVALID;
    size_t size = (size_t)st.st_size, n = 0;
    char *p = arena_alloc(a, size);
    while (n < size) {
        ssize_t got = read(fd, p + n, size - n);
        if (got < 0 && errno != EINTR)
            return ERR_IO;
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
    }
    *ret = (struct str) { p, n };
    *ret_mode = st.st_mode & 0777;
    return ERR_OK;
}

static enum err secret_of_file(struct arena *a, const struct cfg_source *src, struct str path,
                               struct str *ret, unsigned *ret_mode, struct err_info *info)
{
    if (path.n && path.p[0] != '/' && src->base_dir.n)
        path = str_printf(a, STR_FMT "/" STR_FMT, STR_ARG(src->base_dir), STR_ARG(path));
    int fd = open(str_cstr(a, path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(info, ERR_INVALID, "cannot open '" STR_FMT "': %s", STR_ARG(path),
                       strerrordesc_np(errno));
    struct str text;
    enum err e = read_all(a, fd, &text, ret_mode);
    int why = errno;
    close(fd);
    if (e == ERR_INVALID)
        return err_set(info, e, "'" STR_FMT "' is not a file of at most %d bytes", STR_ARG(path),
                       SECRET_MAX);
    if (e)
        return err_set(info, ERR_INVALID, "cannot read '" STR_FMT "': %s", STR_ARG(path),
                       strerrordesc_np(why));

    /* Editors end the last line; the secret does not. */
    if (str_ends(text, STR("\n")))
        text.n--;
    if (str_ends(text, STR("\r")))
        text.n--;
    if (!text.n)
        return err_set(info, ERR_INVALID, "'" STR_FMT "' is empty", STR_ARG(path));
    *ret = str_dup(a, text);
    return ERR_OK;
}

static enum err secret_of_environment(struct arena *a, struct str name, struct str *ret,
                                      struct err_info *info)
{
    struct str value = str_of(getenv(str_cstr(a, name)));
    if (!value.n)
        return err_set(info, ERR_INVALID, "the environment variable '" STR_FMT "' is not set",
                       STR_ARG(name));
    *ret = str_dup(a, value);
    return ERR_OK;
}

static enum err secret_of_cipher(struct arena *a, const struct cfg_source *src, struct str text,
                                 struct str *ret, struct err_info *info)
{
    struct err_info why = { 0 };
    struct str plain;
    if (!src->decrypt)
        return err_set(info, ERR_INVALID, "is encrypted, and there is no master key");
    if (src->decrypt(src->decrypt_ctx, a, text, &plain, &why))
        return err_set(info, ERR_INVALID, "cannot be decrypted: %s", why.text);
    *ret = plain;
    return ERR_OK;
}

static enum err read_text(struct arena *a, const struct cfg_source *src, const struct cfg_key *key,
                          struct str text, struct str *ret, unsigned *ret_open_mode,
                          struct err_info *info)
{
    static const struct str file = STR_INIT("file:"), env = STR_INIT("env:"),
                            enc = STR_INIT("enc:");
    if (key->flags & CFG_SECRET) {
        if (str_starts(text, file)) {
            unsigned mode = 0;
            enum err e = secret_of_file(a, src, str_sub(text, file.n, text.n), ret, &mode, info);
            *ret_open_mode = key->flags & CFG_PUBLIC || !(mode & OPEN_MODE) ? 0 : mode;
            return e;
        }
        if (str_starts(text, env))
            return secret_of_environment(a, str_sub(text, env.n, text.n), ret, info);
        if (str_starts(text, enc))
            return secret_of_cipher(a, src, text, ret, info);
    }
    if (text.n && memchr(text.p, '\0', text.n))
        return err_set(info, ERR_INVALID, "holds a NUL");
    *ret = str_dup(a, text);
    return ERR_OK;
}

enum err cfg_value(struct arena *a, const struct cfg_source *src, const struct cfg_key *key,
                   struct str text, void *ret, unsigned *ret_open_mode, struct err_info *info)
{
    *ret_open_mode = 0;
    switch (key->type) {
    case CFG_STR:
    case CFG_STR_LIST: /* one item of it */
        return read_text(a, src, key, text, ret, ret_open_mode, info);
    case CFG_INT:
    case CFG_MS:
    case CFG_BYTES:
    case CFG_FEN:
        return read_number(key, text, ret, info);
    case CFG_BOOL:
        return read_bool(text, ret, info);
    case CFG_ENUM:
        return read_choice(key, text, ret, info);
    case CFG_SECTION:
    case CFG_LIST:
        break;
    }
    return err_internal(info, "'%s' is not a single value", key->name);
}

#define NEAR_MAX 3

struct str cfg_nearest(struct str wrong, const struct str names[], size_t n)
{
    int nearest = NEAR_MAX + 1;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int distance = str_edit_distance(wrong, names[i]);
        if (distance < nearest &&
            (size_t)distance * 2 < names[i].n + 1) { /* most of the word must be right */
            nearest = distance;
            at = i;
        }
    }
    return nearest > NEAR_MAX ? STR_NONE : names[at];
}
