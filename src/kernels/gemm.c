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
static int is_tiny(const struct pd_gemm *g)
{
    return g->k <= 0 || g->m * g->n * g->k <= (g->b.trans && g->n > 1 ? 2048 : 8192);
}

/* From here on the split into bfloat16 parts pays: measured against oneDNN, with 1 and 2 threads on quiet
 * cores, it is 1.2 times as fast at these limits and 1.4 to 1.7 times above. Narrow products spend their time
 * on splitting, flat ones (little k, a C larger than the cache) on writing C. */
static int pays_to_split(const struct pd_gemm *g)
{
    const int64_t m = g->m, n = g->n, k = g->k;
    if (m < 128 || n < 128 || k < 32 || (k < 128 && m * n > 512 * 1024)) return 0;
    return m * n * k >= 8 * 1024 * 1024;
}

/* Two or three columns (the last layer of a classifier, and its gradient): oneDNN's product of a matrix and a
 * vector is so much faster than its general one that each column goes by itself. 0: not done. */
static int by_columns(const struct pd_gemm *g)
{
    const int64_t m = g->m, k = g->k;
    if (g->n < 2 || g->n > 3 || m < 64 || k < 64) return 0;
    float *column = pd_malloc_aligned((size_t)(k + m) * sizeof(float)), *result = column + k, *c = g->c;
    const float *b = g->b.at, beta = (float)g->beta;
    struct pd_gemm one = {m, 1, k, g->a, {column, 1, 0}, .c = result, .ldc = 1, .alpha = g->alpha};
    int done = column != NULL;
    for (int64_t j = 0; j < g->n && done; j++) {
        for (int64_t p = 0; p < k; p++)
            column[p] = b[g->b.trans ? j * g->b.ld + p : p * g->b.ld + j];
        done = pd_dnnl_gemm(&one);
        if (!done && j) {
            pd_gemm_f32_blocked(&one);
            done = 1;
        }
        for (int64_t i = 0; i < m && done; i++)
            c[i * g->ldc + j] = result[i] + (beta == 0 ? 0 : beta * c[i * g->ldc + j]);
    }
    pd_free_aligned(column);
    return done;
}

/* A product of one thread. */
static void one_part(const struct pd_gemm *g)
{
    if (by_columns(g) || pd_dnnl_gemm(g) || pd_blas_gemm(g)) return;
    pd_gemm_f32_blocked(g);
}

/* A product cut into rows x columns parts of C, or along k, where each part but the first has sums of its
 * own. */
struct division {
    const struct pd_gemm *whole;
    int64_t rows, columns, along_k;
    float *sums; /* along_k - 1 times m x n */
};

/* What is left of a factor behind its first `rows` rows and `columns` columns, as the product takes them. */
static struct pd_factor behind(const struct pd_factor *f, int64_t rows, int64_t columns)
{
    return (struct pd_factor){
        (const float *)f->at + (f->trans ? columns * f->ld + rows : rows * f->ld + columns), f->ld, f->trans};
}

static int64_t begin_of(int64_t all, int64_t part, int64_t parts)
{
    return part == parts ? all : all * part / parts / 16 * 16;
}

static void run_squares(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    for (int64_t part = begin; part < end; part++) {
        const int64_t row = begin_of(d->whole->m, part / d->columns, d->rows);
        const int64_t column = begin_of(d->whole->n, part % d->columns, d->columns);
        struct pd_gemm g = *d->whole;
        g.m = begin_of(d->whole->m, part / d->columns + 1, d->rows) - row;
        g.n = begin_of(d->whole->n, part % d->columns + 1, d->columns) - column;
        g.a = behind(&g.a, row, 0);
        g.b = behind(&g.b, 0, column);
        g.c = (float *)g.c + row * g.ldc + column;
        one_part(&g);
    }
}

static void run_along_k(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    for (int64_t part = begin; part < end; part++) {
        const int64_t at = begin_of(d->whole->k, part, d->along_k);
        struct pd_gemm g = *d->whole;
        g.k = begin_of(d->whole->k, part + 1, d->along_k) - at;
        g.a = behind(&g.a, 0, at);
        g.b = behind(&g.b, at, 0);
        if (part) {
            g.c = d->sums + (part - 1) * g.m * g.n;
            g.ldc = g.n;
            g.beta = 0;
        }
        one_part(&g);
    }
}

static void add_sums(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    const int64_t m = d->whole->m, n = d->whole->n;
    for (int64_t part = 0; part + 1 < d->along_k; part++)
        for (int64_t i = begin; i < end; i++) {
            const float *restrict from = d->sums + (part * m + i) * n;
            float *restrict to = (float *)d->whole->c + i * d->whole->ldc;
            for (int64_t j = 0; j < n; j++)
                to[j] += from[j];
        }
}

/* A very long k (the words of a language model, in the gradient of what reads them) is divided: each thread
 * finds its part of the parameter in its own cache. 0: not done. */
static int divided_along_k(struct division *d, int64_t threads)
{
    const int64_t m = d->whole->m, n = d->whole->n, k = d->whole->k;
    if (k < 512 * threads || m > k / 4 || n > k / 4 || m * n > 64 * 1024) return 0;
    if (m * n * k < 8 * 1024 * 1024) return 0;
    if (!(d->sums = pd_malloc_aligned((size_t)((threads - 1) * m * n) * sizeof(float)))) return 0;
    d->along_k = threads;
    pd_parallel(threads, 1, run_along_k, d);
    pd_parallel(m, 32 * 1024 / n + 1, add_sums, d);
    pd_free_aligned(d->sums);
    return 1;
}

/* How many parts: such that each is worth a thread, and as near to squares as can be. */
static void choose_squares(struct division *d, int64_t threads)
{
    enum { WORTH_A_THREAD = 128 * 1024 };
    const int64_t m = d->whole->m, n = d->whole->n;
    int64_t parts = m * n * d->whole->k / WORTH_A_THREAD, best = INT64_MAX;
    if (parts > threads) parts = threads;
    d->rows = d->columns = 1;
    for (; parts > 1 && best == INT64_MAX; parts--)
        for (int64_t rows = 1; rows <= parts; rows++) {
            int64_t columns = parts / rows, around = m / rows + n / columns;
            if (rows * columns != parts || (rows > 1 && m < 16 * rows) || (columns > 1 && n < 16 * columns))
                continue;
            if (around >= best) continue;
            best = around;
            d->rows = rows;
            d->columns = columns;
        }
}

void pd_gemm_f32(const struct pd_gemm *g)
{
    if (g->m <= 0 || g->n <= 0) return;
    if (is_tiny(g)) {
        pd_gemm_f32_small(g);
        return;
    }
    if (pays_to_split(g) && pd_amx_gemm(g)) return;
    struct division d = {.whole = g};
    int64_t threads = pd_threads();
    if (threads > 1 && divided_along_k(&d, threads)) return;
    choose_squares(&d, threads);
    pd_parallel(d.rows * d.columns, 1, run_squares, &d);
}
