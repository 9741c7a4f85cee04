/* apply.h -- between callback.c (what arrives) and retry.c (what is taken up again): the facts of a
 * notice, applied. */
#ifndef FENPAY_CALLBACK_APPLY_H
#define FENPAY_CALLBACK_APPLY_H

#include "core/callback/callback.h"

#define CALLBACK_RETRIES  10
#define CALLBACK_RETRY_MS (5 * 60 * 1000)

struct applied {
    enum handle_result result;
    struct str reason;          /* static text */
    const struct fact *unknown; /* about a number that no payment has; NULL: none */
    struct callback_moved moved;
};

/* In a rule, once the row `callback_id` stands. Takes up to CALLBACK_IDS - 1 ids. */
enum err callback_apply(struct tx *tx, const struct callback_input *in, int64_t callback_id,
                        struct applied *ret, struct err_info *info);
/* A failed one has been handled after all: what a person was asked to look at is answered. */
enum err callback_recovered(struct tx *tx, int64_t callback_id, struct err_info *info);

#endif
