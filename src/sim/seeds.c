/* seeds.c -- many seeds by several processes, each with a part of them at a time. A process is a
 * cheap wall: an assertion that fails, or memory that a dropped process of the centre held, stays
 * behind it. What it says comes through a pipe, one message a seed. */
#include "sim/sim.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"

#define WORKERS_MAX 64
#define PART        32 /* seeds */
#define STORY_MAX   (256 << 10)

struct worker {
    pid_t pid; /* 0: none */
    int fd;
    uint64_t next, last; /* seeds that it has not told of yet */
};

struct crew {
    const struct sim_seeds *o;
    struct sim_stage *stage;
    struct worker workers[WORKERS_MAX];
    unsigned n;
    uint64_t next;
    bool stop;
    struct sim_sum *sum;
};

struct message {
    struct sim_result result;
    size_t story_n; /* bytes that follow */
};

/* ---- in a worker ---- */

static void say(int fd, const void *p, size_t n)
{
    for (const char *at = p; n;) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            _exit(1); /* nobody listens any more */
        at += done;
        n -= (size_t)done;
    }
}

static _Noreturn void work(struct crew *crew, uint64_t from, uint64_t to, int fd)
{
    /* What is freed is needed again at once by the next seed. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (uint64_t seed = from; seed <= to; seed++) {
        struct message m;
        struct buf story;
        buf_init(&story, STORY_MAX);
        sim_play(crew->stage, seed, crew->o->payments, false, &m.result, &story);
        m.story_n = story.n;
        say(fd, &m, sizeof m);
        say(fd, story.p, story.n);
        buf_done(&story);
    }
    _exit(0);
}

/* ---- in the parent ---- */

static enum err hire(struct crew *crew, struct worker *w, uint64_t from, uint64_t to,
                     struct err_info *info)
{
    int ends[2];
    if (pipe(ends))
        return err_set(info, ERR_IO, "no pipe: %s", strerror(errno));
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return err_set(info, ERR_LIMIT, "no process: %s", strerror(errno));
    }
    if (pid == 0) {
        close(ends[0]);
        work(crew, from, to, ends[1]);
    }
    close(ends[1]);
    *w = (struct worker) { .pid = pid, .fd = ends[0], .next = from, .last = to };
    return ERR_OK;
}

static bool hear(int fd, void *p, size_t n)
{
    for (char *at = p; n;) {
        ssize_t done = read(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static void add_up(struct crew *crew, const struct sim_result *r, struct str story)
{
    struct sim_result *all = &crew->sum->all;
    crew->sum->seeds++;
    crew->sum->violations += r->failed;
    crew->sum->trace += r->trace * (2 * r->seed + 1);
    all->payments += r->payments;
    all->faults += r->faults;
    all->succeeded += r->succeeded;
    all->late += r->late;
    all->surplus += r->surplus;
    all->quarantined += r->quarantined;
    all->resolved += r->resolved;
    all->refunds += r->refunds;
    all->refunded += r->refunded;
    all->deaths += r->deaths;
    all->power_cuts += r->power_cuts;
    all->two_nodes += r->two_nodes;
    all->long_keys += r->long_keys;
    all->steps += r->steps;
    all->virtual_ms += r->virtual_ms;
    if (crew->o->played)
        crew->o->played(crew->o->ctx, r, story);
    crew->stop = crew->stop || (r->failed && crew->o->stop_at_first);
}

/* False: it is gone. */
static bool listen_to(struct crew *crew, struct worker *w)
{
    struct message m;
    if (!hear(w->fd, &m, sizeof m))
        return false;
    char *story = malloc(m.story_n + 1);
    if (!story)
        abort();
    bool whole = hear(w->fd, story, m.story_n);
    if (whole) {
        w->next = m.result.seed + 1;
        add_up(crew, &m.result, (struct str) { story, m.story_n });
    }
    free(story);
    return whole;
}

/* What it has not told of is played by another one, but for the seed that it ended in. */
static enum err part_with(struct crew *crew, struct worker *w, struct err_info *info)
{
    int status;
    pid_t pid = w->pid;
    close(w->fd);
    w->pid = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (w->next > w->last || crew->stop)
        return ERR_OK;
    struct sim_result r = { .seed = w->next, .failed = true };
    char text[128];
    if (WIFSIGNALED(status))
        snprintf(r.why, sizeof r.why, "the process ended by signal %d", WTERMSIG(status));
    else
        snprintf(r.why, sizeof r.why, "the process ended with status %d", WEXITSTATUS(status));
    int n = snprintf(text, sizeof text, "seed %llu: %s\n", (unsigned long long)r.seed, r.why);
    add_up(crew, &r, (struct str) { text, (size_t)n });
    return w->next < w->last && !crew->stop ? hire(crew, w, w->next + 1, w->last, info) : ERR_OK;
}

static enum err hire_for_the_next(struct crew *crew, struct worker *w, struct err_info *info)
{
    uint64_t from = crew->next, last = crew->o->to;
    uint64_t part = (last - from) / crew->n + 1; /* not all of them to one */
    part = part < PART ? part : PART;
    crew->next = from + part;
    return hire(crew, w, from, from + part - 1, info);
}

/* Hires, hears, and parts, until nobody is left. */
static enum err lead(struct crew *crew, struct err_info *info)
{
    for (;;) {
        struct pollfd fds[WORKERS_MAX];
        unsigned busy = 0;
        for (unsigned i = 0; i < crew->n; i++) {
            struct worker *w = &crew->workers[i];
            enum err e = ERR_OK;
            if (!w->pid && !crew->stop && crew->next <= crew->o->to)
                e = hire_for_the_next(crew, w, info);
            if (e)
                return e;
            fds[i] = (struct pollfd) { .fd = w->pid ? w->fd : -1, .events = POLLIN };
            busy += w->pid != 0;
        }
        if (!busy)
            return ERR_OK;
        if (poll(fds, crew->n, -1) < 0)
            continue; /* a signal */
        for (unsigned i = 0; i < crew->n; i++) {
            struct worker *w = &crew->workers[i];
            enum err e = ERR_OK;
            if (w->pid && crew->stop)
                kill(w->pid, SIGKILL);
            if (w->pid && fds[i].revents && (crew->stop || !listen_to(crew, w)))
                e = part_with(crew, w, info);
            if (e)
                return e;
        }
    }
}

static void dismiss(struct crew *crew)
{
    for (unsigned i = 0; i < crew->n; i++) {
        struct worker *w = &crew->workers[i];
        if (!w->pid)
            continue;
        kill(w->pid, SIGKILL);
        close(w->fd);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
}

enum err sim_play_seeds(const struct sim_seeds *o, struct sim_sum *ret, struct err_info *info)
{
    struct env env;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n = o->workers ? o->workers : processors > 0 ? (unsigned)processors : 1;
    struct crew *crew = calloc(1, sizeof *crew);
    if (!crew)
        abort();
    *ret = (struct sim_sum) { .seeds = 0 };
    *crew = (struct crew) {
        .o = o, .n = n < WORKERS_MAX ? n : WORKERS_MAX, .next = o->from, .sum = ret
    };
    env_init_real(&env, NULL, NULL);
    int64_t start_us = env_mono_us(&env);
    sim_stage_open(&crew->stage);
    enum err e = lead(crew, info);
    dismiss(crew);
    sim_stage_close(crew->stage);
    free(crew);
    ret->took_us = env_mono_us(&env) - start_us;
    return e;
}
