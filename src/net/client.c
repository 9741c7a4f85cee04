/* client.c -- HTTP calls with libcurl: blocking handles in a pool.
 *
 * Whether a failed call reached the peer is decided at one place: libcurl calls `before_request`
 * when the connection stands (TLS included) and right before it writes the request, also for each
 * silent repetition on another connection. Never called: nothing was sent. Called: it may have
 * happened, whatever the error says. Error codes alone cannot tell: a request that was sent on a
 * kept connection, which then died, ends in "could not connect" when the repetition fails. */
#include "net/client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/list.h"

#define IDLE_HANDLES     64
#define IDLE_CONNECTIONS 4 /* kept by each handle */
#define KEEP_S                                                                                     \
    20 /* a kept connection that is older may be dead: the peer's limit is seldom less than 30 s   \
        */
#define ANSWER_MAX       (1024 * 1024)
#define HEADERS_MAX      128
#define HEADER_BYTES_MAX (64 * 1024)

struct handle {
    struct handle *next;
    CURL *curl;
    char origin[128]; /* whom it talked to last: it probably has a connection there */
};

struct client {
    struct transport transport; /* first */
    pthread_mutex_t lock;
    struct handle *idle; /* the last one used first */
    unsigned idle_count;
};

/* One exchange. */
struct exchange {
    struct arena *arena;
    bool maybe_sent;
    bool headers_complete; /* libcurl 7.88 calls an answer that ends among its headers a success */
    struct buf body;
    struct http_header *headers;
    size_t header_count, header_bytes;
    const char *own_trouble; /* why we ended it */
};

static int before_request(void *arg, char *remote_ip, char *local_ip, int remote_port,
                          int local_port)
{
    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    ((struct exchange *)arg)->maybe_sent = true;
    return CURL_PREREQFUNC_OK;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;
    buf_add(&x->body, p, size * n);
    if (buf_ok(&x->body))
        return size * n;
    x->own_trouble = "the answer is larger than allowed";
    return 0;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct exchange *x = arg;
    struct str line = str_trim((struct str) { p, size * n });
    while (line.n > 0 && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == '\n'))
        line.n--;
    x->header_bytes += size * n;
    if (str_starts(line, STR("HTTP/"))) {
        x->header_count = 0; /* what came before belonged to a 1xx answer */
        x->headers_complete = false;
        return size * n;
    }
    if (line.n == 0)
        x->headers_complete = true;
    if (x->header_bytes > HEADER_BYTES_MAX || x->header_count == HEADERS_MAX) {
        x->own_trouble = "the answer has too many headers";
        return 0;
    }
    struct str value = line, name = str_cut(&value, ':');
    if (value.p && name.n > 0)
        x->headers[x->header_count++] = (struct http_header) { str_dup(x->arena, str_trim(name)),
                                                               str_dup(x->arena, str_trim(value)) };
    return size * n;
}

/* ---- the pool ---- */

static struct handle *take_handle(struct client *c, const char *origin)
{
    pthread_mutex_lock(&c->lock);
    struct handle **link = &c->idle;
    while (*link && strcmp((*link)->origin, origin) != 0)
        link = &(*link)->next;
    if (!*link)
        link = &c->idle;
    struct handle *h = *link;
    if (h) {
        *link = h->next;
        c->idle_count--;
    }
    pthread_mutex_unlock(&c->lock);
    if (h)
        return h;
    h = calloc(1, sizeof(*h));
    if (!h)
        abort();
    h->curl = curl_easy_init();
    if (!h->curl)
        abort();
    return h;
}

static void free_handle(struct handle *h)
{
    curl_easy_cleanup(h->curl);
    free(h);
}

static void give_back(struct client *c, struct handle *h, const char *origin)
{
    curl_easy_reset(h->curl); /* connections stay */
    snprintf(h->origin, sizeof(h->origin), "%s", origin);
    pthread_mutex_lock(&c->lock);
    bool keep = c->idle_count < IDLE_HANDLES;
    if (keep) {
        h->next = c->idle;
        c->idle = h;
        c->idle_count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (!keep)
        free_handle(h);
}

/* ---- setting up ---- */

static bool is_clean(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return true;
}

/* NULL with *ret_trouble set when a header could break the request. */
static struct curl_slist *make_headers(struct arena *a, const struct http_call *call,
                                       const char **ret_trouble)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:"); /* never ask, just send */
    if (!http_header_get(&call->headers, "Content-Type", NULL).p)
        list = curl_slist_append(list, "Content-Type:"); /* not curl's guess */
    for (size_t i = 0; i < call->headers.count; i++) {
        const struct http_header *h = &call->headers.items[i];
        if (h->name.n == 0 || !is_clean(h->name) || !is_clean(h->value) ||
            memchr(h->name.p, ':', h->name.n)) {
            curl_slist_free_all(list);
            *ret_trouble = "a header has characters that would break the request";
            return NULL;
        }
        struct str line =
            h->value.n > 0
                ? str_printf(a, STR_FMT ": " STR_FMT, STR_ARG(h->name), STR_ARG(h->value))
                : str_printf(a, STR_FMT ";", STR_ARG(h->name)); /* curl's "empty" */
        list = curl_slist_append(list, line.p);
    }
    if (!list)
        abort();
    return list;
}

static void set_connection(CURL *curl, struct arena *a, const struct http_call *call,
                           struct curl_slist **ret_pin)
{
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* nor one from the environment */
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
    if (call->ca_file.n > 0)
        curl_easy_setopt(curl, CURLOPT_CAINFO, str_cstr(a, call->ca_file));
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(call->connect_ms > 0 ? call->connect_ms : 5000));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(call->total_ms > 0 ? call->total_ms : 10000));
    curl_easy_setopt(curl, CURLOPT_MAXCONNECTS, (long)IDLE_CONNECTIONS);
    curl_easy_setopt(curl, CURLOPT_MAXAGE_CONN, (long)KEEP_S);
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, call->fresh_connection ? 1L : 0L);
    if (call->pin_address.n > 0) {
        /* CONNECT_TO belongs to the call and to the kept connection; CURLOPT_RESOLVE would stay in
         * the handle's cache. */
        bool v6 = memchr(call->pin_address.p, ':', call->pin_address.n) != NULL;
        struct str to =
            str_printf(a, v6 ? "::[" STR_FMT "]:" : "::" STR_FMT ":", STR_ARG(call->pin_address));
        *ret_pin = curl_slist_append(NULL, to.p);
        curl_easy_setopt(curl, CURLOPT_CONNECT_TO, *ret_pin);
    }
}

static void set_request(CURL *curl, struct arena *a, const struct http_call *call,
                        struct curl_slist *headers)
{
    struct str method = str_of(call->method);
    curl_easy_setopt(curl, CURLOPT_URL, str_cstr(a, call->url));
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* signatures cover the path as it is */
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "fenpay/" FENPAY_VERSION);
    if (call->body.p || str_eq(method, STR("POST"))) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body.p ? call->body.p : "");
    } else if (str_eq(method, STR("HEAD"))) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    }
    if (!str_eq(method, STR("HEAD")))
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
}

static void set_answer(CURL *curl, struct exchange *x, size_t max)
{
    buf_init_arena(&x->body, x->arena, max);
    x->headers = arena_array(x->arena, HEADERS_MAX, sizeof(*x->headers));
    curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, before_request);
    curl_easy_setopt(curl, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)max);
}

/* ---- the exchange ---- */

static void perform(CURL *curl, const struct http_call *call, struct arena *a,
                    struct curl_slist *headers, struct http_reply *ret)
{
    struct exchange x = { .arena = a };
    struct curl_slist *pin = NULL;
    char error[CURL_ERROR_SIZE] = "";
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    set_connection(curl, a, call, &pin);
    set_request(curl, a, call, headers);
    set_answer(curl, &x, call->answer_max > 0 ? call->answer_max : ANSWER_MAX);

    CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(pin);
    if (code == CURLE_OK && !x.headers_complete)
        x.own_trouble = "the answer ends among its headers";
    if (code == CURLE_OK && x.headers_complete) {
        long status = 0;
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        ret->outcome = HTTP_ANSWERED;
        ret->status = (int)status;
        ret->headers = (struct http_headers) { x.headers, x.header_count };
        ret->body = buf_str(&x.body);
        return;
    }
    ret->outcome = x.maybe_sent ? HTTP_UNKNOWN : HTTP_NOT_SENT;
    const char *text = x.own_trouble ? x.own_trouble : error[0] ? error : curl_easy_strerror(code);
    ret->trouble = str_printf(a, "%s (curl %d)", text, (int)code);
}

static void exchange(struct transport *t, struct env *env, const struct http_call *call,
                     struct arena *a, struct http_reply *ret)
{
    struct client *c = container_of(t, struct client, transport);
    int64_t began_us = env_mono_us(env);
    *ret = (struct http_reply) { .outcome = HTTP_NOT_SENT };

    struct url url;
    struct err_info info = { 0 };
    const char *trouble = NULL;
    struct curl_slist *headers = NULL;
    if (url_parse(call->url, &url, &info))
        trouble = info.text;
    else
        headers = make_headers(a, call, &trouble);
    if (!trouble) {
        char origin[128];
        snprintf(origin, sizeof(origin), STR_FMT ":" STR_FMT ":%d", STR_ARG(url.scheme),
                 STR_ARG(url.host), url.port);
        struct handle *h = take_handle(c, origin);
        perform(h->curl, call, a, headers, ret);
        curl_slist_free_all(headers);
        give_back(c, h, origin);
    } else {
        ret->trouble = str_dup(a, str_of(trouble));
    }
    ret->took_us = env_mono_us(env) - began_us;
}

struct transport *client_new(struct err_info *info)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
        err_internal(info, "libcurl does not start");
        return NULL;
    }
    /* libcurl leaves SIGPIPE alone with NOSIGNAL, and OpenSSL's writes can raise it. */
    struct sigaction old;
    if (!sigaction(SIGPIPE, NULL, &old) && old.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    struct client *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    c->transport.exchange = exchange;
    pthread_mutex_init(&c->lock, NULL);
    return &c->transport;
}

void client_free(struct transport *t)
{
    if (!t)
        return;
    struct client *c = container_of(t, struct client, transport);
    while (c->idle) {
        struct handle *h = c->idle;
        c->idle = h->next;
        free_handle(h);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
    curl_global_cleanup();
}
