/* See random.h. Each round of Philox runs over many blocks side by side, so that gcc can use vectors; the
 * count is a variable because gcc would unroll a fixed one and then not vectorise it. */
#include "kernels/random.h"

#include "kernels/clones.h"

#define SIDE 64

PD_CLONES static void side_by_side(const struct pd_rng *rng, uint64_t first, int n, uint32_t *restrict out)
{
    uint32_t c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
    uint32_t k0 = rng->key[0], k1 = rng->key[1];
    for (int i = 0; i < n; i++) {
        uint64_t block = first + (uint64_t)i;
        c0[i] = (uint32_t)block;
        c1[i] = (uint32_t)(block >> 32);
        c2[i] = rng->stream[0];
        c3[i] = rng->stream[1];
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < n; i++) {
            const uint32_t a = c0[i], b = c2[i];
            c0[i] = (uint32_t)((uint64_t)0xCD9E8D57u * b >> 32) ^ c1[i] ^ k0;
            c1[i] = 0xCD9E8D57u * b;
            c2[i] = (uint32_t)((uint64_t)0xD2511F53u * a >> 32) ^ c3[i] ^ k1;
            c3[i] = 0xD2511F53u * a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < n; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

void pd_random_words(const struct pd_rng *rng, uint64_t first, int64_t blocks, uint32_t *out)
{
    for (int64_t i = 0; i < blocks; i += SIDE)
        side_by_side(rng, first + (uint64_t)i, blocks - i < SIDE ? (int)(blocks - i) : SIDE, out + 4 * i);
}
