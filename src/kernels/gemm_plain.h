/* The C loops behind gemm.h, named here so that tests can compare each of them with the reference. */
#ifndef PD_KERNELS_GEMM_PLAIN_H
#define PD_KERNELS_GEMM_PLAIN_H

#include "kernels/gemm.h"

/* No packing, no threads: for products of a few thousand multiplications. */
void pd_gemm_f32_small(const struct pd_gemm *g);
/* Packed and threaded. m, n, k are above 0. */
void pd_gemm_f32_blocked(const struct pd_gemm *g);

#endif
