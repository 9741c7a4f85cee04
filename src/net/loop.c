/* loop.c -- one polling thread: its own libmicrohttpd daemon without internal thread, its own
 * listening socket.
 *
 * Why not the library's own epoll thread: it calls epoll_wait again, with the same infinite
 * timeout, whenever one poll returned exactly 128 events, and handles none of them meanwhile; 128
 * busy connections stop it. Driven with MHD_run the timeout is 0 and the door is shut. The
 * library's wake-up channel is off in this mode, hence our eventfd. */
#include "net/server_int.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arena.h"

/* After the last answers were queued at the stop: how long their bytes may take. */
#define FLUSH_US (200 * 1000)

__attribute__((format(printf, 2, 0))) static void library_log(void *arg, const char *format,
                                                              va_list args)
{
    struct loop *l = arg;
    struct http_server *s = l->server;
    int64_t now = env_mono_us(s->env);
    if (l->logged_us && now - l->logged_us < 1000 * 1000)
        return; /* hostile traffic produces these at its own rate */
    l->logged_us = now;
    char text[256];
    int n = vsnprintf(text, sizeof(text), format, args);
    if (n < 0)
        return;
    struct str line = { text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1 };
    while (line.n > 0 && line.p[line.n - 1] == '\n')
        line.n--;
    LOG(s->env->log, LOG_INFO, "http.engine", log_cstr("listener", s->name), log_str("text", line));
}

/* Paths and queries stay as they were received: router.c and request.c decode them. */
static size_t no_unescape(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct loop *l = arg;
    (void)mhd;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = l->arriving;
        l->arriving = NULL;
    } else if (*context) {
        conn_closed(*context);
        *context = NULL;
    }
}

static struct MHD_Daemon *start_library(struct loop *l)
{
    struct http_server *s = l->server;
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, s->key },
        { MHD_OPTION_HTTPS_PRIORITIES, 0,
          (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
        { MHD_OPTION_END, 0, NULL },
    };
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG | (s->cert ? MHD_USE_TLS : 0);
    return MHD_start_daemon(
        flags, 0, NULL, NULL, request_continue, l, MHD_OPTION_EXTERNAL_LOGGER, library_log, l,
        /* Room for the headers, the library's records of them, and the answer's head. */
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, s->o.header_bytes_max + 4096,
        /* Ours is the limit that counts; the slack is for what is shut and not yet reaped. */
        MHD_OPTION_CONNECTION_LIMIT, s->o.connections_max + 1024, MHD_OPTION_CONNECTION_TIMEOUT, 0U,
        MHD_OPTION_URI_LOG_CALLBACK, request_begin, l, MHD_OPTION_UNESCAPE_CALLBACK, no_unescape,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, request_end, l, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, l, MHD_OPTION_ARRAY, s->cert ? tls : &tls[3], MHD_OPTION_END);
}

void loop_turn_begin(struct loop *l)
{
    if (l->turn_open)
        return;
    l->turn_open = true;
    if (l->server->o.turn_begin)
        l->server->o.turn_begin(l->server->o.service);
}

static void turn_end(struct loop *l)
{
    if (!l->turn_open)
        return;
    l->turn_open = false;
    if (l->server->o.turn_end)
        l->server->o.turn_end(l->server->o.service);
}

void loop_wake(struct loop *l)
{
    uint64_t one = 1;
    while (write(l->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* Closing: true when this loop may end. */
static bool close_down(struct loop *l)
{
    struct http_server *s = l->server;
    if (l->listen_fd >= 0) {
        close(l->listen_fd);
        l->listen_fd = -1;
    }
    conn_cut_all(l, CONN_IDLE);
    if (!atomic_load(&s->stopping))
        return false;
    conn_cut_all(l, CONN_FRESH); /* until now its first request might still have come */
    if (l->active == 0)
        return true;
    int64_t stop_by = atomic_load(&s->stop_by_us);
    if (l->now_us < stop_by)
        return false;
    finish_drop(l);
    return list_empty(&l->suspended) && l->now_us >= stop_by + FLUSH_US;
}

static int poll_timeout(struct loop *l, int64_t next_us)
{
    MHD_UNSIGNED_LONG_LONG library_ms;
    if (MHD_get_timeout(l->mhd, &library_ms) == MHD_YES && library_ms == 0)
        return 0;
    if (l->deadline_us < next_us)
        next_us = l->deadline_us;
    if (l->accept_after_us && l->accept_after_us < next_us)
        next_us = l->accept_after_us;
    if (atomic_load(&l->server->stopping)) /* close_down looks at the clock */
        next_us = next_us < l->now_us + 20 * 1000 ? next_us : l->now_us + 20 * 1000;
    if (next_us == INT64_MAX)
        return -1;
    int64_t wait = next_us - env_mono_us(l->server->env);
    if (wait <= 0)
        return 0;
    return wait > 60 * 1000 * 1000 ? 60 * 1000 : (int)((wait + 999) / 1000);
}

static void *run(void *arg)
{
    struct loop *l = arg;
    struct http_server *s = l->server;
    for (;;) {
        l->now_us = env_mono_us(s->env);
        if (l->accept_after_us && l->now_us >= l->accept_after_us)
            l->accept_after_us = 0;
        finish_run(l);
        finish_deadlines(l);
        if (atomic_load(&s->quiescing) && close_down(l))
            break;
        MHD_run(l->mhd);
        turn_end(l);
        int64_t next_us = conn_sweep(l); /* after MHD_run, which moves connections on */

        struct pollfd fds[] = {
            { .fd = l->wake_fd, .events = POLLIN },
            { .fd = l->mhd_fd, .events = POLLIN },
            { .fd = l->accept_after_us ? -1 : l->listen_fd, .events = POLLIN },
        };
        if (poll(fds, 3, poll_timeout(l, next_us)) <= 0)
            continue;
        uint64_t count;
        if (fds[0].revents & POLLIN)
            (void)!read(l->wake_fd, &count, sizeof(count));
        if (fds[2].revents & POLLIN)
            conn_accept(l);
    }
    turn_end(l);
    MHD_stop_daemon(l->mhd);
    l->mhd = NULL;
    return NULL;
}

enum err loop_start(struct loop *l, struct err_info *info)
{
    struct http_server *s = l->server;
    uint64_t seed;
    env_random(s->env, &seed, sizeof(seed));
    rand_seed(&l->rand, seed);

    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->wake_fd < 0)
        return err_set(info, ERR_IO, "listener %s: eventfd: %m", s->name);
    l->now_us = env_mono_us(s->env);
    l->mhd = start_library(l);
    if (!l->mhd)
        return err_set(info, ERR_IO, "listener %s: the HTTP library does not start%s", s->name,
                       s->cert ? "; does the key fit the certificate?" : "");
    const union MHD_DaemonInfo *epoll = MHD_get_daemon_info(l->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    l->mhd_fd = epoll->epoll_fd;
    if (pthread_create(&l->thread, NULL, run, l))
        return err_set(info, ERR_IO, "listener %s: no thread", s->name);
    l->started = true;
    char name[16];
    snprintf(name, sizeof(name), "http-%.7s-%u", s->name, l->index % 100);
    pthread_setname_np(l->thread, name);
    return ERR_OK;
}

/* The thread has ended, or was never started. */
void loop_free(struct loop *l)
{
    if (l->mhd)
        MHD_stop_daemon(l->mhd);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    if (l->listen_fd >= 0)
        close(l->listen_fd);
    while (l->spare_count > 0)
        arena_free(l->spare[--l->spare_count]);
}
