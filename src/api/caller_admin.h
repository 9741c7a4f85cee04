/* caller_admin.h -- the administration of api.h with the name of who does it, for the audit. */
#ifndef FENPAY_API_CALLER_ADMIN_H
#define FENPAY_API_CALLER_ADMIN_H

#include "api/api.h"

enum err caller_create_by(struct centre *c, struct str who, struct str name, unsigned permissions,
                          struct arena *a, int64_t *ret_id, struct str *ret_bearer,
                          struct err_info *info);
/* ERR_CONFLICT: two keys of that kind are in use. */
enum err caller_add_key_by(struct centre *c, struct str who, struct str name, bool hmac,
                           struct str master_key, struct arena *a, struct str *ret_key_id,
                           struct str *ret_secret, struct err_info *info);
enum err caller_revoke_key_by(struct centre *c, struct str who, struct str key_id,
                              struct err_info *info);
enum err caller_set_state_by(struct centre *c, struct str who, struct str name, bool on,
                             struct err_info *info);
enum err caller_set_rate_by(struct centre *c, struct str who, struct str name,
                            enum caller_rate rate, struct err_info *info);
enum err caller_find(struct centre *c, struct str name, int64_t *ret_id, struct err_info *info);

#endif
