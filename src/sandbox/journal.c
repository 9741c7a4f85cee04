/* journal.c -- the books in a file, so that they outlive the process: one JSON line a change, added
 * behind the others, replayed at the start.
 *
 * A line is written with one write() while the lock is held and not synced: what the sandbox has
 * answered survives its end in any way, but not a power cut. A line that the end tore in half is
 * cut off at the next start; any other line that cannot be understood refuses the start, because
 * books with a hole would lie. Faults and the counters of calls are not kept. */
#include "sandbox/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"

#define LINE_MAX_BYTES 131072

struct line {
    struct arena *arena;
    struct buf text;
    struct json_out out;
};

/* ---- writing; the lock is held ---- */

/* False: nothing is kept (any more). */
static bool begin(struct sandbox *s, struct line *l, const char *what)
{
    if (s->journal.fd < 0)
        return false;
    l->arena = arena_new(4096);
    buf_init_arena(&l->text, l->arena, LINE_MAX_BYTES);
    json_out_init(&l->out, &l->text);
    json_begin_object(&l->out);
    json_kv_str(&l->out, "what", str_of(what));
    return true;
}

static bool begin_of_trade(struct sandbox *s, struct line *l, const char *what,
                           const struct trade *t)
{
    if (!begin(s, l, what))
        return false;
    json_kv_str(&l->out, "mchid", t->account->mchid);
    json_kv_str(&l->out, "out_trade_no", t->out_trade_no);
    return true;
}

/* A half line must stay the last one, so after a failure nothing more is written. */
static void end(struct sandbox *s, struct line *l)
{
    json_end_object(&l->out);
    buf_add_char(&l->text, '\n');
    struct str text = buf_str(&l->text);
    errno = 0;
    if (!buf_ok(&l->text) || write(s->journal.fd, text.p, text.n) != (ssize_t)text.n) {
        LOG(s->env->log, LOG_ERROR, "sandbox.books_not_kept", log_str("path", s->journal.path),
            log_int("errno", errno));
        close(s->journal.fd);
        s->journal.fd = -1;
    }
    arena_free(l->arena);
}

void sandbox_journal_trade(struct sandbox *s, const struct trade *t)
{
    struct line l;
    if (!begin_of_trade(s, &l, "trade", t))
        return;
    json_kv_str(&l.out, "transaction_id", t->transaction_id);
    json_kv_int(&l.out, "product", t->product);
    json_kv_str(&l.out, "request", str_hex(l.arena, t->request.b, sizeof t->request.b));
    json_kv_str(&l.out, "description", t->description);
    json_kv_str(&l.out, "attach", t->attach);
    json_kv_str(&l.out, "openid", t->openid);
    json_kv_str(&l.out, "notify_url", t->notify_url);
    json_kv_str(&l.out, "device_id", t->device_id);
    json_kv_int(&l.out, "total", t->total_fen);
    json_kv_int(&l.out, "created_ms", t->created_ms);
    json_kv_int(&l.out, "expire_ms", t->expire_ms);
    end(s, &l);
}

void sandbox_journal_paid(struct sandbox *s, const struct trade *t)
{
    struct line l;
    if (!begin_of_trade(s, &l, "paid", t))
        return;
    json_kv_int(&l.out, "taken", t->taken_fen);
    json_kv_int(&l.out, "at_ms", t->success_ms);
    json_kv_int(&l.out, "callback_ms", t->callback->due_ms);
    end(s, &l);
}

void sandbox_journal_closed(struct sandbox *s, const struct trade *t)
{
    struct line l;
    if (begin_of_trade(s, &l, "closed", t))
        end(s, &l);
}

void sandbox_journal_refund(struct sandbox *s, const struct refund *r)
{
    struct line l;
    if (!begin_of_trade(s, &l, "refund", r->trade))
        return;
    json_kv_str(&l.out, "out_refund_no", r->out_refund_no);
    json_kv_str(&l.out, "refund_id", r->refund_id);
    json_kv_str(&l.out, "request", str_hex(l.arena, r->request.b, sizeof r->request.b));
    json_kv_str(&l.out, "notify_url", r->notify_url);
    json_kv_int(&l.out, "amount", r->amount_fen);
    json_kv_int(&l.out, "created_ms", r->created_ms);
    json_kv_int(&l.out, "end_ms", r->end_ms);
    json_kv_int(&l.out, "end", r->end);
    if (r->callback)
        json_kv_int(&l.out, "callback_ms", r->callback->due_ms);
    end(s, &l);
}

/* The envelope goes along once: a resend carries the bytes of the first sending. */
void sandbox_journal_callback(struct sandbox *s, const struct delivery *d, bool acknowledged,
                              bool over)
{
    struct line l;
    if (!begin_of_trade(s, &l, "callback", d->trade))
        return;
    if (d->refund)
        json_kv_str(&l.out, "out_refund_no", d->refund->out_refund_no);
    json_kv_int(&l.out, "attempt", d->attempt);
    json_kv_bool(&l.out, "acknowledged", acknowledged);
    if (!over) {
        json_kv_int(&l.out, "due_ms", d->due_ms);
        if (d->attempt == 1)
            json_kv_str(&l.out, "body", d->body);
    }
    end(s, &l);
}

void sandbox_journal_withdrawn(struct sandbox *s, const struct account *account, int64_t fen)
{
    struct line l;
    if (!begin(s, &l, "withdrawn"))
        return;
    json_kv_str(&l.out, "mchid", account->mchid);
    json_kv_int(&l.out, "amount", fen);
    end(s, &l);
}

void sandbox_journal_certificate(struct sandbox *s, const struct account *account,
                                 struct str cert_pem, struct str key_pem)
{
    struct line l;
    if (!begin(s, &l, "certificate"))
        return;
    json_kv_str(&l.out, "mchid", account->mchid);
    json_kv_str(&l.out, "certificate", cert_pem);
    json_kv_str(&l.out, "key", key_pem);
    end(s, &l);
}

void sandbox_journal_key_mode(struct sandbox *s, const struct account *account)
{
    struct line l;
    if (!begin(s, &l, "key_mode"))
        return;
    json_kv_str(&l.out, "mchid", account->mchid);
    json_kv_bool(&l.out, "public_key", account->sign_with_public_key);
    end(s, &l);
}

/* ---- replaying ---- */

struct replay {
    struct sandbox *s;
    struct arena *arena; /* of one line */
    const struct json *line;
    struct account *account;
    struct trade *trade; /* NULL: the line names none, or one that is not there */
    struct err_info *info;
};

/* A member that may be absent. */
static struct str text_of(const struct replay *r, const char *key)
{
    struct str text = STR_NONE;
    return json_get_str(r->line, key, &text, NULL) ? STR_NONE : text;
}

static bool has_text(const struct replay *r, const char *key, struct str *ret)
{
    return !json_get_str(r->line, key, ret, r->info);
}

static bool has_int(const struct replay *r, const char *key, int64_t least, int64_t most,
                    int64_t *ret)
{
    int64_t v;
    if (json_get_int(r->line, key, &v, r->info) || v < least || v > most)
        return false;
    *ret = v;
    return true;
}

static bool has_digest(const struct replay *r, struct sha256 *ret)
{
    struct str bytes;
    if (str_unhex(r->arena, text_of(r, "request"), &bytes) || bytes.n != sizeof ret->b)
        return false;
    memcpy(ret->b, bytes.p, bytes.n);
    return true;
}

static bool replay_trade(struct replay *r)
{
    struct trade t = { .account = r->account,
                       .description = text_of(r, "description"),
                       .attach = text_of(r, "attach"),
                       .openid = text_of(r, "openid"),
                       .device_id = text_of(r, "device_id") };
    int64_t product;
    if (r->trade || !has_text(r, "out_trade_no", &t.out_trade_no) ||
        !has_text(r, "transaction_id", &t.transaction_id) ||
        !has_text(r, "notify_url", &t.notify_url) || !has_digest(r, &t.request) ||
        !has_int(r, "product", PRODUCT_JSAPI, PRODUCT_H5, &product) ||
        !has_int(r, "total", 1, INT64_MAX, &t.total_fen) ||
        !has_int(r, "created_ms", 0, INT64_MAX, &t.created_ms) ||
        !has_int(r, "expire_ms", 0, INT64_MAX, &t.expire_ms))
        return false;
    t.product = (enum trade_product)product;
    books_add_trade(&r->s->books, &t);
    return true;
}

static bool replay_paid(struct replay *r)
{
    struct trade *t = r->trade;
    int64_t due_ms;
    if (!t || t->success_ms || !has_int(r, "taken", 0, INT64_MAX, &t->taken_fen) ||
        !has_int(r, "at_ms", 1, INT64_MAX, &t->success_ms) ||
        !has_int(r, "callback_ms", 1, INT64_MAX, &due_ms))
        return false;
    t->state = TRADE_SUCCESS;
    t->account->taken_fen += t->taken_fen;
    sandbox_callbacks_restore(r->s, t, NULL, due_ms);
    return true;
}

static bool replay_closed(struct replay *r)
{
    if (!r->trade || r->trade->state != TRADE_NOTPAY)
        return false;
    r->trade->state = TRADE_CLOSED;
    return true;
}

static bool replay_refund(struct replay *r)
{
    struct refund like = { .trade = r->trade, .notify_url = text_of(r, "notify_url") };
    int64_t due_ms, last;
    if (!r->trade || !r->trade->success_ms || !has_text(r, "out_refund_no", &like.out_refund_no) ||
        !has_text(r, "refund_id", &like.refund_id) || !has_digest(r, &like.request) ||
        !has_int(r, "amount", 1, INT64_MAX, &like.amount_fen) ||
        !has_int(r, "created_ms", 0, INT64_MAX, &like.created_ms) ||
        !has_int(r, "end_ms", 0, INT64_MAX, &like.end_ms) ||
        !has_int(r, "end", REFUND_PROCESSING, REFUND_ABNORMAL, &last))
        return false;
    like.end = (enum refund_state)last;
    struct refund *kept = books_add_refund(&r->s->books, &like);
    if (has_int(r, "callback_ms", 1, INT64_MAX, &due_ms))
        sandbox_callbacks_restore(r->s, r->trade, kept, due_ms);
    return true;
}

static bool replay_callback(struct replay *r)
{
    struct str refund_no = text_of(r, "out_refund_no");
    struct refund *refund = refund_no.p ? books_refund(&r->s->books, r->account, refund_no) : NULL;
    struct delivery *d = refund ? refund->callback : r->trade ? r->trade->callback : NULL;
    int64_t attempt, due_ms = 0;
    bool acknowledged;
    if (!d || (refund_no.p && !refund) || !has_int(r, "attempt", 1, INT32_MAX, &attempt) ||
        json_get_bool(r->line, "acknowledged", &acknowledged, r->info))
        return false;
    has_int(r, "due_ms", 1, INT64_MAX, &due_ms);
    r->trade->callbacks_sent++;
    r->trade->callbacks_acknowledged += acknowledged;
    sandbox_callbacks_resume(r->s, d, (int)attempt, due_ms, text_of(r, "body"));
    return true;
}

static bool replay_withdrawn(struct replay *r)
{
    int64_t fen;
    if (!has_int(r, "amount", INT64_MIN, INT64_MAX, &fen))
        return false;
    r->account->withdrawn_fen += fen;
    return true;
}

static bool replay_certificate(struct replay *r)
{
    struct str certificate, key;
    return has_text(r, "certificate", &certificate) && has_text(r, "key", &key) &&
           !sandbox_add_certificate(r->s, r->account, certificate, key, r->info);
}

static bool replay_key_mode(struct replay *r)
{
    return !json_get_bool(r->line, "public_key", &r->account->sign_with_public_key, r->info);
}

static const struct {
    const char *what;
    bool (*replay)(struct replay *r);
} kinds[] = {
    { "trade", replay_trade },       { "paid", replay_paid },
    { "closed", replay_closed },     { "refund", replay_refund },
    { "callback", replay_callback }, { "withdrawn", replay_withdrawn },
    { "key_mode", replay_key_mode }, { "certificate", replay_certificate },
};

static bool replay_line(struct replay *r, struct str text)
{
    if (json_parse(r->arena, text, &r->line, r->info))
        return false;
    r->account = sandbox_account(r->s, text_of(r, "mchid"));
    if (!r->account) {
        err_set(r->info, ERR_NOT_FOUND, "it names a merchant that this sandbox does not have");
        return false;
    }
    r->trade = books_trade(&r->s->books, r->account, text_of(r, "out_trade_no"));
    struct str what = text_of(r, "what");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (str_eq(what, str_of(kinds[i].what)))
            return kinds[i].replay(r);
    return false;
}

static enum err replay_all(struct sandbox *s, FILE *f, const char *path, int64_t *ret_end,
                           struct err_info *info)
{
    char *text = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    bool fine = true;
    struct err_info why = { .text = "it does not fit what stands before it" };
    *ret_end = 0;
    while (fine && (n = getline(&text, &room, f)) > 0 && text[n - 1] == '\n') {
        ARENA_AUTO a = arena_new(8192);
        struct replay r = { .s = s, .arena = a, .info = &why };
        fine = replay_line(&r, (struct str) { text, (size_t)n - 1 });
        *ret_end += n;
        number++;
    }
    free(text);
    if (ferror(f))
        return err_set(info, ERR_IO, "%s: cannot be read", path);
    return fine ? ERR_OK
                : err_set(info, ERR_INVALID,
                          "%s: line %zu is not understood (%s); move the file away to start with "
                          "empty books",
                          path, number, why.text);
}

/* The reader has a descriptor of its own, the lock stays with the writer's. */
static enum err replay_file(struct sandbox *s, const char *path, struct err_info *info)
{
    int64_t good;
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(info, ERR_IO, "%s: cannot be read (%m)", path);
    enum err e = replay_all(s, f, path, &good, info);
    fclose(f);
    if (!e && ftruncate(s->journal.fd, (off_t)good))
        e = err_set(info, ERR_IO, "%s: its torn end cannot be cut off (%m)", path);
    return e;
}

enum err sandbox_journal_open(struct sandbox *s, struct str path, struct err_info *info)
{
    s->journal = (struct journal) { .fd = -1, .path = str_dup(s->arena, path) };
    if (!path.n)
        return ERR_OK;
    const char *name = str_cstr(s->arena, path);
    int fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(info, ERR_IO, "%s: cannot be opened (%m)", name);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        return err_set(info, ERR_BUSY, "%s: another sandbox keeps its books here", name);
    }
    s->journal.fd = fd;
    return replay_file(s, name, info);
}

void sandbox_journal_close(struct sandbox *s)
{
    if (s->journal.fd >= 0)
        close(s->journal.fd);
}
