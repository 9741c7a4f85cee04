/* secret.h -- a value that must not outlive its use: wiped when let go, never printed.
 *
 * Also the "enc:" form of configuration values: enc:v1:<base64url of nonce(12) | ciphertext | tag>,
 * AES-256-GCM under the master key, the value's name as associated data, so that one value cannot
 * be put in another's place. */
#ifndef FENPAY_SECRET_H
#define FENPAY_SECRET_H

#include "base/env.h"
#include "base/err.h"
#include "base/str.h"

struct secret {
    char *p;
    size_t n;
};

struct secret secret_copy(struct str s);
void secret_done(struct secret *s); /* wipes and frees; safe twice */
static inline struct str secret_str(const struct secret *s)
{
    return (struct str) { s->p, s->n };
}
void secret_wipe(void *p, size_t n); /* not optimised away */

enum err secret_encrypt(struct env *env, struct str master_key, struct str name, struct str plain,
                        struct arena *a, struct str *ret);
enum err secret_decrypt(struct str master_key, struct str name, struct str enc, struct arena *a,
                        struct str *ret, struct err_info *info);

#endif
