/* retention.h -- removing what is kept only for days, a few rows a rule (a rule may cost 5 ms of
 * the writer: systems.md F14). */
#ifndef FENPAY_RETENTION_H
#define FENPAY_RETENTION_H

#include "store/store.h"

#define RETENTION_ROWS 100

/* Up to RETENTION_ROWS of the oldest channel calls made before that time; *ret_n: how many went. */
enum err retention_calls(struct tx *tx, int64_t before_ms, int64_t *ret_n, struct err_info *info);

#endif
