/* sim.c -- plays seeds and tells what they found: a violation with its seed, its smallest story and
 * the command that plays it again; in the end one line of JSON. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "app/commands.h"
#include "app/words.h"
#include "base/json.h"

#define STORIES_MAX 5 /* told; all are counted */
#define JSON_MAX    (1 << 20)

struct telling {
    bool json;
    int64_t payments;
    unsigned told;
};

/* ---- the smallest story ---- */

struct smallest {
    struct buf story;
    bool failed;
};

static void keep_story(void *ctx, const struct sim_result *r, struct str story)
{
    struct smallest *k = ctx;
    k->failed = r->failed;
    buf_clear(&k->story);
    buf_add_str(&k->story, story);
}

/* The same seed with fewer payments is another run, but mostly one that fails as well, and it is
 * read sooner. */
static int64_t make_smaller(uint64_t seed, int64_t payments, struct buf *story)
{
    struct smallest k = { .failed = false };
    int64_t found = payments;
    buf_init(&k.story, JSON_MAX);
    for (int64_t n = 1; n < payments && !k.failed; n *= 2) {
        struct sim_seeds seeds = {
            .from = seed, .to = seed, .payments = n, .workers = 1, .played = keep_story, .ctx = &k
        };
        struct sim_sum sum;
        if (sim_play_seeds(&seeds, &sum, NULL))
            break;
        found = k.failed ? n : found;
    }
    if (k.failed) {
        buf_clear(story);
        buf_add_str(story, buf_str(&k.story));
    }
    buf_done(&k.story);
    return found;
}

/* ---- telling ---- */

static void put_line(const struct buf *b)
{
    fwrite(b->p, 1, b->n, stdout);
    putchar('\n');
    fflush(stdout);
}

static void print_violation(const struct telling *t, uint64_t seed, int64_t payments,
                            struct str story)
{
    BUF_AUTO b = { 0 };
    struct json_out o;
    char again[96];

    snprintf(again, sizeof again, "fenpay sim --seed %llu --payments %lld",
             (unsigned long long)seed, (long long)payments);
    buf_init(&b, JSON_MAX);
    if (!t->json) {
        buf_printf(&b, STR_FMT "  %s %s\n", STR_ARG(story), word("again:"), again);
        put_line(&b);
        return;
    }
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_int(&o, "seed", (int64_t)seed);
    json_kv_str(&o, "story", story);
    json_kv_str(&o, "again", str_of(again));
    json_end_object(&o);
    put_line(&b);
}

static void played(void *ctx, const struct sim_result *r, struct str story)
{
    struct telling *t = ctx;
    BUF_AUTO text = { 0 };
    if (!r->failed || t->told++ >= STORIES_MAX)
        return;
    buf_init(&text, JSON_MAX);
    buf_add_str(&text, story);
    int64_t payments = make_smaller(r->seed, t->payments, &text);
    print_violation(t, r->seed, payments, buf_str(&text));
}

static void print_sum(const struct sim_sum *sum)
{
    BUF_AUTO b = { 0 };
    struct json_out o;
    const struct sim_result *all = &sum->all;
    int64_t ms = sum->took_us / 1000;

    buf_init(&b, JSON_MAX);
    json_out_init(&o, &b);
    json_begin_object(&o);
    json_kv_int(&o, "seeds", (int64_t)sum->seeds);
    json_kv_int(&o, "payments", all->payments);
    json_kv_int(&o, "faults", all->faults);
    json_kv_int(&o, "violations", (int64_t)sum->violations);
    json_kv_int(&o, "payments_per_s", ms ? all->payments * 1000 / ms : 0);
    json_kv_int(&o, "succeeded", all->succeeded);
    json_kv_int(&o, "late", all->late);
    json_kv_int(&o, "surplus", all->surplus);
    json_kv_int(&o, "quarantined", all->quarantined);
    json_kv_int(&o, "resolved", all->resolved);
    json_kv_int(&o, "refunds", all->refunds);
    json_kv_int(&o, "refunded", all->refunded);
    json_kv_int(&o, "deaths", all->deaths);
    json_kv_int(&o, "power_cuts", all->power_cuts);
    json_kv_int(&o, "two_nodes", all->two_nodes);
    json_kv_int(&o, "long_keys", all->long_keys);
    json_kv_int(&o, "steps", all->steps);
    json_kv_int(&o, "simulated_hours", all->virtual_ms / 3600000);
    json_kv_int(&o, "took_ms", ms);
    char trace[20];
    snprintf(trace, sizeof trace, "%016llx", (unsigned long long)sum->trace);
    json_kv_str(&o, "trace", str_of(trace));
    json_end_object(&o);
    put_line(&b);
}

/* ---- the command ---- */

static bool read_seeds(struct str text, struct sim_seeds *ret)
{
    struct str from = text, to;
    int64_t a, b;
    const char *dots = text.n ? memmem(text.p, text.n, "..", 2) : NULL;
    if (dots) {
        from = str_sub(text, 0, (size_t)(dots - text.p));
        to = str_sub(text, from.n + 2, text.n);
    } else {
        to = from;
    }
    if (str_int64(from, &a) || str_int64(to, &b) || a < 0 || b < a)
        return false;
    ret->from = (uint64_t)a;
    ret->to = (uint64_t)b;
    return true;
}

/* One seed here, with every decision on standard output. */
static bool play_loudly(const struct sim_seeds *seeds)
{
    struct sim_stage *stage;
    struct sim_result r;
    BUF_AUTO story = { 0 };
    buf_init(&story, JSON_MAX);
    sim_stage_open(&stage);
    sim_play(stage, seeds->from, seeds->payments, true, &r, &story);
    sim_stage_close(stage);
    put_line(&story);
    return r.failed;
}

int command_sim(const struct command *self, int argc, char **argv)
{
    struct str seed = STR_NONE, range = STR("1..200");
    int64_t payments = SIM_PAYMENTS, workers = 0;
    bool json = false, trace = false;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "seed", OPTION_TEXT, &seed, "N", "Only this one" },
        { "seeds", OPTION_TEXT, &range, "A..B", "These (default 1..200)" },
        { "payments", OPTION_INT, &payments, "N", "Of each seed (default 40)" },
        { "workers", OPTION_INT, &workers, "N", "Processes (default: one a processor)" },
        { "trace", OPTION_FLAG, &trace, "", "With --seed: prints every decision" },
        { "json", OPTION_FLAG, &json, "", "Print JSON" },
        { 0 },
    };
    struct err_info info = { 0 };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    struct telling t = { .json = json, .payments = payments };
    struct sim_seeds seeds = { .payments = payments, .played = played, .ctx = &t };
    if (!read_seeds(seed.n ? seed : range, &seeds) || payments < 1 || payments > 100000 ||
        workers < 0 || workers > 64)
        return complain(self,
                        err_set(&info, ERR_INVALID,
                                "seeds are N or A..B, payments 1 to 100000, workers up to 64"),
                        &info);
    seeds.workers = (unsigned)workers;
    if (trace)
        return play_loudly(&seeds) ? EXIT_FOUND : EXIT_FINE;

    struct sim_sum sum;
    enum err e = sim_play_seeds(&seeds, &sum, &info);
    if (e)
        return complain(self, e, &info);
    print_sum(&sum);
    return sum.violations ? EXIT_FOUND : EXIT_FINE;
}
