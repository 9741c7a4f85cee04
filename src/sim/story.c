/* story.c -- a failed seed as people read it: what went wrong, what kind of day it was, and
 * everything that ever happened to the payment or order in question. */
#include "sim/inner.h"

#include "bus/bus.h"
#include "core/payment/flow.h"

#define LOG_LINES 3

static void print_time(struct buf *out, int64_t ms)
{
    int64_t since = ms - SIM_START_MS;
    bool before = since < 0;
    since = before ? -since : since;
    buf_printf(out, "%s%lld.%03lld", before ? "-" : "+", (long long)(since / 1000),
               (long long)(since % 1000));
}

/* An event's story is its subject's. */
static enum err subject_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct number *no = arg;
    struct event event;
    enum err e = event_read(tx, no->id, &event, info);
    if (!e)
        *no = event.subject;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static void print_timeline(struct sim *s, struct number no, struct buf *out)
{
    struct act act = { .caller = { SIM_CALLER, STR("shop") }, .arena = s->arena };
    struct refusal refusal = { 0 };
    struct timeline_entry *entries;
    struct centre centre = { .env = &s->outside.env, .store = sim_watch_store(s) };
    size_t n;

    if (no.kind == NUMBER_EVENT)
        sim_read(s, subject_rule, &no);
    if (timeline_read(&centre, &act, no, &entries, &n, &refusal)) {
        buf_printf(out, "  (nothing is known of " STR_FMT ")\n", STR_ARG(number_str(s->arena, no)));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        buf_add_str(out, STR("  "));
        print_time(out, entries[i].time_ms);
        buf_printf(out, " " STR_FMT "  " STR_FMT "\n",
                   STR_ARG(number_str(s->arena, entries[i].subject)), STR_ARG(entries[i].text));
    }
}

/* The last lines of the log that tell of errors. */
static void print_log(struct sim *s, struct buf *out)
{
    struct str lines = sim_log_text(s), last[LOG_LINES] = { STR_NONE };
    size_t n = 0;
    while (lines.n) {
        struct str line = str_cut(&lines, '\n');
        if (memmem(line.p, line.n, "error", 5))
            last[n++ % LOG_LINES] = line;
    }
    for (size_t i = n > LOG_LINES ? n - LOG_LINES : 0; i < n; i++)
        buf_printf(out, "  " STR_FMT "\n", STR_ARG(last[i % LOG_LINES]));
}

void sim_story(struct sim *s, struct buf *out)
{
    const struct sim_temper *t = &s->temper;
    buf_printf(out, "seed %llu: %s\n", (unsigned long long)s->seed, s->why);
    buf_printf(out, "  step %llu, ", (unsigned long long)s->steps);
    print_time(out, s->now_ms);
    buf_printf(
        out,
        " s; nodes %d, faults %d%%, wire %d%% up to %lld ms, commits %d, deaths %d, power cuts "
        "%d, batches up to %zu\n",
        t->nodes, t->faults_percent, t->wire_percent, (long long)t->wire_max_ms, (int)t->commits,
        t->deaths - s->deaths_left, s->power_cuts, t->batch_max);
    if (number_is(s->about))
        print_timeline(s, s->about, out);
    print_log(s, out);
}
