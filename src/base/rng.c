/* Philox 4x32-10 (Salmon et al., SC'11) and the distributions on top of it. */
#include "base/rng.h"

#include <math.h>
#include <sys/random.h>
#include <time.h>

uint64_t pd_rng_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

struct pd_rng pd_rng_make(uint64_t seed, uint64_t stream)
{
    return (struct pd_rng){{(uint32_t)seed, (uint32_t)(seed >> 32)},
                           {(uint32_t)stream, (uint32_t)(stream >> 32)}};
}

void pd_rng_block(const struct pd_rng *rng, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = rng->stream[0], c3 = rng->stream[1];
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

static double to_unit(uint32_t hi, uint32_t lo)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

double pd_rng_uniform(const struct pd_rng *rng, uint64_t index)
{
    uint32_t w[4];
    pd_rng_block(rng, index >> 1, w);
    return index & 1 ? to_unit(w[2], w[3]) : to_unit(w[0], w[1]);
}

double pd_rng_normal(const struct pd_rng *rng, uint64_t index)
{
    uint32_t w[4];
    pd_rng_block(rng, index >> 1, w);
    double radius = sqrt(-2.0 * log(1.0 - to_unit(w[0], w[1])));
    double angle = 6.283185307179586 * to_unit(w[2], w[3]);
    return radius * (index & 1 ? sin(angle) : cos(angle));
}

uint64_t pd_rng_fresh_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (long)sizeof seed || !seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15ull + (uint64_t)now.tv_sec + 1;
    }
    return seed;
}
