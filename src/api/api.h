/* api.h -- the merchant API (design: docs/api.md; openapi.yaml is kept in step by a test). One file
 * a resource; routes.c is the one table. */
#ifndef FENPAY_API_H
#define FENPAY_API_H

#include "bus/bus.h"
#include "core/centre.h"
#include "net/server.h"

/* Persisted in caller.permissions: pinned in auth.c. */
enum permission {
    PERMISSION_READ = 1,
    PERMISSION_ORDER = 2,
    PERMISSION_PAY = 4,
    PERMISSION_REFUND = 8,
    PERMISSION_INCIDENT = 16,
    PERMISSION_ADMIN = 32
};

struct api_options {
    struct centre *centre;
    struct bus *bus;
    struct str master_key;          /* encrypts HMAC and webhook secrets */
    int64_t rate_per_s, rate_burst; /* per caller, rate class 0 */
    bool webhook_private;
    struct str source; /* CloudEvents source of the feed: the installation's name */
};

struct api_service;

enum err api_new(const struct api_options *options, struct api_service **ret,
                 struct err_info *info);
void api_free(struct api_service *s);
extern const struct http_route api_routes[];
extern const struct http_route ops_routes[]; /* /healthz /readyz /metrics; same service */
bool api_admit(struct http_request *req, const struct http_route *route,
               void *service); /* authentication, permission, rate */
void api_refuse(struct http_request *req, int status, const char *code, const char *text,
                void *service);
void api_turn_begin(void *service);
void api_turn_end(void *service);
/* From the store's wake: answers long polls of these payments. */
void api_wake(struct api_service *s, const struct store_waked *wakes, size_t n);
/* Before stopping: answers every waiting long poll now. */
void api_release_waiters(struct api_service *s);

/* Administration, also used by `fenpay caller` and `fenpay webhook`. The key is given out once. */
enum err caller_create(struct centre *c, struct str name, unsigned permissions, struct arena *a,
                       int64_t *ret_id, struct str *ret_bearer, struct err_info *info);
enum err caller_add_key(struct centre *c, struct str name, bool hmac, struct str master_key,
                        struct arena *a, struct str *ret_key_id, struct str *ret_secret,
                        struct err_info *info);
enum err caller_revoke_key(struct centre *c, struct str key_id, struct err_info *info);
enum err caller_set_state(struct centre *c, struct str name, bool on, struct err_info *info);
/* Persisted: pinned in caller_admin.c. How much of limits.rate_per_s a caller gets. */
enum caller_rate { CALLER_RATE_NORMAL = 0, CALLER_RATE_HIGH = 1, CALLER_RATE_UNLIMITED = 2 };
#define CALLER_RATES 3
const char *caller_rate_name(enum caller_rate rate); /* "normal", "high" (ten times), "unlimited" */
enum err caller_rate_parse(struct str name, enum caller_rate *ret, struct err_info *info);
enum err caller_set_rate(struct centre *c, struct str name, enum caller_rate rate,
                         struct err_info *info);
struct caller_row {
    int64_t id;
    struct str name;
    unsigned permissions;
    enum caller_rate rate;
    bool on;
    size_t keys;
};
enum err caller_list(struct centre *c, struct arena *a, struct caller_row *ret, size_t max,
                     size_t *ret_n, struct err_info *info);
/* The keys of a caller, revoked ones too, oldest first; never their secrets. ERR_NOT_FOUND. */
struct caller_key_row {
    struct str key_id;
    bool hmac, on;
    int64_t create_ms;
};
enum err caller_keys(struct centre *c, struct str name, struct arena *a, struct caller_key_row *ret,
                     size_t max, size_t *ret_n, struct err_info *info);
enum err webhook_create(struct centre *c, int64_t caller, struct str url, unsigned types,
                        bool allow_private, struct str master_key, struct arena *a, int64_t *ret_id,
                        struct str *ret_secret, struct err_info *info);
/* ERR_NOT_FOUND: the caller has no such webhook. */
enum err webhook_switch(struct centre *c, int64_t caller, int64_t id, bool on, struct arena *a,
                        struct err_info *info);
enum err webhook_new_secret(struct centre *c, int64_t caller, int64_t id, struct str master_key,
                            struct arena *a, struct str *ret_secret, struct err_info *info);

#endif
