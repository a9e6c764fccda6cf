/* Matrix products, row-major: C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C. Threads: pd_threads().
 *
 * float32 goes to a plain loop when it is tiny, to the matrix unit of Intel processors (gemm_amx.h) when it
 * is large and there is one, else to oneDNN (opened at first use), else to a CBLAS, else to our own blocked
 * loop. float64 runs our own loop. Never fails: what cannot be loaded is done without. */
#ifndef PD_KERNELS_GEMM_H
#define PD_KERNELS_GEMM_H

#include <stdint.h>

/* A factor as it lies in memory: `ld` elements from one row to the next. With `trans` the product takes its
 * columns for rows. */
struct pd_factor {
    const void *at;
    int64_t ld;
    int trans;
};

/* One product: {m, n, k, {a, lda}, {b, ldb, .trans = 1}, c, ldc, .alpha = 1}. Its matrices are float32 or
 * float64, as the function that is called says; float32 rounds alpha and beta first. With beta 0 what C held
 * does not matter. */
struct pd_gemm {
    int64_t m, n, k;
    struct pd_factor a, b;
    void *c;
    int64_t ldc;
    double alpha, beta;
};

void pd_gemm_f32(const struct pd_gemm *g);
void pd_gemm_f64(const struct pd_gemm *g);
/* The plain reference that every other one is compared with. */
void pd_gemm_f32_plain(const struct pd_gemm *g);

static inline void pd_gemm(int is_double, const struct pd_gemm *g)
{
    if (is_double)
        pd_gemm_f64(g);
    else
        pd_gemm_f32(g);
}

#endif
