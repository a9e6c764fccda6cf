/* Adding values of any kind. */
#ifndef PD_OPS_SUM_H
#define PD_OPS_SUM_H

#include "program/op.h"

/* Adds `from` to `to`: tensors, selected rows (rows are put behind those that are there), arrays item by
 * item. An empty `to` becomes a copy. */
pd_status pd_sum_into(struct pd_value *to, const struct pd_value *from);

#endif
