/* See layer_norm.h. */
#include "kernels/layer_norm.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

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

void pd_layer_norm(const struct pd_layer_norm *n)
{
    if (n->cols <= 0) return;
    pd_parallel(n->rows, 16384 / n->cols + 1, n->is_double ? forward_f64 : forward_f32, (void *)n);
}

void pd_layer_norm_grad(const struct pd_layer_norm_grad *n)
{
    if (n->cols <= 0) return;
    if (n->dx)
        pd_parallel(n->rows, 16384 / n->cols + 1, n->is_double ? backward_f64 : backward_f32, (void *)n);
    if (n->d_scale || n->d_bias)
        pd_parallel(n->cols, 16384 / (n->rows + 1) + 64, n->is_double ? columns_f64 : columns_f32, (void *)n);
}
