/* lang.h -- messages that people see exist in English and in Chinese; LC_ALL, LC_MESSAGES or LANG
 * beginning with "zh" chooses Chinese. */
#ifndef FENPAY_LANG_H
#define FENPAY_LANG_H

#include <stdlib.h>
#include <string.h>

static inline const char *in_words(const char *en, const char *zh)
{
    const char *names[] = { "LC_ALL", "LC_MESSAGES", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strncmp(value, "zh", 2) == 0 ? zh : en;
    }
    return en;
}

#endif
