/* place.c -- the processes, the clock and the wires of place.h. */
#include "place.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/json.h"

#define CHANNEL_BASE "http://fenpay.local"

void complaint(struct place *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&p->lock);
    if (!p->complaint[0])
        vsnprintf(p->complaint, sizeof p->complaint, format, args);
    pthread_mutex_unlock(&p->lock);
    va_end(args);
}

/* ---- what surrounds the server ---- */

static void take_hook(struct http_request *req, void *service)
{
    struct place *p = service;
    struct str no = http_header_get(http_headers(req), "webhook-id", NULL), body = http_body(req);
    pthread_mutex_lock(&p->lock);
    if (p->hook_count < HOOKS_MAX && no.n < sizeof p->hooks[0].event_no) {
        struct hook *h = &p->hooks[p->hook_count++];
        *h = (struct hook) { .body = sha256_of(&body, 1) };
        memcpy(h->event_no, no.p, no.n);
    }
    pthread_mutex_unlock(&p->lock);
    http_answer(req, 200, "text/plain", STR("ok"));
}

static const struct http_route hook_routes[] = {
    { "POST", "/hook", HTTP_OPEN, 0, 0, 1 << 20, take_hook },
    { 0 },
};

static void carry(struct transport *t, struct env *env, const struct http_call *call,
                  struct arena *a, struct http_reply *ret)
{
    struct place *p = (struct place *)((char *)t - offsetof(struct place, to_server));
    struct str path = str_sub(call->url, sizeof CHANNEL_BASE - 1, call->url.n);
    struct http_call there = *call;
    there.url = str_printf(a, "http://127.0.0.1:%d" STR_FMT, p->server.notify_port, STR_ARG(path));
    there.fresh_connection = true;
    p->client->exchange(p->client, env, &there, a, ret);
}

static void *pump_main(void *arg)
{
    struct place *p = arg;
    while (!p->stop_pump) {
        if (!p->hold_callbacks && sandbox_turn(p->sandbox))
            continue;
        poll(NULL, 0, 2); /* leaves the processor to the server between two looks */
    }
    return NULL;
}

static enum err listen_on(struct place *p, const char *name, const struct http_route *routes,
                          void *service, struct http_server **ret, struct err_info *info)
{
    struct http_server_options o = { .name = name,
                                     .listen = STR("127.0.0.1:0"),
                                     .loops = 1,
                                     .workers = 1,
                                     .per_address_max = 0,
                                     .routes = routes,
                                     .service = service };
    return http_server_start(&p->env, &o, ret, info);
}

/* ---- made once ---- */

static bool make_clock(struct place *p)
{
    char path[96];
    const int64_t zero = 0;
    snprintf(path, sizeof path, "%s/clock", p->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, &zero, sizeof zero) != sizeof zero)
        return false;
    void *at = mmap(NULL, sizeof zero, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    p->ahead_ms = at;
    return at != MAP_FAILED && setenv("FENPAY_CLOCK", path, 1) == 0;
}

/* The template: one caller who may do everything, and who wants to be told of everything. */
static enum err make_template(struct place *p, struct err_info *info)
{
    struct settings s = p->bench.site.settings;
    struct runtime *r = NULL;
    int64_t caller;
    unsigned all =
        PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY | PERMISSION_REFUND | PERMISSION_ADMIN;
    struct runtime_options ro = {
        .settings = &s, .roles = ROLE_API, .migrate = true, .manual = true
    };
    s.store.url = str_printf(p->arena, "sqlite:%s/template.db", p->dir);
    s.api.listen = STR("127.0.0.1:0");
    s.ops.listen = STR_NONE;
    enum err e = runtime_open(&ro, &r, info);
    if (!e)
        e = caller_create(&r->centre, STR("shop"), all, p->arena, &caller, &p->bench.bearer, info);
    if (!e)
        e = runtime_start(r, info);
    if (!e) {
        struct str answer;
        p->server.api_port = http_server_port(r->api_server);
        int status = place_ask(p, p->arena, "POST", STR("/v1/webhooks"),
                               str_printf(p->arena, "{\"url\":\"http://127.0.0.1:%d/hook\"}",
                                          http_server_port(p->hook_server)),
                               &answer);
        if (status != 201)
            e = err_set(info, ERR_INTERNAL, "the webhook was not made: %d " STR_FMT, status,
                        STR_ARG(answer));
    }
    if (r)
        runtime_close(r);
    return e;
}

bool place_make(struct place *p, const char *name, int disk_mb)
{
    struct err_info info = { 0 };
    *p = (struct place) { .arena = arena_new(1 << 20), .lock = PTHREAD_MUTEX_INITIALIZER };
    snprintf(p->dir, sizeof p->dir, "/tmp/fenpay-%s-XXXXXX", name);
    if (!mkdtemp(p->dir))
        return false;
    char size[32];
    snprintf(size, sizeof size, "size=%dm", disk_mb);
    p->mounted = disk_mb && mount("fenpay-crash", p->dir, "tmpfs", 0, size) == 0;
    if (!make_clock(p))
        return false;
    env_init_real(&p->env, NULL, NULL);
    p->client = client_new(&info);
    p->to_server = (struct transport) { carry };
    p->bench = (struct bench_site) { .arena = p->arena, .dir = p->dir, .program = FENPAY_PROGRAM };
    const char *keys = str_cstr(p->arena, str_printf(p->arena, "%s/keys", p->dir));
    if (!p->client || listen_on(p, "hooks", hook_routes, p, &p->hook_server, &info) ||
        dev_site_make(keys, STR("http://127.0.0.1:1"), STR(CHANNEL_BASE "/notify"), &p->env,
                      p->arena, &p->bench.site, &info) ||
        make_template(p, &info)) {
        print_error("%s\n", info.text);
        return false;
    }
    return true;
}

void place_drop(struct place *p)
{
    char command[128];
    http_server_stop(p->hook_server, 0);
    client_free(p->client);
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    if (p->mounted)
        umount2(p->dir, MNT_DETACH);
    if (system(command))
        print_error("%s stays\n", p->dir);
    arena_free(p->arena);
}

/* ---- of one run ---- */

void place_begin(struct place *p)
{
    struct err_info info = { 0 };
    struct sandbox_options so = { .env = &p->env,
                                  .wechat = { p->bench.site.wechat },
                                  .wechat_count = 1,
                                  .callbacks = &p->to_server,
                                  .manual = true,
                                  .seed = 1 };
    struct account_config *account = p->bench.site.settings.accounts.items;
    *p->ahead_ms = 0;
    p->hook_count = 0;
    p->complaint[0] = 0;
    p->stop_pump = p->hold_callbacks = false;
    p->errors_are_the_end = false;
    assert_int_equal(sandbox_new(&so, &p->sandbox, &info), ERR_OK);
    assert_int_equal(listen_on(p, "sandbox", sandbox_routes, p->sandbox, &p->sandbox_server, &info),
                     ERR_OK);
    account->api_url =
        str_printf(p->arena, "http://127.0.0.1:%d", http_server_port(p->sandbox_server));
    assert_int_equal(bench_site_reset(&p->bench, &info), ERR_OK);
    assert_int_equal(pthread_create(&p->pump, NULL, pump_main, p), 0);
}

void place_start(struct place *p, const char *kill_at)
{
    struct err_info info = { 0 };
    if (kill_at)
        setenv("FENPAY_KILL_AT", kill_at, 1);
    enum err e = bench_server_start(&p->bench, &p->server, &info);
    unsetenv("FENPAY_KILL_AT");
    if (e) {
        char command[128];
        p->server.pid = 0; /* it has ended, or never began */
        snprintf(command, sizeof command, "cat %s/server.log >&2", p->dir);
        fail_msg("%s (%d)", info.text, system(command));
    }
}

void place_move_clock(struct place *p, int64_t ms)
{
    atomic_fetch_add(p->ahead_ms, ms);
}

void place_wait_killed(struct place *p)
{
    int status = 0;
    for (int looks = 0; waitpid(p->server.pid, &status, WNOHANG) != p->server.pid; looks++) {
        if (looks == 2000) {
            complaint(p, "the process was not killed there: that point is never passed");
            place_kill(p);
            return;
        }
        place_move_clock(p, 100);
        poll(NULL, 0, 5);
    }
    p->server.pid = 0;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        complaint(p, "the process ended by itself, with status %d", status);
}

void place_kill(struct place *p)
{
    if (p->server.pid && kill(p->server.pid, SIGKILL) == 0)
        waitpid(p->server.pid, NULL, 0);
    p->server.pid = 0;
}

void place_end(struct place *p)
{
    place_kill(p);
    place_stop_inside(p);
    if (!p->sandbox)
        return;
    p->stop_pump = true;
    pthread_join(p->pump, NULL);
    http_server_stop(p->sandbox_server, 0);
    sandbox_free(p->sandbox);
    p->sandbox = NULL;
}

/* ---- inside ---- */

void place_start_inside(struct place *p)
{
    struct err_info info = { 0 };
    struct settings s = p->bench.site.settings;
    struct runtime_options ro = { .settings = &s, .roles = ROLE_ALL, .store_vfs = "fault" };
    s.store.url = str_printf(p->arena, "sqlite:%s/run.db", p->dir);
    s.api.listen = s.notify.listen = s.ops.listen = STR("127.0.0.1:0");
    s.api.loops = s.notify.loops = s.ops.loops = 1;
    s.log.level = LOG_ERROR;
    if (runtime_open(&ro, &p->inside, &info) || runtime_start(p->inside, &info))
        fail_msg("%s", info.text);
    p->server = (struct bench_server) {
        .api_port = http_server_port(p->inside->api_server),
        .notify_port = http_server_port(p->inside->notify_server),
        .ops_port = http_server_port(p->inside->ops_server),
    };
}

void place_stop_inside(struct place *p)
{
    if (p->inside)
        runtime_close(p->inside);
    p->inside = NULL;
}

/* ---- asking ---- */

int place_ready(struct place *p, struct arena *a, struct str *ret_answer)
{
    int api_port = p->server.api_port;
    p->server.api_port = p->server.ops_port;
    int status = place_ask(p, a, "GET", STR("/readyz"), STR_NONE, ret_answer);
    p->server.api_port = api_port;
    return status;
}

int place_ask(struct place *p, struct arena *a, const char *method, struct str path,
              struct str body, struct str *ret_answer)
{
    struct http_header headers[] = {
        { STR("Authorization"), str_printf(a, "Bearer " STR_FMT, STR_ARG(p->bench.bearer)) },
        { STR("Content-Type"), STR("application/json") },
    };
    struct http_call call = { .method = method,
                              .url = str_printf(a, "http://127.0.0.1:%d" STR_FMT,
                                                p->server.api_port, STR_ARG(path)),
                              .headers = { headers, 2 },
                              .body = body,
                              .total_ms = 30000,
                              .fresh_connection = true };
    struct http_reply reply;
    transport_exchange(p->client, &p->env, &call, a, &reply);
    *ret_answer = reply.outcome == HTTP_ANSWERED ? reply.body : STR("");
    return reply.outcome == HTTP_ANSWERED ? reply.status : 0;
}

struct str answer_field(struct arena *a, struct str answer, const char *name)
{
    const struct json *j;
    struct str text = STR_NONE;
    return json_parse(a, answer, &j, NULL) || json_get_str(j, name, &text, NULL) ? STR_NONE : text;
}
