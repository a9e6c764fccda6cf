/* Chooses who computes a float32 product; see gemm.h. */
#include "kernels/gemm.h"

#include "kernels/blas.h"
#include "kernels/dnnl.h"
#include "kernels/gemm_plain.h"

/* Up to here our own loop beats the call of a library (measured against oneDNN on AVX2 and AVX-512 machines;
 * dot products gain less). It also keeps small models from loading 54 MB of library. */
static int is_tiny(int trans_b, int64_t m, int64_t n, int64_t k)
{
    return k <= 0 || m * n * k <= (trans_b && n > 1 ? 2048 : 8192);
}

void pd_gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (m <= 0 || n <= 0) return;
    if (is_tiny(trans_b, m, n, k)) {
        pd_gemm_f32_small(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    if (pd_dnnl_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_blas_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    pd_gemm_f32_blocked(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
