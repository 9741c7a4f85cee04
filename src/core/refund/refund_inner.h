/* refund_inner.h -- between the files of core/refund: only they include it. */
#ifndef FENPAY_REFUND_INNER_H
#define FENPAY_REFUND_INNER_H

#include "core/refund/refund_sql.h"

/* The event of what `r` is now, if that has one; loads its lines. `p` has its sums already. */
enum err refund_emit(struct tx *tx, struct refund *r, const struct payment *p, struct str trace_id,
                     struct err_info *info);

#endif
