/* test_scenarios.c -- plays every scenario and every story of the demo, each against a centre and
 * sandbox of its own. An argument names one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "scenarios.h"

static char keys_dir[] = "/tmp/fenpay-scenario-XXXXXX";

static void play(void **state)
{
    const struct story *story = *state;
    struct err_info info = { 0 };
    struct world *w = NULL;
    struct str why = STR_NONE;
    if (world_new(keys_dir, &w, &info))
        fail_msg("no world: %s", info.text);
    bool fine = world_play(w, story, false, &why);
    if (!fine)
        print_error("%s: " STR_FMT "\n", story->name, STR_ARG(why));
    world_free(w);
    assert_true(fine);
}

static int make_keys(void **state)
{
    (void)state;
    return mkdtemp(keys_dir) ? 0 : -1;
}
static int drop_keys(void **state)
{
    (void)state;
    world_remove_keys(keys_dir);
    return 0;
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[128];
    size_t n = 0;
    for (size_t i = 0; i < scenario_count + demo_story_count; i++) {
        const struct story *s =
            i < scenario_count ? &scenarios[i] : &demo_stories[i - scenario_count];
        if (argc > 1 && strcmp(argv[1], s->name) != 0)
            continue;
        tests[n++] = (struct CMUnitTest) { s->name, play, NULL, NULL, (void *)(uintptr_t)s };
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("scenario", tests, n, make_keys, drop_keys);
}
