/* softplus: a smooth max(X, 0). */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_X(softplus, "Out = log(1 + exp(X)).", pd_softplus(x), dout * pd_sigmoid(x))
/* clang-format on */
