/* Gradients that are plain scale ops: one per variable of an input slot. */
#ifndef PD_OPS_GRAD_SCALE_H
#define PD_OPS_GRAD_SCALE_H

#include "program/grad.h"

/* For each variable of input slot `in`: its gradient is `scale` times that of the variable in output slot
 * `out`. `scale_tensor` names a variable that holds the factor instead; NULL: none. */
pd_status pd_grad_scale(struct pd_grad_maker *g, const char *in, const char *out, float scale,
                        const char *scale_tensor);

#endif
