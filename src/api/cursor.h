/* cursor.h -- opaque keyset cursors: a position in one list of one caller, with a check sum so that
 * a mistyped, cut or foreign one is noticed (BAD_CURSOR) instead of skipping rows. It protects from
 * mistakes, it keeps no secret: every list is bounded by its caller anyway. A feed cursor may be
 * kept for years, so no key goes into it. */
#ifndef FENPAY_API_CURSOR_H
#define FENPAY_API_CURSOR_H

#include "base/str.h"

/* `list` names the list ("orders"); 16 characters of URL-safe Base64 in the arena. */
struct str cursor_print(struct arena *a, const char *list, int64_t caller, int64_t position);
/* ERR_INVALID: not a cursor of this list and caller. */
enum err cursor_parse(struct arena *a, const char *list, int64_t caller, struct str text,
                      int64_t *ret_position);

#endif
