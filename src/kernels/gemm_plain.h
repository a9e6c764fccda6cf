/* The C loops behind gemm.h, named here so that tests can compare each of them with the reference. */
#ifndef PD_KERNELS_GEMM_PLAIN_H
#define PD_KERNELS_GEMM_PLAIN_H

#include <stdint.h>

/* No packing, no threads: for products of a few thousand multiplications. */
void pd_gemm_f32_small(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
/* Packed and threaded. m, n, k are above 0. */
void pd_gemm_f32_blocked(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                         const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                         int64_t ldc);

#endif
