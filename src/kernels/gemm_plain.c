/* Matrix products in plain C: the reference, the loop for tiny products, and the blocked loop that float64
 * always uses and float32 falls back to. */
#include "kernels/gemm_plain.h"

#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "kernels/clones.h"

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

void pd_gemm_f32_small(const struct pd_gemm *g)
{
    struct view_f32 v = view_of_f32(g);
    small_f32(&v);
}

void pd_gemm_f32_blocked(const struct pd_gemm *g)
{
    struct view_f32 v = view_of_f32(g);
    large_f32(&v);
}

void pd_gemm_f64(const struct pd_gemm *g)
{
    if (g->m <= 0 || g->n <= 0) return;
    struct view_f64 v = view_of_f64(g);
    if (v.k <= 0 || v.m < 4 || v.n < 4 || v.k < 4 || v.m * v.n * v.k < 8192)
        small_f64(&v);
    else
        large_f64(&v);
}

void pd_gemm_f32_plain(const struct pd_gemm *g)
{
    const float *a = g->a.at, *b = g->b.at, alpha = (float)g->alpha, beta = (float)g->beta;
    const int64_t lda = g->a.ld, ldb = g->b.ld;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = (float *)g->c + i * g->ldc + j;
            double sum = 0;
            for (int64_t p = 0; p < g->k; p++)
                sum += (double)a[g->a.trans ? p * lda + i : i * lda + p] *
                       b[g->b.trans ? j * ldb + p : p * ldb + j];
            *c = (float)(alpha * sum + (beta == 0 ? 0 : (double)beta * *c));
        }
}
