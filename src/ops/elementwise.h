/* What ops of two operands share: how shapes line up, and running a kernel over them. */
#ifndef PD_OPS_ELEMENTWISE_H
#define PD_OPS_ELEMENTWISE_H

#include "kernels/broadcast.h"
#include "kernels/ew_binary.h"
#include "program/op.h"

/* Dimensions of both operands at one rank, and of the result. */
struct pd_aligned {
    int rank;
    int64_t x[PD_MAX_RANK], y[PD_MAX_RANK], out[PD_MAX_RANK];
};

/* Inputs 0 and 1, output 0 of `dtype` (PD_DTYPE_NONE: that of input 0), attribute `axis`. */
pd_status pd_elementwise_infer(const struct pd_infer *c, int axis_attr, enum pd_dtype dtype);
/* Runs the kernel of the operands' type. */
pd_status pd_elementwise_run(const struct pd_run *r, const pd_ew_kernel *kernels, int axis);
/* All of that but the run itself, for pd_elementwise_apply. A repeated X that lies where the result goes is
 * copied to scratch memory. */
pd_status pd_elementwise_begin(const struct pd_run *r, const pd_ew_kernel *kernels, int axis,
                               struct pd_bcast *b, struct pd_ew_arrays *arrays, pd_ew_kernel *kernel);
/* The same over shapes that were lined up already. */
void pd_elementwise_apply(const struct pd_bcast *b, pd_ew_kernel kernel, const struct pd_ew_arrays *arrays);

/* ---- gradients ---- */

/* One run of a gradient op. All arrays must be readable: one that is not there is stood for by dout. */
struct pd_ew_grad {
    const struct pd_run *r;
    struct pd_aligned a;
    struct pd_bcast b;
    struct pd_ew_arrays arrays;
    enum pd_dtype dtype;
    int type;
};

/* Lines the operands up and checks that dout has the result's size. Fills all but arrays.out, which is dout.
 */
pd_status pd_ew_grad_begin(struct pd_ew_grad *g, const struct pd_run *r, const struct pd_tensor *x,
                           const struct pd_tensor *y, const struct pd_tensor *dout, int axis);
/* The gradient of one operand, whose lined up sizes are `own` (g->a.x or g->a.y): a value for each element of
 * the result, summed where the operand was repeated. Kernels that are NULL stand for dout itself. `to` may
 * lie where dout lies, if it is the last one that is computed. */
pd_status pd_ew_grad_operand(const struct pd_ew_grad *g, const pd_ew_kernel *kernels, const int64_t *own,
                             struct pd_tensor *to);

#endif
