/* auth.c -- bearer keys and signed requests; see auth.h.
 *
 * A bearer key is "fp_" + key id + "_" + secret: the id finds the row, and only the SHA-256 of the
 * whole text is stored. An HMAC secret is stored encrypted under the master key, bound to its key
 * id. Cached keys stand in a direct-mapped table: bounded, and a clash only costs a read. */
#include "api/auth.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/caller_sql.h"
#include "base/log.h"
#include "crypto/secret.h"

static_assert(KEY_BEARER == 1 && KEY_HMAC == 2, "persisted in caller_key.kind");
static_assert(PERMISSION_READ == 1 && PERMISSION_ORDER == 2 && PERMISSION_PAY == 4 &&
                  PERMISSION_REFUND == 8 && PERMISSION_INCIDENT == 16 && PERMISSION_ADMIN == 32,
              "persisted in caller.permissions");

#define CACHE_SLOTS    256
#define SECRET_BYTES   32
#define SECRET_TEXT    43 /* base64url of it */
#define BEARER_PREFIX  STR("fp_")
#define BEARER_TEXT    (3 + AUTH_KEY_ID_TEXT + 1 + SECRET_TEXT)
#define SIGNATURE_TEXT 64
#define ENC_MAX        256
#define SET_NONCE      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"

static const char *const permission_names[PERMISSION_COUNT] = { "read",   "order",    "pay",
                                                                "refund", "incident", "admin" };

struct entry {
    char key_id[AUTH_KEY_ID_TEXT];
    enum key_kind kind;
    struct sha256 hash;
    char secret[SECRET_TEXT]; /* HMAC */
    int64_t caller;
    char name[AUTH_CALLER_NAME_MAX];
    size_t name_length;
    unsigned permissions;
    enum caller_rate rate;
    int64_t until_us; /* on the monotonic clock; 0: free */
};

struct auth {
    struct centre *centre;
    struct secret master_key;
    pthread_mutex_t lock; /* guards `slots` */
    struct entry slots[CACHE_SLOTS];
};

struct auth *auth_new(struct centre *centre, struct str master_key)
{
    struct auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        abort();
    auth->centre = centre;
    auth->master_key = secret_copy(master_key);
    pthread_mutex_init(&auth->lock, NULL);
    return auth;
}

void auth_free(struct auth *auth)
{
    if (!auth)
        return;
    secret_done(&auth->master_key);
    pthread_mutex_destroy(&auth->lock);
    secret_wipe(auth->slots, sizeof auth->slots);
    free(auth);
}

void auth_forget(struct auth *auth)
{
    pthread_mutex_lock(&auth->lock);
    secret_wipe(auth->slots, sizeof auth->slots);
    pthread_mutex_unlock(&auth->lock);
}

const char *permission_name(size_t i)
{
    return i < PERMISSION_COUNT ? permission_names[i] : NULL;
}

enum err permission_parse(struct str name, unsigned *ret_bit)
{
    for (unsigned i = 0; i < PERMISSION_COUNT; i++) {
        if (str_eq(name, str_of(permission_names[i]))) {
            *ret_bit = 1u << i;
            return ERR_OK;
        }
    }
    return ERR_INVALID;
}

/* ---- finding a key ---- */

struct lookup {
    struct str key_id;
    struct entry entry;
    char enc[ENC_MAX];
    size_t enc_length;
    bool found; /* and usable: key and caller are on */
};

static enum err lookup_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct lookup *l = arg;
    struct key_record key;
    struct caller_record caller;
    enum err e;

    l->found = false;
    if ((e = key_sql_find(tx, l->key_id, &key, info)) == ERR_NOT_FOUND)
        return ERR_OK;
    if (e || (e = caller_sql_by_id(tx, key.caller, &caller, info)))
        return e;
    if (!key.on || !caller.on)
        return ERR_OK;
    if (caller.name.n > sizeof l->entry.name || key.secret.n > sizeof l->enc ||
        (key.kind == KEY_BEARER && key.hash.n != sizeof l->entry.hash.b))
        return err_internal(info, "the stored key %.*s is malformed", STR_ARG(l->key_id));

    struct entry *n = &l->entry;
    *n = (struct entry) {
        .kind = key.kind,
        .caller = caller.id,
        .name_length = caller.name.n,
        .permissions = caller.permissions,
        .rate = caller.rate,
    };
    memcpy(n->key_id, l->key_id.p, sizeof n->key_id);
    memcpy(n->name, caller.name.p, caller.name.n);
    if (key.kind == KEY_BEARER)
        memcpy(n->hash.b, key.hash.p, key.hash.n);
    if (key.secret.n)
        memcpy(l->enc, key.secret.p, key.secret.n);
    l->enc_length = key.secret.n;
    l->found = true;
    return ERR_OK;
}

static struct entry *slot_of(struct auth *auth, struct str key_id)
{
    return &auth->slots[str_crc32c(0, key_id) % CACHE_SLOTS];
}

static enum code refuse_auth(struct refusal *refusal, const char *detail)
{
    *refusal = (struct refusal) { .code = CODE_UNAUTHENTICATED, .detail = str_of(detail) };
    return CODE_UNAUTHENTICATED;
}

static enum code decrypt_secret(struct auth *auth, struct lookup *l, struct arena *a,
                                struct refusal *refusal)
{
    struct str plain;
    struct err_info info = { 0 };

    if (secret_decrypt(secret_str(&auth->master_key), auth_secret_name(a, l->key_id),
                       (struct str) { l->enc, l->enc_length }, a, &plain, &info) ||
        plain.n != sizeof l->entry.secret) {
        LOG(auth->centre->env->log, LOG_ERROR, "api.key_unreadable", log_str("key_id", l->key_id),
            log_cstr("why", info.text));
        *refusal = (struct refusal) { .code = CODE_INTERNAL };
        return CODE_INTERNAL;
    }
    memcpy(l->entry.secret, plain.p, plain.n);
    secret_wipe((char *)plain.p, plain.n);
    return CODE_OK;
}

/* The key of that id and kind, from the cache or the store. Unknown ids are not cached: they would
 * drive good ones out. */
static enum code find_key(struct auth *auth, struct str key_id, enum key_kind kind, struct arena *a,
                          struct entry *ret, struct refusal *refusal)
{
    int64_t now_us = env_mono_us(auth->centre->env);

    pthread_mutex_lock(&auth->lock);
    const struct entry *cached = slot_of(auth, key_id);
    bool hit =
        cached->until_us > now_us && memcmp(cached->key_id, key_id.p, sizeof cached->key_id) == 0;
    if (hit)
        *ret = *cached;
    pthread_mutex_unlock(&auth->lock);

    if (!hit) {
        struct lookup l = { .key_id = key_id };
        enum code c = centre_read(auth->centre, "auth_key", 0, lookup_rule, &l, refusal);
        if (!c && l.found && l.entry.kind == KEY_HMAC)
            c = decrypt_secret(auth, &l, a, refusal);
        if (c)
            return c;
        if (!l.found)
            return refuse_auth(refusal, "the key is not valid");
        l.entry.until_us = now_us + AUTH_CACHE_MS * 1000;

        pthread_mutex_lock(&auth->lock);
        *slot_of(auth, key_id) = l.entry;
        pthread_mutex_unlock(&auth->lock);
        *ret = l.entry;
        secret_wipe(&l.entry, sizeof l.entry);
    }
    return ret->kind == kind ? CODE_OK : refuse_auth(refusal, "the key is not valid");
}

static struct identity identity_of(const struct entry *entry, struct arena *a)
{
    return (struct identity) {
        .caller = { entry->caller, str_dup(a, (struct str) { entry->name, entry->name_length }) },
        .permissions = entry->permissions,
        .rate = entry->rate,
    };
}

/* ---- bearer ---- */

static bool key_id_is_one(struct str s)
{
    return s.n == AUTH_KEY_ID_TEXT && str_all_of(s, "0123456789abcdef");
}

static enum code check_bearer(struct auth *auth, struct str authorization, struct arena *a,
                              struct identity *ret, struct refusal *refusal)
{
    struct str scheme = str_cut(&authorization, ' ');
    struct str token = str_trim(authorization);
    struct str key_id = str_sub(token, BEARER_PREFIX.n, AUTH_KEY_ID_TEXT);

    if (!str_eq_nocase(scheme, STR("Bearer")) || token.n != BEARER_TEXT ||
        !str_starts(token, BEARER_PREFIX) || !key_id_is_one(key_id))
        return refuse_auth(refusal, "the key is not valid");

    struct entry entry;
    enum code c = find_key(auth, key_id, KEY_BEARER, a, &entry, refusal);
    if (c)
        return c;
    struct sha256 hash = sha256(token);
    if (!str_eq_secret(sha256_str(&hash), sha256_str(&entry.hash)))
        return refuse_auth(refusal, "the key is not valid");

    *ret = identity_of(&entry, a);
    return CODE_OK;
}

/* ---- signed requests ---- */

struct str auth_signed_text(struct arena *a, const struct signed_parts *p)
{
    return str_printf(a, STR_FMT "\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n" STR_FMT "\n",
                      STR_ARG(p->method), STR_ARG(p->target), STR_ARG(p->timestamp),
                      STR_ARG(p->nonce), STR_ARG(sha256_hex(a, p->body)));
}

struct sha256 auth_signature(struct arena *a, struct str secret, const struct signed_parts *parts)
{
    return hmac_sha256(secret, auth_signed_text(a, parts));
}

/* One of the four headers, exactly once. */
static bool one_header(const struct http_headers *headers, const char *name, struct str *ret)
{
    size_t count;
    *ret = http_header_get(headers, name, &count);
    return count == 1 && ret->n > 0;
}

static enum code check_timestamp(struct str text, int64_t now_ms, struct arena *a,
                                 struct refusal *refusal)
{
    int64_t s;
    if (str_int64(text, &s) || s < 0 || s > INT64_MAX / 1000)
        return refuse_auth(refusal, "X-Fenpay-Timestamp is seconds since 1970");

    int64_t off_ms = now_ms - s * 1000;
    if (off_ms > AUTH_WINDOW_MS || off_ms < -AUTH_WINDOW_MS) {
        refuse_auth(refusal, "");
        refusal->detail =
            str_printf(a, "the timestamp is more than 300 s away from our clock, which says %lld",
                       (long long)(now_ms / 1000));
        return CODE_UNAUTHENTICATED;
    }
    return CODE_OK;
}

static enum code check_signed(struct auth *auth, const struct http_headers *headers,
                              struct signed_parts *parts, int64_t now_ms, struct arena *a,
                              struct identity *ret, struct refusal *refusal)
{
    struct str key_id, signature, given;

    if (!one_header(headers, "X-Fenpay-Key", &key_id) ||
        !one_header(headers, "X-Fenpay-Timestamp", &parts->timestamp) ||
        !one_header(headers, "X-Fenpay-Nonce", &parts->nonce) ||
        !one_header(headers, "X-Fenpay-Signature", &signature))
        return refuse_auth(
            refusal,
            "a signed request has X-Fenpay-Key, -Timestamp, -Nonce and -Signature, each once");
    if (!key_id_is_one(key_id))
        return refuse_auth(refusal, "the key or its signature is not valid");
    if (parts->nonce.n < AUTH_NONCE_MIN || parts->nonce.n > AUTH_NONCE_MAX ||
        !str_all_of(parts->nonce, SET_NONCE))
        return refuse_auth(refusal, "X-Fenpay-Nonce is 8 to 64 of 0-9 A-Z a-z _ -");
    if (signature.n != SIGNATURE_TEXT || str_unhex(a, signature, &given))
        return refuse_auth(refusal, "X-Fenpay-Signature is 64 hex digits");

    enum code c = check_timestamp(parts->timestamp, now_ms, a, refusal);
    if (c)
        return c;

    struct entry entry;
    if ((c = find_key(auth, key_id, KEY_HMAC, a, &entry, refusal)))
        return c;
    struct sha256 wanted =
        auth_signature(a, (struct str) { entry.secret, sizeof entry.secret }, parts);
    secret_wipe(entry.secret, sizeof entry.secret);
    if (!str_eq_secret(sha256_str(&wanted), given))
        return refuse_auth(refusal, "the key or its signature is not valid");

    *ret = identity_of(&entry, a);
    ret->nonce = parts->nonce;
    return CODE_OK;
}

enum code auth_check(struct auth *auth, const struct http_headers *headers, struct str method,
                     struct str target, struct str body, int64_t now_ms, struct arena *a,
                     struct identity *ret, struct refusal *refusal)
{
    size_t bearers;
    struct str authorization = http_header_get(headers, "Authorization", &bearers);
    size_t keys;
    (void)http_header_get(headers, "X-Fenpay-Key", &keys);

    if (bearers + keys == 0)
        return refuse_auth(refusal, "send Authorization: Bearer, or sign the request");
    if (bearers + keys > 1)
        return refuse_auth(refusal, "one way of authentication, once");
    if (bearers)
        return check_bearer(auth, authorization, a, ret, refusal);

    struct signed_parts parts = { .method = method, .target = target, .body = body };
    return check_signed(auth, headers, &parts, now_ms, a, ret, refusal);
}

/* ---- nonces ---- */

void auth_nonce_init(struct nonce_use *use, struct env *env, const struct identity *who,
                     int64_t now_ms)
{
    uint16_t mark;

    env_random(env, &mark, sizeof mark);
    /* A timestamp may be 300 s ahead and is good for 300 s after that. */
    *use = (struct nonce_use) {
        .caller = who->caller.id,
        .nonce = who->nonce,
        .until_ms = now_ms + 2 * AUTH_WINDOW_MS + mark,
    };
}

enum err auth_nonce_rule(struct tx *tx, void *arg, struct err_info *info)
{
    struct nonce_use *use = arg;
    enum err e = nonce_sql_insert(tx, use->caller, use->nonce, use->until_ms, info);

    use->replayed = false;
    if (!e) {
        use->inserted = true;
        return nonce_sql_clear(tx, 4, info);
    }
    if (e != ERR_EXISTS)
        return e;

    /* Seen before: by another request, or by the first run of this rule whose COMMIT answer was
     * lost. */
    int64_t until_ms;
    if ((e = nonce_sql_until(tx, use->caller, use->nonce, &until_ms, info)))
        return e;
    use->replayed = !(use->inserted && until_ms == use->until_ms);
    return ERR_OK;
}

/* ---- making keys ---- */

struct str auth_new_key_id(struct env *env, struct arena *a)
{
    unsigned char b[AUTH_KEY_ID_TEXT / 2];
    env_random(env, b, sizeof b);
    return str_hex(a, b, sizeof b);
}

struct str auth_new_secret(struct env *env, struct arena *a)
{
    unsigned char b[SECRET_BYTES];
    env_random(env, b, sizeof b);
    struct str text = str_base64url(a, (struct str) { (const char *)b, sizeof b });
    secret_wipe(b, sizeof b);
    return text;
}

struct str auth_bearer(struct arena *a, struct str key_id, struct str secret)
{
    return str_printf(a, "fp_" STR_FMT "_" STR_FMT, STR_ARG(key_id), STR_ARG(secret));
}

struct str auth_secret_name(struct arena *a, struct str key_id)
{
    return str_printf(a, "caller_key:" STR_FMT, STR_ARG(key_id));
}
