/* The Mersenne twister with words of 32 and of 64 bits (Matsumoto and Nishimura), as std::mt19937 and
 * std::mt19937_64: upstream's samplers draw from them. */
#ifndef PD_BASE_MT19937_H
#define PD_BASE_MT19937_H

#include <stdint.h>

enum { PD_MT32_SIZE = 624, PD_MT64_SIZE = 312 };

struct pd_mt32 {
    uint32_t at[PD_MT32_SIZE];
    int next;
};

struct pd_mt64 {
    uint64_t at[PD_MT64_SIZE];
    int next;
};

void pd_mt32_start(struct pd_mt32 *mt, uint32_t seed);
uint32_t pd_mt32_next(struct pd_mt32 *mt);
void pd_mt64_start(struct pd_mt64 *mt, uint64_t seed);
uint64_t pd_mt64_next(struct pd_mt64 *mt);

#endif
