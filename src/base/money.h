/* money.h -- amounts: integer minor units (fen) with a currency. Nobody but money.c looks inside;
 * every operation is checked. Text <-> fen conversion happens digit by digit; there is no floating
 * point anywhere. */
#ifndef FENPAY_MONEY_H
#define FENPAY_MONEY_H

#include "base/str.h"

/* Amounts are bounded so that sums of three never overflow a 64-bit column. */
#define MONEY_FEN_MAX 10000000000000LL

struct money {
    int64_t fen_;      /* private to money.c */
    char currency_[4]; /* "CNY", NUL-terminated; private to money.c */
};

/* ERR_INVALID: |fen| above MONEY_FEN_MAX, or a currency that is not three capital letters. */
enum err money_of(int64_t fen, struct str currency, struct money *ret);
struct money money_zero(struct money like); /* 0 in the same currency */

int64_t money_fen(struct money m);                /* for storing, binding and printing */
struct str money_currency(const struct money *m); /* view into *m */

bool money_same_currency(struct money a, struct money b);
bool money_eq(struct money a, struct money b); /* amount and currency */
/* Different currencies or overflow: ERR_INVALID. A negative difference is allowed; ask money_sign.
 */
enum err money_add(struct money a, struct money b, struct money *ret);
enum err money_sub(struct money a, struct money b, struct money *ret);
enum err money_mul(struct money a, int64_t times, struct money *ret);
int money_sign(struct money m); /* -1, 0, 1 */
/* -1, 0, 1; ERR_INVALID across currencies. */
enum err money_cmp(struct money a, struct money b, int *ret);

/* "12", "12.3", "12.34"; a leading '-' only when `negative_ok`; anything else (blanks, '+', '1.',
 * '.5', three decimals, exponents, thousands separators, leading zeros as in "007") is ERR_INVALID.
 * "0.10" and "0" are fine. */
enum err money_parse_yuan(struct str text, struct str currency, bool negative_ok,
                          struct money *ret);
struct str money_print_yuan(struct arena *a, struct money m); /* always two decimals */
/* For people, who must not take one for the other: "5.00 CNY (500 fen)". */
struct str money_text(struct arena *a, struct money m);

/* Largest remainder: splits `total` in proportion to `weight[i]` (all >= 0, sum > 0 unless total is
 * 0) so that the shares add up to total; ties go to the lower index. Exact (128-bit products). */
enum err money_allocate(struct money total, const struct money weight[], size_t n,
                        struct money ret_share[]);

/* What `quantity` more units of a line are worth when `already` of `line_quantity` were given back:
 * floor(share * (already + quantity) / line_quantity) - floor(share * already / line_quantity). */
enum err money_share_of(struct money share, int64_t already, int64_t quantity,
                        int64_t line_quantity, struct money *ret);

#endif
