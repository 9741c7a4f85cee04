/* test_points.c -- the real binary killed at every named point of every path, while a merchant
 * drives that path through the API against the sandbox.
 *
 * One row a point: which path passes it, and the how-manieth time it kills, so that some lives are
 * over by then, one is under way and others have not begun. Afterwards everything acknowledged is
 * in the database; after the restart the merchant comes back for its life, or never does, and
 * either way everything comes to its end and agrees with the channel's books. `--all` plays both,
 * at three different passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "life.h"

#define LIVES         3
#define AFTER_MS      (2 * 60 * 1000)  /* leases of the dead are over */
#define LONG_AFTER_MS (21 * 60 * 1000) /* what nobody paid has expired */

struct point {
    const char *name;
    int pass;
    const struct path *path;
    bool comes_back;
};

/* clang-format off */
static const struct point points[] = {
    { "callback.verified", 2, &path_pay, true },
    { "callback.submitted", 2, &path_pay, false },
    { "callback.committed", 2, &path_pay, true },
    { "callback.answered", 2, &path_pay, false },
    { "store.commit", 24, &path_pay, false },
    { "store.committed", 24, &path_pay, true },
    { "bus.publishing", 2, &path_pay, true },
    { "bus.published", 2, &path_pay, false },
    { "delivery.claimed", 2, &path_pay, true },
    { "delivery.posted", 2, &path_pay, false },
    { "delivery.settled", 2, &path_pay, true },
    { "prepay.planned", 2, &path_pay, true },
    { "prepay.stored", 2, &path_pay, true },
    { "prepay.stored", 3, &path_pay, false },
    { "prepay.answered", 2, &path_pay, true },
    { "prepay.answered", 3, &path_pay, false },
    { "prepay.taken", 2, &path_pay, true },
    { "prepay.leased", 2, &path_lost_answer, true },
    { "query.answered", 2, &path_query, false },
    { "query.taken", 2, &path_query, true },
    { "due.taken", 2, &path_query, false },
    { "switch.requested", 2, &path_switch, true },
    { "close.requested", 2, &path_close, false },
    { "close.leased", 2, &path_close, true },
    { "close.answered", 2, &path_close, false },
    { "close.taken", 2, &path_close, false },
    { "close.released", 2, &path_close, true },
    { "close.answered", 2, &path_cancel, true },
    { "cancel.requested", 2, &path_cancel, false },
    { "cancel.closed", 2, &path_cancel, false },
    { "refund.leased", 2, &path_late, true },
    { "refund.answered", 2, &path_late, false },
    { "refund.taken", 2, &path_late, false },
    { "refund.asking", 2, &path_late_asked, false },
    { "refund.query_answered", 2, &path_late_asked, true },
    { "refund.query_taken", 2, &path_late_asked, false },
};
/* clang-format on */
#define POINTS (sizeof points / sizeof points[0])

/* No request of the merchant API passes these yet. */
static const char *const unreached[] = { "refund.stored" };

static struct place place;

/* Returns the life under way when it died; LIVES: none. */
static size_t live_until_death(struct place *p, const struct point *at, struct life lives[LIVES])
{
    char kill_at[64];
    size_t dead = LIVES;

    snprintf(kill_at, sizeof kill_at, "%s:%d", at->name, at->pass);
    for (int i = 0; i < LIVES; i++)
        lives[i] = (struct life) { .path = at->path, .n = i };
    place_begin(p);
    place_start(p, kill_at);
    for (size_t i = 0; i < LIVES && dead == LIVES; i++)
        if (life_drive(p, &lives[i]) == DRIVE_GONE)
            dead = i;
    place_wait_killed(p);
    p->hold_callbacks = false;
    audit_acknowledged(p, lives, LIVES);
    return dead;
}

static void die_and_recover(const struct point *at)
{
    struct place *p = &place;
    struct life lives[LIVES];
    size_t dead = live_until_death(p, at, lives);

    place_move_clock(p, at->comes_back ? AFTER_MS : LONG_AFTER_MS);
    place_start(p, NULL);
    for (size_t i = 0; i < LIVES; i++)
        if (!lives[i].over && (i != dead || at->comes_back) &&
            life_drive(p, &lives[i]) == DRIVE_GONE)
            complaint(p, "it died again");
    p->hold_callbacks = false;
    audit_rest(p, lives, LIVES, 1);
    if (p->complaint[0])
        fail_msg("%s:%d on the path '%s', the merchant %s: %s", at->name, at->pass, at->path->name,
                 at->comes_back ? "comes back" : "does not come back", p->complaint);
}

static void at_point(void **state)
{
    die_and_recover(*state);
}

/* Every name that stands beside a kill_point has a row, and every row its name. */
static void every_point_has_a_row(void **state)
{
    (void)state;
    char name[256];
    size_t found = 0, distinct = 0;
    FILE *f = popen("grep -rh 'kill_point(' " FENPAY_SOURCES
                    " | grep -oE '\"[a-z_.]+\"' | tr -d '\"' | sort -u",
                    "r");
    assert_non_null(f);
    while (fscanf(f, "%255s", name) == 1) {
        bool there = false;
        for (size_t i = 0; i < sizeof unreached / sizeof *unreached; i++)
            there = there || strcmp(unreached[i], name) == 0;
        found += !there;
        for (size_t i = 0; i < POINTS; i++)
            there = there || strcmp(points[i].name, name) == 0;
        if (!there)
            fail_msg("no row kills the process at %s", name);
    }
    assert_int_equal(pclose(f), 0);
    for (size_t i = 0; i < POINTS; i++) {
        bool first = true;
        for (size_t k = 0; k < i; k++)
            first = first && strcmp(points[k].name, points[i].name) != 0;
        distinct += first;
    }
    assert_int_equal(distinct, found);
}

static int make(void **state)
{
    (void)state;
    return place_make(&place, "points", 0) ? 0 : -1;
}
static int drop(void **state)
{
    (void)state;
    place_drop(&place);
    return 0;
}
static int end(void **state)
{
    (void)state;
    place_end(&place);
    return 0;
}

/* One row as given; with `all` at passes 1 to 3 (for those of the store: three later ones), with a
 * merchant who comes back and one who does not. */
static size_t variants(const struct point *row, bool all, struct point ret[6])
{
    size_t n = 0;
    ret[0] = *row;
    if (!all)
        return 1;
    for (int k = 0; k < 3; k++)
        for (int back = 0; back < 2; back++) {
            ret[n] = *row;
            ret[n].pass = row->pass > 3 ? row->pass + k : 1 + k;
            ret[n++].comes_back = back;
        }
    return n;
}

/* test_points [--all] [NAME]: the rows of one point. */
int main(int argc, char **argv)
{
    static struct point chosen[POINTS * 6];
    static struct CMUnitTest tests[POINTS * 6 + 1];
    static char names[POINTS * 6][96];
    bool all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const char *only = argc > 1 + all ? argv[1 + all] : NULL;
    size_t n = 0, count = 0;

    for (size_t i = 0; i < POINTS; i++)
        if (!only || strncmp(points[i].name, only, strlen(only)) == 0)
            n += variants(&points[i], all, &chosen[n]);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(every_point_has_a_row);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "%s:%d, %s%s", chosen[i].name, chosen[i].pass,
                 chosen[i].path->name, chosen[i].comes_back ? "" : ", abandoned");
        tests[count++] = (struct CMUnitTest) { names[i], at_point, NULL, end, &chosen[i] };
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("crash/points", tests, count, make, drop);
}
