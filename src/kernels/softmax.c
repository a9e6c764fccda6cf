/* See softmax.h. The last axis is done row by row, others in strips of neighbouring columns. */
#include "kernels/softmax.h"

#include <stddef.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/ew_math.h"

enum { STRIP = 64 };

/* Forward: x to y. Gradient: x holds the softmax, y takes dx. */
struct softmax {
    int64_t n, inner;
    const void *x, *dy, *bias; /* bias: NULL, or forward with inner 1 */
    void *y;
};

#define T float
#define F(name) name##_f32
#include "kernels/softmax_loop.h"
#undef T
#undef F

#define T double
#define F(name) name##_f64
#include "kernels/softmax_loop.h"
#undef T
#undef F

void pd_softmax(int is_double, int64_t outer, int64_t n, int64_t inner, const void *x, void *y)
{
    struct softmax s = {n, inner, x, NULL, NULL, y};
    if (outer * n * inner <= 0) return;
    pd_parallel(outer, 8192 / (n * inner) + 1, is_double ? part_f64 : part_f32, &s);
}

void pd_softmax_bias(int is_double, int64_t rows, int64_t n, const void *x, const void *bias, void *y)
{
    struct softmax s = {n, 1, x, NULL, bias, y};
    if (rows * n <= 0) return;
    pd_parallel(rows, 8192 / n + 1, is_double ? part_f64 : part_f32, &s);
}

void pd_softmax_grad(int is_double, int64_t outer, int64_t n, int64_t inner, const void *y, const void *dy,
                     void *dx)
{
    struct softmax s = {n, inner, y, dy, NULL, dx};
    if (outer * n * inner <= 0) return;
    pd_parallel(outer, 32768 / (n * inner) + 1, is_double ? part_f64 : part_f32, &s);
}
