/* keys.c -- the keys of one WeChat account: the merchant's own, the APIv3 keys, and a table of what
 * the channel signs with.
 *
 * The table holds both kinds at once, looked up by the exact header value: during the switch from
 * certificates to the public key both arrive (bug list E23). A set is immutable once made; a
 * refresh makes another. Whatever does not fit together is refused at load, not when the first
 * callback arrives. */
#include "channel/wechat/wechat.h"

#include "base/clock.h"
#include "crypto/x509.h"

static const char hex_set[] = "0123456789ABCDEFabcdef";

/* Values that stand inside quotes in a header, or in a path. */
static enum err check_word(struct str value, const char *field, size_t max, struct err_info *info)
{
    if (value.n == 0 || value.n > max)
        return err_field(info, ERR_INVALID, field, "must have 1 to %zu characters", max);
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c <= ' ' || c > '~' || c == '"' || c == '\\')
            return err_field(info, ERR_INVALID, field,
                             "holds a character that is neither letter, digit nor mark");
    }
    return ERR_OK;
}

static enum err check_apiv3(struct str key, const char *field, struct err_info *info)
{
    if (key.n != WECHAT_APIV3_KEY)
        return err_field(info, ERR_INVALID, field, "must have exactly 32 characters, it has %zu",
                         key.n);
    for (size_t i = 0; i < key.n; i++) {
        if (key.p[i] <= ' ' || key.p[i] > '~')
            return err_field(info, ERR_INVALID, field, "must be printable ASCII");
    }
    return ERR_OK;
}

/* The serial comes from the certificate wherever there is one: typed ones go stale (bug list A8).
 */
static enum err open_merchant(struct wechat_keys *keys, const struct wechat_config *config,
                              int64_t now_ms, struct err_info *info)
{
    enum err e = rsa_private_from_pem(config->merchant_key, &keys->merchant, info);
    if (e)
        return err_field(info, e, "merchant_key", "not a usable RSA private key");
    if (config->merchant_cert.n == 0) {
        if (config->merchant_serial.n == 0 || config->merchant_serial.n > 64 ||
            !str_all_of(config->merchant_serial, hex_set))
            return err_field(info, ERR_INVALID, "merchant_serial",
                             "give merchant_cert, or its serial in hex");
        keys->merchant_serial = str_dup(keys->arena, config->merchant_serial);
        return ERR_OK;
    }

    struct certificate cert;
    if ((e = certificate_from_pem(config->merchant_cert, keys->arena, &cert, info)))
        return err_field(info, e, "merchant_cert", "not a certificate");
    if (!cert.key || !rsa_same_public(keys->merchant, cert.key))
        e = err_field(info, ERR_INVALID, "merchant_cert", "does not belong to merchant_key");
    else if (config->merchant_serial.n && !str_eq_nocase(config->merchant_serial, cert.serial))
        e = err_field(info, ERR_INVALID, "merchant_serial", "the certificate's is " STR_FMT,
                      STR_ARG(cert.serial));
    else if (cert.not_after_ms <= now_ms)
        e = err_field(info, ERR_INVALID, "merchant_cert", "has expired");
    keys->merchant_serial = cert.serial;
    keys->merchant_not_after_ms = cert.not_after_ms;
    certificate_done(&cert);
    return e;
}

static enum err open_apiv3(struct wechat_keys *keys, const struct wechat_config *config,
                           struct err_info *info)
{
    enum err e = check_apiv3(config->apiv3_key, "apiv3_key", info);
    if (e)
        return e;
    keys->apiv3[keys->apiv3_count++] = str_dup(keys->arena, config->apiv3_key);
    if (config->apiv3_key_previous.n == 0)
        return ERR_OK;
    if ((e = check_apiv3(config->apiv3_key_previous, "apiv3_key_previous", info)))
        return e;
    keys->apiv3[keys->apiv3_count++] = str_dup(keys->arena, config->apiv3_key_previous);
    return ERR_OK;
}

enum err wechat_key_of_certificate(struct str pem, struct arena *a, struct wechat_key *ret,
                                   struct err_info *info)
{
    struct certificate cert;
    enum err e = certificate_from_pem(pem, a, &cert, info);
    if (e)
        return e;
    if (!cert.key) {
        certificate_done(&cert);
        return err_set(info, ERR_INVALID, "not an RSA certificate");
    }
    *ret = (struct wechat_key) {
        .id = cert.serial,
        .certificate = true,
        .key = cert.key,
        .not_before_ms = cert.not_before_ms,
        .not_after_ms = cert.not_after_ms,
    };
    return ERR_OK;
}

static enum err open_public_key(struct wechat_keys *keys, const struct wechat_config *config,
                                struct err_info *info)
{
    if (config->public_key.n == 0 && config->public_key_id.n == 0)
        return ERR_OK;
    if (config->public_key_id.n == 0)
        return err_field(info, ERR_INVALID, "public_key_id", "is missing: public_key needs it");
    if (config->public_key.n == 0)
        return err_field(info, ERR_INVALID, "public_key", "is missing: public_key_id needs it");
    enum err e = check_word(config->public_key_id, "public_key_id", 128, info);
    if (e)
        return e;
    if (!str_starts(config->public_key_id, STR("PUB_KEY_ID_")))
        return err_field(info, ERR_INVALID, "public_key_id",
                         "must begin with PUB_KEY_ID_, as the merchant platform shows it");
    struct wechat_key *entry = &keys->table[keys->count];
    if ((e = rsa_public_from_pem(config->public_key, &entry->key, info)))
        return err_field(info, e, "public_key", "not a usable RSA public key");
    if (rsa_same_public(keys->merchant, entry->key)) {
        rsa_unref(entry->key);
        return err_field(info, ERR_INVALID, "public_key",
                         "is the merchant's own key, not WeChat Pay's");
    }
    entry->id = str_dup(keys->arena, config->public_key_id);
    keys->count++;
    return ERR_OK;
}

static enum err open_certificates(struct wechat_keys *keys, const struct wechat_config *config,
                                  struct err_info *info)
{
    for (size_t i = 0; i < config->platform_certs.count; i++) {
        struct wechat_key entry;
        enum err e =
            wechat_key_of_certificate(config->platform_certs.items[i], keys->arena, &entry, info);
        if (e)
            return err_field(info, e, "platform_certs", "number %zu is not an RSA certificate",
                             i + 1);
        bool own = rsa_same_public(keys->merchant, entry.key);
        if (own || wechat_key_find(keys->table, keys->count, entry.id)) {
            rsa_unref(entry.key);
            if (own)
                return err_field(info, ERR_INVALID, "platform_certs",
                                 "number %zu is the merchant's own certificate", i + 1);
            continue;
        }
        keys->table[keys->count++] = entry;
    }
    return ERR_OK;
}

static bool is_expired(const struct wechat_key *key, int64_t now_ms)
{
    return key->not_after_ms && key->not_after_ms <= now_ms;
}

/* Expired certificates are kept (they verify stored callbacks), but something must be able to
 * verify today. */
static enum err check_can_verify(const struct wechat_keys *keys, const struct wechat_config *config,
                                 int64_t now_ms, struct err_info *info)
{
    if (config->download_certs)
        return ERR_OK;
    for (size_t i = 0; i < keys->count; i++) {
        if (!is_expired(&keys->table[i], now_ms))
            return ERR_OK;
    }
    return err_field(info, ERR_INVALID, "public_key",
                     "nothing to verify WeChat Pay's signatures with: give public_key and "
                     "public_key_id, platform_certs, "
                     "or download_certs: true");
}

static struct wechat_keys *new_set(size_t max)
{
    struct arena *a = arena_new(4096);
    arena_mark_secret(a);
    struct wechat_keys *keys = arena_one(a, struct wechat_keys);
    keys->arena = a;
    keys->table = arena_array(a, max, sizeof keys->table[0]);
    return keys;
}

enum err wechat_keys_open(struct account *account, struct env *env, struct err_info *info)
{
    const struct wechat_config *config = &account->config.wechat;
    int64_t now_ms = env_now_ms(env);
    if (config->mchid.n == 0 || config->mchid.n > 32 || !str_all_of(config->mchid, "0123456789"))
        return err_field(info, ERR_INVALID, "mchid", "must be 1 to 32 digits");
    enum err e = check_word(config->appid, "appid", 32, info);
    if (e)
        return e;

    struct wechat_keys *keys = new_set(1 + config->platform_certs.count);
    if ((e = open_merchant(keys, config, now_ms, info)) || (e = open_apiv3(keys, config, info)) ||
        (e = open_public_key(keys, config, info)) || (e = open_certificates(keys, config, info)) ||
        (e = check_can_verify(keys, config, now_ms, info))) {
        wechat_keys_free(keys);
        return e;
    }
    account->keys = keys;
    return ERR_OK;
}

void wechat_keys_free(struct wechat_keys *keys)
{
    if (!keys)
        return;
    rsa_unref(keys->merchant);
    for (size_t i = 0; i < keys->count; i++)
        rsa_unref(keys->table[i].key);
    arena_free(keys->arena);
}

void wechat_keys_close(struct account *account)
{
    wechat_keys_free(account->keys);
    account->keys = NULL;
}

static void add_key(struct wechat_keys *keys, const struct wechat_key *key)
{
    if (wechat_key_find(keys->table, keys->count, key->id))
        return;
    struct wechat_key *entry = &keys->table[keys->count++];
    *entry = *key;
    entry->id = str_dup(keys->arena, key->id);
    entry->key = rsa_ref(key->key);
}

struct wechat_keys *wechat_keys_with(const struct wechat_keys *old, const struct wechat_key more[],
                                     size_t n)
{
    struct wechat_keys *keys = new_set(old->count + n);
    keys->merchant = rsa_ref(old->merchant);
    keys->merchant_serial = str_dup(keys->arena, old->merchant_serial);
    keys->merchant_not_after_ms = old->merchant_not_after_ms;
    keys->apiv3_count = old->apiv3_count;
    for (size_t i = 0; i < old->apiv3_count; i++)
        keys->apiv3[i] = str_dup(keys->arena, old->apiv3[i]);
    for (size_t i = 0; i < old->count; i++)
        add_key(keys, &old->table[i]);
    for (size_t i = 0; i < n; i++)
        add_key(keys, &more[i]);
    return keys;
}

/* Serials are compared as text, never as numbers: leading zeros count, and PUB_KEY_ID_… is no
 * number. */
const struct wechat_key *wechat_key_find(const struct wechat_key table[], size_t n,
                                         struct str serial)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].certificate ? str_eq_nocase(table[i].id, serial) : str_eq(table[i].id, serial))
            return &table[i];
    }
    return NULL;
}

const struct wechat_key *wechat_key_preferred(const struct wechat_keys *keys, int64_t now_ms)
{
    const struct wechat_key *best = NULL;
    for (size_t i = 0; i < keys->count; i++) {
        const struct wechat_key *key = &keys->table[i];
        if (!key->certificate)
            return key;
        if (key->not_before_ms > now_ms || is_expired(key, now_ms))
            continue;
        if (!best || key->not_before_ms > best->not_before_ms)
            best = key;
    }
    return best;
}

/* A certificate beside one that lasts longer, or beside the public key, has a successor. */
static bool is_replaced(const struct wechat_keys *keys, const struct wechat_key *key)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct wechat_key *other = &keys->table[i];
        if (other->not_after_ms == 0 || other->not_after_ms > key->not_after_ms)
            return key->not_after_ms != 0;
    }
    return false;
}

size_t wechat_keys_notes(const struct account *account, struct arena *a, struct key_note ret[],
                         size_t max)
{
    const struct wechat_keys *keys = wechat_keys_of(account);
    size_t n = 0;
    if (keys->merchant_not_after_ms && n < max)
        ret[n++] = (struct key_note) { .what = str_printf(a, "merchant certificate " STR_FMT,
                                                          STR_ARG(keys->merchant_serial)),
                                       .not_after_ms = keys->merchant_not_after_ms };
    for (size_t i = 0; i < keys->count && n < max; i++) {
        const struct wechat_key *key = &keys->table[i];
        struct str id = key->id;
        ret[n++] = (struct key_note) {
            .what = key->certificate ? str_printf(a, "platform certificate " STR_FMT, STR_ARG(id))
                                     : str_printf(a, "WeChat Pay public key " STR_FMT, STR_ARG(id)),
            .not_after_ms = key->not_after_ms,
            .replaced = is_replaced(keys, key)
        };
    }
    return n;
}
