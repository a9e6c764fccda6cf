/* Shared by the ops that run blocks, and by their gradients. */
#ifndef PD_OPS_CONTROL_FLOW_H
#define PD_OPS_CONTROL_FLOW_H

#include "program/grad.h"

/* Reads a condition of one element. `slot` names it in messages. */
pd_status pd_condition_read(const struct pd_tensor *cond, const char *slot, int *holds);
/* No tensor among them is empty: the rule of a conditional_block without a single condition. */
int pd_condition_none_empty(const struct pd_values *values);
/* Output 1, where it is there, keeps the block's runs. Only running can tell the others. */
pd_status pd_control_flow_infer(const struct pd_infer *c);
/* Where the block's runs are kept for the gradient (output 1), emptied; NULL when no op asks for them. */
struct pd_value *pd_control_flow_steps(const struct pd_run *r);

/* ---- block_grad.c: what both gradients share ---- */

/* Names of the forward op's slots in the Program: variables it reads, variables it writes, and its steps. */
struct pd_block_grad {
    const char *type, *in, *out, *steps;
    int loops;
};

/* Makes the gradient op and its block. The op gets the slots IN, OUT, OUT@GRAD, STEPS -> IN@GRAD and, for
 * what the op may leave as it was, OUT@GRAD. *made is not emitted yet. */
pd_status pd_block_grad_make(struct pd_grad_maker *g, const struct pd_block_grad *how,
                             struct pd_opdesc **made);

/* The places of these slots in the tables of the gradient ops. */
enum { PD_GRAD_IN, PD_GRAD_OUT, PD_GRAD_OUT_GRAD, PD_GRAD_STEPS };
enum { PD_GRAD_IN_GRAD, PD_GRAD_LEFT_GRAD };
enum {
    PD_GRAD_SUB_BLOCK,
    PD_GRAD_INNER,
    PD_GRAD_IN_NAMES,
    PD_GRAD_OUT_NAMES,
    PD_GRAD_THROUGH,
    PD_GRAD_LEFT_OF
};
/* Their first attributes, in this order. */
#define PD_GRAD_ATTRS                                                                                        \
    PD_DEF_BLOCK("sub_block"), PD_DEF_STRINGS(PD_GIVEN_ATTR), PD_DEF_STRINGS("original_input"),              \
        PD_DEF_STRINGS("original_output"), PD_DEF_STRINGS("left_through"), PD_DEF_STRINGS("left_of")

pd_status pd_block_grad_infer(const struct pd_infer *c);
/* Gives the gradients of the targets to the block, zeros where none came. */
pd_status pd_block_grad_fill(const struct pd_run *r);
/* Sets *value to the block's gradient of the i-th input; leaves it where the block does not touch that. */
pd_status pd_block_grad_inner(const struct pd_run *r, int i, struct pd_value **value);
/* Is the i-th input also written by the block? *grad is the gradient that came for it then, NULL where none
 * came. */
int pd_block_grad_carries(const struct pd_run *r, int i, struct pd_value **grad);
/* Gradients of what the block overwrites without reading it: none when it ran, else they go on as they are.
 * Those of an array go on with the items that were not overwritten. */
pd_status pd_block_grad_left(const struct pd_run *r, int ran);
/* No gradient: zeros of the same size, no rows where it is selected rows, or an empty array. */
pd_status pd_block_grad_zeros(struct pd_value *to, const struct pd_value *like);

#endif
