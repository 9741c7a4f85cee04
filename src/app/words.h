/* words.h -- the language of the commands: --lang, else what LC_ALL, LC_MESSAGES or LANG says;
 * English unless that begins with "zh". The texts are in words/. */
#ifndef FENPAY_APP_WORDS_H
#define FENPAY_APP_WORDS_H

#include "words/words.h"

enum language word_language(void);
/* "zh-CN", "en"; false: neither. `name` stays the caller's. Before any other thread runs. */
bool word_language_choose(struct str name);

/* A text or format of the code that prints it. */
const char *word(const char *en) __attribute__((format_arg(1)));
/* A whole text that was made below, into the arena. */
struct str said(struct arena *a, struct str en);

#endif
