/* See pool_shape.h. */
#include "ops/pool_shape.h"

#include <string.h>

#include "ops/check.h"
#include "ops/conv_shape.h"
#include "ops/layout.h"

pd_status pd_pool_shape_read(const struct pd_attr *attr, const struct pd_meta *x, const char *format,
                             const char *algorithm, int ceil_mode, struct pd_pool *pool, int64_t *out_dim)
{
    int64_t size[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, before[3] = {0},
            after[3] = {0};
    memset(pool, 0, sizeof *pool);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 4, 5));
    int axes = x->rank - 2, first = pd_layout_channels_last(format) ? 1 : 2;
    pool->channels_last = first == 1;
    pool->adaptive = attr[PD_POOL_ADAPTIVE].b;
    pool->batch = x->dim[0];
    pool->channels = x->dim[first == 1 ? x->rank - 1 : 1];
    for (int i = 0; i < axes; i++)
        size[i] = x->dim[first + i];
    if (attr[PD_POOL_GLOBAL].b)
        memcpy(kernel, size, sizeof kernel);
    else
        PD_TRY(pd_conv_shape_ints(&attr[PD_POOL_KSIZE], "ksize", axes, kernel));
    PD_TRY(pd_conv_shape_ints(&attr[PD_POOL_STRIDES], "strides", axes, stride));
    if (!attr[PD_POOL_GLOBAL].b && !pool->adaptive)
        PD_TRY(pd_conv_shape_padding(&attr[PD_POOL_PADDINGS], algorithm, axes, size, kernel, stride, before,
                                     after));
    out_dim[0] = x->dim[0];
    out_dim[first == 1 ? x->rank - 1 : 1] = pool->channels;
    for (int i = 0; i < 3; i++)
        pool->in[i] = pool->out[i] = pool->kernel[i] = pool->stride[i] = 1;
    for (int i = 0; i < axes; i++) {
        /* C's division rounds towards 0: a window that is too large by less than a stride fits once. */
        int64_t room = size[i] - kernel[i] + before[i] + after[i];
        int64_t out = pool->adaptive ? kernel[i]
                      : size[i] < 0  ? -1
                                     : (room + (ceil_mode ? stride[i] - 1 : 0)) / stride[i] + 1;
        if (size[i] >= 0 && !pool->adaptive && out < 1)
            return pd_fail(
                PD_SHAPE, "The %s of X %s is %lld, too small for windows of %lld with this padding.",
                pd_conv_shape_axis(axes, i), pd_meta_dims_text(x), (long long)size[i], (long long)kernel[i]);
        out_dim[first + i] = out;
        int at = 3 - axes + i;
        pool->in[at] = size[i];
        pool->out[at] = out;
        pool->kernel[at] = kernel[i];
        pool->stride[at] = stride[i];
        pool->before[at] = before[i];
    }
    return PD_OK;
}
