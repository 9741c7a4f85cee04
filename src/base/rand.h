/* rand.h -- a small seeded generator (xoshiro256**) for tests, jitter and the simulator; never for
 * secrets. */
#ifndef FENPAY_RAND_H
#define FENPAY_RAND_H

#include <stdint.h>

struct rand {
    uint64_t s[4];
};

void rand_seed(struct rand *r, uint64_t seed); /* splitmix64 spreads the seed */
uint64_t rand_next(struct rand *r);
uint64_t rand_below(struct rand *r, uint64_t n); /* 0..n-1, n > 0, unbiased */

#endif
