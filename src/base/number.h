/* number.h -- the numbers we mint: orders, payments, refunds, events, incidents.
 *
 * Text, 24 characters, legal as WeChat's out_trade_no and Alipay's: kind letter; date yyyyMMdd,
 * Beijing; slot, 2 characters; snowflake, 12 characters; check character. All but kind and date are
 * Crockford base 32 (0-9 A-Z without I L O U).
 *
 * The 60-bit snowflake (41 bits ms since 2025-01-01 UTC, 9 bits node, 10 bits sequence) is the
 * row's integer key; date and slot are redundant and must agree when a text is parsed. The check
 * character is the sum over the 23 before it of alpha^(position + 1) * value in GF(32) (alpha a
 * root of x^5 + x^2 + 1; the kind letter counts as its distance from 'A', digits of the date as
 * themselves): it catches every single wrong character and every swap of two neighbours. */
#ifndef FENPAY_NUMBER_H
#define FENPAY_NUMBER_H

#include "base/env.h"
#include "base/str.h"

#define NUMBER_TEXT  24
#define NUMBER_SLOTS 1024
#define NUMBER_NODES 512

enum number_kind {
    NUMBER_ORDER = 'O',
    NUMBER_PAYMENT = 'P',
    NUMBER_REFUND = 'R',
    NUMBER_EVENT = 'E',
    NUMBER_INCIDENT = 'I',
    NUMBER_CALLBACK = 'C',
    NUMBER_JOURNAL = 'J',
};

struct number {
    int64_t id;    /* the snowflake, > 0; 0 = no number */
    uint16_t slot; /* 0..1023 */
    enum number_kind kind;
};

struct number_text {
    char s[NUMBER_TEXT + 1];
};

static inline bool number_is(struct number n)
{
    return n.id != 0;
}
struct number number_make(enum number_kind kind, unsigned slot, int64_t id);

struct number_text number_text(struct number n);
struct str number_str(struct arena *a, struct number n); /* STR_NONE for "no number" */
/* ERR_INVALID: wrong length, alphabet (case matters), kind, date that does not agree, check
 * character. `kind` 0 = any. */
enum err number_parse(struct str text, enum number_kind kind, struct number *ret);
int64_t number_ms(int64_t id); /* when it was minted, ms UTC */
/* The smallest id minted at or after that moment: for ranges by time. */
int64_t number_first_id(int64_t ms_utc);

/* Slot of an order: top 10 bits of CRC-32C over caller NUL merchant_order_no, or caller NUL user_id
 * without one. `caller` is the caller's name. Fixed for ever. */
unsigned number_slot(struct str caller, struct str key);
unsigned number_slot_of_text(struct str any); /* for received numbers that do not parse */

/* The generator of one process. Thread-safe. `node` is leased from the database (store/lease.h). */
struct mint;
struct mint *mint_new(struct env *env, unsigned node);
void mint_free(struct mint *m);

/* Reserves `count` (1..1024) consecutive ids: the first is returned, the others are +1 each. Never
 * repeats, also when the clock steps back: it goes on from the last moment it used (borrowing up to
 * 2 s), beyond that it waits through env_sleep_ms. */
int64_t mint_ids(struct mint *m, unsigned count);

#endif
