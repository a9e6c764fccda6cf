/* What the ops share that normalise (batch, layer, group, instance, data): beside X they take inputs with one
 * number for each channel, Scale and Bias before all; they give Y and then statistics. */
#ifndef PD_OPS_NORM_SLOTS_H
#define PD_OPS_NORM_SLOTS_H

#include "kernels/norm.h"
#include "program/op.h"

/* Inputs 0 to `last` but X, where they are there, have the type of X and n numbers; `what` says what X has n
 * of. */
pd_status pd_norm_slots_check(const struct pd_infer *c, int x, int last, int64_t n, const char *what);
/* Output 0 is like X; outputs 1 to `last`, where they are there, have its type and these dimensions. */
pd_status pd_norm_slots_infer(const struct pd_infer *c, int x, int last, int rank, const int64_t *dim);

/* X, with its channels where the attribute for the layout says. */
struct pd_norm pd_norm_slots_norm(const struct pd_meta *x, const char *layout);

/* X, Scale and Bias; the last two may be missing. */
extern const struct pd_slot_def pd_norm_slots_inputs[];
/* X@GRAD, Scale@GRAD, Bias@GRAD. */
extern const struct pd_slot_def pd_norm_slots_grad_outputs[];

/* Inputs of a gradient op whose forward op gives it X, Mean, Variance, Scale, Bias and Y@GRAD, and its infer.
 */
enum {
    PD_NORM_GRAD_X,
    PD_NORM_GRAD_MEAN,
    PD_NORM_GRAD_VARIANCE,
    PD_NORM_GRAD_SCALE,
    PD_NORM_GRAD_BIAS,
    PD_NORM_GRAD_DY,
    PD_NORM_GRAD_OWN_SLOTS
};
pd_status pd_norm_slots_grad_infer(const struct pd_infer *c);

#endif
