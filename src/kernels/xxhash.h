/* XXH64, the 64-bit hash of Yann Collet, from its published description. */
#ifndef PD_KERNELS_XXHASH_H
#define PD_KERNELS_XXHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t pd_xxhash64(const void *bytes, size_t n, uint64_t seed);

#endif
