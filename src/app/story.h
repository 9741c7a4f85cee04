/* story.h -- whole lives of payments as data: a story is an array of steps played against a
 * complete centre (real HTTP, real signatures, SQLite, local bus) and the sandbox, on a clock that
 * moves only when a step moves it. The demo plays stories; so do the scenario tests.
 *
 * A step's answer is kept under its label; later steps use it as ${label.field}. Fields are paths
 * into the JSON: "data.0.kind", "data.#" (count). */
#ifndef FENPAY_STORY_H
#define FENPAY_STORY_H

#include "app/dev.h"

enum step_kind {
    STEP_END,
    STEP_CALL, /* a request to the merchant API: `what` "POST /v1/orders", `body`, then `status` and
                  `expect` */
    STEP_PHONE,   /* the payer pays `label`'s payment on the phone */
    STEP_FAULT,   /* the sandbox misbehaves from now on */
    STEP_HEAL,    /* it behaves again */
    STEP_SETTLE,  /* callbacks, events and due jobs, until nothing moves */
    STEP_ADVANCE, /* the clock moves by `n` ms, in strides, settling after each */
    STEP_BOOKS,   /* the channel's books: state and what it took for `label`'s payment; `expect`
                     "state=SUCCESS,taken=8800,prepays=1" */
    STEP_CRASH,   /* the process is dropped and started again from the database */
};

struct step {
    enum step_kind kind;
    const char *label;
    const char *what;
    const char *body;
    int status;
    const char *expect; /* "status=PAID,pay_no=${p.pay_no}": comma-separated equalities;
                           "field!=value" too */
    int64_t n;
    struct sandbox_fault_rule fault;
    int repeat; /* CALL: so many times at once, from as many threads; all must answer as expected */
};

/* clang-format off */
#define CALL(label_, what_, body_, status_, expect_) \
    { .kind = STEP_CALL, .label = label_, .what = what_, .body = body_, .status = status_, .expect = expect_ }
#define CALL_AT_ONCE(label_, what_, body_, n_, expect_) \
    { .kind = STEP_CALL, .label = label_, .what = what_, .body = body_, .repeat = n_, .expect = expect_ }
#define PHONE(label_)     { .kind = STEP_PHONE, .label = label_ }
#define FAULT(...)        { .kind = STEP_FAULT, .fault = { __VA_ARGS__ } }
#define HEAL              { .kind = STEP_HEAL }
#define SETTLE            { .kind = STEP_SETTLE }
#define ADVANCE(ms_)      { .kind = STEP_ADVANCE, .n = ms_ }
#define BOOKS(label_, e_) { .kind = STEP_BOOKS, .label = label_, .expect = e_ }
#define CRASH             { .kind = STEP_CRASH }
#define END               { .kind = STEP_END }
/* clang-format on */
#define SECONDS(n) ((n)*1000LL)
#define MINUTES(n) ((n)*60000LL)

struct story {
    const char *name; /* "paid_native": for --story */
    const char *en, *zh;
    const struct step *steps;
};

struct world;

/* A fresh centre and sandbox in a temporary folder (removed by world_free). Keys are shared between
 * worlds through `keys_dir`. */
enum err world_new(const char *keys_dir, struct world **ret, struct err_info *info);
void world_free(struct world *w);

/* Removes a folder of keys made by world_new. */
void world_remove_keys(const char *dir);

/* Plays the story. False: a step did not go as told; *ret_why (in the world's arena) says which and
 * how. `loud`: prints each step as it happens. */
bool world_play(struct world *w, const struct story *story, bool loud, struct str *ret_why);

/* Prints the step in plain words; `what` and `expect` are its texts, filled in. (step_words.c) */
void step_print(const struct step *s, struct str what, struct str expect);

extern const struct story demo_stories[];
extern const size_t demo_story_count;

#endif
