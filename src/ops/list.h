/* The ops of this folder: each line of a list names `const struct pd_op pd_op_<name>`. The set that Programs
 * are made with joins them with the ops of other folders: api/op_list.c.
 *
 * The file of an op: take the op's name without a _grad or _grad2 at its end. Of the files here whose name is
 * contained in that, as it is or without its 2d or 3d, the longest one has the op; of two of one length that
 * which comes first in it. fill_zeros_like is in fill.c, selu_grad in elu.c, depthwise_conv2d in conv.c. A
 * gradient may be in a file beside that one: elementwise_grad.c. Many ops are made by a macro of their file,
 * which often makes the gradient op, too: look there for the bare name, or for what follows the family's
 * prefix (ELEMENTWISE(add).
 *
 * These come before the rule, for their names have nothing in common with that of their file.
 * tests/python/test_op_files.py checks both:
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
