/* words.h -- every text that people read exists in English and in Chinese.
 *
 * The code below the borders speaks English only: errors, refusals, incidents, timelines. The
 * English text, or the format it was printed with, is the key of the tables here, which hold both
 * languages side by side. A border (a command, the merchant API) puts a whole text into the
 * reader's language; this reads it back along its format, and so works for texts that have been
 * stored, or put into one another, as well. What the tables lack stays English; script/check-words
 * finds that.
 *
 * Logs are not translated: operators search them. Pure functions, any thread. */
#ifndef FENPAY_WORDS_WORDS_H
#define FENPAY_WORDS_WORDS_H

#include <stddef.h>

#include "base/str.h"

enum language { LANGUAGE_ENGLISH, LANGUAGE_CHINESE };

/* A text, or the format of one, that the code itself is about to print. */
const char *words_of(enum language language, const char *en) __attribute__((format_arg(2)));

/* A text that was printed elsewhere, into the arena. Places and names before ": " stay, what
 * follows is put, as is each part of "one; another". */
struct str words_said(struct arena *a, enum language language, struct str en);

/* ---- the tables ---- */

/* Both have the same conversions in the same order. In `zh`, %t stands for a %s that is a text of
 * ours itself, or may have one behind it ("transaction %s" in "transaction 42; it is paid"). */
struct words_pair {
    const char *en, *zh;
};
extern const struct words_pair *const words_tables[]; /* ends with NULL, each with en NULL */

#endif
