/* The parts that normalisations are made of, over an array [outer, channels, inner]: each channel has its own
 * mean, variance and factors. All arrays have the element type that `is_double` says. */
#ifndef PD_KERNELS_NORM_H
#define PD_KERNELS_NORM_H

#include <stdint.h>

struct pd_norm {
    int is_double;
    int64_t outer, channels, inner;
};

/* Mean and variance (divided by the count) of each channel. */
void pd_norm_stats(const struct pd_norm *n, const void *x, void *mean, void *variance);
/* y = x * mul + add */
void pd_norm_apply(const struct pd_norm *n, const void *x, const void *mul, const void *add, void *y);
/* sum_dy = sum(dy); sum_dy_x = sum(dy * (x - mean)) */
void pd_norm_sums(const struct pd_norm *n, const void *x, const void *mean, const void *dy, void *sum_dy,
                  void *sum_dy_x);
/* dx = dy * by_dy + x * by_x + add; with by_x NULL: dx = dy * by_dy */
void pd_norm_blend(const struct pd_norm *n, const void *x, const void *dy, const void *by_dy,
                   const void *by_x, const void *add, void *dx);

#endif
