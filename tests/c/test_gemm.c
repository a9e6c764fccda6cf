/* Every float32 product we have against the plain reference, over a sweep of odd shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "kernels/blas.h"
#include "kernels/dnnl.h"
#include "kernels/gemm.h"
#include "kernels/gemm_plain.h"

static const int64_t sizes[][3] = {{1, 1, 1},    {20, 1, 13},   {20, 13, 1},  {13, 1, 20},  {1, 7, 5},
                                   {3, 3, 0},    {2, 2, 9},     {5, 17, 3},   {7, 16, 33},  {12, 32, 64},
                                   {31, 33, 65}, {64, 200, 10}, {6, 16, 257}, {61, 1, 300}, {1, 61, 300},
                                   {50, 3, 600}, {97, 101, 103}};

static float *noise(int64_t n, unsigned seed)
{
    float *at = malloc((size_t)(n + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = (float)(int)(seed >> 8) / (1 << 23) - 1.0f;
    }
    return at;
}

typedef int product(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                    const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#define ALWAYS(name, call)                                                                                   \
    static int name(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,            \
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)             \
    {                                                                                                        \
        call(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                          \
        return 1;                                                                                            \
    }
ALWAYS(chosen, pd_gemm_f32)
ALWAYS(small, pd_gemm_f32_small)
ALWAYS(blocked, pd_gemm_f32_blocked)

static int in_double(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    int64_t na = (ta ? k : m) * lda, nb = (tb ? n : k) * ldb, nc = m * ldc;
    double *da = malloc((size_t)(na + 1) * 8), *db = malloc((size_t)(nb + 1) * 8),
           *dc = malloc((size_t)(nc + 1) * 8);
    for (int64_t i = 0; i < na; i++)
        da[i] = a[i];
    for (int64_t i = 0; i < nb; i++)
        db[i] = b[i];
    for (int64_t i = 0; i < nc; i++)
        dc[i] = c[i];
    pd_gemm_f64(ta, tb, m, n, k, alpha, da, lda, db, ldb, beta, dc, ldc);
    for (int64_t i = 0; i < nc; i++)
        c[i] = (float)dc[i];
    free(da);
    free(db);
    free(dc);
    return 1;
}

static void sweep(product *compute, int needs_depth)
{
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int form = 0; form < 4; form++)
            for (int extra = 0; extra < 4; extra += 3)
                for (int mix = 0; mix < 3; mix++) {
                    int ta = form & 1, tb = form >> 1;
                    int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                    if (needs_depth && k == 0) continue;
                    float alpha = mix == 2 ? -1.5f : 1.0f, beta = mix == 0 ? 0.0f : mix == 1 ? 1.0f : 0.5f;
                    int64_t lda = (ta ? m : k) + extra, ldb = (tb ? k : n) + extra, ldc = n + extra;
                    if (lda == 0) lda = 1;
                    if (ldb == 0) ldb = 1;
                    float *a = noise((ta ? k : m) * lda, 1), *b = noise((tb ? n : k) * ldb, 2);
                    float *c = noise(m * ldc, 3), *want = noise(m * ldc, 3);
                    if (mix == 0)
                        for (int64_t i = 0; i < m; i++)
                            for (int64_t j = 0; j < n; j++)
                                c[i * ldc + j] = NAN; /* with beta 0 the old contents must not matter */
                    pd_gemm_f32_plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, want, ldc);
                    if (compute(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
                        for (int64_t i = 0; i < m * ldc; i++)
                            if (!(fabsf(c[i] - want[i]) <= 1e-5f * (1 + sqrtf((float)k))))
                                fail_msg("form %d m %d n %d k %d extra %d mix %d element %d: %g, not %g",
                                         form, (int)m, (int)n, (int)k, extra, mix, (int)i, (double)c[i],
                                         (double)want[i]);
                    free(a);
                    free(b);
                    free(c);
                    free(want);
                }
}

static void test_small(void **state)
{
    sweep(small, 0);
}
static void test_blocked(void **state)
{
    sweep(blocked, 1);
}
static void test_double(void **state)
{
    sweep(in_double, 0);
}
static void test_chosen(void **state)
{
    sweep(chosen, 0);
}
static void test_blas(void **state)
{
    sweep(pd_blas_gemm, 1);
}
static void test_dnnl(void **state)
{
    if (!pd_dnnl_version()) skip();
    sweep(pd_dnnl_gemm, 1);
}

/* Our own loops give the same bits on any number of threads. */
static void test_threads(void **state)
{
    int64_t m = 150, n = 130, k = 300;
    float *a = noise(m * k, 1), *b = noise(k * n, 2), *one = noise(m * n, 3), *two = noise(m * n, 3);
    pd_threads_set(1);
    pd_gemm_f32_blocked(0, 0, m, n, k, 1, a, k, b, n, 0, one, n);
    pd_threads_set(3);
    pd_gemm_f32_blocked(0, 0, m, n, k, 1, a, k, b, n, 0, two, n);
    pd_threads_set(0);
    assert_memory_equal(one, two, (size_t)(m * n) * sizeof(float));
    free(a);
    free(b);
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),   cmocka_unit_test(test_blocked), cmocka_unit_test(test_double),
        cmocka_unit_test(test_chosen),  cmocka_unit_test(test_blas),    cmocka_unit_test(test_dnnl),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
