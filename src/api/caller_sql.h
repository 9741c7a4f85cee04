/* caller_sql.h -- every statement on caller, caller_key and caller_nonce. For auth.c and
 * callers.c. */
#ifndef FENPAY_API_CALLER_SQL_H
#define FENPAY_API_CALLER_SQL_H

#include "api/api.h"
#include "api/auth.h"

struct caller_record {
    int64_t id;
    struct str name;
    unsigned permissions;
    enum caller_rate rate;
    bool on;
    int64_t version;
};

struct key_record {
    int64_t id, caller;
    enum key_kind kind;
    struct str key_id;
    struct str hash;   /* 32 bytes, for bearers */
    struct str secret; /* enc:v1:…, for HMAC */
    bool on;
};

/* All in a rule; texts live in tx_arena. ERR_NOT_FOUND where there is no row. */
enum err caller_sql_insert(struct tx *tx, const struct caller_record *c,
                           struct err_info *info); /* ERR_EXISTS */
enum err caller_sql_by_name(struct tx *tx, struct str name, struct caller_record *ret,
                            struct err_info *info);
enum err caller_sql_by_id(struct tx *tx, int64_t id, struct caller_record *ret,
                          struct err_info *info);
/* State and rate as they now are in *c; compare-and-set on its version: ERR_RETRY when somebody
 * else was first. */
enum err caller_sql_change(struct tx *tx, const struct caller_record *c, struct err_info *info);
enum err caller_sql_list(struct tx *tx, struct caller_row *ret, size_t max, size_t *ret_n,
                         struct err_info *info);

enum err key_sql_insert(struct tx *tx, const struct key_record *k,
                        struct err_info *info); /* ERR_EXISTS */
enum err key_sql_find(struct tx *tx, struct str key_id, struct key_record *ret,
                      struct err_info *info);
enum err key_sql_list(struct tx *tx, int64_t caller, struct caller_key_row *ret, size_t max,
                      size_t *ret_n, struct err_info *info);
enum err key_sql_revoke(struct tx *tx, struct str key_id, int64_t *ret_changed,
                        struct err_info *info);
enum err key_sql_count(struct tx *tx, int64_t caller, enum key_kind kind, int64_t *ret,
                       struct err_info *info);

enum err nonce_sql_insert(struct tx *tx, int64_t caller, struct str nonce, int64_t until_ms,
                          struct err_info *info);
enum err nonce_sql_until(struct tx *tx, int64_t caller, struct str nonce, int64_t *ret_until_ms,
                         struct err_info *info);
/* Clears up to `max` nonces whose window is over. */
enum err nonce_sql_clear(struct tx *tx, size_t max, struct err_info *info);

#endif
