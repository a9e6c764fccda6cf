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
    const void *x, *dy;
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
    struct softmax s = {n, inner, x, NULL, y};
    if (outer * n * inner <= 0) return;
    pd_parallel(outer, 8192 / (n * inner) + 1, is_double ? part_f64 : part_f32, &s);
}

void pd_softmax_grad(int is_double, int64_t outer, int64_t n, int64_t inner, const void *y, const void *dy,
                     void *dx)
{
    struct softmax s = {n, inner, y, dy, dx};
    if (outer * n * inner <= 0) return;
    pd_parallel(outer, 32768 / (n * inner) + 1, is_double ? part_f64 : part_f32, &s);
}
