/* demo.c -- plays whole lives of payments and prints each as it happens; the last line is "N
 * passed, N failed". */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/story.h"
#include "app/words.h"

static const struct story *find_story(struct str name)
{
    for (size_t i = 0; i < demo_story_count; i++)
        if (str_eq(name, str_of(demo_stories[i].name)))
            return &demo_stories[i];
    return NULL;
}

static const char *title(const struct story *s)
{
    return word_language() == LANGUAGE_CHINESE ? s->zh : s->en;
}

static void print_list(FILE *out)
{
    for (size_t i = 0; i < demo_story_count; i++)
        fprintf(out, "  %-22s %s\n", demo_stories[i].name, title(&demo_stories[i]));
}

static void print_why(struct str why)
{
    ARENA_AUTO a = arena_new(4096);
    printf(": " STR_FMT, STR_ARG(said(a, why)));
}

static bool play(struct world *w, const struct story *s, bool quiet)
{
    struct str why;
    if (!quiet)
        printf("%s: %s\n", s->name, title(s));
    bool fine = world_play(w, s, !quiet, &why);
    const char *verdict = word(fine ? "as told" : "NOT as told");
    if (quiet)
        printf("%s  %s: %s", verdict, s->name, title(s));
    else
        printf("  %s", verdict);
    if (!fine)
        print_why(why);
    puts(quiet ? "" : "\n");
    return fine;
}

/* All of them, or `only`. */
static int play_all(struct world *w, const struct story *only, bool quiet)
{
    int passed = 0, failed = 0;
    for (size_t i = 0; i < demo_story_count; i++) {
        if (only && only != &demo_stories[i])
            continue;
        if (play(w, &demo_stories[i], quiet))
            passed++;
        else
            failed++;
    }
    printf(word("%d passed, %d failed"), passed, failed);
    putchar('\n');
    return failed ? EXIT_FOUND : EXIT_FINE;
}

int command_demo(const struct command *self, int argc, char **argv)
{
    struct str name = STR_NONE;
    bool quiet = false, list = false;
    int exit_code = EXIT_FINE;
    struct option options[] = {
        { "story", OPTION_TEXT, &name, "NAME", "Only this one" },
        { "list", OPTION_FLAG, &list, "", "Only print the names of the stories" },
        { "quiet", OPTION_FLAG, &quiet, "", "Only a line a story" },
        { 0 },
    };
    if (!args_parse(self, argc, argv, options, 0, 0, NULL, NULL, &exit_code))
        return exit_code;
    if (list) {
        print_list(stdout);
        return EXIT_FINE;
    }

    struct err_info info = { 0 };
    const struct story *only = name.n ? find_story(name) : NULL;
    if (name.n && !only) {
        exit_code =
            complain(self,
                     err_set(&info, ERR_INVALID,
                             "there is no story named '" STR_FMT "'; there are:", STR_ARG(name)),
                     &info);
        print_list(stderr);
        return exit_code;
    }

    char keys[] = "/tmp/fenpay-demo-XXXXXX";
    if (!mkdtemp(keys))
        return complain(self, ERR_IO, NULL);
    struct world *w = NULL;
    enum err e = world_new(keys, &w, &info);
    exit_code = e ? complain(self, e, &info) : play_all(w, only, quiet);
    if (w)
        world_free(w);
    world_remove_keys(keys);
    return exit_code;
}
