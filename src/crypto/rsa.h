/* rsa.h -- RSA keys and RSASSA-PKCS1-v1_5 with SHA-256, as WeChat Pay v3 and Alipay's RSA2 use it.
 *
 * Keys are immutable once made and shared between threads (ref-counted); the working contexts that
 * make a verification cost 17 us instead of 20 are kept per thread and key inside (they are let go
 * when a thread has used 16 newer keys). */
#ifndef FENPAY_RSA_H
#define FENPAY_RSA_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct rsa_key;

/* PEM: PKCS#8 or PKCS#1 private keys, SPKI or PKCS#1 public keys. Anything below 1024 bits is
 * refused unless rsa_allow_short_keys was called (simulator and tests). Passphrases are not
 * supported. A key is checked before it is given out (3 ms), a private one by signing. */
enum err rsa_private_from_pem(struct str pem, struct rsa_key **ret, struct err_info *info);
enum err rsa_public_from_pem(struct str pem, struct rsa_key **ret, struct err_info *info);
enum err rsa_generate(int bits, struct rsa_key **ret, struct err_info *info);
struct rsa_key *rsa_public_of(struct rsa_key *key); /* the public half, new reference */
struct rsa_key *rsa_ref(struct rsa_key *key);
void rsa_unref(struct rsa_key *key); /* NULL is fine */
void rsa_allow_short_keys(void);

int rsa_bits(const struct rsa_key *key);
/* The private key belongs to the public one. */
bool rsa_same_public(const struct rsa_key *a, const struct rsa_key *b);
/* PKCS#8; the key must be private. */
struct str rsa_private_pem(struct arena *a, const struct rsa_key *key);
struct str rsa_public_pem(struct arena *a, const struct rsa_key *key);

/* Signature as raw bytes. ERR_INVALID: the key is not private. */
enum err rsa_sign(struct rsa_key *key, struct str message, struct arena *a, struct str *ret,
                  struct err_info *info);
/* ERR_DENIED: does not verify (whatever the reason: length, padding, digest). */
enum err rsa_verify(struct rsa_key *key, struct str message, struct str signature);
/* The same, message in parts, without joining them. */
enum err rsa_verify_parts(struct rsa_key *key, const struct str parts[], size_t n,
                          struct str signature);

/* RSAES-OAEP with SHA-1 (sensitive fields). ERR_INVALID: too long for the key. ERR_DENIED: not
 * encrypted for this key, whatever the reason. */
enum err rsa_oaep_encrypt(struct rsa_key *key, struct str plain, struct arena *a, struct str *ret,
                          struct err_info *info);
enum err rsa_oaep_decrypt(struct rsa_key *key, struct str cipher, struct arena *a, struct str *ret,
                          struct err_info *info);

#endif
