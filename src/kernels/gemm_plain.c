/* Matrix products in plain C: the reference, the loop for tiny products, and the blocked loop that float64
 * always uses and float32 falls back to. */
#include "kernels/gemm_plain.h"

#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/gemm.h"

#define T float
#define F(name) name##_f32
#include "kernels/gemm_loop.h"
#undef T
#undef F

#define T double
#define F(name) name##_f64
#include "kernels/gemm_loop.h"
#undef T
#undef F

void pd_gemm_f32_small(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    struct view_f32 v = view_of_f32(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    small_f32(&v);
}

void pd_gemm_f32_blocked(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                         const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                         int64_t ldc)
{
    struct view_f32 v = view_of_f32(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    large_f32(&v);
}

void pd_gemm_f64(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                 int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    if (m <= 0 || n <= 0) return;
    struct view_f64 v = view_of_f64(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (k <= 0 || m < 4 || n < 4 || k < 4 || m * n * k < 8192)
        small_f64(&v);
    else
        large_f64(&v);
}

void pd_gemm_f32_plain(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum +=
                    (double)a[trans_a ? p * lda + i : i * lda + p] * b[trans_b ? j * ldb + p : p * ldb + j];
            c[i * ldc + j] = (float)(alpha * sum + (beta == 0 ? 0 : (double)beta * c[i * ldc + j]));
        }
}
