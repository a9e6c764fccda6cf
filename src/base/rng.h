/* Counter-based random numbers (Philox 4x32-10): a number is a function of (seed, stream, index), never of
 * order or thread. */
#ifndef PD_BASE_RNG_H
#define PD_BASE_RNG_H

#include <stdint.h>

struct pd_rng {
    uint32_t key[2];
    uint32_t stream[2];
};

/* Spreads a number over all 64 bits, one to one. */
uint64_t pd_rng_mix(uint64_t x);
/* `stream` tells ops and repeated draws apart. */
struct pd_rng pd_rng_make(uint64_t seed, uint64_t stream);
/* Four 32-bit words for the block `block`; element i is word i % 4 of block i / 4. */
void pd_rng_block(const struct pd_rng *rng, uint64_t block, uint32_t out[4]);
/* 53 random bits in [0, 1) for element `index`. */
double pd_rng_uniform(const struct pd_rng *rng, uint64_t index);
/* Standard normal for element `index` (Box-Muller, one pair per element). */
double pd_rng_normal(const struct pd_rng *rng, uint64_t index);
/* A seed that is not zero, from the operating system. */
uint64_t pd_rng_fresh_seed(void);

#endif
