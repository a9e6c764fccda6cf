/* Many random words at once: the same numbers as base/rng.h gives one by one. */
#ifndef PD_KERNELS_RANDOM_H
#define PD_KERNELS_RANDOM_H

#include "base/rng.h"

/* Words of blocks [first, first + blocks): four per block, in order. */
void pd_random_words(const struct pd_rng *rng, uint64_t first, int64_t blocks, uint32_t *out);

#endif
