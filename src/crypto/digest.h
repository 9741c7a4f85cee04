/* digest.h -- SHA-256, SHA-1 (bill files only) and HMAC-SHA256. Thread-safe; contexts are kept per
 * thread. */
#ifndef FENPAY_DIGEST_H
#define FENPAY_DIGEST_H

#include <stdint.h>

#include "base/str.h"

struct sha256 {
    uint8_t b[32];
};

struct sha256 sha256(struct str data);
struct sha256 sha256_of(const struct str parts[], size_t n); /* over the concatenation */
struct str sha1_hex(struct arena *a, struct str data);
struct sha256 hmac_sha256(struct str key, struct str data);
struct str sha256_hex(struct arena *a, struct str data);

static inline struct str sha256_str(const struct sha256 *d)
{
    return (struct str) { (const char *)d->b, sizeof d->b };
}

#endif
