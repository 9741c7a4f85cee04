/* demo.c -- plays whole lives of payments and prints each as it happens; the last line is "N
 * passed, N failed". */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/story.h"
#include "app/words.h"

static bool wanted(struct str only, const struct story *s)
{
    return !only.n || str_eq(only, str_of(s->name));
}

int command_demo(const struct command *self, int argc, char **argv)
{
    struct str only = STR_NONE;
    bool quiet = false;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "story", OPTION_TEXT, &only, "NAME", "Only this one" },
        { "quiet", OPTION_FLAG, &quiet, "", "Only a line a story" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;

    char keys[] = "/tmp/fenpay-demo-XXXXXX";
    if (!mkdtemp(keys))
        return complain(self, ERR_IO, NULL);
    struct err_info info = { 0 };
    struct world *w = NULL;
    int passed = 0, failed = 0;
    enum err e = world_new(keys, &w, &info);
    for (size_t i = 0; !e && i < demo_story_count; i++) {
        const struct story *s = &demo_stories[i];
        struct str why;
        if (!wanted(only, s))
            continue;
        printf("%s\n", words_in_chinese() ? s->zh : s->en);
        if (world_play(w, s, !quiet, &why)) {
            passed++;
            printf("  %s\n\n", word("as told"));
        } else {
            failed++;
            printf("  %s: " STR_FMT "\n\n", word("NOT as told"), STR_ARG(why));
        }
    }
    if (w)
        world_free(w);
    world_remove_keys(keys);
    if (e)
        exit_code = complain(self, e, &info);
    printf("%d passed, %d failed\n", passed, failed);
    return e ? exit_code : failed || !passed ? EXIT_FOUND : EXIT_FINE;
}
