/* x509.h -- certificates: what we need to know of them. */
#ifndef FENPAY_X509_H
#define FENPAY_X509_H

#include "crypto/rsa.h"

struct certificate {
    struct str serial; /* hex, upper case, leading zeros kept (wechatpay-go 0.2.5 lost one) */
    int64_t not_before_ms, not_after_ms;
    struct str subject, issuer; /* one line each */
    struct rsa_key *key; /* its public key, owned: certificate_done; NULL when it is not RSA */
};

/* The first certificate of the PEM text. Text lives in the arena. */
enum err certificate_from_pem(struct str pem, struct arena *a, struct certificate *ret,
                              struct err_info *info);
void certificate_done(struct certificate *c);

/* Makes a self-signed certificate (sandbox and tests): `serial_hex` as given, valid between the two
 * times (cut to seconds). */
enum err certificate_make(struct rsa_key *key, struct str common_name, struct str serial_hex,
                          int64_t not_before_ms, int64_t not_after_ms, struct arena *a,
                          struct str *ret_pem, struct err_info *info);

#endif
