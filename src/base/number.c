/* number.c -- the text form of our numbers and the generator behind them. */
#include "base/number.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"

#define EPOCH_MS  1735689600000LL /* 2025-01-01T00:00:00Z */
#define MS_BITS   41
#define NODE_BITS 9
#define SEQ_BITS  10
#define ID_BITS   (MS_BITS + NODE_BITS + SEQ_BITS)
#define ID_END    (1LL << ID_BITS)
#define SEQ_COUNT (1 << SEQ_BITS)
#define BORROW_MS 2000

_Static_assert(ID_BITS == 60, "twelve characters of five bits");
_Static_assert(NUMBER_NODES == 1 << NODE_BITS && NUMBER_SLOTS == 1 << 10,
               "slots take two characters");

/* Where the parts of the text stand. */
enum { AT_KIND = 0, AT_DATE = 1, AT_SLOT = 9, AT_ID = 11, AT_CHECK = 23 };

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The value of a character plus 1; 0: not in the alphabet. */
/* clang-format off */
static const uint8_t values[256] = {
    ['0'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
    ['A'] = 11, 12, 13, 14, 15, 16, 17, 18,
    ['J'] = 19, 20,
    ['M'] = 21, 22,
    ['P'] = 23, 24, 25, 26, 27,
    ['V'] = 28, 29, 30, 31, 32,
};
/* clang-format on */

/* -1: not in the alphabet */
static int value_of(char c)
{
    return values[(unsigned char)c] - 1;
}

static bool is_kind(char c)
{
    return c && strchr("OPREICJ", c);
}

static void put(char *to, size_t n, uint64_t value)
{
    for (size_t i = n; i > 0; i--) {
        to[i - 1] = alphabet[value & 31];
        value >>= 5;
    }
}

static bool take(const char *from, size_t n, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        int v = value_of(from[i]);
        if (v < 0)
            return false;
        value = value << 5 | (unsigned)v;
    }
    *ret = value;
    return true;
}

static void put_date(char *to, int yyyymmdd)
{
    for (size_t i = 8; i > 0; i--) {
        to[i - 1] = (char)('0' + yyyymmdd % 10);
        yyyymmdd /= 10;
    }
}

/* Multiplication by alpha, the root of x^5 + x^2 + 1. */
static unsigned times_alpha(unsigned v)
{
    v <<= 1;
    return v & 32 ? v ^ 0x25 : v;
}

/* Sum of alpha^(position + 1) * value, by Horner from the last character. `text` consists of legal
 * characters. */
static char check_character(const char *text)
{
    unsigned sum = 0;
    for (size_t i = AT_CHECK; i > 0; i--) {
        int v = i - 1 == AT_KIND ? text[AT_KIND] - 'A' : value_of(text[i - 1]);
        sum = times_alpha(sum ^ (unsigned)v);
    }
    return alphabet[sum];
}

struct number number_make(enum number_kind kind, unsigned slot, int64_t id)
{
    assert(slot < NUMBER_SLOTS);
    assert(id >= 0);
    assert(id < ID_END);
    if (id == 0)
        return (struct number) { 0 };
    return (struct number) { .id = id, .slot = (uint16_t)slot, .kind = kind };
}

struct number_text number_text(struct number n)
{
    struct number_text t = { "" };
    if (!number_is(n))
        return t;
    t.s[AT_KIND] = (char)n.kind;
    put_date(t.s + AT_DATE, clock_beijing_yyyymmdd(number_ms(n.id)));
    put(t.s + AT_SLOT, AT_ID - AT_SLOT, n.slot);
    put(t.s + AT_ID, AT_CHECK - AT_ID, (uint64_t)n.id);
    t.s[AT_CHECK] = check_character(t.s);
    return t;
}

struct str number_str(struct arena *a, struct number n)
{
    if (!number_is(n))
        return STR_NONE;
    struct number_text t = number_text(n);
    return str_dup(a, (struct str) { t.s, NUMBER_TEXT });
}

enum err number_parse(struct str text, enum number_kind kind, struct number *ret)
{
    if (text.n != NUMBER_TEXT || !is_kind(text.p[AT_KIND]) ||
        (kind && (char)kind != text.p[AT_KIND]))
        return ERR_INVALID;
    uint64_t slot, id;
    if (!take(text.p + AT_SLOT, AT_ID - AT_SLOT, &slot) ||
        !take(text.p + AT_ID, AT_CHECK - AT_ID, &id) || id == 0)
        return ERR_INVALID;

    /* There is one text for a number: whatever differs, be it date or check character, is wrong. */
    struct number n = { .id = (int64_t)id,
                        .slot = (uint16_t)slot,
                        .kind = (enum number_kind)text.p[AT_KIND] };
    struct number_text written = number_text(n);
    if (memcmp(written.s, text.p, NUMBER_TEXT) != 0)
        return ERR_INVALID;
    *ret = n;
    return ERR_OK;
}

int64_t number_ms(int64_t id)
{
    return (id >> (NODE_BITS + SEQ_BITS)) + EPOCH_MS;
}

int64_t number_first_id(int64_t ms_utc)
{
    if (ms_utc <= EPOCH_MS)
        return 1;
    if (ms_utc - EPOCH_MS >= 1LL << MS_BITS)
        return ID_END;
    return (ms_utc - EPOCH_MS) << (NODE_BITS + SEQ_BITS);
}

static unsigned slot_of_crc(uint32_t crc)
{
    return crc >> 22;
}

unsigned number_slot(struct str caller, struct str key)
{
    uint32_t crc = str_crc32c(0, caller);
    crc = str_crc32c(crc, (struct str) { "", 1 });
    return slot_of_crc(str_crc32c(crc, key));
}

unsigned number_slot_of_text(struct str any)
{
    return slot_of_crc(str_crc32c(0, any));
}

/* The cursor counts ids of this node: ms since the epoch times SEQ_COUNT, plus the sequence. It
 * only grows. */
struct mint {
    struct env *env;
    unsigned node;
    _Atomic int64_t cursor;
};

struct mint *mint_new(struct env *env, unsigned node)
{
    assert(node < NUMBER_NODES);
    struct mint *m = calloc(1, sizeof(*m));
    if (!m)
        abort();
    m->env = env;
    m->node = node;
    return m;
}

void mint_free(struct mint *m)
{
    free(m);
}

int64_t mint_ids(struct mint *m, unsigned count)
{
    assert(count >= 1);
    assert(count <= SEQ_COUNT);
    int64_t seen = atomic_load(&m->cursor);
    for (;;) {
        int64_t now = env_now_ms(m->env) - EPOCH_MS;
        assert(now > 0); /* a clock before 2025 would make numbers that are not unique once it is
                            set right */

        int64_t first = seen > now * SEQ_COUNT ? seen : now * SEQ_COUNT;
        if (first % SEQ_COUNT + count > SEQ_COUNT) /* +1 each only holds within a millisecond */
            first = (first / SEQ_COUNT + 1) * SEQ_COUNT;
        int64_t ms = first / SEQ_COUNT;
        assert(ms < 1LL << MS_BITS);

        int64_t ahead = ms - now;
        if (ahead > BORROW_MS) {
            env_sleep_ms(m->env, ahead - BORROW_MS);
            seen = atomic_load(&m->cursor);
        } else if (atomic_compare_exchange_weak(&m->cursor, &seen, first + count)) {
            return ms << (NODE_BITS + SEQ_BITS) | (int64_t)m->node << SEQ_BITS | first % SEQ_COUNT;
        }
    }
}
