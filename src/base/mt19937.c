/* See mt19937.h. */
#include "base/mt19937.h"

/* A word from the high bits of one and the low bits of the next; the matrix where it is odd. */
#define TWIST(T, SIZE, MIDDLE, LOW, MATRIX)                                                                  \
    do {                                                                                                     \
        for (int i = 0; i < (SIZE); i++) {                                                                   \
            T x = (mt->at[i] & ~(LOW)) | (mt->at[(i + 1) % (SIZE)] & (LOW));                                 \
            mt->at[i] = mt->at[(i + (MIDDLE)) % (SIZE)] ^ (x >> 1) ^ (x & 1 ? (MATRIX) : 0);                 \
        }                                                                                                    \
        mt->next = 0;                                                                                        \
    } while (0)

void pd_mt32_start(struct pd_mt32 *mt, uint32_t seed)
{
    mt->at[0] = seed;
    for (int i = 1; i < PD_MT32_SIZE; i++)
        mt->at[i] = 1812433253u * (mt->at[i - 1] ^ (mt->at[i - 1] >> 30)) + (uint32_t)i;
    mt->next = PD_MT32_SIZE;
}

uint32_t pd_mt32_next(struct pd_mt32 *mt)
{
    if (mt->next == PD_MT32_SIZE) TWIST(uint32_t, PD_MT32_SIZE, 397, 0x7fffffffu, 0x9908b0dfu);
    uint32_t x = mt->at[mt->next++];
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    return x ^ (x >> 18);
}

void pd_mt64_start(struct pd_mt64 *mt, uint64_t seed)
{
    mt->at[0] = seed;
    for (int i = 1; i < PD_MT64_SIZE; i++)
        mt->at[i] = 6364136223846793005ull * (mt->at[i - 1] ^ (mt->at[i - 1] >> 62)) + (uint64_t)i;
    mt->next = PD_MT64_SIZE;
}

uint64_t pd_mt64_next(struct pd_mt64 *mt)
{
    if (mt->next == PD_MT64_SIZE) TWIST(uint64_t, PD_MT64_SIZE, 156, 0x7fffffffull, 0xb5026f5aa96619e9ull);
    uint64_t x = mt->at[mt->next++];
    x ^= (x >> 29) & 0x5555555555555555ull;
    x ^= (x << 17) & 0x71d67fffeda60000ull;
    x ^= (x << 37) & 0xfff7eee000000000ull;
    return x ^ (x >> 43);
}
