/* aead.h -- AES-GCM with a 16-byte tag behind the ciphertext.
 *
 * Production keys are 32 bytes; 16-byte keys exist for the vendors' own test vectors. The context
 * and key schedule are kept per thread and key. Nothing of the plaintext is handed out before the
 * tag was checked. */
#ifndef FENPAY_AEAD_H
#define FENPAY_AEAD_H

#include "base/err.h"
#include "base/str.h"

/* ERR_INVALID: key not 16 or 32 bytes, nonce not 1..16 bytes, ciphertext shorter than the tag.
 * ERR_DENIED: the tag does not match. */
enum err aead_decrypt(struct str key, struct str nonce, struct str aad, struct str cipher,
                      struct arena *a, struct str *ret);
enum err aead_encrypt(struct str key, struct str nonce, struct str aad, struct str plain,
                      struct arena *a, struct str *ret);

#endif
