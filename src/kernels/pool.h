/* Max and average pooling over up to three axes, and their gradients. */
#ifndef PD_KERNELS_POOL_H
#define PD_KERNELS_POOL_H

#include <stdint.h>

/* Always three axes: leading ones that are not used have size 1, kernel 1, stride 1. */
struct pd_pool {
    int average;       /* else the largest value */
    int exclusive;     /* an average counts only what lies inside */
    int adaptive;      /* windows divide the input evenly; kernel, stride and padding are not read */
    int channels_last; /* [batch, axes..., channels] */
    int64_t batch, channels;
    int64_t in[3], out[3], kernel[3], stride[3], before[3];
};

/* With `index` (channels first only) also where in its plane each largest value was found; -1 for an empty
 * window. */
void pd_pool_forward(const struct pd_pool *pool, int is_double, const void *x, void *y, int32_t *index);
/* The gradient of a maximum goes to the first element that equals it. For averages x and y are not read. dx
 * is zeroed first unless `add` says that it already holds something to add to. */
void pd_pool_backward(const struct pd_pool *pool, int is_double, const void *x, const void *y, const void *dy,
                      void *dx, int add);
/* By the index of the forward pass. */
void pd_pool_backward_index(const struct pd_pool *pool, int is_double, const int32_t *index, const void *dy,
                            void *dx);

#endif
