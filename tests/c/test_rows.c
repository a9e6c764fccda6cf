/* Rows picked by number, update rules over rows, and pooling, each against a plain loop, on one thread and on
 * two. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "kernels/id_map.h"
#include "kernels/rows.h"
#include "kernels/seq_pool.h"
#include "kernels/update.h"

static uint32_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static float *noise(int64_t n)
{
    float *at = malloc((size_t)(n + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++)
        at[i] = (float)draw() / (1 << 23) - 1.0f;
    return at;
}

static int64_t *some_ids(int64_t n, int64_t below)
{
    int64_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int64_t)(draw() % (uint32_t)below);
    return ids;
}

static const int64_t widths[] = {1, 3, 8, 10, 16, 33, 2500};

static void test_group(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 77, 5000}, heights[] = {1, 5, 3000, 1 << 23};
    for (int c = 0; c < 5; c++)
        for (int h = 0; h < 4; h++) {
            int64_t n = counts[c], *ids = some_ids(n, heights[h]);
            if (n == 77) ids[5] = (int64_t)1 << 40;
            void *memory = malloc(pd_rows_group_bytes(n));
            struct pd_rows_groups g;
            pd_rows_group(ids, n, memory, &g);
            int64_t seen = 0;
            for (int64_t k = 0; k < g.n; k++) {
                assert_true(k == 0 || g.row[k] > g.row[k - 1]);
                assert_true(g.start[k + 1] > g.start[k]);
                for (int32_t m = g.start[k]; m < g.start[k + 1]; m++, seen++) {
                    assert_int_equal(ids[g.at[m]], g.row[k]);
                    assert_true(m == g.start[k] || g.at[m] > g.at[m - 1]);
                }
            }
            assert_int_equal(seen, n);
            free(ids);
            free(memory);
        }
}

static void test_copy_and_add(void **state)
{
    (void)state;
    for (int w = 0; w < 7; w++)
        for (int threads = 1; threads <= 2; threads++) {
            int64_t width = widths[w], height = 97, n = 600, *ids = some_ids(n, height),
                    skip = threads == 1 ? -1 : 13;
            float *table = noise(height * width), *rows = noise(n * width),
                  *out = malloc((size_t)(n * width) * 4);
            double *sum = malloc((size_t)(height * width) * 8);
            pd_threads_set(threads);
            pd_rows_copy(out, table, (size_t)width * 4, ids, n, skip);
            for (int64_t i = 0; i < n * width; i++) {
                int64_t id = ids[i / width];
                assert_true(out[i] == (id == skip ? 0 : table[id * width + i % width]));
            }
            for (int64_t i = 0; i < height * width; i++)
                sum[i] = table[i];
            for (int64_t i = 0; i < n * width; i++)
                if (ids[i / width] != skip) sum[ids[i / width] * width + i % width] += 0.5 * rows[i];
            pd_rows_add_f32(table, width, ids, n, rows, 0.5f, skip);
            for (int64_t i = 0; i < height * width; i++)
                assert_true(fabs(table[i] - sum[i]) < 1e-5);
            free(ids), free(table), free(rows), free(out), free(sum);
        }
    pd_threads_set(0);
}

/* What comes out of groups is what adding row by row gives, in any type. */
static void test_sum(void **state)
{
    (void)state;
    for (int w = 0; w < 7; w++)
        for (int threads = 1; threads <= 2; threads++) {
            int64_t width = widths[w], height = 97, n = 600, *ids = some_ids(n, height);
            float *rows = noise(n * width), *table = calloc((size_t)(height * width), 4),
                  *out = malloc((size_t)(n * width) * 4);
            int64_t *whole = malloc((size_t)(n * width) * 8), *sum = malloc((size_t)(n * width) * 8);
            const void **at = malloc((size_t)n * sizeof *at);
            void *memory = malloc(pd_rows_group_bytes(n));
            struct pd_rows_groups g;
            pd_threads_set(threads);
            pd_rows_group(ids, n, memory, &g);
            pd_rows_add_f32(table, width, ids, n, rows, 1, -1);
            for (int64_t i = 0; i < n; i++)
                at[i] = rows + i * width;
            pd_rows_sum_f32(out, width, &g, at);
            for (int64_t i = 0; i < n; i++)
                at[i] = whole + i * width;
            for (int64_t i = 0; i < n * width; i++)
                whole[i] = ids[i / width] + ((int64_t)1 << 40);
            pd_rows_sum_i64(sum, width, &g, at);
            for (int64_t i = 0; i < g.n * width; i++) {
                int64_t k = i / width, row = g.row[k], times = g.start[k + 1] - g.start[k];
                assert_true(out[i] == table[row * width + i % width]);
                assert_true(sum[i] == times * (row + ((int64_t)1 << 40)));
            }
            free(ids), free(rows), free(table), free(out), free(whole), free(sum), free(at), free(memory);
        }
    pd_threads_set(0);
}

static void test_bad_ids(void **state)
{
    (void)state;
    int64_t ids[] = {0, 4, 9, -1, 3};
    int32_t narrow[] = {0, 4, 9, -1, 3};
    assert_int_equal(pd_rows_bad_i64(ids, 5, 10, -1), 3);
    assert_int_equal(pd_rows_bad_i64(ids, 5, 9, -1), 2);
    assert_int_equal(pd_rows_bad_i64(ids, 3, 9, 9), -1);
    assert_int_equal(pd_rows_bad_i32(narrow, 5, 10, -1), 3);
    assert_int_equal(pd_rows_bad_i32(narrow, 3, 10, -1), -1);
}

/* A sparse gradient gives what the dense one gives, for every rule. */
static void test_rules(void **state)
{
    (void)state;
    for (int rule = 0; rule < PD_RULES; rule++)
        for (int w = 0; w < 7; w++)
            for (int threads = 1; threads <= 2; threads++) {
                int64_t width = widths[w], height = 40, n = height * width, count = 25,
                        *ids = some_ids(count, height);
                float *grad = noise(count * width), *dense = calloc((size_t)n, 4), *start[4], *a[4], *b[4];
                for (int k = 0; k < 4; k++) {
                    start[k] = noise(n);
                    a[k] = malloc((size_t)n * 4);
                    b[k] = malloc((size_t)n * 4);
                    for (int64_t i = 0; i < n; i++)
                        start[k][i] = a[k][i] = b[k][i] = k ? fabsf(start[k][i]) + 0.5f : start[k][i];
                }
                pd_rows_add_f32(dense, width, ids, count, grad, 1, -1);
                void *memory = malloc(pd_rows_group_bytes(count));
                struct pd_rows_groups g;
                pd_rows_group(ids, count, memory, &g);
                struct pd_update u = {.rule = (enum pd_rule)rule,
                                      .arrays = 4,
                                      .n = n,
                                      .k = {0.5, 0.25, 0.125, 2.0},
                                      .grad = dense};
                if (rule == PD_RULE_RMSPROP_CENTERED) u.k[2] = 4; /* the root of a sum that is not negative */
                for (int k = 0; k < 4; k++) {
                    u.in[k] = start[k];
                    u.out[k] = a[k];
                }
                pd_threads_set(threads);
                pd_update_run(&u);
                for (int k = 0; k < 4; k++)
                    u.in[k] = u.out[k] = b[k];
                u.grad = grad;
                u.groups = &g;
                u.width = width;
                u.all = 1;
                pd_update_run(&u);
                for (int k = 0; k < 4; k++)
                    for (int64_t i = 0; i < n; i++)
                        if (!(fabsf(a[k][i] - b[k][i]) <= 2e-5f * (1 + fabsf(a[k][i]))))
                            fail_msg("rule %d, width %d, array %d, element %d: %g and %g", rule, (int)width,
                                     k, (int)i, a[k][i], b[k][i]);
                for (int k = 0; k < 4; k++)
                    free(start[k]), free(a[k]), free(b[k]);
                free(ids), free(grad), free(dense), free(memory);
            }
    pd_threads_set(0);
}

static void test_norm(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 17, 8192, 100003};
    for (int s = 0; s < 5; s++) {
        float *x = noise(sizes[s]);
        double sum = 0;
        for (int64_t i = 0; i < sizes[s]; i++)
            sum += (double)x[i] * x[i];
        pd_threads_set(1);
        double one = pd_update_norm(x, 0, sizes[s]);
        pd_threads_set(2);
        assert_true(one == pd_update_norm(x, 0, sizes[s]));
        assert_true(fabs(one - sqrt(sum)) <= 1e-5 * (1 + sqrt(sum)));
        free(x);
    }
    pd_threads_set(0);
}

static void test_pool(void **state)
{
    (void)state;
    for (int how = PD_SEQ_SUM; how <= PD_SEQ_FIRST; how++)
        for (int w = 0; w < 6; w++)
            for (int threads = 1; threads <= 2; threads++) {
                int64_t width = widths[w], sequences = 300, offset[301] = {0};
                for (int64_t s = 0; s < sequences; s++)
                    offset[s + 1] = offset[s] + draw() % 9;
                int64_t rows = offset[sequences];
                float *x = noise(rows * width), *out = noise(sequences * width), *dx = noise(rows * width);
                int32_t *index = malloc((size_t)(sequences * width) * sizeof *index);
                pd_threads_set(threads);
                pd_seq_pool_f32((enum pd_seq_pool)how, x, offset, sequences, width, 7, out, index);
                for (int64_t s = 0; s < sequences; s++)
                    for (int64_t k = 0; k < width; k++) {
                        double sum = 0, top = -9, n = (double)(offset[s + 1] - offset[s]);
                        for (int64_t r = offset[s]; r < offset[s + 1]; r++) {
                            sum += x[r * width + k];
                            if (x[r * width + k] > top) top = x[r * width + k];
                        }
                        double wanted = how == PD_SEQ_SUM       ? sum
                                        : how == PD_SEQ_AVERAGE ? sum / n
                                        : how == PD_SEQ_SQRT    ? sum / sqrt(n)
                                        : how == PD_SEQ_MAX     ? top
                                        : how == PD_SEQ_LAST
                                            ? x[(offset[s + 1] - (n > 0)) * width + (n > 0 ? k : 0)]
                                            : x[offset[s] * width * (n > 0) + (n > 0 ? k : 0)];
                        if (n == 0) wanted = 7;
                        assert_true(fabs(out[s * width + k] - wanted) < 1e-5);
                    }
                pd_seq_pool_grad_f32((enum pd_seq_pool)how, out, index, offset, sequences, width, dx);
                for (int64_t s = 0; s < sequences; s++)
                    for (int64_t k = 0; k < width; k++) {
                        double sum = 0, n = (double)(offset[s + 1] - offset[s]), g = out[s * width + k];
                        for (int64_t r = offset[s]; r < offset[s + 1]; r++)
                            sum += dx[r * width + k];
                        double wanted = n == 0               ? 0
                                        : how == PD_SEQ_SUM  ? g * n
                                        : how == PD_SEQ_SQRT ? g * sqrt(n)
                                                             : g;
                        assert_true(fabs(sum - wanted) < 1e-4);
                    }
                free(x), free(out), free(dx), free(index);
            }
    pd_threads_set(0);
}

static void test_id_map(void **state)
{
    (void)state;
    enum { N = 500 };
    void *memory = malloc(pd_id_map_bytes(N));
    struct pd_id_map map;
    pd_id_map_init(&map, N, memory);
    for (int i = 0; i < N; i++)
        assert_int_equal(pd_id_map_add(&map, (int64_t)i * i * 1000003, i), i);
    for (int i = 0; i < N; i++) {
        assert_int_equal(pd_id_map_get(&map, (int64_t)i * i * 1000003), i);
        assert_int_equal(pd_id_map_add(&map, (int64_t)i * i * 1000003, N + i), i);
    }
    assert_int_equal(pd_id_map_get(&map, 5), -1);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group),  cmocka_unit_test(test_copy_and_add), cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_rules),  cmocka_unit_test(test_norm),         cmocka_unit_test(test_pool),
        cmocka_unit_test(test_id_map), cmocka_unit_test(test_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
