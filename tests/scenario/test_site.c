/* test_site.c -- a whole site taken down and started again under other circumstances: the channel
 * is away, an account is missing from the configuration; and what of its secrets can be seen from
 * outside. The sandbox is the channel, HTTP and signatures are real. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "app/story.h"
#include "base/json.h"
#include "core/callback/callback.h"

#define LOCAL_BASE "http://fenpay.local"
#define OPENID     "oMARKERopenid0123456789abcdef"

/* The channel is away: nothing is sent, nothing is answered. */
static void away_exchange(struct transport *t, struct env *env, const struct http_call *call,
                          struct arena *a, struct http_reply *ret)
{
    (void)t;
    (void)env;
    (void)call;
    (void)a;
    *ret = (struct http_reply) { .outcome = HTTP_NOT_SENT, .trouble = STR("away") };
}

struct site {
    struct arena *arena;
    struct env env;
    struct log *log;
    FILE *log_file;
    char dir[64];
    struct dev_site dev;
    struct sandbox *sandbox;
    struct transport *client, *callbacks, away;
    struct runtime *runtime;
    struct str bearer, answer;
    int status, orders;
};

static char keys_dir[] = "/tmp/fenpay-site-keys-XXXXXX";

static struct account_config *the_account(struct site *s)
{
    return s->dev.settings.accounts.items;
}

static enum err start_as(struct site *s, struct transport *channel, unsigned roles,
                         struct err_info *info)
{
    struct runtime_options ro = { .settings = &s->dev.settings,
                                  .env = &s->env,
                                  .transport = channel,
                                  .roles = roles,
                                  .migrate = true,
                                  .manual = true };
    enum err e = runtime_open(&ro, &s->runtime, info);
    if (e || !roles)
        return e;
    if ((e = runtime_start(s->runtime, info)))
        return e;
    free(s->callbacks);
    s->callbacks =
        redirect_new(s->client, STR(LOCAL_BASE), http_server_port(s->runtime->notify_server));
    sandbox_set_callbacks(s->sandbox, s->callbacks);
    return ERR_OK;
}

static void start(struct site *s, struct transport *channel)
{
    struct err_info info = { 0 };
    if (start_as(s, channel, ROLE_ALL, &info))
        fail_msg("%s: %s", info.field, info.text);
}

static void stop(struct site *s)
{
    runtime_close(s->runtime);
    s->runtime = NULL;
}

/* Certificate mode, and nothing known from the start. */
static void site_open(struct site *s)
{
    struct err_info info = { 0 };
    int64_t id;
    unsigned all = PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY | PERMISSION_ADMIN;

    *s = (struct site) { .arena = arena_new(65536), .away = { away_exchange } };
    s->log_file = tmpfile();
    assert_non_null(s->log_file);
    s->log = log_new(fileno(s->log_file), LOG_DEBUG, true);
    env_init_real(&s->env, s->log, NULL);
    snprintf(s->dir, sizeof s->dir, "/tmp/fenpay-site-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    if (dev_site_make(keys_dir, STR("http://sandbox.local"), STR(LOCAL_BASE "/notify"), &s->env,
                      s->arena, &s->dev, &info))
        fail_msg("%s", info.text);
    struct settings *settings = &s->dev.settings;
    settings->store.url = str_printf(s->arena, "sqlite:%s/fenpay.db", s->dir);
    settings->api.listen = settings->notify.listen = settings->ops.listen = STR("127.0.0.1:0");
    settings->api.loops = settings->notify.loops = settings->ops.loops = 1;
    the_account(s)->wechat.platform_certs = (struct cfg_str_list) { NULL, 0 };

    s->client = client_new(&info);
    assert_non_null(s->client);
    struct sandbox_options so = { .env = &s->env,
                                  .wechat = { s->dev.wechat },
                                  .wechat_count = 1,
                                  .callbacks = s->client,
                                  .manual = true,
                                  .seed = 1 };
    assert_int_equal(sandbox_new(&so, &s->sandbox, &info), ERR_OK);
    start(s, sandbox_transport(s->sandbox));
    assert_int_equal(
        caller_create(&s->runtime->centre, STR("shop"), all, s->arena, &id, &s->bearer, &info),
        ERR_OK);
}

static void site_close(struct site *s)
{
    if (s->runtime)
        runtime_close(s->runtime);
    sandbox_free(s->sandbox);
    free(s->callbacks);
    client_free(s->client);
    log_free(s->log);
    fclose(s->log_file);
    world_remove_keys(s->dir);
    arena_free(s->arena);
}

static void ask(struct site *s, struct http_server *server, const char *method, const char *path,
                struct str bearer, struct str body)
{
    struct http_header headers[] = {
        { STR("Authorization"), str_printf(s->arena, "Bearer " STR_FMT, STR_ARG(bearer)) },
        { STR("Content-Type"), STR("application/json") },
    };
    struct http_call call = { .method = method,
                              .url = str_printf(s->arena, "http://127.0.0.1:%d%s",
                                                http_server_port(server), path),
                              .headers = { headers, 2 },
                              .body = body };
    struct http_reply reply;
    transport_exchange(s->client, &s->env, &call, s->arena, &reply);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    s->status = reply.status;
    s->answer = reply.body;
}

static struct str field(struct site *s, const char *name)
{
    const struct json *j;
    struct str text = STR_NONE;
    if (json_parse(s->arena, s->answer, &j, NULL) || json_get_str(j, name, &text, NULL))
        fail_msg("no %s in %d " STR_FMT, name, s->status, STR_ARG(s->answer));
    return text;
}

/* The keys are there and a payment waits for its payer. */
static struct str open_payment(struct site *s, const char *method_and_payer)
{
    struct err_info info = { 0 };
    size_t done;
    assert_int_equal(scheduler_turn(s->runtime->scheduler, &done, &info), ERR_OK);
    ask(s, s->runtime->api_server, "POST", "/v1/orders", s->bearer,
        str_printf(s->arena,
                   "{\"merchant_order_no\":\"M-%d\",\"user_id\":\"u-1\",\"subject\":\"tea\","
                   "\"amount\":100,\"currency\":\"CNY\"}",
                   ++s->orders));
    assert_int_equal(s->status, 201);
    struct str order_no = field(s, "order_no");
    ask(s, s->runtime->api_server, "POST", "/v1/payments", s->bearer,
        str_printf(s->arena, "{\"order_no\":\"" STR_FMT "\",\"channel\":\"wechat\",%s}",
                   STR_ARG(order_no), method_and_payer));
    assert_int_equal(s->status, 201);
    return field(s, "pay_no");
}

static int acknowledged(struct site *s, struct str pay_no)
{
    struct sandbox_trade trade;
    assert_int_equal(sandbox_trade_get(s->sandbox, pay_no, s->arena, &trade), ERR_OK);
    return trade.callbacks_acknowledged;
}

/* ---- starting again ---- */

static void verifies_at_once_while_the_channel_is_away(void **state)
{
    (void)state;
    struct site s;
    struct err_info info = { 0 };
    site_open(&s);
    struct str pay_no = open_payment(&s, "\"method\":\"native\"");
    assert_int_equal(sandbox_pay(s.sandbox, pay_no, &info), ERR_OK);
    stop(&s);

    start(&s, &s.away);
    assert_int_equal(sandbox_turn(s.sandbox), 1);
    assert_int_equal(acknowledged(&s, pay_no), 1);
    site_close(&s);
}

/* The same name, another contract: nothing stored is believed. */
static void keys_of_another_contract_verify_nothing(void **state)
{
    (void)state;
    struct site s;
    struct err_info info = { 0 };
    site_open(&s);
    struct str pay_no = open_payment(&s, "\"method\":\"native\"");
    assert_int_equal(sandbox_pay(s.sandbox, pay_no, &info), ERR_OK);
    stop(&s);

    the_account(&s)->api_url = STR("http://elsewhere.local");
    start(&s, &s.away);
    assert_int_equal(sandbox_turn(s.sandbox), 1);
    assert_int_equal(acknowledged(&s, pay_no), 0);
    site_close(&s);
}

/* ---- reloads under way ---- */

/* The site's configuration as a file, without what dev sites know from the start. */
static void write_config(struct site *s, const char *path)
{
    struct err_info info = { 0 };
    char plain[96], line[4096];
    snprintf(plain, sizeof plain, "%s/plain.yaml", s->dir);
    assert_int_equal(dev_write_config(&s->dev.settings, keys_dir, plain, &info), ERR_OK);
    FILE *from = fopen(plain, "re"), *to = fopen(path, "we");
    assert_true(from && to);
    while (fgets(line, sizeof line, from))
        if (!strstr(line, "platform_certs"))
            fputs(line, to);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

struct reloads {
    struct site *site;
    const char *path;
    _Atomic int done, failed;
    _Atomic bool stop;
};

static void *reload_again_and_again(void *arg)
{
    struct reloads *l = arg;
    while (!l->stop) {
        struct err_info info = { 0 };
        if (runtime_reload(l->site->runtime, l->path, &info))
            l->failed++;
        l->done++;
    }
    return NULL;
}

/* Every snapshot that a reload makes has the learnt keys, and no callback falls between two. */
static void callbacks_during_reloads(void **state)
{
    (void)state;
    enum { N = 12 };
    struct site s;
    struct err_info info = { 0 };
    struct str pay_no[N];
    char path[96];
    pthread_t thread;
    site_open(&s);
    snprintf(path, sizeof path, "%s/fenpay.yaml", s.dir);
    write_config(&s, path);
    for (size_t i = 0; i < N; i++)
        pay_no[i] = open_payment(&s, "\"method\":\"native\"");

    struct reloads l = { .site = &s, .path = path };
    assert_int_equal(pthread_create(&thread, NULL, reload_again_and_again, &l), 0);
    for (size_t i = 0; i < N; i++) {
        for (int before = l.done; l.done == before;)
            sched_yield();
        assert_int_equal(sandbox_pay(s.sandbox, pay_no[i], &info), ERR_OK);
        assert_int_equal(sandbox_turn(s.sandbox), 1);
    }
    l.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(l.failed, 0);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(acknowledged(&s, pay_no[i]), 1);
    site_close(&s);
}

/* ---- accounts and their contracts ---- */

/* The refusal names the account, the payment that needs it, and `what`. */
static void refused(struct site *s, const struct err_info *info, struct str pay_no,
                    const char *what)
{
    const char *const words[] = { DEV_ACCOUNT, str_cstr(s->arena, pay_no), "retired: true", what };
    assert_int_equal(info->err, ERR_CONFLICT);
    assert_string_equal(info->field, "accounts");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(info->text, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", info->text, words[i]);
}

static void start_refused(struct site *s, struct str pay_no, const char *what)
{
    struct err_info info = { 0 };
    assert_int_equal(start_as(s, &s->away, ROLE_NOTIFY, &info), ERR_CONFLICT);
    assert_null(s->runtime);
    refused(s, &info, pay_no, what);
    assert_int_equal(start_as(s, &s->away, 0, &info), ERR_OK); /* a command may look */
    stop(s);
}

static void paid(struct site *s, struct str pay_no)
{
    struct err_info info = { 0 };
    assert_int_equal(sandbox_pay(s->sandbox, pay_no, &info), ERR_OK);
    assert_int_equal(sandbox_turn(s->sandbox), 1);
    assert_int_equal(acknowledged(s, pay_no), 1);
}

static void an_account_with_open_payments_stays(void **state)
{
    (void)state;
    struct site s;
    struct err_info info = { 0 };
    site_open(&s);
    struct str pay_no = open_payment(&s, "\"method\":\"native\"");

    char path[96];
    snprintf(path, sizeof path, "%s/fenpay.yaml", s.dir);
    the_account(&s)->name = STR("wx-new");
    assert_int_equal(dev_write_config(&s.dev.settings, keys_dir, path, &info), ERR_OK);
    assert_int_equal(runtime_reload(s.runtime, path, &info), ERR_CONFLICT);
    refused(&s, &info, pay_no, "not there");
    assert_null(registry_ref(s.runtime->registry, STR("wx-new"))); /* nothing of it was taken */
    stop(&s);
    start_refused(&s, pay_no, "not there");

    the_account(&s)->name = STR(DEV_ACCOUNT);
    the_account(&s)->retired = true;
    start(&s, sandbox_transport(s.sandbox));
    paid(&s, pay_no);
    stop(&s);

    the_account(&s)->retired = false; /* nothing is open any more: it may go */
    the_account(&s)->name = STR("wx-new");
    start(&s, &s.away);
    site_close(&s);
}

/* The same when the site is taken down for it: a start knows what the process before it knew. */
static void a_start_keeps_the_contract(void **state)
{
    (void)state;
    struct site s;
    site_open(&s);
    struct str pay_no = open_payment(&s, "\"method\":\"native\"");
    stop(&s);

    the_account(&s)->wechat.mchid = STR("1900000099");
    start_refused(&s, pay_no, "and would be wechat mchid=1900000099,appid=" DEV_APPID);
    the_account(&s)->wechat.mchid = STR(DEV_MCHID);
    the_account(&s)->wechat.appid = STR("wxdev0000000000099");
    start_refused(&s, pay_no,
                  "was wechat mchid=" DEV_MCHID ",appid=" DEV_APPID
                  " and would be wechat mchid=" DEV_MCHID ",appid=wxdev0000000000099");

    the_account(&s)->wechat.appid = STR(DEV_APPID);
    start(&s, sandbox_transport(s.sandbox));
    paid(&s, pay_no);
    stop(&s);

    the_account(&s)->wechat.mchid = STR("1900000099"); /* nothing is open any more */
    start(&s, &s.away);
    stop(&s);
    the_account(&s)->wechat.mchid = STR(DEV_MCHID);
    start(&s, sandbox_transport(s.sandbox));
    pay_no = open_payment(&s, "\"method\":\"native\"");
    stop(&s);
    the_account(&s)->wechat.mchid = STR("1900000099"); /* what is stored is the latest */
    start_refused(&s, pay_no, "and would be wechat mchid=1900000099,appid=" DEV_APPID);
    site_close(&s);
}

/* The name stands for one contract: asked with another merchant number, the channel would say that
 * payments under way do not exist. A reload that mends an account makes it usable at once. */
static void a_reload_keeps_the_contract(void **state)
{
    (void)state;
    struct site s;
    struct err_info info = { 0 };
    char path[96];
    int64_t now;
    site_open(&s);
    now = env_now_ms(s.runtime->env);
    open_payment(&s, "\"method\":\"native\"");
    snprintf(path, sizeof path, "%s/fenpay.yaml", s.dir);

    the_account(&s)->wechat.mchid = STR("1900000099");
    assert_int_equal(dev_write_config(&s.dev.settings, keys_dir, path, &info), ERR_OK);
    assert_int_equal(runtime_reload(s.runtime, path, &info), ERR_CONFLICT);
    assert_string_equal(info.field, "accounts");
    assert_non_null(strstr(info.text, DEV_ACCOUNT));

    the_account(&s)->wechat.mchid = STR(DEV_MCHID);
    registry_suspend(s.runtime->registry, STR(DEV_ACCOUNT), now + 60000);
    assert_int_equal(dev_write_config(&s.dev.settings, keys_dir, path, &info), ERR_OK);
    assert_int_equal(runtime_reload(s.runtime, path, &info), ERR_OK);
    assert_false(registry_suspended(s.runtime->registry, STR(DEV_ACCOUNT), now));
    site_close(&s);
}

/* ---- secrets ---- */

struct marker {
    const char *what;
    struct str text;
    bool may_be_stored; /* the payer's id is what callers gave and what callbacks carry */
};

static void absent(struct site *s, const struct marker markers[], size_t n, const char *where,
                   struct str text)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        if (memmem(text.p, text.n, markers[i].text.p, markers[i].text.n))
            fail_msg("%s shows the %s in " STR_FMT, where, markers[i].what,
                     STR_ARG(str_sub(text, 0, 2000)));
}

static struct str file_text(struct site *s, FILE *f)
{
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *text = arena_alloc(s->arena, (size_t)st.st_size + 1);
    ssize_t n = pread(fileno(f), text, (size_t)st.st_size, 0);
    assert_true(n == st.st_size && n > 0);
    return (struct str) { text, (size_t)n };
}

static struct str database_file(struct site *s, const char *suffix)
{
    char path[96];
    snprintf(path, sizeof path, "%s/fenpay.db%s", s->dir, suffix);
    FILE *f = fopen(path, "re");
    if (!f)
        return STR("");
    struct stat st;
    struct str text = STR("");
    if (fstat(fileno(f), &st) == 0 && st.st_size > 0)
        text = file_text(s, f);
    fclose(f);
    return text;
}

SQL(all_calls, "SELECT account, code, message, request, answer, channel_request_id, trace_id FROM "
               "channel_call");
struct calls {
    struct buf text;
    int64_t rows;
};
static enum err calls_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct calls *c = arg;
    struct query *q = tx_select(tx, &all_calls, NO_BINDS);
    for (; query_row(q); c->rows++)
        for (int i = 0; i < 7; i++) {
            buf_add_str(&c->text, i == 3 || i == 4 ? col_blob(q, i) : col_text(q, i));
            buf_add_str(&c->text, STR("\n"));
        }
    return query_end(q, info);
}

/* Requests that are refused, with secrets where they do not belong. */
static void ask_wrongly(struct site *s, const struct marker markers[], size_t n)
{
    struct http_server *api = s->runtime->api_server;
    static const char *const bodies[] = {
        "{\"payer\":\"" OPENID "\"",
        "{\"order_no\":\"" OPENID "\",\"channel\":\"" OPENID "\",\"method\":\"jsapi\"}",
        "{\"order_no\":\"ORD1\",\"channel\":\"wechat\",\"method\":\"" OPENID "\"}",
        "{\"merchant_order_no\":\"M-2\",\"payer\":\"" OPENID "\",\"channel\":\"wechat\"}",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        ask(s, api, "POST", "/v1/payments", s->bearer, str_of(bodies[i]));
        assert_true(s->status >= 400 && s->status < 500);
        absent(s, markers, n, "a refusal", s->answer);
    }
    struct str wrong = str_printf(s->arena, STR_FMT "x", STR_ARG(s->bearer));
    ask(s, api, "GET", "/v1/incidents", wrong, STR_NONE);
    assert_int_equal(s->status, 401);
    absent(s, markers, n, "a refusal", s->answer);
}

static void pay_and_settle(struct site *s)
{
    struct err_info info = { 0 };
    struct str pay_no =
        open_payment(s, "\"method\":\"jsapi\",\"payer\":\"" OPENID "\",\"client_ip\":\"1.2.3.4\"");
    size_t done;
    assert_int_equal(sandbox_pay(s->sandbox, pay_no, &info), ERR_OK);
    ask(s, s->runtime->api_server, "POST",
        str_cstr(s->arena, str_printf(s->arena, "/v1/payments/" STR_FMT "/sync", STR_ARG(pay_no))),
        s->bearer, STR("{}"));
    assert_int_equal(s->status, 200);
    assert_int_equal(sandbox_turn(s->sandbox), 1);
    assert_int_equal(acknowledged(s, pay_no), 1);
    assert_int_equal(bus_turn(s->runtime->bus, &done, &info), ERR_OK);
    assert_int_equal(bus_deliver_turn(s->runtime->bus, &done, &info), ERR_OK);
    assert_int_equal(scheduler_turn(s->runtime->scheduler, &done, &info), ERR_OK);
}

static void secrets_stay_inside(void **state)
{
    (void)state;
    struct site s;
    struct err_info info = { 0 };
    struct calls calls = { .rows = 0 };
    site_open(&s);
    ask(&s, s.runtime->api_server, "POST", "/v1/webhooks", s.bearer,
        STR("{\"url\":\"http://127.0.0.1:9/hook\"}"));
    assert_int_equal(s.status, 201);
    struct str webhook_secret = field(&s, "secret"); /* shown this once */
    const struct wechat_config *wechat = &the_account(&s)->wechat;
    struct marker markers[] = {
        { "payer's id", STR(OPENID), true },
        { "APIv3 key", wechat->apiv3_key, false },
        { "private key", str_sub(wechat->merchant_key, 100, 40), false },
        { "bearer key", s.bearer, false },
        { "webhook secret", webhook_secret, false },
        { "webhook secret", str_sub(webhook_secret, 6, 40), false },
        { "master key", s.dev.settings.master_key, false },
    };
    const size_t n = sizeof markers / sizeof markers[0];

    pay_and_settle(&s);
    ask_wrongly(&s, markers, n);
    ask(&s, s.runtime->api_server, "GET", "/v1/webhooks", s.bearer, STR_NONE);
    assert_int_equal(s.status, 200);
    absent(&s, markers, n, "the list of webhooks", s.answer);
    ask(&s, s.runtime->ops_server, "GET", "/metrics", STR("none"), STR_NONE);
    assert_int_equal(s.status, 200);
    assert_non_null(memmem(s.answer.p, s.answer.n, "fenpay_key_days_left{account=", 29));
    absent(&s, markers, n, "/metrics", s.answer);

    buf_init(&calls.text, 1 << 20);
    assert_int_equal(store_read(s.runtime->store, 0, "calls", calls_rule, &calls, &info), ERR_OK);
    assert_true(calls.rows >= 2 && buf_ok(&calls.text));
    absent(&s, markers, n, "channel_call", buf_str(&calls.text));
    buf_done(&calls.text);

    stop(&s);
    for (size_t i = 0; i < n; i++)
        if (!markers[i].may_be_stored) {
            absent(&s, &markers[i], 1, "the database", database_file(&s, ""));
            absent(&s, &markers[i], 1, "the database's log", database_file(&s, "-wal"));
        }
    log_flush(s.log);
    struct str lines = file_text(&s, s.log_file);
    assert_non_null(memmem(lines.p, lines.n, "payment.moved", 13));
    absent(&s, markers, n, "the log", lines);

    /* Even when somebody prints them. */
    LOG(s.log, LOG_ERROR, "test.slip", log_str("key", wechat->apiv3_key),
        log_str("pem", wechat->merchant_key), log_str("master", s.dev.settings.master_key));
    log_flush(s.log);
    lines = file_text(&s, s.log_file);
    assert_non_null(memmem(lines.p, lines.n, "test.slip", 9));
    absent(&s, markers, n, "the log", lines);
    site_close(&s);
}

static int make_keys(void **state)
{
    (void)state;
    return mkdtemp(keys_dir) ? 0 : -1;
}
static int drop_keys(void **state)
{
    (void)state;
    world_remove_keys(keys_dir);
    return 0;
}

/* ---- what it says of itself ---- */

static void a_backlog_is_as_old_as_its_oldest_event(void **state)
{
    (void)state;
    struct site s;
    site_open(&s);
    struct str pay_no = open_payment(&s, "\"method\":\"native\"");
    ask(&s, s.runtime->api_server, "POST",
        str_cstr(s.arena, str_printf(s.arena, "/v1/payments/" STR_FMT "/close", STR_ARG(pay_no))),
        s.bearer, STR("{}"));
    assert_int_equal(s.status, 200);

    ask(&s, s.runtime->ops_server, "GET", "/metrics", STR("none"), STR_NONE);
    const char *text = str_cstr(s.arena, s.answer);
    const char *backlog = strstr(text, "\nfenpay_outbox_backlog ");
    const char *oldest = strstr(text, "\nfenpay_outbox_oldest_seconds ");
    assert_true(backlog && oldest);
    assert_int_equal(atoll(strchr(backlog, ' ')), 1);
    assert_in_range(atoll(strchr(oldest, ' ')), 0, 3600);
    stop(&s);
    site_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verifies_at_once_while_the_channel_is_away),
        cmocka_unit_test(keys_of_another_contract_verify_nothing),
        cmocka_unit_test(callbacks_during_reloads),
        cmocka_unit_test(an_account_with_open_payments_stays),
        cmocka_unit_test(a_start_keeps_the_contract),
        cmocka_unit_test(a_reload_keeps_the_contract),
        cmocka_unit_test(secrets_stay_inside),
        cmocka_unit_test(a_backlog_is_as_old_as_its_oldest_event),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("site", tests, make_keys, drop_keys);
}
