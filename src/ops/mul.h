/* What mul, its gradient and the ops of plans that stand for them share. */
#ifndef PD_OPS_MUL_H
#define PD_OPS_MUL_H

#include "program/op.h"

/* X and Y are inputs 0 and 1, the gradient of the product is input 2; attributes 0 and 1 say where X and Y
 * are cut into rows and columns. */

/* The gradient of X; nothing where `dx` is NULL. */
void pd_mul_grad_x(const struct pd_run *r, struct pd_tensor *dx);
/* alpha times the gradient of Y, and beta times what `dy` held. */
void pd_mul_grad_y(const struct pd_run *r, double alpha, double beta, struct pd_tensor *dy);

#endif
