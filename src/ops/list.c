/* The one list of ops; see list.h. */
#include "ops/list.h"

#define PD_OPS_ALL(X) PD_OPS_MATH(X) PD_OPS_NN(X) PD_OPS_SHAPE(X) PD_OPS_SPARSE(X)

#define DECLARE(name) extern const struct pd_op pd_op_##name;
PD_OPS_ALL(DECLARE)
#undef DECLARE

#define NAME(name) &pd_op_##name,
static const struct pd_op *const all[] = {PD_OPS_ALL(NAME) 0};
#undef NAME

const struct pd_op_set pd_ops = {all};
