/* Chooses who computes a float32 product, and divides it among the threads; see gemm.h.
 *
 * Who does it and how it is divided follow from its size, the machine and the number of threads, never from
 * timings: the same product has the same bits each time, also where the parts are done one after the other
 * (pd_threads_alone). So each part is given to a library for one thread; left to themselves libraries would
 * divide by the threads that are free. */
#include "kernels/gemm.h"

#include "base/alloc.h"
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

/* A product of one thread. */
static void one_part(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (by_columns(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_dnnl_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    if (pd_blas_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
    pd_gemm_f32_blocked(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* A product cut into rows x columns parts of C, or along k, where each part but the first has sums of its
 * own. */
struct division {
    int trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta, *c;
    const float *a, *b;
    int64_t rows, columns, along_k;
    float *sums; /* along_k - 1 times m x n */
};

static int64_t begin_of(int64_t all, int64_t part, int64_t parts)
{
    return part == parts ? all : all * part / parts / 16 * 16;
}

static void run_squares(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    for (int64_t part = begin; part < end; part++) {
        const int64_t row = begin_of(d->m, part / d->columns, d->rows);
        const int64_t column = begin_of(d->n, part % d->columns, d->columns);
        const int64_t m = begin_of(d->m, part / d->columns + 1, d->rows) - row;
        const int64_t n = begin_of(d->n, part % d->columns + 1, d->columns) - column;
        one_part(d->trans_a, d->trans_b, m, n, d->k, d->alpha, d->a + (d->trans_a ? row : row * d->lda),
                 d->lda, d->b + (d->trans_b ? column * d->ldb : column), d->ldb, d->beta,
                 d->c + row * d->ldc + column, d->ldc);
    }
}

static void run_along_k(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    for (int64_t part = begin; part < end; part++) {
        const int64_t at = begin_of(d->k, part, d->along_k), k = begin_of(d->k, part + 1, d->along_k) - at;
        float *c = part ? d->sums + (part - 1) * d->m * d->n : d->c;
        one_part(d->trans_a, d->trans_b, d->m, d->n, k, d->alpha, d->a + (d->trans_a ? at * d->lda : at),
                 d->lda, d->b + (d->trans_b ? at : at * d->ldb), d->ldb, part ? 0 : d->beta, c,
                 part ? d->n : d->ldc);
    }
}

static void add_sums(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    for (int64_t part = 0; part + 1 < d->along_k; part++)
        for (int64_t i = begin; i < end; i++) {
            const float *restrict from = d->sums + (part * d->m + i) * d->n;
            float *restrict to = d->c + i * d->ldc;
            for (int64_t j = 0; j < d->n; j++)
                to[j] += from[j];
        }
}

/* A very long k (the words of a language model, in the gradient of what reads them) is divided: each thread
 * finds its part of the parameter in its own cache. 0: not done. */
static int divided_along_k(struct division *d, int64_t threads)
{
    if (d->k < 512 * threads || d->m > d->k / 4 || d->n > d->k / 4 || d->m * d->n > 64 * 1024) return 0;
    if (d->m * d->n * d->k < 8 * 1024 * 1024) return 0;
    if (!(d->sums = pd_malloc_aligned((size_t)((threads - 1) * d->m * d->n) * sizeof(float)))) return 0;
    d->along_k = threads;
    pd_parallel(threads, 1, run_along_k, d);
    pd_parallel(d->m, 32 * 1024 / d->n + 1, add_sums, d);
    pd_free_aligned(d->sums);
    return 1;
}

/* How many parts: such that each is worth a thread, and as near to squares as can be. */
static void choose_squares(struct division *d, int64_t threads)
{
    enum { WORTH_A_THREAD = 128 * 1024 };
    int64_t parts = d->m * d->n * d->k / WORTH_A_THREAD, best = INT64_MAX;
    if (parts > threads) parts = threads;
    d->rows = d->columns = 1;
    for (; parts > 1 && best == INT64_MAX; parts--)
        for (int64_t rows = 1; rows <= parts; rows++) {
            int64_t columns = parts / rows, around = d->m / rows + d->n / columns;
            if (rows * columns != parts || (rows > 1 && d->m < 16 * rows) ||
                (columns > 1 && d->n < 16 * columns))
                continue;
            if (around >= best) continue;
            best = around;
            d->rows = rows;
            d->columns = columns;
        }
}

void pd_gemm_f32(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    if (m <= 0 || n <= 0) return;
    if (is_tiny(trans_b, m, n, k)) {
        pd_gemm_f32_small(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    if (pays_to_split(m, n, k) && pd_amx_gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
        return;
    struct division d = {.trans_a = trans_a,
                         .trans_b = trans_b,
                         .m = m,
                         .n = n,
                         .k = k,
                         .lda = lda,
                         .ldb = ldb,
                         .ldc = ldc,
                         .alpha = alpha,
                         .beta = beta,
                         .c = c,
                         .a = a,
                         .b = b};
    int64_t threads = pd_threads();
    if (threads > 1 && divided_along_k(&d, threads)) return;
    choose_squares(&d, threads);
    pd_parallel(d.rows * d.columns, 1, run_squares, &d);
}
