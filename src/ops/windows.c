/* See windows.h. */
#include "ops/windows.h"

#include "ops/check.h"

#define WALK(name, T, body)                                                                                  \
    static void name(const struct pd_windows *w, T *x, T *out)                                               \
    {                                                                                                        \
        for (int64_t c = 0; c < w->channels; c++)                                                            \
            for (int64_t i = 0; i < w->kernel[0]; i++)                                                       \
                for (int64_t j = 0; j < w->kernel[1]; j++)                                                   \
                    for (int64_t h = 0; h < w->out[0]; h++) {                                                \
                        int64_t y = h * w->stride[0] - w->up + i * w->dilation[0];                           \
                        int inside = y >= 0 && y < w->height;                                                \
                        T *line = x + (c * w->height + (inside ? y : 0)) * w->width;                         \
                        T *to = out + c * w->by_c + i * w->by_i + j * w->by_j + h * w->by_h;                 \
                        for (int64_t k = 0; k < w->out[1]; k++) {                                            \
                            int64_t at = k * w->stride[1] - w->left + j * w->dilation[1];                    \
                            body                                                                             \
                        }                                                                                    \
                    }                                                                                        \
    }
#define LOOK to[k * w->by_w] = inside && at >= 0 && at < w->width ? line[at] : 0;
#define ADD                                                                                                  \
    if (inside && at >= 0 && at < w->width) line[at] += to[k * w->by_w];
WALK(look_f32, float, LOOK)
WALK(look_f64, double, LOOK)
WALK(add_f32, float, ADD)
WALK(add_f64, double, ADD)

void pd_windows_walk(const struct pd_windows *w, enum pd_dtype dtype, int back, char *x, char *out)
{
    if (dtype == PD_DTYPE_FP32)
        back ? add_f32(w, (float *)x, (float *)out) : look_f32(w, (float *)x, (float *)out);
    else
        back ? add_f64(w, (double *)x, (double *)out) : look_f64(w, (double *)x, (double *)out);
}

int64_t pd_windows_count(int64_t size, int64_t kernel, int64_t dilation, int64_t before, int64_t after,
                         int64_t stride)
{
    return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}

pd_status pd_windows_check(const struct pd_meta *x, const struct pd_attr *kernel,
                           const struct pd_attr *stride, const struct pd_attr *pads,
                           const struct pd_attr *dilation)
{
    if (x->rank != 4)
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [batch, channels, height, width]",
                       pd_meta_dims_text(x));
    PD_TRY(pd_check_float(x, "X"));
    if (kernel->n != 2 || stride->n != 2 || pads->n != 4 || (dilation && dilation->n != 2))
        return pd_fail(
            PD_INVALID,
            "window size and strides take 2 numbers, paddings 4 (up, left, down, right); found %d, %d, %d",
            kernel->n, stride->n, pads->n);
    for (int i = 0; i < 2; i++) {
        int64_t size = x->dim[2 + i], d = dilation ? dilation->ints[i] : 1;
        if (kernel->ints[i] < 1 || stride->ints[i] < 1 || d < 1 || pads->ints[i] < 0 || pads->ints[2 + i] < 0)
            return pd_fail(PD_INVALID,
                           "window %d, stride %d and dilation %lld must be at least 1, paddings at least 0",
                           kernel->ints[i], stride->ints[i], (long long)d);
        if (size >= 0 && size + pads->ints[i] + pads->ints[2 + i] < d * (kernel->ints[i] - 1) + 1)
            return pd_fail(PD_SHAPE,
                           "a window of %d (dilation %lld) does not fit into X of shape %s with its paddings",
                           kernel->ints[i], (long long)d, pd_meta_dims_text(x));
    }
    return PD_OK;
}

void pd_windows_make(const struct pd_meta *x, const struct pd_attr *kernel, const struct pd_attr *stride,
                     const struct pd_attr *pads, const struct pd_attr *dilation, struct pd_windows *w)
{
    *w = (struct pd_windows){.channels = x->dim[1],
                             .height = x->dim[2],
                             .width = x->dim[3],
                             .up = pads->ints[0],
                             .left = pads->ints[1]};
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = kernel->ints[i];
        w->stride[i] = stride->ints[i];
        w->dilation[i] = dilation ? dilation->ints[i] : 1;
        w->out[i] = pd_windows_count(x->dim[2 + i], w->kernel[i], w->dilation[i], pads->ints[i],
                                     pads->ints[2 + i], w->stride[i]);
    }
}

int64_t pd_windows_width(const struct pd_meta *x, const struct pd_attr *kernel)
{
    return x->dim[1] < 0 ? -1 : x->dim[1] * kernel->ints[0] * kernel->ints[1];
}
