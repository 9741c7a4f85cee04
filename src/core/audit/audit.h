/* audit.h -- who did what by hand: one row an act, in the act's own transaction. */
#ifndef FENPAY_AUDIT_H
#define FENPAY_AUDIT_H

#include "store/store.h"

/* `who`: "operator:…" or "caller:…"; `act`: "caller.create"; `subject`, `detail` may be STR_NONE.
 */
struct audit {
    int64_t id; /* of the transaction */
    struct str who, act, subject, detail;
};
/* ERR_EXISTS: a row of that id is there, so this rule has run before. */
enum err audit_insert(struct tx *tx, const struct audit *audit, struct err_info *info);
/* Is there a row of that id? For rules that must know whether they ran before. */
enum err audit_has(struct tx *tx, int64_t id, bool *ret, struct err_info *info);

#endif
