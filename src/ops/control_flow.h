/* Shared by control_flow.c and control_flow_grad.c. */
#ifndef PD_OPS_CONTROL_FLOW_H
#define PD_OPS_CONTROL_FLOW_H

#include "program/grad.h"

/* Reads a condition of one element. `slot` names it in messages. */
pd_status pd_condition_read(const struct pd_tensor *cond, const char *slot, int *holds);
/* No tensor among them is empty: the rule of a conditional_block without a single condition. */
int pd_condition_none_empty(const struct pd_values *values);
/* Gradient of conditional_block: a block of its own, run when the forward block ran. */
pd_status pd_conditional_block_grad_make(struct pd_grad_maker *g);

#endif
