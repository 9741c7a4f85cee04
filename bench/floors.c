/* floors.c -- what this machine can do at this minute: figures from two machines or two hours can
 * only be compared beside these. */
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "crypto/rsa.h"

static int64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static enum err rsa_floor(const struct bench_site *b, int64_t *ret, struct err_info *info)
{
    struct rsa_key *key;
    ARENA_AUTO a = arena_new(8192);
    struct str message = { arena_alloc(a, 1300), 1300 }, signature;
    enum err e = rsa_private_from_pem(b->site.wechat.platform_key_pem, &key, info);
    if (e)
        return e;
    e = rsa_sign(key, message, a, &signature, info);
    int64_t start = mono_us(), n = 0;
    while (!e && mono_us() - start < 300000) {
        for (int i = 0; i < 100; i++)
            e = e ? e : rsa_verify(key, message, signature);
        n += 100;
    }
    *ret = n * 1000000 / (mono_us() - start);
    rsa_unref(key);
    return e;
}

static enum err fsync_floor(const struct bench_site *b, int64_t *ret, struct err_info *info)
{
    const char *path = str_cstr(b->arena, str_printf(b->arena, "%s/fsync.probe", b->dir));
    char block[4096] = { 1 };
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t start = mono_us(), n = 0;
    while (fd >= 0 && n < 200 && pwrite(fd, block, sizeof block, (n % 64) * 4096) == sizeof block &&
           fdatasync(fd) == 0)
        n++;
    *ret = n ? (mono_us() - start) / n : 0;
    if (fd >= 0)
        close(fd);
    unlink(path);
    return n == 200 ? ERR_OK : err_set(info, ERR_IO, "%s: cannot be synced (%m)", path);
}

static enum MHD_Result bare_answer(void *cls, struct MHD_Connection *c, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **req)
{
    (void)url, (void)method, (void)version, (void)upload, (void)upload_size;
    static int seen;
    if (!*req) {
        *req = &seen;
        return MHD_YES;
    }
    return MHD_queue_response(c, 200, cls);
}

int bench_bare_server(void)
{
    static char body[] = "{\"status\":\"SUCCESS\"}";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof body - 1, body, MHD_RESPMEM_PERSISTENT);
    /* Two polling threads, as the api listener has; poll(2), because the library's own epoll
     * threads stall at 128 connections. */
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL,
                                            bare_answer, response, MHD_OPTION_THREAD_POOL_SIZE, 2u,
                                            MHD_OPTION_CONNECTION_LIMIT, 1000u, MHD_OPTION_END);
    if (!d)
        return 1;
    printf("bare server on port %d\n",
           (int)MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    for (;;)
        pause();
}

static enum err bare_floor(int64_t *ret, struct err_info *info)
{
    enum { COUNT = 200000 };
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC))
        return err_set(info, ERR_IO, "pipe (%m)");
    int pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        execl("/proc/self/exe", "fenpay", "bench", "--bare-server", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    char line[128];
    ssize_t n = read(pipes[0], line, sizeof line - 1);
    line[n > 0 ? n : 0] = 0;
    close(pipes[0]);
    const char *port = strstr(line, "port ");
    enum err e = port ? ERR_OK : err_set(info, ERR_IO, "the bare server did not start");
    if (!e) {
        static const char get[] =
            "GET /v1/payments/P20260101ZZ000000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
        struct str *requests = calloc(COUNT, sizeof *requests);
        struct load load = { .port = (int)strtol(port + 5, NULL, 10),
                             .connections = 127,
                             .requests = requests,
                             .count = COUNT };
        struct load_result result;
        if (!requests)
            abort();
        for (size_t i = 0; i < COUNT; i++)
            requests[i] = (struct str) { get, sizeof get - 1 };
        if (!(e = load_run(&load, &result, info)))
            *ret = result.rate_per_s;
        free(requests);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return e;
}

enum err bench_floors_measure(const struct bench_site *b, bool bare_http, struct bench_floors *ret,
                              struct err_info *info)
{
    enum err e = rsa_floor(b, &ret->rsa_verify_per_s, info);
    if (!e)
        e = fsync_floor(b, &ret->fsync_us, info);
    if (!e && bare_http)
        e = bare_floor(&ret->bare_http_per_s, info);
    return e;
}
