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
#include "kernels/gemm_amx.h"
#include "kernels/gemm_plain.h"

static const int64_t sizes[][3] = {
    {1, 1, 1},    {20, 1, 13},  {20, 13, 1},    {13, 1, 20},  {1, 7, 5},     {3, 3, 0},      {2, 2, 9},
    {5, 17, 3},   {7, 16, 33},  {12, 32, 64},   {31, 33, 65}, {64, 200, 10}, {6, 16, 257},   {61, 1, 300},
    {1, 61, 300}, {50, 3, 600}, {97, 101, 103}, {130, 2, 71}, {67, 3, 131},  {65, 2073, 67}, {65, 67, 2073}};

static float *noise(int64_t n, unsigned seed)
{
    float *at = malloc((size_t)(n + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = (float)(int)(seed >> 8) / (1 << 23) - 1.0f;
    }
    return at;
}

typedef int product(const struct pd_gemm *g);

#define ALWAYS(name, call)                                                                                   \
    static int name(const struct pd_gemm *g)                                                                 \
    {                                                                                                        \
        call(g);                                                                                             \
        return 1;                                                                                            \
    }
ALWAYS(chosen, pd_gemm_f32)
ALWAYS(small, pd_gemm_f32_small)
ALWAYS(blocked, pd_gemm_f32_blocked)

static double *doubles(const float *from, int64_t n)
{
    double *to = malloc((size_t)(n + 1) * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
    return to;
}

static int in_double(const struct pd_gemm *g)
{
    double *a = doubles(g->a.at, (g->a.trans ? g->k : g->m) * g->a.ld),
           *b = doubles(g->b.at, (g->b.trans ? g->n : g->k) * g->b.ld), *c = doubles(g->c, g->m * g->ldc);
    struct pd_gemm d = *g;
    d.a.at = a;
    d.b.at = b;
    d.c = c;
    pd_gemm_f64(&d);
    for (int64_t i = 0; i < g->m * g->ldc; i++)
        ((float *)g->c)[i] = (float)c[i];
    free(a);
    free(b);
    free(c);
    return 1;
}

/* The same product into another C. */
static struct pd_gemm into(struct pd_gemm g, float *c)
{
    g.c = c;
    return g;
}

/* A product of dense matrices, transposed as the two bits of `form` say. */
static struct pd_gemm dense(int form, const int64_t *size, const float *a, const float *b, float beta)
{
    int64_t m = size[0], n = size[1], k = size[2];
    int ta = form & 1, tb = form >> 1;
    return (struct pd_gemm){m, n, k, {a, ta ? m : k, ta}, {b, tb ? k : n, tb}, NULL, n, 1, beta};
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
                    struct pd_gemm g = {m, n, k, {a, lda, ta}, {b, ldb, tb}, c, ldc, alpha, beta};
                    struct pd_gemm exact = into(g, want);
                    pd_gemm_f32_plain(&exact);
                    if (compute(&g))
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
    for (int threads = 1; threads < 4; threads++) {
        pd_threads_set(threads);
        sweep(chosen, 0);
    }
    pd_threads_set(0);
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
    struct pd_gemm g = dense(0, (int64_t[]){m, n, k}, a, b, 0), first = into(g, one), second = into(g, two);
    pd_threads_set(1);
    pd_gemm_f32_blocked(&first);
    pd_threads_set(3);
    pd_gemm_f32_blocked(&second);
    pd_threads_set(0);
    assert_memory_equal(one, two, (size_t)(m * n) * sizeof(float));
    free(a);
    free(b);
    free(one);
    free(two);
}

/* Products of all kinds have the same bits whoever is free to do them, and each time. */
static void test_same_bits(void **state)
{
    /* Large enough to be divided, the last one along k; small enough for sanitizers. */
    static const int64_t shapes[][3] = {{64, 200, 100}, {200, 100, 64}, {1000, 2, 400},
                                        {1000, 1, 400}, {17, 33, 1000}, {30, 35, 8100}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int form = 0; form < 4; form++)
            for (int threads = 2; threads < 4; threads++) {
                int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
                float *a = noise(m * k, 1), *b = noise(k * n, 2), *one = noise(m * n, 3),
                      *two = noise(m * n, 3);
                struct pd_gemm g = dense(form, shapes[s], a, b, 0.5f), first = into(g, one),
                               second = into(g, two);
                pd_threads_set(threads);
                pd_gemm_f32(&first);
                pd_threads_alone(1);
                pd_gemm_f32(&second);
                pd_threads_alone(0);
                pd_threads_set(0);
                assert_memory_equal(one, two, (size_t)(m * n) * sizeof(float));
                free(a);
                free(b);
                free(one);
                free(two);
            }
}

/* Skips where there is no AMX. */
static void needs_amx(void)
{
    if (pd_amx_ready()) return;
    print_message("no AMX in this processor, system or build\n");
    skip();
}

static int always_amx(const struct pd_gemm *g)
{
    assert_true(pd_amx_gemm(g));
    return 1;
}

static void test_amx(void **state)
{
    needs_amx();
    sweep(always_amx, 1);
}

/* Sums of k in several pieces, panels in several blocks, both ways round, with as many threads: the same
 * bits, and as close to the exact result as float32 sums come. */
static void test_amx_threads(void **state)
{
    static const int64_t large[][3] = {{130, 420, 1100}, {420, 130, 1100}, {70, 50, 2073}, {450, 460, 1040}};
    needs_amx();
    for (size_t s = 0; s < sizeof large / sizeof large[0]; s++)
        for (int form = 0; form < 4; form++) {
            int64_t m = large[s][0], n = large[s][1], k = large[s][2];
            float *a = noise(m * k, 1), *b = noise(k * n, 2);
            float *one = noise(m * n, 3), *two = noise(m * n, 3), *want = noise(m * n, 3);
            struct pd_gemm g = dense(form, large[s], a, b, 0.5f), first = into(g, one), second = into(g, two),
                           exact = into(g, want);
            pd_threads_set(1);
            always_amx(&first);
            pd_threads_set(2);
            always_amx(&second);
            pd_threads_set(0);
            assert_memory_equal(one, two, (size_t)(m * n) * sizeof(float));
            pd_gemm_f32_plain(&exact);
            double off = 0;
            for (int64_t i = 0; i < m * n; i++)
                off += ((double)one[i] - want[i]) * ((double)one[i] - want[i]);
            assert_true(sqrt(off / (double)(m * n)) < 1e-7 * sqrt((double)k));
            free(a);
            free(b);
            free(one);
            free(two);
            free(want);
        }
}

/* Numbers that parts of bfloat16 cannot carry are refused, with C as it was, and the chosen product does
 * them. */
static void test_amx_range(void **state)
{
    static const struct {
        float in_a, in_b;
        int taken;
    } cases[] = {{1, 1, 1},          {INFINITY, 1, 0},   {1, -INFINITY, 0},   {NAN, 1, 0},
                 {1, NAN, 0},        {3.4028e38f, 1, 0}, {1, -3.4028e38f, 0}, {1e19f, 1e19f, 0},
                 {1e30f, 1e-30f, 1}, {1e-37f, 1, 1}};
    int64_t m = 150, n = 140, k = 450;
    needs_amx();
    for (size_t s = 0; s < sizeof cases / sizeof cases[0]; s++) {
        float *a = noise(m * k, 1), *b = noise(k * n, 2), *c = noise(m * n, 3), *before = noise(m * n, 3);
        float *want = noise(m * n, 3);
        a[77 * k + 5] = cases[s].in_a;
        b[5 * n + 139] = cases[s].in_b;
        struct pd_gemm g = into(dense(0, (int64_t[]){m, n, k}, a, b, 1), c), exact = into(g, want);
        pd_gemm_f32_plain(&exact);
        int taken = pd_amx_gemm(&g);
        assert_int_equal(taken, cases[s].taken);
        if (!taken) {
            assert_memory_equal(c, before, (size_t)(m * n) * sizeof(float));
            pd_gemm_f32(&g);
        }
        for (int64_t i = 0; i < m * n; i++) {
            if (isnan(want[i]) ? isnan(c[i]) : c[i] == want[i]) continue;
            if (!(fabsf(c[i] - want[i]) <= 1e-4f + 1e-5f * fabsf(want[i])))
                fail_msg("case %d element %d: %g, not %g", (int)s, (int)i, (double)c[i], (double)want[i]);
        }
        free(a);
        free(b);
        free(c);
        free(before);
        free(want);
    }
    /* Small throughout: the low parts would be lost. Zero throughout: nothing is. */
    for (int zero = 0; zero < 2; zero++) {
        float *a = noise(m * k, 1), *b = noise(k * n, 2), *c = noise(m * n, 3);
        for (int64_t i = 0; i < m * k; i++)
            a[i] *= zero ? 0 : 1e-30f;
        struct pd_gemm g = into(dense(0, (int64_t[]){m, n, k}, a, b, 0), c);
        assert_int_equal(pd_amx_gemm(&g), zero);
        for (int64_t i = 0; i < m * n && zero; i++)
            assert_true(c[i] == 0);
        free(a);
        free(b);
        free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),       cmocka_unit_test(test_blocked),   cmocka_unit_test(test_double),
        cmocka_unit_test(test_chosen),      cmocka_unit_test(test_blas),      cmocka_unit_test(test_dnnl),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_same_bits), cmocka_unit_test(test_amx),
        cmocka_unit_test(test_amx_threads), cmocka_unit_test(test_amx_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
