/* words.h -- what the commands say to people exists in English and in Chinese: the English text is
 * the key, words.c holds the one table. LC_ALL, LC_MESSAGES or LANG beginning with "zh" chooses
 * Chinese. */
#ifndef FENPAY_WORDS_H
#define FENPAY_WORDS_H

#include <stdbool.h>

bool words_in_chinese(void);
/* The text in the language of the environment; the English one when the table lacks it (a test
 * finds those). */
const char *word(const char *en) __attribute__((format_arg(1)));

#endif
