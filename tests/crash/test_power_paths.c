/* test_power_paths.c -- the power is cut at every sync of a merchant's paths: the centre runs on a
 * disk that forgets what was not synced (all of it, some sectors, or the torn end), and what was
 * acknowledged, to the merchant or to the channel, must be there when it comes back. It does come
 * back, and goes on to the end.
 *
 * test_power_paths [STEP]: every STEP-th sync. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/killpoint.h"
#include "fault_vfs.h"
#include "life.h"

#define LIVES     2
#define SYNCS_MAX 400

static struct place place;
static int step = 3;

/* Lives until the power is cut at that sync; false: it never was. */
static bool live_until_cut(struct place *p, const struct path *path, int nth, struct life *lives)
{
    place_begin(p);
    fault_reset();
    fault_arm(FAULT_SYNC, 1 << 30, FAULT_POWER, true); /* none while it starts */
    place_start_inside(p);
    fault_arm(FAULT_SYNC, nth, FAULT_POWER, true);
    p->errors_are_the_end = true;
    enum drive d = DRIVE_OVER;
    for (int i = 0; i < LIVES; i++)
        lives[i] = (struct life) { .path = path, .n = i };
    for (int i = 0; i < LIVES && d == DRIVE_OVER; i++)
        d = life_drive(p, &lives[i]);
    bool cut = fault_fired() > 0;
    p->hold_callbacks = true; /* nobody is told anything more */
    place_stop_inside(p);
    fault_power_restore((enum power_loss)(nth % POWER_LOSSES), (uint64_t)nth);
    fault_reset();
    return cut;
}

static void go_on(struct place *p, struct life *lives)
{
    p->errors_are_the_end = false;
    p->hold_callbacks = false;
    place_move_clock(p, 2 * 60 * 1000);
    place_start_inside(p);
    for (int i = 0; i < LIVES; i++)
        if (!lives[i].over && life_drive(p, &lives[i]) != DRIVE_OVER)
            complaint(p, "it broke again");
    audit_rest(p, lives, LIVES, 1);
}

static void at_every_sync(void **state)
{
    struct place *p = &place;
    const struct path *path = *state;
    struct life lives[LIVES];
    int cuts = 0;
    for (int nth = 1; nth < SYNCS_MAX; nth += step) {
        bool cut = live_until_cut(p, path, nth, lives);
        audit_acknowledged(p, lives, LIVES);
        if (cut)
            go_on(p, lives);
        if (p->complaint[0])
            fail_msg("%s, cut at sync %d: %s", path->name, nth, p->complaint);
        place_end(p);
        if (!cut)
            break;
        cuts++;
    }
    print_message("# ran %d power cuts on the path %s\n", cuts, path->name);
    assert_in_range(cuts, 5 / step + 1, SYNCS_MAX / step - 2); /* it came to the end of the path */
}

/* Else the cuts above would prove nothing. */
static void planted(enum mutation mutation)
{
    struct life lives[LIVES];
    bool seen = false;
    for (int nth = 1; nth < 40 && !seen; nth++) {
        mutation_set(mutation);
        live_until_cut(&place, &path_pay, nth, lives);
        mutation_set(MUTATION_NONE);
        audit_acknowledged(&place, lives, LIVES);
        seen = place.complaint[0];
        place_end(&place);
    }
    assert_true(seen);
}

static void an_answer_before_the_commit_is_seen(void **state)
{
    (void)state;
    planted(MUTATION_ANSWER_BEFORE_COMMIT);
}

static int make(void **state)
{
    (void)state;
    fault_vfs_register();
    return place_make(&place, "cuts", 0) ? 0 : -1;
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

#define PATH(path)                                                                                 \
    {                                                                                              \
#path, at_every_sync, NULL, end, (void *)(uintptr_t)&path                                  \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        PATH(path_pay),
        PATH(path_lost_answer),
        PATH(path_switch),
        PATH(path_close),
        PATH(path_cancel),
        PATH(path_late),
        cmocka_unit_test_teardown(an_answer_before_the_commit_is_seen, end),
    };
    if (argc > 1)
        step = (int)strtol(argv[1], NULL, 10);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("crash/power_paths", tests, make, drop);
}
