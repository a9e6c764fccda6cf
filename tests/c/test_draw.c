/* Draws: any part of a variable, in memory that has room for just that, is what the whole has there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parallel.h"
#include "ops/draw.h"

static void draw(struct pd_draw *d, uint32_t seed)
{
    struct pd_rng rng = pd_rng_make(3, 4);
    if (seed)
        pd_draw_seeded(d, seed);
    else
        pd_draw_counted(d, &rng);
}

static void check_part(const struct pd_draw *like, uint32_t seed, const char *whole, int64_t height,
                       int64_t width, int64_t begin, int64_t step)
{
    size_t row = (size_t)width * pd_dtype_size(like->dtype);
    struct pd_draw d = *like;
    int64_t rows = (height - begin + step - 1) / step;
    d.n = rows * width;
    d.first = begin * width;
    d.width = width;
    d.step = step * width;
    d.out = malloc((size_t)rows * row);
    assert_non_null(d.out);
    draw(&d, seed);
    for (int64_t i = 0; i < rows; i++)
        assert_memory_equal((char *)d.out + (size_t)i * row, whole + (size_t)(begin + i * step) * row, row);
    free(d.out);
}

static void parts_are_those_of_the_whole(void **state)
{
    (void)state;
    static const struct pd_draw laws[] = {
        {.law = PD_LAW_UNIFORM, .a = -1, .b = 2, .dtype = PD_DTYPE_FP32},
        {.law = PD_LAW_UNIFORM, .a = -1, .b = 2, .dtype = PD_DTYPE_FP64},
        {.law = PD_LAW_NORMAL, .a = 0, .b = 2, .dtype = PD_DTYPE_FP32},
        {.law = PD_LAW_NORMAL, .a = 0, .b = 2, .dtype = PD_DTYPE_FP64},
        {.law = PD_LAW_TRUNCATED, .a = 0, .b = 2, .dtype = PD_DTYPE_FP32},
        {.law = PD_LAW_TRUNCATED, .a = 0, .b = 2, .dtype = PD_DTYPE_FP64},
        {.law = PD_LAW_INTEGER, .a = -7, .b = 1500000000, .dtype = PD_DTYPE_INT32},
        {.law = PD_LAW_INTEGER, .a = 4, .b = 5, .dtype = PD_DTYPE_INT64},
    };
    static const int64_t shapes[][2] = {{1, 1}, {2000, 1}, {777, 3}, {64, 64}, {3, 10007}, {5000, 16}};
    static const int64_t steps[][2] = {{0, 1}, {0, 2}, {1, 3}, {1, 1}, {2, 700}};
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (uint32_t seed = 0; seed <= 90; seed += 90) {
                int64_t height = shapes[s][0], width = shapes[s][1];
                struct pd_draw d = laws[l];
                d.n = height * width;
                d.out = malloc((size_t)d.n * pd_dtype_size(d.dtype));
                assert_non_null(d.out);
                draw(&d, seed);
                for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
                    if (steps[k][0] < height)
                        check_part(&laws[l], seed, d.out, height, width, steps[k][0], steps[k][1]);
                if (height > 1) check_part(&laws[l], seed, d.out, height, width, height - 1, 1);
                free(d.out);
            }
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    enum { N = 400003 };
    static float one[N], many[N];
    for (int law = PD_LAW_UNIFORM; law <= PD_LAW_TRUNCATED; law++)
        for (uint32_t seed = 0; seed <= 5; seed += 5) {
            struct pd_draw d = {
                .law = (enum pd_law)law, .a = 0, .b = 1, .dtype = PD_DTYPE_FP32, .out = one, .n = N};
            pd_threads_set(1);
            draw(&d, seed);
            pd_threads_set(3);
            d.out = many;
            draw(&d, seed);
            pd_threads_set(0);
            assert_memory_equal(one, many, sizeof one);
        }
}

static void nothing_to_draw(void **state)
{
    (void)state;
    for (int law = PD_LAW_UNIFORM; law <= PD_LAW_INTEGER; law++) {
        enum pd_dtype dtype = law == PD_LAW_INTEGER ? PD_DTYPE_INT32 : PD_DTYPE_FP32;
        struct pd_draw d = {.law = (enum pd_law)law, .a = 0, .b = 9, .dtype = dtype, .first = 5, .step = 3};
        draw(&d, 1);
        draw(&d, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_those_of_the_whole),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nothing_to_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
