/* silence.c -- a short list of accounts and how many calls in a row stayed without a word. */
#include "core/payment/silence.h"

/* s->n: not there. */
static size_t find(const struct silences *s, struct str account)
{
    size_t i = 0;
    while (i < s->n && !str_eq(str_of(s->accounts[i].name), account))
        i++;
    return i;
}

static struct silent_account *add(struct silences *s, struct str account)
{
    if (s->n == sizeof s->accounts / sizeof s->accounts[0] ||
        account.n >= sizeof s->accounts[0].name)
        return NULL;
    struct silent_account *a = &s->accounts[s->n++];
    *a = (struct silent_account) { .in_row = 0 };
    memcpy(a->name, account.p, account.n);
    return a;
}

/* "Later" about one payment comes with another status, and quickly. */
static bool is_silence(const struct channel_answer *answer)
{
    bool nothing = answer->outcome == CHANNEL_UNKNOWN ||
                   (answer->outcome == CHANNEL_REFUSED && answer->class == CLASS_RETRY);
    return nothing &&
           (!answer->http_status || answer->http_status == 429 || answer->http_status >= 500);
}

void silence_note(struct silences *s, struct str account, const struct channel_answer *answer)
{
    size_t i = find(s, account);
    struct silent_account *a = i < s->n ? &s->accounts[i] : NULL;
    bool silent = is_silence(answer);
    if (!silent && a)
        a->in_row = 0;
    else if (silent && (a || (a = add(s, account))))
        a->in_row++;
}

bool silence_of(const struct silences *s, struct str account)
{
    size_t i = find(s, account);
    return i < s->n && s->accounts[i].in_row >= SILENCE_CALLS;
}
