/* What ops of two operands share: how shapes line up, and running a kernel over them. */
#ifndef PD_OPS_ELEMENTWISE_H
#define PD_OPS_ELEMENTWISE_H

#include "kernels/broadcast.h"
#include "ops/math_util.h"

/* Dimensions of both operands at one rank, and of the result. */
struct pd_aligned {
    int rank;
    int64_t x[PD_MAX_RANK], y[PD_MAX_RANK], out[PD_MAX_RANK];
};

/* Lines up the operand of lower rank from dimension `axis` of the other one (-1: the last dimensions). Unknown sizes are
 * carried through. */
pd_status pd_align(const struct pd_meta *x, const struct pd_meta *y, int axis, struct pd_aligned *a);
/* Inputs 0 and 1, output 0 of `dtype` (PD_DTYPE_NONE: that of input 0), attribute `axis`. */
pd_status pd_elementwise_infer(const struct pd_infer *c, int axis_attr, enum pd_dtype dtype);
/* Runs the kernel of the operands' type. */
pd_status pd_elementwise_run(const struct pd_run *r, const pd_ew_kernel *kernels, int axis);

#endif
