/* follow.h -- what the end of a refund means for the incidents of its payment. */
#ifndef FENPAY_FOLLOW_H
#define FENPAY_FOLLOW_H

#include "core/refund/refund.h"

/* In a rule, after `r`, loaded in it, has become final, or has come back (`reversed`): the
 * payment's incidents take their next step. Decides
 * from the rows as they are, so twice is fine. Takes up to FOLLOW_IDS ids. */
#define FOLLOW_IDS 4
enum err follow_refund(struct tx *tx, const struct refund *r, bool reversed, struct str trace_id,
                       struct err_info *info);

#endif
