/* server.c -- the server and the sandbox as processes of their own, as a user starts them. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "bench/bench.h"

/* Starts fenpay with these words; what the child prints on `fd` goes into `file`. */
static enum err start(const struct bench_site *b, const char *const words[], int fd,
                      const char *file, int *ret_pid, struct err_info *info)
{
    int out = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0)
        return err_set(info, ERR_IO, "%s: cannot be made (%m)", file);
    int pid = fork();
    if (pid == 0) {
        dup2(out, fd);
        execv(b->program ? b->program : "/proc/self/exe", (char *const *)(uintptr_t)words);
        _exit(127);
    }
    close(out);
    if (pid < 0)
        return err_set(info, ERR_IO, "fork (%m)");
    *ret_pid = pid;
    return ERR_OK;
}

/* Waits until a line with `word` stands in the file, or the child has ended. */
static bool wait_line(const char *file, int pid, const char *word, char *line, size_t max)
{
    for (;;) {
        FILE *f = fopen(file, "re");
        while (f && fgets(line, (int)max, f))
            if (strstr(line, word) && strchr(line, '\n')) {
                fclose(f);
                return true;
            }
        if (f)
            fclose(f);
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return false;
        nanosleep(&(struct timespec) { .tv_nsec = 2000000 }, NULL);
    }
}

enum err bench_server_start(const struct bench_site *b, struct bench_server *ret,
                            struct err_info *info)
{
    const char *config = str_cstr(b->arena, str_printf(b->arena, "%s/fenpay.yaml", b->dir));
    const char *words[] = { "fenpay", "serve", "--config", config, NULL };
    char line[1024];
    const char *log = str_cstr(b->arena, str_printf(b->arena, "%s/server.log", b->dir));
    enum err e = start(b, words, STDERR_FILENO, log, &ret->pid, info);
    if (e)
        return e;
    const struct json *j;
    int64_t api, notify, ops;
    if (!wait_line(log, ret->pid, "serve.ready", line, sizeof line) ||
        json_parse(b->arena, str_dup(b->arena, str_of(line)), &j, info) ||
        json_get_int(j, "api_port", &api, info) || json_get_int(j, "notify_port", &notify, info) ||
        json_get_int(j, "ops_port", &ops, info) || json_get_int(j, "took_ms", &ret->ready_ms, info))
        return err_set(info, ERR_IO, "the server did not become ready: %s", line);
    ret->api_port = (int)api;
    ret->notify_port = (int)notify;
    ret->ops_port = (int)ops;
    return ERR_OK;
}

enum err bench_sandbox_start(const struct bench_site *b, int *ret_pid, int *ret_port,
                             struct err_info *info)
{
    const char *keys = str_cstr(b->arena, str_printf(b->arena, "%s/keys", b->dir));
    const char *words[] = { "fenpay", "sandbox", "--data", keys, "--listen", "127.0.0.1:0", NULL };
    const char *log = str_cstr(b->arena, str_printf(b->arena, "%s/sandbox.log", b->dir));
    char line[256];
    enum err e = start(b, words, STDOUT_FILENO, log, ret_pid, info);
    if (e)
        return e;
    bool ready = wait_line(log, *ret_pid, "sandbox ready on port ", line, sizeof line);
    const char *port = ready ? strstr(line, "port ") : NULL;
    if (!port)
        return err_set(info, ERR_IO, "the sandbox did not become ready");
    *ret_port = (int)strtol(port + 5, NULL, 10);
    return ERR_OK;
}

static int64_t proc_value(int pid, const char *file, const char *key)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    FILE *f = fopen(path, "re");
    int64_t value = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoll(line + strlen(key), NULL, 10);
    if (f)
        fclose(f);
    return value;
}

int64_t bench_machine_cpu_us(void)
{
    long long v[8] = { 0 }; /* user nice system idle iowait irq softirq steal */
    FILE *f = fopen("/proc/stat", "re");
    if (f) {
        if (fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7]) != 8)
            v[0] = 0;
        fclose(f);
    }
    return (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) * (1000000 / sysconf(_SC_CLK_TCK));
}

int64_t bench_own_cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void bench_usage_of(int pid, struct bench_usage *ret)
{
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "re");
    if (f) {
        if (!fgets(line, sizeof line, f))
            line[0] = 0;
        fclose(f);
    }
    /* utime and stime are fields 14 and 15, counted behind the command's closing parenthesis. */
    long long user = 0, system_time = 0;
    const char *rest = strrchr(line, ')');
    if (rest)
        sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user,
               &system_time);
    *ret = (struct bench_usage) {
        .rss_kb = proc_value(pid, "status", "VmHWM:"),
        .cpu_us = (user + system_time) * (1000000 / sysconf(_SC_CLK_TCK)),
        .written_kb = proc_value(pid, "io", "wchar:") / 1024,
    };
}

int64_t bench_metric(const struct bench_server *s, const char *name, struct arena *a)
{
    struct err_info info = { 0 };
    struct env env;
    struct transport *client = client_new(&info);
    env_init_real(&env, NULL, NULL);
    struct http_call call = { .method = "GET",
                              .url = str_printf(a, "http://127.0.0.1:%d/metrics", s->ops_port) };
    struct http_reply reply;
    transport_exchange(client, &env, &call, a, &reply);
    int64_t value = -1;
    struct str rest = reply.outcome == HTTP_ANSWERED ? reply.body : STR_NONE;
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct str key = str_cut(&line, ' ');
        if (str_eq(key, str_of(name)))
            value = strtoll(str_cstr(a, line), NULL, 10);
    }
    client_free(client);
    return value;
}

void bench_stop(int pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}
