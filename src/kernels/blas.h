/* A CBLAS of the system, opened at first use: the second choice for products, where oneDNN is not there. */
#ifndef PD_KERNELS_BLAS_H
#define PD_KERNELS_BLAS_H

#include <stdint.h>

/* Row-major product as in gemm.h; 0 when there is no CBLAS. */
int pd_blas_gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#endif
