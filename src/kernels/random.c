/* See random.h. The rounds of Philox run over 16 blocks side by side, so that gcc can use vectors. */
#include "kernels/random.h"

#include "kernels/clones.h"

#define SIDE 16

PD_CLONES static void sixteen(const struct pd_rng *rng, uint64_t first, uint32_t *out)
{
    uint32_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    for (int i = 0; i < SIDE; i++) {
        uint64_t block = first + (uint64_t)i;
        c0[i] = (uint32_t)block;
        c1[i] = (uint32_t)(block >> 32);
        c2[i] = rng->stream[0];
        c3[i] = rng->stream[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SIDE; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < SIDE; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

void pd_random_words(const struct pd_rng *rng, uint64_t first, int64_t blocks, uint32_t *out)
{
    int64_t i = 0;
    for (; i + SIDE <= blocks; i += SIDE)
        sixteen(rng, first + (uint64_t)i, out + 4 * i);
    for (; i < blocks; i++)
        pd_rng_block(rng, first + (uint64_t)i, out + 4 * i);
}
