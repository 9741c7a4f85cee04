/* migrate.c -- the schema's history: append-only steps, each logged with the SHA-256 of its text.
 *
 * A step runs in one transaction with its log row. A changed text, or a step this program does not
 * know, stops everything: somebody else's schema is not ours to guess at. Type words ({id} {int}
 * {fen} {ms} {no} {text(n)} {blob} {table_end} {narrow_end}) stand for each engine's own types;
 * {partial} … {partial_end} encloses the condition of an index that is the same without it. */
#include "store/internal.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "crypto/digest.h"

#define EXPANDED_MAX (1 << 20)

static const char log_table[] = "CREATE TABLE IF NOT EXISTS schema_migration (\n"
                                "    name         {text(64)} NOT NULL PRIMARY KEY,\n"
                                "    checksum     {text(64)} NOT NULL,\n"
                                "    applied_time {ms} NOT NULL\n"
                                ") {table_end};\n";

SQL(sql_applied, "SELECT name, checksum FROM schema_migration ORDER BY name");
SQL(sql_log, "INSERT INTO schema_migration (name, checksum, applied_time) VALUES (?, ?, ?)");

/* ---- type words ---- */

static const char *type_of(const char *const *types, struct str word)
{
    for (; *types; types += 2)
        if (str_eq(str_of(types[0]), word))
            return types[1];
    return NULL;
}

/* The column that a type word at `at` belongs to. */
static struct str column_before(struct str text, size_t at)
{
    size_t end = at;
    while (end > 0 && isspace((unsigned char)text.p[end - 1]))
        end--;
    size_t from = end;
    while (from > 0 && (isalnum((unsigned char)text.p[from - 1]) || text.p[from - 1] == '_'))
        from--;
    return str_sub(text, from, end - from);
}

static enum err expand_word(const char *const *types, struct str word, struct str column,
                            struct buf *out, struct err_info *info)
{
    struct str argument = word, name = str_cut(&argument, '(');
    const char *type = type_of(types, name);
    if (argument.p && argument.n > 0 && argument.p[argument.n - 1] == ')')
        argument.n--;
    else if (argument.p)
        type = NULL;
    if (!type || !str_all_of(argument, "0123456789") ||
        (strchr(type, '#') != NULL) != (argument.n > 0))
        return err_set(info, ERR_INVALID, "schema: {" STR_FMT "} is no type word", STR_ARG(word));
    for (; *type; type++) {
        if (*type == '@')
            buf_add_str(out, column);
        else if (*type == '#')
            buf_add_str(out, argument);
        else
            buf_add_char(out, *type);
    }
    return ERR_OK;
}

enum err schema_expand(const char *const *types, struct str text, struct buf *out,
                       struct err_info *info)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '-' && i + 1 < text.n && text.p[i + 1] == '-') {
            while (i < text.n && text.p[i] != '\n')
                i++;
            buf_add_char(out, '\n');
        } else if (text.p[i] == '{') {
            struct str rest = str_sub(text, i + 1, text.n), word = str_cut(&rest, '}');
            if (!rest.p)
                return err_set(info, ERR_INVALID, "schema: '{' without '}'");
            enum err e = expand_word(types, word, column_before(text, i), out, info);
            if (e)
                return e;
            i += word.n + 1;
        } else {
            buf_add_char(out, text.p[i]);
        }
    }
    return buf_ok(out) ? ERR_OK : err_set(info, ERR_LIMIT, "schema: a step is too long");
}

/* ---- the log of steps ---- */

struct schema {
    const struct migration *steps;
    size_t n;
    bool *applied;
    struct str *checksums;
};

static struct schema schema_of(const struct store *s, struct arena *a)
{
    struct schema x = { .steps = s->o.migrations ? s->o.migrations : store_migrations };
    while (x.steps[x.n].name)
        x.n++;
    x.applied = arena_array(a, x.n + 1, sizeof *x.applied);
    x.checksums = arena_array(a, x.n + 1, sizeof *x.checksums);
    for (size_t i = 0; i < x.n; i++)
        x.checksums[i] = sha256_hex(a, str_of(x.steps[i].text));
    return x;
}

static enum err note_applied(struct schema *x, struct str name, struct str checksum,
                             struct err_info *info)
{
    for (size_t i = 0; i < x->n; i++) {
        if (!str_eq(name, str_of(x->steps[i].name)))
            continue;
        x->applied[i] = true;
        if (str_eq(checksum, x->checksums[i]))
            return ERR_OK;
        return err_set(info, ERR_CONFLICT,
                       "the schema step %s was changed after it had been applied",
                       x->steps[i].name);
    }
    return err_set(info, ERR_CONFLICT,
                   "newer program needed: this one does not know the schema step " STR_FMT,
                   STR_ARG(name));
}

/* In a transaction. `ret_none`: there is no log yet. */
static enum err read_log(struct tx *tx, struct schema *x, struct err_info *info)
{
    struct query *q = tx_select(tx, &sql_applied, NO_BINDS);
    enum err e = ERR_OK;
    while (!e && query_row(q))
        e = note_applied(x, col_text(q, 0), col_text(q, 1), info);
    enum err end = query_end(q, info);
    return e ? e : end;
}

static size_t missing(const struct schema *x)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        n += !x->applied[i];
    return n;
}

enum err schema_check(struct store *s, struct err_info *info)
{
    ARENA_AUTO a = arena_new(4096);
    struct schema x = schema_of(s, a);
    struct tx *tx = &s->batch->tx;
    enum err e = s->driver->begin(s->writer, false, info);
    if (e)
        return e;
    tx_start(tx, NULL, env_now_ms(s->env));
    struct err_info mine = { 0 };
    e = tx_finish(tx, read_log(tx, &x, &mine), &mine);
    s->driver->rollback(s->writer);
    if (e == ERR_INTERNAL) /* the only mistake possible here: no such table */
        e = ERR_OK;
    else if (e && info)
        *info = mine;
    if (!e && missing(&x) > 0)
        e = err_set(info, ERR_CONFLICT, "run fenpay migrate: the database lacks %zu schema steps",
                    missing(&x));
    return e;
}

/* ---- upgrading ---- */

static enum err run_script(struct store *s, const char *text, struct err_info *info)
{
    BUF_AUTO sql;
    buf_init(&sql, EXPANDED_MAX);
    enum err e = schema_expand(s->driver->types, str_of(text), &sql, info);
    return e ? e : s->driver->script(s->writer, buf_str(&sql), info);
}

static enum err log_step(struct tx *tx, const struct migration *step, struct str checksum,
                         struct err_info *info)
{
    return tx_exec(
        tx, &sql_log,
        BINDS(bind_text(str_of(step->name)), bind_text(checksum), bind_int(tx_now_ms(tx))), NULL,
        info);
}

/* One step and its log row; `step` NULL: only the log's table. */
static enum err apply(struct store *s, const struct migration *step, struct str checksum,
                      struct err_info *info)
{
    struct tx *tx = &s->batch->tx;
    enum err e = s->driver->begin(s->writer, true, info);
    if (e)
        return e;
    e = run_script(s, step ? step->text : log_table, info);
    if (!e && step) {
        tx_start(tx, NULL, env_now_ms(s->env));
        e = tx_finish(tx, log_step(tx, step, checksum, info), info);
    }
    if (!e)
        e = s->driver->commit(s->writer, info);
    if (e)
        s->driver->rollback(s->writer);
    else if (step)
        LOG(s->env->log, LOG_INFO, "store.migrated", log_cstr("step", step->name));
    return e;
}

enum err schema_upgrade(struct store *s, int *ret_applied, struct err_info *info)
{
    ARENA_AUTO a = arena_new(4096);
    struct err_info mine = { 0 };
    struct schema x = schema_of(s, a);
    struct tx *tx = &s->batch->tx;
    int applied = 0;
    enum err e = apply(s, NULL, STR_NONE, &mine);
    if (!e && !(e = s->driver->begin(s->writer, false, &mine))) {
        tx_start(tx, NULL, env_now_ms(s->env));
        e = tx_finish(tx, read_log(tx, &x, &mine), &mine);
        s->driver->rollback(s->writer);
    }
    for (size_t i = 0; !e && i < x.n; i++)
        if (!x.applied[i] && !(e = apply(s, &x.steps[i], x.checksums[i], &mine)))
            applied++;
    if (!e && ret_applied)
        *ret_applied = applied;
    if (e && info)
        *info = mine;
    return e;
}
