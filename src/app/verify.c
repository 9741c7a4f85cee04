/* verify.c -- why does this callback not verify: which part differs. Feeds saved bytes through the
 * very adapter that reads live callbacks, and then tries what usually happened to a body on its way
 * (re-encoded, trimmed, line ends changed). */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/open.h"
#include "app/words.h"
#include "core/callback/callback.h"

#define HEADERS_MAX 64

static enum err read_all(struct str path, struct arena *a, struct str *ret, struct err_info *info)
{
    int fd = open(str_cstr(a, path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(info, ERR_NOT_FOUND, STR_FMT ": cannot be read (%m)", STR_ARG(path));
    char *text = arena_alloc(a, 1 << 20);
    size_t n = 0;
    ssize_t got;
    while (n < 1 << 20 && (got = read(fd, text + n, (1 << 20) - n)) > 0)
        n += (size_t)got;
    close(fd);
    *ret = (struct str) { text, n };
    return ERR_OK;
}

static void split_headers(struct str text, struct http_header *items, struct http_headers *ret)
{
    size_t n = 0;
    while (text.p && n < HEADERS_MAX) {
        struct str value = str_cut(&text, '\n');
        if (value.n && value.p[value.n - 1] == '\r')
            value.n--;
        struct str name = str_cut(&value, ':');
        if (name.n && value.p)
            items[n++] = (struct http_header) { str_trim(name), str_trim(value) };
    }
    *ret = (struct http_headers) { items, n };
}

static struct str without_char(struct arena *a, struct str s, char unwanted)
{
    char *p = arena_alloc(a, s.n);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != unwanted)
            p[n++] = s.p[i];
    return (struct str) { p, n };
}

/* JSON printed again without blanks outside of text. */
static struct str without_blanks(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.n);
    size_t n = 0;
    bool text = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"' && (i == 0 || s.p[i - 1] != '\\'))
            text = !text;
        if (text || (s.p[i] != ' ' && s.p[i] != '\n' && s.p[i] != '\r' && s.p[i] != '\t'))
            p[n++] = s.p[i];
    }
    return (struct str) { p, n };
}

static struct str unescaped_slashes(struct arena *a, struct str s, bool escape)
{
    BUF_AUTO b = { 0 };
    buf_init(&b, 4 << 20);
    for (size_t i = 0; i < s.n; i++) {
        if (escape && s.p[i] == '/')
            buf_add_str(&b, STR("\\/"));
        else if (escape || s.p[i] != '\\' || i + 1 == s.n || s.p[i + 1] != '/')
            buf_add_char(&b, s.p[i]);
    }
    return str_dup(a, buf_str(&b));
}

struct attempt {
    const char *what;
    struct str body;
};

static bool verifies(struct account *account, struct env *env, struct str body,
                     const struct http_headers *headers, struct arena *a, struct notice *ret,
                     struct err_info *info)
{
    struct notice_input in = { .body = body, .headers = headers, .stored = true };
    enum notice_result result = account->info->driver->read_notice(account, env, &in, a, ret, info);
    return result == NOTICE_OK || result == NOTICE_RAW_ONLY;
}

/* "Wechatpay-Nonce: the header is missing" */
static struct str why_text(struct arena *a, const struct err_info *info)
{
    return said(a, str_printf(a, "%s%s%s", info->field, info->field[0] ? ": " : "", info->text));
}

static struct str verdict(bool json, const char *en)
{
    return str_of(json ? en : word(en));
}

static int judge(struct account *account, struct env *env, struct str body,
                 const struct http_headers *headers, struct arena *a, bool json)
{
    struct notice notice = { 0 };
    struct err_info info = { 0 };
    if (verifies(account, env, body, headers, a, &notice, &info)) {
        command_print(json,
                      (const struct printed[]) { { "verdict", verdict(json, "verifies") },
                                                 { "kind", notice.kind },
                                                 { "subject", notice.subject_no },
                                                 { "text", notice.plain },
                                                 { "but", why_text(a, &info) } },
                      5);
        return EXIT_FINE;
    }
    const struct attempt attempts[] = {
        { "a line end was added at the end",
          str_trim(body.n && body.p[body.n - 1] == '\n' ? str_sub(body, 0, body.n - 1) : body) },
        { "a line end was taken away from the end", str_printf(a, STR_FMT "\n", STR_ARG(body)) },
        { "line ends became CR LF", without_char(a, body, '\r') },
        { "it was printed again with blanks", without_blanks(a, body) },
        { "slashes were unescaped (\\/ became /)", unescaped_slashes(a, body, true) },
        { "slashes were escaped (/ became \\/)", unescaped_slashes(a, body, false) },
    };
    const char *changed = NULL;
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts && !changed; i++) {
        struct notice again = { 0 };
        struct err_info ignored = { 0 };
        if (notice.reason == NOTICE_REASON_SIGNATURE &&
            verifies(account, env, attempts[i].body, headers, a, &again, &ignored))
            changed = attempts[i].what;
    }
    command_print(json,
                  (const struct printed[]) {
                      { "verdict", verdict(json, "does not verify") },
                      { "part", str_of(notice_reason_name(notice.reason)) },
                      { "why", why_text(a, &info) },
                      { "body", changed ? str_printf(a, word("the body was changed on its way: %s"),
                                                     word(changed))
                                        : STR_NONE } },
                  4);
    return EXIT_FOUND;
}

/* What is to be verified: two files, or a stored callback. Texts in the arena. */
struct exhibit {
    struct str account, headers_file, body_file, number;
    struct number no;
    struct arena *arena;
    struct str headers_text, body;
};

static enum err stored_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct exhibit *v = arg;
    struct callback_bytes c;
    enum err e = callback_bytes_of(tx, v->no.id, &c, info);
    if (e)
        return e == ERR_NOT_FOUND ? err_set(info, e, "there is no " STR_FMT, STR_ARG(v->number))
                                  : e;
    v->headers_text = str_dup(v->arena, c.headers_text);
    v->body = str_dup(v->arena, c.body);
    if (!v->account.n)
        v->account = str_dup(v->arena, c.row.account);
    return ERR_OK;
}

static enum err check_what(struct exhibit *v, struct err_info *info)
{
    bool files = v->headers_file.n && v->body_file.n && v->account.n;
    if (v->number.n && number_parse(v->number, NUMBER_CALLBACK, &v->no))
        return err_set(info, ERR_INVALID, "'" STR_FMT "' is no number of a callback (C…)",
                       STR_ARG(v->number));
    if (!v->number.n && !files)
        return err_set(
            info, ERR_INVALID,
            "give the number of a stored callback (C…), or --account, --headers and --body");
    return ERR_OK;
}

static enum err load(struct exhibit *v, struct runtime *r, struct err_info *info)
{
    if (v->number.n)
        return store_read(r->store, v->no.slot, "verify", stored_rule, v, info);
    enum err e = read_all(v->headers_file, v->arena, &v->headers_text, info);
    return e ? e : read_all(v->body_file, v->arena, &v->body, info);
}

int command_verify(const struct command *self, int argc, char **argv)
{
    struct open_options open_opts = OPEN_DEFAULTS;
    struct exhibit v = { .account = STR_NONE };
    int exit_code = EXIT_FINE;
    struct option options[] = {
        OPEN_OPTIONS(open_opts),
        { "account", OPTION_TEXT, &v.account, "NAME", "The account whose callback it is" },
        { "headers", OPTION_TEXT, &v.headers_file, "FILE",
          "Its headers, one 'Name: value' a line" },
        { "body", OPTION_TEXT, &v.body_file, "FILE", "Its body, byte for byte" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 1, &v.number, NULL, &exit_code))
        return exit_code;

    ARENA_AUTO a = arena_new(65536);
    struct err_info info = { 0 };
    enum err e = check_what(&v, &info);
    if (e)
        return complain(self, e, &info);
    struct runtime *r = command_open(self, &open_opts, a, &exit_code);
    if (!r)
        return exit_code;
    v.arena = a;
    struct account *account = NULL;
    if (!(e = load(&v, r, &info)) && !(account = registry_ref(r->registry, v.account)))
        e = err_set(&info, ERR_NOT_FOUND, "no account named '" STR_FMT "'", STR_ARG(v.account));
    if (e)
        exit_code = complain(self, e, &info);
    else {
        struct http_header items[HEADERS_MAX];
        struct http_headers headers;
        split_headers(v.headers_text, items, &headers);
        exit_code = judge(account, r->env, v.body, &headers, a, open_opts.json);
        account_unref(account);
    }
    runtime_close(r);
    return exit_code;
}
