/* minstd: the generator that upstream's CPU kernels draw from. Each number is 48271 times the one before,
 * modulo 2^31 - 1; numbers lie in [1, 2^31 - 2]. So number n is the seed times the n-th power of 48271, and
 * any part of a sequence can be made by itself. kernels/minstd.h makes many at once. */
#ifndef PD_BASE_MINSTD_H
#define PD_BASE_MINSTD_H

#include <stdint.h>

enum { PD_MINSTD_FACTOR = 48271, PD_MINSTD_MODULUS = 2147483647 };

static inline uint32_t pd_minstd_times(uint32_t a, uint32_t b)
{
    uint64_t p = (uint64_t)a * b;
    uint32_t sum = (uint32_t)(p & PD_MINSTD_MODULUS) + (uint32_t)(p >> 31);
    return sum >= PD_MINSTD_MODULUS ? sum - PD_MINSTD_MODULUS : sum;
}

/* The n-th power of 48271. */
static inline uint32_t pd_minstd_power(uint64_t n)
{
    uint32_t power = 1, square = PD_MINSTD_FACTOR;
    for (; n; n >>= 1) {
        if (n & 1) power = pd_minstd_times(power, square);
        square = pd_minstd_times(square, square);
    }
    return power;
}

/* The state before the first number. Upstream hands seeds over as unsigned: of a negative int some ops make
 * 32 bits, some 64. */
static inline uint32_t pd_minstd_start(uint64_t seed)
{
    uint32_t state = (uint32_t)(seed % PD_MINSTD_MODULUS);
    return state ? state : 1;
}

static inline uint32_t pd_minstd_next(uint32_t *state)
{
    return *state = pd_minstd_times(*state, PD_MINSTD_FACTOR);
}

/* The state after n numbers more. */
static inline uint32_t pd_minstd_skip(uint32_t state, uint64_t n)
{
    return pd_minstd_times(state, pd_minstd_power(n));
}

#endif
