/* rand.c -- xoshiro256** by Blackman and Vigna (public domain), seeded through splitmix64. */
#include "base/rand.h"

#include <assert.h>

void rand_seed(struct rand *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r->s[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t rand_next(struct rand *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rand_below(struct rand *r, uint64_t n)
{
    assert(n > 0);
    uint64_t refuse =
        -n % n; /* 2^64 mod n: below it the last, incomplete round would be favoured */
    uint64_t x;
    do
        x = rand_next(r);
    while (x < refuse);
    return x % n;
}
