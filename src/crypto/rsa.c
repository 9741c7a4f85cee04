/* rsa.c -- RSA keys, signatures and OAEP.
 *
 * A key is an EVP_PKEY that nobody changes any more, a reference count and an id that no other key
 * of this process ever gets. Signing and verifying happen on the digest, in contexts that the
 * calling thread keeps by that id (openssl.h), so that the padding and digest parameters are set up
 * once. OAEP is rare and builds a context each time. */
#include "crypto/rsa.h"

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <openssl/decoder.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "base/arena.h"
#include "crypto/digest.h"
#include "crypto/openssl.h"

struct rsa_key {
    atomic_uint refs;
    uint64_t id; /* > 0, never given twice */
    EVP_PKEY *pkey;
    bool is_private;
};

static atomic_bool short_keys_allowed;
static _Atomic uint64_t last_id;

void rsa_allow_short_keys(void)
{
    atomic_store(&short_keys_allowed, true);
}

struct rsa_key *rsa_ref(struct rsa_key *key)
{
    unsigned before = atomic_fetch_add_explicit(&key->refs, 1, memory_order_relaxed);
    assert(before > 0);
    return key;
}

void rsa_unref(struct rsa_key *key)
{
    if (!key)
        return;
    unsigned before = atomic_fetch_sub_explicit(&key->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1) {
        EVP_PKEY_free(key->pkey);
        free(key);
    }
}

static struct rsa_key *key_new(EVP_PKEY *pkey, bool is_private)
{
    struct rsa_key *key = malloc(sizeof *key);
    openssl_must(key != NULL, "out of memory");
    atomic_init(&key->refs, 1);
    key->id = atomic_fetch_add(&last_id, 1) + 1;
    key->pkey = pkey;
    key->is_private = is_private;
    return key;
}

/* A pair that does not belong together (a file pasted from two keys) must not become known by the
 * channel's refusals. */
static bool signs_what_it_verifies(struct rsa_key *key)
{
    struct arena *a = arena_new(4096);
    struct str signature;
    bool ok = rsa_sign(key, STR("fenpay"), a, &signature, NULL) == ERR_OK &&
              rsa_verify(key, STR("fenpay"), signature) == ERR_OK;
    arena_free(a);
    return ok;
}

static enum err check_bits(int bits, struct err_info *info)
{
    int least = atomic_load(&short_keys_allowed) ? RSA_BITS_SHORT : RSA_BITS_LEAST;
    if (bits < least || bits > RSA_BITS_MOST)
        return err_set(info, ERR_INVALID, "RSA keys of %d bits are not accepted (%d to %d are)",
                       bits, least, RSA_BITS_MOST);
    return ERR_OK;
}

enum err rsa_from_pkey(EVP_PKEY *pkey, bool is_private, struct rsa_key **ret, struct err_info *info)
{
    struct rsa_key *key = key_new(pkey, is_private);
    enum err e = ERR_OK;
    if (!EVP_PKEY_is_a(pkey, "RSA"))
        e = err_set(info, ERR_INVALID, "not an RSA key");
    if (!e)
        e = check_bits(EVP_PKEY_get_bits(pkey), info);
    if (!e) {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL);
        if (!ctx || EVP_PKEY_public_check(ctx) <= 0)
            e = openssl_err(info, ERR_INVALID, "the RSA key is broken");
        EVP_PKEY_CTX_free(ctx);
    }
    if (!e && is_private && !signs_what_it_verifies(key))
        e = err_set(info, ERR_INVALID, "the private RSA key is broken: its parts do not match");
    if (e) {
        rsa_unref(key);
        return e;
    }
    *ret = key;
    return ERR_OK;
}

EVP_PKEY *rsa_pkey(const struct rsa_key *key)
{
    return key->pkey;
}

/* The PEM blocks that hold an RSA key, by the label of their BEGIN line. */
static const struct pem_kind {
    const char *label, *structure;
    int selection;
} pem_kinds[] = {
    { "PRIVATE KEY", "PrivateKeyInfo", EVP_PKEY_KEYPAIR },
    { "RSA PRIVATE KEY", "type-specific", EVP_PKEY_KEYPAIR },
    { "PUBLIC KEY", "SubjectPublicKeyInfo", EVP_PKEY_PUBLIC_KEY },
    { "RSA PUBLIC KEY", "type-specific", EVP_PKEY_PUBLIC_KEY },
};

static enum err from_der(const struct pem_kind *kind, const uint8_t *der, size_t n,
                         struct rsa_key **ret, struct err_info *info)
{
    EVP_PKEY *pkey = NULL;
    OSSL_DECODER_CTX *ctx = OSSL_DECODER_CTX_new_for_pkey(&pkey, "DER", kind->structure, "RSA",
                                                          kind->selection, NULL, NULL);
    bool ok = ctx && OSSL_DECODER_from_data(ctx, &der, &n) && pkey;
    OSSL_DECODER_CTX_free(ctx);
    if (ok)
        return rsa_from_pkey(pkey, kind->selection == EVP_PKEY_KEYPAIR, ret, info);
    EVP_PKEY_free(pkey);
    return openssl_err(info, ERR_INVALID, "not an RSA key");
}

/* The first PEM block, which must be of the wanted sort. We look at the label ourselves: a
 * certificate or the other half in the wrong place deserves a clear word, and OpenSSL would ask the
 * terminal for a passphrase. */
static enum err from_pem(struct str pem, int selection, struct rsa_key **ret, struct err_info *info)
{
    if (pem.n > INT_MAX)
        return err_set(info, ERR_LIMIT, "PEM text is too long");

    BIO *bio = BIO_new_mem_buf(pem.n ? pem.p : "", (int)pem.n);
    openssl_must(bio != NULL, "out of memory");
    char *label = NULL, *header = NULL;
    uint8_t *der = NULL;
    long n = 0;
    enum err e;
    if (!PEM_read_bio_ex(bio, &label, &header, &der, &n,
                         PEM_FLAG_SECURE | PEM_FLAG_EAY_COMPATIBLE)) {
        e = openssl_err(info, ERR_INVALID, "no PEM block that can be read");
        goto out;
    }

    const struct pem_kind *kind = NULL;
    for (size_t i = 0; i < sizeof pem_kinds / sizeof *pem_kinds; i++)
        if (strcmp(label, pem_kinds[i].label) == 0)
            kind = &pem_kinds[i];

    if (header[0] || strcmp(label, "ENCRYPTED PRIVATE KEY") == 0)
        e = err_set(info, ERR_INVALID,
                    "the key is protected by a passphrase, which is not supported");
    else if (!kind || kind->selection != selection)
        e = err_set(info, ERR_INVALID, "an RSA %s key is needed, the PEM block is a %.60s",
                    selection == EVP_PKEY_KEYPAIR ? "private" : "public", label);
    else
        e = from_der(kind, der, (size_t)n, ret, info);
out:
    OPENSSL_secure_free(label);
    OPENSSL_secure_free(header);
    OPENSSL_secure_clear_free(der, (size_t)n);
    BIO_free(bio);
    return e;
}

enum err rsa_private_from_pem(struct str pem, struct rsa_key **ret, struct err_info *info)
{
    return from_pem(pem, EVP_PKEY_KEYPAIR, ret, info);
}

enum err rsa_public_from_pem(struct str pem, struct rsa_key **ret, struct err_info *info)
{
    return from_pem(pem, EVP_PKEY_PUBLIC_KEY, ret, info);
}

enum err rsa_generate(int bits, struct rsa_key **ret, struct err_info *info)
{
    enum err e = check_bits(bits, info);
    if (e)
        return e;
    EVP_PKEY *pkey = EVP_RSA_gen((unsigned)bits);
    if (!pkey)
        return openssl_err(info, ERR_INTERNAL, "RSA key generation");
    return rsa_from_pkey(pkey, true, ret, info);
}

struct rsa_key *rsa_public_of(struct rsa_key *key)
{
    if (!key->is_private)
        return rsa_ref(key);

    /* Through the public encoding, so that no private number can come along. */
    uint8_t *der = NULL;
    int n = i2d_PUBKEY(key->pkey, &der);
    openssl_must(n > 0, "encoding a public key");
    const uint8_t *in = der;
    EVP_PKEY *pkey = d2i_PUBKEY(NULL, &in, n);
    openssl_must(pkey != NULL, "decoding a public key");
    OPENSSL_free(der);
    return key_new(pkey, false);
}

int rsa_bits(const struct rsa_key *key)
{
    return EVP_PKEY_get_bits(key->pkey);
}

bool rsa_same_public(const struct rsa_key *a, const struct rsa_key *b)
{
    return EVP_PKEY_eq(a->pkey, b->pkey) == 1;
}

struct str rsa_private_pem(struct arena *a, const struct rsa_key *key)
{
    assert(key->is_private);
    BIO *bio = BIO_new(BIO_s_mem());
    openssl_must(bio && PEM_write_bio_PKCS8PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL),
                 "printing a private key");
    return openssl_take_bio(bio, a);
}

struct str rsa_public_pem(struct arena *a, const struct rsa_key *key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    openssl_must(bio && PEM_write_bio_PUBKEY(bio, key->pkey), "printing a public key");
    return openssl_take_bio(bio, a);
}

/* The calling thread's place for this key; the place of the least recently used one when it is new
 * here. */
static struct kept_rsa *kept_for(const struct rsa_key *key)
{
    struct kept *kept = openssl_kept();
    struct kept_rsa *oldest = &kept->rsa[0];
    for (struct kept_rsa *k = kept->rsa; k < kept->rsa + KEPT_RSA; k++) {
        if (k->key_id == key->id) {
            k->used = ++kept->uses;
            return k;
        }
        if (k->used < oldest->used)
            oldest = k;
    }
    kept_rsa_release(oldest);
    oldest->key_id = key->id;
    oldest->used = ++kept->uses;
    return oldest;
}

/* A context for PKCS#1 v1.5 over SHA-256 digests, or NULL with OpenSSL's reasons queued. */
static EVP_PKEY_CTX *signature_ctx(const struct rsa_key *key, int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);
    if (ctx && init(ctx) > 0 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) > 0 &&
        EVP_PKEY_CTX_set_signature_md(ctx, openssl_algorithms()->sha256) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

enum err rsa_sign(struct rsa_key *key, struct str message, struct arena *a, struct str *ret,
                  struct err_info *info)
{
    if (!key->is_private)
        return err_set(info, ERR_INVALID, "signing takes a private key");

    struct kept_rsa *kept = kept_for(key);
    if (!kept->sign && !(kept->sign = signature_ctx(key, EVP_PKEY_sign_init)))
        return openssl_err(info, ERR_INTERNAL, "RSA signature");

    struct sha256 digest = sha256(message);
    size_t n = (size_t)EVP_PKEY_get_size(key->pkey);
    uint8_t *signature = arena_alloc(a, n);
    if (EVP_PKEY_sign(kept->sign, signature, &n, digest.b, sizeof digest.b) <= 0)
        return openssl_err(info, ERR_INTERNAL, "RSA signature");
    *ret = (struct str) { (char *)signature, n };
    return ERR_OK;
}

enum err rsa_verify_parts(struct rsa_key *key, const struct str parts[], size_t n,
                          struct str signature)
{
    if (signature.n != (size_t)EVP_PKEY_get_size(key->pkey))
        return ERR_DENIED;

    struct kept_rsa *kept = kept_for(key);
    if (!kept->verify && !(kept->verify = signature_ctx(key, EVP_PKEY_verify_init)))
        return openssl_err(NULL, ERR_INTERNAL, "RSA verification");

    struct sha256 digest = sha256_of(parts, n);
    if (EVP_PKEY_verify(kept->verify, (const uint8_t *)signature.p, signature.n, digest.b,
                        sizeof digest.b) == 1)
        return ERR_OK;
    ERR_clear_error();
    return ERR_DENIED;
}

enum err rsa_verify(struct rsa_key *key, struct str message, struct str signature)
{
    return rsa_verify_parts(key, &message, 1, signature);
}

static EVP_PKEY_CTX *oaep_ctx(const struct rsa_key *key, int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);
    if (ctx && init(ctx) > 0 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) > 0 &&
        EVP_PKEY_CTX_set_rsa_oaep_md(ctx, openssl_algorithms()->sha1) > 0 &&
        EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, openssl_algorithms()->sha1) > 0)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

enum err rsa_oaep_encrypt(struct rsa_key *key, struct str plain, struct arena *a, struct str *ret,
                          struct err_info *info)
{
    size_t n = (size_t)EVP_PKEY_get_size(key->pkey);
    size_t overhead = 2 * 20 + 2; /* RFC 8017 7.1.1, SHA-1 */
    if (n < overhead || plain.n > n - overhead)
        return err_set(info, ERR_INVALID, "too long to encrypt under an RSA key of %d bits",
                       rsa_bits(key));

    EVP_PKEY_CTX *ctx = oaep_ctx(key, EVP_PKEY_encrypt_init);
    uint8_t *cipher = arena_alloc(a, n);
    bool ok = ctx && EVP_PKEY_encrypt(ctx, cipher, &n, (const uint8_t *)plain.p, plain.n) > 0;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return openssl_err(info, ERR_INTERNAL, "RSA-OAEP encryption");
    *ret = (struct str) { (char *)cipher, n };
    return ERR_OK;
}

enum err rsa_oaep_decrypt(struct rsa_key *key, struct str cipher, struct arena *a, struct str *ret,
                          struct err_info *info)
{
    if (!key->is_private)
        return err_set(info, ERR_INVALID, "decrypting takes a private key");

    size_t n = (size_t)EVP_PKEY_get_size(key->pkey);
    EVP_PKEY_CTX *ctx = oaep_ctx(key, EVP_PKEY_decrypt_init);
    uint8_t *plain = arena_alloc(a, n);
    bool ok = cipher.n == n && ctx &&
              EVP_PKEY_decrypt(ctx, plain, &n, (const uint8_t *)cipher.p, cipher.n) > 0;
    EVP_PKEY_CTX_free(ctx);
    ERR_clear_error();
    if (!ok) /* one word for every reason: which one it was helps only an attacker */
        return err_set(info, ERR_DENIED, "not encrypted for this key");
    *ret = (struct str) { (char *)plain, n };
    return ERR_OK;
}
