/* words.c -- which language the reader of a command wants. */
#include "app/words.h"

#include <stdlib.h>

static struct str chosen; /* by --lang */

bool word_language_choose(struct str name)
{
    bool known = str_starts(name, STR("zh")) || str_starts(name, STR("en"));
    if (known)
        chosen = name;
    return known;
}

enum language word_language(void)
{
    static const char *const names[] = { "LC_ALL", "LC_MESSAGES", "LANG" };
    struct str name = chosen;
    for (size_t i = 0; !name.n && i < sizeof names / sizeof *names; i++)
        name = str_of(getenv(names[i]));
    return str_starts(name, STR("zh")) ? LANGUAGE_CHINESE : LANGUAGE_ENGLISH;
}

const char *word(const char *en)
{
    return words_of(word_language(), en);
}

struct str said(struct arena *a, struct str en)
{
    return words_said(a, word_language(), en);
}
