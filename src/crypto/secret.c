/* secret.c -- wiped values, and configuration values encrypted under the master key. */
#include "crypto/secret.h"

#include <stdlib.h>

#include <openssl/crypto.h>

#include "base/arena.h"
#include "crypto/aead.h"
#include "crypto/openssl.h"

#define PREFIX STR("enc:v1:")
#define NONCE  12
#define TAG    16
#define KEY    32

void secret_wipe(void *p, size_t n)
{
    OPENSSL_cleanse(p, n);
}

struct secret secret_copy(struct str s)
{
    char *p = malloc(s.n + 1);
    openssl_must(p != NULL, "out of memory");
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return (struct secret) { p, s.n };
}

void secret_done(struct secret *s)
{
    if (!s->p)
        return;
    secret_wipe(s->p, s->n);
    free(s->p);
    *s = (struct secret) { 0 };
}

enum err secret_encrypt(struct env *env, struct str master_key, struct str name, struct str plain,
                        struct arena *a, struct str *ret)
{
    if (master_key.n != KEY)
        return ERR_INVALID;

    char nonce[NONCE];
    env_random(env, nonce, sizeof nonce);
    struct str cipher;
    enum err e = aead_encrypt(master_key, (struct str) { nonce, NONCE }, name, plain, a, &cipher);
    if (e)
        return e;

    char *joined = arena_alloc(a, NONCE + cipher.n);
    memcpy(joined, nonce, NONCE);
    memcpy(joined + NONCE, cipher.p, cipher.n);
    struct str text = str_base64url(a, (struct str) { joined, NONCE + cipher.n });
    *ret = str_printf(a, STR_FMT STR_FMT, STR_ARG(PREFIX), STR_ARG(text));
    return ERR_OK;
}

enum err secret_decrypt(struct str master_key, struct str name, struct str enc, struct arena *a,
                        struct str *ret, struct err_info *info)
{
    if (master_key.n != KEY)
        return err_set(info, ERR_INVALID, "the master key must have %d bytes, not %zu", KEY,
                       master_key.n);
    if (!str_starts(enc, PREFIX))
        return err_set(info, ERR_INVALID, "an encrypted value starts with " STR_FMT,
                       STR_ARG(PREFIX));

    struct str bytes;
    enum err e = str_unbase64url(a, str_sub(enc, PREFIX.n, enc.n), &bytes);
    if (e || bytes.n < NONCE + TAG)
        return err_set(info, ERR_INVALID, "the encrypted value is cut or not base64url");

    struct str nonce = str_sub(bytes, 0, NONCE);
    e = aead_decrypt(master_key, nonce, name, str_sub(bytes, NONCE, bytes.n), a, ret);
    if (e == ERR_DENIED)
        return err_set(info, e,
                       "encrypted under another master key, or for another name than '" STR_FMT
                       "', or altered",
                       STR_ARG(name));
    if (e)
        return err_set(info, e, "cannot decrypt the value of '" STR_FMT "'", STR_ARG(name));
    return ERR_OK;
}
