/* openssl.c -- fetched algorithms and the contexts that each thread keeps (see openssl.h). */
#include "crypto/openssl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct algorithms algorithms;
static pthread_key_t kept_key;

void openssl_must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fenpay: OpenSSL failed: %s\n", what);
    ERR_print_errors_fp(stderr);
    abort();
}

enum err openssl_err(struct err_info *info, enum err e, const char *what)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return err_set(info, e, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

struct str openssl_take_bio(BIO *bio, struct arena *a)
{
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    struct str s = str_dup(a, (struct str) { p, (size_t)n });
    BIO_free(bio);
    return s;
}

void kept_rsa_release(struct kept_rsa *k)
{
    EVP_PKEY_CTX_free(k->verify);
    EVP_PKEY_CTX_free(k->sign);
    *k = (struct kept_rsa) { 0 };
}

void kept_aead_release(struct kept_aead *k)
{
    EVP_CIPHER_CTX_free(k->ctx);
    OPENSSL_cleanse(k, sizeof *k);
}

/* The end of a thread. */
static void kept_free(void *p)
{
    struct kept *kept = p;
    for (size_t i = 0; i < KEPT_RSA; i++)
        kept_rsa_release(&kept->rsa[i]);
    for (size_t i = 0; i < KEPT_AEAD; i++)
        kept_aead_release(&kept->aead[i]);
    EVP_MD_CTX_free(kept->sha256);
    EVP_MAC_CTX_free(kept->hmac);
    free(kept);
}

static void init(void)
{
    algorithms = (struct algorithms) {
        .sha1 = EVP_MD_fetch(NULL, "SHA1", NULL),
        .sha256 = EVP_MD_fetch(NULL, "SHA256", NULL),
        .hmac = EVP_MAC_fetch(NULL, "HMAC", NULL),
        .aes128_gcm = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL),
        .aes256_gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL),
    };
    openssl_must(algorithms.sha1 && algorithms.sha256 && algorithms.hmac, "fetching digests");
    openssl_must(algorithms.aes128_gcm && algorithms.aes256_gcm, "fetching AES-GCM");
    openssl_must(pthread_key_create(&kept_key, kept_free) == 0, "no thread key left");
}

const struct algorithms *openssl_algorithms(void)
{
    pthread_once(&once, init);
    return &algorithms;
}

static struct kept *kept_new(void)
{
    struct kept *kept = calloc(1, sizeof *kept);
    openssl_must(kept != NULL, "out of memory");

    kept->sha256 = EVP_MD_CTX_new();
    openssl_must(kept->sha256 && EVP_DigestInit_ex2(kept->sha256, algorithms.sha256, NULL),
                 "SHA-256 context");

    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    kept->hmac = EVP_MAC_CTX_new(algorithms.hmac);
    openssl_must(kept->hmac && EVP_MAC_CTX_set_params(kept->hmac, params), "HMAC context");

    openssl_must(pthread_setspecific(kept_key, kept) == 0, "out of memory");
    return kept;
}

struct kept *openssl_kept(void)
{
    pthread_once(&once, init);
    struct kept *kept = pthread_getspecific(kept_key);
    return kept ? kept : kept_new();
}
