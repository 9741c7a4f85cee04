/* auth.h -- who is asking: bearer keys and HMAC-signed requests (docs/api.md has the encoding and a
 * worked vector).
 *
 * Keys are cached by key id for a few seconds, so that a request costs one SHA-256 and no read; a
 * revoked key is refused after AUTH_CACHE_MS at the latest. Thread-safe. */
#ifndef FENPAY_API_AUTH_H
#define FENPAY_API_AUTH_H

#include "api/api.h"
#include "core/centre.h"
#include "crypto/digest.h"
#include "net/http.h"

#define AUTH_CACHE_MS        5000
#define AUTH_WINDOW_MS       300000
#define AUTH_NONCE_MIN       8
#define AUTH_NONCE_MAX       64
#define AUTH_KEY_ID_TEXT     16
#define AUTH_CALLER_NAME_MAX 64

/* Persisted in caller_key.kind: pinned in auth.c. */
enum key_kind { KEY_BEARER = 1, KEY_HMAC = 2 };

struct identity {
    struct caller_ref caller; /* the name is in the request's arena */
    unsigned permissions;
    enum caller_rate rate;
    struct str nonce; /* of a signed request, to be taken with auth_nonce_job; STR_NONE: bearer */
};

/* What is signed; `target` is path and query exactly as sent. */
struct signed_parts {
    struct str method, target, timestamp, nonce, body;
};

struct auth;
struct auth *auth_new(struct centre *centre, struct str master_key);
void auth_free(struct auth *auth);
/* Forgets every cached key: after a change by this process, so that it usually works at once. */
void auth_forget(struct auth *auth);

/* Reads the credentials of a request and checks everything but the nonce. Reads the store at most
 * once (a cache miss), so it may run on a polling thread. CODE_OK, UNAUTHENTICATED (with a detail
 * that helps an honest caller and tells nothing of the secret), BUSY. */
enum code auth_check(struct auth *auth, const struct http_headers *headers, struct str method,
                     struct str target, struct str body, int64_t now_ms, struct arena *a,
                     struct identity *ret, struct refusal *refusal);

/* method \n target \n timestamp \n nonce \n sha256-hex(body) \n */
struct str auth_signed_text(struct arena *a, const struct signed_parts *parts);
struct sha256 auth_signature(struct arena *a, struct str secret, const struct signed_parts *parts);

/* Takes the nonce for the window, durably. *result is data: taken, or seen before. */
struct nonce_use {
    int64_t caller;
    struct str nonce;
    int64_t until_ms; /* from auth_nonce_init: carries a random part by which a second run knows its
                         own row */
    bool inserted;    /* a run of ours has got as far as inserting */
    bool replayed;    /* result */
};
void auth_nonce_init(struct nonce_use *use, struct env *env, const struct identity *who,
                     int64_t now_ms);
enum err auth_nonce_rule(struct tx *tx, void *use, struct err_info *info);

/* "read", "order", … and back. */
#define PERMISSION_COUNT 6
const char *permission_name(size_t i); /* the i-th, NULL past the end; its bit is 1 << i */
enum err permission_parse(struct str name, unsigned *ret_bit);

/* New keys, as they are given out once. */
struct str auth_new_key_id(struct env *env, struct arena *a);
struct str auth_new_secret(struct env *env, struct arena *a);
struct str auth_bearer(struct arena *a, struct str key_id,
                       struct str secret); /* "fp_" key id "_" secret */
struct str auth_secret_name(struct arena *a,
                            struct str key_id); /* what its encryption is bound to */

#endif
