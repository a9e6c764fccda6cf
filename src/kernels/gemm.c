/* Chooses who computes a float32 product; see gemm.h. */
#include "kernels/gemm.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/parallel.h"
#include "kernels/blas.h"
#include "kernels/dnnl.h"
#include "kernels/gemm_amx.h"
#include "kernels/gemm_plain.h"

/* Up to here our own loop beats the call of a library (measured against oneDNN on AVX2 and AVX-512 machines;
 * dot products gain less). It also keeps small models from loading 54 MB of library. */
static int is_tiny(int trans_b, int64_t m, int64_t n, int64_t k)
{
    return k <= 0 || m * n * k <= (trans_b && n > 1 ? 2048 : 8192);
}

/* From here on the split into bfloat16 parts pays: measured against oneDNN, with 1 and 2 threads on quiet
 * cores, it is 1.2 times as fast at these limits and 1.4 to 1.7 times above. Narrow products spend their time
 * on splitting, flat ones (little k, a C larger than the cache) on writing C. */
static int pays_to_split(int64_t m, int64_t n, int64_t k)
{
    if (m < 128 || n < 128 || k < 32 || (k < 128 && m * n > 512 * 1024)) return 0;
    return m * n * k >= 8 * 1024 * 1024;
}

/* On a core whose twin thread is busy with someone else's work, AMX falls to 0.6 to 0.9 of oneDNN, for
 * seconds or for hours. So both are timed: the one that was faster of late does the work, the other is tried
 * now and then. One contest for each form of A and for one thread or several. Updates that race only lose a
 * sample. */
static struct contest {
    atomic_uint calls;
    atomic_uint cost[2]; /* femtoseconds for a multiplication, a running mean; 0: not known yet */
} contests[2][2];
enum { WHOLE, SPLIT, TRY_LOSER = 32 };

static int choose(struct contest *c)
{
    unsigned whole = atomic_load_explicit(&c->cost[WHOLE], memory_order_relaxed);
    unsigned split = atomic_load_explicit(&c->cost[SPLIT], memory_order_relaxed);
    if (!split || !whole) return split ? WHOLE : SPLIT;
    int winner = split < whole ? SPLIT : WHOLE;
    return atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed) % TRY_LOSER == 0 ? !winner : winner;
}

static void note(struct contest *c, int way, int64_t ns, int64_t m, int64_t n, int64_t k)
{
    double cost = (double)ns * 1e6 / ((double)m * (double)n * (double)k);
    unsigned before = atomic_load_explicit(&c->cost[way], memory_order_relaxed);
    double mean = before ? before * 0.75 + cost * 0.25 : cost;
    atomic_store_explicit(&c->cost[way],
                          mean < 1     ? 1
                          : mean > 1e9 ? 1000000000u
                                       : (unsigned)mean,
                          memory_order_relaxed);
}

/* 0: not done. */
static int contested(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    struct contest *contest = &contests[trans_a != 0][pd_threads() > 1];
    if (!pd_amx_ready() || !pd_flag_int(PD_FLAG_use_amx) || pd_flag_int(PD_FLAG_cpu_deterministic)) return 0;
    int way = choose(contest);
    int64_t start = pd_clock_ns();
    int done = way == SPLIT ? pd_amx_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
                            : pd_dnnl_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (done)
        note(contest, way, pd_clock_ns() - start, m, n, k);
    else if (way == WHOLE)
        atomic_store_explicit(&contest->cost[WHOLE], UINT32_MAX, memory_order_relaxed); /* not there */
    return done;
}

/* Two or three columns (the last layer of a classifier, and its gradient): oneDNN's product of a matrix and a
 * vector is so much faster than its general one that each column goes by itself. 0: not done. */
static int by_columns(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                      int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (n < 2 || n > 3 || m < 64 || k < 64) return 0;
    float *column = pd_malloc_aligned((size_t)(k + m) * sizeof(float)), *result = column + k;
    int done = column != NULL;
    for (int64_t j = 0; j < n && done; j++) {
        for (int64_t p = 0; p < k; p++)
            column[p] = b[trans_b ? j * ldb + p : p * ldb + j];
        done = pd_dnnl_gemm(trans_a, 0, m, 1, k, alpha, a, lda, column, 1, 0, result, 1);
        for (int64_t i = 0; i < m && done; i++)
            c[i * ldc + j] = result[i] + (beta == 0 ? 0 : beta * c[i * ldc + j]);
    }
    pd_free_aligned(column);
    return done;
}

void pd_gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (m <= 0 || n <= 0) return;
    if (is_tiny(trans_b, m, n, k)) {
        pd_gemm_f32_small(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    if (by_columns(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pays_to_split(m, n, k) && contested(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
        return;
    if (pd_dnnl_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_blas_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    pd_gemm_f32_blocked(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
