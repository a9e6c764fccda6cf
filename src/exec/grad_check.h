/* Does what a gradient op gets fit together? Its kernels count on it, and its forward op has seen to it only
 * where the backward pass made the op: the gradient of a target may be fed, and a Program may come from a
 * file.
 *
 * Whenever a gradient op is sized, infer() of its forward op must accept the same inputs and attributes. What
 * it says of an output S holds for the inputs S and S@GRAD. Where an input of the forward op cannot be known,
 * or the op sizes its outputs only by running, S and S@GRAD are compared with each other, and the gradient op
 * checks the rest itself. */
#ifndef PD_EXEC_GRAD_CHECK_H
#define PD_EXEC_GRAD_CHECK_H

#include "exec/plan.h"

struct pd_grad_check;

/* `infer` is what the op is sized with: its arrays must stay. *out is NULL where there is nothing to compare.
 */
pd_status pd_grad_check_new(const struct pd_plan_op *op, const struct pd_infer *infer,
                            struct pd_grad_check **out);
/* Does not allocate, except what infer() of the forward op does. */
pd_status pd_grad_check_run(const struct pd_grad_check *check);
void pd_grad_check_free(struct pd_grad_check *check);

#endif
