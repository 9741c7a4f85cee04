/* story.c -- a failed seed as people read it: what went wrong, what kind of day it was, and
 * everything that ever happened to the payment or order in question. */
#include "sim/inner.h"

#include "bus/bus.h"
#include "core/call/call.h"
#include "core/payment/flow.h"
#include "core/refund/refund.h"

#define LOG_LINES   3
#define CALLS_SHOWN 32

static void print_time(struct buf *out, int64_t ms)
{
    int64_t since = ms - SIM_START_MS;
    bool before = since < 0;
    since = before ? -since : since;
    buf_printf(out, "%s%lld.%03lld", before ? "-" : "+", (long long)(since / 1000),
               (long long)(since % 1000));
}

/* An event's story is its subject's, a refund's its payment's. */
static enum err subject_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct number *no = arg;
    struct event event;
    struct refund r;
    enum err e = ERR_OK;
    if (no->kind == NUMBER_EVENT && !(e = event_read(tx, no->id, &event, info)))
        *no = event.subject;
    if (!e && no->kind == NUMBER_REFUND && !(e = refund_load(tx, no->id, &r, info)))
        *no = r.pay_no;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

struct refunds_story {
    struct sim *s;
    int64_t pay_id;
    struct buf *out;
};

static enum err print_one_refund(struct tx *tx, struct refunds_story *k, const struct refund *r,
                                 struct err_info *info)
{
    struct journal_row *rows;
    struct call_row calls[CALLS_SHOWN];
    struct str no = number_str(tx_arena(tx), r->no);
    size_t n;
    buf_printf(k->out, "  refund " STR_FMT " of %lld fen by %s: %s\n", STR_ARG(no),
               (long long)money_fen(r->amount), refund_origin_name(r->origin),
               refund_status_name(r->status));
    enum err e = calls_of(tx, r->no.id, calls, CALLS_SHOWN, &n, info);
    for (size_t i = 0; !e && i < n; i++) {
        buf_add_str(k->out, STR("    "));
        print_time(k->out, calls[i].create_ms);
        buf_printf(k->out, " %s: %s %s " STR_FMT "\n", call_kind_name(calls[i].kind),
                   channel_outcome_name(calls[i].outcome), channel_class_name(calls[i].class),
                   STR_ARG(calls[i].code));
    }
    if (!e)
        e = journal_read(tx, &r->journal, &rows, &n, info);
    for (size_t i = 0; !e && i < n; i++) {
        buf_add_str(k->out, STR("    "));
        print_time(k->out, rows[i].time_ms);
        buf_printf(k->out, " -> %s (%s)\n", refund_status_name((enum refund_status)rows[i].to),
                   journal_cause_name(rows[i].cause));
    }
    return e;
}

static enum err print_refunds_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct refunds_story *k = arg;
    struct refund *list;
    size_t n;
    enum err e = refunds_of(tx, k->pay_id, &list, &n, info);
    for (size_t i = 0; !e && i < n; i++)
        e = print_one_refund(tx, k, &list[i], info);
    return e;
}

static void print_timeline(struct sim *s, struct number no, struct buf *out)
{
    struct act act = { .caller = { SIM_CALLER, STR("shop") }, .arena = s->arena };
    struct refusal refusal = { 0 };
    struct timeline_entry *entries;
    struct centre centre = { .env = &s->outside.env, .store = sim_watch_store(s) };
    size_t n;

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
    if (no.kind == NUMBER_PAYMENT)
        sim_read(s, print_refunds_rule, &(struct refunds_story) { s, no.id, out });
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
