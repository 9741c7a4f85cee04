/* reject.h -- deliveries that did not verify: how many from one address lately, a few samples, and
 * how often a line about them may be logged.
 * Memory only, of a fixed size: a flood can neither fill the disk nor grow us. Thread-safe. */
#ifndef FENPAY_REJECT_H
#define FENPAY_REJECT_H

#include "core/callback/callback.h"

struct rejects;

struct rejects *rejects_new(struct env *env, bool by_address); /* false: refuses nobody */
void rejects_free(struct rejects *r);

/* Has this address sent so many forged signatures lately that the next one is not worth an RSA
 * verification? Loopback never has: behind the proxy everybody comes from there, and the proxy has
 * a limit of its own. */
#define REJECT_FORGED_MAX 20
#define REJECT_WINDOW_MS  10000
bool rejects_refuses(struct rejects *r, struct str peer);

/* Notes one: counts it against the address when it cost a verification, keeps a sample while there
 * is room. Copies what it keeps. */
void rejects_note(struct rejects *r, const struct reject_sample *s);

/* May a line about this be logged now? One a second for each account and reason (a static text);
 * `ret_unsaid` counts those before it that were not. */
bool rejects_say(struct rejects *r, struct str account, const char *reason, int64_t *ret_unsaid);

/* Takes the samples out, oldest first, copied into the arena. */
#define REJECT_SAMPLES 64
size_t rejects_take(struct rejects *r, struct arena *a, struct reject_sample ret[], size_t max);

#endif
