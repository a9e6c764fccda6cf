/* Normalisation of each row of a matrix, and its gradient. Arrays have the element type that is_double
 * says. */
#ifndef PD_KERNELS_LAYER_NORM_H
#define PD_KERNELS_LAYER_NORM_H

#include <stdint.h>

struct pd_layer_norm {
    int is_double;
    int64_t rows, cols;
    double epsilon;
    const void *x, *scale, *bias; /* the last two, one number per column, may be NULL */
    void *y, *mean, *variance;    /* the last two get one number per row */
};
void pd_layer_norm(const struct pd_layer_norm *n);

struct pd_layer_norm_grad {
    int is_double;
    int64_t rows, cols;
    double epsilon;
    const void *x, *scale, *mean, *variance, *dy; /* scale may be NULL */
    void *dx, *d_scale, *d_bias;                  /* each may be NULL */
};
void pd_layer_norm_grad(const struct pd_layer_norm_grad *n);

#endif
