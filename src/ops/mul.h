/* What mul, its gradient and the ops of plans that stand for them share. */
#ifndef PD_OPS_MUL_H
#define PD_OPS_MUL_H

#include "program/op.h"

/* The matrices of a product: X is m x k, Y is k x n. */
struct pd_mul_sizes {
    int64_t m, n, k;
};

/* X and Y are inputs 0 and 1; attributes 0 and 1 say where each is cut into rows and columns. */
struct pd_mul_sizes pd_mul_sizes(const struct pd_run *r);
/* The gradient of X for one of the product, which is input 2; nothing where `dx` is NULL. */
void pd_mul_grad_x(const struct pd_run *r, struct pd_tensor *dx);

#endif
