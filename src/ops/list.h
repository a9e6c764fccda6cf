/* The list of all ops: one macro per family file, each line names `const struct pd_op pd_op_<name>`. */
#ifndef PD_OPS_LIST_H
#define PD_OPS_LIST_H

#include "ops/list_math.h"
#include "ops/list_nn.h"
#include "ops/list_shape.h"
#include "ops/list_sparse.h"
#include "program/op.h"

extern const struct pd_op_set pd_ops;

#endif
