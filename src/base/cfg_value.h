/* cfg_value.h -- single values of the configuration: their text, their units, their secrets.
 * Private to cfg. */
#ifndef FENPAY_CFG_VALUE_H
#define FENPAY_CFG_VALUE_H

#include "base/cfg.h"

/* Reads `text` as `key` says into `*ret` (what enum cfg_type names; any type but SECTION, LIST,
 * STR_LIST). The message in `info` says what is wrong with the value, without saying where; it
 * never shows a secret. *ret_open_mode as struct cfg_mark has it. */
enum err cfg_value(struct arena *a, const struct cfg_source *src, const struct cfg_key *key,
                   struct str text, void *ret, unsigned *ret_open_mode, struct err_info *info);

/* What somebody who wrote `wrong` meant of `names`; STR_NONE: nothing is near. */
struct str cfg_nearest(struct str wrong, const struct str names[], size_t n);

#endif
