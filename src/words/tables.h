/* tables.h -- the tables, by whose texts they hold. Each ends with NULL. */
#ifndef FENPAY_WORDS_TABLES_H
#define FENPAY_WORDS_TABLES_H

#include "words/words.h"

extern const struct words_pair words_app[];      /* the commands */
extern const struct words_pair words_settings[]; /* the configuration: base/cfg, app/settings */
extern const struct words_pair words_channel[];  /* accounts, keys, callbacks, calls */
extern const struct words_pair words_core[];     /* orders, payments, events */
extern const struct words_pair words_api[];      /* requests: api, net, base/json */
extern const struct words_pair words_store[];    /* below: store, crypto; and sandbox */
extern const struct words_pair words_system[];   /* what the libraries say and we pass on */

#endif
