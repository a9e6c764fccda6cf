/* The ops of this folder: each line of a list names `const struct pd_op pd_op_<name>`. The set that Programs
 * are made with joins them with the ops of other folders: api/op_list.c.
 *
 * The file of an op has its name, less _grad, _grad2, _v2 or a 2 at the end: lamb.c, one_hot.c. Ops that
 * share one body are in a file whose name is a part of theirs, 2d and 3d left out, and of several such files
 * in the one with the longest name: relu.c has leaky_relu, conv.c depthwise_conv2d. Gradients may be beside
 * it: elementwise_grad.c. tests/python/test_op_files.py checks that, and these, whose names have nothing in
 * common:
 *
 *     compare.c: less_than less_equal greater_than greater_equal equal not_equal
 *     isfinite.c: isinf isnan
 *     math.c: exp log log1p sqrt rsqrt square abs reciprocal cos sin acos asin atan erf ceil floor round
 *     random.c: randint
 */
#ifndef PD_OPS_LIST_H
#define PD_OPS_LIST_H

#include "ops/list_math.h"
#include "ops/list_nn.h"
#include "ops/list_plan.h"
#include "ops/list_shape.h"
#include "ops/list_sparse.h"

#define PD_OPS_ALL(X) PD_OPS_MATH(X) PD_OPS_NN(X) PD_OPS_SHAPE(X) PD_OPS_SPARSE(X)

#endif
