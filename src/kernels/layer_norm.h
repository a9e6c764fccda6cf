/* Normalisation of each row of a matrix, and its gradient. Arrays have the element type that `is_double`
 * says. */
#ifndef PD_KERNELS_LAYER_NORM_H
#define PD_KERNELS_LAYER_NORM_H

#include <stdint.h>

/* scale and bias (one per column) may be NULL. mean and variance get one number per row. */
void pd_layer_norm(int is_double, int64_t rows, int64_t cols, double epsilon, const void *x,
                   const void *scale, const void *bias, void *y, void *mean, void *variance);
/* Each of dx, d_scale and d_bias may be NULL. */
void pd_layer_norm_grad(int is_double, int64_t rows, int64_t cols, double epsilon, const void *x,
                        const void *scale, const void *mean, const void *variance, const void *dy, void *dx,
                        void *d_scale, void *d_bias);

#endif
