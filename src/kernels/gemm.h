/* Matrix products, row-major: C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C. Threads: pd_threads().
 *
 * float32 goes to a plain loop when it is tiny, to the matrix unit of Intel processors (gemm_amx.h) when it
 * is large and there is one, else to oneDNN (opened at first use), else to a CBLAS, else to our own blocked
 * loop. float64 runs our own loop. Never fails: what cannot be loaded is done without. */
#ifndef PD_KERNELS_GEMM_H
#define PD_KERNELS_GEMM_H

#include <stdint.h>

void pd_gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void pd_gemm_f64(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                 int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
/* The plain reference that every other one is compared with. */
void pd_gemm_f32_plain(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#endif
