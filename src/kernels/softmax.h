/* Softmax along one axis of an array [outer, n, inner], and its gradient. Works in place. */
#ifndef PD_KERNELS_SOFTMAX_H
#define PD_KERNELS_SOFTMAX_H

#include <stdint.h>

/* Differences to the largest value are cut at -64, so that no probability is 0 and its logarithm is finite.
 */
void pd_softmax(int is_double, int64_t outer, int64_t n, int64_t inner, const void *x, void *y);
/* Of x[rows, n] + bias[n]. */
void pd_softmax_bias(int is_double, int64_t rows, int64_t n, const void *x, const void *bias, void *y);
/* dx = (dy - sum(dy * y)) * y */
void pd_softmax_grad(int is_double, int64_t outer, int64_t n, int64_t inner, const void *y, const void *dy,
                     void *dx);

#endif
