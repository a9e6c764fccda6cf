/* Broadcasting, reductions, random words, conversions and hashing against plain loops, over many shapes and
 * with one and two threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "kernels/ew_binary.h"
#include "kernels/ew_cast.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/xxhash.h"

#define MOST 300000

static double x[MOST], y[MOST], out[MOST], again[MOST];
static char scratch[1 << 22];

static void fill(double *to, int n, int seed)
{
    struct pd_rng rng = pd_rng_make((uint64_t)seed, 1);
    for (int i = 0; i < n; i++)
        to[i] = pd_rng_uniform(&rng, (uint64_t)i) - 0.5;
}

struct add_job {
    struct pd_ew_arrays arrays;
};

static void run_tile(void *arg, const struct pd_tile *tile)
{
    const struct add_job *j = arg;
    pd_ew_add[PD_EW_F64](&j->arrays, tile);
}

static int64_t index_in(int rank, const int64_t *shape, const int64_t *dim, int64_t flat)
{
    int64_t at = 0, step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        int64_t k = flat % shape[i];
        flat /= shape[i];
        if (dim[i] != 1) at += k * step;
        step *= dim[i];
    }
    return at;
}

static void test_broadcast(void **state)
{
    (void)state;
    fill(x, MOST, 1);
    fill(y, MOST, 2);
    srand(3);
    for (int round = 0; round < 400; round++) {
        int rank = 1 + rand() % 5;
        int64_t shape[5], dx[5], dy[5], n = 1;
        for (int i = 0; i < rank; i++) {
            int64_t size = round % 10 == 0 ? 1 + rand() % 40 : 1 + rand() % 5;
            int kind = rand() % 4;
            dx[i] = kind == 1 ? 1 : size;
            dy[i] = kind == 2 ? 1 : size;
            shape[i] = dx[i] > dy[i] ? dx[i] : dy[i];
            n *= shape[i];
        }
        if (n > MOST) continue;
        struct pd_bcast b;
        struct add_job j = {{.to = out, .x = x, .y = y}};
        pd_bcast_make(&b, rank, dx, dy);
        assert_int_equal(b.count, n);
        memset(out, 0, (size_t)n * sizeof *out);
        pd_bcast_run(&b, 64, run_tile, &j);
        for (int64_t i = 0; i < n; i++)
            if (out[i] != x[index_in(rank, shape, dx, i)] + y[index_in(rank, shape, dy, i)])
                fail_msg("element %d of round %d is wrong", (int)i, round);
    }
}

static void test_reduce(void **state)
{
    (void)state;
    fill(x, MOST, 4);
    srand(5);
    for (int round = 0; round < 400; round++) {
        int rank = 1 + rand() % 5;
        int64_t dim[5], kept[5], n = 1, outputs = 1;
        uint8_t gone[5];
        for (int i = 0; i < rank; i++) {
            dim[i] = round % 8 == 0 ? 1 + rand() % 60 : 1 + rand() % 6;
            if (round % 50 == 0 && i == 0) dim[0] = 20000;
            gone[i] = rand() % 2;
            kept[i] = gone[i] ? 1 : dim[i];
            n *= dim[i];
            outputs *= kept[i];
        }
        if (n > MOST) continue;
        struct pd_reduce r;
        const struct pd_reduce_kernel *sum = &pd_reduce_sum[PD_REDUCE_F64];
        pd_reduce_make(&r, rank, dim, gone);
        assert_int_equal(r.outputs, outputs);
        assert_true(pd_reduce_scratch(&r, sum) <= sizeof scratch);
        pd_threads_set(1);
        pd_reduce_run(&r, sum, x, out, scratch);
        pd_threads_set(2);
        pd_reduce_run(&r, sum, x, again, scratch);
        assert_memory_equal(out, again, (size_t)outputs * sizeof *out);
        memset(again, 0, (size_t)outputs * sizeof *again);
        for (int64_t i = 0; i < n; i++)
            again[index_in(rank, dim, kept, i)] += x[i];
        for (int64_t i = 0; i < outputs; i++)
            if (fabs(out[i] - again[i]) > 1e-9) fail_msg("sum %d of round %d is wrong", (int)i, round);
        pd_reduce_run(&r, &pd_reduce_max[PD_REDUCE_F64], x, out, scratch);
        for (int64_t i = 0; i < outputs; i++)
            again[i] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            double *best = &again[index_in(rank, dim, kept, i)];
            if (x[i] > *best) *best = x[i];
        }
        assert_memory_equal(out, again, (size_t)outputs * sizeof *out);
    }
    pd_threads_set(0);
}

/* Long float32 sums stay close to the exact ones. */
static void test_long_sum(void **state)
{
    (void)state;
    static float v[MOST];
    int64_t n = MOST;
    double exact = 0;
    float total;
    struct pd_reduce r;
    for (int i = 0; i < MOST; i++)
        exact += (double)(v[i] = 0.1f + (float)(i % 7) * 1e-3f);
    pd_reduce_make(&r, 1, &n, &(const uint8_t){1});
    pd_reduce_run(&r, &pd_reduce_sum[PD_REDUCE_F32], v, &total, scratch);
    assert_true(fabs((double)total - exact) < 5e-7 * exact);
    double squares = 0;
    for (int i = 0; i < MOST; i++)
        squares += (double)v[i] * (double)v[i];
    pd_reduce_run(&r, &pd_reduce_square[PD_REDUCE_F32], v, &total, scratch);
    assert_true(fabs((double)total - squares) < 5e-7 * squares);
}

static void test_random(void **state)
{
    (void)state;
    struct pd_rng rng = pd_rng_make(123456789012345u, 42);
    uint32_t many[4 * 37], one[4];
    pd_random_words(&rng, 0xfffffff0u, 37, many);
    for (int i = 0; i < 37; i++) {
        pd_rng_block(&rng, 0xfffffff0u + (uint64_t)i, one);
        assert_memory_equal(one, many + 4 * i, sizeof one);
    }
}

static void test_cast(void **state)
{
    (void)state;
    const float f[] = {0, 1.5f, -2.75f, 3e9f, -3e9f, NAN, INFINITY, 65504, 65520, 6e-8f};
    int32_t i32[10];
    uint8_t flag[10];
    uint16_t half[10];
    float back[10];
    pd_cast(PD_CAST_I32, i32, PD_CAST_F32, f, 10);
    assert_true(i32[1] == 1 && i32[2] == -2 && i32[3] == INT32_MAX && i32[4] == INT32_MIN && i32[5] == 0);
    pd_cast(PD_CAST_BOOL, flag, PD_CAST_F32, f, 10);
    assert_true(!flag[0] && flag[1] && flag[2]);
    pd_cast(PD_CAST_F16, half, PD_CAST_F32, f, 10);
    pd_cast(PD_CAST_F32, back, PD_CAST_F16, half, 10);
    assert_true(back[1] == 1.5f && back[2] == -2.75f && isinf(back[3]) && isnan(back[5]) && isinf(back[6]));
    assert_true(back[7] == 65504 && isinf(back[8]) && back[9] == 0x1p-24f);
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t bits = (uint16_t)h, round;
        float value;
        pd_cast(PD_CAST_F32, &value, PD_CAST_F16, &bits, 1);
        pd_cast(PD_CAST_F16, &round, PD_CAST_F32, &value, 1);
        if (!isnan(value)) assert_int_equal(round, bits);
    }
}

static void test_xxhash(void **state)
{
    (void)state;
    assert_true(pd_xxhash64("", 0, 0) == 0xef46db3751d8e999u);
    assert_true(pd_xxhash64("abc", 3, 0) == 0x44bc2cf5ad770999u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast), cmocka_unit_test(test_reduce), cmocka_unit_test(test_long_sum),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_cast),   cmocka_unit_test(test_xxhash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
