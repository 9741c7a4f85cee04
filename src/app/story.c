/* story.c -- the player of stories: a centre, a sandbox, a clock, and steps. */
#include "app/story.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"

#define LABELS_MAX 32
#define STRIDE_MS  30000
#define ROUNDS_MAX 200
#define LOCAL_BASE "http://fenpay.local"

struct labelled {
    const char *label;
    const struct json *json;
};

/* The story's clock: wall time stands still between steps; deadlines inside the machine run on real
 * monotonic time. */
struct story_env {
    struct env env;
    struct env real;
    _Atomic int64_t now_ms;
};

struct world {
    struct arena *arena;
    struct story_env clock;
    char dir[64];
    struct dev_site site;
    struct sandbox *sandbox;
    struct transport *client, *callbacks;
    struct runtime *runtime;
    struct str bearer;
    struct labelled labels[LABELS_MAX];
    size_t label_count;
    bool loud;
    struct str why;
};

static int64_t story_now(struct env *env)
{
    return container_of(env, struct story_env, env)->now_ms;
}
static int64_t story_mono(struct env *env)
{
    return env_mono_us(&container_of(env, struct story_env, env)->real);
}
static void story_random(struct env *env, void *ret, size_t n)
{
    env_random(&container_of(env, struct story_env, env)->real, ret, n);
}
static void story_sleep(struct env *env, int64_t ms)
{
    container_of(env, struct story_env, env)->now_ms += ms;
}
static const struct env_ops story_ops = { story_now, story_mono, story_random, story_sleep, NULL };

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    if (!d)
        return;
    struct dirent *entry;
    while ((entry = readdir(d)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    rmdir(path);
}

void world_remove_keys(const char *dir)
{
    remove_dir(dir);
}

static enum err start_centre(struct world *w, struct err_info *info)
{
    struct runtime_options ro = {
        .settings = &w->site.settings,
        .env = &w->clock.env,
        .transport = sandbox_transport(w->sandbox),
        .roles = ROLE_ALL,
        .migrate = true,
        .manual = true,
    };
    enum err e = runtime_open(&ro, &w->runtime, info);
    if (!e)
        e = runtime_start(w->runtime, info);
    if (e)
        return e;
    free(w->callbacks);
    w->callbacks =
        redirect_new(w->client, STR(LOCAL_BASE), http_server_port(w->runtime->notify_server));
    sandbox_set_callbacks(w->sandbox, w->callbacks);
    return ERR_OK;
}

static enum err make_site(struct world *w, const char *keys_dir, struct err_info *info)
{
    enum err e = dev_site_make(keys_dir, STR("http://sandbox.local"), STR(LOCAL_BASE "/notify"),
                               &w->clock.real, w->arena, &w->site, info);
    if (e)
        return e;
    struct settings *s = &w->site.settings;
    s->store.url = str_printf(w->arena, "sqlite:%s/fenpay.db", w->dir);
    s->api.listen = s->notify.listen = s->ops.listen = STR("127.0.0.1:0");
    s->api.workers = 8;
    s->api.loops = s->notify.loops = 1;
    s->limits.rate_per_s = s->limits.rate_burst = 1000000;
    return ERR_OK;
}

enum err world_new(const char *keys_dir, struct world **ret, struct err_info *info)
{
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->arena = arena_new(65536);
    env_init_real(&w->clock.real, NULL, NULL);
    w->clock.env.ops = &story_ops;
    w->clock.now_ms = env_now_ms(&w->clock.real);
    snprintf(w->dir, sizeof w->dir, "/tmp/fenpay-story-XXXXXX");

    enum err e = mkdtemp(w->dir) ? ERR_OK : err_set(info, ERR_IO, "no temporary folder (%m)");
    if (!e)
        e = make_site(w, keys_dir, info);
    if (!e && !(w->client = client_new(info)))
        e = ERR_INTERNAL;
    if (!e) {
        struct sandbox_options so = { .env = &w->clock.env,
                                      .wechat_count = 1,
                                      .callbacks = w->client,
                                      .manual = true,
                                      .seed = 1 };
        so.wechat[0] = w->site.wechat;
        e = sandbox_new(&so, &w->sandbox, info);
    }
    int64_t id;
    unsigned all = PERMISSION_READ | PERMISSION_ORDER | PERMISSION_PAY | PERMISSION_REFUND |
                   PERMISSION_INCIDENT | PERMISSION_ADMIN;
    if (!e && !(e = start_centre(w, info)))
        e = caller_create(&w->runtime->centre, STR("shop"), all, w->arena, &id, &w->bearer, info);
    if (e) {
        world_free(w);
        return e;
    }
    *ret = w;
    return ERR_OK;
}

void world_free(struct world *w)
{
    if (w->runtime)
        runtime_close(w->runtime);
    if (w->sandbox)
        sandbox_free(w->sandbox);
    free(w->callbacks);
    if (w->client)
        client_free(w->client);
    remove_dir(w->dir);
    arena_free(w->arena);
    free(w);
}

/* ---- texts with ${label.field} ---- */

static const struct json *walk(const struct json *j, struct str path, int64_t *ret_count)
{
    *ret_count = -1;
    while (j && path.p && path.n) {
        struct str head = str_cut(&path, '.');
        int64_t index;
        if (str_eq(head, STR("#"))) {
            *ret_count = (int64_t)j->count;
            return j;
        }
        const struct json *child = j->first;
        if (!str_int64(head, &index))
            while (child && index-- > 0)
                child = child->next;
        else
            while (child && !str_eq(child->key, head))
                child = child->next;
        j = child;
    }
    return j;
}

static struct str field_text(struct world *w, const struct json *j, struct str path)
{
    int64_t count;
    const struct json *found = walk(j, path, &count);
    if (!found)
        return STR("(absent)");
    if (count >= 0)
        return str_printf(w->arena, "%lld", (long long)count);
    return found->type == JSON_STRING || found->type == JSON_NUMBER ? found->text : found->raw;
}

static const struct json *labelled(struct world *w, struct str label)
{
    for (size_t i = w->label_count; i-- > 0;)
        if (str_eq(str_of(w->labels[i].label), label))
            return w->labels[i].json;
    return NULL;
}

static struct str fill(struct world *w, const char *text)
{
    if (!text)
        return STR_NONE;
    BUF_AUTO b = { 0 };
    struct str rest = str_of(text);
    buf_init(&b, 1 << 20);
    while (rest.n) {
        const char *start = memmem(rest.p, rest.n, "${", 2);
        size_t before = start ? (size_t)(start - rest.p) : rest.n;
        buf_add(&b, rest.p, before);
        rest = str_sub(rest, before, rest.n);
        if (!start)
            break;
        rest = str_sub(rest, 2, rest.n);
        struct str name = str_cut(&rest, '}');
        struct str field = name;
        struct str label = str_cut(&field, '.');
        buf_add_str(&b, field_text(w, labelled(w, label), field));
    }
    return str_dup(w->arena, buf_str(&b));
}

/* ---- steps ---- */

static bool went_wrong(struct world *w, const struct step *s, struct str how)
{
    w->why = str_printf(w->arena, "%s %s: " STR_FMT, s->what ? s->what : "",
                        s->label ? s->label : "", STR_ARG(how));
    return false;
}

static bool check(struct world *w, const struct step *s, const struct json *j, struct str all)
{
    struct str rest = fill(w, s->expect);
    while (rest.p && rest.n) {
        struct str want = str_cut(&rest, ',');
        struct str path = str_cut(&want, '=');
        bool differ = str_ends(path, STR("!"));
        if (differ)
            path.n--;
        struct str got = field_text(w, j, path);
        if (str_eq(got, want) == differ)
            return went_wrong(
                w, s,
                str_printf(w->arena, STR_FMT " is " STR_FMT ", expected %s" STR_FMT " in " STR_FMT,
                           STR_ARG(path), STR_ARG(got), differ ? "not " : "", STR_ARG(want),
                           STR_ARG(all)));
    }
    return true;
}

struct request {
    struct world *w;
    struct http_call call;
    struct arena *arena;
    struct http_reply reply;
};

static void *send_request(void *arg)
{
    struct request *r = arg;
    transport_exchange(r->w->client, &r->w->clock.real, &r->call, r->arena, &r->reply);
    return NULL;
}

static void make_request(struct world *w, const struct step *s, struct request *ret)
{
    struct str target = fill(w, s->what);
    struct str method = str_cut(&target, ' ');
    struct http_header *headers = arena_array(w->arena, 2, sizeof *headers);
    headers[0] =
        (struct http_header) { STR("Authorization"),
                               str_printf(w->arena, "Bearer " STR_FMT, STR_ARG(w->bearer)) };
    headers[1] = (struct http_header) { STR("Content-Type"), STR("application/json") };
    *ret = (struct request) { .w = w, .arena = arena_new(16384) };
    ret->call = (struct http_call) {
        .method = str_cstr(w->arena, method),
        .url = str_printf(w->arena, "http://127.0.0.1:%d" STR_FMT,
                          http_server_port(w->runtime->api_server), STR_ARG(target)),
        .headers = { headers, 2 },
        .body = fill(w, s->body),
    };
}

static bool keep_answer(struct world *w, const struct step *s, struct request *r)
{
    const struct json *j = NULL;
    struct str body = str_dup(w->arena, r->reply.body);
    if (r->reply.outcome != HTTP_ANSWERED)
        return went_wrong(w, s, r->reply.trouble);
    if (body.n && json_parse(w->arena, body, &j, NULL))
        return went_wrong(w, s, STR("the answer is no JSON"));
    if (s->status && r->reply.status != s->status)
        return went_wrong(w, s,
                          str_printf(w->arena, "HTTP %d, expected %d: " STR_FMT, r->reply.status,
                                     s->status, STR_ARG(body)));
    if (s->label && w->label_count < LABELS_MAX)
        w->labels[w->label_count++] = (struct labelled) { s->label, j };
    return check(w, s, j, body);
}

static bool step_call(struct world *w, const struct step *s)
{
    int n = s->repeat ? s->repeat : 1;
    struct request *requests = arena_array(w->arena, (size_t)n, sizeof *requests);
    pthread_t *threads = arena_array(w->arena, (size_t)n, sizeof *threads);
    bool fine = true;
    for (int i = 0; i < n; i++)
        make_request(w, s, &requests[i]);
    for (int i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, send_request, &requests[i]))
            abort();
    send_request(&requests[0]);
    for (int i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        fine = fine && keep_answer(w, s, &requests[i]);
        arena_free(requests[i].arena);
    }
    return fine;
}

static bool settle(struct world *w, const struct step *s)
{
    struct err_info info = { 0 };
    for (int round = 0; round < ROUNDS_MAX; round++) {
        size_t moved = sandbox_turn(w->sandbox), done = 0;
        if (bus_turn(w->runtime->bus, &done, &info))
            return went_wrong(w, s, str_of(info.text));
        moved += done;
        if (bus_deliver_turn(w->runtime->bus, &done, &info))
            return went_wrong(w, s, str_of(info.text));
        moved += done;
        if (scheduler_turn(w->runtime->scheduler, &done, &info))
            return went_wrong(w, s, str_of(info.text));
        if (moved + done == 0)
            return true;
    }
    return went_wrong(w, s, STR("it never comes to rest"));
}

static bool step_advance(struct world *w, const struct step *s)
{
    for (int64_t left = s->n; left > 0; left -= STRIDE_MS) {
        w->clock.now_ms += left < STRIDE_MS ? left : STRIDE_MS;
        if (!settle(w, s))
            return false;
    }
    return true;
}

static struct str pay_no_of(struct world *w, const struct step *s)
{
    return field_text(w, labelled(w, str_of(s->label)), STR("pay_no"));
}

static bool step_books(struct world *w, const struct step *s)
{
    struct sandbox_trade t;
    if (sandbox_trade_get(w->sandbox, pay_no_of(w, s), w->arena, &t))
        return s->expect && strcmp(s->expect, "state=(absent)") == 0
                   ? true
                   : went_wrong(w, s, STR("the channel does not know it"));
    struct str text = str_printf(
        w->arena,
        "{\"state\":\"" STR_FMT "\",\"taken\":%lld,\"refunded\":%lld,\"prepays\":%d,\"queries\":%d,"
        "\"closes\":%d,\"sent\":%d,\"acknowledged\":%d}",
        STR_ARG(t.state), (long long)t.taken_fen, (long long)t.refunded_fen, t.prepays, t.queries,
        t.closes, t.callbacks_sent, t.callbacks_acknowledged);
    const struct json *j;
    return json_parse(w->arena, text, &j, NULL) ? went_wrong(w, s, text) : check(w, s, j, text);
}

static bool step_crash(struct world *w, const struct step *s)
{
    struct err_info info = { 0 };
    runtime_close(w->runtime);
    w->runtime = NULL;
    return start_centre(w, &info) ? went_wrong(w, s, str_of(info.text)) : true;
}

static bool step_phone(struct world *w, const struct step *s)
{
    struct err_info info = { 0 };
    return sandbox_pay(w->sandbox, pay_no_of(w, s), &info) ? went_wrong(w, s, str_of(info.text))
                                                           : true;
}

static bool play_step(struct world *w, const struct step *s)
{
    switch (s->kind) {
    case STEP_END:
        return true;
    case STEP_CALL:
        return step_call(w, s);
    case STEP_PHONE:
        return step_phone(w, s);
    case STEP_FAULT:
        sandbox_fault(w->sandbox, &s->fault);
        return true;
    case STEP_HEAL:
        sandbox_clear_faults(w->sandbox);
        return true;
    case STEP_SETTLE:
        return settle(w, s);
    case STEP_ADVANCE:
        return step_advance(w, s);
    case STEP_BOOKS:
        return step_books(w, s);
    case STEP_CRASH:
        return step_crash(w, s);
    }
    return false;
}

bool world_play(struct world *w, const struct story *story, bool loud, struct str *ret_why)
{
    w->label_count = 0;
    sandbox_clear_faults(w->sandbox);
    for (const struct step *s = story->steps; s->kind != STEP_END; s++) {
        bool fine = play_step(w, s);
        if (loud)
            step_print(s, fill(w, s->what), fill(w, s->expect));
        if (!fine) {
            *ret_why = w->why;
            return false;
        }
    }
    return true;
}
