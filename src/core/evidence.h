/* evidence.h -- what stands behind a move: a terminal state needs one (rules.md section 1). */
#ifndef FENPAY_EVIDENCE_H
#define FENPAY_EVIDENCE_H

#include "channel/channel.h"

/* Persisted: pinned in journal.c. */
enum evidence_kind {
    EVIDENCE_NONE = 0,
    EVIDENCE_CALLBACK = 1, /* ref: callback_log.id */
    EVIDENCE_ANSWER = 2,   /* a signed answer to prepay or close; ref: channel_call.id */
    EVIDENCE_QUERY = 3,    /* ref: channel_call.id */
    EVIDENCE_REFUSAL = 4,  /* the channel said no for good; ref: channel_call.id */
    EVIDENCE_NOT_EXIST =
        5, /* it does not exist at the channel, after expiry; ref: channel_call.id */
    EVIDENCE_BILL = 6,
    EVIDENCE_OPERATOR = 7,
    EVIDENCE_EXPIRY = 8, /* the channel cannot close, and the time is over */
};

struct evidence {
    enum evidence_kind kind;
    int64_t ref;
    const struct fact *fact; /* what it states; NULL where there is none */
    bool equal; /* for PAID: amount, currency, merchant and app are the payment's (the adapter's
                   comparison) */
    struct str actor; /* "callback", "query job", a caller, an operator */
};

#endif
