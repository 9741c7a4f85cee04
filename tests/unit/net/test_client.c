/* test_client.c -- what the client reports when things go wrong: "nothing was sent" only when that
 * is certain. The peers are raw sockets that play one short script each; the last tests speak TLS
 * with our own server. */
#include "net_testing.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/client.h"
#include "net/server.h"

static struct env env;
static struct transport *client;
static struct arena *arena;

/* ---- a scripted peer: each connection gets the next act ---- */

struct act {
    bool read;          /* a whole request (headers and a body by Content-Length) first */
    const char *answer; /* NULL: none */
    bool keep;          /* the next act plays on the same connection */
    bool deaf;          /* after this the listening socket is gone */
    bool hold;          /* keep the connection open until the peer is told to end */
};

struct peer {
    int listen_fd, port;
    const struct act *acts;
    size_t count;
    pthread_t thread;
    atomic_int requests;
    pthread_mutex_t lock;
    char request[4096]; /* the last one; under the lock */
    int end[2];
};

static int listen_on(const char *address, int *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t n = sizeof(a);
    inet_pton(AF_INET, address, &a.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static bool read_request(struct peer *p, int fd)
{
    char request[sizeof p->request];
    size_t n = 0;
    while (n < sizeof(request) - 1) {
        struct pollfd either[] = { { .fd = fd, .events = POLLIN },
                                   { .fd = p->end[0], .events = POLLIN } };
        poll(either, 2, WAIT_MS);
        ssize_t k = either[0].revents ? recv(fd, request + n, sizeof(request) - 1 - n, 0) : 0;
        if (k <= 0)
            return false;
        n += (size_t)k;
        request[n] = '\0';
        char *end = strstr(request, "\r\n\r\n");
        const char *length = strcasestr(request, "\r\nContent-Length:");
        if (end &&
            n >= (size_t)(end + 4 - request) + (length ? strtoul(length + 17, NULL, 10) : 0)) {
            pthread_mutex_lock(&p->lock);
            memcpy(p->request, request, n + 1);
            pthread_mutex_unlock(&p->lock);
            atomic_fetch_add(&p->requests, 1);
            return true;
        }
    }
    return false;
}

/* A copy of what the peer read last. */
static const char *seen(struct peer *p)
{
    assert_true(atomic_load(&p->requests) > 0);
    pthread_mutex_lock(&p->lock);
    struct str copy = str_dup(arena, str_of(p->request));
    pthread_mutex_unlock(&p->lock);
    return str_cstr(arena, copy);
}

static void *play(void *arg)
{
    struct peer *p = arg;
    int fd = -1;
    for (size_t i = 0; i < p->count; i++) {
        const struct act *act = &p->acts[i];
        if (fd < 0) {
            struct pollfd either[] = { { .fd = p->listen_fd, .events = POLLIN },
                                       { .fd = p->end[0], .events = POLLIN } };
            poll(either, 2, WAIT_MS);
            fd = either[0].revents ? accept(p->listen_fd, NULL, NULL) : -1;
            if (fd < 0)
                break;
        }
        if (act->read && !read_request(p, fd))
            break;
        if (act->answer)
            (void)!send(fd, act->answer, strlen(act->answer), MSG_NOSIGNAL);
        if (act->deaf)
            close(p->listen_fd);
        if (act->hold) {
            struct pollfd end = { .fd = p->end[0], .events = POLLIN };
            poll(&end, 1, WAIT_MS);
        }
        if (!act->keep) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void peer_start(struct peer *p, const struct act *acts, size_t count)
{
    memset(p, 0, sizeof(*p));
    p->acts = acts;
    p->count = count;
    pthread_mutex_init(&p->lock, NULL);
    p->listen_fd = listen_on("127.0.0.1", &p->port);
    assert_int_equal(listen(p->listen_fd, 8), 0);
    assert_int_equal(pipe(p->end), 0);
    pthread_create(&p->thread, NULL, play, p);
}

static void peer_end(struct peer *p)
{
    assert_int_equal(write(p->end[1], "x", 1), 1);
    pthread_join(p->thread, NULL);
    close(p->listen_fd);
    close(p->end[0]);
    close(p->end[1]);
}

#define PEER(...)                                                                                  \
    static const struct act acts[] = { __VA_ARGS__ };                                              \
    struct peer peer;                                                                              \
    peer_start(&peer, acts, sizeof(acts) / sizeof(acts[0]))

/* ---- */

static int start(void **state)
{
    (void)state;
    env_init_real(&env, NULL, NULL);
    arena = arena_new(65536);
    client = client_new(NULL);
    return client ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    client_free(client);
    arena_free(arena);
    return 0;
}

static struct http_call call_to(int port, const char *path)
{
    return (struct http_call) { .method = "POST",
                                .url = str_printf(arena, "http://127.0.0.1:%d%s", port, path),
                                .body = STR("{\"a\":1}"),
                                .connect_ms = 2000,
                                .total_ms = 2000 };
}

static struct http_reply reply;

static void exchange(const struct http_call *call)
{
    transport_exchange(client, &env, call, arena, &reply);
    if (reply.outcome != HTTP_ANSWERED)
        assert_true(reply.trouble.n > 0 && reply.status == 0 && reply.body.p == NULL);
}

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void test_answered(void **state)
{
    (void)state;
    PEER({ .read = true,
           .answer =
               "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 201 Made: "
               "here\r\nContent-Length: 5\r\nX-A:  b c \r\nX-Empty:\r\nX-A: d\r\n\r\nhello" });
    struct http_header headers[] = { { STR("Content-Type"), STR("application/json") },
                                     { STR("X-Empty"), STR("") } };
    struct http_call call = call_to(peer.port, "/a/../b?c=%41");
    call.headers = (struct http_headers) { headers, 2 };
    exchange(&call);
    peer_end(&peer);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    assert_int_equal(reply.status, 201);
    assert_true(str_eq(reply.body, STR("hello")));
    size_t times;
    assert_true(str_eq(http_header_get(&reply.headers, "x-a", &times), STR("b c")));
    assert_int_equal(times, 2);
    assert_int_equal(reply.headers.count, 4); /* nothing of the 100 */
    assert_true(reply.took_us > 0);
    assert_non_null(strstr(seen(&peer), "POST /a/../b?c=%41 HTTP/1.1\r\n"));
    assert_non_null(strstr(seen(&peer), "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(seen(&peer), "\r\nX-Empty:\r\n"));
    assert_non_null(strstr(seen(&peer), "{\"a\":1}"));
    assert_null(strcasestr(seen(&peer), "Expect"));
}

static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *method, *line;
        bool body;
    } cases[] = { { "GET", "GET / HTTP/1.1", false },
                  { "DELETE", "DELETE / HTTP/1.1", false },
                  { "PUT", "PUT / HTTP/1.1", true },
                  { "POST", "POST / HTTP/1.1", false } };
    for (size_t i = 0; i < 4; i++) {
        PEER({ .read = true, .answer = OK_ANSWER });
        struct http_call call = call_to(peer.port, "");
        call.method = cases[i].method;
        if (!cases[i].body)
            call.body = STR_NONE;
        exchange(&call);
        peer_end(&peer);
        assert_int_equal(reply.outcome, HTTP_ANSWERED);
        assert_non_null(strstr(seen(&peer), cases[i].line));
        assert_null(strcasestr(seen(&peer), "Content-Type"));
        assert_int_equal(strcasestr(seen(&peer), "Content-Length") != NULL,
                         cases[i].body || i == 3);
    }
}

static void test_not_sent(void **state)
{
    (void)state;
    int port;
    int fd = listen_on("127.0.0.1", &port); /* bound, not listening: refused */
    struct http_call call = call_to(port, "/");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_NOT_SENT);
    close(fd);

    static const char *const urls[] = { "ftp://127.0.0.1/", "http://", "http://u:p@127.0.0.1/",
                                        "http://127.0.0.1/ x" };
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        call.url = str_of(urls[i]);
        exchange(&call);
        assert_int_equal(reply.outcome, HTTP_NOT_SENT);
    }
}

static void test_headers_cannot_break_out(void **state)
{
    (void)state;
    static const struct http_header bad[] = { { STR_INIT("X-A"), STR_INIT("b\r\nX-B: c") },
                                              { STR_INIT("X-A\r\nX-B"), STR_INIT("c") },
                                              { STR_INIT("X-A"), STR_INIT("b\nc") },
                                              { STR_INIT("X-A: b"), STR_INIT("c") },
                                              { STR_INIT(""), STR_INIT("c") } };
    PEER({ .read = true, .answer = OK_ANSWER });
    struct http_call call = call_to(peer.port, "/");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call.headers = (struct http_headers) { &bad[i], 1 };
        exchange(&call);
        assert_int_equal(reply.outcome, HTTP_NOT_SENT);
    }
    assert_int_equal(atomic_load(&peer.requests), 0);
    peer_end(&peer);
}

static void expect(const struct act *acts, size_t n, struct http_call call,
                   enum http_outcome outcome)
{
    struct peer peer;
    peer_start(&peer, acts, n);
    call.url = str_printf(arena, STR_FMT "%d/", STR_ARG(call.url), peer.port);
    exchange(&call);
    peer_end(&peer);
    if (reply.outcome != outcome)
        fail_msg("outcome %d for %s: " STR_FMT, reply.outcome, acts[0].answer,
                 STR_ARG(reply.trouble));
}

static void test_unknown(void **state)
{
    (void)state;
    struct http_call call = call_to(0, "");
    call.url = STR("http://127.0.0.1:");
    call.answer_max = 10;
    static const struct act cases[] = {
        { .read = true },  /* closes without an answer */
        { .read = false }, /* closes at once */
        { .read = true, .answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel" }, /* cut */
        { .read = true, .answer = "HTTP/1.1 200 OK\r\nContent-Le" },                   /* cut */
        { .read = true,
          .answer =
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" }, /* no last
                                                                                          chunk */
        { .read = true,
          .answer = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello hello" }, /* too large */
        { .read = true,
          .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello "
                    "hello\r\n0\r\n\r\n" },
        { .read = true, .answer = "HTTP/1.1 200 OK\r\n\r\nhello hello" },
        { .read = true, .answer = "rubbish\r\n\r\n" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(&cases[i], 1, call, HTTP_UNKNOWN);
    call.total_ms = 100; /* no answer in time, or half of one */
    expect(&(struct act) { .read = true, .hold = true }, 1, call, HTTP_UNKNOWN);
    expect(&(struct act) { .read = true,
                           .answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
                           .hold = true },
           1, call, HTTP_UNKNOWN);
    call.total_ms = 2000;
    expect(&(struct act) { .read = true,
                           .answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhellohello" },
           1, call, HTTP_ANSWERED);
}

static void test_tls_that_fails_is_not_sent(void **state)
{
    (void)state;
    struct http_call call = call_to(0, "");
    call.url = STR("https://127.0.0.1:");
    expect(&(struct act) { .answer = "HTTP/1.1 400 Bad Request\r\n\r\n" }, 1, call, HTTP_NOT_SENT);
    expect(&(struct act) { 0 }, 1, call, HTTP_NOT_SENT);
    call.total_ms = 100;
    expect(&(struct act) { .hold = true }, 1, call, HTTP_NOT_SENT);
}

/* libcurl sends again by itself when a kept connection dies; the second try is refused, which on
 * its own would mean "not sent". */
static void test_silent_repetition_is_unknown(void **state)
{
    (void)state;
    PEER({ .read = true, .answer = OK_ANSWER, .keep = true }, { .read = true, .deaf = true });
    struct http_call call = call_to(peer.port, "/");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    exchange(&call);
    peer_end(&peer);
    assert_int_equal(atomic_load(&peer.requests), 2);
    assert_int_equal(reply.outcome, HTTP_UNKNOWN);
}

static void test_fresh_connection_never_repeats(void **state)
{
    (void)state;
    PEER({ .read = true, .answer = OK_ANSWER }, { .read = true },
         { .read = true, .answer = OK_ANSWER });
    struct http_call call = call_to(peer.port, "/");
    call.fresh_connection = true;
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_UNKNOWN);
    assert_int_equal(atomic_load(&peer.requests), 2);
    peer_end(&peer);
}

static void test_connections_are_kept(void **state)
{
    (void)state;
    PEER({ .read = true, .answer = OK_ANSWER, .keep = true },
         { .read = true, .answer = OK_ANSWER, .keep = true, .deaf = true },
         { .read = true, .answer = OK_ANSWER });
    struct http_call call = call_to(peer.port, "/");
    for (int i = 0; i < 3; i++) {
        exchange(&call);
        assert_int_equal(reply.outcome, HTTP_ANSWERED);
    }
    peer_end(&peer);
}

static void test_pinned_address(void **state)
{
    (void)state;
    PEER({ .read = true, .answer = OK_ANSWER, .keep = true },
         { .read = true, .answer = OK_ANSWER });
    struct http_call call = call_to(peer.port, "/");
    call.url = str_printf(arena, "http://shop.invalid:%d/hook", peer.port);
    call.pin_address = STR("127.0.0.1");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    assert_non_null(strstr(seen(&peer), "\r\nHost: shop.invalid:"));
    /* The kept connection goes to the other address: it must not be used. */
    call.pin_address = STR("127.0.0.2");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_NOT_SENT);
    call.pin_address = STR("127.0.0.1");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    peer_end(&peer);
}

static void test_no_redirect_no_proxy(void **state)
{
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    PEER(
        { .read = true,
          .answer =
              "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" });
    struct http_call call = call_to(peer.port, "/");
    exchange(&call);
    unsetenv("http_proxy");
    peer_end(&peer);
    assert_int_equal(reply.outcome, HTTP_ANSWERED);
    assert_int_equal(reply.status, 302);
}

/* ---- TLS, against our own server ---- */

static void echo(struct http_request *req, void *service)
{
    (void)service;
    http_answer(req, 200, "text/plain", http_body(req));
}

static char *pem_of(EVP_PKEY *key, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    if (key)
        PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    else
        PEM_write_bio_X509(bio, certificate);
    char *p;
    size_t n = (size_t)BIO_get_mem_data(bio, &p);
    char *text = strndup(p, n);
    BIO_free(bio);
    return text;
}

/* Self-signed, for 127.0.0.1 and localhost. */
static void make_certificate(char **ret_cert, char **ret_key)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"fenpay test", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_set_pubkey(x, key);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    X509_EXTENSION *ca = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(x, names, -1);
    X509_add_ext(x, ca, -1);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    *ret_cert = pem_of(NULL, x);
    *ret_key = pem_of(key, NULL);
    X509_EXTENSION_free(names);
    X509_EXTENSION_free(ca);
    X509_free(x);
    EVP_PKEY_free(key);
}

static void test_tls(void **state)
{
    (void)state;
    static const struct http_route routes[] = { { "POST", "/", 0, 0, 0, 100, echo }, { 0 } };
    char *cert, *key;
    make_certificate(&cert, &key);
    char path[] = "/tmp/fenpay-test-ca-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, cert, strlen(cert)), (ssize_t)strlen(cert));
    close(fd);

    struct http_server_options o = { .name = "tls",
                                     .listen = STR("127.0.0.1:0"),
                                     .tls_cert_pem = str_of(cert),
                                     .tls_key_pem = str_of(key),
                                     .routes = routes };
    struct http_server *server;
    struct err_info info = { 0 };
    if (http_server_start(&env, &o, &server, &info))
        fail_msg("%s", info.text);
    struct http_call call = call_to(0, "");
    call.url = str_printf(arena, "https://127.0.0.1:%d/", http_server_port(server));
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_NOT_SENT); /* nobody vouches for it */
    call.ca_file = str_of(path);
    for (int i = 0; i < 2; i++) {
        exchange(&call);
        assert_int_equal(reply.outcome, HTTP_ANSWERED);
        assert_true(str_eq(reply.body, call.body));
    }
    call.url = str_printf(arena, "https://shop.invalid:%d/", http_server_port(server));
    call.pin_address = STR("127.0.0.1");
    exchange(&call);
    assert_int_equal(reply.outcome, HTTP_NOT_SENT); /* the name is not in the certificate */
    http_server_stop(server, 1000);

    o.tls_key_pem = STR("rubbish");
    assert_int_equal(http_server_start(&env, &o, &server, &info), ERR_IO);
    unlink(path);
    free(cert);
    free(key);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answered, start, stop),
        cmocka_unit_test_setup_teardown(test_methods, start, stop),
        cmocka_unit_test_setup_teardown(test_not_sent, start, stop),
        cmocka_unit_test_setup_teardown(test_headers_cannot_break_out, start, stop),
        cmocka_unit_test_setup_teardown(test_unknown, start, stop),
        cmocka_unit_test_setup_teardown(test_tls_that_fails_is_not_sent, start, stop),
        cmocka_unit_test_setup_teardown(test_silent_repetition_is_unknown, start, stop),
        cmocka_unit_test_setup_teardown(test_fresh_connection_never_repeats, start, stop),
        cmocka_unit_test_setup_teardown(test_connections_are_kept, start, stop),
        cmocka_unit_test_setup_teardown(test_pinned_address, start, stop),
        cmocka_unit_test_setup_teardown(test_no_redirect_no_proxy, start, stop),
        cmocka_unit_test_setup_teardown(test_tls, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
