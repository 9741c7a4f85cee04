/* silence.h -- during one round of a job: which accounts' channels do not answer.
 *
 * A call to a dead channel takes its whole time limit, so after a few in a row without an answer
 * the round leaves that account alone: its rows stay due, and nobody else waits behind them. */
#ifndef FENPAY_SILENCE_H
#define FENPAY_SILENCE_H

#include "channel/channel.h"

#define SILENCE_CALLS 3

struct silent_account {
    char name[65];
    int in_row;
};

struct silences {
    size_t n;
    struct silent_account
        accounts[32]; /* more than that at once are not told apart: they are called */
};

/* What a call of the account came to. Nothing sent, no answer, HTTP 5xx and 429 are silence;
 * everything else is a word. */
void silence_note(struct silences *s, struct str account, const struct channel_answer *answer);
/* SILENCE_CALLS without a word, one after the other. */
bool silence_of(const struct silences *s, struct str account);

#endif
