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
        if (!done && j) {
            pd_gemm_f32_blocked(trans_a, 0, m, 1, k, alpha, a, lda, column, 1, 0, result, 1);
            done = 1;
        }
        for (int64_t i = 0; i < m && done; i++)
            c[i * ldc + j] = result[i] + (beta == 0 ? 0 : beta * c[i * ldc + j]);
    }
    pd_free_aligned(column);
    return done;
}

/* One side is very long (the words of a language model), as columns of the forward product and of the
 * parameter's gradient, as the sum of the other gradient. Threads divide it in the same way each time, so
 * that each finds its part of the parameter in its own cache; oneDNN divides whichever side it likes. */
struct long_side {
    int trans_a, trans_b, along_k;
    int64_t m, n, k, lda, ldb, ldc, parts;
    float alpha, beta, *c, *sums; /* sums: m x n for each part but the first, when it is along k */
    const float *a, *b;
};

static int64_t part_begin(const struct long_side *p, int64_t part)
{
    const int64_t all = p->along_k ? p->k : p->n, even = all * part / p->parts;
    return part == p->parts ? all : even / 16 * 16;
}

static void run_part(void *arg, int64_t begin, int64_t end)
{
    struct long_side *p = arg;
    for (int64_t part = begin; part < end; part++) {
        const int64_t at = part_begin(p, part), size = part_begin(p, part + 1) - at;
        const float *b = p->b + (p->along_k == !p->trans_b ? at * p->ldb : at);
        const float *a = p->a + (!p->along_k ? 0 : p->trans_a ? at * p->lda : at);
        const int64_t n = p->along_k ? p->n : size, k = p->along_k ? size : p->k;
        const int apart = p->along_k && part > 0;
        float *c = apart ? p->sums + (part - 1) * p->m * p->n : p->along_k ? p->c : p->c + at;
        const int64_t ldc = apart ? p->n : p->ldc;
        const float beta = apart ? 0 : p->beta;
        if (!pd_dnnl_gemm(p->trans_a, p->trans_b, p->m, n, k, p->alpha, a, p->lda, b, p->ldb, beta, c, ldc))
            pd_gemm_f32_blocked(p->trans_a, p->trans_b, p->m, n, k, p->alpha, a, p->lda, b, p->ldb, beta, c,
                                ldc);
    }
}

static void add_sums(void *arg, int64_t begin, int64_t end)
{
    const struct long_side *p = arg;
    for (int64_t part = 0; part + 1 < p->parts; part++)
        for (int64_t i = begin; i < end; i++) {
            const float *restrict from = p->sums + (part * p->m + i) * p->n;
            float *restrict to = p->c + i * p->ldc;
            for (int64_t j = 0; j < p->n; j++)
                to[j] += from[j];
        }
}

/* 0: not done. */
static int by_long_side(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                        const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                        int64_t ldc)
{
    const int64_t longest = n > k ? n : k, other = n > k ? k : n, threads = pd_threads();
    if (threads < 2 || longest < 512 * threads || m > longest / 4 || other > longest / 4) return 0;
    if (m * n * k < 8 * 1024 * 1024 || !pd_dnnl_version() || pd_flag_int(PD_FLAG_cpu_deterministic)) return 0;
    struct long_side p = {trans_a, trans_b, k > n, m,    n, k,    lda, ldb,
                          ldc,     threads, alpha, beta, c, NULL, a,   b};
    if (p.along_k && m * n > 64 * 1024) return 0;
    if (p.along_k && !(p.sums = pd_malloc_aligned((size_t)((threads - 1) * m * n) * sizeof(float)))) return 0;
    pd_parallel(threads, 1, run_part, &p);
    if (p.along_k) pd_parallel(m, 32 * 1024 / n + 1, add_sums, &p);
    pd_free_aligned(p.sums);
    return 1;
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
    if (by_long_side(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_dnnl_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_blas_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    pd_gemm_f32_blocked(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
