/* aead.c -- AES-GCM on contexts that keep the key schedule, so that one operation only sets a
 * nonce.
 *
 * The kept copy of a key is wiped when eight others have been used since or the thread ends. */
#include "crypto/aead.h"

#include <limits.h>

#include "base/arena.h"
#include "crypto/openssl.h"

#define TAG       16
#define NONCE_MAX 16

/* The thread's context for this key and direction; NULL when OpenSSL refuses. */
static struct kept_aead *kept_for(struct str key, bool encrypt)
{
    struct kept *kept = openssl_kept();
    struct kept_aead *oldest = &kept->aead[0];
    for (struct kept_aead *k = kept->aead; k < kept->aead + KEPT_AEAD; k++) {
        struct str kept_key = { (const char *)k->key, k->key_n };
        if (k->ctx && k->encrypt == encrypt && str_eq_secret(kept_key, key)) {
            k->used = ++kept->uses;
            return k;
        }
        if (k->used < oldest->used)
            oldest = k;
    }

    const struct algorithms *alg = openssl_algorithms();
    const EVP_CIPHER *cipher = key.n == 32 ? alg->aes256_gcm : alg->aes128_gcm;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (!ctx ||
        !EVP_CipherInit_ex2(ctx, cipher, (const uint8_t *)key.p, NULL, encrypt ? 1 : 0, NULL)) {
        EVP_CIPHER_CTX_free(ctx);
        return NULL;
    }
    kept_aead_release(oldest);
    *oldest = (struct kept_aead) { .ctx = ctx, .used = ++kept->uses, .encrypt = encrypt };
    oldest->key_n = key.n;
    memcpy(oldest->key, key.p, key.n);
    return oldest;
}

/* Ready for one message: nonce set, associated data taken in. */
static EVP_CIPHER_CTX *begin(struct str key, struct str nonce, struct str aad, bool encrypt)
{
    struct kept_aead *k = kept_for(key, encrypt);
    if (!k)
        return NULL;

    if (k->nonce_n != nonce.n) {
        k->nonce_n = 0;
        if (EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_SET_IVLEN, (int)nonce.n, NULL) <= 0)
            return NULL;
        k->nonce_n = nonce.n;
    }
    int n;
    if (!EVP_CipherInit_ex2(k->ctx, NULL, NULL, (const uint8_t *)nonce.p, -1, NULL))
        return NULL;
    if (aad.n && !EVP_CipherUpdate(k->ctx, NULL, &n, (const uint8_t *)aad.p, (int)aad.n))
        return NULL;
    return k->ctx;
}

static enum err check(struct str key, struct str nonce, struct str aad, struct str text)
{
    if (key.n != 16 && key.n != 32)
        return ERR_INVALID;
    if (nonce.n < 1 || nonce.n > NONCE_MAX)
        return ERR_INVALID;
    if (aad.n > INT_MAX || text.n > INT_MAX - TAG)
        return ERR_LIMIT;
    return ERR_OK;
}

enum err aead_decrypt(struct str key, struct str nonce, struct str aad, struct str cipher,
                      struct arena *a, struct str *ret)
{
    enum err e = check(key, nonce, aad, cipher);
    if (e)
        return e;
    if (cipher.n < TAG)
        return ERR_INVALID;

    size_t plain_n = cipher.n - TAG;
    EVP_CIPHER_CTX *ctx = begin(key, nonce, aad, false);
    if (!ctx)
        return openssl_err(NULL, ERR_INTERNAL, "AES-GCM");

    uint8_t tag[TAG];
    uint8_t *plain = arena_alloc(a, plain_n + 1);
    int n = 0, rest = 0;
    memcpy(tag, cipher.p + plain_n, TAG);
    bool ok = (!plain_n ||
               EVP_CipherUpdate(ctx, plain, &n, (const uint8_t *)cipher.p, (int)plain_n) > 0) &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, tag) > 0 &&
              EVP_CipherFinal_ex(ctx, plain + n, &rest) > 0;
    if (!ok) {
        OPENSSL_cleanse(plain, plain_n);
        return openssl_err(NULL, ERR_DENIED, "AES-GCM");
    }
    *ret = (struct str) { (char *)plain, plain_n };
    return ERR_OK;
}

enum err aead_encrypt(struct str key, struct str nonce, struct str aad, struct str plain,
                      struct arena *a, struct str *ret)
{
    enum err e = check(key, nonce, aad, plain);
    if (e)
        return e;

    EVP_CIPHER_CTX *ctx = begin(key, nonce, aad, true);
    if (!ctx)
        return openssl_err(NULL, ERR_INTERNAL, "AES-GCM");

    uint8_t *cipher = arena_alloc(a, plain.n + TAG);
    int n = 0, rest = 0;
    bool ok = (!plain.n ||
               EVP_CipherUpdate(ctx, cipher, &n, (const uint8_t *)plain.p, (int)plain.n) > 0) &&
              EVP_CipherFinal_ex(ctx, cipher + n, &rest) > 0 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, cipher + plain.n) > 0;
    if (!ok)
        return openssl_err(NULL, ERR_INTERNAL, "AES-GCM");
    *ret = (struct str) { (char *)cipher, plain.n + TAG };
    return ERR_OK;
}
