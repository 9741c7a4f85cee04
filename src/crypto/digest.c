/* digest.c -- hashes and HMAC on the contexts that the thread keeps.
 *
 * A digest cannot fail for any reason a caller could handle, so nothing here returns an error. */
#include "crypto/digest.h"

#include "crypto/openssl.h"

struct sha256 sha256_of(const struct str parts[], size_t n)
{
    EVP_MD_CTX *ctx = openssl_kept()->sha256;
    openssl_must(EVP_DigestInit_ex2(ctx, NULL, NULL), "SHA-256");
    for (size_t i = 0; i < n; i++)
        openssl_must(EVP_DigestUpdate(ctx, parts[i].p, parts[i].n), "SHA-256");

    struct sha256 d;
    openssl_must(EVP_DigestFinal_ex(ctx, d.b, NULL), "SHA-256");
    return d;
}

struct sha256 sha256(struct str data)
{
    return sha256_of(&data, 1);
}

struct str sha256_hex(struct arena *a, struct str data)
{
    struct sha256 d = sha256(data);
    return str_hex(a, d.b, sizeof d.b);
}

struct str sha1_hex(struct arena *a, struct str data)
{
    uint8_t d[EVP_MAX_MD_SIZE];
    unsigned n;
    openssl_must(EVP_Digest(data.p, data.n, d, &n, openssl_algorithms()->sha1, NULL), "SHA-1");
    return str_hex(a, d, n);
}

struct sha256 hmac_sha256(struct str key, struct str data)
{
    /* A NULL key would mean "the previous one" to OpenSSL: an empty key must be a pointer to
     * nothing. */
    static const uint8_t nothing[1];
    const uint8_t *k = key.n ? (const uint8_t *)key.p : nothing;

    EVP_MAC_CTX *ctx = openssl_kept()->hmac;
    struct sha256 d;
    size_t n;
    openssl_must(EVP_MAC_init(ctx, k, key.n, NULL), "HMAC");
    openssl_must(EVP_MAC_update(ctx, (const uint8_t *)data.p, data.n), "HMAC");
    openssl_must(EVP_MAC_final(ctx, d.b, &n, sizeof d.b) && n == sizeof d.b, "HMAC");
    return d;
}
