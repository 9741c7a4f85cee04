/* x509.c -- reading certificates, and making self-signed ones for the sandbox and tests.
 *
 * No chain is checked here: a platform certificate is trusted because it came encrypted under our
 * API key, and the channel's rules about that live in channel/. */
#include "crypto/x509.h"

#include <limits.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/arena.h"
#include "base/clock.h"
#include "crypto/openssl.h"

#define SERIAL_BYTES_MAX 20 /* RFC 5280 4.1.2.2 */

static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

static enum err read_time(const ASN1_TIME *t, int64_t *ret)
{
    struct tm tm;
    if (!ASN1_TIME_to_tm(t, &tm))
        return ERR_INVALID;
    struct clock_date d = { .year = tm.tm_year + 1900,
                            .month = tm.tm_mon + 1,
                            .day = tm.tm_mday,
                            .hour = tm.tm_hour,
                            .minute = tm.tm_min,
                            .second = tm.tm_sec };
    *ret = clock_join(&d, 0);
    return ERR_OK;
}

/* "C = CN, O = Tenpay.com, CN = ...": readable, text outside ASCII as UTF-8, control characters
 * escaped. */
static struct str read_name(struct arena *a, const X509_NAME *name)
{
    BIO *bio = BIO_new(BIO_s_mem());
    openssl_must(
        bio && X509_NAME_print_ex(bio, name, 0,
                                  XN_FLAG_ONELINE & ~(unsigned long)ASN1_STRFLGS_ESC_MSB) >= 0,
        "printing a name");
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    struct str s = str_dup(a, (struct str) { p, (size_t)n });
    BIO_free(bio);
    return s;
}

/* Two digits a byte, so that "0C4A..." keeps its zero. */
static enum err read_serial(struct arena *a, const ASN1_INTEGER *serial, struct str *ret)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = (size_t)ASN1_STRING_length(serial);
    const uint8_t *p = ASN1_STRING_get0_data(serial);
    if (ASN1_STRING_type(serial) == V_ASN1_NEG_INTEGER)
        return ERR_INVALID;

    char *hex = arena_alloc(a, 2 * n + 1);
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[p[i] >> 4];
        hex[2 * i + 1] = digits[p[i] & 15];
    }
    *ret = (struct str) { hex, 2 * n };
    return ERR_OK;
}

static enum err read_certificate(X509 *x, struct arena *a, struct certificate *c,
                                 struct err_info *info)
{
    if (read_serial(a, X509_get0_serialNumber(x), &c->serial))
        return err_set(info, ERR_INVALID, "the certificate's serial number is negative");
    if (read_time(X509_get0_notBefore(x), &c->not_before_ms) ||
        read_time(X509_get0_notAfter(x), &c->not_after_ms))
        return openssl_err(info, ERR_INVALID, "the certificate's validity cannot be read");
    c->subject = read_name(a, X509_get_subject_name(x));
    c->issuer = read_name(a, X509_get_issuer_name(x));

    EVP_PKEY *pkey = X509_get_pubkey(x);
    if (!pkey)
        return openssl_err(info, ERR_INVALID, "the certificate's key cannot be read");
    if (!EVP_PKEY_is_a(pkey, "RSA")) {
        EVP_PKEY_free(pkey);
        return ERR_OK;
    }
    return rsa_from_pkey(pkey, false, &c->key, info);
}

enum err certificate_from_pem(struct str pem, struct arena *a, struct certificate *ret,
                              struct err_info *info)
{
    if (pem.n > INT_MAX)
        return err_set(info, ERR_LIMIT, "PEM text is too long");

    BIO *bio = BIO_new_mem_buf(pem.n ? pem.p : "", (int)pem.n);
    openssl_must(bio != NULL, "out of memory");
    X509 *x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (!x)
        return openssl_err(info, ERR_INVALID, "no PEM certificate that can be read");

    struct certificate c = { 0 };
    enum err e = read_certificate(x, a, &c, info);
    X509_free(x);
    if (!e)
        *ret = c;
    return e;
}

void certificate_done(struct certificate *c)
{
    rsa_unref(c->key);
    c->key = NULL;
}

static enum err check_serial(struct str hex, struct err_info *info)
{
    bool fits = hex.n > 0 && hex.n % 2 == 0 && hex.n <= 2 * (size_t)SERIAL_BYTES_MAX &&
                str_all_of(hex, "0123456789ABCDEF");
    if (!fits || (hex.n > 2 && str_starts(hex, STR("00"))))
        return err_set(info, ERR_INVALID,
                       "a serial number is 1 to %d bytes in upper-case hex, the first not 00",
                       SERIAL_BYTES_MAX);
    return ERR_OK;
}

static bool set_serial(X509 *x, const char *hex)
{
    BIGNUM *bn = NULL;
    bool ok = BN_hex2bn(&bn, hex) > 0 && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x));
    BN_free(bn);
    return ok;
}

static bool set_name(X509 *x, struct str common_name)
{
    X509_NAME *name = X509_get_subject_name(x);
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const uint8_t *)common_name.p,
                                      (int)common_name.n, -1, 0) &&
           X509_set_issuer_name(x, name);
}

enum err certificate_make(struct rsa_key *key, struct str common_name, struct str serial_hex,
                          int64_t not_before_ms, int64_t not_after_ms, struct arena *a,
                          struct str *ret_pem, struct err_info *info)
{
    enum err e = check_serial(serial_hex, info);
    if (e)
        return e;
    if (common_name.n < 1 || common_name.n > 64 || !str_is_utf8(common_name))
        return err_set(info, ERR_INVALID, "a common name is 1 to 64 bytes of UTF-8");
    if (not_before_ms > not_after_ms)
        return err_set(info, ERR_INVALID, "a certificate cannot end before it begins");

    X509 *x = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());
    bool ok = x && bio && X509_set_version(x, X509_VERSION_3) &&
              set_serial(x, str_cstr(a, serial_hex)) && set_name(x, common_name) &&
              ASN1_TIME_set(X509_getm_notBefore(x), (time_t)(not_before_ms / 1000)) &&
              ASN1_TIME_set(X509_getm_notAfter(x), (time_t)(not_after_ms / 1000)) &&
              X509_set_pubkey(x, rsa_pkey(key)) &&
              X509_sign(x, rsa_pkey(key), openssl_algorithms()->sha256) > 0 &&
              PEM_write_bio_X509(bio, x);
    if (ok)
        *ret_pem = openssl_take_bio(bio, a);
    else {
        e = openssl_err(info, ERR_INVALID, "cannot make the certificate");
        BIO_free(bio);
    }
    X509_free(x);
    return e;
}
