/* money.c -- the only file that looks inside struct money. */
#include "base/money.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"

static bool in_range(int64_t fen)
{
    return fen >= -MONEY_FEN_MAX && fen <= MONEY_FEN_MAX;
}

/* `like` with another amount; ERR_INVALID beyond the range. */
static enum err with(struct money like, int64_t fen, struct money *ret)
{
    if (!in_range(fen))
        return ERR_INVALID;
    like.fen_ = fen;
    *ret = like;
    return ERR_OK;
}

enum err money_of(int64_t fen, struct str currency, struct money *ret)
{
    if (currency.n != 3)
        return ERR_INVALID;
    for (size_t i = 0; i < 3; i++)
        if (currency.p[i] < 'A' || currency.p[i] > 'Z')
            return ERR_INVALID;
    struct money m = { 0 };
    memcpy(m.currency_, currency.p, 3);
    return with(m, fen, ret);
}

struct money money_zero(struct money like)
{
    like.fen_ = 0;
    return like;
}

int64_t money_fen(struct money m)
{
    return m.fen_;
}

struct str money_currency(const struct money *m)
{
    return str_of(m->currency_);
}

bool money_same_currency(struct money a, struct money b)
{
    return memcmp(a.currency_, b.currency_, sizeof(a.currency_)) == 0;
}

bool money_eq(struct money a, struct money b)
{
    return a.fen_ == b.fen_ && money_same_currency(a, b);
}

enum err money_add(struct money a, struct money b, struct money *ret)
{
    int64_t fen;
    if (!money_same_currency(a, b) || __builtin_add_overflow(a.fen_, b.fen_, &fen))
        return ERR_INVALID;
    return with(a, fen, ret);
}

enum err money_sub(struct money a, struct money b, struct money *ret)
{
    int64_t fen;
    if (!money_same_currency(a, b) || __builtin_sub_overflow(a.fen_, b.fen_, &fen))
        return ERR_INVALID;
    return with(a, fen, ret);
}

enum err money_mul(struct money a, int64_t times, struct money *ret)
{
    int64_t fen;
    if (__builtin_mul_overflow(a.fen_, times, &fen))
        return ERR_INVALID;
    return with(a, fen, ret);
}

int money_sign(struct money m)
{
    return m.fen_ < 0 ? -1 : m.fen_ > 0;
}

enum err money_cmp(struct money a, struct money b, int *ret)
{
    if (!money_same_currency(a, b))
        return ERR_INVALID;
    *ret = a.fen_ < b.fen_ ? -1 : a.fen_ > b.fen_;
    return ERR_OK;
}

enum err money_parse_yuan(struct str text, struct str currency, bool negative_ok, struct money *ret)
{
    bool negative = negative_ok && text.n && text.p[0] == '-';
    if (negative)
        text = str_sub(text, 1, text.n - 1);

    struct str fraction = text;
    struct str whole = str_cut(&fraction, '.');
    bool dot = fraction.p != NULL;
    if (whole.n == 0 || !str_all_of(whole, "0123456789") || (whole.p[0] == '0' && whole.n > 1))
        return ERR_INVALID;
    if (dot && (fraction.n < 1 || fraction.n > 2 || !str_all_of(fraction, "0123456789")))
        return ERR_INVALID;

    int64_t yuan;
    if (str_int64(whole, &yuan) || yuan > MONEY_FEN_MAX / 100)
        return ERR_INVALID;
    int64_t fen = yuan * 100;
    if (fraction.n >= 1)
        fen += (fraction.p[0] - '0') * 10;
    if (fraction.n == 2)
        fen += fraction.p[1] - '0';
    return money_of(negative ? -fen : fen, currency, ret);
}

struct str money_print_yuan(struct arena *a, struct money m)
{
    int64_t fen = m.fen_ < 0 ? -m.fen_ : m.fen_;
    return str_printf(a, "%s%lld.%02lld", m.fen_ < 0 ? "-" : "", (long long)(fen / 100),
                      (long long)(fen % 100));
}

struct str money_text(struct arena *a, struct money m)
{
    return str_printf(a, STR_FMT " %s (%lld %s)", STR_ARG(money_print_yuan(a, m)), m.currency_,
                      (long long)m.fen_, strcmp(m.currency_, "CNY") == 0 ? "fen" : "minor units");
}

struct part {
    int64_t share, remainder;
    size_t i;
};

/* The largest remainder first, ties by the lower index. */
static int by_remainder(const void *left, const void *right)
{
    const struct part *a = left, *b = right;
    if (a->remainder != b->remainder)
        return a->remainder > b->remainder ? -1 : 1;
    return a->i < b->i ? -1 : 1;
}

static enum err weight_sum(struct money total, const struct money weight[], size_t n, int64_t *ret)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!money_same_currency(total, weight[i]) || weight[i].fen_ < 0 ||
            __builtin_add_overflow(sum, weight[i].fen_, &sum))
            return ERR_INVALID;
    *ret = sum;
    return ERR_OK;
}

enum err money_allocate(struct money total, const struct money weight[], size_t n,
                        struct money ret_share[])
{
    int64_t sum;
    if (total.fen_ < 0 || weight_sum(total, weight, n, &sum) || (sum == 0 && total.fen_ != 0))
        return ERR_INVALID;

    struct part *part = calloc(n + 1, sizeof(*part));
    if (!part)
        abort();
    int64_t left = total.fen_;
    for (size_t i = 0; i < n; i++) {
        part[i].i = i;
        if (sum == 0)
            continue;
        __int128 product = (__int128)total.fen_ * weight[i].fen_;
        part[i].share = (int64_t)(product / sum);
        part[i].remainder = (int64_t)(product % sum);
        left -= part[i].share;
    }
    qsort(part, n, sizeof(*part), by_remainder);
    assert(left >= 0);
    assert((uint64_t)left < n + (n == 0)); /* each floor lost less than one fen */
    for (size_t i = 0; i < (size_t)left; i++)
        part[i].share++;
    for (size_t i = 0; i < n; i++) {
        ret_share[part[i].i] = total; /* the currency */
        ret_share[part[i].i].fen_ = part[i].share;
    }
    free(part);
    return ERR_OK;
}

enum err money_share_of(struct money share, int64_t already, int64_t quantity,
                        int64_t line_quantity, struct money *ret)
{
    if (share.fen_ < 0 || already < 0 || quantity < 0 || line_quantity <= 0 ||
        already > line_quantity || quantity > line_quantity - already)
        return ERR_INVALID;
    __int128 after = (__int128)share.fen_ * (already + quantity) / line_quantity;
    __int128 before = (__int128)share.fen_ * already / line_quantity;
    return with(share, (int64_t)(after - before), ret);
}
