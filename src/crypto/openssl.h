/* openssl.h -- what the files of crypto/ share among themselves; nobody outside includes it.
 *
 * Algorithms are fetched once a process. Working contexts are kept per thread: building one costs
 * more than using it, and building them in parallel contends inside OpenSSL. A context holds its
 * own reference to the EVP_PKEY (or its own key schedule), so a key may be let go while another
 * thread still keeps a context of it; the id of a kept key is never given again, so a stale context
 * is never found. What a thread keeps is bounded and released when it ends. */
#ifndef FENPAY_CRYPTO_OPENSSL_H
#define FENPAY_CRYPTO_OPENSSL_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/bio.h>
#include <openssl/evp.h>

#include "base/err.h"
#include "base/str.h"

#define KEPT_RSA       16
#define KEPT_AEAD      8
#define AEAD_KEY_MAX   32
#define RSA_BITS_LEAST 1024
#define RSA_BITS_SHORT                                                                             \
    512 /* with rsa_allow_short_keys: what PKCS#1 v1.5 with SHA-256 still fits into */
#define RSA_BITS_MOST 8192

struct algorithms {
    EVP_MD *sha1, *sha256;
    EVP_MAC *hmac;
    EVP_CIPHER *aes128_gcm, *aes256_gcm;
};

struct kept_rsa {
    uint64_t key_id; /* 0: empty */
    uint64_t used;   /* the thread's count of uses when it was last used */
    EVP_PKEY_CTX *verify, *sign;
};

struct kept_aead {
    EVP_CIPHER_CTX *ctx; /* NULL: empty */
    uint64_t used;
    bool encrypt;
    size_t key_n, nonce_n;
    uint8_t key[AEAD_KEY_MAX];
};

struct kept {
    EVP_MD_CTX *sha256;
    EVP_MAC_CTX *hmac;
    uint64_t uses;
    struct kept_rsa rsa[KEPT_RSA];
    struct kept_aead aead[KEPT_AEAD];
};

const struct algorithms *openssl_algorithms(void);

/* What the calling thread keeps. */
struct kept *openssl_kept(void);
void kept_rsa_release(struct kept_rsa *k);
void kept_aead_release(struct kept_aead *k);

/* err_set with OpenSSL's last reason behind `what`; empties the thread's error queue. */
enum err openssl_err(struct err_info *info, enum err e, const char *what);

/* What was printed into a memory BIO, moved to the arena; frees the BIO, which wipes its memory. */
struct str openssl_take_bio(BIO *bio, struct arena *a);

/* For what fails only when memory is exhausted or the installed OpenSSL lacks a basic algorithm:
 * says so and aborts. */
void openssl_must(bool ok, const char *what);

struct rsa_key;
/* Checks type and size and wraps; takes over the caller's reference to `pkey`, also on failure. */
enum err rsa_from_pkey(EVP_PKEY *pkey, bool is_private, struct rsa_key **ret,
                       struct err_info *info);
EVP_PKEY *rsa_pkey(const struct rsa_key *key); /* borrowed */

#endif
