/* See layer_norm.h. */
#include "kernels/layer_norm.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

struct work {
    int64_t rows, cols;
    double epsilon;
    const void *x, *scale, *bias, *dy;
    void *y, *mean, *variance, *d_scale, *d_bias;
};

#define T float
#define F(name) name##_f32
#include "kernels/layer_norm_loop.h"
#undef T
#undef F

#define T double
#define F(name) name##_f64
#include "kernels/layer_norm_loop.h"
#undef T
#undef F

void pd_layer_norm(int is_double, int64_t rows, int64_t cols, double epsilon, const void *x,
                   const void *scale, const void *bias, void *y, void *mean, void *variance)
{
    struct work w = {.rows = rows,
                     .cols = cols,
                     .epsilon = epsilon,
                     .x = x,
                     .scale = scale,
                     .bias = bias,
                     .y = y,
                     .mean = mean,
                     .variance = variance};
    if (cols > 0) pd_parallel(rows, 16384 / cols + 1, is_double ? forward_f64 : forward_f32, &w);
}

void pd_layer_norm_grad(int is_double, int64_t rows, int64_t cols, double epsilon, const void *x,
                        const void *scale, const void *mean, const void *variance, const void *dy, void *dx,
                        void *d_scale, void *d_bias)
{
    struct work w = {.rows = rows,
                     .cols = cols,
                     .epsilon = epsilon,
                     .x = x,
                     .scale = scale,
                     .dy = dy,
                     .y = dx,
                     .mean = (void *)mean,
                     .variance = (void *)variance,
                     .d_scale = d_scale,
                     .d_bias = d_bias};
    if (cols <= 0) return;
    if (dx) pd_parallel(rows, 16384 / cols + 1, is_double ? backward_f64 : backward_f32, &w);
    if (d_scale || d_bias)
        pd_parallel(cols, 16384 / (rows + 1) + 64, is_double ? columns_f64 : columns_f32, &w);
}
