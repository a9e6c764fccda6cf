/* The ops of this folder: one macro per family file, each line names `const struct pd_op pd_op_<name>`. The set that
 * Programs are made with joins them with the ops of other folders: api/op_list.c. */
#ifndef PD_OPS_LIST_H
#define PD_OPS_LIST_H

#include "ops/list_math.h"
#include "ops/list_nn.h"
#include "ops/list_plan.h"
#include "ops/list_shape.h"
#include "ops/list_sparse.h"

#define PD_OPS_ALL(X) PD_OPS_MATH(X) PD_OPS_NN(X) PD_OPS_SHAPE(X) PD_OPS_SPARSE(X)

#endif
